//! Space in the data file: grown before it is needed, given back after it is not.

use terrace_base::sync::MutexGuard;
use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::enter::interrupt::Interrupt;
use crate::map::{Run, Words};
use crate::options::DIRTY_EACH;
use crate::parts::promise::{Promise, Space};
use crate::store::PageStore;

/// The file grows by at least this much: growing is rare, and a database of a few records is small.
const MIN_GROWTH_BYTES: u64 = 128 << 10;
/// What a cut of the file must gain at least: less is not worth the file system's work.
const MIN_CUT_BYTES: u64 = 1 << 20;
/// And by at most this much, so that a small database on a nearly full disk is not refused.
const MAX_GROWTH_BYTES: u64 = 64 << 20;
/// Otherwise by one part of the file in this many.
const GROWTH_PART: u64 = 16;
/// Pages that one checkpoint moves away from the end of the file.
const RELOCATE_PAGES: u64 = 256;

/// Sixteenths of the live pages for which the file has room beside them when a checkpoint begins: slots that
/// the last image alone holds, and those that the checkpoint will write dirty pages to. Two sixteenths more
/// are for what else is written until it is done, and one for growing ahead: 2.13 times the live pages.
const ROOM_OF_16: u64 = 15;

/// Compaction leaves so many slots free in front, whatever the number of pages: the first pages that are moved
/// need places, and each checkpoint gives those free that they had.
const COMPACT_SPARE: u64 = 16;

/// Pages that one step of compaction looks at.
const MOST_LOOKED_AT: u64 = 1 << 16;

/// The file grows ahead of need by one part in so many of its pages at most.
const WISH_PART: u64 = 8;

/// Promised pages of which it does not matter whether there are as many: a few small batches.
const LITTLE: u64 = 128;

/// What the length of the file depends on, at one moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SpaceSeen {
    /// Pages written so far.
    pub page_writes: u64,
    /// Pages that exist.
    pub live: u64,
    /// Slots that the last image alone holds.
    pub image_only: u64,
    /// Writes that dirty pages owe.
    pub dirty: u64,
    /// Slots of the file.
    pub slots: u64,
    /// Slots that are kept for pinned images alone.
    pub pinned: u64,
    /// Slots up to the last one that is in use.
    pub used_end: u64,
}

impl PageStore {
    /// What the length of the file depends on. O(free slots at the end / 64).
    pub fn space_seen(&self) -> SpaceSeen {
        let map = self.map.lock();
        let (counts, pinned, used_end) = (map.counts(), map.kept(), map.used_end());
        drop(map);
        SpaceSeen {
            page_writes: self.counters.page_writes.load(Ordering::Relaxed),
            live: self.live_pages(),
            image_only: counts.image_only,
            dirty: self.counters.dirty.load(Ordering::Relaxed),
            slots: counts.total,
            pinned,
            used_end,
        }
    }

    /// Free slots for writes that were reserved at the door; grows the file if that was not
    /// enough.
    pub(crate) fn allocate_slots(&self, want: u64) -> Result<Run> {
        loop {
            {
                let mut map = self.map.lock();
                let below = self.claims.compact_below();
                let below = below.and_then(|below| map.allocate_below(want, below));
                if let Some(run) = below.or_else(|| map.allocate(want)) {
                    self.note_slots(&map);
                    return Ok(run);
                }
            }
            self.grow(self.slots_needed(Space::Ordinary))?;
        }
    }

    /// Whether there is space for somebody who is inside already and has changed nothing yet, beside the
    /// others who are; if not, the slots that these may still need. Those who come later see that it is
    /// there, so no two count on the same slots. O(1) unless space is short.
    #[inline(always)]
    pub(crate) fn may_stay(&self, space: Space) -> std::result::Result<(), u64> {
        // In this order nothing is overlooked: who leaves has counted what it made dirty, and what is
        // written takes its slot before it is clean.
        let needed = self.slots_needed(space);
        let free = self.counters.free_slots.load(Ordering::Relaxed);
        // Enough for all who could be inside: to look who is would take the lines of their lanes from them.
        if free >= needed + (self.gate.threads() + 1) * DIRTY_EACH {
            return Ok(());
        }
        self.may_stay_beside_others(space)
    }

