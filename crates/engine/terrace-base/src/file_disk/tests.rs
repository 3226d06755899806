//! Tests of the real disk, in temporary directories.

use super::*;
use crate::AlignedBuf;

fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary directory")
}

#[test]
fn a_second_handle_is_refused_until_the_first_is_gone() {
    let dir = directory();
    let first = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
    assert!(matches!(
        FileDisk::open(dir.path(), DirectIo::Off),
        Err(Error::Locked { .. })
    ));
    drop(first);
    FileDisk::open(dir.path(), DirectIo::Off).unwrap();
}

#[test]
fn what_is_discarded_takes_no_space_and_the_rest_stays() {
    use std::os::unix::fs::MetadataExt;
    let dir = directory();
    let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
    let file = disk.create("file").unwrap();
    let mut block = AlignedBuf::zeroed(1 << 20);
    block.fill(7);
    for i in 0..4 {
        file.write_at(&block, i << 20).unwrap();
    }
    file.sync().unwrap();
    let taken = || std::fs::metadata(dir.path().join("file")).unwrap().blocks() * 512;
    let before = taken();
    file.discard(1 << 20, 2 << 20);
    assert_eq!(file.len().unwrap(), 4 << 20);
    for i in [0, 3] {
        file.read_at(&mut block, i << 20).unwrap();
        assert!(block.iter().all(|byte| *byte == 7));
    }
    let after = taken();
    // Where the file system knows no holes it says so, and nothing has happened.
    let other = std::fs::File::create(dir.path().join("other")).unwrap();
    other.set_len(1 << 20).unwrap();
    let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(&other, flags, 0, 1 << 20) {
        Ok(()) => assert!(after <= before - (2 << 20), "{before}, {after}"),
        Err(_) => assert_eq!(after, before),
    }
}

#[test]
fn a_lock_that_was_deleted_by_its_owner_is_nobodys() {
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    let dir = directory();
    let lock = dir.path().join(LOCK_FILE);
    let (owned, owners, twice) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2000 {
                    let Ok(disk) = FileDisk::open(dir.path(), DirectIo::Off) else {
                        continue;
                    };
                    owners.fetch_add(1, SeqCst);
                    twice.fetch_add(u64::from(owned.swap(true, SeqCst)), SeqCst);
                    // As who takes back what it has made, while it still has the lock.
                    owned.store(false, SeqCst);
                    std::fs::remove_file(&lock).unwrap();
                    drop(disk);
                }
            });
        }
    });
    assert!(owners.into_inner() > 0);
    assert_eq!(twice.into_inner(), 0);
}

#[test]
fn a_missing_directory_is_made_only_if_asked() {
    let dir = directory();
    let path = dir.path().join("a/b");
    assert!(matches!(
        FileDisk::open(&path, DirectIo::Off),
        Err(Error::Io { .. })
    ));
    std::fs::write(dir.path().join("notes"), "").unwrap();
    let above = |path: &Path| made_above(path).len();
    assert_eq!(
        made_above(&path),
        [dir.path().join("a"), dir.path().to_owned()]
    );
    FileDisk::open_or_create(&path, DirectIo::Off).unwrap();
    assert!(path.is_dir());
    // With a database in it there is nothing to do; empty, as a crash leaves it, there is.
    assert_eq!(above(&path), 0);
    std::fs::create_dir(dir.path().join("c")).unwrap();
    assert_eq!(above(&dir.path().join("c")), 1);
}

#[test]
fn files_hold_what_was_written_in_every_mode() {
    for mode in [DirectIo::Preferred, DirectIo::Off] {
        let dir = directory();
        let disk = FileDisk::open(dir.path(), mode).unwrap();
        let file = disk.create("data").unwrap();
        file.allocate(0, 65536).unwrap();
        assert_eq!(file.len().unwrap(), 65536);
        let mut block = AlignedBuf::zeroed(8192);
        block.fill(7);
        file.write_at(&block, 4096).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        let mut back = AlignedBuf::zeroed(65536);
        disk.open("data").unwrap().read_at(&mut back, 0).unwrap();
        assert!(back[..4096].iter().all(|&b| b == 0));
        assert!(back[4096..12288].iter().all(|&b| b == 7));
        let end = file.read_at(&mut back, 4096).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(disk.list().unwrap(), ["data"]);
        assert!(disk.free_bytes().unwrap() > 0);
        disk.delete("data").unwrap();
        assert!(disk.list().unwrap().is_empty());
        assert_eq!(
            disk.open("data").err().unwrap().kind(),
            io::ErrorKind::NotFound
        );
    }
}

