//! Long work beside others: how fast it goes, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What work that nothing is said of reads in a second: as a checkpoint that nothing presses.
const GENTLE_BYTES_PER_SECOND: u64 = 16 << 20;
/// What would take longer than this many seconds goes faster.
const LONGEST_SECONDS: u64 = 600;
/// What it reads at once: others wait for no more.
const GENTLE_BATCH_BYTES: usize = 64 << 10;
/// The same where nothing is left to others: past a mebibyte no device gains.
const FAST_BATCH_BYTES: usize = 1 << 20;

/// How fast a backup or a compaction goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Rate {
    /// 16 MiB a second, or what takes ten minutes: so slowly that others hardly notice.
    #[default]
    Gentle,
    /// So many bytes a second.
    BytesPerSecond(u64),
    /// As fast as it goes.
    Fast,
}

/// Ends work that goes on elsewhere. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct Cancel(Arc<AtomicBool>);

impl Cancel {
    /// One that has not been used.
    pub fn new() -> Cancel {
        Cancel::default()
    }

    /// The work that it was given to ends soon, with [`crate::Error::Cancelled`].
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether that was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Leaves the device to others.
pub(crate) struct Pace {
    /// Bytes in a second; `None` for as fast as it goes.
    rate: Option<u64>,
    began: Instant,
    done: u64,
}

impl Pace {
    /// For work of so many bytes that begins now.
    pub fn new(rate: Rate, bytes: u64) -> Pace {
        let rate = match rate {
            Rate::Gentle => Some(GENTLE_BYTES_PER_SECOND.max(bytes / LONGEST_SECONDS)),
            Rate::BytesPerSecond(rate) => Some(rate.max(1)),
            Rate::Fast => None,
        };
        Pace {
            rate,
            began: Instant::now(),
            done: 0,
        }
    }

    /// Bytes of pages of this size to read at once.
    pub fn batch(&self, page_bytes: usize) -> usize {
        let bytes = match self.rate {
            Some(_) => GENTLE_BATCH_BYTES,
            None => FAST_BATCH_BYTES,
        };
        (bytes / page_bytes).max(1) * page_bytes
    }

    /// So many more bytes are done: waits until they may be.
    pub fn after(&mut self, bytes: u64) {
        self.done += bytes;
        if let Some(rate) = self.rate {
            let due = Duration::from_secs_f64(self.done as f64 / rate as f64);
            std::thread::sleep(due.saturating_sub(self.began.elapsed()));
        }
    }
}