    /// The same by who is inside.
    #[inline(never)]
    fn may_stay_beside_others(&self, space: Space) -> std::result::Result<(), u64> {
        let others = self.slots_of_others();
        let needed = self.slots_needed(space);
        let free = self.counters.free_slots.load(Ordering::Relaxed);
        if free >= needed + others {
            self.wish_for_space();
            return Ok(());
        }
        Err(others)
    }

    /// Has the cleaner grow the file until nobody has to look who is inside, if that is little beside what is
    /// there. O(1).
    fn wish_for_space(&self) {
        let wish = (self.gate.threads() + 1) * DIRTY_EACH;
        if self.live_pages() / WISH_PART > wish && self.claims.missing() < wish {
            self.claims.miss(wish);
        }
    }

    /// Slots that those inside may still need, one of them aside.
    fn slots_of_others(&self) -> u64 {
        if self.claims.is_reserve_open() {
            return 0;
        }
        self.gate.inside().saturating_sub(1) * DIRTY_EACH
    }

    /// Grows the file, so that an operation that `space` entitles to it can go in beside others that need
    /// so many slots.
    pub(crate) fn make_space(&self, space: Space, others: u64) -> Result<()> {
        loop {
            let needed = self.slots_needed(space) + others;
            if self.counters.free_slots.load(Ordering::Relaxed) >= needed {
                return Ok(());
            }
            self.grow(needed)?;
        }
    }

    /// The same before anybody needs it, for those who do not wait: as much as was missing for one of them.
    pub(crate) fn make_space_ahead(&self) -> Result<()> {
        let others = self.claims.take_missing();
        self.make_space(Space::Ordinary, others)
    }

    /// Whether somebody who is inside already may change more pages than he was promised: there are as many
    /// free slots as for migration, and what everybody else was promised. O(1).
    pub fn has_slack(&self) -> bool {
        self.has_slack_for(0)
    }

    /// The same, and for so many pages more.
    pub fn has_slack_for(&self, pages: u64) -> bool {
        let free = self.counters.free_slots.load(Ordering::Relaxed);
        free >= self.slots_needed(Space::Migration) + pages
    }

    /// Free slots that there must be for `space`: one for each dirty page, what is promised, and slack.
    pub(crate) fn slots_needed(&self, space: Space) -> u64 {
        // What is replayed was let in once, perhaps as the last that found the slack untouched; so the
        // slack is there for it.
        let slack = if self.claims.is_reserve_open() {
            0
        } else {
            self.layout.slack(space)
        };
        let Promise {
            dirty: promised,
            new,
        } = self.claims.promised();
        let dirty = self.counters.dirty.load(Ordering::Relaxed);
        if promised <= LITTLE {
            return dirty + promised + new + slack;
        }
        // Between two cuts each page counts once more at most, however much is promised.
        dirty + promised.min(self.live_pages()) + new + slack
    }

