//! What the map consists of, what it counts, and the failure after which nothing more is written.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use terrace_base::process::{Owner, Watch, of_another_process};
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use super::budget::Budget;
use super::hand::Hand;
use crate::arena::{Arena, BlobRef};
use crate::faults::{Planted, planted};
use crate::key::{Own, ValueOut};
use crate::last::{Buffers, Directory, LEAVES_OF_TAGS, Node, PAPER_BUFFER, PAPER_SLOTS};
use crate::log::Log;

/// Settings of the tree that do not change while it is open.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How buffers get their room.
    pub buffers: Buffers,
    /// Whether nodes in a burst split into more than two (the paper's mode).
    pub hotness: bool,
    /// Leaves of a drain.
    pub drained: usize,
    /// Leaves of a node at most.
    pub node_leaves: usize,
    /// Whether pairs refer to blobs.
    pub blobs: bool,
    /// Whether values are bytes.
    pub value_bytes: bool,
    /// Bytes of memory.
    pub memory: u64,
    /// Whether a write is durable when it returns.
    pub is_sync: bool,
}

impl Settings {
    /// Leaves of a node before it is divided.
    pub fn most_leaves(&self) -> usize {
        match self.buffers {
            // Each leaf of a drain may split, and tags know this many leaves.
            Buffers::Elastic => self.node_leaves.min(LEAVES_OF_TAGS - self.drained),
            // The literal node splits when its index part takes all but four slots.
            Buffers::Literal => (PAPER_SLOTS - 4).min(self.node_leaves),
            Buffers::Paper => (PAPER_SLOTS - PAPER_BUFFER).min(self.node_leaves),
        }
    }
}

/// What the tree has done since it was opened.
#[derive(Default)]
pub struct Counters {
    /// Puts and deletes.
    pub writes: AtomicU64,
    /// Drains.
    pub drains: AtomicU64,
    /// Leaves that drains wrote.
    pub leaf_writes: AtomicU64,
    /// Pairs that went into leaves.
    pub drained: AtomicU64,
    /// Leaves that were split.
    pub splits: AtomicU64,
    /// Nodes that were split.
    pub node_splits: AtomicU64,
    /// Nodes that splits made.
    pub node_parts: AtomicU64,
    /// Leaves that were merged.
    pub merges: AtomicU64,
    /// Records that were copied to the head of the log.
    pub copies: AtomicU64,
}

/// A tree in persistent memory.
pub struct Tree<O: Own> {
    pub(crate) arena: Arc<Arena>,
    pub(crate) log: Log,
    pub(crate) directory: Directory<O>,
    pub(crate) settings: Settings,
    pub(crate) budget: Budget,
    pub(crate) counters: Counters,
    /// Pairs in buffers.
    pub(crate) buffered: AtomicUsize,
    pub(super) cleaner: Mutex<Hand>,
    /// How many places had become free when cleaning found no room in a full file.
    pub(super) found_full: AtomicU64,
    poison: Mutex<Option<String>>,
    is_poisoned: AtomicBool,
    owner: Owner,
    /// False while records are replayed: nothing is freed then (rule 13).
    pub(crate) is_open: AtomicBool,
}

impl<O: Own> Tree<O> {
    /// Over what recovery has found.
    pub fn new(
        arena: Arc<Arena>,
        log: Log,
        directory: Directory<O>,
        settings: Settings,
        budget: Budget,
    ) -> Tree<O> {
        Tree {
            arena,
            log,
            directory,
            settings,
            budget,
            counters: Counters::default(),
            buffered: AtomicUsize::new(0),
            cleaner: Mutex::new(Hand::default()),
            found_full: AtomicU64::new(u64::MAX),
            poison: Mutex::new(None),
            is_poisoned: AtomicBool::new(false),
            owner: Owner::here(),
            is_open: AtomicBool::new(false),
        }
    }

    /// Whether this is the process that opened it.
    #[inline]
    pub fn is_here(&self) -> bool {
        self.owner.is_here()
    }

    /// For who asks often whether this is the process that opened it.
    pub fn watch(&self) -> Watch {
        self.owner.watch()
    }

    /// An error in a process that was forked from the one that opened it: it has the same file, another copy
    /// of the index, and perhaps a latch that no thread will ever release.
    pub fn check_process(&self) -> Result<()> {
        if self.is_here() {
            return Ok(());
        }
        Err(of_another_process())
    }

    /// An error if a fence has failed: it is not known what is durable, so nothing more is written (rule
    /// 16).
    pub fn check_poison(&self) -> Result<()> {
        if !self.is_poisoned.load(Acquire) {
            return Ok(());
        }
        let cause = self.poison.lock().clone().unwrap_or_default();
        Err(Error::Poisoned { cause })
    }

    /// Remembers a failure that leaves it unknown what is durable. A full file changes nothing.
    #[inline]
    pub(crate) fn guard<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result {
            self.remember(error);
        }
        result
    }

    #[cold]
    fn remember(&self, error: &Error) {
        if matches!(error, Error::Io { .. } | Error::Poisoned { .. })
            && !planted(Planted::FailureForgotten)
        {
            let mut poison = self.poison.lock();
            poison.get_or_insert_with(|| error.to_string());
            self.is_poisoned.store(true, Release);
        }
    }

    /// What the value of a key's pair is; an error where the pair refers to a blob that is not what was
    /// written, or to that of another key.
    pub(crate) fn value_of(&self, key: &O, value: u64) -> Result<ValueOut> {
        if !self.settings.blobs {
            return Ok(ValueOut::Int(value));
        }
        let blob = BlobRef(value);
        let found = self.arena.whole_blob(blob)?;
        if found.key != key.bytes() || blob.hash() != key.hash() >> 40 << 40 {
            return Err(Error::corrupt(
                self.arena.pm().name(),
                blob.byte(),
                "a pair refers to the blob of another key",
            ));
        }
        Ok(self.value_in(found.value))
    }

    /// The value in the bytes of a blob.
    pub(crate) fn value_in(&self, bytes: Vec<u8>) -> ValueOut {
        if self.settings.value_bytes {
            return ValueOut::Bytes(bytes);
        }
        let mut word = [0; 8];
        let len = bytes.len().min(8);
        word[..len].copy_from_slice(&bytes[..len]);
        ValueOut::Int(u64::from_le_bytes(word))
    }

    /// Pairs in buffers.
    pub fn buffered(&self) -> usize {
        self.buffered.load(Relaxed)
    }

    /// The node of a key.
    pub(crate) fn node(&self, key: &O) -> Result<Arc<Node<O>>> {
        self.directory
            .find(key)
            .ok_or_else(|| Error::invalid("a map without nodes"))
    }
}
