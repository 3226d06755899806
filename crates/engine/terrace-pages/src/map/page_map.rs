//! The three layers of the page map: which slots hold which version of which page.
//!
//! What always holds:
//! - A slot is in use exactly while a layer or a write in flight names it, or it is kept for a pin (`pins.rs`).
//! - The words of the page store name the newest version of every page; the map keeps only what
//!   that version hides: for every page that a layer changed, the place in the layer below.
//! - A slot named by the last durable image is not given out before the checkpoint that replaces
//!   it is durable.

use super::changes::{Change, ChangeList};
use super::pins::Pins;
use super::place::{Place, Tag};
use super::slots::{Run, Slots};
use terrace_base::{Error, PageId, Result};

/// Pages, at most, that a step of [`PageMap`] should be asked for at once: some tens of
/// microseconds under the mutex.
pub const STEP: usize = 4096;

/// What became of a page write that was registered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Registered {
    /// This is the page's newest place now: store it in the page's word or frame header before
    /// letting go of the mutex.
    Newest(Place),
    /// The write was for the cut and the page has changed since: its newest place stays.
    Late,
    /// The write belongs to a cut that takes no more pages. The slot was not taken over; the page
    /// must count as not written. It means that the cut was sealed too early.
    Refused,
}

/// Slots by what they are used for. They add up:
/// `total = free + in_flight + image + cut + next + kept`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SlotCounts {
    /// All slots of the file.
    pub total: u64,
    /// Those that can be given out.
    pub free: u64,
    /// Given out, and neither registered nor released yet.
    pub in_flight: u64,
    /// Named by the last durable image.
    pub image: u64,
    /// Those of `image` that a later layer has replaced: a checkpoint would free them.
    pub image_only: u64,
    /// Named by the checkpoint in progress.
    pub cut: u64,
    /// Named by the changes since.
    pub next: u64,
    /// Named by no layer, and kept for a pin.
    pub kept: u64,
}

/// Where a checkpoint stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// No checkpoint: every write belongs to *next*.
    Idle,
    /// Pages of the cut are being written.
    Open,
    /// No more page belongs to the cut; late writes are being put in their places.
    Sealing,
    /// The cut is fixed; its changes can be written out.
    Sealed,
    /// The superblock is on its way: there is no going back.
    Committing,
    /// The superblock is durable: the cut is becoming the image.
    Completing,
    /// The cut is being joined to *next*.
    Aborting,
}

/// A cut page written after the page had changed again.
#[derive(Clone, Copy)]
pub(super) struct Late {
    pub pid: PageId,
    pub place: Place,
}

/// The page map. See the module's first lines; driven under one mutex, does no I/O.
pub struct PageMap {
    pub(super) slots: Slots,
    pub(super) phase: Phase,
    /// How far the step function of the phase has come.
    pub(super) progress: usize,
    /// Length of the list that the phase walks, when it began.
    pub(super) goal: usize,
    /// Epoch of the last cut; pages changed in it or before belong to *cut* while one is open.
    pub(super) cut_epoch: u64,
    pub(super) cut_tag: Tag,
    /// Pages that the cut changed since the image, and their places there.
    pub(super) cut: ChangeList,
    /// Pages changed since the cut, and their places before.
    pub(super) next: ChangeList,
    pub(super) late: Vec<Late>,
    /// Late pages that sealing has put in their places.
    pub(super) placed: usize,
    pub(super) counts: Held,
    pub(super) pins: Pins,
    /// One past the highest slot in use when the last and the last but one checkpoint were done:
    /// the two superblocks name nothing beyond.
    pub(super) ends: [u64; 2],
    /// The first broken invariant; no checkpoint is made after it.
    pub(super) broken: Option<&'static str>,
    #[cfg(test)]
    pub(super) faults: super::tests::Faults,
}

/// Slots counted by the layer that names them, kept as they change.
#[derive(Clone, Copy, Default)]
pub(super) struct Held {
    pub in_flight: u64,
    pub cut: u64,
    pub next: u64,
    /// Image slots that the cut replaced.
    pub cut_hides: u64,
    /// Image slots that *next* replaced.
    pub next_hides_image: u64,
    /// Slots of the cut that *next* replaced.
    pub next_hides_cut: u64,
}

impl PageMap {
    /// The map of a new file with `total` slots, all free.
    pub fn new(total: u64) -> PageMap {
        PageMap::with_slots(Slots::new(total, true), 0)
    }