    /// Grows the file if fewer slots than these are free.
    fn grow(&self, wanted: u64) -> Result<()> {
        // One thread grows; the others find the slots when they come in.
        let _growing = self.claims.growing.lock();
        let page = self.page_bytes() as u64;
        let total = self.map.lock().counts().total;
        if self.counters.free_slots.load(Ordering::Relaxed) >= wanted {
            return Ok(());
        }
        let bytes = (total * page / GROWTH_PART).clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES);
        let mut slots = bytes.div_ceil(page);
        loop {
            // While a checkpoint is made it has the map file, and reserves what is needed at its end.
            let durable = self.durable.try_lock();
            let reserved = durable.map_or(Ok(()), |d| self.reserve_map(&d, total + slots));
            let grown = reserved.and_then(|()| {
                self.data
                    .allocate(DATA_START + total * page, slots * page)
                    .map_err(|e| Error::io("growing", DATA_FILE, e))
            });
            match grown {
                Ok(()) => break,
                Err(e) => {
                    // A nearly full disk may have room for less.
                    slots /= 4;
                    if slots == 0 || !e.is_disk_full() {
                        // Nobody waits for who only reads.
                        while self.give_up_oldest_pin("the disk is full") {
                            if self.counters.free_slots.load(Ordering::Relaxed) >= wanted {
                                return Ok(());
                            }
                        }
                        // On a full disk the cleaner comes here again and again, and each checkpoint
                        // writes a superblock at least.
                        if self.checkpoint_frees_slots() {
                            self.ask_for_checkpoint();
                        }
                        let free = self.counters.free_slots.load(Ordering::Relaxed);
                        let missing = wanted.saturating_sub(free) * page;
                        return Err(e.with_space(missing, self.disk.free_bytes().ok()));
                    }
                }
            }
        }
        let mut map = self.map.lock();
        map.grow(total + slots);
        self.note_slots(&map);
        Ok(())
    }

    /// After a checkpoint: cuts the file behind the last slot that either superblock names.
    pub(crate) fn truncate(&self, _growing: &MutexGuard<'_, ()>) {
        let page = self.page_bytes() as u64;
        let mut map = self.map.lock();
        let counts = map.counts();
        // Who compacts wants it as short as it can be: who writes next lets it grow again.
        let (needed, least) = match self.claims.is_tight() {
            true => (self.counters.dirty.load(Ordering::Relaxed), 1),
            false => (
                self.slots_needed(Space::Ordinary) + MIN_GROWTH_BYTES / page,
                MIN_CUT_BYTES / page,
            ),
        };
        let spare = counts.free.saturating_sub(needed);
        let total = map.shrinkable_to().max(counts.total.saturating_sub(spare));
        if counts.total - total < least || !map.shrink(total) {
            return;
        }
        self.note_slots(&map);
        drop(map);
        // If it fails, the file is longer than need be until the next time.
        let _ = self.data.set_len(DATA_START + total * page);
    }

    /// Has pages that lie at the end of the file written further in front, until it has about as many slots
    /// as pages: marks at most `most` of those from number `from` on as changed, and lets all writes go to the
    /// front as long as there is room. Returns how many, and where to go on; none where nothing is left. To
    /// be called again after a checkpoint, and [`PageStore::end_compacting`] at the end. The caller holds
    /// nothing.
    ///
    /// # Errors
    /// Those of the disk; a page that cannot be read stays where it is.
    pub fn compact_some(&self, from: u64, most: u64) -> Result<(u64, Option<u64>)> {
        self.compact_some_below(from, most, self.live_pages() + COMPACT_SPARE)
    }

    /// The same, until the file has so many slots. Looks at a bounded number of pages, whether they are moved or
    /// not.
    ///
    /// # Errors
    /// As [`PageStore::compact_some`].
    pub fn compact_some_below(
        &self,
        from: u64,
        most: u64,
        bound: u64,
    ) -> Result<(u64, Option<u64>)> {
        self.claims.set_compact_below(bound);
        let mut moved = 0;
        for pid in (from..self.table.count()).map(PageId) {
            if moved >= most || pid.0 - from >= MOST_LOOKED_AT {
                return Ok((moved, Some(pid.0)));
            }
            if self.place(pid).slot().is_none_or(|slot| slot < bound) {
                continue;
            }
            moved += u64::from(self.mark_changed(pid)?);
        }
        Ok((moved, None))
    }

    /// Checkpoints cut the file behind its last page from now on, and leave nothing for who writes next.
    pub fn cut_tightly(&self) {
        self.claims.set_tight(true);
    }

    /// Writes go to where they usually go again, and room is left for them.
    pub fn end_compacting(&self) {
        self.claims.set_compact_below(0);
        self.claims.set_tight(false);
    }

    /// Has a page written again, to another place; whether that is so.
    fn mark_changed(&self, pid: PageId) -> Result<bool> {
        match self.fault_in(pid) {
            // It stays where it is; the file can still be cut behind it.
            Err(e) if e.is_unreadable() => return Ok(false),
            read => read?,
        }
        let door = self.enter_for(Space::Reserve)?;
        let page = self.try_exclusive(pid, &door);
        match page.and_then(|mut page| page.fill(0, 0).map(|_| ())) {
            Err(Interrupt::Fail(e)) => Err(e),
            // Somebody is changing it, so it will move anyway; or it is gone already.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    /// Marks some pages at the end of a file with much free space as changed, so that they are
    /// written further in front and the file can be cut. Bounded work; the caller holds nothing.
    pub fn relocate_some(&self) -> Result<()> {
        let bound = {
            let map = self.map.lock();
            let counts = map.counts();
            let used = counts.total - counts.free;
            if counts.free <= used / 2 + 512 {
                return Ok(());
            }
            map.tail_start(RELOCATE_PAGES).max(used + used / 4)
        };
        let mut moved = 0;
        for pid in (0..self.table.count()).map(PageId) {
            if self.place(pid).slot().is_none_or(|slot| slot < bound) {
                continue;
            }
            moved += u64::from(self.mark_changed(pid)?);
            if moved >= RELOCATE_PAGES {
                break;
            }
        }
        Ok(())
    }

    /// Whether space would be gained by a checkpoint: much of the file is held by the last image
    /// alone, or somebody who found the disk full asked for it.
    pub fn wants_checkpoint(&self) -> bool {
        if self.claims.take_wanted_checkpoint() {
            return true;
        }
        self.image_only() > self.most_held()
    }

    /// How many slots the last image alone may hold before a checkpoint is due. The file may be 2.2 times the
    /// live pages, and a checkpoint in progress needs room too: each dirty page that it writes is there twice
    /// until it is done. So where much of the store is dirty, as where most of it is kept in memory, less is
    /// held before; but not so little that checkpoints never end.
    fn most_held(&self) -> u64 {
        let live = self.live_pages();
        let dirty = self.counters.dirty.load(Ordering::Relaxed);
        let room = (live * ROOM_OF_16 / 16).saturating_sub(dirty);
        room.clamp(live / 8, live / 2) + 256
    }

    /// How much the space that the last image alone holds presses a checkpoint that is being made: by what
    /// came to it since the cut beside what the checkpoint writes itself, 1 when that is an eighth of the
    /// live pages.
    pub(crate) fn pressure_of_space(&self) -> f64 {
        let written = self.counters.checkpoint_page_writes.load(Ordering::Relaxed);
        let at_cut = self.cut.space();
        let beyond = self.image_only().wrapping_sub(at_cut.wrapping_add(written)) as i64;
        beyond.max(0) as f64 / (self.live_pages() / 8 + 256) as f64
    }

    /// Remembers, at the cut, what the last image alone holds by then.
    pub(crate) fn note_cut_space(&self) {
        let written = self.counters.checkpoint_page_writes.load(Ordering::Relaxed);
        // Less what had been written by then; it may wrap, and does so again when it is compared.
        let held = self.image_only().wrapping_sub(written);
        self.cut.set_space(held);
    }

    /// Whether a checkpoint would free slots: those that the last image alone holds, and those that dirty
    /// pages have in it.
    fn checkpoint_frees_slots(&self) -> bool {
        self.counters.dirty.load(Ordering::Relaxed) > 0 || self.image_only() > 0
    }

    /// Slots that the last image alone holds.
    fn image_only(&self) -> u64 {
        self.map.lock().counts().image_only
    }

    /// Pages that exist.
    pub fn live_pages(&self) -> u64 {
        // Both are of one moment only under this lock.
        let free = self.free_pages.lock();
        self.table.count().saturating_sub(free.count)
    }
}
