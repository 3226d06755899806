//! The calls that write: one change, a batch, sorted records. What changes indexes too goes round by round
//! (`rows.rs`), everything else straight to its structures.

use std::sync::Arc;

use terrace_access::Window;
use terrace_base::{MAX_KEY_BYTES, Result};
use terrace_tier::{Change, Expect, Written};
use terrace_wal::Durability;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::kinds::spec::Tiers;
use crate::write::batch::{Batch, Wrote};
use crate::write::expected::{Expected, Outcome};
use crate::write::one::{AsFound, check_lengths};

impl Core {
    /// Makes one change of one structure. With `expect`, answers `false` and does nothing when the
    /// record is not as it was found.
    pub fn write_one(
        &self,
        open: &Arc<Open>,
        key: &[u8],
        change: Change<'_>,
        expect: Option<&AsFound<'_>>,
        durability: Option<Durability>,
    ) -> Result<bool> {
        let in_force = self.durability(open.spec.logged, durability)?;
        let value = match change {
            Change::Put(value) => value,
            Change::Delete => &[],
        };
        self.check_key(key)?;
        check_lengths(MAX_KEY_BYTES, &[], value)?;
        let pass = self.enter(open)?;
        if open.table.as_ref().is_some_and(|table| !table.is_plain()) {
            drop(pass);
            return self.write_row(open, key, change, expect, durability);
        }
        let mut appended = None;
        let again = || expect.map_or(Ok(None), |found| found.again(self.clock(), open, key));
        let in_time = || expect.is_none_or(|found| found.is_in_time(self.clock()));
        let expected = expect.map(|found| Expect {
            version: found.version,
            again: &again,
            holds: found.before.map(|_| &in_time as &dyn Fn() -> bool),
        });
        let written = self.write_inside(pass, open, key, change, expected, &mut appended);
        let done = match written {
            Err(e) if appended.is_some() => return Err(self.kill(e)),
            Err(e) => return Err(self.failed(e)),
            Ok(Written::Claimed(claim)) => {
                let _owed = self.turn().wait_for(&claim);
                return self.write_one(open, key, change, expect, durability);
            }
            Ok(written) => written.is_done(),
        };
        if done {
            self.make_durable(appended, in_force)?;
        }
        Ok(done)
    }

    /// Writes a batch, which is as it was afterwards.
    pub fn write_batch(&self, batch: &mut Batch, durability: Option<Durability>) -> Result<()> {
        let pass = self.passes().enter()?;
        let logged = batch.logged(self)?;
        let in_force = self.durability(logged, durability)?;
        if batch.is_empty() {
            return Ok(());
        }
        // Asked within the operation in which it is written: no thread makes an index meanwhile.
        let appended = if batch.changes_indexes() || batch.has_merges() {
            drop(pass);
            match self.write_rounds(batch, None)? {
                Outcome::Written(appended) => appended,
                Outcome::NotAsFound => None,
            }
        } else {
            let wrote = self.write_batch_inside(batch, logged, &Expected::default())?;
            drop(pass);
            match wrote {
                Wrote::Done(appended) => appended,
                Wrote::Changed | Wrote::Interrupted(_) => None,
                Wrote::Claimed(claim) => {
                    let _owed = self.turn().wait_for(&claim);
                    return self.write_batch(batch, durability);
                }
            }
        };
        self.make_durable(appended, in_force)
    }

    /// Writes a batch of puts in one structure, each key once: `run` has the same, in the order of the
    /// structure. They go straight to where records rest, unless the structure has indexes, or two tiers and
    /// for these records many pages would have to be read. With one tier nothing is done then; returns the
    /// number of first records for which it would not be many.
    pub fn write_sorted(&self, batch: &mut Batch, run: &Window) -> Result<Option<usize>> {
        let pass = self.passes().enter()?;
        let logged = batch.logged(self)?;
        let in_force = self.durability(logged, Some(Durability::Buffered))?;
        let Some(open) = batch.first_structure() else {
            return Ok(None);
        };
        // Asked within the operation in which it is written: no thread makes an index meanwhile.
        if batch.changes_indexes() {
            drop(pass);
            return self.write_batch(batch, in_force).map(|()| None);
        }
        let structure = &open.structure;
        let reached = self.heard(structure.prefault_run(run))?;
        if reached < run.len() {
            drop(pass);
            return match open.spec.tiers {
                Tiers::One => Ok(Some(reached)),
                Tiers::Two => self.write_batch(batch, in_force).map(|()| None),
            };
        }
        let dirty_each = structure.dirty_each(true);
        let expected = Expected::default();
        let written =
            self.write_prefaulted(batch, logged, dirty_each, &expected, &mut |_, door, _| {
                self.store().wait_for_saved();
                structure.apply_run_locked(door, run)
            })?;
        drop(pass);
        match (written, in_force) {
            (Wrote::Done(Some(appended)), durability) => self.commit_as(appended, durability)?,
            (Wrote::Claimed(claim), _) => {
                let _owed = self.turn().wait_for(&claim);
                return self.write_sorted(batch, run);
            }
            _ => {}
        }
        Ok(None)
    }
}
