//! The policy of the paper, with each of its techniques as a flag.
//!
//! Leaves alone are counted, in every access. Each period the histogram of their counters gives
//! two thresholds: those above the hot one are promoted with all nodes above them, those below
//! the cold one are demoted, and their parents after them when no child is fast any more. Two
//! watermarks keep room: above the high one promotion stops and more and more leaves count as
//! cold, until less than the low one is used.
//!
//! Where the paper leaves a choice: the hot share begins at 0.8 of the share of fast memory, the
//! cold one at one less 1.3 of it, a step is 0.05; the hot threshold stays below its share, since
//! one that just exceeds it promotes and demotes the same leaves for ever; inner nodes are
//! protected while all of them fit into half of the fast memory.

use super::{Births, Node, Order, Policy, Verdict, View};
use crate::heat::{BINS, Sampling};
use crate::id::Tier;

/// Accesses a leaf in a period, and periods between coolings: those of the paper's testbed.
const PERIOD_ACCESSES: u64 = 4;
const COOLING_PERIODS: u32 = 4;
/// Where promotion stops and demotion begins, of the limit.
const HIGH: f64 = 0.95;
const LOW: f64 = 0.85;
/// By what the shares change in one round.
const STEP: f64 = 0.05;
/// Rounds of demotion until the watermark gives up.
const ROUNDS: u32 = 8;
/// Slow cold leaves that are queued so that the nodes above them get a turn: the most of a
/// period, and one in this many.
const SLOW_COLD: u32 = 64;
const SLOW_COLD_EACH: u32 = 97;
/// The hot threshold without a histogram, as a bin: four accesses.
const FIXED_HOT: u8 = 3;

/// Which techniques of the paper are used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Techniques {
    /// Upper layers are allocated in fast memory and protected.
    pub layering: bool,
    /// Leaves alone are counted; otherwise all nodes are.
    pub leaf_tracking: bool,
    /// Nodes move with those above them, and parents follow; otherwise leaves move alone.
    pub migration: bool,
    /// Thresholds come from a histogram; otherwise they are fixed.
    pub histogram: bool,
    /// Two watermarks with rounds between; otherwise promotion stops at the limit.
    pub watermark: bool,
}

impl Default for Techniques {
    /// All of them.
    fn default() -> Techniques {
        Techniques {
            layering: true,
            leaf_tracking: true,
            migration: true,
            histogram: true,
            watermark: true,
        }
    }
}

/// The policy of the paper.
#[derive(Debug, Clone)]
pub struct SinlkPolicy {
    techniques: Techniques,
    hot: u8,
    cold: u8,
    /// What the shares differ from where they began.
    hot_step: f64,
    cold_step: f64,
    rounds: u32,
    periods: u32,
    slow_cold: u32,
    seen: u32,
}

impl SinlkPolicy {
    /// The policy with these techniques.
    pub fn new(techniques: Techniques) -> SinlkPolicy {
        SinlkPolicy {
            techniques,
            hot: BINS as u8,
            cold: 0,
            hot_step: 0.0,
            cold_step: 0.0,
            rounds: 0,
            periods: 0,
            slow_cold: 0,
            seen: 0,
        }
    }

    fn thresholds(&mut self, view: &View<'_>) {
        if !self.techniques.histogram {
            (self.hot, self.cold) = (FIXED_HOT, 1);
            return;
        }
        let share = view.limit as f64 / view.all.max(1) as f64;
        let leaves = view.leaves() as f64;
        let strain = f64::from(self.rounds) * STEP;
        let hot_share = (share * 0.8 + self.hot_step - strain / 4.0).max(0.001);
        let cold_share = (1.0 - share * 1.3 + self.cold_step + strain).clamp(0.0, 0.999);
        let mut counts = [0u64; BINS];
        for (class, _) in view.leaf.iter().enumerate().filter(|(_, leaf)| **leaf) {
            for (bin, count) in counts.iter_mut().enumerate().skip(1) {
                *count += view.histogram.nodes(class as u8, bin as u8);
            }
        }
        counts[0] = view.leaves().saturating_sub(counts[1..].iter().sum());
        let (mut sum, mut hot) = (0, BINS);
        while hot > 1 && (sum + counts[hot - 1]) as f64 <= hot_share * leaves {
            sum += counts[hot - 1];
            hot -= 1;
        }
        let (mut sum, mut cold) = (0, 0);
        while cold < hot && (sum + counts[cold]) as f64 <= cold_share * leaves {
            sum += counts[cold];
            cold += 1;
        }
        (self.hot, self.cold) = (hot as u8, cold as u8);
    }
}

impl Policy for SinlkPolicy {
    fn births(&self) -> Births {
        if self.techniques.layering {
            Births::Layers(2)
        } else {
            Births::Origin
        }
    }

    fn sampling(&self) -> Sampling {
        Sampling {
            leaf: 1,
            path: u32::from(!self.techniques.leaf_tracking),
        }
    }

    fn period_samples(&self, leaves: u64) -> u64 {
        leaves * PERIOD_ACCESSES
    }

    fn plan(&mut self, view: &View<'_>) -> Order {
        self.thresholds(view);
        (self.slow_cold, self.seen) = (SLOW_COLD, 0);
        let inner: u64 = (0..view.leaf.len())
            .filter(|&class| !view.leaf[class])
            .map(|class| view.live[class] * view.histogram.size(class as u8))
            .sum();
        let protected = self.techniques.layering && inner <= view.limit / 2 && self.rounds == 0;
        let climb = self.techniques.migration && !protected;
        match (self.techniques.watermark, self.rounds) {
            (true, 0) => Order::Apart {
                climb,
                high: HIGH,
                low: 0.0,
            },
            // A round under strain: no promotion, and demotion ends at the low mark.
            (true, _) => Order::Apart {
                climb,
                high: 0.0,
                low: LOW,
            },
            (false, _) => Order::Apart {
                climb,
                high: 1.0,
                low: 0.0,
            },
        }
    }

    fn judge(&mut self, node: &Node) -> Verdict {
        if !node.leaf || (!self.techniques.migration && node.below_slow) {
            return Verdict::Stay;
        }
        match node.id.tier() {
            Tier::Slow if node.bin >= self.hot => Verdict::Up,
            Tier::Fast if node.bin < self.cold => Verdict::Down,
            Tier::Slow if node.bin < self.cold && self.slow_cold > 0 => {
                self.seen += 1;
                if !self.seen.is_multiple_of(SLOW_COLD_EACH) {
                    return Verdict::Stay;
                }
                self.slow_cold -= 1;
                Verdict::Down
            }
            _ => Verdict::Stay,
        }
    }

    fn close(&mut self, used: u64, limit: u64, _: u64) -> (u32, bool) {
        let full = used as f64 / limit.max(1) as f64;
        if self.techniques.watermark && full >= HIGH && self.rounds < ROUNDS {
            self.rounds += 1;
            return (0, true);
        }
        if self.rounds == 0 && full < LOW {
            self.hot_step = (self.hot_step + STEP / 10.0).min(0.5);
            self.cold_step = (self.cold_step - STEP / 10.0).max(-0.5);
        }
        self.rounds = 0;
        self.periods += 1;
        let cool = self.periods.is_multiple_of(COOLING_PERIODS);
        (u32::from(cool), false)
    }

    fn threshold(&self) -> u8 {
        self.hot
    }
}
