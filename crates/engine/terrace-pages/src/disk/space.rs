//! Space in the data file: grown before it is needed, given back after it is not.

use terrace_base::Result;

use crate::disk::Storage;
use crate::faults::{Planted, planted};
use crate::map::Run;
use crate::parts::data_file::{DATA_FILE, DATA_START, io};
use crate::parts::durable::Durable;
use crate::parts::space_quota::{Space, SpaceQuota};

/// The file grows by at least this much: growing is rare, and a database of a few records is small.
const MIN_GROWTH_BYTES: u64 = 128 << 10;
/// What a cut of the file must gain at least: less is not worth the file system's work.
const MIN_CUT_BYTES: u64 = 1 << 20;
/// And by at most this much, so that a small database on a nearly full disk is not refused.
const MAX_GROWTH_BYTES: u64 = 64 << 20;
/// Otherwise by one part of the file in this many.
const GROWTH_PART: u64 = 16;
/// Sixteenths of the live pages for which the file has room beside them when a checkpoint begins: slots that
/// the last image alone holds, and those that the checkpoint will write dirty pages to. Two sixteenths more
/// are for what else is written until it is done, and one for growing ahead: 2.13 times the live pages.
const ROOM_OF_16: u64 = 15;

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

impl Storage {
    pub fn space_seen(&self) -> SpaceSeen {
        let map = self.frames.lock_map();
        let (counts, pinned, used_end) = (map.counts(), map.kept(), map.used_end());
        drop(map);
        SpaceSeen {
            page_writes: self.common().counters.page_writes.get(),
            live: self.frames.live_pages(),
            image_only: counts.image_only,
            dirty: self.common().counters.dirty.get(),
            slots: counts.total,
            pinned,
            used_end,
        }
    }

    /// Free slots for writes that were reserved when the write guard was taken; grows the file if that was not
    /// enough.
    pub(crate) fn allocate_slots(&self, want: u64) -> Result<Run> {
        loop {
            {
                let mut map = self.frames.lock_map();
                let below = self.common().claims.compact_below();
                let below = below.and_then(|below| map.allocate_below(want, below));
                if let Some(run) = below.or_else(|| map.allocate(want)) {
                    self.frames.note_slots(&map);
                    return Ok(run);
                }
            }
            self.grow(Space::Saving, self.slots_needed(Space::Ordinary))?;
        }
    }

    /// Grows the file, so that an operation that `space` entitles to it can go in beside others that need
    /// `others` slots.
    pub(crate) fn make_space(&self, space: Space, others: u64) -> Result<()> {
        loop {
            let needed = self.slots_needed(space) + others;
            if self.common().counters.free_slots.get() >= needed {
                return Ok(());
            }
            self.grow(space, needed)?;
        }
    }

    /// The same before a writer needs it, for those that do not wait: as much as was missing for one of them.
    pub(crate) fn make_space_ahead(&self) -> Result<()> {
        let others = self.common().claims.take_missing();
        self.make_space(Space::Ordinary, others)
    }

    pub fn has_slack(&self) -> bool {
        self.has_slack_for(0)
    }

    pub fn has_slack_for(&self, pages: u64) -> bool {
        let free = self.common().counters.free_slots.get();
        free >= self.slots_needed(Space::Migration) + pages
    }

    /// Free slots that there must be for `space`: one for each dirty page, what is promised, and slack.
    pub(crate) fn slots_needed(&self, space: Space) -> u64 {
        // What is replayed was let in once, perhaps as the last that found the slack untouched; so the
        // slack is there for it.
        let slack = if self.common().claims.is_reserve_open() {
            0
        } else {
            self.common().layout.slack(space)
        };
        let SpaceQuota {
            dirty: promised,
            new,
        } = self.common().claims.promised();
        let memory = self.common().counters.memory.get();
        let saving = match self.common().claims.is_reserve_open() {
            true => 0,
            false => self.common().claims.saving_for(space, memory),
        };
        let dirty = self.common().counters.dirty.get() + saving;
        if promised <= LITTLE {
            return dirty + promised + new + slack;
        }
        // Between two cuts each page counts once more at most, however much is promised.
        dirty + promised.min(self.frames.live_pages()) + new + slack
    }

    pub fn leave_free(&self, bytes: u64) {
        *self.growing.lock() = bytes;
    }

    /// Grows the file for an operation that `space` entitles to it, if fewer slots than these are free.
    fn grow(&self, space: Space, wanted: u64) -> Result<()> {
        // One thread grows; the others find the slots when they come in.
        let growing = self.growing.lock();
        let page = self.common().page_bytes() as u64;
        let total = self.frames.lock_map().counts().total;
        if self.common().counters.free_slots.get() >= wanted {
            return Ok(());
        }
        let bytes = (total * page / GROWTH_PART).clamp(MIN_GROWTH_BYTES, MAX_GROWTH_BYTES);
        let mut slots = bytes.div_ceil(page);
        loop {
            // While a checkpoint is made it has the map file, and reserves what is needed at its end.
            let durable = self.durable.try_lock();
            let reserved = durable.map_or(Ok(()), |d| self.reserve_map(&d, total + slots));
            let grown = reserved.and_then(|()| {
                let left = match space {
                    // The log is shorter after that.
                    Space::Saving => 0,
                    _ => *growing,
                };
                self.check_free((total + slots) * page, left)?;
                self.data
                    .allocate(DATA_START + total * page, slots * page)
                    .map_err(io("growing", DATA_FILE))
            });
            match grown {
                Ok(()) => break,
                Err(e) => {
                    // A nearly full disk may have room for less.
                    slots /= 4;
                    if slots == 0 || !e.is_disk_full() {
                        // No writer waits for a reader.
                        while self.give_up_oldest_pin("the disk is full") {
                            if self.common().counters.free_slots.get() >= wanted {
                                return Ok(());
                            }
                        }
                        // On a full disk the cleaner comes here again and again, and each checkpoint
                        // writes a superblock at least.
                        if self.checkpoint_frees_slots() {
                            self.common().claims.want_checkpoint(true);
                        }
                        let free = self.common().counters.free_slots.get();
                        let missing = wanted.saturating_sub(free) * page;
                        return Err(e.with_space(missing, self.disk.free_bytes().ok()));
                    }
                }
            }
        }
        let mut map = self.frames.lock_map();
        map.grow(total + slots);
        self.frames.note_slots(&map);
        Ok(())
    }

