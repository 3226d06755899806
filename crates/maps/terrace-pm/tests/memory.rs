//! The one memory number, counted by the allocator: opening, writing and reading stay within it.
#![cfg(not(feature = "shuttle"))]

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::AtomicI64;
use std::sync::atomic::Ordering::Relaxed;

use terrace_pm::{Options, PmMap};

struct Counting;

static NOW: AtomicI64 = AtomicI64::new(0);
static MOST: AtomicI64 = AtomicI64::new(0);

fn changed(by: i64) {
    let now = NOW.fetch_add(by, Relaxed) + by;
    MOST.fetch_max(now, Relaxed);
}

// SAFETY: everything is handed on to the allocator of the system; counting changes nothing of it.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        changed(layout.size() as i64);
        // SAFETY: as the caller promises for this layout.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        changed(-(layout.size() as i64));
        // SAFETY: `at` came from `alloc` above with this layout.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// One at a time: all of them are counted together.
static TURN: Mutex<()> = Mutex::new(());

/// What a map may take beyond its number: windows of ranges, a drain's lists, stacks of threads that open.
const BESIDE: i64 = 400 << 10;

fn most(work: impl FnOnce()) -> i64 {
    let before = NOW.load(Relaxed);
    MOST.store(before, Relaxed);
    work();
    MOST.load(Relaxed) - before
}

fn folder() -> tempfile::TempDir {
    let shared = Path::new("/dev/shm");
    if shared.is_dir() {
        return tempfile::tempdir_in(shared).unwrap();
    }
    tempfile::tempdir().unwrap()
}

fn path(folder: &tempfile::TempDir) -> PathBuf {
    folder.path().join("map.pm")
}

fn key(i: u64) -> u64 {
    i.wrapping_mul(0x9E37_79B9_7F4A_7C15)
}

#[test]
fn numbers_stay_within_their_memory_when_written_and_when_opened() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder();
    let memory = 1 << 20;
    let options = || Options::new().memory(memory).capacity(256 << 20);
    let limit = memory as i64 + BESIDE;
    let taken = most(|| {
        let map = PmMap::<u64, u64>::open(path(&folder), options()).unwrap();
        for i in 0..200_000 {
            map.put(key(i), i).unwrap();
        }
        map.crash();
    });
    assert!(taken <= limit, "written: {taken} of {limit}");
    let taken = most(|| {
        let map = PmMap::<u64, u64>::open(path(&folder), options()).unwrap();
        assert!(map.stats().replayed > 10_000, "{:?}", map.stats());
        assert_eq!(map.iter().count(), 200_000);
        map.crash();
    });
    assert!(taken <= limit, "opened: {taken} of {limit}");
}

#[test]
fn byte_strings_stay_within_their_memory_when_written_and_when_opened() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder();
    let memory = 2 << 20;
    let options = || Options::new().memory(memory).capacity(512 << 20);
    let limit = memory as i64 + BESIDE;
    let bytes = |i: u64| key(i).to_be_bytes().repeat(2);
    let taken = most(|| {
        let map = PmMap::<[u8], [u8]>::open(path(&folder), options()).unwrap();
        for i in 0..300_000u64 {
            map.put(bytes(i % 120_000), vec![i as u8; 16]).unwrap();
        }
        map.crash();
    });
    assert!(taken <= limit, "written: {taken} of {limit}");
    let taken = most(|| {
        let map = PmMap::<[u8], [u8]>::open(path(&folder), options()).unwrap();
        assert_eq!(map.iter().count(), 120_000);
        let opened = MOST.load(Relaxed);
        println!("opened {opened} in all: {:?}", map.stats());
        // All that was deleted is free, and what is free takes little.
        for i in 0..120_000u64 {
            map.delete(bytes(i)).unwrap();
        }
        assert_eq!(map.iter().count(), 0);
        map.crash();
    });
    assert!(taken <= limit, "opened: {taken} of {limit}");
}

#[test]
fn ranges_over_large_values_hold_few_of_them() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder();
    let options = Options::new().memory(4 << 20).capacity(512 << 20);
    let map = PmMap::<u64, [u8]>::open(path(&folder), options).unwrap();
    for i in 0..300u64 {
        map.put(i, vec![i as u8; 500_000]).unwrap();
    }
    let taken = most(|| {
        for (i, pair) in map.iter().enumerate() {
            let (key, value) = pair.unwrap();
            assert!(key == i as u64 && value.len() == 500_000 && value[7] == i as u8);
        }
        for (i, pair) in map.iter().rev().enumerate() {
            let (key, value) = pair.unwrap();
            assert!(key == 299 - i as u64 && value.len() == 500_000);
        }
    });
    assert!(taken <= 4 << 20, "{taken} bytes for a range");
}

#[test]
fn a_large_log_is_replayed_by_several_threads() {
    let _turn = TURN.lock().unwrap_or_else(|e| e.into_inner());
    let folder = folder();
    for threads in [1, 4] {
        let path = folder.path().join(format!("{threads}.pm"));
        let options = || {
            let options = Options::new().memory(8 << 20).capacity(128 << 20);
            options.threads(threads)
        };
        let map = PmMap::<u64, u64>::open(&path, options()).unwrap();
        for i in 0..60_000 {
            map.put(key(i), i).unwrap();
        }
        map.crash();
        let map = PmMap::<u64, u64>::open(&path, options()).unwrap();
        assert!(map.stats().replayed >= 20_000, "{:?}", map.stats());
        for i in 0..60_000 {
            assert_eq!(map.get(key(i)).unwrap(), Some(i));
        }
        assert!(map.verify().unwrap().is_clean());
    }
}
