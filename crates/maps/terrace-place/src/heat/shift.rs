//! Notices that what is hot has moved elsewhere: the share of touches that were fast has fallen.

/// The share may be this far below its best before it counts as a shift.
const FALL: f64 = 0.06;
/// Periods after a shift in which none is looked for: the share is low anyway.
const QUIET: u32 = 4;

/// Watches the share of sampled touches that were fast.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ShiftDetector {
    best: f64,
    quiet: u32,
}

impl ShiftDetector {
    /// A period has ended in which `fast` samples were fast and `slow` were slow. Whether this is a
    /// shift.
    pub fn period(&mut self, fast: u64, slow: u64) -> bool {
        if fast + slow == 0 {
            return false;
        }
        let share = fast as f64 / (fast + slow) as f64;
        let shifted = self.quiet == 0 && share < self.best - FALL;
        if shifted {
            self.best = share;
            self.quiet = QUIET;
        } else {
            self.quiet = self.quiet.saturating_sub(1);
            self.best = if share > self.best {
                share
            } else {
                self.best * 0.9 + share * 0.1
            };
        }
        shifted
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fall_is_a_shift_once_and_a_slow_decline_is_none() {
        let mut detector = ShiftDetector::default();
        assert!((0..20).all(|_| !detector.period(85, 15)));
        assert!(detector.period(30, 70));
        assert!((0..4).all(|_| !detector.period(20, 80)));
        let mut detector = ShiftDetector::default();
        assert!((0..50).all(|i| !detector.period(8000 - 5 * i, 2000 + 5 * i)));
    }
}
