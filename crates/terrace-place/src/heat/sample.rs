//! Which lookups are noted: a countdown of the thread, with random steps.

use std::cell::Cell;
use std::num::NonZeroU32;

/// How many lookups go by for each that is noted. Maps with the same interval share the countdown of
/// a thread; others have one of their own, so that none is noted less for what another asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// One in so many lookups notes its leaf: a power of two, others count as the next lower one.
    pub leaf: u32,
    /// One in so many of these notes the whole path; 0: none does.
    pub path: u32,
}

impl Default for Sampling {
    /// One in eight, and of these one in eight.
    fn default() -> Sampling {
        Sampling { leaf: 8, path: 8 }
    }
}

/// What a lookup should note.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Noting {
    /// Its leaf.
    Leaf,
    /// Its leaf, and all nodes above it.
    Path,
}

/// Countdown in the lower half, a generator of random numbers in the upper.
const START: u64 = 0x9E37_79B9 << 32 | 1;

/// Intervals that there are: powers of two.
const INTERVALS: usize = u32::BITS as usize;

#[cfg(not(feature = "shuttle"))]
thread_local! {
    static COUNTS: [Cell<u64>; INTERVALS] = const { [const { Cell::new(START) }; INTERVALS] };
}
#[cfg(feature = "shuttle")]
shuttle::thread_local! {
    static COUNTS: [Cell<u64>; INTERVALS] = [const { Cell::new(START) }; INTERVALS];
}

/// A [`Sampling`] whose countdown is looked up once and not at each lookup.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ticker {
    /// One more than the number of the countdown.
    behind: NonZeroU32,
    sampling: Sampling,
}

impl Ticker {
    /// That of a sampling.
    #[inline(always)]
    pub fn new(sampling: Sampling) -> Self {
        // The logarithm of a number of 32 bits is below 32.
        let behind = NonZeroU32::MIN.saturating_add((sampling.leaf | 1).ilog2());
        Ticker { behind, sampling }
    }

    /// Whether this lookup is to be noted, and how. A few instructions when it is not.
    #[inline(always)]
    pub fn tick(&self) -> Option<Noting> {
        COUNTS.with(|counts| {
            // No branch.
            let count = &counts[(self.behind.get() - 1) as usize % INTERVALS];
            let left = count.get() - 1;
            count.set(left);
            if left as u32 != 0 {
                return None;
            }
            Some(self.sampling.again(count, left))
        })
    }
}

impl Sampling {
    /// Whether this lookup is to be noted, and how. A few instructions when it is not.
    #[inline(always)]
    pub fn tick(self) -> Option<Noting> {
        Ticker::new(self).tick()
    }

    #[cold]
    fn again(self, count: &Cell<u64>, left: u64) -> Noting {
        let mut random = (left >> 32) as u32;
        random ^= random << 13;
        random ^= random >> 17;
        random ^= random << 5;
        let leaf = 1 << (self.leaf | 1).ilog2();
        // Uniform from 1 to twice the mean, less one: below 2^32.
        let next = 1 + ((u64::from(random >> 8) * (2 * leaf - 1)) >> 24);
        count.set(u64::from(random) << 32 | next);
        // The bits that choose the path are others than those of the step.
        if self.path > 0 && (random & 0xFF).is_multiple_of(self.path) {
            Noting::Path
        } else {
            Noting::Leaf
        }
    }

    /// Begins anew, as a new thread does: for tests and measurements that must be repeatable.
    pub fn restart() {
        COUNTS.with(|counts| counts.iter().for_each(|count| count.set(START)));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn one_in_eight_is_noted_and_of_these_one_in_eight_with_its_path() {
        Sampling::restart();
        let all: Vec<_> = (0..80_000)
            .filter_map(|_| Sampling::default().tick())
            .collect();
        let paths = all.iter().filter(|n| **n == Noting::Path).count();
        assert!((9_500..10_500).contains(&all.len()), "{}", all.len());
        assert!((1_100..1_400).contains(&paths), "{paths}");
        let every = Sampling { leaf: 1, path: 0 };
        assert_eq!((0..20).filter_map(|_| every.tick()).count(), 20);
    }

    #[test]
    fn the_longest_interval_is_one() {
        Sampling::restart();
        let never = Sampling {
            leaf: u32::MAX,
            path: 1,
        };
        assert_eq!(never.tick(), Some(Noting::Path));
        assert_eq!((0..100_000).filter_map(|_| never.tick()).count(), 0);
    }
}
