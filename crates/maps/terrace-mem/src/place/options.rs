//! The option of a map that says in which memories it lies.

use super::two::{Memories, Two};
use crate::home::Store;
use crate::options::Options;
use terrace_place::{Memory, Placement, PlacementError};

impl Options {
    /// Has a map lie in these memories, within so many fast bytes: a
    /// [`ConcurrentHybridMap`](crate::ConcurrentHybridMap), or one of those for one thread. With one
    /// kind of memory it is as without. The policy of the placement is for trees; here bytes go to
    /// where they save most waiting.
    ///
    /// # Errors
    /// A memory cannot be had: the error says why, and what to do.
    pub fn placement(mut self, placement: Placement) -> Result<Self, PlacementError> {
        self.memories = Memories(match placement.memories() {
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
        });
        Ok(self)
    }
}
