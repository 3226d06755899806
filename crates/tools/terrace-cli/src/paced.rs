//! A disk that takes as long as a device of a certain speed would; see `terrace_bench::device`.
//!
//! Every call is made on the disk below at once, which is to be a fast one, and returns when the device
//! would be done. What goes through the cache of the operating system costs nothing until it is handed
//! on: that books the device's time without a wait, and a sync waits.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use terrace::{Disk, DiskFile, DiskRead, Part};
use terrace_bench::device::{Device, Queue};

/// Whether such a disk takes its time, or is as fast as the one below; all clones say the same.
#[derive(Clone, Debug)]
pub struct Pacing(Arc<AtomicBool>);

impl Pacing {
    /// It does.
    pub fn on() -> Pacing {
        Pacing(Arc::new(AtomicBool::new(true)))
    }

    /// From now on it does, or does not.
    pub fn set(&self, on: bool) {
        self.0.store(on, Ordering::Relaxed);
    }
}

/// A disk that takes as long as a device of a certain speed would.
pub struct PacedDisk {
    below: Arc<dyn Disk>,
    clock: Arc<Clock>,
}

/// The device's time.
struct Clock {
    device: Device,
    began: Instant,
    queue: Mutex<Queue>,
    pacing: Pacing,
}

impl Clock {
    fn with<T>(&self, ask: impl FnOnce(&mut Queue, Duration) -> T) -> T {
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        ask(&mut queue, self.began.elapsed())
    }

    /// Books a request; when it is done.
    fn book(&self, bytes: u64) -> Duration {
        if !self.pacing.0.load(Ordering::Relaxed) {
            return Duration::ZERO;
        }
        self.with(|queue, now| queue.take(self.device, now, bytes))
    }

    fn wait_until(&self, done: Duration) {
        let left = done.saturating_sub(self.began.elapsed());
        if !left.is_zero() {
            std::thread::sleep(left);
        }
    }
}

impl PacedDisk {
    /// The disk below, as slow as the device.
    pub fn new(below: Arc<dyn Disk>, device: Device, pacing: Pacing) -> PacedDisk {
        sleep_precisely();
        PacedDisk {
            below,
            clock: Arc::new(Clock {
                device,
                began: Instant::now(),
                queue: Mutex::default(),
                pacing,
            }),
        }
    }

    fn file(&self, below: Arc<dyn DiskFile>, buffered: bool) -> Arc<dyn DiskFile> {
        Arc::new(PacedFile {
            below,
            clock: self.clock.clone(),
            buffered,
            cached: AtomicU64::new(0),
        })
    }
}

/// Lets sleeps of this thread, and of those that it starts, end when they are to: otherwise the system may
/// let them go on for 50 microseconds. Where that cannot be asked for, the latency is longer by as much.
fn sleep_precisely() {
    let _ = std::fs::write("/proc/self/timerslack_ns", "1");
}

impl Disk for PacedDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.below.open(name)?, false))
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.below.create(name)?, false))
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.below.open_buffered(name)?, true))
    }

    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.below.create_buffered(name)?, true))
    }

    fn reuse_buffered(&self, old: &str, new: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
        Ok(self.file(self.below.reuse_buffered(old, new, len)?, true))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.below.delete(name)
    }

    fn folder(&self) -> Option<&std::path::Path> {
        self.below.folder()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        self.below.list()
    }

    fn sync_directory(&self) -> io::Result<()> {
        self.below.sync_directory()?;
        let done = self.clock.book(0);
        self.clock.wait_until(done);
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        self.below.free_bytes()
    }

    /// As if it did: the files below are to be in memory, and what is cached twice there is not what is
    /// measured.
    fn goes_around_cache(&self) -> Option<bool> {
        Some(true)
    }
}

struct PacedFile {
    below: Arc<dyn DiskFile>,
    clock: Arc<Clock>,
    /// Whether it goes through the cache of the operating system.
    buffered: bool,
    /// Bytes that were written there and have not been handed on.
    cached: AtomicU64,
}

impl PacedFile {
    /// Books up to this many of the cached bytes.
    fn hand_on(&self, most: u64) {
        let mut some = 0;
        let take = |cached: u64| {
            some = cached.min(most);
            Some(cached - some)
        };
        // It answers with a value always.
        let _ = self
            .cached
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
        if some > 0 {
            self.clock.book(some);
        }
    }
}

