//! What a policy sees, and what it decides.

use super::birth::Births;
use crate::heat::{Histogram, Sampling};
use crate::id::{CLASSES, NodeId};

/// What a policy sees at the end of a period.
#[derive(Debug, Clone)]
pub struct View<'a> {
    /// Bytes by heat.
    pub histogram: &'a Histogram,
    /// Nodes that there are, by class.
    pub live: [u64; CLASSES],
    /// Which classes are leaves.
    pub leaf: [bool; CLASSES],
    /// Fast bytes that count.
    pub used: u64,
    /// Fast bytes that are allowed.
    pub limit: u64,
    /// Fast bytes that nodes may fill, without headroom and what is always fast.
    pub target: u64,
    /// Bytes of all nodes.
    pub all: u64,
}

impl View<'_> {
    /// Leaves that there are.
    pub fn leaves(&self) -> u64 {
        let leaves = self.live.iter().zip(self.leaf).filter(|(_, leaf)| *leaf);
        leaves.map(|(n, _)| n).sum()
    }
}

/// A node to be judged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Node {
    /// Where it lies.
    pub id: NodeId,
    /// Its bin in the histogram.
    pub bin: u8,
    /// Whether it has no children.
    pub leaf: bool,
    /// Steps from the root of its part.
    pub depth: u8,
    /// Whether a node above it is slow.
    pub below_slow: bool,
}

/// What should become of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It stays where it is.
    Stay,
    /// It should be fast.
    Up,
    /// It may make room for others, or should go.
    Down,
}

/// Which moves come first.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Order {
    /// A demotion only where a promotion needs its room, and the bin of the one that goes is so
    /// much below that of the one that comes.
    Swap {
        /// The least difference of the bins.
        margin: u8,
    },
    /// All demotions, each followed by that of its parent if `climb`; then promotions while less
    /// than this part of the limit is used.
    Apart {
        /// Whether the parent of a demoted node is tried, too.
        climb: bool,
        /// Where promotions stop, of the limit.
        high: f64,
        /// Where demotions stop, of the limit; 0: nowhere.
        low: f64,
    },
    /// No moves in this period.
    Nothing,
}

/// Who lies where.
pub trait Policy: Send {
    /// Where new nodes lie.
    fn births(&self) -> Births;

    /// Whether it ever moves a node.
    fn moves(&self) -> bool {
        true
    }

    /// Which lookups are noted.
    fn sampling(&self) -> Sampling {
        Sampling::default()
    }

    /// Whether fewer lookups may be noted as long as all nodes are fast: there is nothing to choose.
    fn calms(&self) -> bool {
        false
    }

    /// Noted lookups that make a period, for this many leaves.
    fn period_samples(&self, leaves: u64) -> u64 {
        leaves / 2
    }

    /// A period has ended in which these numbers of noted lookups found a fast or a slow leaf. By
    /// how many bits all heat is to be cooled before it is looked at.
    fn open(&mut self, fast: u64, slow: u64) -> u32 {
        let _ = (fast, slow);
        0
    }

    /// Looks at the heat; nodes are judged after this.
    fn plan(&mut self, view: &View<'_>) -> Order;

    /// What should become of a node.
    fn judge(&mut self, node: &Node) -> Verdict;

    /// The moves are made. By how many bits all heat is to be cooled; whether another period
    /// should follow at once.
    fn close(&mut self, used: u64, limit: u64, leaves: u64) -> (u32, bool) {
        let _ = (used, limit, leaves);
        (0, false)
    }

    /// The lowest bin of nodes that should be fast, for people.
    fn threshold(&self) -> u8 {
        0
    }

    /// Shifts of what is hot that it has noticed.
    fn shifts(&self) -> u64 {
        0
    }
}
