//! What can be chosen when a map is opened.

use std::sync::OnceLock;
use terrace_base::{Durability, Error, Result};

use crate::last::Buffers;
use crate::superblock::{MOST_BYTES, Shape};

/// How to open a map. One number rules its memory.
#[derive(Clone, Debug)]
pub struct Options {
    pub(crate) memory: u64,
    pub(crate) capacity: u64,
    pub(crate) durability: Option<Durability>,
    pub(crate) create: bool,
    pub(crate) discard: bool,
    pub(crate) buffers: Buffers,
    pub(crate) hotness: bool,
    pub(crate) split: usize,
    pub(crate) shape: Shape,
    pub(crate) boot: Option<u128>,
    pub(crate) threads: usize,
    pub(crate) node_leaves: usize,
    pub(crate) map_id: Option<u64>,
}

/// The memory if nothing is said.
pub const DEFAULT_MEMORY: u64 = 64 << 20;
/// The most bytes of the file if nothing is said.
pub const DEFAULT_CAPACITY: u64 = 16 << 30;

impl Default for Options {
    fn default() -> Self {
        Options {
            memory: DEFAULT_MEMORY,
            capacity: DEFAULT_CAPACITY,
            durability: None,
            create: true,
            discard: false,
            buffers: Buffers::Elastic,
            hotness: true,
            split: 2,
            shape: Shape {
                slots: 28,
                records: 126,
                partitions: default_partitions(),
                chunk: 2 << 20,
            },
            boot: None,
            threads: cores().min(8),
            node_leaves: crate::last::MOST_LEAVES,
            map_id: None,
        }
    }
}

/// More partitions than threads that may append at once, so that they seldom meet.
fn default_partitions() -> u32 {
    if cores() <= 4 { 16 } else { 64 }
}

/// Processors that this process may use; asked for once, as it takes reading several files.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| std::thread::available_parallelism().map_or(1, |n| n.get()))
}

impl Options {
    /// What is right for most.
    pub fn new() -> Options {
        Options::default()
    }

    /// Whether a map can be as they say.
    pub(crate) fn check(&self) -> Result<()> {
        if self.capacity <= MOST_BYTES {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "a map has a capacity of {MOST_BYTES} bytes at most, and {} were asked for (Options::capacity)",
            self.capacity
        )))
    }

    /// Bytes of ordinary memory for everything: nodes, buffers, what the log and free places need. More of
    /// it means larger buffers, and so fewer writes. 64 MiB if nothing is said.
    pub fn memory(mut self, bytes: u64) -> Options {
        self.memory = bytes;
        self
    }

    /// The most bytes that the file will ever have; it is fixed when the map is made. 16 GiB if nothing is
    /// said, 128 GiB at most: more is an error when it is opened. The file grows up to it as needed.
    pub fn capacity(mut self, bytes: u64) -> Options {
        self.capacity = bytes;
        self
    }

    /// What a write is worth when it returns. If nothing is said, `Sync` on persistent memory and
    /// `Buffered` on any other file.
    pub fn durability(mut self, durability: Durability) -> Options {
        self.durability = Some(durability);
        self
    }

    /// Whether a map that is not there is made. True if nothing is said.
    pub fn create(mut self, create: bool) -> Options {
        self.create = create;
        self
    }

    /// Begins with an empty map where [`terrace_base::Error::PowerLost`] would be the answer, as a cache
    /// may.
    pub fn discard_after_power_loss(mut self, discard: bool) -> Options {
        self.discard = discard;
        self
    }

    /// How buffers get their room: [`Buffers::Elastic`] if nothing is said.
    pub fn buffers(mut self, buffers: Buffers) -> Options {
        self.buffers = buffers;
        self
    }

    /// In the paper's mode, whether a node in a burst splits into more than two.
    pub fn hotness_split(mut self, on: bool) -> Options {
        self.hotness = on;
        self
    }

    /// Leaves that a drain takes; 2 if nothing is said, which bounds the longest put.
    pub fn drained_leaves(mut self, leaves: usize) -> Options {
        self.split = leaves.clamp(1, 8);
        self
    }

    /// Threads that open a map; as many as there are cores, but eight at most, if nothing is said.
    pub fn threads(mut self, threads: usize) -> Options {
        self.threads = threads.max(1);
        self
    }

    /// A tiny map for tests: leaves of four pairs, segments of three records, two partitions, nodes of few
    /// leaves, so that splits, merges and cleaning come within a few operations. All of them have one number,
    /// so that what a seed has shown is shown again.
    #[doc(hidden)]
    pub fn tiny(mut self) -> Options {
        self.map_id = Some(0x7465_7272_6163_6531);
        self.shape = Shape {
            slots: 4,
            records: 3,
            partitions: 2,
            chunk: 4096,
        };
        self.node_leaves = 4;
        self.threads = 1;
        self
    }

    /// Partitions of the log, a power of two up to 64.
    #[doc(hidden)]
    pub fn partitions(mut self, partitions: u32) -> Options {
        self.shape.partitions = partitions.clamp(1, 64).next_power_of_two();
        self
    }

    /// Pretends that the machine has this boot id.
    #[doc(hidden)]
    pub fn boot(mut self, boot: u128) -> Options {
        self.boot = Some(boot);
        self
    }
}
