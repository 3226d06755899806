//! Files that an earlier version wrote open, are whole, and take changes, as `docs/format-pm.md` promises.
//!
//! `tests/golden/` has a folder for each version of the format, with a map of numbers and one of byte strings: its
//! length, then each page of 4 KiB that is not all zero, behind its place. `TERRACE_WRITE_GOLDEN=N` writes those of version N, once.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use terrace_pm::{Options, PmMap};

fn golden() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

fn options() -> Options {
    Options::new().memory(2 << 20).capacity(32 << 20)
}

const NAMES: [&str; 2] = ["numbers.pm", "strings.pm"];
const PAGE: usize = 4096;

/// Keeps the pages of a file that are not all zero.
fn pack(from: &Path, to: &Path) {
    let bytes = std::fs::read(from).unwrap();
    let mut packed = (bytes.len() as u64).to_le_bytes().to_vec();
    for (number, page) in bytes.chunks(PAGE).enumerate() {
        if page.iter().any(|byte| *byte != 0) {
            packed.extend(((number * PAGE) as u64).to_le_bytes());
            packed.extend(page);
        }
    }
    std::fs::write(to, packed).unwrap();
}

/// The file that was packed.
fn unpack(from: &Path, to: &Path) {
    let packed = std::fs::read(from).unwrap();
    let number = |at: usize| u64::from_le_bytes(packed[at..at + 8].try_into().unwrap()) as usize;
    let mut bytes = vec![0; number(0)];
    for at in (8..packed.len()).step_by(8 + PAGE) {
        bytes[number(at)..][..PAGE].copy_from_slice(&packed[at + 8..][..PAGE]);
    }
    std::fs::write(to, bytes).unwrap();
}

fn numbers() -> BTreeMap<u64, u64> {
    let all = (0..3000u64).map(|i| (i * 7919 % 5000, i * 1_000_003));
    all.filter(|(key, _)| key % 11 != 3).collect()
}

/// Values of up to 3,000 bytes.
fn strings() -> BTreeMap<Vec<u8>, Vec<u8>> {
    let value = |i: usize| vec![i as u8; if i.is_multiple_of(40) { 3000 } else { i % 60 }];
    let all = (0..300usize).map(|i| (format!("key {:04}", i * 7 % 1000).into_bytes(), value(i)));
    all.filter(|(key, _)| !key.ends_with(b"3")).collect()
}

fn write(to: &Path) {
    assert!(
        !to.exists(),
        "{} is there: files of a version are written once",
        to.display()
    );
    std::fs::create_dir_all(to).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let map = PmMap::<u64, u64>::open(dir.path().join("numbers.pm"), options()).unwrap();
    for i in 0..3000u64 {
        map.put(i * 7919 % 5000, i * 1_000_003).unwrap();
    }
    (0..5000u64)
        .filter(|key| key % 11 == 3)
        .for_each(|key| map.delete(key).unwrap());
    map.close().unwrap();
    let map = PmMap::<[u8], [u8]>::open(dir.path().join("strings.pm"), options()).unwrap();
    for (key, value) in strings() {
        map.put(&key[..], &b"older"[..]).unwrap();
        map.put(&key[..], &value[..]).unwrap();
    }
    map.put(&b"gone"[..], &b"1"[..]).unwrap();
    map.delete(&b"gone"[..]).unwrap();
    map.close().unwrap();
    for name in NAMES {
        pack(&dir.path().join(name), &to.join(name));
    }
}

fn check(version: &Path) {
    let dir = tempfile::tempdir().unwrap();
    for name in NAMES {
        unpack(&version.join(name), &dir.path().join(name));
    }
    let path = dir.path().join("numbers.pm");
    let mut wanted = numbers();
    for round in 0..2u64 {
        let map = PmMap::<u64, u64>::open(&path, options()).unwrap();
        assert!(map.verify().unwrap().is_clean());
        assert!(map.iter().map(Result::unwrap).eq(wanted.clone()));
        for key in (0..5000).step_by(7) {
            map.put(key, key + round).unwrap();
            wanted.insert(key, key + round);
        }
        map.close().unwrap();
    }
    let path = dir.path().join("strings.pm");
    let mut wanted = strings();
    for round in 0..2u8 {
        let map = PmMap::<[u8], [u8]>::open(&path, options()).unwrap();
        assert!(map.verify().unwrap().is_clean());
        assert!(map.iter().map(Result::unwrap).eq(wanted.clone()));
        for i in 0..100u8 {
            map.put(&[i][..], &[round; 50][..]).unwrap();
            wanted.insert(vec![i], vec![round; 50]);
        }
        map.close().unwrap();
    }
}

#[test]
fn what_earlier_versions_wrote_is_read_and_changed() {
    if let Ok(version) = std::env::var("TERRACE_WRITE_GOLDEN") {
        write(&golden().join(version));
    }
    let versions = std::fs::read_dir(golden()).unwrap();
    let checked = versions.map(|version| check(&version.unwrap().path()));
    assert!(
        checked.count() > 0,
        "there are no files of earlier versions"
    );
}
