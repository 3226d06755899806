//! What is claimed of the free space and asked of it, beside what the page map knows.

use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::faults::{Planted, planted};
use crate::parts::options::Layout;
use crate::parts::space_quota::{Space, SpaceQuota};

/// Slots beside those that are counted for what lies in memory alone: threads tell of it page by page, and there are
/// this many counters of what was not told yet. A piece of one page with those above it needs no more.
const UNCOUNTED: u64 = 8;

/// What lies in memory alone is saved in pieces, and where slots run out a checkpoint between two gives back those that
/// the older pages had: kept is what one in this many takes of all of them, which is two of the sixteen pieces. What will
/// take more than the older pages had is kept as a whole.
const PIECES_KEPT: u64 = 8;

/// What was counted at some instant for what lies in memory alone.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct SavingMark {
    fresh: u64,
    large: u64,
}

/// What was gone through of all that lies in memory alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SavedPart {
    /// All.
    All,
    /// What has a log: it is saved in pieces.
    Logged,
    /// What has none.
    Unlogged,
}

/// What writers have been promised of the free space, and what they have asked for.
#[derive(Default)]
pub(crate) struct SpaceReservations {
    /// Sums of what was promised to those who change much under one write guard: pages to become dirty, new ones.
    promised: [AtomicU64; 2],
    /// Slots that what was saved last of what lies in memory alone takes, in pieces and without log: a pass may write all
    /// of them anew.
    saved: [AtomicU64; 2],
    /// Slots for what became dirty there: all so far.
    fresh: AtomicU64,
    /// Of them those that were counted when the last pass began, over what is saved in pieces and over what has no log.
    before: [AtomicU64; 2],
    /// Slots for what is dirty there now, at most.
    dirty: AtomicU64,
    /// Slots that what is saved has by now, of them.
    held: AtomicU64,
    /// Slots for large values that are put beside it: all so far, and of them those before the place where replay
    /// begins.
    large: [AtomicU64; 2],
    /// Whether slots are kept for a whole pass, and how many a pass that goes on has taken of them.
    whole_pass: AtomicBool,
    pass_held: AtomicU64,
    /// Nobody writes any more, and all is saved.
    all_saved: AtomicBool,
    /// Slots for others that were missing when a writer that does not wait was sent away.
    missing: AtomicU64,
    /// Whether every operation may use the reserve of space.
    all_reserve: AtomicBool,
    wants_checkpoint: AtomicBool,
    /// Writes go below this slot if there is room; 0 for wherever they go usually.
    compact_below: AtomicU64,
    /// Whether checkpoints leave no room at the end of the file.
    compact_tight: AtomicBool,
}

impl SavingMark {
    /// What was counted before both.
    pub fn min(self, other: SavingMark) -> SavingMark {
        SavingMark {
            fresh: self.fresh.min(other.fresh),
            large: self.large.min(other.large),
        }
    }
}

impl SpaceReservations {
    /// Counts what was promised.
    #[inline]
    pub fn promise(&self, promise: SpaceQuota) {
        for (sum, more) in self.promised.iter().zip([promise.dirty, promise.new]) {
            if more > 0 {
                sum.fetch_add(more, Ordering::Relaxed);
            }
        }
    }

    /// The end of a promise.
    #[inline]
    pub fn take_back(&self, promise: SpaceQuota) {
        for (sum, less) in self.promised.iter().zip([promise.dirty, promise.new]) {
            if less > 0 {
                sum.fetch_sub(less, Ordering::Relaxed);
            }
        }
    }

    /// What is promised to all together.
    #[inline]
    pub fn promised(&self) -> SpaceQuota {
        let [dirty, new] = [0, 1].map(|i| self.promised[i].load(Ordering::Relaxed));
        SpaceQuota { dirty, new }
    }

    /// Slots that the next pieces take for what lies in memory alone, which are `memory` pages now, and those that replay
    /// takes for large values that the image has already.
    #[inline]
    pub fn saving(&self, memory: u64) -> u64 {
        match self.keeps_for_saving() {
            true => self.next_pieces(memory) + self.large_since(),
            false => 0,
        }
    }

