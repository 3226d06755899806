//! The policy that is used unless another is named: the hottest bytes are fast, all kinds of
//! nodes alike.
//!
//! Each period the bins of the histogram say from which heat on all nodes fit. A node makes room
//! only for one that is at least two octaves hotter: so moves are few when all is settled, and
//! nothing is lost, since bins are octaves anyway. Heat is halved often while little is known and
//! seldom later, and nearly forgotten when what is hot has moved.

use super::{Births, Node, Order, Policy, Verdict, View};
use crate::heat::ShiftDetector;
use crate::id::Tier;

/// Bins between the one that comes and the one that goes.
const MARGIN: u8 = 2;
/// Samples a leaf until the first cooling; grows by half each time.
const FIRST_MEAN: f64 = 2.0;
/// The most samples a leaf between coolings.
const LAST_MEAN: f64 = 16.0;
/// Bits by which heat is cooled when what is hot has moved: of what was hottest one is left, so that
/// nodes that are noted in the next period are two octaves hotter at once.
const SHIFT_BITS: u32 = 7;

/// The default policy.
#[derive(Debug, Clone)]
pub struct HeatPolicy {
    detector: ShiftDetector,
    shifts: u64,
    mean: f64,
    /// Samples since the last cooling.
    samples: u64,
    from: u8,
    tie_room: u64,
    sizes: [u64; crate::id::CLASSES],
}

impl Default for HeatPolicy {
    fn default() -> HeatPolicy {
        HeatPolicy {
            detector: ShiftDetector::default(),
            shifts: 0,
            mean: FIRST_MEAN,
            samples: 0,
            from: u8::MAX,
            tie_room: 0,
            sizes: Default::default(),
        }
    }
}

impl Policy for HeatPolicy {
    fn births(&self) -> Births {
        Births::Origin
    }

    fn calms(&self) -> bool {
        true
    }

    fn open(&mut self, fast: u64, slow: u64) -> u32 {
        self.samples += fast + slow;
        if !self.detector.period(fast, slow) {
            return 0;
        }
        self.shifts += 1;
        self.mean = FIRST_MEAN;
        self.samples >>= SHIFT_BITS;
        SHIFT_BITS
    }

    fn plan(&mut self, view: &View<'_>) -> Order {
        let threshold = view.histogram.threshold(view.target);
        self.from = threshold.from;
        self.tie_room = threshold.tie_room;
        for (class, size) in self.sizes.iter_mut().enumerate() {
            *size = view.histogram.size(class as u8);
        }
        Order::Swap { margin: MARGIN }
    }

    fn judge(&mut self, node: &Node) -> Verdict {
        match node.id.tier() {
            Tier::Slow if node.bin >= self.from => Verdict::Up,
            Tier::Slow if node.bin > 0 && node.bin + 1 == self.from => {
                let size = self.sizes[node.id.class() as usize];
                if size > self.tie_room {
                    return Verdict::Stay;
                }
                self.tie_room -= size;
                Verdict::Up
            }
            Tier::Fast if node.bin < self.from => Verdict::Down,
            _ => Verdict::Stay,
        }
    }

    fn close(&mut self, _: u64, _: u64, leaves: u64) -> (u32, bool) {
        if (self.samples as f64) < self.mean * leaves as f64 {
            return (0, false);
        }
        self.samples /= 2;
        self.mean = (self.mean * 1.5).min(LAST_MEAN);
        (1, false)
    }

    fn threshold(&self) -> u8 {
        self.from
    }

    fn shifts(&self) -> u64 {
        self.shifts
    }
}
