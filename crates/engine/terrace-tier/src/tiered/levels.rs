//! How the use counts of a hot tier are spread, and which of them mean that a record is *idle*: among
//! the fifth that is used least.
//!
//! Replacement inside leaves cannot tell whether the record that must go is little used, or only
//! less than its neighbours. These figures can: a leaf in which nothing is idle may split, and one
//! of which much is idle gives its room up.

use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::Flags;
use terrace_base::sync::Mutex;

/// Number of use counts.
const COUNTS: usize = Flags::MAX_USE as usize + 1;
/// What a leaf's figures weigh against those of the leaf looked at after it: about a hundred leaves
/// are remembered.
const FADING: f64 = 0.99;

/// See the module's text. A hint: lost at a crash, and learned anew within a hundred leaves.
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

    /// Probability that a record with this use count is idle; one that nobody has used always is.
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
        // A policy that does without: what nobody used, nothing else.
        levels.note(&[0, 100, 0, 0, 0, 0, 0, 0], 0.0);
        assert_eq!((levels.idle(0), levels.idle(1)), (1.0, 0.0));
    }
}
