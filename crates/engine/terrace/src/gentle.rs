//! Long work beside others: how fast it goes, and how it is ended.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use terrace_base::{Error, Result};

/// What work that nothing is said of reads in a second: as a checkpoint that nothing presses.
const GENTLE_BYTES_PER_SECOND: u64 = 16 << 20;
/// What would take longer than this many seconds goes faster.
const LONGEST_SECONDS: u64 = 600;
/// What it reads at once: others wait for no more.
const GENTLE_BATCH_BYTES: usize = 64 << 10;
/// The same where nothing is left to others: past a mebibyte no device gains.
const FAST_BATCH_BYTES: usize = 1 << 20;

/// At a low rate it reads so little at once that this many batches are read in a second, down to a page.
const BATCHES_PER_SECOND: u64 = 8;
/// A pause is cut into slices of this length: so soon a cancel is heard.
const SLICE: Duration = Duration::from_millis(20);
/// What a slow device or a checkpoint kept it from is made up for up to this much: else it would go as fast
/// as it can for as long as it stood still.
const MOST_BEHIND: Duration = Duration::from_millis(250);
/// No step is paused for longer, whatever the rate: so that times can be added.
const LONGEST_PAUSE: Duration = Duration::from_secs(24 * 3600);

/// How fast a backup or a compaction goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Rate {
    /// 16 MiB a second, or what takes ten minutes: so slowly that others hardly notice.
    #[default]
    Gentle,
    /// This many bytes a second; 0 is an error.
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

impl Rate {
    /// An error for a rate at which nothing would ever be done.
    ///
    /// # Errors
    /// `Invalid`.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Rate::BytesPerSecond(0) => Err(Error::invalid(
                "at no bytes a second nothing is ever done; name a rate, or Rate::Gentle",
            )),
            _ => Ok(()),
        }
    }
}

/// Leaves the device to others.
pub(crate) struct Pace {
    /// Bytes in a second; `None` for as fast as it goes.
    rate: Option<u64>,
    /// When what was done so far should have been done.
    due: Instant,
    /// Ends pauses early.
    cancel: Option<Cancel>,
}

impl Pace {
    /// For work of `bytes` bytes that begins now. No pause outlasts `cancel`.
    pub fn new(rate: Rate, bytes: u64, cancel: Option<&Cancel>) -> Pace {
        let rate = match rate {
            Rate::Gentle => Some(GENTLE_BYTES_PER_SECOND.max(bytes / LONGEST_SECONDS)),
            Rate::BytesPerSecond(rate) => Some(rate.max(1)),
            Rate::Fast => None,
        };
        Pace {
            rate,
            due: Instant::now(),
            cancel: cancel.cloned(),
        }
    }

    /// Bytes of pages of this size to read at once: at a low rate no more than it gives in a moment.
    pub fn batch(&self, page_bytes: usize) -> usize {
        let bytes = match self.rate {
            Some(rate) => GENTLE_BATCH_BYTES.min((rate / BATCHES_PER_SECOND) as usize),
            None => FAST_BATCH_BYTES,
        };
        (bytes / page_bytes).max(1) * page_bytes
    }

    /// `bytes` more bytes are done: waits until they may be, and calls `beside` now and then meanwhile.
    pub fn after(&mut self, bytes: u64, beside: &mut dyn FnMut()) {
        let Some(rate) = self.rate else { return };
        let now = Instant::now();
        // Whoever was kept from it does not make up for all of that at once.
        let from = now.checked_sub(MOST_BEHIND).unwrap_or(now).max(self.due);
        let takes = Duration::from_secs_f64(bytes as f64 / rate as f64);
        self.due = from + takes.min(LONGEST_PAUSE);
        loop {
            let left = self.due.saturating_duration_since(Instant::now());
            if left.is_zero() || self.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                return;
            }
            std::thread::sleep(left.min(SLICE));
            beside();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cancel_ends_a_pause_that_would_take_hours() {
        let cancel = Cancel::new();
        let mut pace = Pace::new(Rate::BytesPerSecond(1), 1 << 20, Some(&cancel));
        assert_eq!(pace.batch(4096), 4096);
        let began = Instant::now();
        let mut slices = 0;
        pace.after(4096, &mut || {
            slices += 1;
            if slices == 3 {
                cancel.cancel();
            }
        });
        assert_eq!(slices, 3);
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn what_was_missed_is_not_made_up_for_at_once() {
        let mut pace = Pace::new(Rate::BytesPerSecond(1 << 20), 0, None);
        // As after an hour in which nothing could be done.
        pace.due = Instant::now()
            .checked_sub(Duration::from_secs(3600))
            .unwrap_or(pace.due);
        let began = Instant::now();
        for _ in 0..8 {
            pace.after(64 << 10, &mut || ());
        }
        // Half a second of work, of which this much may have been missed.
        let least = Duration::from_millis(500) - MOST_BEHIND;
        assert!(began.elapsed() >= least, "{:?}", began.elapsed());
    }

    #[test]
    fn bytes_in_a_second_are_no_more_than_the_rate() {
        let mut pace = Pace::new(Rate::BytesPerSecond(1 << 20), 0, None);
        let began = Instant::now();
        (0..4).for_each(|_| pace.after(64 << 10, &mut || ()));
        assert!(began.elapsed() >= Duration::from_millis(249));
        assert!(Rate::BytesPerSecond(0).check().is_err());
        assert!(Rate::BytesPerSecond(1).check().is_ok());
    }
}