impl DiskFile for PacedFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        let done = self.clock.book(buf.len() as u64);
        self.below.read_at(buf, offset)?;
        self.clock.wait_until(done);
        Ok(())
    }

    fn read_together(
        &self,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        // The device has all of them at once, and gives each when it would be done with it.
        let bytes = |read: &DiskRead<'_>| read.bufs.iter().map(|buf| buf.len() as u64).sum();
        let dues: Vec<Duration> = reads
            .iter()
            .map(|read| self.clock.book(bytes(read)))
            .collect();
        for ((i, read), due) in reads.iter_mut().enumerate().zip(dues) {
            let made = self.below.read_many_at(&mut read.bufs, read.offset);
            self.clock.wait_until(due);
            done(i, read, made);
        }
    }

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        if self.buffered {
            self.below.write_at(buf, offset)?;
            self.cached.fetch_add(buf.len() as u64, Ordering::Relaxed);
            return Ok(());
        }
        let done = self.clock.book(buf.len() as u64);
        self.below.write_at(buf, offset)?;
        self.clock.wait_until(done);
        Ok(())
    }

    fn write_now(&self, buf: &[u8], offset: u64) -> bool {
        let written = self.below.write_now(buf, offset);
        if written {
            self.cached.fetch_add(buf.len() as u64, Ordering::Relaxed);
        }
        written
    }

    fn take_part(&self, offset: u64) -> Option<Part> {
        self.below.take_part(offset)
    }

    fn give_part(&self, part: Part, written: Range<u64>) {
        let bytes = written.end - written.start;
        self.cached.fetch_add(bytes, Ordering::Relaxed);
        self.below.give_part(part, written);
    }

    fn discard(&self, offset: u64, len: u64) {
        self.below.discard(offset, len);
    }

    fn write_back(&self, offset: u64, len: u64) {
        self.below.write_back(offset, len);
        self.hand_on(len);
    }

    fn sync(&self) -> io::Result<()> {
        self.below.sync()?;
        self.hand_on(u64::MAX);
        if self.clock.pacing.0.load(Ordering::Relaxed) {
            let done = self
                .clock
                .with(|queue, now| queue.flush(self.clock.device, now));
            self.clock.wait_until(done);
        }
        Ok(())
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        self.below.allocate(offset, len)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.below.set_len(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.below.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::{DirectIo, FileDisk};

    /// What was booked, in requests of 4 KiB that take a millisecond each.
    fn booked(clock: &Clock) -> u128 {
        clock.with(|queue, _| queue.flush(clock.device, Duration::ZERO).as_millis())
    }

    #[test]
    fn what_is_written_and_read_takes_the_devices_time_and_comes_back() {
        let folder = std::env::temp_dir().join(format!("terrace-paced-{}", std::process::id()));
        let below = FileDisk::open_or_create(&folder, DirectIo::Off).expect("a folder to test in");
        let device = Device::new(250, Duration::ZERO).expect("a slow one");
        let pacing = Pacing::on();
        let disk = PacedDisk::new(Arc::new(below), device, pacing.clone());
        // All that is booked is in the past or the near future, so only differences from one moment to the
        // next are compared, by a queue that stands still.
        let still = |ask: &dyn Fn()| {
            let before = booked(&disk.clock);
            ask();
            booked(&disk.clock) - before
        };
        let file = disk.create_buffered("log").expect("a file");
        assert_eq!(still(&|| file.write_at(&[7; 8192], 0).expect("room")), 0);
        assert!(still(&|| file.write_back(0, 4096)) >= 1);
        assert!(still(&|| file.sync().expect("a sync")) >= 1);
        assert_eq!(
            still(&|| file.sync().expect("nothing is left")),
            0,
            "synced bytes are booked once"
        );
        let mut back = [0; 8192];
        assert!(still(&|| disk.sync_directory().expect("a sync")) >= 1);
        file.read_at(&mut back, 0).expect("what was written");
        assert_eq!(back, [7; 8192]);
        pacing.set(false);
        assert_eq!(still(&|| disk.sync_directory().expect("a sync")), 0);
        pacing.set(true);
        assert!(still(&|| disk.sync_directory().expect("a sync")) >= 1);
        assert_eq!(disk.list().expect("a list"), ["log"]);
        disk.delete("log").expect("it is there");
        drop((file, disk));
        std::fs::remove_dir_all(&folder).expect("it can go");
    }
}
