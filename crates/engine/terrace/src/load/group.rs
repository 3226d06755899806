//! How much is written at a time, and what is done about a full disk.

use terrace_base::Result;

use crate::core::Core;
use crate::options::Budget;

/// Records of a group, whose locks are held together.
pub(crate) const GROUP_RECORDS: usize = 256;
/// Bytes of a group, and no more than one record beyond.
const GROUP_BYTES: usize = 64 << 10;
/// And no more than one part in this many of the log's buffer: half of what the log takes at once, which it
/// would write itself, inside the gate.
const LOG_PART: usize = 8;
/// And of a loader's memory: there are some each way, and one in the hands of each thread, and all of
/// them have their records twice.
const MEMORY_PART: usize = 64;
/// Bytes of a group in this database, for a loader with `memory` bytes of memory.
pub(crate) fn group_bytes(budget: &Budget, memory: u64) -> usize {
    GROUP_BYTES
        .min(budget.log as usize / LOG_PART)
        .min(memory as usize / MEMORY_PART)
}

impl Core {
    /// Writes something that a full disk refuses before anything of it was done; and then once more, after a
    /// checkpoint: what fills the disk may be the log of what was loaded before.
    pub(super) fn with_room<T>(&self, mut write: impl FnMut() -> Result<T>) -> Result<T> {
        match write() {
            Err(full) if full.is_disk_full() => {
                self.asked_checkpoint().map_err(|_| full)?;
                write()
            }
            written => written,
        }
    }
}
