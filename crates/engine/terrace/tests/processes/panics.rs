//! A panic, of the program or of the engine: what was acknowledged is there after the next opening, what
//! was left half done is not, and no thread waits for ever.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace::{Database, Disk, DiskFile, Error, Map, MapOptions, Options, encode};
use terrace_sim::SimDisk;

use crate::common::{self, SHAPES, named, tiny};

fn is_poisoned<T>(result: terrace::Result<T>) -> bool {
    matches!(result, Err(Error::Poisoned { .. }))
}

fn value(key: u64, version: u64) -> Vec<u8> {
    let len = 20 + (key * 7 + version * 13) % 150;
    [key.to_le_bytes(), version.to_le_bytes()]
        .concat()
        .repeat(len as usize / 16 + 1)
}

/// Each key as it was acknowledged, and as it was asked to be last.
type Records = BTreeMap<u64, (Option<Vec<u8>>, Option<Vec<u8>>)>;

fn change(map: &Map, records: &mut Records, round: u64) -> terrace::Result<()> {
    let key = round * 37 % 500;
    let new = (!round.is_multiple_of(5)).then(|| value(key, round));
    let record = records.entry(key).or_default();
    record.1.clone_from(&new);
    match &new {
        Some(value) => map.put(encode::u64(key), value)?,
        None => map.delete(encode::u64(key))?,
    }
    record.0.clone_from(&new);
    Ok(())
}

#[test]
fn a_panic_between_two_changes_of_pages_is_none_of_the_next_opening() {
    let mut panicked = 0;
    for shape in SHAPES {
        for after in [0, 1, 2, 3, 5, 8, 13, 40, 100] {
            let disk = SimDisk::new(1);
            let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
            let map = common::create(&db, "map", shape, MapOptions::new()).unwrap();
            let mut records = Records::new();
            for round in 0..400 {
                change(&map, &mut records, round).unwrap();
            }
            terrace_pages::panic_after(Some(after));
            let done = catch_unwind(AssertUnwindSafe(|| {
                (400..800).for_each(|round| change(&map, &mut records, round).unwrap());
            }));
            terrace_pages::panic_after(None);
            panicked += u64::from(done.is_err());
            let what = format!("{}, after {after}", named(shape));
            if done.is_err() {
                assert!(is_poisoned(map.get("key")), "{what}");
                assert!(is_poisoned(map.put("key", "")), "{what}");
                assert!(is_poisoned(
                    map.iter_unordered()
                        .and_then(|mut all| all.next().transpose())
                ));
                assert!(is_poisoned(db.checkpoint()), "{what}");
                assert!(is_poisoned(db.verify()), "{what}");
            }
            drop((map, db));
            let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
            let problems = db.verify().unwrap().problems;
            assert!(problems.is_empty(), "{what}: {problems:?}");
            let map = db.map("map").unwrap();
            for (key, (acknowledged, asked)) in &records {
                let found = map.get(encode::u64(*key)).unwrap();
                assert!(found == *acknowledged || found == *asked, "{what}: {key}");
            }
        }
    }
    assert!(panicked > 50, "{panicked}");
}

#[test]
fn a_panic_among_threads_ends_all_their_calls() {
    for after in [0, 3, 50] {
        let disk = SimDisk::new(1);
        let db = Database::open_on(disk.shared(), tiny(1).foreground(false)).unwrap();
        let tree = db.tree("tree").unwrap();
        let ended = |thread: u64| {
            let mut round = thread;
            loop {
                round += 4;
                let key = encode::u64(round * 31 % 3000);
                let done = match thread % 2 {
                    0 => tree.put(key, value(round, 1)),
                    _ => tree.get(key).map(|_| ()),
                };
                if done.is_err() {
                    return is_poisoned(done);
                }
            }
        };
        let started = std::sync::Barrier::new(5);
        std::thread::scope(|scope| {
            let (started, ended, tree) = (&started, &ended, &tree);
            let workers: Vec<_> = (0..4)
                .map(|thread| {
                    scope.spawn(move || {
                        started.wait();
                        ended(thread)
                    })
                })
                .collect();
            let panics = scope.spawn(move || {
                started.wait();
                terrace_pages::panic_after(Some(after));
                (0..10_000u64).for_each(|i| tree.put(encode::u64(i % 3000), value(i, 2)).unwrap());
            });
            assert!(panics.join().is_err());
            for worker in workers {
                assert!(worker.join().unwrap());
            }
        });
        drop((tree, db));
        let db = Database::open_on(disk.shared(), tiny(2)).unwrap();
        assert!(db.verify().unwrap().is_clean());
    }
}

