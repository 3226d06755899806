//! How hot each node is: one byte a node in an array of its own, in fast memory.
//!
//! A reader never writes to a node. Lost updates do no harm; a node that is freed leaves no heat
//! to whoever gets its slot, and one that moves takes its heat along.

mod histogram;
mod sample;
mod shift;

pub use histogram::{BINS, Histogram, Threshold, bin};
pub use sample::{Noting, Sampling, Ticker};
pub use shift::ShiftDetector;

use crate::faults::{Fault, planted};
use crate::id::{CLASSES, NodeId, Tier};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering::Relaxed};

/// Nodes in a chunk: what is looked at or halved in one slice.
pub const CHUNK: usize = 1 << 14;

/// Weight of a note of an inner node: paths are noted an eighth as often as leaves.
pub const INNER_WEIGHT: u8 = 8;

type Chunk = Box<[AtomicU8; CHUNK]>;

/// The heat of all nodes of a structure.
#[derive(Debug)]
pub struct Heat {
    /// By class and tier, chunks of [`CHUNK`] nodes.
    chunks: [[Box<[OnceLock<Chunk>]>; 2]; CLASSES],
    /// Notes of leaves that were fast or slow.
    samples: [AtomicU64; 2],
    /// Bytes of chunks.
    bytes: AtomicU64,
}

impl Heat {
    /// Nothing noted; room for this many nodes of each class in each tier.
    pub fn new(slots: [u64; CLASSES]) -> Heat {
        let side = |slots: u64| {
            let chunks = slots.min(crate::id::MAX_SLOTS).div_ceil(CHUNK as u64);
            (0..chunks).map(|_| OnceLock::new()).collect()
        };
        Heat {
            chunks: slots.map(|slots| [side(slots), side(slots)]),
            samples: Default::default(),
            bytes: AtomicU64::new(0),
        }
    }

    fn chunk(&self, id: NodeId) -> Option<&Chunk> {
        self.chunks[id.class() as usize][id.tier() as usize]
            .get(id.index() as usize / CHUNK)?
            .get()
    }

    #[inline]
    fn byte(&self, id: NodeId) -> Option<&AtomicU8> {
        let side = &self.chunks[id.class() as usize][id.tier() as usize];
        let chunk = side.get(id.index() as usize / CHUNK)?.get_or_init(|| {
            self.bytes.fetch_add(CHUNK as u64, Relaxed);
            Box::new([const { AtomicU8::new(0) }; CHUNK])
        });
        Some(&chunk[id.index() as usize % CHUNK])
    }

    /// Adds to a node's heat, up to 255. Two that add at once may count as one.
    #[inline]
    pub fn add(&self, id: NodeId, weight: u8) {
        if let Some(byte) = self.byte(id) {
            let heat = byte.load(Relaxed);
            if heat < u8::MAX {
                byte.store(heat.saturating_add(weight), Relaxed);
            }
        }
    }

    /// A leaf was touched and is one of the sample.
    #[inline]
    pub fn note_leaf(&self, id: NodeId) {
        self.add(id, 1);
        self.samples[id.tier() as usize].fetch_add(1, Relaxed);
    }

    /// The heat of a node.
    #[inline]
    pub fn of(&self, id: NodeId) -> u8 {
        let byte = |chunk: &Chunk| chunk[id.index() as usize % CHUNK].load(Relaxed);
        self.chunk(id).map_or(0, byte)
    }

    /// Sets the heat of a node.
    pub fn set(&self, id: NodeId, heat: u8) {
        if (heat > 0 || self.chunk(id).is_some())
            && let Some(byte) = self.byte(id)
        {
            byte.store(heat, Relaxed);
        }
    }

    /// The node is gone.
    pub fn clear(&self, id: NodeId) {
        if !planted(Fault::HeatInherited) {
            self.set(id, 0);
        }
    }

    /// A node went from one slot to another.
    pub fn moved(&self, from: NodeId, to: NodeId) {
        let heat = if planted(Fault::HeatLeftBehind) {
            0
        } else {
            self.of(from)
        };
        self.set(to, heat);
        self.clear(from);
    }

    /// A node was divided in two.
    pub fn divided(&self, node: NodeId, new: NodeId) {
        let heat = self.of(node);
        self.set(node, heat - heat / 2);
        self.set(new, heat / 2);
    }

    /// Notes of leaves so far, by tier.
    pub fn samples(&self) -> [u64; 2] {
        [Tier::Fast, Tier::Slow].map(|tier| self.samples[tier as usize].load(Relaxed))
    }

    /// Bytes that the array takes.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Relaxed)
    }

    /// The chunks that there are, each as class, tier and number. A list of them is what a pass
    /// in slices goes through.
    pub fn slices(&self) -> Vec<Slice> {
        let mut all = vec![];
        for (class, sides) in self.chunks.iter().enumerate() {
            for tier in [Tier::Fast, Tier::Slow] {
                let there = |(_, chunk): &(usize, &OnceLock<Chunk>)| chunk.get().is_some();
                let side = sides[tier as usize].iter().enumerate().filter(there);
                all.extend(side.map(|(number, _)| Slice {
                    class: class as u8,
                    tier,
                    number,
                }));
            }
        }
        all
    }

    /// Adds the nodes of a slice to a histogram, each with the bytes of its class.
    pub fn count(&self, slice: Slice, into: &mut Histogram) {
        if let Some(chunk) = self.slice(slice) {
            let mut nodes = [0u64; 256];
            for byte in chunk.iter() {
                nodes[byte.load(Relaxed) as usize] += 1;
            }
            for (heat, n) in nodes.into_iter().enumerate().filter(|(_, n)| *n > 0) {
                into.add(slice.class, slice.tier, heat as u8, n);
            }
        }
    }

    /// Divides the heat of a slice by two to the power of `bits`.
    pub fn cool(&self, slice: Slice, bits: u32) {
        let Some(chunk) = self.slice(slice) else {
            return;
        };
        for byte in chunk.iter() {
            let heat = byte.load(Relaxed);
            if heat > 0 {
                byte.store(heat >> bits, Relaxed);
            }
        }
    }

    fn slice(&self, slice: Slice) -> Option<&Chunk> {
        self.chunks[slice.class as usize][slice.tier as usize]
            .get(slice.number)?
            .get()
    }
}

/// A chunk of the heat array.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slice {
    /// The class of its nodes.
    pub class: u8,
    /// Their memory.
    pub tier: Tier,
    /// Its number within both.
    pub number: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heat_follows_its_node() {
        let heat = Heat::new([1000; CLASSES]);
        let (a, b) = (
            NodeId::new(Tier::Slow, 0, 5),
            NodeId::new(Tier::Fast, 0, 70),
        );
        for _ in 0..9 {
            heat.note_leaf(a);
        }
        heat.moved(a, b);
        assert_eq!((heat.of(a), heat.of(b)), (0, 9));
        heat.divided(b, a);
        assert_eq!((heat.of(a), heat.of(b)), (4, 5));
        heat.clear(a);
        assert_eq!((heat.of(a), heat.samples()), (0, [0, 9]));
    }

    #[test]
    fn heat_stops_at_its_end_and_cools_by_halves() {
        let heat = Heat::new([1000; CLASSES]);
        let id = NodeId::new(Tier::Fast, 1, 0);
        for _ in 0..40 {
            heat.add(id, INNER_WEIGHT);
        }
        assert_eq!(heat.of(id), 255);
        for slice in heat.slices() {
            heat.cool(slice, 1);
        }
        assert_eq!(heat.of(id), 127);
    }
}