    /// Whether the disk has so much for the data file, and this much is left of it then. What is replayed may have all.
    fn check_free(&self, bytes: u64, left: u64) -> Result<()> {
        // After a crash it may be longer than the superblock says.
        let has = self.data.len().map_err(io("measuring", DATA_FILE))?;
        let wanted = (DATA_START + bytes).saturating_sub(has);
        let may_have_all =
            self.common().claims.is_reserve_open() || planted(Planted::DataTakesAllSpace);
        match self.disk.free_bytes() {
            Ok(free) if wanted > 0 && free < wanted.saturating_add(left) && !may_have_all => {
                let what = std::io::Error::from(std::io::ErrorKind::StorageFull);
                Err(io("growing", DATA_FILE)(what))
            }
            // Who does not know tries.
            _ => Ok(()),
        }
    }

    /// After a checkpoint: deletes the map file that it has replaced, if it did, cuts the data file, and reserves what
    /// the next one needs.
    pub(crate) fn give_back(&self, retired: Option<&str>, durable: &Durable) {
        // What is given back here is for the next map file first, not for the growth of `data`.
        let _growing = self.growing.lock();
        if let Some(name) = retired {
            // A file that stays behind does no harm: it is deleted at the next opening.
            let _ = self.disk.delete(name);
        }
        self.truncate();
        // If there is no space for it now, the next growth or checkpoint tries again.
        let _ = self.reserve_map(durable, 0);
    }

    /// Cuts the file behind the last slot that either superblock names. The caller is the only one who changes its length.
    fn truncate(&self) {
        let page = self.common().page_bytes() as u64;
        let mut map = self.frames.lock_map();
        let counts = map.counts();
        // Who compacts wants it as short as it can be: who writes next lets it grow again.
        let (needed, least) = match self.common().claims.is_tight() {
            true => {
                let memory = self.common().counters.memory.get();
                let saving = self.common().claims.saving(memory);
                (self.common().counters.dirty.get() + saving, 1)
            }
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
        self.frames.note_slots(&map);
        drop(map);
        // If it fails, the file is longer than need be until the next time.
        let _ = self.data.set_len(DATA_START + total * page);
    }

    pub fn wants_checkpoint(&self) -> bool {
        if self.common().claims.take_wanted_checkpoint() {
            return true;
        }
        self.image_only() > self.most_held()
    }

    /// How many slots the last image alone may hold before a checkpoint is due. The file may be 2.2 times the
    /// live pages, and a checkpoint in progress needs room too: each dirty page that it writes is there twice
    /// until it is done. So where much of the store is dirty, as where most of it is kept in memory, less is
    /// held before; but not so little that checkpoints never end.
    fn most_held(&self) -> u64 {
        let live = self.frames.live_pages();
        let dirty = self.common().counters.dirty.get();
        let room = (live * ROOM_OF_16 / 16).saturating_sub(dirty);
        // Where hot pages lie in memory alone a checkpoint writes little, and more of them make for a shorter file.
        let alone = self.common().counters.memory.get();
        let most = match alone > 0 && alone == self.frames.hot_frames() {
            // Each saves all anew where that cannot be done in pieces.
            true if self.common().claims.keeps_whole_pass() => live / 4,
            true => live / 8,
            false => live / 2,
        };
        room.clamp(live / 8, most) + 256
    }

    /// How much the space that the last image alone holds presses a checkpoint that is being made: by what
    /// came to it since the cut beside what the checkpoint writes itself, 1 when that is an eighth of the
    /// live pages.
    pub(crate) fn pressure_of_space(&self) -> f64 {
        let written = self.common().counters.checkpoint_page_writes.get();
        let at_cut = self.frames.cut().space();
        let beyond = self.image_only().wrapping_sub(at_cut.wrapping_add(written)) as i64;
        beyond.max(0) as f64 / (self.frames.live_pages() / 8 + 256) as f64
    }

    /// Remembers, at the cut, what the last image alone holds by then.
    pub(crate) fn note_cut_space(&self) {
        let written = self.common().counters.checkpoint_page_writes.get();
        // Less what had been written by then; it may wrap, and does so again when it is compared.
        let held = self.image_only().wrapping_sub(written);
        self.frames.cut().set_space(held);
    }

    /// Whether a checkpoint would free slots: those that the last image alone holds, and those that dirty
    /// pages have in it.
    fn checkpoint_frees_slots(&self) -> bool {
        self.common().counters.dirty.get() > 0 || self.image_only() > 0
    }

    /// Slots that the last image alone holds.
    fn image_only(&self) -> u64 {
        self.frames.lock_map().counts().image_only
    }
}
