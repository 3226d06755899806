//! The checkpoint's way through the page map: cut, seal, write out, commit, complete or abort.
//!
//! ```text
//! Idle -begin_cut-> Open -seal_step...-> Sealed -commit-> Committing -complete_step...-> Idle
//!                     \________________________/ -abort_step...-> Idle
//! ```
//!
//! Every step is bounded by the budget given, because page writes wait for the mutex meanwhile;
//! registrations and frees may come between any two steps.

use super::changes::Change;
use super::page_map::{PageMap, Phase};
use super::place::{Place, Tag, Words};
use terrace_base::{Error, PageId, Result};

/// How far [`PageMap::cut_delta`] has come.
#[derive(Clone, Copy, Default, Debug)]
pub struct DeltaCursor {
    at_cut: usize,
    at_next: usize,
}

/// How far [`PageMap::fold_base`] and [`PageMap::fold_overrides`] have come.
#[derive(Clone, Copy, Default, Debug)]
pub struct FoldCursor {
    next_pid: u64,
    at_next: usize,
}

impl PageMap {
    /// The cut: what was *next* becomes *cut*, and changes of later epochs are collected anew.
    /// `epoch` is the one that ends with the cut; it rises with every cut, aborted ones too.
    pub fn begin_cut(&mut self, epoch: u64) -> Result<()> {
        self.health()?;
        self.expect("begin a checkpoint", self.phase == Phase::Idle)?;
        self.expect("begin a checkpoint of a past epoch", epoch > self.cut_epoch)?;
        self.cut_epoch = epoch;
        self.cut_tag = self.next_tag();
        self.cut = std::mem::take(&mut self.next);
        self.counts.cut = std::mem::take(&mut self.counts.next);
        self.counts.cut_hides = std::mem::take(&mut self.counts.next_hides_image);
        self.phase = Phase::Open;
        Ok(())
    }

    /// Every page of the cut has been written and registered: puts the late ones in their places.
    /// Called until it returns `true`; each call looks at about `budget` pages.
    pub fn seal_step(&mut self, budget: usize) -> Result<bool> {
        self.expect(
            "seal a checkpoint",
            matches!(self.phase, Phase::Open | Phase::Sealing | Phase::Sealed),
        )?;
        if self.phase == Phase::Open {
            // A page written late twice counts with its last write.
            self.late.sort_by_key(|late| late.pid);
            self.phase = Phase::Sealing;
            self.progress = 0;
            self.placed = 0;
            // A late page was in *next* when it was written, so it lies before this.
            self.goal = if self.late.is_empty() {
                0
            } else {
                self.next.len()
            };
        }
        let stop = self.goal.min(self.progress.saturating_add(budget.max(1)));
        while self.phase == Phase::Sealing && self.progress < stop {
            if let Some(change) = self.next.get(self.progress) {
                self.place_late(self.progress, change);
            }
            self.progress += 1;
        }
        if self.phase == Phase::Sealing && self.progress >= self.goal {
            if self.placed != self.late.len() {
                self.broken.get_or_insert(
                    "a page was written late for the cut that had not changed since",
                );
            }
            self.late = Vec::new();
            self.phase = Phase::Sealed;
        }
        Ok(self.phase == Phase::Sealed)
    }

    /// If the page of a change in *next* was written late, the late place is what *next* hides.
    fn place_late(&mut self, index: usize, change: Change) {
        let from = self.late.partition_point(|late| late.pid < change.pid);
        let mut newest = None;
        for at in from..self.late.len() {
            let late = self.late[at];
            if late.pid != change.pid {
                break;
            }
            self.placed += 1;
            if let Some(slot) = newest.replace(late.place).and_then(Place::slot) {
                self.drop_cut_slot(slot);
            }
        }
        let Some(place) = newest else { return };
        #[cfg(test)]
        if self.faults.late_writes_forgotten {
            return;
        }
        let before = change.before;
        if before.tag() == self.cut_tag {
            if let Some(slot) = before.slot() {
                self.drop_cut_slot(slot);
                Self::less(
                    &mut self.counts.next_hides_cut,
                    &mut self.broken,
                    "more cut slots hidden than counted",
                );
            }
        } else {
            if !before.is_free() {
                Self::less(
                    &mut self.counts.next_hides_image,
                    &mut self.broken,
                    "more image slots hidden than counted",
                );
                self.counts.cut_hides += 1;
            }
            self.cut.push(change);
        }
        self.next.set_before(index, place);
        self.counts.next_hides_cut += 1;
    }

    fn drop_cut_slot(&mut self, slot: u64) {
        Self::less(
            &mut self.counts.cut,
            &mut self.broken,
            "a cut slot dropped that the cut does not name",
        );
        self.free_slot(slot);
    }

