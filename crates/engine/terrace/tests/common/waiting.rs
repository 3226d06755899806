//! Reads that wait for a page without a thread, and a disk on which the thread that reads for them stops where a test
//! wants it to. With it whether a future waits does not depend on how fast anything is.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use terrace::fault::reader_rests;
use terrace::{Database, Error, Map, Options, Result, aio};
use terrace_sim::{Call, Fault, HookedDisk, Injection, Op, SimDisk};

use super::tiny;

/// Records of a database that has a few times less memory.
pub const RECORDS: u32 = 12_000;

/// Stops the thread that reads for those who wait, or has it panic.
#[derive(Default)]
pub struct Gate {
    is_closed: Mutex<bool>,
    opened: Condvar,
    /// How many reads this thread has begun.
    reads: AtomicU64,
    is_waited_at: AtomicBool,
    panics: AtomicBool,
}

impl Gate {
    /// Until it is opened, or what this returns is dropped: a test that fails closes its database, and that waits for
    /// the thread.
    pub fn close(&self) -> Opens<'_> {
        *self.is_closed.lock().unwrap() = true;
        Opens(self)
    }

    pub fn open(&self) {
        *self.is_closed.lock().unwrap() = false;
        self.opened.notify_all();
    }

    /// The next read panics, and those after it.
    pub fn panic(&self) {
        self.panics.store(true, Ordering::SeqCst);
        self.open();
    }

    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Whether the thread waits for it to open.
    pub fn is_waited_at(&self) -> bool {
        self.is_waited_at.load(Ordering::SeqCst)
    }

    fn pass(&self) {
        if std::thread::current().name() != Some("terrace-reader") {
            return;
        }
        self.reads.fetch_add(1, Ordering::SeqCst);
        let mut is_closed = self.is_closed.lock().unwrap();
        while *is_closed {
            self.is_waited_at.store(true, Ordering::SeqCst);
            is_closed = self.opened.wait(is_closed).unwrap();
        }
        self.is_waited_at.store(false, Ordering::SeqCst);
        drop(is_closed);
        assert!(!self.panics.load(Ordering::SeqCst), "of the disk");
    }
}

/// Opens a gate when it is dropped.
#[must_use]
pub struct Opens<'a>(&'a Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

/// Sleeps until something is so that is going to be so.
pub fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn key(i: u32) -> Vec<u8> {
    i.wrapping_mul(0x9E37_79B1).to_be_bytes().to_vec()
}

pub fn value(key: &[u8]) -> Vec<u8> {
    key.repeat(50)
}

/// A database with threads, of `memory` bytes of memory, with more data than that.
pub fn database(disk: &SimDisk, memory: u64) -> (Arc<Gate>, Database, Map) {
    let options = tiny(1).memory(memory).foreground(false);
    let (gate, db) = opened(disk, options);
    let tree = (*db.tree("a").unwrap()).clone();
    (0..RECORDS).for_each(|i| tree.put(key(i), value(&key(i))).unwrap());
    (gate, db, tree)
}

/// Opens one behind a gate, which is open.
pub fn opened(disk: &SimDisk, options: Options) -> (Arc<Gate>, Database) {
    let gate = Arc::<Gate>::default();
    let of_disk = gate.clone();
    let disk = HookedDisk::new(disk.shared(), move |call| {
        if matches!(call, Call::Read(_)) {
            of_disk.pass();
        }
    });
    (gate, Database::open_on(Arc::new(disk), options).unwrap())
}

/// Keys of `count` records that are not in memory.
pub fn cold(map: &Map, count: usize) -> Vec<Vec<u8>> {
    let is_cold = |key: &Vec<u8>| {
        let answer = map.get_if_resident(key, &mut Vec::new());
        answer.unwrap().is_none()
    };
    let keys: Vec<_> = (0..RECORDS).map(key).filter(is_cold).take(count).collect();
    assert_eq!(keys.len(), count);
    keys
}

