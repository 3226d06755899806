//! How long a change waits for merging: a little while the top is nearly full, and for one step when it is.
//!
//! Steps are made one at a time, by a thread in the background, or by who finds the top full. Who finds
//! a thread at work waits for the end of that step, and then goes on: no caller waits for two.
//!
//! Invariant: whoever is at work waits for no guard of large values. A step may free them, and who waits for its
//! end may be writing one: it would wait for a cut, and the cut for that writer. So it has its guard before, or
//! takes one where that takes no waiting, and gives the step up where a cut is in the way.

use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_pages::{LargeGuard, PageStore};

use crate::fault::{self, Fault};

/// Share of its bound in hundredths from which on changes are slowed down.
const SLOW: u64 = 75;
/// The longest that one change is slowed down: much less than a step takes.
const LONGEST: u64 = 1_000_000;
/// Shorter waits are saved up: a thread cannot sleep for less.
const LEAST: u64 = 100_000;
/// The weight of the last step in the rate at which steps take records out, as one over it: one in several is from the
/// top.
const WEIGHT: u64 = 32;

/// Nanoseconds that a change of `bytes` bytes is to wait for where the top has `leaves` of `bound`, and steps
/// take `drain` bytes out in a second (0: no thread is at work). Nothing below three quarters; at the bound as
/// long as steps take for as many bytes.
pub(crate) fn delay(leaves: u64, bound: u64, bytes: u64, drain: u64) -> u64 {
    let share = leaves.saturating_mul(100) / bound.max(1);
    if drain == 0 || share <= SLOW {
        return 0;
    }
    let above = (share - SLOW).min(100 - SLOW);
    let whole = bytes.saturating_mul(1_000_000_000) / drain;
    (whole.saturating_mul(above) / (100 - SLOW)).min(LONGEST)
}

/// How fast steps take records out of the top, and what changes still have to wait for.
#[derive(Default)]
pub(crate) struct Pace {
    /// Bytes a second; 0 while no thread is at work in the background.
    drain: AtomicU64,
    /// Bytes that steps took out of the top lately, and nanoseconds that they took, the older the less.
    lately: Mutex<(u64, u64)>,
    /// When the changes of until now are to have come, and since when that is counted.
    due: Mutex<Arrivals>,
}

struct Arrivals {
    since: Instant,
    at: u64,
}

impl Default for Arrivals {
    fn default() -> Arrivals {
        Arrivals {
            since: Instant::now(),
            at: 0,
        }
    }
}

impl Arrivals {
    /// A change that comes at `now` is to take so long, after those before it: how long it waits. No change waits for
    /// long, whatever others still have to wait for.
    fn take(&mut self, now: u64, delay: u64) -> u64 {
        self.at = (self.at.max(now) + delay).min(now + LONGEST);
        match self.at - now {
            wait if wait < LEAST => 0,
            wait => wait,
        }
    }
}

impl Pace {
    /// A step has taken `bytes` bytes out of the top: none if it was one of a level below, which has to be made as well
    /// for those that have come before.
    pub fn note(&self, bytes: u64, took: Duration) {
        let (out, time) = &mut *self.lately.lock();
        *out = *out - *out / WEIGHT + bytes;
        *time = *time - *time / WEIGHT + took.as_nanos() as u64;
        if *out > 0 {
            let drain = u128::from(*out) * 1_000_000_000 / u128::from((*time).max(1));
            self.drain.store((drain as u64).max(1), Ordering::Relaxed);
        }
    }

    /// No thread is at work in the background.
    pub fn rest(&self) {
        self.drain.store(0, Ordering::Relaxed);
    }

    /// How long this change is to sleep for, if at all.
    pub fn wait_for(&self, leaves: u64, bound: u64, bytes: u64) -> Option<Duration> {
        let delay = delay(leaves, bound, bytes, self.drain.load(Ordering::Relaxed));
        if delay == 0 {
            return None;
        }
        let mut due = self.due.lock();
        let now = due.since.elapsed().as_nanos() as u64;
        let wait = due.take(now, delay);
        (wait > 0).then(|| Duration::from_nanos(wait))
    }
}

/// Something of which there is one, and who wants it meanwhile.
#[derive(Default)]
pub(crate) struct Work<T> {
    one: Mutex<T>,
    ended: Mutex<u64>,
    end: Condvar,
}

/// It is this thread's.
pub(crate) struct AtWork<'w, T> {
    // Let go of before others are told.
    one: MutexGuard<'w, T>,
    _end: End<'w>,
    _large: Option<LargeGuard<'w>>,
}

/// Tells those who wait.
struct End<'w>(&'w Mutex<u64>, &'w Condvar);

impl Drop for End<'_> {
    fn drop(&mut self) {
        *self.0.lock() += 1;
        self.1.notify_all();
    }
}

impl<T> Work<T> {
    /// Takes it with a guard, and waits as long as that takes. No cut is made until it ends.
    pub fn begin<'w>(&'w self, store: &'w PageStore) -> AtWork<'w, T> {
        let large = guard(store);
        self.of(self.one.lock(), large)
    }