    /// Appends changes of the sealed cut, as the mapping journal records them, to `out`: at most
    /// `budget` a call. `true` when there are no more. A page that changes meanwhile may come
    /// twice, with the same place.
    pub fn cut_delta(
        &self,
        words: &impl Words,
        cursor: &mut DeltaCursor,
        out: &mut Vec<(PageId, Place)>,
        budget: usize,
    ) -> Result<bool> {
        self.expect("write out a cut", self.phase == Phase::Sealed)?;
        let mut left = budget.max(1);
        // First the pages not changed since. One that changes after it was passed over here has
        // been put at the end of the other list, so that order matters.
        while let Some(change) = self.cut.get(cursor.at_cut) {
            if left == 0 {
                return Ok(false);
            }
            let place = words.place(change.pid);
            let newest_is_cut = place.tag() == self.cut_tag;
            #[cfg(test)]
            let newest_is_cut = newest_is_cut || self.faults.table_from_live;
            if newest_is_cut {
                out.push((change.pid, place.recorded()));
            }
            (cursor.at_cut, left) = (cursor.at_cut + 1, left - 1);
        }
        while let Some(change) = self.next.get(cursor.at_next) {
            if left == 0 {
                return Ok(false);
            }
            let hides_cut = change.before.tag() == self.cut_tag;
            #[cfg(test)]
            let hides_cut = hides_cut && !self.faults.table_from_live;
            if hides_cut {
                out.push((change.pid, change.before.recorded()));
            }
            (cursor.at_next, left) = (cursor.at_next + 1, left - 1);
        }
        Ok(true)
    }

    /// Appends the places at the sealed cut of the pages from 0 to `bound`, in their order, to
    /// `out`: at most `budget` a call; `true` when there are no more. Pages changed since the cut
    /// are given as free; [`PageMap::fold_overrides`], called after this is through, has theirs.
    /// Without a checkpoint in progress they are the places in the last image: to pin it.
    pub fn fold_base(
        &self,
        words: &impl Words,
        cursor: &mut FoldCursor,
        bound: u64,
        out: &mut Vec<Place>,
        budget: usize,
    ) -> Result<bool> {
        self.expect_fold()?;
        let end = bound.min(cursor.next_pid.saturating_add(budget.max(1) as u64));
        for pid in cursor.next_pid..end {
            let place = words.place(PageId(pid));
            let known = place.tag() != self.next_tag();
            #[cfg(test)]
            let known = known || self.faults.table_from_live;
            out.push(if known { place.recorded() } else { Place::FREE });
        }
        cursor.next_pid = end.max(cursor.next_pid);
        Ok(cursor.next_pid >= bound)
    }

    /// Appends the places at the sealed cut of the pages changed since, to be recorded after the
    /// base table; otherwise as [`PageMap::fold_base`].
    pub fn fold_overrides(
        &self,
        cursor: &mut FoldCursor,
        bound: u64,
        out: &mut Vec<(PageId, Place)>,
        budget: usize,
    ) -> Result<bool> {
        self.expect_fold()?;
        let mut left = budget.max(1);
        while let Some(change) = self.next.get(cursor.at_next) {
            if left == 0 {
                return Ok(false);
            }
            // Pages numbered after the cut were free in it.
            let wanted = change.pid.0 < bound && !change.before.is_free();
            #[cfg(test)]
            let wanted = wanted && !self.faults.table_from_live;
            if wanted {
                out.push((change.pid, change.before.recorded()));
            }
            (cursor.at_next, left) = (cursor.at_next + 1, left - 1);
        }
        Ok(true)
    }

    /// The superblock that names the cut is about to be written. From here on the checkpoint can
    /// only be completed: if the write or its sync fails, it is not known which image is durable.
    pub fn commit(&mut self) -> Result<()> {
        self.health()?;
        self.expect("commit a checkpoint", self.phase == Phase::Sealed)?;
        self.phase = Phase::Committing;
        Ok(())
    }

