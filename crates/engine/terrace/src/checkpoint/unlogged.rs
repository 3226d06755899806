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
use crate::planted::{Fault, planted};
use crate::state::pieces::Began;

/// While this is there changes of structures without log are logged, until the cut.
pub(super) struct LoggedMeanwhile<'c> {
    core: &'c Core,
    /// Those that are saved.
    pub structures: Vec<Arc<Open>>,
    /// Where the pass over them began, once it has.
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

    /// Whether a structure without log has its hot tier in memory alone, and was changed since that was saved.
    pub(super) fn has_unsaved_unlogged(&self) -> bool {
        self.unlogged_in_memory().any(|open| open.is_changed())
    }

    fn unlogged_in_memory(&self) -> impl Iterator<Item = Arc<Open>> {
        let all = self.registry().all().into_iter();
        all.filter(|open| !open.spec.logged && open.spec.in_memory)
    }

    /// From the return on all changes of structures without log are logged, and those that were not are done. Nothing
    /// where there are none; where `only_changed`, where none of them was changed. The caller holds nothing, and makes
    /// the only checkpoint.
    pub(super) fn log_meanwhile(&self, only_changed: bool) -> Result<Option<LoggedMeanwhile<'_>>> {
        if only_changed && !self.has_unsaved_unlogged() {
            return Ok(None);
        }
        let mut meanwhile = LoggedMeanwhile {
            core: self,
            structures: self.unlogged_in_memory().collect(),
            began: None,
            is_over: false,
        };
        if meanwhile.structures.is_empty() {
            meanwhile.is_over = true;
            return Ok(None);
        }
        self.unlogged().set_logs(true);
        // Before all are waited for: a change that was noted earlier is done then.
        meanwhile
            .structures
            .retain(|open| open.take_changed() || !only_changed);
        if !planted(Fault::UnloggedUnawaited) {
            self.passes().wait_for_all()?;
        }
        Ok(Some(meanwhile))
    }

    /// Saves those of them that were changed, if any was.
    pub(super) fn save_unlogged(&self) -> Result<Option<LoggedMeanwhile<'_>>> {
        let mark = self.store().saving_mark();
        let Some(mut meanwhile) = self.log_meanwhile(true)? else {
            self.store().unlogged_is_saved(mark);
            return Ok(None);
        };
        self.load_all_saved()?;
        let (hold, _, began) = self.begin_saving();
        let saved = self.save_whole(&meanwhile.structures, None);
        self.log().let_go(hold);
        let slots = saved?;
        self.store()
            .has_saved(SavedPart::Unlogged, began.mark, slots);
        meanwhile.began = Some(began);
        Ok(Some(meanwhile))
    }
}