/// A read under way.
pub type Read = Pin<Box<dyn Future<Output = Result<Option<Vec<u8>>>> + Send>>;

/// A read of this key, which was not polled yet.
pub fn read(map: &aio::Map, key: &[u8]) -> Read {
    let (map, key) = (map.clone(), key.to_vec());
    Box::pin(async move { map.get(key).await })
}

/// One poll.
pub fn poll(read: &mut Read) -> Poll<Result<Option<Vec<u8>>>> {
    read.as_mut().poll(&mut Context::from_waker(Waker::noop()))
}

/// Reads of these keys that wait behind a gate that is closed, and the thread that reads does so too. At least half:
/// threads in the background read pages too, and who waited for one of those looks again.
pub fn waiting(
    gate: &Gate,
    db: &Database,
    map: &aio::Map,
    keys: &[Vec<u8>],
) -> Vec<(Vec<u8>, Read)> {
    let mut all: Vec<_> = keys
        .iter()
        .map(|key| (key.clone(), read(map, key)))
        .collect();
    loop {
        all.retain_mut(|(key, read)| match poll(read) {
            Poll::Pending => true,
            Poll::Ready(found) => {
                assert_eq!(found.unwrap(), Some(value(key)));
                false
            }
        });
        assert!(all.len() * 2 >= keys.len(), "{} wait", all.len());
        until(|| gate.is_waited_at() || reader_rests(db));
        if gate.is_waited_at() {
            return all;
        }
    }
}

/// What a read has come to that was told.
pub fn told(read: &mut Read) -> Result<Option<Vec<u8>>> {
    match poll(read) {
        Poll::Ready(found) => found,
        Poll::Pending => panic!("nobody has told it"),
    }
}

/// Of reads whose thread finds that the disk fails, most have this error. Threads in the background bring pages in too:
/// who waited for one of those looks again, and may wait for another page.
pub fn most_fail(db: &Database, reads: &mut [(Vec<u8>, Read)]) {
    let mut failed = 0;
    for (key, read) in &mut *reads {
        // A path from the root has a few pages.
        let told = (0..4).find_map(|_| {
            until(|| reader_rests(db));
            match poll(read) {
                Poll::Ready(told) => Some(told),
                Poll::Pending => None,
            }
        });
        match told.expect("nobody has told it") {
            Err(Error::Io { .. }) => failed += 1,
            found => assert_eq!(found.unwrap(), Some(value(key))),
        }
    }
    assert!(failed * 2 > reads.len(), "{failed} of {}", reads.len());
}

/// Closes a database while the thread that reads is stopped: who asks finds it closed before that goes on.
pub fn close_meanwhile(db: &Database, map: &Map, gate: &Gate) -> Result<()> {
    std::thread::scope(|scope| {
        let closes = scope.spawn(|| db.clone().close());
        until(|| map.get_if_resident(key(0), &mut Vec::new()).is_err());
        gate.open();
        closes.join().unwrap()
    })
}

/// Who waits for a page is told when it cannot be read, and when the database is closed.
pub fn everybody_who_waits_is_told() {
    let disk = SimDisk::new(1);
    let (gate, db, tree) = database(&disk, 1 << 20);
    let all = aio::Database::with_threads(db.clone(), 1).unwrap();
    let (map, keys) = (all.map(&tree), cold(&tree, 100));

    let _opens = gate.close();
    let mut some = waiting(&gate, &db, &map, &keys[..40]);
    disk.inject(Injection {
        forever: true,
        file: Some("data".into()),
        ..Injection::at(Op::Read, 1, Fault::Eio)
    });
    gate.open();
    most_fail(&db, &mut some);
    disk.heal();

    let _opens = gate.close();
    let mut all = waiting(&gate, &db, &map, &keys);
    close_meanwhile(&db, &tree, &gate).unwrap();
    for (_, read) in &mut all {
        assert!(matches!(told(read), Err(Error::Invalid { .. })));
    }
}
