//! Going in to change pages, once there is space for what is going to be changed.
//!
//! Invariant: who waits to go in holds nothing.

use terrace_base::Result;
use terrace_base::sync::yield_now;

use crate::disk::Storage;
use crate::enter::write_guard::WriteGuard;
use crate::faults::{Point, reached};
use crate::parts::options::DIRTY_EACH;
use crate::parts::space_quota::{Space, SpaceQuota};

/// How often a writer lets others go on who may use up the last space, before it is told that the disk is
/// full.
const PATIENCE: u32 = 64;

/// The file grows ahead of need by one part in this many of its pages at most.
const WISH_PART: u64 = 8;

impl Storage {
    /// Goes through the gate if it is open; never waits.
    #[inline(always)]
    fn pass(&self) -> Option<WriteGuard<'_>> {
        WriteGuard::pass(&self.gate, self.common())
    }

    /// Goes through the gate, waiting while it is closed. The caller holds nothing.
    #[inline(always)]
    pub(crate) fn pass_waiting(&self) -> WriteGuard<'_> {
        loop {
            if let Some(door) = self.pass() {
                return door;
            }
            self.wait_at_gate();
        }
    }

    #[cold]
    fn wait_at_gate(&self) {
        reached(Point::AtGate);
        self.gate.wait();
    }

    pub fn enter(&self) -> Result<WriteGuard<'_>> {
        self.enter_for(Space::Ordinary)
    }

    pub fn enter_for(&self, space: Space) -> Result<WriteGuard<'_>> {
        self.common().health.check_poison()?;
        self.common().check_writable()?;
        if self.frames.undo().bytes() > self.common().layout.undo_bytes {
            self.wait_for_undo();
        }
        let mut patience = PATIENCE;
        loop {
            let door = self.pass_waiting().with_space(space);
            let Err(others) = self.may_stay(space) else {
                return Ok(door);
            };
            drop(door);
            match self.make_space(space, others) {
                // Those inside wait for nothing, and what they leave unused is there again.
                Err(e) if e.is_disk_full() && others > 0 && patience > 0 => {
                    patience -= 1;
                    yield_now();
                }
                made => made?,
            }
        }
    }

    pub fn enter_for_many(&self, space: Space, promise: SpaceQuota) -> Result<WriteGuard<'_>> {
        // Promised first, so that two who come at once do not count on the same slots and numbers.
        self.common().claims.promise(promise);
        let memory = self.common().counters.memory.get();
        let wanted = || {
            let kept = self
                .common()
                .claims
                .numbers_kept_from(space, &self.common().layout, memory);
            self.common().claims.promised().new + kept
        };
        // Those never given out are enough nearly always; to count the others, too, takes a lock.
        let short = promise.new > 0
            && self.frames.numbers_left() < wanted()
            && self.frames.numbers_free() < wanted();
        let entered = match short {
            true => Err(self.frames.no_page_number()),
            false => self.enter_for(space),
        };
        match entered {
            Ok(door) => Ok(door.with_promised(promise)),
            Err(e) => {
                self.common().claims.take_back(promise);
                Err(e)
            }
        }
    }

    pub fn enter_to_free(&self) -> Result<WriteGuard<'_>> {
        self.common().health.check_poison()?;
        self.common().check_writable()?;
        self.wait_for_saved();
        Ok(self.pass_waiting())
    }

    pub fn try_enter(&self) -> Option<WriteGuard<'_>> {
        let common = self.common();
        let stopped = common.health.is_poisoned() || common.is_image();
        if stopped || self.saves_enough() {
            return None;
        }
        let door = self.pass()?;
        if let Err(others) = self.may_stay(Space::Migration) {
            drop(door);
            self.common().claims.miss(others);
            // The cleaner grows the file for those who do not wait.
            common.signals.want_cleaning();
            return None;
        }
        Some(door)
    }

    pub fn saves_enough(&self) -> bool {
        self.frames.undo().bytes() > self.frames.saved_at_most()
    }

    pub fn wait_for_saved(&self) {
        if self.frames.undo().bytes() > self.common().layout.undo_bytes {
            self.wait_for_undo();
        }
    }

    fn wait_for_undo(&self) {
        self.common().counters.waits_for_undo.add(1);
        while self.frames.undo().bytes() > self.common().layout.undo_bytes
            && self.frames.cut().epoch() != 0
            && !self.common().health.is_poisoned()
        {
            self.common().signals.wait_for_progress();
        }
    }

    /// Whether there is space for a writer that is inside already and has changed nothing yet, beside the
    /// others that are inside; if not, the slots that these may still need. Those who come later see that it is
    /// there, so no two count on the same slots. O(1) unless space is short.
    #[inline(always)]
    fn may_stay(&self, space: Space) -> std::result::Result<(), u64> {
        // In this order nothing is overlooked: who leaves has counted what it made dirty, and what is
        // written takes its slot before it is clean.
        let needed = self.slots_needed(space);
        let free = self.common().counters.free_slots.get();
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
        let free = self.common().counters.free_slots.get();
        if free >= needed + others {
            self.wish_for_space();
            return Ok(());
        }
        Err(others)
    }

    /// Has the cleaner grow the file until no writer has to look who is inside, if that is little beside what is
    /// there. O(1).
    fn wish_for_space(&self) {
        let wish = (self.gate.threads() + 1) * DIRTY_EACH;
        if self.frames.live_pages() / WISH_PART > wish && self.common().claims.missing() < wish {
            self.common().claims.miss(wish);
        }
    }

    /// Slots that those inside may still need, one of them aside.
    fn slots_of_others(&self) -> u64 {
        if self.common().claims.is_reserve_open() {
            return 0;
        }
        self.gate.inside().saturating_sub(1) * DIRTY_EACH
    }
}
