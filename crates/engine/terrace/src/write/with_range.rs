//! Writing a batch with a range, while no other thread is at work.

use terrace_base::{Result, StructureId};

use crate::core::Core;
use crate::write::batch::{Batch, Wrote};
use crate::write::expected::{Expected, Round};

impl Core {
    /// Writes a batch with a range, if what it rests on still stands. The caller holds no operation.
    pub fn write_with_range(&self, batch: &mut Batch, expected: &Expected<'_>) -> Result<Round> {
        let Some(open) = batch.range().map(|(open, _)| open.clone()) else {
            return Ok(Round::Changed);
        };
        let _naming = self.definitions().hold_names();
        {
            let _pass = self.enter(&open)?;
            self.budget().check_structures(self.registry())?;
            batch.logged(self)?;
            // Most of the waiting is done while others go on.
            if let Some((open, (low, high))) = batch.range() {
                self.heard(open.structure.prefault_cut(low, high))?;
            }
            for (open, key, change) in batch.changes() {
                self.heard(open.structure.prefault(key, change))?;
            }
        }
        drop(self.tiers().hold_background());
        let part = StructureId(self.registry().next_id());
        let wrote = {
            let _nobody_calls = self.passes().pause()?;
            let _still = self.tiers().hold_background();
            if !expected.admitted() {
                return Ok(Round::Changed);
            }
            let logged = batch.logged(self)?;
            let mut tries = 0u32;
            loop {
                match self.write_batch_inside(batch, logged, expected)? {
                    Wrote::Interrupted(interrupt) => {
                        self.heard(self.store().settle_many(interrupt, &mut tries))?;
                    }
                    wrote => break wrote,
                }
            }
        };
        Ok(match wrote {
            Wrote::Done(appended) => {
                if self.registry().numbered(part).is_some() {
                    self.take_part_apart(part);
                    // As where a range goes by itself.
                    let _ = self.store().make_room_for_extra();
                }
                Round::Written(appended)
            }
            Wrote::Claimed(claim) => Round::Claimed(claim),
            Wrote::Changed | Wrote::Interrupted(_) => Round::Changed,
        })
    }
}