    /// Whether anything is kept for who saves.
    #[inline]
    fn keeps_for_saving(&self) -> bool {
        !self.all_saved.load(Ordering::Relaxed) && !planted(Planted::SavingUnpromised)
    }

    /// Pages that the next pieces make or change.
    fn next_pieces(&self, memory: u64) -> u64 {
        let fresh = self.fresh_since();
        // More than lies there cannot become dirty there.
        let most = memory + memory / 4;
        let saved = self.all_saved_slots();
        let dirty = self.dirty.load(Ordering::Relaxed).min(most);
        if self.keeps_whole_pass() {
            // What is dirty is what was saved and what became dirty since, less what went down.
            let all = dirty.min(saved + fresh);
            let held = self.pass_held.load(Ordering::Relaxed);
            return all.saturating_sub(held) + UNCOUNTED.min(memory);
        }
        let more = match planted(Planted::GrowthUnpromised) {
            true => 0,
            false => dirty.saturating_sub(self.held.load(Ordering::Relaxed)),
        };
        (saved + fresh.min(most)) / PIECES_KEPT + more + UNCOUNTED.min(memory)
    }

    /// Slots for what became dirty since the older of the last passes.
    fn fresh_since(&self) -> u64 {
        let [a, b] = [0, 1].map(|i| self.before[i].load(Ordering::Relaxed));
        self.fresh.load(Ordering::Relaxed).saturating_sub(a.min(b))
    }

    fn all_saved_slots(&self) -> u64 {
        let slots = |saved: &AtomicU64| saved.load(Ordering::Relaxed);
        self.saved.iter().map(slots).sum()
    }

    /// As much became dirty in memory alone as takes `slots` slots once it is saved.
    pub fn add_fresh(&self, slots: u64) {
        self.fresh.fetch_add(slots, Ordering::Relaxed);
        self.dirty.fetch_add(slots, Ordering::Relaxed);
    }

    /// As much went down from there, or is as below.
    pub fn take_dirty(&self, slots: u64) {
        let less = |dirty: u64| Some(dirty.saturating_sub(slots));
        let _ = (self.dirty).fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
    }

    /// Large values were put that take this many slots, and once more if they are put again over an image that has them.
    pub fn add_large(&self, slots: u64) {
        self.large[0].fetch_add(slots, Ordering::Relaxed);
    }

    /// Slots for large values that were put since the place where replay begins.
    pub fn large_since(&self) -> u64 {
        let [all, before] = &self.large;
        let before = before.load(Ordering::Relaxed);
        all.load(Ordering::Relaxed).saturating_sub(before)
    }

    /// What is counted now.
    pub fn saving_mark(&self) -> SavingMark {
        let [fresh, large] = [&self.fresh, &self.large[0]].map(|all| all.load(Ordering::Relaxed));
        SavingMark { fresh, large }
    }

    /// What this round has saved so far takes `slots` slots.
    pub fn has_saved_part(&self, slots: u64) {
        self.held.fetch_max(slots, Ordering::Relaxed);
    }

    /// A pass over this that began then is complete: what it has saved takes `slots` slots.
    pub fn has_saved(&self, what: SavedPart, mark: SavingMark, slots: u64) {
        let (of, others) = match what {
            SavedPart::Unlogged => (1, None),
            SavedPart::Logged => (0, None),
            SavedPart::All => (0, Some(1)),
        };
        for (i, slots) in [(of, slots)].into_iter().chain(others.map(|i| (i, 0))) {
            self.before[i].store(mark.fresh, Ordering::Relaxed);
            self.saved[i].store(slots, Ordering::Relaxed);
        }
        let all = self.all_saved_slots();
        self.held.store(all, Ordering::Relaxed);
        // What was removed together was not told.
        let dirty = self.dirty.load(Ordering::Relaxed);
        self.take_dirty(dirty.saturating_sub(all + self.fresh_since()));
    }

    /// Of what has no log nothing was changed since it was saved.
    pub fn unlogged_is_saved(&self, mark: SavingMark) {
        self.before[1].store(mark.fresh, Ordering::Relaxed);
    }

