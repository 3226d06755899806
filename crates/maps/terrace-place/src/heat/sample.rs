//! Which lookups are noted: a countdown of the thread, with random steps.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

/// How many lookups go by for each that is noted. Maps with the same interval share the countdown of
/// a thread; others have one of their own, so that none is noted less for what another asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sampling {
    /// One in this many lookups notes its leaf: a power of two, others count as the next lower one.
    pub leaf: u32,
    /// One in this many of these notes the whole path; 0: none does.
    pub path: u32,
}

impl Default for Sampling {
    /// One in eight, and of these one in eight.
    #[inline]
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

/// Where the generators of random numbers begin.
const SEED: u32 = 0x9E37_79B9;

/// Intervals that there are: powers of two.
const INTERVALS: usize = u32::BITS as usize;

// Of each interval the lookups up to the next one that is noted, and a generator of random numbers.
#[cfg(not(feature = "shuttle"))]
thread_local! {
    static LEFT: [Cell<u32>; INTERVALS] = const { [const { Cell::new(1) }; INTERVALS] };
    static RANDOM: [Cell<u32>; INTERVALS] = const { [const { Cell::new(SEED) }; INTERVALS] };
}
#[cfg(feature = "shuttle")]
shuttle::thread_local! {
    static LEFT: [Cell<u32>; INTERVALS] = [const { Cell::new(1) }; INTERVALS];
    static RANDOM: [Cell<u32>; INTERVALS] = [const { Cell::new(SEED) }; INTERVALS];
}

/// While all leaves are fast, one in this many notes is enough: two to this power.
const CALM: u32 = 3;

/// The countdown of a map. With one kind of memory there is none, and nothing is written.
#[derive(Debug)]
pub struct Ticker {
    /// The number of the countdown; there is none with so high a number where nothing is noted.
    interval: AtomicU32,
    sampling: Sampling,
}

impl Ticker {
    /// For maps that note nothing.
    pub fn never() -> Ticker {
        Ticker {
            interval: AtomicU32::new(u32::MAX),
            sampling: Sampling::default(),
        }
    }

    /// That of a sampling.
    pub fn new(sampling: Sampling) -> Ticker {
        Ticker {
            interval: AtomicU32::new(sampling.interval()),
            sampling,
        }
    }

    /// Whether this lookup is to be noted, then [`Ticker::again`] says how; nothing where none ever
    /// is. Six instructions when it is not.
    #[inline(always)]
    pub fn is_due(&self) -> Option<bool> {
        LEFT.with(|left| {
            let left = left.get(self.interval.load(Relaxed) as usize)?;
            left.set(left.get().wrapping_sub(1));
            Some(left.get() == 0)
        })
    }

    /// How the lookup that is due is to be noted; the countdown begins again.
    #[inline]
    pub fn again(&self) -> Noting {
        // Another thread may have changed the interval since: the one that has ended here is meant.
        let usual = self.sampling.interval();
        match LEFT.with(|left| left[usual as usize % INTERVALS].get()) {
            0 => self.sampling.again(usual),
            _ => self.sampling.again(self.sampling.calm_interval()),
        }
    }

    /// Whether there is nothing to be learned now: notes are rarer as long as there is not.
    #[inline]
    pub fn calm(&self, calm: bool) {
        let wanted = match calm {
            true => self.sampling.calm_interval(),
            false => self.sampling.interval(),
        };
        if self.interval.load(Relaxed) != wanted {
            self.interval.store(wanted, Relaxed);
        }
    }
}

impl Sampling {
    /// The number of the countdown: the logarithm of a number of 32 bits, which is below 32.
    #[inline]
    fn interval(self) -> u32 {
        (self.leaf | 1).ilog2()
    }

    /// That of the countdown while there is nothing to be learned.
    #[inline]
    fn calm_interval(self) -> u32 {
        (self.interval() + CALM).min(INTERVALS as u32 - 1)
    }

    /// Whether this lookup is to be noted, and how. A few instructions when it is not.
    #[inline]
    pub fn tick(self) -> Option<Noting> {
        let interval = self.interval();
        let due = LEFT.with(|left| {
            let left = &left[interval as usize % INTERVALS];
            left.set(left.get().wrapping_sub(1));
            left.get() == 0
        });
        due.then(|| self.again(interval))
    }

    /// How the lookup that is due is to be noted; the countdown begins again.
    #[inline]
    fn again(self, interval: u32) -> Noting {
        let at = interval as usize % INTERVALS;
        let random = RANDOM.with(|all| {
            let mut random = all[at].get();
            random ^= random << 13;
            random ^= random >> 17;
            random ^= random << 5;
            all[at].set(random);
            random
        });
        // Uniform from 1 to twice the mean, less one: below 2^32.
        let next = 1 + ((u64::from(random >> 8) * ((2 << at) - 1)) >> 24);
        LEFT.with(|all| all[at].set(next as u32));
        // The bits that choose the path are others than those of the step.
        if self.path > 0 && (random & 0xFF).is_multiple_of(self.path) {
            Noting::Path
        } else {
            Noting::Leaf
        }
    }

    /// Begins anew, as a new thread does: for tests and measurements that must be repeatable.
    pub fn restart() {
        LEFT.with(|all| all.iter().for_each(|left| left.set(1)));
        RANDOM.with(|all| all.iter().for_each(|random| random.set(SEED)));
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn notes(ticker: &Ticker) -> bool {
        let due = ticker.is_due() == Some(true);
        if due {
            ticker.again();
        }
        due
    }

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

    #[test]
    fn with_one_kind_of_memory_nothing_is_counted() {
        Sampling::restart();
        let never = Ticker::never();
        assert!((0..1000).all(|_| never.is_due().is_none()));
        assert!(LEFT.with(|all| all.iter().all(|left| left.get() == 1)));
    }

    #[test]
    fn a_calm_map_notes_an_eighth_and_takes_none_from_others() {
        Sampling::restart();
        let (calm, other) = (
            Ticker::new(Sampling::default()),
            Ticker::new(Sampling::default()),
        );
        calm.calm(true);
        let (mut few, mut many) = (0, 0);
        for _ in 0..80_000 {
            few += u32::from(notes(&calm));
            many += u32::from(notes(&other));
        }
        assert!((1_100..1_400).contains(&few), "{few}");
        assert!((9_500..10_500).contains(&many), "{many}");
        calm.calm(false);
        let usual = (0..8_000).filter(|_| notes(&calm)).count();
        assert!((900..1_100).contains(&usual), "{usual}");
    }

    /// Otherwise a countdown would go on below nothing, and no lookup be noted for a very long time.
    #[test]
    fn a_countdown_that_has_ended_begins_again_whatever_others_want_meanwhile() {
        Sampling::restart();
        let ticker = Ticker::new(Sampling::default());
        for round in 0..2000 {
            while ticker.is_due() != Some(true) {}
            ticker.calm(round % 2 == 0);
            ticker.again();
            assert!(LEFT.with(|all| all.iter().all(|left| (1..200).contains(&left.get()))));
        }
    }
}