    /// `end` is one past the highest slot that a superblock may name.
    pub(super) fn with_slots(slots: Slots, end: u64) -> PageMap {
        PageMap {
            slots,
            phase: Phase::Idle,
            progress: 0,
            goal: 0,
            cut_epoch: 0,
            cut_tag: Tag::B,
            cut: ChangeList::default(),
            next: ChangeList::default(),
            late: Vec::new(),
            placed: 0,
            counts: Held::default(),
            pins: Pins::default(),
            ends: [end; 2],
            broken: None,
            #[cfg(test)]
            faults: Default::default(),
        }
    }

    /// Where the checkpoint stands.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// An error if an invariant of the map was found broken (a slot freed twice, say): a defect of
    /// the program. No checkpoint is made durable then, so the damage does not spread.
    pub fn health(&self) -> Result<()> {
        match self.broken {
            None => Ok(()),
            Some(cause) => Err(Error::Poisoned {
                cause: format!("the page map is inconsistent: {cause}"),
            }),
        }
    }

    /// Takes up to `want` consecutive free slots for writes: the longest runs first, low slots
    /// preferred. `None` if no slot is free.
    ///
    /// Each slot must come back through [`PageMap::register`] or [`PageMap::release`].
    pub fn allocate(&mut self, want: u64) -> Option<Run> {
        self.allocate_below(want, u64::MAX)
    }

    /// As [`PageMap::allocate`], but only below a slot: for moving pages away from the tail.
    pub fn allocate_below(&mut self, want: u64, bound: u64) -> Option<Run> {
        let run = self.slots.allocate(want, bound)?;
        self.counts.in_flight += run.len;
        Some(run)
    }

    /// Gives back a slot whose write was discarded.
    pub fn release(&mut self, slot: u64) {
        Self::less(
            &mut self.counts.in_flight,
            &mut self.broken,
            "a slot released that was not in flight",
        );
        self.free_slot(slot);
    }

    /// The write of a page to `slot` has completed. `epoch` is the one in which its *content* was
    /// last changed, read when the content was copied out; a page that is only moved counts as
    /// changed now. `newest` is the page's newest place, `check` the 16 bits of its checksum.
    ///
    /// A copy handed over for a cut must not be registered after that cut was aborted: release it.
    pub fn register(
        &mut self,
        pid: PageId,
        newest: Place,
        slot: u64,
        check: u16,
        epoch: u64,
    ) -> Registered {
        let for_cut = self.belongs_to_cut(epoch);
        if for_cut && self.phase != Phase::Open {
            return Registered::Refused;
        }
        self.note_written(slot);
        Self::less(
            &mut self.counts.in_flight,
            &mut self.broken,
            "a slot registered that was not in flight",
        );
        if for_cut {
            let place = Place::used(slot, check, self.cut_tag);
            self.counts.cut += 1;
            if newest.tag() == self.next_tag() {
                self.late.push(Late { pid, place });
                return Registered::Late;
            }
            self.change_cut(pid, newest);
            return Registered::Newest(place);
        }
        self.counts.next += 1;
        self.change_next(pid, newest);
        Registered::Newest(Place::used(slot, check, self.next_tag()))
    }

    /// A page is freed; its cut content, if any, has been handed over before. Returns the place to
    /// store in its word; its number may be used again at once.
    pub fn free_page(&mut self, pid: PageId, newest: Place) -> Place {
        // A page that came and went unwritten changed nothing, unless a copy for the cut may come
        // that must find the page changed since.
        if newest.is_free() && newest.tag() == Tag::IMAGE && self.phase != Phase::Open {
            return newest;
        }
        self.change_next(pid, newest);
        Place::free(self.next_tag())
    }

    /// Slots by use.
    pub fn counts(&self) -> SlotCounts {
        let Held {
            in_flight,
            cut,
            next,
            cut_hides,
            next_hides_image,
            ..
        } = self.counts;
        let (total, free) = (self.slots.total(), self.slots.free());
        SlotCounts {
            total,
            free,
            in_flight,
            image: total.saturating_sub(free + in_flight + cut + next + self.pins.kept()),
            image_only: cut_hides + next_hides_image,
            cut,
            next,
            kept: self.pins.kept(),
        }
    }

    /// Adds free slots until there are `total` (after the file has grown).
    pub fn grow(&mut self, total: u64) {
        self.slots.grow(total);
    }

