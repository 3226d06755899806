//! Sets of event counters that many threads raise at once without sharing a cache line.

use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use terrace_base::thread_number;

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

/// Structures may have a set for each few threads until these take one part in this many of the memory. Those
/// beyond have one set each: of that number most are asked for little.
const WIDE_PART: u64 = 256;
/// This many structures have them however little memory there is.
const LEAST_WIDE: usize = 16;

/// How many structures have more than one set, and how many may.
pub(crate) struct Wide {
    there: AtomicUsize,
    most: usize,
}

impl Wide {
    /// For this much memory.
    pub fn new(memory: u64) -> Arc<Wide> {
        let most = memory / WIDE_PART / (SETS as u64 * 128);
        Arc::new(Wide {
            there: AtomicUsize::new(0),
            most: usize::try_from(most).unwrap_or(usize::MAX).max(LEAST_WIDE),
        })
    }
}

/// Counters of which each structure has a set; `T` has a [`Count`] for each. Used as a `T` it is the
/// set of the thread, to be raised; the sums are those of all sets.
pub(crate) struct Sets<T> {
    sets: Box<[Lane<T>]>,
    /// Where this one is counted, if it has a set for each few threads.
    wide: Option<Arc<Wide>>,
}

impl<T: Default> Sets<T> {
    /// Zeros; `wide` counts the structures that have more than one set.
    pub fn new(wide: &Arc<Wide>) -> Sets<T> {
        let is_wide = wide.there.fetch_add(1, Ordering::Relaxed) < wide.most;
        if !is_wide {
            wide.there.fetch_sub(1, Ordering::Relaxed);
        }
        let sets = if is_wide { SETS } else { 1 };
        Sets {
            sets: (0..sets).map(|_| Lane::default()).collect(),
            wide: is_wide.then(|| wide.clone()),
        }
    }
}

impl<T> Drop for Sets<T> {
    fn drop(&mut self) {
        if let Some(wide) = &self.wide {
            wide.there.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl<T> Sets<T> {
    /// Bytes of memory beside itself.
    pub fn memory_bytes(&self) -> usize {
        size_of_val(&*self.sets)
    }

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
        // Their number is a power of two.
        &self.sets[thread_number() & (self.sets.len() - 1)].0
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use terrace_base::Counter;

    use super::*;

    #[derive(Default)]
    struct Two {
        one: Count,
        other: Count,
    }

    #[test]
    fn what_threads_count_adds_up() {
        let wide = Wide::new(0);
        let many: Vec<Sets<Two>> = (0..LEAST_WIDE).map(|_| Sets::new(&wide)).collect();
        let (wide, narrow) = (&many[0], Sets::<Two>::new(&wide));
        assert!(narrow.memory_bytes() * SETS == wide.memory_bytes());
        for sets in [wide, &narrow] {
            adds_up(sets);
        }
    }

    fn adds_up(sets: &Sets<Two>) {
        let counter = Counter::default();
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
