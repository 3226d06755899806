//! Event counters that many threads raise at once without sharing a cache line.

use std::cell::Cell;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Cache lines over which the threads spread.
const LANES: usize = 16;
/// Sets of counters over which they spread where each structure has a set: there may be thousands of
/// structures, and threads that share a set only wait for each other's cache line.
const SETS: usize = 8;

/// A count of some of the threads; all that can be done with it alone is to raise it.
#[derive(Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }
}

#[derive(Default)]
#[repr(align(64))]
struct Lane<T>(T);

thread_local! {
    static THREAD: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT: AtomicUsize = AtomicUsize::new(0);

/// The number of this thread.
#[inline]
fn thread() -> usize {
    THREAD.with(|thread| {
        if thread.get() == usize::MAX {
            thread.set(NEXT.fetch_add(1, Ordering::Relaxed));
        }
        thread.get()
    })
}

/// A counter; exact once its users have stopped.
#[derive(Default)]
pub struct Counter {
    lanes: [Lane<Count>; LANES],
}

impl Counter {
    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u64) {
        self.lanes[thread() % LANES].0.add(n);
    }

    /// The sum.
    pub fn get(&self) -> u64 {
        let counts = self.lanes.iter().map(|lane| &lane.0);
        counts.map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

/// Counters of which each structure has a set; `T` has a [`Count`] for each. Used as a `T` it is the
/// set of the thread, to be raised; the sums are those of all sets.
#[derive(Default)]
pub(crate) struct Sets<T> {
    sets: [Lane<T>; SETS],
}

impl<T> Sets<T> {
    /// The sum of one of the counters; exact once its users have stopped.
    pub fn sum(&self, which: impl Fn(&T) -> &Count) -> u64 {
        let counts = self.sets.iter().map(|set| which(&set.0));
        counts.map(|count| count.0.load(Ordering::Relaxed)).sum()
    }
}

impl<T> Deref for Sets<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.sets[thread() % SETS].0
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Two {
        one: Count,
        other: Count,
    }

    #[test]
    fn what_threads_count_adds_up() {
        let (counter, sets) = (Counter::default(), Sets::<Two>::default());
        std::thread::scope(|scope| {
            for _ in 0..20 {
                scope.spawn(|| {
                    for _ in 0..100 {
                        counter.add(1);
                        sets.one.add(2);
                        sets.other.add(3);
                    }
                });
            }
        });
        assert_eq!(counter.get(), 2000);
        assert_eq!(sets.sum(|two| &two.one), 4000);
        assert_eq!(sets.sum(|two| &two.other), 6000);
    }
}