    /// One past the highest slot in use.
    pub fn used_end(&self) -> u64 {
        self.slots.used_end()
    }

    /// The lowest slot from which on at most `pages` slots are in use. Pages whose word names a
    /// slot at or beyond it are the ones to move so that the file can shrink.
    pub fn tail_start(&self, pages: u64) -> u64 {
        self.slots.tail_start(pages)
    }

    /// Slots that are kept for pins alone.
    pub fn kept(&self) -> u64 {
        self.pins.kept()
    }

    /// The fewest slots to which the file may be cut now: neither superblock, nor any layer or
    /// write in flight, names a slot at or beyond it.
    pub fn shrinkable_to(&self) -> u64 {
        self.ends[0].max(self.ends[1]).max(self.slots.used_end())
    }

    /// Gives up the slots from `total` on, after which the file may be cut; `false`, and nothing
    /// happens, if that is less than [`PageMap::shrinkable_to`].
    pub fn shrink(&mut self, total: u64) -> bool {
        total >= self.shrinkable_to() && self.slots.shrink(total)
    }

    /// Bytes of memory that the map holds, beyond the words.
    pub fn memory_bytes(&self) -> usize {
        size_of::<PageMap>()
            + self.slots.memory_bytes()
            + self.cut.memory_bytes()
            + self.next.memory_bytes()
            + self.late.capacity() * size_of::<Late>()
            + self.pins.memory_bytes()
    }

    fn note_written(&mut self, slot: u64) {
        #[cfg(test)]
        if self.faults.bit_not_set && slot.is_multiple_of(2) {
            return;
        }
        self.pins.note_written(slot);
    }

    pub(super) fn next_tag(&self) -> Tag {
        self.cut_tag.other()
    }

    pub(super) fn free_slot(&mut self, slot: u64) {
        if !self.slots.release(slot) {
            self.broken.get_or_insert("a slot freed twice");
        }
    }

    /// Counts one less, and notes it when there was none.
    pub(super) fn less(count: &mut u64, broken: &mut Option<&'static str>, what: &'static str) {
        match count.checked_sub(1) {
            Some(fewer) => *count = fewer,
            None => {
                broken.get_or_insert(what);
            }
        }
    }

    fn belongs_to_cut(&self, epoch: u64) -> bool {
        #[cfg(test)]
        if self.faults.tag_at_completion {
            return false;
        }
        // After the cut is complete every page changed in it has been written, and after it is
        // aborted the pages not yet written belong to what comes next.
        epoch <= self.cut_epoch
            && matches!(
                self.phase,
                Phase::Open | Phase::Sealing | Phase::Sealed | Phase::Committing
            )
    }

    /// The cut replaces `newest`, which is in it or in the image.
    fn change_cut(&mut self, pid: PageId, newest: Place) {
        if newest.tag() == self.cut_tag {
            if let Some(slot) = newest.slot() {
                Self::less(
                    &mut self.counts.cut,
                    &mut self.broken,
                    "a cut slot replaced that the cut does not name",
                );
                self.free_slot(slot);
            }
            return;
        }
        self.counts.cut_hides += u64::from(!newest.is_free());
        self.cut.push(Change {
            pid,
            before: newest,
        });
    }

    /// *Next* replaces `newest`, which is in any layer.
    fn change_next(&mut self, pid: PageId, newest: Place) {
        let tag = newest.tag();
        let cut_is_next = self.phase == Phase::Aborting && tag == self.cut_tag;
        if tag == self.next_tag() || cut_is_next {
            if let Some(slot) = newest.slot() {
                let count = if cut_is_next {
                    &mut self.counts.cut
                } else {
                    &mut self.counts.next
                };
                Self::less(
                    count,
                    &mut self.broken,
                    "a slot replaced that its layer does not name",
                );
                self.free_slot(slot);
            }
            return;
        }
        let used = u64::from(!newest.is_free());
        let in_cut = tag == self.cut_tag && self.phase != Phase::Completing;
        if in_cut {
            self.counts.next_hides_cut += used;
        } else {
            self.counts.next_hides_image += used;
        }
        let before = if in_cut {
            newest
        } else {
            newest.with_tag(Tag::IMAGE)
        };
        self.next.push(Change { pid, before });
        #[cfg(test)]
        if self.faults.old_slot_freed_at_once
            && !in_cut
            && let Some(slot) = before.slot()
        {
            self.slots.release(slot);
        }
    }
}
