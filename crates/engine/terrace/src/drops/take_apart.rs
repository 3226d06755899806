//! Taking dropped structures apart, in the background and in bounded steps.
//!
//! Invariant: a structure is touched only after every call and every sweep that was at work on it
//! when it was marked has ended. A structure that was not finished is found again at the next
//! opening, by its mark.

use std::time::Duration;

use terrace_base::{Result, StructureId};

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::state::drops::Waiting;

/// Pause after every structure that waits has failed in a row (a full disk, say).
const RETRY: Duration = Duration::from_secs(1);

impl Core {
    /// A structure was marked as dropped; its pages are to go. The caller holds no operation.
    pub fn take_apart(&self, id: StructureId) {
        if self.options().foreground {
            // It is dropped in any case; what does not work now is done after the next opening.
            while let Ok(true) = self.step(id) {}
            return;
        }
        self.drops().push(id);
    }

    /// The same for what was taken out of a structure: no thread ever was at work on it.
    pub fn take_part_apart(&self, id: StructureId) {
        match self.options().foreground {
            true => self.take_apart(id),
            false => self.drops().push_free(id),
        }
    }

    /// The same for a structure and its indexes, if it is a table.
    pub fn take_apart_with_indexes(&self, open: &Open) {
        for index in self.registry().indexes_of(open.id()) {
            self.take_apart(index.id());
        }
        self.take_apart(open.id());
    }

    /// Goes on with what an earlier run did not finish.
    pub fn resume_drops(&self) {
        let all = self.registry().all().into_iter();
        all.filter(|open| open.is_dropped())
            .for_each(|open| self.take_apart(open.id()));
    }

    pub(super) fn step(&self, id: StructureId) -> Result<bool> {
        let _working = self.drops().hold();
        if self
            .registry()
            .numbered(id)
            .is_some_and(|open| open.spec.in_memory)
        {
            // Who saves hot tiers looks once whether one was dropped, and may still be at work on this one.
            drop(self.registry().hold_background());
        }
        self.registry().clear_step(id).map_err(|e| self.failed(e))
    }

    /// Waits until no thread is at work on a structure that was marked: calls, and the background
    /// demotion, which begins nothing new on it.
    fn let_go(&self) -> Result<()> {
        self.passes().quiesce();
        self.demotion().start()
    }

    /// Takes a structure apart; `Ok(false)` when it is time to end before that is done.
    fn take_all_apart(&self, waiting: &mut Waiting) -> Result<bool> {
        if !waiting.free {
            // Once for all that wait by now: there may be thousands.
            let marked = self.drops().waiting();
            self.let_go()?;
            waiting.free = true;
            self.drops().let_go_of(marked);
        }
        while !self.drops().wait(Duration::ZERO) {
            if !self.step(waiting.id)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The thread that takes dropped structures apart.
    pub fn run_drops(&self) {
        let mut failed_in_a_row = 0;
        while let Some(mut next) = self.drops().next() {
            match self.take_all_apart(&mut next) {
                Ok(true) => {
                    failed_in_a_row = 0;
                    self.drops().done(next.id);
                }
                Ok(false) => return,
                Err(error) => {
                    failed_in_a_row += 1;
                    if failed_in_a_row >= self.drops().put_back(next, error) {
                        failed_in_a_row = 0;
                        self.drops().wait(RETRY);
                    }
                }
            }
        }
    }
}
