//! The one memory number: what is left of it beside the index is shared out to buffers, by leaves.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicI64, AtomicU64};

use crate::last::{CHUNK_BYTES, CHUNK_PAIRS};

/// More pairs a leaf than this gain little, and make searches in buffers long.
const MOST_A_LEAF: u64 = 8;
/// More pairs a node are never buffered.
const MOST_A_NODE: usize = 240;
/// The fewest that a node buffers, however small the memory.
pub const LEAST: usize = 4;
/// Bytes for each buffered pair of a map with blobs beside its place in the buffer: the log may have three
/// records for it, and for each of them two places of blobs are remembered until the tail has passed it.
const LIMBO_BYTES: u64 = 48;

/// New keys leave one part in this many of the memory for opening, as what the index takes then is not to the byte
/// what it took before.
const KEPT_PART: u64 = 32;
/// An index that is larger than the memory by one part in `OVER_PART`, and by `OVER_BYTES` bytes or half of a
/// smaller memory, is opened all the same: what a new chunk of the log and some splits take is seen only when the
/// memory is next shared out.
const OVER_PART: u64 = 16;
const OVER_BYTES: u64 = 32 << 10;

/// Who has how much.
pub struct Budget {
    memory: u64,
    /// Bytes that a chunk of a buffer takes, what the log remembers of its pairs included.
    chunk: u64,
    /// Nodes and leaves in them.
    nodes: AtomicI64,
    leaves: AtomicI64,
    /// Bytes of nodes without their buffers, of buffers, and of everything else.
    index: AtomicI64,
    buffers: AtomicI64,
    other: AtomicI64,
    /// Bytes of what the log remembers of blobs.
    limbo: AtomicI64,
    /// Bytes of what is needed for a while.
    lent: AtomicI64,
    /// Pairs a leaf, in sixteenths; 0 where not even the index has room.
    share: AtomicU64,
}

impl Budget {
    /// Of this many bytes.
    pub fn new(memory: u64, blobs: bool) -> Budget {
        Budget {
            memory,
            chunk: match blobs {
                true => CHUNK_BYTES as u64 + CHUNK_PAIRS as u64 * LIMBO_BYTES,
                false => CHUNK_BYTES as u64,
            },
            nodes: AtomicI64::new(0),
            leaves: AtomicI64::new(0),
            index: AtomicI64::new(0),
            buffers: AtomicI64::new(0),
            other: AtomicI64::new(0),
            limbo: AtomicI64::new(0),
            lent: AtomicI64::new(0),
            share: AtomicU64::new(MOST_A_LEAF * 16),
        }
    }

    /// The limit.
    pub fn memory(&self) -> u64 {
        self.memory
    }

    /// Nodes, leaves and bytes have changed by these amounts.
    #[inline]
    pub fn change(&self, nodes: i64, leaves: i64, index: i64, buffers: i64) {
        if nodes != 0 || leaves != 0 {
            self.nodes.fetch_add(nodes, Relaxed);
            self.leaves.fetch_add(leaves, Relaxed);
        }
        if index != 0 {
            self.index.fetch_add(index, Relaxed);
        }
        if buffers != 0 {
            self.buffers.fetch_add(buffers, Relaxed);
        }
    }

    /// What arena and log take, and of that what the log remembers of blobs.
    pub fn set_other(&self, bytes: u64, limbo: u64) {
        self.other.store(bytes as i64, Relaxed);
        self.limbo.store(limbo as i64, Relaxed);
    }

    /// What is needed beside these, until it is said anew.
    pub fn lend(&self, bytes: u64) {
        self.lent.store(bytes as i64, Relaxed);
        self.share_out();
    }

    /// Bytes that are not in use.
    pub fn left(&self) -> u64 {
        self.memory.saturating_sub(self.used())
    }

    /// Bytes of everything but buffers.
    #[inline]
    pub fn index(&self) -> u64 {
        (self.index.load(Relaxed) + self.other.load(Relaxed) + self.lent.load(Relaxed)).max(0)
            as u64
    }

    /// Bytes of everything.
    #[inline]
    pub fn used(&self) -> u64 {
        self.index() + (self.buffers.load(Relaxed) + self.limbo.load(Relaxed)).max(0) as u64
    }

    /// Whether a map that is there is opened: whatever new keys were let in with the same memory is.
    pub fn may_open(&self) -> bool {
        let over = self.memory / OVER_PART + OVER_BYTES.min(self.memory / 2);
        self.needed() <= self.memory.saturating_add(over)
    }

    /// With how much memory new keys are let in.
    pub fn needed_for_more(&self) -> u64 {
        self.needed() + self.needed() / (KEPT_PART - 1) + 1
    }

    /// What the index needs, with the least of buffers.
    pub fn needed(&self) -> u64 {
        self.index() + self.nodes.load(Relaxed).max(1) as u64 * CHUNK_BYTES as u64
    }

    /// Shares out anew; nodes have come or gone.
    pub fn share_out(&self) {
        let leaves = self.leaves.load(Relaxed).max(1) as u64;
        let left = self.memory.saturating_sub(self.index());
        let pairs = left / self.chunk * CHUNK_PAIRS as u64;
        let share = if self.needed() > self.memory - self.memory / KEPT_PART {
            0
        } else {
            (pairs * 16 / leaves).clamp(1, MOST_A_LEAF * 16)
        };
        self.share.store(share, Relaxed);
    }

    /// Whether the index alone has no room: new keys must wait.
    #[inline]
    pub fn is_exhausted(&self) -> bool {
        self.share.load(Relaxed) == 0
    }

    /// Whether not even one chunk more has room.
    #[inline]
    pub fn is_used_up(&self) -> bool {
        self.used() + CHUNK_BYTES as u64 > self.memory
    }

    /// Pairs a leaf that buffers may hold.
    pub fn share(&self) -> f64 {
        self.share.load(Relaxed) as f64 / 16.0
    }

    /// How many pairs a node may have when it is opened, where there is room: as many as it had, so that its leaves
    /// need not be split, which would make the index larger.
    pub fn cap_when_opened(&self) -> usize {
        if self.is_used_up() { 0 } else { MOST_A_NODE }
    }

    /// How many pairs a node of this many leaves may buffer. A hot one may have twice its share while others
    /// leave a quarter of all unused.
    #[inline]
    pub fn cap(&self, leaves: usize) -> usize {
        let share = self.share.load(Relaxed) as usize;
        let mut cap = share * leaves / 16;
        let left = self.memory.saturating_sub(self.index());
        let limbo = self.limbo.load(Relaxed);
        if ((self.buffers.load(Relaxed) + limbo).max(0) as u64) < left / 4 * 3 {
            cap *= 2;
        }
        if cap >= 2 * CHUNK_PAIRS {
            cap = cap / CHUNK_PAIRS * CHUNK_PAIRS;
        }
        cap.clamp(LEAST, MOST_A_NODE)
    }
}
