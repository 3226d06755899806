//! Frames lent to other parts of the budget, and kept for what is to come.

use std::time::Instant;

use terrace_base::Result;

use crate::parts::reserve::LITTLE_PART;
use crate::store::PageStore;

/// Of fewer frames than this only a quarter may be lent, and not half.
const FEW_FRAMES: u64 = 512;
/// Times that frames are made for what another part of the budget is about to take.
const ROUNDS_FOR_EXTRA: usize = 64;
/// Hints of all structures together may take one part in so many of the memory.
const HINT_PART: u64 = 128;
/// Beyond what is kept, one part in so many of the frames may be lent before the cap of hot pages falls at
/// once: of the frames of cold pages about a quarter.
const TOLERANCE_PART: u64 = 256;
/// A sparing checkpoint, which is soon over, borrows so much more without an effect: for what is saved, for what holds
/// that, and for what the map of pages takes meanwhile.
const SPARED_PART: u64 = 64;
/// So much is saved for it at most by who need not change pages: one part in so many of the frames.
const SAVED_PART: u64 = 512;

impl PageStore {
    /// Tells the store how near a checkpoint is, from 0, not at all, to 1, where it begins: so much of the room
    /// that it will need hot pages make for it. To be told more often than once in half a minute; see
    /// `parts/reserve.rs`. O(1).
    pub fn expect_checkpoint(&self, near: f64) {
        let guess = self.layout.undo_bytes / self.page_bytes() as u64 * 3 / 4;
        let lent = self.lent.count();
        self.lent.kept.expect(near, lent + guess, Instant::now());
    }

    /// Frames that are lent or kept for that: what hot pages may not have.
    pub(crate) fn lent_or_kept(&self) -> u64 {
        let lent = self.lent.count();
        let at_once = (lent - self.spared(lent)).saturating_sub(self.frames() / TOLERANCE_PART);
        at_once.max(self.lent.kept.frames())
    }

    /// Of the frames that are lent those that a sparing checkpoint borrows without an effect on hot pages.
    fn spared(&self, lent: u64) -> u64 {
        if !self.cut.is_sparing() || !self.cut.is_made() {
            return 0;
        }
        let since = lent.saturating_sub(self.lent.before_cut());
        since.min(self.frames() / SPARED_PART)
    }

    /// Lends what a checkpoint is likely to need, before it begins. The caller holds nothing.
    pub(crate) fn lend_for_cut(&self) {
        self.lent.note_cut();
        self.lent.kept.cut();
        // Where nobody keeps the accounts in the background there is nothing to go by.
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
            return self.layout.undo_bytes;
        }
        let little = self.frames() / SAVED_PART * self.page_bytes() as u64;
        little
            .max(self.page_bytes() as u64)
            .min(self.layout.undo_bytes)
    }

    /// A step of this, when `borrowed` frames are needed; see `parts/reserve.rs`.
    pub(crate) fn keep_frames(&self, borrowed: u64) {
        let lent = self.lent.count();
        let spared = self.spared(lent);
        let (lent, borrowed) = (lent - spared, borrowed.saturating_sub(spared));
        // What a sparing one borrows is no measure for others, and nothing is kept for it.
        let in_cut = self.cut.is_made() && !self.cut.is_sparing();
        let little = (self.frames() / LITTLE_PART).max(1);
        let made_room = self.hot_frames() <= self.hot_cap();
        self.lent
            .kept
            .follow((lent, borrowed), in_cut, little, made_room, Instant::now());
    }

    /// Lends frames to other parts of the budget, or takes them back, until what those use beyond
    /// what was set aside for them is covered. Bounded; the caller holds nothing.
    pub fn rebalance(&self) {
        let beyond = self.dynamic_bytes().saturating_sub(self.layout.aside);
        let borrowed = beyond.div_ceil(self.page_bytes() as u64);
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
            self.free_frames.lock().extend(back);
        }
        self.lent.note(&lent);
        drop(lent);
        self.keep_frames(borrowed.min(most));
    }

    /// Most frames that are ever lent. Few frames are all needed, by those who are at work at once.
    fn lent_at_most(&self) -> u64 {
        match self.pool.len() as u64 {
            frames if frames < FEW_FRAMES => frames / 4,
            frames => frames / 2,
        }
    }

    /// Lends frames for what was taken by [`PageStore::take_extra_bytes`], and has pages written if there are
    /// too many changed ones. Bounded, so there may be fewer than are needed afterwards: hot records take
    /// their time. Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// `Poisoned` when every cold page is dirty and writing has stopped.
    pub fn make_room_for_extra(&self) -> Result<()> {
        for _ in 0..ROUNDS_FOR_EXTRA {
            self.rebalance();
            let beyond = self.dynamic_bytes().saturating_sub(self.layout.aside);
            let needed = beyond.div_ceil(self.page_bytes() as u64);
            if self.lent.count() >= needed.min(self.lent_at_most()) {
                break;
            }
            self.make_frames()?;
        }
        Ok(())
    }

    /// Bytes used beside the frames that grow and shrink.
    pub fn dynamic_bytes(&self) -> u64 {
        self.table.memory_bytes() as u64
            + self.map.lock().memory_bytes() as u64
            + self.undo.memory_bytes()
            + self.lent.extra()
    }

    /// Tells the store that a part above it uses so many bytes of the budget beyond what was set aside
    /// for it when the store was opened (a long scan, say); frames make room for them soon.
    pub fn take_extra_bytes(&self, bytes: u64) {
        self.lent.take_extra(bytes);
    }

    /// Takes memory of the budget for what only makes lookups faster, if there is some left of the small part
    /// that all of these may have together. O(1).
    pub fn take_hint_bytes(&self, bytes: u64) -> bool {
        self.lent.take_hints(bytes, self.options.memory / HINT_PART)
    }

    /// The end of what was taken with [`PageStore::take_hint_bytes`].
    pub fn give_hint_bytes(&self, bytes: u64) {
        self.lent.give_hints(bytes);
    }

    /// The end of what was taken with [`PageStore::take_extra_bytes`].
    pub fn give_extra_bytes(&self, bytes: u64) {
        self.lent.give_extra(bytes);
    }
}