    /// The same without a guard: to look at what steps change, or to make one that is given up for a cut.
    pub fn keep(&self) -> AtWork<'_, T> {
        self.of(self.one.lock(), None)
    }

    /// Takes it if no thread has it.
    pub fn try_keep(&self) -> Option<AtWork<'_, T>> {
        Some(self.of(self.one.try_lock()?, None))
    }

    /// Takes it, or waits until the thread that has it now has let go of it, and returns without.
    pub fn begin_or_wait(&self) -> Option<AtWork<'_, T>> {
        let ended = *self.ended.lock();
        if let Some(one) = self.one.try_lock() {
            return Some(self.of(one, None));
        }
        // Whoever has it ends after this was looked at.
        let mut now = self.ended.lock();
        while *now == ended {
            self.end.wait(&mut now);
        }
        None
    }

    fn of<'w>(&'w self, one: MutexGuard<'w, T>, large: Option<LargeGuard<'w>>) -> AtWork<'w, T> {
        AtWork {
            one,
            _end: End(&self.ended, &self.end),
            _large: large,
        }
    }
}

/// See the invariant.
fn guard(store: &PageStore) -> Option<LargeGuard<'_>> {
    (!fault::planted(Fault::LateGuard)).then(|| store.large_guard())
}

impl<T> Deref for AtWork<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.one
    }
}

impl<T> DerefMut for AtWork<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.one
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn changes_are_slowed_down_only_where_the_top_is_nearly_full() {
        // A mebibyte a second: 128 bytes take 122 microseconds.
        let at = |leaves| delay(leaves, 100, 128, 1 << 20);
        assert_eq!([at(0), at(50), at(75)], [0; 3]);
        assert!(at(80) > 0 && at(80) < at(90) && at(90) < at(100));
        assert_eq!(at(100), 128 * 1_000_000_000 / (1 << 20));
        assert_eq!(at(100), at(1000));
        assert_eq!(delay(100, 100, 128, 0), 0, "nobody takes anything out");
        assert_eq!(delay(100, 100, u64::MAX, 1), LONGEST);
        assert_eq!(delay(u64::MAX, 0, 1, 1), LONGEST);
    }

    /// Whatever comes in slower than steps take out, the top does not fill: the slower it drains, the longer
    /// a change waits, until both are the same.
    #[test]
    fn what_waits_as_it_should_never_fills_the_top() {
        for drain in [1 << 18, 1 << 20, 1 << 24] {
            // Bytes in the top, of 100 leaves of 16 KiB, while changes of 128 bytes come as fast as they may.
            let (leaf, bound) = (16_384u64, 100u64);
            let (mut bytes, mut nanos) = (0u64, 0u64);
            for _ in 0..400_000 {
                bytes += 128;
                // A change takes a microsecond beside its waiting.
                let wait = 1_000 + delay(bytes / leaf, bound, 128, drain);
                nanos += wait;
                let out = nanos * drain / 1_000_000_000;
                nanos -= out * 1_000_000_000 / drain;
                bytes = bytes.saturating_sub(out);
                let slow = 128 * 1_000_000_000 / drain > LONGEST;
                assert!(
                    slow || bytes / leaf <= bound,
                    "drain {drain}: {bytes} bytes"
                );
            }
        }
    }

    /// However many wait at once, they come as fast as steps take out together, and not each.
    #[test]
    fn those_who_wait_share_the_rate() {
        let mut due = Arrivals::default();
        // Eight changes that come at once and are to take a tenth of a millisecond each.
        let waits: Vec<u64> = (0..8).map(|_| due.take(0, LEAST)).collect();
        let steps: Vec<u64> = (1..=8).map(|n| n * LEAST).collect();
        assert_eq!(waits, steps);
        // No change waits for long, and what no change waited for is forgotten.
        assert_eq!(due.take(0, u64::MAX / 2), LONGEST);
        assert_eq!(due.take(2 * LONGEST, LEAST / 2), 0, "saved up");
        assert_eq!(due.take(2 * LONGEST, LEAST / 2), LEAST);
    }

    /// The time of steps that take nothing out of the top counts: they are made for what came before.
    #[test]
    fn all_steps_count_for_how_fast_records_go() {
        let pace = Pace::default();
        let millis = Duration::from_millis;
        assert_eq!(pace.wait_for(100, 100, 128), None);
        for _ in 0..1000 {
            pace.note(1 << 20, millis(5));
            (0..4).for_each(|_| pace.note(0, millis(5)));
        }
        let drain = pace.drain.load(Ordering::Relaxed);
        let mean = (1 << 20) * 40;
        assert!(drain > mean * 8 / 10 && drain < mean * 12 / 10, "{drain}");
        pace.rest();
        assert_eq!(pace.wait_for(100, 100, 1 << 20), None);
    }

    #[test]
    fn who_finds_it_taken_waits_for_one_end() {
        let work = Arc::new(Work::<u64>::default());
        let first = work.keep();
        let waiter = {
            let work = work.clone();
            std::thread::spawn(move || work.begin_or_wait().is_none())
        };
        // Either it has come to wait, and hears of the end, or it finds the work free.
        drop(first);
        let _ = waiter.join().unwrap();
        assert!(work.begin_or_wait().is_some());
    }
}