    /// The superblock is durable: the cut becomes the image, and the slots that it replaced are
    /// free. Called until it returns `true`; each call looks at about `budget` pages.
    pub fn complete_step(&mut self, words: &impl Words, budget: usize) -> Result<bool> {
        self.expect(
            "complete a checkpoint",
            matches!(self.phase, Phase::Committing | Phase::Completing),
        )?;
        if self.phase == Phase::Committing {
            self.phase = Phase::Completing;
            self.progress = 0;
            // What *next* replaces in the cut it replaces in the image from now on.
            self.counts.next_hides_image += std::mem::take(&mut self.counts.next_hides_cut);
        }
        let stop = self
            .cut
            .len()
            .min(self.progress.saturating_add(budget.max(1)));
        while self.progress < stop {
            if let Some(Change { pid, before }) = self.cut.get(self.progress) {
                if let Some(slot) = before.slot() {
                    Self::less(
                        &mut self.counts.cut_hides,
                        &mut self.broken,
                        "more image slots than were replaced",
                    );
                    self.give_up(slot);
                }
                let place = words.place(pid);
                if place.tag() == self.cut_tag && self.may_retag() {
                    self.retag(words, pid, place, Tag::IMAGE);
                }
            }
            self.progress += 1;
            self.cut.forget_before(self.progress);
        }
        if self.progress < self.cut.len() {
            return Ok(false);
        }
        self.cut = Default::default();
        self.counts.cut = 0;
        self.ends = [self.ends[1], self.slots.used_end()];
        self.phase = Phase::Idle;
        Ok(true)
    }

    /// Gives the checkpoint up: the cut's changes count as changes since the last image, and its
    /// places that were replaced meanwhile are free. Called until it returns `true`; each call
    /// looks at about `budget` pages. An error after [`PageMap::commit`].
    pub fn abort_step(&mut self, words: &impl Words, budget: usize) -> Result<bool> {
        let possible = matches!(
            self.phase,
            Phase::Open | Phase::Sealing | Phase::Sealed | Phase::Aborting
        );
        #[cfg(test)]
        let possible = possible || self.faults.abort_after_superblock;
        self.expect("abort a checkpoint", possible)?;
        if self.phase != Phase::Aborting {
            if self.phase == Phase::Sealing {
                // Late places are either all where they belong or all in their list.
                self.seal_step(budget)?;
                return Ok(false);
            }
            self.phase = Phase::Aborting;
            self.progress = 0;
            // The cut's list is the one that stays, with the tag that *next* has. Pages that come to
            // *next* from here on have that tag already.
            self.goal = self.cut.len();
            #[cfg(test)]
            if self.faults.abort_drops_cut {
                self.goal = 0;
                self.cut = Default::default();
            }
        }
        let mut left = budget.max(1);
        while left > 0 {
            left -= 1;
            if let Some(late) = self.late.pop() {
                // Older than what *next* has of the page.
                if let Some(slot) = late.place.slot() {
                    self.drop_cut_slot(slot);
                }
            } else if self.progress < self.next.len() {
                if let Some(change) = self.next.get(self.progress) {
                    self.join_next(change);
                }
                self.progress += 1;
                self.next.forget_before(self.progress);
            } else if let Some(at) = self.goal.checked_sub(1) {
                if let Some(Change { pid, .. }) = self.cut.get(at) {
                    let place = words.place(pid);
                    if place.tag() == self.cut_tag {
                        self.retag(words, pid, place, self.next_tag());
                        if !place.is_free() {
                            Self::less(
                                &mut self.counts.cut,
                                &mut self.broken,
                                "more cut places than were counted",
                            );
                            self.counts.next += 1;
                        }
                    }
                }
                self.goal = at;
            } else {
                self.late = Vec::new();
                self.next = std::mem::take(&mut self.cut);
                let counts = &mut self.counts;
                if std::mem::take(&mut counts.cut) != 0 {
                    self.broken
                        .get_or_insert("an aborted cut names slots that no page has");
                }
                counts.next_hides_image += std::mem::take(&mut counts.cut_hides);
                self.phase = Phase::Idle;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A change of *next* when the cut is aborted. One that hides the cut's place of a page is
    /// dropped with that place: the cut's own list has the page, with its place in the image.
    fn join_next(&mut self, change: Change) {
        if change.before.tag() != self.cut_tag {
            self.cut.push(change);
        } else if let Some(slot) = change.before.slot() {
            self.drop_cut_slot(slot);
            Self::less(
                &mut self.counts.next_hides_cut,
                &mut self.broken,
                "more cut slots hidden than counted",
            );
        }
    }

    fn retag(&mut self, words: &impl Words, pid: PageId, place: Place, tag: Tag) {
        if !words.retag(pid, place, place.with_tag(tag)) {
            self.broken
                .get_or_insert("a page's place changed without the map");
        }
    }

    fn may_retag(&self) -> bool {
        #[cfg(test)]
        if self.faults.retag_forgotten {
            return false;
        }
        true
    }

    fn expect_fold(&self) -> Result<()> {
        let possible = matches!(self.phase, Phase::Sealed | Phase::Idle);
        self.expect("fold a cut", possible)
    }

    fn expect(&self, what: &str, possible: bool) -> Result<()> {
        if possible {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "cannot {what} while the page map is in phase {:?}",
            self.phase
        )))
    }
}
