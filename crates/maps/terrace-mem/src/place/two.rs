//! Two kinds of memory that have been opened, and how much of the fast one is allowed.

use std::fmt;
use std::panic::RefUnwindSafe;
use std::sync::Arc;
use terrace_place::{Limit, Memory, Placement, PlacementError, Store};

/// A touch of memory by a lookup, told in numbers of lines that are no addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Touch {
    /// The header of a segment, in fast memory.
    Header(u64),
    /// A set of copies, in fast memory.
    Copies(u64),
    /// Keys and value of a segment, which are asked for together.
    Segment {
        /// The line of the key.
        key: u64,
        /// The line of the value.
        val: u64,
        /// Whether they lie in slow memory.
        slow: bool,
    },
}

/// Is told of what lookups touch: for measurements and tests.
pub trait Watch: fmt::Debug + Send + Sync + RefUnwindSafe {
    /// A lookup touches this. Runs without a lock.
    fn touch(&self, touch: Touch);
}

/// In which memories a map lies: part of its options.
#[derive(Debug, Clone, Default)]
pub struct Memories(Option<Two>);

/// Two kinds of memory that have been opened. Clones share them, and each map has its own budget.
#[derive(Debug, Clone)]
pub(crate) struct Two {
    /// None is the heap.
    pub fast: Option<Store>,
    pub slow: Store,
    pub limit: Limit,
    #[cfg_attr(feature = "shuttle", allow(dead_code, reason = "there are no threads"))]
    pub manual: bool,
    pub names: [String; 2],
    pub watch: Option<Arc<dyn Watch>>,
    pub notes: Vec<String>,
}

/// What some dynamic stages take more from one look to the next, at once: their arrays grow by half or double.
const GROWTH: u64 = 16 << 10;

impl Two {
    /// Fast bytes that are allowed a map which uses `used` of them and `slow` slow ones.
    pub fn limit(&self, used: u64, slow: u64) -> u64 {
        match self.limit {
            Limit::Bytes(bytes) => bytes,
            Limit::Share(share) => ((used + slow) as f64 * share.clamp(0.0, 1.0)) as u64,
            Limit::All => u64::MAX,
        }
    }

    /// From here on others make room for what is written, so that it does not come to the limit.
    pub fn edge(&self, limit: u64) -> u64 {
        match limit {
            u64::MAX => u64::MAX,
            limit => limit - limit / 100 - (limit / 100).min(GROWTH),
        }
    }

    /// What moves may fill: the limit without headroom for writes.
    pub fn bound(&self, limit: u64) -> u64 {
        match limit {
            u64::MAX => u64::MAX,
            limit => limit - limit / 50 - (limit / 100).min(GROWTH),
        }
    }

    /// What there is to say of a map whose slow segments have this many bytes of keys in fast memory.
    pub fn notes_with(&self, fast_keys: u64) -> Vec<String> {
        let mut notes = self.notes.clone();
        if fast_keys > 0 {
            notes.push(format!(
                "slow segments keep their keys in fast memory, {:.1} MiB: this static stage has no \
                 other place for them; Stage::Auto of integers and byte strings has",
                fast_keys as f64 / (1 << 20) as f64
            ));
        }
        notes
    }
}

impl Memories {
    /// Those of a placement, opened; fails where one cannot be had.
    pub(crate) fn open(placement: &Placement) -> Result<Self, PlacementError> {
        Ok(Memories(match placement.memories() {
            None => None,
            Some((Memory::Node(fast), Memory::Node(slow))) if fast == slow => {
                return Err(PlacementError::SameMemory);
            }
            Some((fast, slow)) => Some(Two {
                fast: match fast {
                    Memory::Heap => None,
                    other => Some(Store::open(other)?),
                },
                slow: Store::open(slow)?,
                limit: placement.limit(),
                manual: placement.is_manual(),
                names: [fast.to_string(), slow.to_string()],
                watch: None,
                notes: placement.notes().to_vec(),
            }),
        }))
    }

    /// Both, if there are two kinds.
    pub(crate) fn two(&self) -> Option<Two> {
        self.0.clone()
    }

    /// Has lookups told to `watch`.
    pub fn watched_by(mut self, watch: Arc<dyn Watch>) -> Self {
        if let Some(two) = &mut self.0 {
            two.watch = Some(watch);
        }
        self
    }

    /// Whether there are two kinds.
    pub fn is_two(&self) -> bool {
        self.0.is_some()
    }
}
