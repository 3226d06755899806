//! Making a checkpoint of store and log together.
//!
//! Invariants: segments of the log are given up only after the superblock whose cut lies behind
//! them is durable. No thread that waits for a checkpoint holds an operation, so that closing a
//! table and verifications do not wait for it; so what ends the database must end them.

use std::cell::Cell;
use std::time::{Instant, SystemTime};

use terrace_base::sync::MutexGuard;
use terrace_base::{Error, Result};
use terrace_pages::{CheckpointMeta, CheckpointReport, LEARNT_BYTES, Pace, SpaceSeen};
use terrace_wal::Position;

use crate::clock::TIME_AT;
use crate::core::Core;
use crate::planted::{Fault, planted};
use crate::state::checkpoints::{IS_MADE_AT, SAVING_ENDS_AT, Speed};
use crate::state::pieces::Began;

/// Checkpoints at most that give slots to one that saves all: each gives back what was saved before it, and an eighth of
/// what there may be to save finds slots at once.
const STEPS: u32 = 12;

/// Checkpoints that are made until one is of one instant. The second is, unless the last hot tier in memory alone was
/// dropped and another one made meanwhile.
const EXACT_TRIES: u32 = 4;

/// A checkpoint that was made.
struct Made {
    report: CheckpointReport,
    began: Instant,
    /// Where replay begins with it.
    from: Position,
    /// The time of its cut.
    time: SystemTime,
    /// Whether all was saved that should be.
    saved_all: bool,
}

/// A pass that the last image alone came to hold this part of the live pages more under, and some, does not rest.
const HELD_PART: u64 = 16;
const HELD_SLOTS: u64 = 128;

/// How much the space presses that the last image alone came to hold in between.
fn held_since(before: &SpaceSeen, now: &SpaceSeen) -> f64 {
    let held = now.image_only.saturating_sub(before.image_only);
    held as f64 / (now.live / HELD_PART + HELD_SLOTS) as f64
}

