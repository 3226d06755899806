//! Bytes by heat, in bins of one octave, and the threshold that fits a budget.

use crate::faults::{Fault, planted};
use crate::id::{CLASSES, Tier};

/// Bins: 0, 1, 2-3, 4-7, up to 128-255.
pub const BINS: usize = 9;

/// The bin of a heat: its length in bits.
#[inline]
pub fn bin(heat: u8) -> u8 {
    (8 - heat.leading_zeros()) as u8
}

/// How many bytes of nodes have how much heat, by tier.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Histogram {
    /// Bytes of a node, by class.
    sizes: [u64; CLASSES],
    /// Bits by which a class is less dense than the smallest one.
    less: [u8; CLASSES],
    /// By class, bin and tier.
    bytes: [[[u64; 2]; BINS]; CLASSES],
}

/// What fits: see [`Histogram::threshold`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threshold {
    /// All nodes of this bin and above fit.
    pub from: u8,
    /// Bytes that are left for slow nodes of the bin below.
    pub tie_room: u64,
}

impl Histogram {
    /// An empty one for nodes of these sizes in bytes, by class; 0 for classes that are not used.
    pub fn new(sizes: [u64; CLASSES]) -> Histogram {
        let bits = |size: u64| 64 - (size / 64).leading_zeros() as u8;
        let least = sizes.iter().filter(|s| **s > 0).map(|s| bits(*s)).min();
        let less = sizes.map(|s| bits(s).saturating_sub(least.unwrap_or(0)));
        Histogram {
            sizes,
            less,
            bytes: Default::default(),
        }
    }

    /// The bin of a node: the length of its heat in bits, less what its class is larger.
    #[inline]
    pub fn bin(&self, class: u8, heat: u8) -> u8 {
        bin(heat).saturating_sub(self.less[class as usize & 7])
    }

    /// The size of a class in bytes.
    #[inline]
    pub fn size(&self, class: u8) -> u64 {
        self.sizes[class as usize & 7]
    }

    /// Adds nodes of one heat.
    pub fn add(&mut self, class: u8, tier: Tier, heat: u8, nodes: u64) {
        let bytes = nodes * self.size(class);
        let bin = self.bin(class, heat) as usize;
        self.bytes[class as usize & 7][bin][tier as usize] += bytes;
    }

    /// Bytes of a bin.
    pub fn bytes(&self, bin: u8) -> u64 {
        self.tier_bytes(bin, Tier::Fast) + self.tier_bytes(bin, Tier::Slow)
    }

    fn tier_bytes(&self, bin: u8, tier: Tier) -> u64 {
        let of = |class: &[[u64; 2]; BINS]| class[bin as usize % BINS][tier as usize];
        self.bytes.iter().map(of).sum()
    }

    /// Nodes of a class in a bin. In bin 0 are slots without a node, too.
    pub fn nodes(&self, class: u8, bin: u8) -> u64 {
        let [fast, slow] = self.bytes[class as usize & 7][bin as usize % BINS];
        (fast + slow) / self.size(class).max(1)
    }

    /// Forgets all nodes.
    pub fn clear(&mut self) {
        self.bytes = Default::default();
    }

    /// The lowest bin, 1 at least, so that it and all above fit in `target` bytes.
    pub fn threshold(&self, target: u64) -> Threshold {
        let (mut from, mut sum) = (BINS as u8, 0);
        while from > 1 {
            let more = self.bytes(from - 1);
            if sum + more > target {
                break;
            }
            sum += more;
            from -= 1;
        }
        if planted(Fault::ThresholdExceeds) && from > 1 {
            return Threshold {
                from: from - 1,
                tie_room: 0,
            };
        }
        let stay = self.tier_bytes(from - 1, Tier::Fast);
        let tie_room = if from > 1 {
            target.saturating_sub(sum + stay)
        } else {
            0
        };
        Threshold { from, tie_room }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SIZES: [u64; CLASSES] = [64, 128, 0, 0, 0, 0, 0, 0];

    #[test]
    fn bins_are_octaves() {
        assert_eq!(
            [0, 1, 2, 3, 4, 127, 128, 255].map(bin),
            [0, 1, 2, 2, 3, 7, 8, 8]
        );
        assert_eq!(Histogram::new(SIZES).bin(1, 255), 7);
    }

    proptest! {
        #[test]
        fn what_is_above_the_threshold_fits_and_one_bin_more_does_not(nodes in prop::collection::vec((0u8..2, any::<bool>(), any::<u8>()), 0..200), target in 0u64..12_000) {
            let mut histogram = Histogram::new(SIZES);
            for &(class, slow, heat) in &nodes {
                histogram.add(class, if slow { Tier::Slow } else { Tier::Fast }, heat, 1);
            }
            let found = histogram.threshold(target);
            let above = |from: u8| -> u64 {
                let hot = |n: &&(u8, bool, u8)| histogram.bin(n.0, n.2) >= from;
                nodes.iter().filter(hot).map(|n| histogram.size(n.0)).sum()
            };
            prop_assert!(above(found.from) <= target);
            prop_assert!(found.from == 1 || above(found.from - 1) > target);
            prop_assert!(above(found.from) + found.tie_room <= target);
        }
    }
}
