//! The commit of a transaction.
//!
//! In this order: everything read is looked at again; what the writes change in indexes is worked out;
//! what they need is brought into memory and reserved; then the gate, the locks, and in one piece the last look
//! and the append to the log. A last look that fails lets go of everything unchanged and begins again, and only another value, or
//! a range that another writer has written in, is a conflict. What changes rows with indexes and was disturbed too
//! often closes the tables to others for a round: nothing that it rests on there can move on then.
//!
//! An error says something of the instant at which it was found: a merge does not fit, two rows have one key, a
//! batch is too large. If what was read was not so at that instant, no order of transactions explains it. So it is a
//! conflict where that has changed, and where it was another value only in between, the round is made again.

use std::sync::Arc;

use terrace_base::{Error, Result};
use terrace_tier::WriteReservation;
use terrace_wal::Appended;

use super::open::Transaction;
use super::options::Committed;
use super::reads::Changed;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::write::batch::standing::Standing;
use crate::write::expected::Round;

/// Rounds that may fail although nothing that was read has another value.
const ROUNDS: u32 = 16;
/// After this many of them, where indexes are changed, the tables are closed to others: rows and entries rest on
/// the versions of their locks, which others share.
const ROUNDS_BESIDE_OTHERS: u32 = 8;
/// The same of a transaction with more changes than the second number.
const ROUNDS_IF_LARGE: (u32, usize) = (1, 64);

/// How a round ended that did not fail.
enum Done {
    Written(Option<Appended>),
    OnlyRead,
    /// Something that was read has changed, and `conflict` of the transaction says what.
    Conflict,
    /// Others were faster, with nothing that is known to matter.
    Disturbed,
    /// Another transaction has the fairness lock, and claims what is to be written.
    Claimed(Arc<WriteReservation>),
}

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
                let core = self.db.core();
                core.transactions().gave_up();
                Err(self.conflict_error(1))
            }
        }
    }

    /// Commits, or finds a conflict, and counts it.
    pub(super) fn commit_once(&mut self) -> Result<Ended> {
        let core = self.db.core().clone();
        let ended = self.commit_rounds(&core);
        let refreshed = std::mem::take(&mut self.reads.refreshed);
        match &ended {
            Ok(Ended::Committed(_)) => core.transactions().committed(refreshed),
            Ok(Ended::Conflict) => {
                let changed = self.conflict.take().unwrap_or_else(|| self.some());
                core.transactions()
                    .conflict(self.options.label, changed.names(), refreshed);
                self.conflict = Some(changed);
            }
            Err(_) => {}
        }
        // No thread needs to tell it of anything any more, or to wait for it.
        self.let_go();
        ended
    }

    fn commit_rounds(&mut self, core: &Core) -> Result<Ended> {
        if self.conflict.is_some() {
            return Ok(Ended::Conflict);
        }
        // An error of the batch, and the question whether it is logged.
        let logged = match self.batch.logged(core) {
            Ok(logged) => logged,
            Err(e) => return self.unless_changed(core, e).map(|()| Ended::Conflict),
        };
        let in_force = core.durability(logged, self.options.durability)?;
        let (few, large) = ROUNDS_IF_LARGE;
        let beside = if self.batch.len() > large {
            few
        } else {
            ROUNDS_BESIDE_OTHERS
        };
        if self.batch.has_range()
            && let Err(changed) = self.reads.watch_all(core)?
        {
            return Ok(self.met_changed(changed));
        }
        let mut owed = None;
        for round in 0..ROUNDS {
            // As with batches: what merges were worked out from comes to rest only if it is in tables.
            let may_go_alone = self.batch.changes_indexes()
                && (!self.batch.has_merges() || self.batch.merges_are_in_tables());
            let done = if round >= beside && may_go_alone {
                let tables = self.batch.tables();
                core.alone(&tables, || {
                    self.reads.rest(&tables);
                    let done = self.commit_round(core, true);
                    self.reads.rest(&[]);
                    done
                })?
            } else {
                self.commit_round(core, false)?
            };
            let (appended, durability) = match done {
                Done::Conflict => return Ok(Ended::Conflict),
                Done::Written(appended) => (appended, in_force),
                // What was read may not be durable yet, which plain reads do not wait for either.
                Done::OnlyRead => (None, self.options.durability),
                Done::Disturbed => {
                    std::thread::yield_now();
                    continue;
                }
                Done::Claimed(claim) => {
                    owed = Some(core.turn().wait_for(&claim));
                    continue;
                }
            };
            // No other thread is to wait for a disk of ours.
            drop(owed);
            self.let_go();
            // What has no log has no place in its order, though a part of it is there for a while.
            let logged = appended.filter(|_| in_force.is_some());
            let sequence = logged.map(|appended| appended.sequence);
            match (appended, durability) {
                (Some(appended), durability) => core.commit_as(appended, durability)?,
                (None, Some(durability)) => core.confirm(durability)?,
                (None, None) => {}
            }
            return Ok(Ended::Committed(Committed { sequence }));
        }
        let some = self.some();
        Ok(self.met_changed(some))
    }

    /// One round: looks at everything, and writes if it is still so; waits for no sync.
    fn commit_round(&mut self, core: &Core, alone: bool) -> Result<Done> {
        if let Err(changed) = self.reads.refresh_to_commit(core)? {
            self.conflict = Some(changed);
            return Ok(Done::Conflict);
        }
        if self.batch.is_empty() {
            let stands = self.reads.stands(&|_| false);
            return Ok(if stands {
                Done::OnlyRead
            } else {
                Done::Disturbed
            });
        }
        let standing = (!planted(Fault::ValidatedEarly)).then_some(&self.reads as _);
        match core.round(&mut self.batch, None, alone, standing) {
            Ok(Round::Written(appended)) => Ok(Done::Written(appended)),
            Ok(Round::Changed | Round::NotAsFound) => Ok(Done::Disturbed),
            Ok(Round::Claimed(claim)) => Ok(Done::Claimed(claim)),
            Err(e) => self.failed(core, e),
        }
    }

    /// What becomes of an error of a round. One that the data give is passed on only if nothing that was read has
    /// moved on since it was looked at before the round: what is the same again may have been another value when the
    /// error was found.
    fn failed(&mut self, core: &Core, e: Error) -> Result<Done> {
        let of_data = matches!(
            e,
            Error::Invalid { .. }
                | Error::Duplicate { .. }
                | Error::KeyTooLong { .. }
                | Error::ValueTooLong { .. }
        );
        let stood = self.reads.stands(&|_| false)
            || planted(Fault::ErrorOfBetween)
            || planted(Fault::ErrorOfNow);
        match self.unless_changed(core, e) {
            Err(_) if of_data && !stood => Ok(Done::Disturbed),
            ended => ended.map(|()| Done::Conflict),
        }
    }

    /// An error, unless what was read has changed: then it is a conflict, which is noted.
    fn unless_changed(&mut self, core: &Core, e: Error) -> Result<()> {
        if matches!(e, Error::Poisoned { .. }) || planted(Fault::ErrorOfNow) {
            return Err(e);
        }
        match self.reads.refresh(core) {
            Ok(Err(changed)) => {
                self.conflict = Some(changed);
                Ok(())
            }
            Ok(Ok(())) | Err(_) => Err(e),
        }
    }

    fn met_changed(&mut self, changed: Changed) -> Ended {
        self.conflict = Some(changed);
        Ended::Conflict
    }
}
