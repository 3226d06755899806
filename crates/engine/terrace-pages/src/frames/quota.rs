//! How many frames each class of pages has, and how many it may have.
//!
//! Figures that others change meanwhile: who allocates a page is told by them whether it may.

use terrace_base::sync::atomic::Ordering;

use crate::faults::{Planted, planted};
use crate::options::WHOLE_SHARE;
use crate::store::PageStore;

/// The part of the frames for hot pages that is left when they are said to run out.
const LAST_FRAMES: u64 = 10;

/// Pages that gather changes are kept while they are at most one in so many.
const TOPS_PART: u64 = 4;
/// Beyond what is set aside for them they may have one part in so many of the frames before the cap of hot pages
/// falls, and one in so many of those that others have in any case.
const TOPS_TOLERANCE_PART: u64 = 32;
const TOPS_FLOOR_PART: u64 = 4;

impl PageStore {
    /// Frames that hold hot pages.
    pub fn hot_frames(&self) -> u64 {
        self.counters.hot.load(Ordering::Relaxed)
    }

    /// Most frames that hot pages may take: a cap, not a reservation. Falls when frames are lent or kept to
    /// be lent, and with the share.
    pub fn hot_cap(&self) -> u64 {
        self.hot_cap_at(self.hot_share())
    }

    fn hot_cap_at(&self, share: u32) -> u64 {
        let taken = self.lent_or_kept() + self.inner_set_aside();
        self.layout.hot_cap(taken, share)
    }

    /// Frames that neither hot pages nor cold ones of records can count on: what is set aside, not what
    /// there is. The cap must not go up and down with every inner page that comes and goes, or records
    /// would go for it and come back.
    fn inner_set_aside(&self) -> u64 {
        self.inner_kept().unwrap_or_else(|| self.inner_frames()) + self.tops_set_aside()
    }

    /// The same for pages that gather changes: what is set aside, and what there is only where it is far more. Records
    /// that go because the cap falls come to just these pages, and it would fall further.
    fn tops_set_aside(&self) -> u64 {
        let (tops, frames) = (self.top_frames(), self.frames());
        if planted(Planted::CapFollowsTops) {
            return tops;
        }
        match self.lent.tops() {
            0 => tops,
            aside => {
                let tolerance =
                    (frames / TOPS_TOLERANCE_PART).min(self.layout.floor() / TOPS_FLOOR_PART);
                aside
                    .min(frames / TOPS_PART)
                    .max(tops.saturating_sub(tolerance))
            }
        }
    }

    /// So many frames are set aside for pages that gather changes, beside those that are already.
    pub fn set_tops_aside(&self, frames: u64) {
        self.lent.set_tops_aside(frames);
    }

    /// The end of what was set aside with [`PageStore::set_tops_aside`].
    pub fn give_tops_back(&self, frames: u64) {
        self.lent.give_tops_back(frames);
    }

    /// Whether hot pages have nearly all the frames that they may have. Before that there is no need
    /// to put records closer together.
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
        let cap = self.layout.hot_cap(taken, WHOLE_SHARE) + self.layout.hot_slack;
        let beside = self.frames().saturating_sub(taken + self.layout.floor());
        cap.max(beside)
    }

    /// Frames that hold inner pages of tiers that are not hot.
    pub fn inner_frames(&self) -> u64 {
        self.counters.inner.load(Ordering::Relaxed)
    }

    /// Frames that hold pages that gather changes.
    pub fn top_frames(&self) -> u64 {
        self.counters.tops.load(Ordering::Relaxed)
    }

    /// Whether there are few enough of them to leave them where they are until the next checkpoint. More come
    /// about where nothing takes changes further: the disk is full, or damaged.
    pub(crate) fn keeps_tops(&self) -> bool {
        self.top_frames() <= self.frames() / TOPS_PART && !planted(Planted::TopsAsOthers)
    }

    /// Frames that are set aside for inner pages, if somebody has said how many: up to that number the
    /// clock keeps them much longer than pages of records, and those beyond it go first.
    pub fn inner_kept(&self) -> Option<u64> {
        self.shares.inner()
    }

    /// Sets that number; 0 for as many as there happen to be.
    pub fn set_inner_kept(&self, pages: u64) {
        self.shares.set_inner(pages);
    }

    /// Number of frames.
    pub fn frames(&self) -> u64 {
        self.layout.frames as u64
    }

    /// The share of their highest cap that hot pages may have, in per mille.
    pub fn hot_share(&self) -> u32 {
        self.shares.hot()
    }

    /// Sets that share: what hot pages do not have serves as a cache of cold ones. Whoever
    /// lowers it sees to it that records leave hot pages.
    pub fn set_hot_share(&self, per_mille: u32) {
        self.shares.set_hot(per_mille);
    }

    /// The cap that is never passed: a little above, so that a structure change in progress
    /// can end.
    pub(crate) fn hot_cap_hard(&self) -> u64 {
        self.hot_cap() + self.layout.hot_slack
    }

    /// Whether hot pages have all the frames that they may have but for so many: then no more can be
    /// allocated. O(1).
    pub fn lacks_hot_pages(&self, but: u64) -> bool {
        self.hot_frames() + but >= self.hot_cap_hard()
    }

    /// Whether the last one who asked for a hot page got none, so that room elsewhere is of no use to him.
    /// A hint. O(1).
    pub fn wants_hot_page(&self) -> bool {
        self.shares.is_hot_wanted()
    }
}
