//! The door: how one goes in to change pages, once there is space for what is going to be changed.
//!
//! Invariant: who waits to go in holds nothing.

use terrace_base::Result;
use terrace_base::sync::atomic::{AtomicU32, Ordering};
use terrace_base::sync::{panicking, yield_now};

use crate::faults::{Point, entered, left, reached};
use crate::parts::gate::leave;
use crate::parts::promise::{Promise, Space};
use crate::store::PageStore;

/// How often somebody lets others go on who may use up the last space, before it is told that the disk is
/// full.
const PATIENCE: u32 = 64;

/// The right to change pages: its holder is inside the gate, in one epoch, until it is dropped.
pub struct Door<'a> {
    store: &'a PageStore,
    /// What to count down when it leaves.
    count: &'a AtomicU32,
    epoch: u32,
    /// Whether its thread was unwinding already when it came in.
    unwinding: bool,
    /// What was promised to whoever came in by it.
    promised: Promise,
    /// How deep it may reach into the numbers of new pages.
    space: Space,
}

impl<'a> Door<'a> {
    /// The same door, to which belongs what was counted as promised before.
    pub(crate) fn with_promised(mut self, promise: Promise) -> Door<'a> {
        self.promised = promise;
        self
    }

    /// Whether new pages were promised to whoever came in by it.
    pub(crate) fn may_make(&self) -> bool {
        self.promised.new > 0
    }

    /// How deep it may reach.
    pub(crate) fn space(&self) -> Space {
        self.space
    }

    /// The epoch that changes made inside belong to.
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    pub(crate) fn unwinding(&self) -> bool {
        self.unwinding
    }

    /// The store this door leads into.
    pub fn store(&self) -> &'a PageStore {
        self.store
    }
}

impl Drop for Door<'_> {
    fn drop(&mut self) {
        left();
        if panicking() && !self.unwinding {
            // Some pages of a change may have it and others not, or none of them what the log has.
            self.store.halt("a change of pages");
        }
        self.store.claims.take_back(self.promised);
        leave(self.count);
    }
}

impl PageStore {
    /// Goes through the gate if it is open; never waits.
    // Always: a door would be copied through memory otherwise, for every write.
    #[inline(always)]
    pub(crate) fn pass(&self) -> Option<Door<'_>> {
        let (count, epoch) = self.gate.try_pass()?;
        entered();
        Some(Door {
            store: self,
            count,
            epoch,
            unwinding: panicking(),
            promised: Promise::default(),
            space: Space::Migration,
        })
    }

    /// Waits until everybody who is inside the gate now has left it, and for nobody who comes later. The
    /// caller is not inside and holds nothing. Usually one look at as many counters as threads write.
    pub fn grace(&self) {
        self.gate.grace();
    }

    /// Goes through the gate, waiting while it is closed. The caller holds nothing.
    #[inline(always)]
    pub(crate) fn pass_waiting(&self) -> Door<'_> {
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

    /// Goes in to change pages. Waits, holding nothing, while the gate is closed or while the
    /// checkpointer must first write pages that too much was saved of. O(1).
    ///
    /// # Errors
    /// `DiskFull` when there is no space to write what would be changed, `Poisoned`.
    pub fn enter(&self) -> Result<Door<'_>> {
        self.enter_for(Space::Ordinary)
    }

    /// Like [`PageStore::enter`], but may use the reserve of space: for deletes, and for what the
    /// store itself needs to get out of trouble.
    pub fn enter_for(&self, space: Space) -> Result<Door<'_>> {
        self.check_poison()?;
        self.check_writable()?;
        if self.undo.bytes() > self.layout.undo_bytes {
            self.wait_for_undo();
        }
        let mut patience = PATIENCE;
        loop {
            let mut door = self.pass_waiting();
            door.space = space;
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

    /// Like [`PageStore::enter_for`], for somebody who may change so much behind this one door, and must not
    /// fail on the way for lack of space.
    ///
    /// # Errors
    /// As there, and `MemoryTooSmall` when there may be too few numbers for new pages.
    pub fn enter_for_many(&self, space: Space, promise: Promise) -> Result<Door<'_>> {
        // Promised first, so that two who come at once do not count on the same slots and numbers.
        self.claims.promise(promise);
        let wanted = || self.claims.promised().new + self.numbers_kept_from(space);
        let left = |taken| self.table.limit().saturating_sub(taken);
        // Those never given out are enough nearly always; to count the others, too, takes a lock.
        let short = promise.new > 0
            && left(self.table.count()) < wanted()
            && left(self.live_pages()) < wanted();
        let entered = match short {
            true => Err(self.no_page_number()),
            false => self.enter_for(space),
        };
        match entered {
            Ok(door) => Ok(door.with_promised(promise)),
            Err(e) => {
                self.claims.take_back(promise);
                Err(e)
            }
        }
    }

    /// Goes in to free pages, which makes none dirty and so needs no slots: who has unlinked what he frees
    /// must not be refused. Waits like [`PageStore::enter`].
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn enter_to_free(&self) -> Result<Door<'_>> {
        self.check_poison()?;
        self.check_writable()?;
        self.wait_for_saved();
        Ok(self.pass_waiting())
    }

    /// Goes in if that takes no waiting at all, and more may be saved for the cut, if there is one.
    pub fn try_enter(&self) -> Option<Door<'_>> {
        let stopped = self.health.is_poisoned() || self.is_image();
        if stopped || self.saves_enough() {
            return None;
        }
        let door = self.pass()?;
        if let Err(others) = self.may_stay(Space::Migration) {
            drop(door);
            self.claims.miss(others);
            // The cleaner grows the file for those who do not wait.
            self.want_cleaning();
            return None;
        }
        Some(door)
    }

    /// Whether so much is saved for the cut, if there is one, that who need not change pages had better wait. O(1).
    pub fn saves_enough(&self) -> bool {
        self.undo.bytes() > self.saved_at_most()
    }

    /// For who changes a lot behind one door: waits, as the door does, while the checkpointer must first
    /// write pages that too much was saved of. The caller holds no latch. O(1) if there is nothing to
    /// wait for.
    pub fn wait_for_saved(&self) {
        if self.undo.bytes() > self.layout.undo_bytes {
            self.wait_for_undo();
        }
    }

    fn wait_for_undo(&self) {
        self.counters.waits_for_undo.fetch_add(1, Ordering::Relaxed);
        while self.undo.bytes() > self.layout.undo_bytes
            && self.cut.epoch() != 0
            && !self.health.is_poisoned()
        {
            self.wait_for_progress();
        }
    }
}

#[cfg(feature = "planted-faults")]
impl PageStore {
    /// How often the gate was passed by those who are inside now.
    pub fn inside(&self) -> u64 {
        self.gate.inside()
    }
}
