//! Frames lent to other parts of the budget, and kept for what is to come.

use std::time::Instant;

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::parts::reserve::LITTLE_PART;

/// Of fewer frames than this only a quarter may be lent, and not half.
const FEW_FRAMES: u64 = 512;
/// Hints of all structures together may take one part in this many of the memory.
const HINT_PART: u64 = 128;
/// Who need not change pages saves at most one part in this many of the frames for a cut.
const SAVED_PART: u64 = 512;

impl Frames {
    pub fn expect_checkpoint(&self, near: f64) {
        let guess = self.common.layout.undo_bytes / self.common.page_bytes() as u64 * 3 / 4;
        let lent = self.lent.count();
        self.lent.kept.expect(near, lent + guess, Instant::now());
    }

    /// Lends what a checkpoint is likely to need, before it begins. The caller holds nothing.
    pub(crate) fn lend_for_cut(&self) {
        self.lent.note_cut();
        self.lent.kept.cut();
        // Where no thread keeps the accounts in the background there is nothing to go by.
        if self.lent.kept.lent_ahead() > 0 {
            self.rebalance();
        }
    }

    /// The end of a checkpoint, however it ended.
    pub(crate) fn end_lending(&self) {
        if self.lent.kept.end() {
            self.rebalance();
        }
    }

    /// Bytes that may be saved for a cut by who needs not change pages. For a sparing one so few that they are lent
    /// without an effect on hot pages.
    #[inline]
    pub(crate) fn saved_at_most(&self) -> u64 {
        if !self.cut.is_sparing() {
            return self.common.layout.undo_bytes;
        }
        let little = self.common.frames() / SAVED_PART * self.common.page_bytes() as u64;
        little
            .max(self.common.page_bytes() as u64)
            .min(self.common.layout.undo_bytes)
    }

    /// A step of this, when `borrowed` frames are needed; see `parts/reserve.rs`.
    pub(crate) fn keep_frames(&self, borrowed: u64) {
        let lent = self.lent.count();
        let spared = self.spared(lent);
        let (lent, borrowed) = (lent - spared, borrowed.saturating_sub(spared));
        // What a sparing one borrows is no measure for others, and nothing is kept for it.
        let in_cut = self.cut.is_made() && !self.cut.is_sparing();
        let little = (self.common.frames() / LITTLE_PART).max(1);
        let made_room = self.hot_frames() <= self.hot_cap();
        self.lent
            .kept
            .follow((lent, borrowed), in_cut, little, made_room, Instant::now());
    }

    pub fn rebalance(&self) {
        let borrowed = self.borrowed();
        let most = self.lent_at_most();
        let mut lent = self.lent.frames();
        let target = borrowed.max(self.lent.kept.lent_ahead()).min(most);
        while (lent.len() as u64) < target {
            let Some(frame) = self.spare_frame() else {
                break;
            };
            self.pool.give_back(frame);
            lent.push(frame);
            // At once: hot pages may leave when the others have no more to spare.
            self.lent.note(&lent);
        }
        // A few frames of slack, so that a fluctuating use does not move memory to and fro.
        if lent.len() as u64 > target + 16 {
            let back = lent.split_off(target as usize);
            for frame in &back {
                self.pool.take_back(*frame);
            }
            self.free.lock().extend(back);
        }
        self.lent.note(&lent);
        drop(lent);
        self.keep_frames(borrowed.min(most));
    }

    /// Frames that are needed for what others use beyond what was set aside for them.
    fn borrowed(&self) -> u64 {
        let beyond = self
            .dynamic_bytes()
            .saturating_sub(self.common.layout.aside);
        beyond.div_ceil(self.common.page_bytes() as u64)
    }

    /// Whether as many are lent, or as may ever be.
    pub(crate) fn lends_enough(&self) -> bool {
        self.lent.count() >= self.borrowed().min(self.lent_at_most())
    }

    /// Most frames that are ever lent. Few frames are all needed, by those who are at work at once.
    fn lent_at_most(&self) -> u64 {
        let most = match self.pool.len() as u64 {
            frames if frames < FEW_FRAMES => frames / 4,
            frames => frames / 2,
        };
        if planted(Planted::LentAsIfHotCouldLeave) {
            return most;
        }
        // Pages in memory alone never leave for it, so that it is for their records to go first: all that are lent are
        // those of cold pages, and these keep their floor.
        let alone = self.common.counters.memory.get();
        match alone {
            0 => most,
            _ => {
                let kept = alone + self.inner_frames() + self.common.layout.floor();
                most.min((self.pool.len() as u64).saturating_sub(kept))
            }
        }
    }

    pub fn dynamic_bytes(&self) -> u64 {
        self.table.memory_bytes() as u64
            + self.map.lock().memory_bytes() as u64
            + self.undo.memory_bytes()
            + self.lent.extra()
    }

    pub fn take_hint_bytes(&self, bytes: u64) -> bool {
        self.lent
            .take_hints(bytes, self.common.options.memory / HINT_PART)
    }
}
