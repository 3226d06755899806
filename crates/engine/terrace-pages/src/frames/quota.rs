//! How many frames each class of pages has, and how many it may have.
//!
//! Figures that others change meanwhile: who allocates a page is told by them whether it may.

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::parts::options::WHOLE_SHARE;

/// The part of the frames for hot pages that is left when they are said to run out.
const LAST_FRAMES: u64 = 10;

/// Pages that gather changes are kept while they are at most one in this many.
const TOPS_PART: u64 = 4;
/// Beyond what is set aside for them they may have one part in this many of the frames before the cap of hot pages
/// falls, and one in this many of those that others have in any case.
const TOPS_TOLERANCE_PART: u64 = 32;
const TOPS_FLOOR_PART: u64 = 4;

/// Beyond what is kept, one part in this many of the frames may be lent before the cap of hot pages falls at
/// once: of the frames of cold pages about a quarter.
const TOLERANCE_PART: u64 = 256;
/// A sparing checkpoint, which is soon over, borrows at most one part in this many of the frames more without an
/// effect: for what is saved, for what holds that, and for what the map of pages takes meanwhile.
const SPARED_PART: u64 = 64;

impl Frames {
    pub fn hot_frames(&self) -> u64 {
        self.common.counters.hot.get()
    }

    pub fn hot_cap(&self) -> u64 {
        self.hot_cap_at(self.shares.hot_share())
    }

    fn hot_cap_at(&self, share: u32) -> u64 {
        let taken = self.lent_or_kept() + self.inner_set_aside();
        self.common.layout.hot_cap(taken, share)
    }

    /// Frames that neither hot pages nor cold ones of records can count on: what is set aside, not what
    /// there is. The cap must not go up and down with every inner page that comes and goes, or records
    /// would go for it and come back.
    fn inner_set_aside(&self) -> u64 {
        self.shares
            .inner_kept()
            .unwrap_or_else(|| self.inner_frames())
            + self.tops_set_aside()
    }

    /// The same for pages that gather changes: what is set aside, and what there is only where it is far more. Records
    /// that go because the cap falls come to just these pages, and it would fall further.
    fn tops_set_aside(&self) -> u64 {
        let (tops, frames) = (self.top_frames(), self.common.frames());
        if planted(Planted::CapFollowsTops) {
            return tops;
        }
        match self.lent.tops() {
            0 => tops,
            aside => {
                let tolerance = (frames / TOPS_TOLERANCE_PART)
                    .min(self.common.layout.floor() / TOPS_FLOOR_PART);
                aside
                    .min(frames / TOPS_PART)
                    .max(tops.saturating_sub(tolerance))
            }
        }
    }

    #[inline]
    pub fn hot_pages_run_out(&self) -> bool {
        let cap = self.hot_cap();
        self.hot_frames() > cap - cap / LAST_FRAMES
    }

    /// Most hot pages that may stay in memory as a whole: past their cap, whatever its share, as long as
    /// others have the fewest frames that they can do with. Their records go meanwhile, one by one, because
    /// a page of them that leaves is asked for again at once.
    pub(crate) fn hot_frames_at_most(&self) -> u64 {
        let taken = self.lent.count() + self.inner_set_aside();
        let cap = self.common.layout.hot_cap(taken, WHOLE_SHARE) + self.common.layout.hot_slack;
        let beside = self
            .common
            .frames()
            .saturating_sub(taken + self.common.layout.floor());
        cap.max(beside)
    }

    pub fn inner_frames(&self) -> u64 {
        self.common.counters.inner.get()
    }

    pub fn top_frames(&self) -> u64 {
        self.common.counters.tops.get()
    }

    /// Whether there are few enough of them to leave them where they are until the next checkpoint. More come
    /// about where nothing takes changes further: the disk is full, or damaged.
    pub(crate) fn keeps_tops(&self) -> bool {
        let (tops, frames) = (self.top_frames(), self.common.frames());
        // Hot pages in memory alone go only as their records do, for which others must find frames.
        let alone = self.common.counters.memory.get();
        let never_leave = || alone + tops + self.lent.count() + self.common.layout.floor() / 2;
        tops <= frames / TOPS_PART
            && (alone == 0 || never_leave() <= frames)
            && !planted(Planted::TopsAsOthers)
    }

    /// The cap that is never passed: a little above, so that a structure change in progress
    /// can end.
    pub(crate) fn hot_cap_hard(&self) -> u64 {
        self.hot_cap() + self.common.layout.hot_slack
    }

    pub fn lacks_hot_pages(&self, but: u64) -> bool {
        self.hot_frames() + but >= self.hot_cap_hard()
    }

    /// Frames that are lent or kept for that: what hot pages may not have.
    pub(crate) fn lent_or_kept(&self) -> u64 {
        let lent = self.lent.count();
        let at_once =
            (lent - self.spared(lent)).saturating_sub(self.common.frames() / TOLERANCE_PART);
        at_once.max(self.lent.kept.frames())
    }

    /// Of the frames that are lent those that a sparing checkpoint borrows without an effect on hot pages.
    pub(super) fn spared(&self, lent: u64) -> u64 {
        if !self.cut.is_sparing() || !self.cut.is_made() {
            return 0;
        }
        let since = lent.saturating_sub(self.lent.before_cut());
        since.min(self.common.frames() / SPARED_PART)
    }
}
