//! When a store has warmed up.
//!
//! The hot set of a store settles over a time that grows with the data, so no fixed number of
//! seconds will do. The rule scales with the time already spent: it looks at the last three eighths
//! of the warm-up. The last two must differ by little; and if the differences shrink from one to
//! the next, as those of an exponential decay do, what is still to come by that progression must be
//! little too. The second condition is what keeps a slow decay from being taken for its end.

/// One window of a run: how many operations, how long it took, and the pages they moved.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample {
    /// Operations completed.
    pub ops: u64,
    /// How long the window was.
    pub seconds: f64,
    /// Pages read and written.
    pub pages: u64,
}

/// Decides from the windows of a run whether it has become steady.
#[derive(Clone, Debug)]
pub struct Detector {
    samples: Vec<Sample>,
    least_ops: u64,
}

/// Page reads and writes per operation may differ by this much, relatively.
const PAGES_TOLERANCE: f64 = 0.02;
/// Below this a difference is taken for noise, and nothing is concluded from its progression.
const PAGES_NOISE: f64 = 0.003;
/// Differences in pages per operation below this are too small to matter in any case.
const PAGES_FLOOR: f64 = 2e-4;
/// Throughput may differ by this much; more than the pages, because machines are shared.
const SPEED_TOLERANCE: f64 = 0.10;
/// With fewer windows than this nothing is decided.
const LEAST_WINDOWS: usize = 16;

impl Detector {
    /// A detector that waits for at least `least_ops` operations.
    pub fn new(least_ops: u64) -> Self {
        Detector {
            samples: Vec::new(),
            least_ops,
        }
    }

    /// Takes in the next window and says whether the run is steady now.
    pub fn push(&mut self, sample: Sample) -> bool {
        self.samples.push(sample);
        let count = self.samples.len();
        let ops: u64 = self.samples.iter().map(|s| s.ops).sum();
        if count < LEAST_WINDOWS || ops < self.least_ops {
            return false;
        }
        let eighth = count / 8;
        let part = |ago: usize| {
            let end = count - ago * eighth;
            rates(&self.samples[end - eighth..end])
        };
        let ((early, _), (mid, mid_speed), (late, late_speed)) = (part(2), part(1), part(0));
        pages_are_steady(early, mid, late)
            && (late_speed - mid_speed).abs() <= SPEED_TOLERANCE * mid_speed
    }
}

fn pages_are_steady(early: f64, mid: f64, late: f64) -> bool {
    let (before, last) = (early - mid, mid - late);
    if last.abs() <= (PAGES_NOISE * mid).max(PAGES_FLOOR) {
        return true;
    }
    let tolerance = PAGES_TOLERANCE * mid;
    if last.abs() > tolerance {
        return false;
    }
    let ratio = last / before;
    // A change of direction is noise; a progression that does not shrink has no end in sight.
    ratio < 0.0 || (ratio < 1.0 && last.abs() * ratio / (1.0 - ratio) <= tolerance)
}

/// Pages per operation and operations per second.
fn rates(samples: &[Sample]) -> (f64, f64) {
    let ops = samples.iter().map(|s| s.ops).sum::<u64>().max(1) as f64;
    let pages = samples.iter().map(|s| s.pages).sum::<u64>() as f64;
    let seconds = samples.iter().map(|s| s.seconds).sum::<f64>().max(1e-9);
    (pages / ops, ops / seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The window at which a run with these pages and operations per window is called steady.
    fn steady_at(least: u64, curve: impl Fn(u64) -> (f64, u64)) -> Option<u64> {
        let mut detector = Detector::new(least);
        (0..500).find(|&i| {
            let (pages_per_op, ops) = curve(i);
            let pages = (pages_per_op * ops as f64) as u64;
            detector.push(Sample {
                ops,
                seconds: 1.0,
                pages,
            })
        })
    }

    #[test]
    fn a_flat_run_is_steady_soon() {
        assert_eq!(steady_at(0, |_| (0.3, 100_000)), Some(15));
        assert_eq!(steady_at(0, |_| (0.0, 100_000)), Some(15));
        assert_eq!(steady_at(5_000_000, |_| (0.3, 100_000)), Some(49));
    }

    #[test]
    fn a_noisy_flat_run_is_steady_soon() {
        let mut rng = crate::rng::Rng::new(1);
        let noise: Vec<f64> = (0..500).map(|_| 0.3 * (0.99 + 0.02 * rng.unit())).collect();
        let at = steady_at(0, |i| (noise[i as usize], 100_000)).unwrap();
        assert!(at < 40, "{at}");
    }

    #[test]
    fn a_decay_is_waited_for_but_not_for_ever() {
        for (start, time) in [(0.4, 30.0), (0.4, 60.0), (0.1, 60.0), (0.9, 10.0)] {
            let pages = |i: u64| 0.1 + start * (-(i as f64) / time).exp();
            let at = steady_at(0, |i| (pages(i), 100_000)).unwrap();
            assert!(pages(at) < 0.1035, "{start} {time}: {} at {at}", pages(at));
            assert!((at as f64) < 8.0 * time + 16.0, "{start} {time}: {at}");
        }
    }

    #[test]
    fn a_straight_fall_is_never_steady() {
        assert_eq!(steady_at(0, |i| (1.0 - i as f64 / 501.0, 100_000)), None);
    }

    #[test]
    fn speed_counts_too() {
        // Doubles every twenty windows: an eighth of the time is soon more than the tolerance.
        let climbing = |i: u64| (0.0, (1000.0 * (i as f64 / 20.0).exp2()) as u64);
        let at = steady_at(100_000, climbing);
        assert!(at.is_none(), "{at:?}");
    }

    #[test]
    fn a_stopped_run_is_not_steady_by_division_by_zero() {
        assert_eq!(steady_at(1, |_| (0.0, 0)), None);
    }
}
