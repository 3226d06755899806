//! How the use counts of a hot tier are spread, and which of them mean that a record is *idle*: among
//! the fifth that is used least.
//!
//! Replacement inside leaves cannot tell whether the record that must go is little used, or only
//! less than its neighbours. These figures can: a leaf in which nothing is idle may split, and one
//! of which much is idle gives its room up.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::Flags;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::AtomicU64;

/// Number of use counts.
pub(super) const COUNTS: usize = Flags::MAX_USE as usize + 1;
/// What a leaf's figures weigh against those of the leaf looked at after it: about a hundred leaves
/// are remembered.
const FADING: f64 = 0.99;
/// Leaves over which the mean of stale records runs.
const STALE_LEAVES: u64 = 64;

/// How the use counts of a hot tier are spread. A hint: lost at a crash, and learned anew within a hundred leaves.
#[derive(Default)]
pub(crate) struct Levels {
    /// Records by use count.
    spread: Mutex<[f64; COUNTS]>,
    /// Upper half: the *bound*, the use count up to which records may be idle. Lower half: which share
    /// of those that have it are, in 65536ths.
    idle: AtomicU32,
    /// Share of all records that are idle, in 65536ths: more than what was asked for when more were not
    /// used at all.
    part: AtomicU32,
    /// About how many records per hot leaf are dirty and idle: leaf-local replacement passes by them,
    /// so that something else must get them clean. A running mean over the leaves that the hand sees,
    /// in 64ths, and one more so that 0 means that it has not seen any.
    stale: AtomicU64,
}

impl Levels {
    /// Takes in the records of a leaf, by use count; `share` of all records are to count as idle.
    pub fn note(&self, leaf: &[u32; COUNTS], share: f64) {
        let mut spread = self.spread.lock();
        for (sum, n) in spread.iter_mut().zip(leaf) {
            *sum = *sum * FADING + f64::from(*n);
        }
        let wanted = spread.iter().sum::<f64>() * share;
        let (mut below, mut bound) = (0.0, 0);
        while bound + 1 < COUNTS && below + spread[bound] < wanted {
            below += spread[bound];
            bound += 1;
        }
        let part = if spread[bound] > 0.0 {
            ((wanted - below) / spread[bound]).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let idle = (bound as u32) << 16 | (part * 65535.0) as u32;
        self.idle.store(idle, Ordering::Relaxed);
        let all = spread.iter().sum::<f64>().max(1.0);
        let idle = (0..COUNTS).map(|count| spread[count] * self.idle(count as u8));
        let part = idle.sum::<f64>() / all;
        self.part.store((part * 65535.0) as u32, Ordering::Relaxed);
    }

    /// Share of all records that are idle.
    pub fn idle_part(&self) -> f64 {
        f64::from(self.part.load(Ordering::Relaxed)) / 65535.0
    }

    /// Whether most records with this use count are idle.
    pub fn is_idle(&self, count: u8) -> bool {
        self.idle(count) > 0.5
    }

    /// Draws whether a record with this use count is idle: of those at the bound, a part is.
    pub fn draw_idle(&self, count: u8) -> bool {
        let idle = self.idle(count);
        idle >= 1.0 || (idle > 0.0 && f64::from(crate::random::next()) < idle * 4294967296.0)
    }

    /// Of a leaf `records` records are dirty and idle.
    pub fn note_stale(&self, records: u64) {
        // Counts of threads that come at the same instant may get lost.
        let sum = match self.stale.load(Ordering::Relaxed) {
            0 => records * STALE_LEAVES,
            n => (n - 1) - (n - 1).div_ceil(STALE_LEAVES) + records,
        };
        self.stale.store(sum + 1, Ordering::Relaxed);
    }

    /// Whether it is worth while to look for such records.
    pub fn are_stale_likely(&self) -> bool {
        let n = self.stale.load(Ordering::Relaxed);
        n == 0 || n > STALE_LEAVES / 2
    }

    /// Probability that a record with this use count is idle; one that was never used always is.
    pub fn idle(&self, count: u8) -> f64 {
        let idle = self.idle.load(Ordering::Relaxed);
        let bound = (idle >> 16) as u8;
        if count == 0 || count < bound {
            1.0
        } else if count > bound {
            0.0
        } else {
            f64::from(idle & 0xFFFF) / 65535.0
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_fifth_is_idle_and_so_is_what_nobody_used() {
        let levels = Levels::default();
        assert_eq!((levels.idle(0), levels.idle(1)), (1.0, 0.0));
        for _ in 0..1000 {
            levels.note(&[0, 10, 20, 70, 0, 0, 0, 0], 0.2);
        }
        assert_eq!((levels.idle(1), levels.idle(3)), (1.0, 0.0));
        assert!(levels.is_idle(1) && !levels.is_idle(3));
        assert!((levels.idle(2) - 0.5).abs() < 0.01);
        for _ in 0..1000 {
            levels.note(&[50, 10, 20, 20, 0, 0, 0, 0], 0.2);
        }
        assert_eq!((levels.idle(0), levels.idle(1)), (1.0, 0.0));
        // A policy that does without: what was not used, nothing else.
        levels.note(&[0, 100, 0, 0, 0, 0, 0, 0], 0.0);
        assert_eq!((levels.idle(0), levels.idle(1)), (1.0, 0.0));
    }
}