#[test]
fn the_last_handle_that_goes_in_a_panic_makes_no_checkpoint() {
    let disk = SimDisk::new(1);
    let done = catch_unwind(AssertUnwindSafe(|| {
        let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
        db.tree("tree").unwrap().put("key", "value").unwrap();
        panic!("a fault of the program");
    }));
    assert!(done.is_err());
    let db = Database::open_on(disk.shared(), tiny(1)).unwrap();
    assert!(db.stats().opening.replayed_records > 0);
    let value = db.tree("tree").unwrap().get("key").unwrap();
    assert_eq!(value.as_deref(), Some(&b"value"[..]));
}

#[test]
fn a_program_that_writes_while_it_unwinds_stops_nothing() {
    struct Writes(Map);
    impl Drop for Writes {
        fn drop(&mut self) {
            (0..500u64).for_each(|i| self.0.put(encode::u64(i), value(i, 1)).unwrap());
        }
    }
    let db = Database::open_on(SimDisk::new(1).shared(), tiny(1)).unwrap();
    let tree = db.tree("tree").unwrap();
    let done = catch_unwind(AssertUnwindSafe(|| {
        let _writes = Writes((*tree).clone());
        panic!("a fault of the program");
    }));
    assert!(done.is_err());
    let asks = catch_unwind(AssertUnwindSafe(|| {
        tree.update("key", |_| -> Option<Vec<u8>> {
            panic!("a fault of the program")
        })
    }));
    assert!(asks.is_err());
    tree.put("key", "value").unwrap();
    assert_eq!(tree.iter().unwrap().count(), 501);
    assert!(db.verify().unwrap().is_clean());
}

/// Names of the threads of this process.
fn threads() -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let name = |task: io::Result<std::fs::DirEntry>| {
        std::fs::read_to_string(task.unwrap().path().join("comm")).unwrap_or_default()
    };
    tasks.map(name).collect()
}

#[test]
fn a_verification_whose_listener_panics_leaves_everything_running() {
    let test = "panics::a_verification_whose_listener_panics_leaves_everything_running";
    if super::child().is_none() {
        let directory = tempfile::tempdir().unwrap();
        assert!(super::run_child(test, directory.path()).success());
        return;
    }
    let demoters = || {
        let all = threads();
        let is_one = |name: &&String| name.trim() == "terrace-demoter";
        all.iter().filter(is_one).count()
    };
    // A thread has its name a moment after it was started. The bound is only there for a failure to end.
    let comes = || {
        let end = Instant::now() + Duration::from_secs(20);
        while demoters() != 1 && Instant::now() < end {
            std::thread::yield_now();
        }
        demoters() == 1
    };
    let options = tiny(1).foreground(false);
    let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
    let tree = db.tree("tree").unwrap();
    (0..2000u64).for_each(|i| tree.put(encode::u64(i), value(i, 1)).unwrap());
    assert!(comes());
    let done = catch_unwind(AssertUnwindSafe(|| {
        db.verify_with(|_| panic!("a fault of the program"))
    }));
    assert!(done.is_err());
    assert!(comes());
    tree.put("key", "value").unwrap();
    assert!(db.verify().unwrap().is_clean());
    assert!(comes());
}

/// A disk on which one thread panics.
struct Panicking {
    disk: Arc<dyn Disk>,
    thread: &'static str,
    armed: Arc<AtomicBool>,
}

