//! Making clean frames, by writing pages, for who needs frames and may wait for them.

use terrace_base::Result;
use terrace_base::sync::yield_now;

use crate::disk::Storage;
use crate::frames::copy::Purpose;

/// Dirty pages that a thread may pass over on its way to a clean one before it cleans some itself.
const DIRTY_SEEN: usize = 12;

/// How often a reader looks again for a clean page once writing has stopped.
const PATIENCE_WHEN_STOPPED: u32 = 64;

/// Times that frames are made for what another part of the budget is about to take.
const ROUNDS_FOR_EXTRA: usize = 64;

impl Storage {
    /// A frame of its own for the caller, who holds nothing; waits for the cleaner if need be.
    ///
    /// # Errors
    /// `Poisoned` when writing has stopped and every page in memory is dirty.
    pub(crate) fn take_frame(&self) -> Result<u32> {
        let mut patience = PATIENCE_WHEN_STOPPED;
        loop {
            let free = self.frames.take_free();
            if let Some(frame) = free {
                return Ok(frame);
            }
            let stopped = self.common().health.is_poisoned();
            let (found, dirty) = self.frames.evict_counting(stopped);
            if dirty > DIRTY_SEEN && !stopped {
                // If clean frames are this rare, the pages of one path from root to leaf could keep
                // throwing each other out.
                let cleaned = self.clean_some();
                if let Some(frame) = found {
                    return Ok(frame);
                }
                cleaned?;
            } else if let Some(frame) = found {
                return Ok(frame);
            }
            if stopped && patience > 0 {
                // The last clean ones may be in the hands of others, who give them back.
                patience -= 1;
                yield_now();
                continue;
            }
            self.make_frames()?;
        }
    }

    /// Makes clean frames: writes a batch of dirty cold pages, or waits for those who do. The
    /// caller holds nothing.
    ///
    /// # Errors
    /// `Poisoned` when every cold page is dirty and writing has stopped.
    pub(crate) fn make_frames(&self) -> Result<()> {
        self.common().counters.waits_for_frames.add(1);
        if self.clean_some()? == 0 {
            self.common().signals.want_cleaning();
            self.common().signals.wait_for_progress();
        }
        Ok(())
    }

    /// Writes a batch of dirty cold pages that the clock comes to next; returns how many pages
    /// became clean. The caller holds nothing.
    pub(crate) fn clean_some(&self) -> Result<usize> {
        self.common().health.check_poison()?;
        let (picks, owed) = self.frames.pick_to_clean();
        let cleaned = self.write_pages(&picks, Purpose::Clean)?;
        // Pages that a checkpoint still owes can be cleaned once it has them.
        self.frames.cut().set_cleaning_waits(owed && cleaned == 0);
        self.common().signals.note_progress();
        Ok(cleaned)
    }

    pub fn make_room_for_extra(&self) -> Result<()> {
        for _ in 0..ROUNDS_FOR_EXTRA {
            self.frames.rebalance();
            if self.frames.lends_enough() {
                break;
            }
            self.make_frames()?;
        }
        Ok(())
    }
}
