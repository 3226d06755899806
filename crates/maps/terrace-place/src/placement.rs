//! Which memories, how much of the fast one, and who decides: what a map is told when it is made.

use crate::block::Store;
use crate::budget::Limit;
use crate::detect::{self, Found, Machine};
use crate::error::PlacementError;
use crate::memory::{Memory, Source};
use crate::policy::{HeatPolicy, Policy};
use std::fmt;

/// Slots of the smallest class in each memory, unless told otherwise: addresses, not bytes.
const SLOTS: u64 = 1 << 25;
/// Bytes of fast memory if neither the caller nor the machine says.
const FAST_BYTES: u64 = 1 << 30;

/// Which memories a map uses.
///
/// ```
/// use terrace_place::Placement;
///
/// // Finds slower memory that this process may use; where there is none, one kind is used, which
/// // costs nothing. It says why.
/// let placement = Placement::detect().fast_bytes(4 << 30);
/// println!("{placement}");
/// ```
pub struct Placement {
    memories: Option<(Memory, Memory)>,
    limit: Option<Limit>,
    policy: Box<dyn Policy>,
    notes: Vec<String>,
    slots: u64,
    background: bool,
}

/// A placement whose memories have been opened.
pub(crate) struct Opened {
    pub(crate) sources: [Source; 2],
    pub(crate) memories: Vec<String>,
    pub(crate) limit: Limit,
    pub(crate) policy: Box<dyn Policy>,
    pub(crate) notes: Vec<String>,
    pub(crate) slots: u64,
    pub(crate) background: bool,
}

impl Default for Placement {
    fn default() -> Placement {
        Placement::uniform()
    }
}

impl Placement {
    fn new(memories: Option<(Memory, Memory)>) -> Placement {
        Placement {
            memories,
            limit: None,
            policy: Box::new(HeatPolicy::default()),
            notes: vec![],
            slots: SLOTS,
            background: true,
        }
    }

    /// One kind of memory: nothing is counted and nothing moves.
    pub fn uniform() -> Placement {
        Placement::new(None)
    }

    /// These two.
    pub fn two(fast: Memory, slow: Memory) -> Placement {
        Placement::new(Some((fast, slow)))
    }

    /// What the machine has: a slower node that this process may use, if there is one without
    /// processors of ours and nothing speaks against it. Otherwise one kind of memory.
    pub fn detect() -> Placement {
        Placement::found(&detect::candidates(&Machine::here()))
    }

    /// What was found on a machine.
    pub fn found(found: &Found) -> Placement {
        let mut placement = Placement::new(None);
        placement.notes = found.notes.clone();
        if let Some(slow) = found.slow {
            // The first touch takes memory of the node on which a thread runs. A little is taken of
            // the other to see whether it can be had: containers allow to ask, and refuse to bind.
            match Store::open(&Memory::Node(slow)) {
                Ok(_) => placement.memories = Some((Memory::Heap, Memory::Node(slow))),
                Err(error) => placement.notes.push(format!("one kind of memory: {error}")),
            }
        }
        placement.limit = found.fast_available.map(|bytes| Limit::Bytes(bytes / 2));
        placement
    }

    /// This many bytes may be fast, with the directory, the heat of nodes, and what keys own.
    pub fn fast_bytes(mut self, bytes: u64) -> Placement {
        self.limit = Some(Limit::Bytes(bytes));
        self
    }

    /// This share of the nodes' bytes may be fast, as the map grows; 1 and more is all.
    pub fn fast_share(mut self, share: f64) -> Placement {
        self.limit = Some(Limit::Share(share));
        self
    }

    /// Another policy than [`HeatPolicy`].
    pub fn policy(mut self, policy: impl Policy + 'static) -> Placement {
        self.policy = Box::new(policy);
        self
    }

    /// Room for this many leaves in each memory, and an eighth of that of inner nodes: addresses,
    /// not bytes. A memory has [`MAX_SLOTS`](crate::MAX_SLOTS) of a kind at most, and fewer where
    /// the system has no addresses for that many.
    pub fn slots(mut self, slots: u64) -> Placement {
        self.slots = slots;
        self
    }

    /// No thread: the caller makes the steps.
    pub fn manual(mut self) -> Placement {
        self.background = false;
        self
    }

    /// Whether there are two kinds of memory.
    pub fn is_two(&self) -> bool {
        self.memories.is_some()
    }

    /// The two kinds of memory, fast and slow; none if there is one kind.
    pub fn memories(&self) -> Option<(&Memory, &Memory)> {
        self.memories.as_ref().map(|(fast, slow)| (fast, slow))
    }

    /// How much may be fast.
    pub fn limit(&self) -> Limit {
        match &self.memories {
            None => Limit::All,
            Some(_) => self.limit.unwrap_or(Limit::Bytes(FAST_BYTES)),
        }
    }

    /// Why there is one kind, or what else there is to say.
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// Whether the caller makes the steps.
    pub fn is_manual(&self) -> bool {
        !self.background
    }

    pub(crate) fn open(self) -> Result<Opened, PlacementError> {
        let (sources, memories, limit) = match &self.memories {
            None => (
                [Source::Heap, Source::Heap],
                vec![Memory::Heap.to_string()],
                Limit::All,
            ),
            Some((Memory::Node(a), Memory::Node(b))) if a == b => {
                return Err(PlacementError::SameMemory);
            }
            Some((fast, slow)) => (
                [Source::open(fast)?, Source::open(slow)?],
                vec![fast.to_string(), slow.to_string()],
                self.limit.unwrap_or(Limit::Bytes(FAST_BYTES)),
            ),
        };
        Ok(Opened {
            sources,
            memories,
            limit,
            policy: self.policy,
            notes: self.notes,
            slots: self.slots,
            background: self.background,
        })
    }
}

impl fmt::Debug for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Placement")
            .field("memories", &self.memories)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.memories {
            Some((fast, slow)) => write!(f, "fast: {fast}; slow: {slow}")?,
            None => f.write_str("one kind of memory")?,
        }
        for note in &self.notes {
            write!(f, "\n{note}")?;
        }
        Ok(())
    }
}