struct PanickingFile {
    file: Arc<dyn DiskFile>,
    thread: &'static str,
    armed: Arc<AtomicBool>,
}

fn panic_here(thread: &str, armed: &AtomicBool) {
    if std::thread::current().name() == Some(thread) && armed.swap(false, Ordering::SeqCst) {
        panic!("a panic that a test has asked for");
    }
}

impl Panicking {
    fn file(&self, file: io::Result<Arc<dyn DiskFile>>) -> io::Result<Arc<dyn DiskFile>> {
        panic_here(self.thread, &self.armed);
        Ok(Arc::new(PanickingFile {
            file: file?,
            thread: self.thread,
            armed: self.armed.clone(),
        }))
    }
}

impl Disk for Panicking {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.open(name))
    }
    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.create(name))
    }
    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.open_buffered(name))
    }
    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.file(self.disk.create_buffered(name))
    }
    fn delete(&self, name: &str) -> io::Result<()> {
        panic_here(self.thread, &self.armed);
        self.disk.delete(name)
    }
    fn list(&self) -> io::Result<Vec<String>> {
        self.disk.list()
    }
    fn sync_directory(&self) -> io::Result<()> {
        panic_here(self.thread, &self.armed);
        self.disk.sync_directory()
    }
    fn free_bytes(&self) -> io::Result<u64> {
        self.disk.free_bytes()
    }
}

impl DiskFile for PanickingFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        panic_here(self.thread, &self.armed);
        self.file.read_at(buf, offset)
    }
    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        panic_here(self.thread, &self.armed);
        self.file.write_at(buf, offset)
    }
    fn sync(&self) -> io::Result<()> {
        panic_here(self.thread, &self.armed);
        self.file.sync()
    }
    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.file.allocate(offset, len)
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }
    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }
}

/// Many times as many as it takes until every thread in the background has something to do.
const MOST_WRITTEN: u64 = 500_000;

#[test]
fn a_panic_of_a_thread_in_the_background_stops_the_database() {
    use terrace::Kind::{Lsm, Tree};
    for (thread, kind) in [
        ("terrace-checkpointer", Tree),
        ("terrace-cleaner", Tree),
        ("terrace-log", Tree),
        ("terrace-demoter", Tree),
        ("terrace-merger", Lsm),
        ("terrace-drops", Tree),
    ] {
        let disk = SimDisk::new(1);
        let armed = Arc::new(AtomicBool::new(false));
        let panicking = Panicking {
            disk: disk.shared(),
            thread,
            armed: armed.clone(),
        };
        let options = || -> Options { tiny(1).foreground(false) };
        let db = Database::open_on(Arc::new(panicking), options()).unwrap();
        // More than the memory holds, so that dropping it reads.
        let dropped = db.tree("dropped").unwrap();
        for i in 0..20_000u64 {
            dropped.put(encode::u64(i), value(i, 1)).unwrap();
        }
        drop(dropped);
        let map = db.create_map("map", kind, MapOptions::new()).unwrap();
        map.put("key", "value").unwrap();
        armed.store(true, Ordering::SeqCst);
        db.drop_structure("dropped").unwrap();
        // In no order, so that pages below are read for them.
        let key = |i: u64| encode::u64(i.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let mut written = 0u64;
        let error = loop {
            match map.put(key(written), value(written, 1)) {
                Ok(()) => written += 1,
                Err(error) => break error,
            }
            assert!(written < MOST_WRITTEN, "{thread} has not panicked");
        };
        assert!(matches!(error, Error::Poisoned { .. }), "{thread}: {error}");
        drop(map);
        assert!(db.close().is_err(), "{thread}");
        let db = Database::open_on(disk.shared(), options()).unwrap();
        assert!(db.verify().unwrap().is_clean());
        let map = db.map("map").unwrap();
        for i in 0..written {
            assert_eq!(map.get(key(i)).unwrap(), Some(value(i, 1)), "{thread}: {i}");
        }
    }
}