#[test]
fn buffered_files_take_any_offset_beside_direct_ones() {
    let dir = directory();
    let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
    let file = disk.create_buffered("log").unwrap();
    file.write_at(b"abc", 5).unwrap();
    let mut back = [0; 4];
    disk.open_buffered("log")
        .unwrap()
        .read_at(&mut back, 4)
        .unwrap();
    assert_eq!(&back, b"\0abc");
}

#[test]
fn a_file_that_is_used_again_has_another_name_and_only_zeros() {
    let dir = directory();
    let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
    let file = disk.create_buffered("old").unwrap();
    file.allocate(0, 65536).unwrap();
    file.write_at(&[7; 65536], 0).unwrap();
    let other_length = disk.reuse_buffered("old", "new", 4096).err().unwrap();
    assert_eq!(other_length.kind(), io::ErrorKind::InvalidInput);
    let file = match disk.reuse_buffered("old", "new", 65536) {
        Err(e) if e.kind() == io::ErrorKind::Unsupported => return,
        reused => reused.unwrap(),
    };
    assert_eq!(disk.list().unwrap(), ["new"]);
    let mut back = vec![1; 65536];
    file.read_at(&mut back, 0).unwrap();
    assert!(back.iter().all(|&byte| byte == 0));
    file.write_at(b"abc", 5).unwrap();
    file.sync().unwrap();
    disk.sync_directory().unwrap();
    let again = disk.open_buffered("new").unwrap();
    again.read_at(&mut back, 0).unwrap();
    assert_eq!((&back[5..8], back[8]), (&b"abc"[..], 0));
    let gone = disk.reuse_buffered("old", "new", 65536).err().unwrap();
    assert_eq!(gone.kind(), io::ErrorKind::NotFound);
}

#[test]
fn the_directory_stays_the_same_when_it_gets_another_name() {
    let dir = directory();
    let [here, there] = ["here", "there"].map(|name| dir.path().join(name));
    std::fs::create_dir(&here).unwrap();
    let disk = FileDisk::open(&here, DirectIo::Preferred).unwrap();
    disk.create("first").unwrap();
    std::fs::rename(&here, &there).unwrap();
    // Another one by the old name, with files of the same names.
    std::fs::create_dir(&here).unwrap();
    std::fs::write(here.join("first"), "theirs").unwrap();
    std::fs::write(here.join("log"), "theirs").unwrap();
    disk.open("first").unwrap();
    disk.create("second").unwrap();
    let log = disk.create_buffered("log").unwrap();
    log.set_len(4096).unwrap();
    if let Err(e) = disk.reuse_buffered("log", "next", 4096) {
        assert_eq!(e.kind(), io::ErrorKind::Unsupported);
    }
    disk.delete("first").unwrap();
    let mut names = disk.list().unwrap();
    names.retain(|name| name != "log" && name != "next");
    assert_eq!(names, ["second"]);
    disk.sync_directory().unwrap();
    for name in ["first", "log"] {
        assert_eq!(std::fs::read(here.join(name)).unwrap(), b"theirs");
    }
    assert_eq!(std::fs::read_dir(&here).unwrap().count(), 2);
    assert!(there.join("second").exists());
}

#[test]
fn names_cannot_leave_the_directory_or_touch_the_lock() {
    let dir = directory();
    let disk = FileDisk::open(dir.path(), DirectIo::Off).unwrap();
    for name in ["", ".", "..", "../x", "a/b", LOCK_FILE] {
        assert_eq!(
            disk.create(name).err().unwrap().kind(),
            io::ErrorKind::InvalidInput,
            "{name}"
        );
        assert_eq!(
            disk.delete(name).err().unwrap().kind(),
            io::ErrorKind::InvalidInput,
            "{name}"
        );
    }
}

#[test]
fn an_allocation_that_cannot_be_had_changes_nothing() {
    let dir = directory();
    let disk = FileDisk::open(dir.path(), DirectIo::Off).unwrap();
    let file = disk.create("big").unwrap();
    file.set_len(4096).unwrap();
    assert!(file.allocate(0, 1 << 62).is_err());
    assert_eq!(file.len().unwrap(), 4096);
}
