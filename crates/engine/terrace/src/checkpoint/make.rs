//! Making a checkpoint of store and log together.
//!
//! Invariants: segments of the log are given up only after the superblock whose cut lies behind
//! them is durable. Nobody has a pass who waits for one, so that closing a
//! table and verifications do not wait for it; so what ends the database must end them.

use std::time::{Instant, SystemTime};

use terrace_base::{Error, Result};
use terrace_pages::{CheckpointReport, CutInfo, LEARNT_BYTES, Pace};
use terrace_wal::Position;

use super::state::Speed;
use crate::clock::TIME_AT;
use crate::core::Core;
use crate::planted::{Fault, planted};

impl Core {
    /// Makes a checkpoint, the last one if it is `clean`. The caller holds nothing, and no pass: whoever
    /// waits for passes would wait for the checkpoint.
    pub fn checkpoint(&self, speed: Speed, clean: bool) -> Result<CheckpointReport> {
        self.checkpoint_until(speed, clean, &|| false)
    }

    /// The same; a gentle one hurries up once `hurry` says so.
    pub fn checkpoint_until(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
    ) -> Result<CheckpointReport> {
        let mut running = self.checkpoints.hold_open()?;
        *running = clean;
        let began = Instant::now();
        let result = self.checkpoint_alone(speed, clean, hurry);
        // Somebody waits for it, perhaps for the space.
        let deleted = match speed {
            Speed::Fast => self.log.delete_outdated(),
            Speed::Gentle | Speed::Sparing => Ok(()),
        };
        let mut state = self.checkpoints.state();
        match result {
            Ok((report, cut, time)) => {
                state.cut = cut;
                state.made = Some((report.generation, time));
                state.began = Some(began);
                state.last = Some(report);
                state.error = None;
                state.drained.record(report.drained);
                state.closed.record(report.closed);
                state.total.record(report.total);
                // It is made and durable, whatever became of the old log.
                deleted.map(|()| report)
            }
            Err(e) => {
                state.error = Some(e.clone());
                state.failures += 1;
                drop(state);
                Err(self.failed(e))
            }
        }
    }

    fn checkpoint_alone(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
    ) -> Result<(CheckpointReport, Position, SystemTime)> {
        if let Some(e) = self.log.poisoned() {
            // What the log lost must not become durable by another way.
            return Err(e);
        }
        let cut = std::cell::Cell::new(None);
        let time = std::cell::Cell::new(SystemTime::UNIX_EPOCH);
        let mut at_cut = || {
            let position = self.log.position();
            cut.set(Some(position));
            time.set(crate::planted::now());
            CutInfo {
                log_position: position.encode(),
                learnt: self.learnt(),
                next_structure: self.next_structure(),
                next_sequence: position.sequence,
                catalog_root: self.registry.catalog().root(),
                clean,
            }
        };
        let made = || {
            cut.get()
                .ok_or_else(|| Error::invalid("a checkpoint was made without a cut"))
        };
        let limit = self.options.effective_log_limit();
        let grown = || cut.get().map_or(0, |cut| self.log.bytes_since(cut));
        let pressure = || match hurry() {
            true => 1.0,
            false => self.checkpoints.pressure(grown(), limit),
        };
        let pace = match speed {
            Speed::Gentle => Pace::Gentle(&pressure),
            Speed::Sparing => Pace::Sparing(&pressure),
            Speed::Fast => Pace::Fast,
        };
        // Who reads the log finds in it all that is durable by this checkpoint.
        let mut durable_soon = || match self.log.is_kept() && !planted(Fault::CheckpointAheadOfFeed)
        {
            true => self.log.sync(),
            false => Ok(()),
        };
        // The log notes the generation before slots of the older image are used again, so that it
        // never goes unnoticed when that image is opened after all.
        let report = self.store.checkpoint_then(
            pace,
            &mut at_cut,
            &mut durable_soon,
            &mut |generation| self.log.checkpointed(made()?, generation),
        )?;
        Ok((report, made()?, time.get()))
    }

    /// What is to be known again after the next opening: what was learnt, and what time it is.
    fn learnt(&self) -> [u8; LEARNT_BYTES] {
        let mut learnt = self.registry.learnt();
        learnt[TIME_AT].copy_from_slice(&self.clock.now().to_le_bytes());
        learnt
    }

    fn next_structure(&self) -> u32 {
        if planted(Fault::ForgottenNumber) {
            1
        } else {
            self.registry.next_id()
        }
    }

    /// [`Core::checkpoint`] for a call of the program.
    pub fn asked_checkpoint(&self) -> Result<CheckpointReport> {
        // It is open, and does not have to stay so.
        drop(self.passes.enter()?);
        self.checkpoint(Speed::Fast, false)
    }

    /// The same, as gently as those that are made by themselves, until `hurry` says otherwise.
    pub fn gentle_checkpoint(&self, hurry: &dyn Fn() -> bool) -> Result<CheckpointReport> {
        drop(self.passes.enter()?);
        self.checkpoint_until(Speed::Gentle, false, hurry)
    }
}