impl Core {
    /// Makes a checkpoint, the last one if it is `clean`. The caller holds nothing, and no operation: whoever
    /// waits for operations would wait for the checkpoint.
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
        self.checkpoint_held(speed, clean, hurry)
            .map(|(report, _)| report)
    }

    /// The same; no other one is made while the second part of the answer is held.
    fn checkpoint_held(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
    ) -> Result<(CheckpointReport, MutexGuard<'_, bool>)> {
        let mut running = self.checkpoints().hold_open()?;
        *running = clean;
        let result = self.checkpoint_in_steps(speed, clean, hurry);
        // A caller waits for it, perhaps for the space.
        let deleted = match speed {
            Speed::Fast | Speed::Exact => self.log().delete_outdated(),
            Speed::Gentle | Speed::Sparing => Ok(()),
        };
        match result {
            Ok(made) => {
                self.note_made(&made);
                // It is made and durable, whatever became of the old log.
                deleted.map(|()| (made.report, running))
            }
            Err(e) => {
                self.checkpoints().failed(&e);
                Err(self.failed(e))
            }
        }
    }

    /// One that saves all and finds no space for it gets some by others that save nothing more: what is saved by then
    /// stays saved.
    fn checkpoint_in_steps(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
    ) -> Result<Made> {
        let must_save = clean || speed == Speed::Exact;
        let mut result = self.checkpoint_alone(speed, clean, hurry, true);
        for _ in 0..STEPS {
            match &result {
                Ok(made) if made.saved_all || speed != Speed::Fast => break,
                Ok(made) => self.note_made(made),
                Err(e) if must_save && e.is_no_room() && self.has_hot_in_memory() => {
                    match self.checkpoint_alone(Speed::Fast, false, hurry, false) {
                        Ok(made) => self.note_made(&made),
                        Err(_) => break,
                    }
                }
                Err(_) => break,
            }
            // It is durable all the same, and the next one tries again.
            let _ = self.log().delete_outdated();
            result = self.checkpoint_alone(speed, clean, hurry, true);
        }
        result
    }

    fn note_made(&self, made: &Made) {
        self.checkpoints()
            .made(made.began, made.from, made.time, &made.report);
    }

    /// Makes one; hot tiers that lie in memory alone are not saved before unless `may_save`.
    fn checkpoint_alone(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
        may_save: bool,
    ) -> Result<Made> {
        let began = Instant::now();
        if let Some(e) = self.log().poisoned() {
            // What the log lost must not become durable by another way.
            return Err(e);
        }
        let limit = self.options().effective_log_limit();
        let before = self.checkpoints().cut();
        // Where hot tiers lie in memory alone replay begins where the oldest piece began: all of it together stays within
        // the limit. Otherwise it begins at the cut.
        let replayed = || self.log().bytes_since(before);
        let before_pass = replayed();
        let space = Cell::new(self.store().space_seen());
        let pressure = || match hurry() || self.store().is_checkpoint_asked_for() {
            true => 1.0,
            false => {
                let by_log = self.checkpoints().pressure_within(
                    replayed(),
                    before_pass,
                    SAVING_ENDS_AT.of(limit),
                );
                by_log.max(held_since(&space.get(), &self.store().space_seen()))
            }
        };
        let saved = match may_save {
            true => self.save(speed, clean, &pressure)?,
            false => self.save_nothing_more()?,
        };
        let (in_pieces, mark, saved_all) = (saved.in_pieces, saved.mark, saved.all);
        let (pause, mut meanwhile) = (Cell::new(saved.nobody_calls), saved.meanwhile);
        let (from, cut) = (Cell::new(before), Cell::new(None));
        let time = Cell::new(SystemTime::UNIX_EPOCH);
        let mut at_cut = || {
            let position = self.log().position();
            cut.set(Some(position));
            from.set(match saved.from {
                // The first structure that is saved in pieces was made meanwhile: all of it lies behind.
                _ if !in_pieces && self.registry().has_saved_in_pieces() => before,
                Some(from) if from.sequence != position.sequence => from,
                _ => position,
            });
            let began = meanwhile.as_ref().and_then(|meanwhile| meanwhile.began);
            let began = began.filter(|_| self.registry().has_unlogged_in_memory());
            let unlogged_from = began.map_or(position, |began| began.at);
            if unlogged_from.sequence < from.get().sequence {
                from.set(unlogged_from);
            }
            time.set(crate::planted::now());
            let info = CheckpointMeta {
                log_position: from.get().encode(),
                learnt: self.learnt(),
                next_structure: self.next_structure(),
                next_sequence: position.sequence,
                unlogged_from: unlogged_from.sequence,
                catalog_root: self.registry().catalog().root(),
                clean,
            };
            if let Some(meanwhile) = &mut meanwhile {
                meanwhile.is_cut();
            }
            // Who called when it was cut goes on.
            drop(pause.take());
            info
        };
        let made = || {
            cut.get()
                .map(|_| from.get())
                .ok_or_else(|| Error::invalid("a checkpoint was made without a cut"))
        };
        let grown = || cut.get().map_or(0, |cut| self.log().bytes_since(cut));
        let before_cut = replayed();
        let pressure = || match hurry() {
            true => 1.0,
            false if in_pieces => {
                self.checkpoints()
                    .pressure_within(replayed(), before_cut, IS_MADE_AT.of(limit))
            }
            false => self.checkpoints().pressure(grown(), limit),
        };
        let pace = match speed {
            Speed::Gentle => Pace::Gentle(&pressure),
            Speed::Sparing => Pace::Sparing(&pressure),
            Speed::Fast | Speed::Exact => Pace::Fast,
        };
        // Who reads the log finds in it all that is durable by this checkpoint.
        let mut durable_soon = || {
            let is_kept = self.log().is_kept() && !planted(Fault::CheckpointAheadOfFeed);
            // What is replayed over it has all that it has.
            let rests = cut
                .get()
                .is_some_and(|cut| cut.sequence != from.get().sequence)
                && !planted(Fault::SuperblockBeforeSync);
            match is_kept || rests {
                true => self.log().sync(),
                false => Ok(()),
            }
        };
        // The log notes the generation before slots of the older image are used again, so that it
        // never goes unnoticed when that image is opened after all.
        let report = self.store().checkpoint_then(
            pace,
            &mut at_cut,
            &mut durable_soon,
            &mut |generation| self.log().checkpointed(made()?, generation),
        )?;
        let from = made()?;
        self.store().replays_from(mark);
        if !in_pieces {
            self.checkpoints().begin_anew(Began { at: from, mark });
        }
        Ok(Made {
            report,
            began,
            from,
            time: time.get(),
            saved_all,
        })
    }

    /// What is to be known again after the next opening: what was learnt, and what time it is.
    fn learnt(&self) -> [u8; LEARNT_BYTES] {
        let mut learnt = self.registry().learnt();
        learnt[TIME_AT].copy_from_slice(&self.clock().now().to_le_bytes());
        learnt
    }

    fn next_structure(&self) -> u32 {
        if planted(Fault::ForgottenNumber) {
            1
        } else {
            self.registry().next_id()
        }
    }

    /// Makes a checkpoint that is of one instant, without any log, and keeps others from being made while the answer is
    /// held.
    pub fn exact_checkpoint(&self, young: bool) -> Result<MutexGuard<'_, bool>> {
        if young {
            // One that has begun meanwhile writes slowly, unless a caller waits for it: pins do.
            let no_checkpoint = self.checkpoints().hold_open()?;
            if self.is_exact() {
                return Ok(no_checkpoint);
            }
        }
        for _ in 0..EXACT_TRIES {
            // Held from its cut on, so that none comes between.
            let (_, no_checkpoint) = self.checkpoint_held(Speed::Exact, false, &|| false)?;
            if self.is_exact() {
                return Ok(no_checkpoint);
            }
            // The first structure whose hot tier lies in memory alone was made beside it.
        }
        Err(Error::invalid(
            "a checkpoint that was to be of one instant rests on the log",
        ))
    }

    /// Whether the last checkpoint is of one instant, without any log.
    fn is_exact(&self) -> bool {
        let superblock = self.store().superblock();
        let from = Position::decode(&superblock.log_position);
        from.is_some_and(|from| from.sequence == superblock.next_sequence)
    }

    /// [`Core::checkpoint`] for a call of the program.
    pub fn asked_checkpoint(&self) -> Result<CheckpointReport> {
        // It is open, and does not have to stay so.
        drop(self.passes().enter()?);
        self.checkpoint(Speed::Fast, false)
    }

    /// The same, and where no thread does it the hot tiers give back what they can do without before.
    pub fn purging_checkpoint(&self) -> Result<CheckpointReport> {
        if self.options().foreground {
            self.heard(self.load_all_saved())?;
            // There is no thread that would do it. What does not work now is left to the next time. A round
            // ends; the bound is for those who delete meanwhile.
            let purge = |waited| {
                let _pass = self.passes().enter()?;
                self.tiers().purge(waited)
            };
            let mut more = purge(true);
            for _ in 0..self.store().live_pages() {
                if !matches!(more, Ok(true)) {
                    break;
                }
                more = purge(false);
            }
        }
        self.asked_checkpoint()
    }

    /// The same, as gently as those that are made by themselves, until `hurry` says otherwise.
    pub fn gentle_checkpoint(&self, hurry: &dyn Fn() -> bool) -> Result<CheckpointReport> {
        drop(self.passes().enter()?);
        self.checkpoint_until(Speed::Gentle, false, hurry)
    }
}
