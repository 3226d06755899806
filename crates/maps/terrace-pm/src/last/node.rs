//! A node: what it covers, its leaves, and what waits for them.

use std::hint::black_box;
use std::sync::Arc;
use terrace_base::sync::RwLock;

use super::buffer::Buffer;
use super::hotness::Heat;
use crate::key::Own;

/// A node splits when it has more leaves than this, or sooner if more than two may come in a drain.
pub const MOST_LEAVES: usize = 30;
/// Slots of a node in the paper's mode: index and buffer share them.
pub const PAPER_SLOTS: usize = 29;
/// Of them always left to the buffer.
pub const PAPER_BUFFER: usize = 10;

/// How buffers get their room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buffers {
    /// By the share of memory that a node's leaves have; the fullest leaves are drained.
    Elastic,
    /// The paper's: what the index part of a node leaves of its slots.
    Paper,
    /// The paper's to the letter: leaves are drained from the left of the buffer until a pair of a third
    /// leaf comes, or a leaf would become too full.
    Literal,
}

/// A node: its latch, and what it covers.
pub struct Node<O> {
    /// Held shared by readers, exclusively by whoever changes the node or its leaves.
    pub body: RwLock<Body<O>>,
}

/// What a node is.
pub struct Body<O> {
    /// Lower fences of its leaves; the first is its own.
    pub lows: Vec<O>,
    /// Its leaves, in order.
    pub leaves: Vec<u32>,
    /// Where the next node begins.
    pub high: Option<O>,
    /// What waits for its leaves.
    pub buffer: Buffer,
    /// How often it was split, and when.
    pub heat: Heat,
    /// Whether it was merged into the one before: look again.
    pub is_dead: bool,
}

impl<O: Own> Node<O> {
    /// A node of these leaves.
    pub fn new(lows: Vec<O>, leaves: Vec<u32>, high: Option<O>) -> Arc<Node<O>> {
        Arc::new(Node {
            body: RwLock::new(Body {
                lows,
                leaves,
                high,
                buffer: Buffer::default(),
                heat: Heat::default(),
                is_dead: false,
            }),
        })
    }
}

impl<O: Own> Body<O> {
    /// Whether a key belongs to it.
    pub fn covers(&self, key: &O) -> bool {
        !self.is_dead
            && self.lows.first().is_some_and(|low| low <= key)
            && self.high.as_ref().is_none_or(|high| key < high)
    }

    /// Which of its leaves a key goes to.
    pub fn leaf_of(&self, key: &O) -> usize {
        self.lows
            .partition_point(|low| low <= key)
            .saturating_sub(1)
    }

    /// Begins to load the numbers of its leaves, for who will need one of them soon and does not know which: from
    /// the first one and the last all of them are there.
    #[inline]
    pub fn read_ahead(&self) {
        if let [first, .., last] = self.leaves[..] {
            black_box(first ^ last);
        }
    }

    /// Bytes of memory, without the pair in the directory.
    pub fn bytes(&self) -> usize {
        // Two counters of the shared pointer, and the latch.
        let own = size_of::<Node<O>>() + 16;
        let keys: usize = if O::BYTES {
            self.lows.iter().map(|low| low.heap_bytes() + 16).sum()
        } else {
            0
        };
        own + self.lows.capacity() * size_of::<O>()
            + self.leaves.capacity() * 4
            + self.buffer.bytes()
            + keys
    }
}
