//! Saving the hot tiers of structures without log.
//!
//! What is saved of them is of an instant only with a log of what was changed meanwhile. So from before they are gone
//! through until the cut of the checkpoint their changes are in the log, and replayed up to that cut: behind it they
//! count for nothing, as most of what came later is missing.
//!
//! Invariants: each change is logged, or noted and done before the pass begins, or done behind the cut. A checkpoint has
//! what was saved of a structure in one pass that began after its last change before the log had them, and replays
//! nothing of them from before that.

use std::sync::Arc;

use terrace_base::Result;
use terrace_pages::SavedPart;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::planted::{Fault, Point, planted, reached};
use crate::state::pieces::Began;

/// While this is there changes of structures without log are logged, until the cut.
pub(super) struct LoggedMeanwhile<'c> {
    core: &'c Core,
    /// Those that are saved.
    structures: Vec<Arc<Open>>,
    /// From where on all their changes are logged.
    pub began: Option<Began>,
    is_over: bool,
}

impl LoggedMeanwhile<'_> {
    /// The cut has come: what is changed from now on it has not, and its saved pages have all that was changed before.
    /// No thread is inside the gate.
    pub fn is_cut(&mut self) {
        self.is_over = true;
        self.core.unlogged().set_logs(false);
    }
}

impl Drop for LoggedMeanwhile<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // It was given up: no checkpoint has them.
            self.structures.iter().for_each(|open| open.note_changed());
            self.core.unlogged().set_logs(false);
        }
        // A checkpoint is durable that has given back what was saved before, or there is none.
        self.core.store().pass_has_saved(0);
    }
}

impl Core {
    /// Whether a change of this structure goes into the log. Asked once for each change, within the operation or the pause
    /// in which it is made.
    #[inline]
    pub fn logs(&self, open: &Open) -> bool {
        open.spec.logged || self.logs_unlogged(open)
    }

    fn logs_unlogged(&self, open: &Open) -> bool {
        if !open.spec.in_memory {
            return false;
        }
        open.note_changed();
        self.unlogged().logs() && !planted(Fault::UnloggedNotLogged)
    }

    fn unlogged_in_memory(&self) -> Vec<Arc<Open>> {
        let mut all = self.registry().all();
        all.retain(|open| !open.spec.logged && open.spec.in_memory);
        all
    }

    /// From the return on all changes of structures without log are logged, and those that were not are done. They are
    /// to be saved then, if `always` or any was changed. The caller holds nothing, and makes the only checkpoint.
    pub(super) fn log_meanwhile(&self, always: bool) -> Result<LoggedMeanwhile<'_>> {
        let mut meanwhile = LoggedMeanwhile {
            core: self,
            structures: Vec::new(),
            began: None,
            is_over: false,
        };
        self.unlogged().set_logs(true);
        // One that is made from now on is in the log from its first change on.
        if self.registry().has_unlogged_in_memory() && !planted(Fault::UnloggedUnawaited) {
            self.passes().wait_for_all()?;
        }
        let (hold, _, began) = self.begin_saving();
        self.log().let_go(hold);
        meanwhile.began = Some(began);
        // One that was made before that instant is among them, others are in the log from there on.
        let all = self.unlogged_in_memory();
        let is_changed = |any: bool, open: &Arc<Open>| open.take_changed() || any;
        if all.iter().fold(always, is_changed) {
            meanwhile.structures = all;
            if !planted(Fault::UnloggedUnawaited) {
                // Whoever has noted a change by now has made it then.
                self.passes().wait_for_all()?;
            }
        } else if planted(Fault::UnloggedUnwatched) {
            self.unlogged().set_logs(false);
        }
        reached(Point::UnloggedFound);
        Ok(meanwhile)
    }

    /// Saves those structures if any was changed.
    pub(super) fn save_unlogged(&self) -> Result<LoggedMeanwhile<'_>> {
        let meanwhile = self.log_meanwhile(false)?;
        let mark = meanwhile
            .began
            .map_or_else(Default::default, |began| began.mark);
        if meanwhile.structures.is_empty() {
            self.store().unlogged_is_saved(mark);
            return Ok(meanwhile);
        }
        self.load_all_saved()?;
        let slots = self.save_whole(&meanwhile.structures, None)?;
        self.store().has_saved(SavedPart::Unlogged, mark, slots);
        Ok(meanwhile)
    }
}