    /// Slots are kept for a whole pass from now on.
    pub fn keep_whole_pass(&self) {
        self.whole_pass.store(true, Ordering::Relaxed);
    }

    /// Whether they are.
    #[inline]
    pub fn keeps_whole_pass(&self) -> bool {
        self.whole_pass.load(Ordering::Relaxed)
    }

    /// A whole pass has taken so many of them.
    pub fn pass_has_saved(&self, slots: u64) {
        self.pass_held.store(slots, Ordering::Relaxed);
    }

    /// A checkpoint is durable over which the log is replayed from then on.
    pub fn replays_from(&self, mark: SavingMark) {
        self.large[1].store(mark.large, Ordering::Relaxed);
    }

    /// No slots are kept for a pass any more: nobody writes, and all is saved.
    pub fn all_is_saved(&self) {
        self.all_saved.store(true, Ordering::Relaxed);
    }

    /// A writer that does not wait was sent away, for `slots` slots were missing for others.
    pub fn miss(&self, slots: u64) {
        self.missing.fetch_max(slots, Ordering::Relaxed);
    }

    /// The most that was missing for one of them since it was taken.
    pub fn missing(&self) -> u64 {
        self.missing.load(Ordering::Relaxed)
    }

    /// The same, which is forgotten.
    pub fn take_missing(&self) -> u64 {
        self.missing.swap(0, Ordering::Relaxed)
    }

    /// Says whether every operation may use the reserve of space.
    pub fn open_reserve(&self, open: bool) {
        self.all_reserve.store(open, Ordering::Relaxed);
    }

    /// Whether every operation may use it.
    #[inline]
    pub fn is_reserve_open(&self) -> bool {
        self.all_reserve.load(Ordering::Relaxed)
    }

    /// Numbers of pages that must remain for others than who reaches so deep.
    pub fn numbers_kept_from(&self, space: Space, layout: &Layout, memory: u64) -> u64 {
        // As for slots: what is replayed was let in once.
        if self.is_reserve_open() || planted(Planted::NoNumbersKept) {
            return 0;
        }
        // Numbers of chains that are replaced are free at once, other than their slots.
        let saving = match space {
            Space::Saving => 0,
            _ if self.keeps_for_saving() => self.next_pieces(memory),
            _ => 0,
        };
        layout.kept_numbers(space) + saving
    }

    /// What is kept for saving from who reaches so deep.
    #[inline]
    pub fn saving_for(&self, space: Space, memory: u64) -> u64 {
        match space {
            Space::Saving => 0,
            _ => self.saving(memory),
        }
    }

    /// A writer found no space on the disk, or has found some since.
    pub fn want_checkpoint(&self, wanted: bool) {
        self.wants_checkpoint.store(wanted, Ordering::Relaxed);
    }

    /// Whether a writer has found none.
    pub fn is_checkpoint_asked_for(&self) -> bool {
        self.wants_checkpoint.load(Ordering::Relaxed)
    }

    /// The same, which is forgotten.
    pub fn take_wanted_checkpoint(&self) -> bool {
        self.wants_checkpoint.swap(false, Ordering::Relaxed)
    }

    /// Below which slot writes go if there is room.
    pub fn compact_below(&self) -> Option<u64> {
        Some(self.compact_below.load(Ordering::Relaxed)).filter(|slot| *slot > 0)
    }

    /// Sets it; 0 for wherever they go usually.
    pub fn set_compact_below(&self, slot: u64) {
        self.compact_below.store(slot, Ordering::Relaxed);
    }

    /// Whether checkpoints leave no room at the end of the file.
    pub fn is_tight(&self) -> bool {
        self.compact_tight.load(Ordering::Relaxed)
    }

    /// They do not.
    pub fn cut_tightly(&self) {
        self.compact_tight.store(true, Ordering::Relaxed);
    }

    /// Writes go to where they usually go again, and room is left for them.
    pub fn end_compacting(&self) {
        self.set_compact_below(0);
        self.compact_tight.store(false, Ordering::Relaxed);
    }
}
