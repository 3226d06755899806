//! Which inserted records are surely there: the newest one before which no insert is unfinished.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// More inserts than this are never in flight at once.
const IN_FLIGHT: usize = 4096;

/// Hands out the numbers of new records, and knows up to which all are written.
#[derive(Debug)]
pub struct Newest {
    next: AtomicU64,
    finished: AtomicU64,
    /// For the numbers from `finished` on, whether they are written; a ring.
    early: Mutex<Vec<bool>>,
}

impl Newest {
    /// Begins behind `loaded` records that are all there.
    pub fn new(loaded: u64) -> Self {
        Newest {
            next: AtomicU64::new(loaded),
            finished: AtomicU64::new(loaded),
            early: Mutex::new(vec![false; IN_FLIGHT]),
        }
    }

    /// The number of a new record. Waits while one of the last few thousand is still unfinished;
    /// `None` if `stop` says so meanwhile.
    pub fn begin(&self, stop: impl Fn() -> bool) -> Option<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        while number - self.finished() >= IN_FLIGHT as u64 {
            if stop() {
                return None;
            }
            std::thread::yield_now();
        }
        Some(number)
    }

    /// The record of this number is written.
    pub fn finish(&self, number: u64) {
        let mut early = self.early.lock().unwrap_or_else(PoisonError::into_inner);
        let slot = |number: u64| (number % IN_FLIGHT as u64) as usize;
        early[slot(number)] = true;
        let mut finished = self.finished.load(Ordering::Relaxed);
        while std::mem::take(&mut early[slot(finished)]) {
            finished += 1;
        }
        self.finished.store(finished, Ordering::Release);
    }

    /// All records with numbers below this are there.
    #[inline]
    pub fn finished(&self) -> u64 {
        self.finished.load(Ordering::Acquire)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_holds_back_what_is_behind_it() {
        let newest = Newest::new(10);
        let numbers: Vec<u64> = (0..4).map(|_| newest.begin(|| false).unwrap()).collect();
        assert_eq!(numbers, [10, 11, 12, 13]);
        newest.finish(11);
        newest.finish(13);
        assert_eq!(newest.finished(), 10);
        newest.finish(10);
        assert_eq!(newest.finished(), 12);
        newest.finish(12);
        assert_eq!(newest.finished(), 14);
    }

    #[test]
    fn threads_finish_everything() {
        let newest = Newest::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..20_000 {
                        let number = newest.begin(|| false).unwrap();
                        newest.finish(number);
                    }
                });
            }
        });
        assert_eq!(newest.finished(), 80_000);
    }

    #[test]
    fn a_stuck_insert_does_not_stop_the_end() {
        let newest = Newest::new(0);
        for _ in 0..IN_FLIGHT {
            assert!(newest.begin(|| true).is_some());
        }
        assert_eq!(newest.begin(|| true), None);
    }
}
