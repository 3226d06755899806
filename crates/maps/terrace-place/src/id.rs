//! Names of nodes: the tier, the class and the slot in one word of 32 bits.

use std::fmt;

/// Bits of the index of a slot.
pub(crate) const INDEX_BITS: u32 = 28;
/// The most slots that a class can have in one memory.
pub const MAX_SLOTS: u64 = 1 << INDEX_BITS;
/// Classes of nodes that an id can tell apart.
pub const CLASSES: usize = 8;

const INDEX: u32 = (1 << INDEX_BITS) - 1;

/// Which of the two memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Tier {
    /// The near, small one.
    Fast = 0,
    /// The far, large one.
    Slow = 1,
}

impl Tier {
    /// The other one.
    pub fn other(self) -> Tier {
        match self {
            Tier::Fast => Tier::Slow,
            Tier::Slow => Tier::Fast,
        }
    }
}

/// Where a node lies: `[tier 1][class 3][index 28]`.
///
/// An id is a name, no owner: it may be of a node that is gone.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NodeId(pub(crate) u32);

impl NodeId {
    /// The id of a slot. `class` is below [`CLASSES`] and `index` below [`MAX_SLOTS`]; higher
    /// bits are cut off.
    #[inline]
    pub fn new(tier: Tier, class: u8, index: u32) -> NodeId {
        NodeId((tier as u32) << 31 | (u32::from(class) & 7) << INDEX_BITS | index & INDEX)
    }

    /// The memory in which the node lies.
    #[inline]
    pub fn tier(self) -> Tier {
        if self.0 >> 31 == 0 {
            Tier::Fast
        } else {
            Tier::Slow
        }
    }

    /// The class of its size.
    #[inline]
    pub fn class(self) -> u8 {
        (self.0 >> INDEX_BITS & 7) as u8
    }

    /// The number of its slot within class and tier.
    #[inline]
    pub fn index(self) -> u32 {
        self.0 & INDEX
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tier = match self.tier() {
            Tier::Fast => "fast",
            Tier::Slow => "slow",
        };
        write!(f, "{tier}:{}:{}", self.class(), self.index())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_holds_what_it_was_made_of() {
        for tier in [Tier::Fast, Tier::Slow] {
            for class in 0..CLASSES as u8 {
                for index in [0, 1, 12345, (MAX_SLOTS - 1) as u32] {
                    let id = NodeId::new(tier, class, index);
                    assert_eq!((id.tier(), id.class(), id.index()), (tier, class, index));
                }
            }
        }
    }
}
