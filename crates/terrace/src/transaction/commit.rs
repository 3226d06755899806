//! The commit of a transaction.
//!
//! In this order: everything read is looked at again; what the writes change in indexes is worked out;
//! what they need is brought into memory and reserved; whoever was inside the gate when a range began to be
//! watched has left it; then the gate, the locks, and in one piece the last look and the append to the
//! log. A last look that fails lets go of everything unchanged and begins again, and only another value, or
//! a range that somebody has written in, is a conflict.

use terrace_base::{Error, Result};

use super::{Committed, Transaction, reads::Changed};
use crate::core::Core;
use crate::fault::{Fault, planted};
use crate::table::Round;

/// Rounds that may fail although nothing that was read has another value.
const ROUNDS: u32 = 16;

/// How a commit ended that did not fail.
pub(super) enum Ended {
    Committed(Committed),
    /// Nothing was changed; `conflict` of the transaction says why.
    Conflict,
}

impl Transaction {
    /// Makes all changes, if everything that was read is still so, at one instant.
    ///
    /// # Errors
    /// [`Error::Conflict`] when it is not; nothing was changed then, and the transaction has to be made
    /// anew ([`crate::Database::transaction`] does so by itself). Those of [`crate::Database::write`].
    pub fn commit(mut self) -> Result<Committed> {
        match self.commit_once()? {
            Ended::Committed(committed) => Ok(committed),
            Ended::Conflict => {
                let core = &self.db.handle.core;
                core.transactions.gave_up();
                Err(self.conflict_error(1))
            }
        }
    }

    /// Commits, or finds a conflict, and counts it.
    pub(super) fn commit_once(&mut self) -> Result<Ended> {
        let core = self.db.handle.core.clone();
        let ended = self.commit_rounds(&core);
        let refreshed = std::mem::take(&mut self.reads.refreshed);
        match &ended {
            Ok(Ended::Committed(_)) => core.transactions.committed(refreshed),
            Ok(Ended::Conflict) => {
                let changed = self.conflict.get_or_insert_with(|| self.reads.some());
                core.transactions
                    .conflict(self.options.label, changed, refreshed);
            }
            Err(_) => {}
        }
        // Nobody needs to tell it of anything any more.
        self.reads.clear();
        ended
    }

    fn commit_rounds(&mut self, core: &Core) -> Result<Ended> {
        if self.conflict.is_some() {
            return Ok(Ended::Conflict);
        }
        // An error of the batch, and the question whether it is logged.
        let logged = self.batch.logged(core)?;
        let in_force = core.durability(logged, self.options.durability)?;
        for _ in 0..ROUNDS {
            if let Err(changed) = self.reads.refresh(core)? {
                return Ok(self.met_changed(changed));
            }
            if self.reads.has_ranges() {
                core.store.grace();
            }
            if self.batch.is_empty() {
                use crate::batch::standing::Standing;
                if self.reads.stands(&|_| false) {
                    // What was read may not be durable yet, which plain reads do not wait for either.
                    if let Some(durability) = self.options.durability {
                        core.confirm(durability)?;
                    }
                    return Ok(Ended::Committed(Committed { sequence: None }));
                }
                continue;
            }
            let standing = (!planted(Fault::ValidatedEarly)).then_some(&self.reads as _);
            let round = match core.round(&mut self.batch, None, false, standing) {
                Ok(round) => round,
                // Said of a state that may be gone by now.
                Err(e @ Error::Duplicate { .. }) => match self.reads.refresh(core)? {
                    Ok(()) => return Err(e),
                    Err(changed) => return Ok(self.met_changed(changed)),
                },
                Err(e) => return Err(e),
            };
            match round {
                Round::Written(Some(appended)) => {
                    let sequence = Some(appended.sequence);
                    if let Some(durability) = in_force {
                        core.commit(appended, durability)?;
                    }
                    return Ok(Ended::Committed(Committed { sequence }));
                }
                Round::Written(None) => {
                    if let Some(durability) = in_force {
                        core.confirm(durability)?;
                    }
                    return Ok(Ended::Committed(Committed { sequence: None }));
                }
                Round::Changed | Round::NotAsFound => std::thread::yield_now(),
            }
        }
        let some = self.reads.some();
        Ok(self.met_changed(some))
    }

    fn met_changed(&mut self, changed: Changed) -> Ended {
        self.conflict = Some(changed);
        Ended::Conflict
    }
}
