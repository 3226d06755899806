//! How much of what users write the tier above gathers, so that it does not come down.
//!
//! Where records are written again and again, much: few bytes come down, and thin. Levels that are larger against
//! the next one then save more writes than they cost room. Where all that is written comes down, as with uniform
//! updates, they are to take little room.

use terrace_base::sync::atomic::{AtomicU64, Ordering};

/// Shares are in so many parts.
const ONE: u64 = 1 << 10;
/// Of what users write so much comes down, in hundredths, where the levels take little room, and where they take
/// more.
const MUCH: u64 = 90;
const LITTLE: u64 = 65;
/// The weight of what was learnt last, as one over it.
const WEIGHT: u64 = 4;

/// See the module's text. A hint, lost at an opening: until something is known all comes down.
#[derive(Default)]
pub(crate) struct Absorbed {
    /// Bytes that users had written, and those that had come down, when it was looked last.
    written: AtomicU64,
    arrived: AtomicU64,
    /// The share that did not come down, in parts of [`ONE`].
    share: AtomicU64,
}

impl Absorbed {
    /// So many bytes were written, and have come down, since the opening; who makes a step calls this. What is
    /// learnt is of at least `window` bytes.
    pub fn look(&self, written: u64, arrived: u64, window: u64) {
        let wrote = written.saturating_sub(self.written.load(Ordering::Relaxed));
        if wrote < window.max(1) {
            return;
        }
        let came = arrived.saturating_sub(self.arrived.load(Ordering::Relaxed));
        self.written.store(written, Ordering::Relaxed);
        self.arrived.store(arrived, Ordering::Relaxed);
        let now = ONE - came.min(wrote) * ONE / wrote;
        let old = self.share.load(Ordering::Relaxed);
        let new = old - old / WEIGHT + now / WEIGHT;
        self.share.store(new, Ordering::Relaxed);
    }

    /// The part of this that levels are to be larger by.
    pub fn share_of(&self, more: u64) -> u64 {
        let came = ONE - self.share.load(Ordering::Relaxed).min(ONE);
        let much = (MUCH * ONE / 100).saturating_sub(came);
        (more * much / ((MUCH - LITTLE) * ONE / 100)).min(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_larger_where_the_tier_above_gathers_much() {
        let absorbed = Absorbed::default();
        assert_eq!(absorbed.share_of(100), 0);
        let (mut written, mut arrived) = (0, 0);
        let mut write = |share: u64| {
            for _ in 0..50 {
                (written, arrived) = (written + 1000, arrived + 10 * share);
                absorbed.look(written, arrived, 1000);
            }
            absorbed.share_of(100)
        };
        assert_eq!(write(96), 0);
        assert_eq!(write(50), 100);
        let between = write(78);
        assert!((30..70).contains(&between), "{between}");
        assert_eq!(write(100), 0);
        // Bytes that are put down twice, and those that were there before an opening.
        assert_eq!(write(300), 0);
    }

    #[test]
    fn little_says_nothing() {
        let absorbed = Absorbed::default();
        for n in 1..100 {
            absorbed.look(n, 0, 1000);
        }
        assert_eq!(absorbed.share_of(100), 0);
    }
}
