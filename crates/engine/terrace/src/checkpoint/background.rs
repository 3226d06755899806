//! When checkpoints are made by themselves, and what is done for the length of the file between them.

use std::time::{Duration, Instant};

use terrace_base::Result;

use super::idle::{Idle, MOVED_AT_ONCE, Task};
use crate::core::Core;
use crate::state::checkpoints::{CHECKPOINT_IS_DUE_AT, Speed, nearness};

/// How often the thread looks whether a checkpoint is due.
const ROUND: Duration = Duration::from_millis(20);
/// Pause after a checkpoint that was given up (a full disk, say), so that it does not use up the
/// device with attempts.
const RETRY: Duration = Duration::from_secs(1);

impl Core {
    /// Whether a checkpoint is due; if not, the store is told how near it is.
    fn checkpoint_is_due(&self) -> bool {
        let cut = self.checkpoints().cut();
        let grown = self.log().bytes_since(cut);
        let limit = self.options().effective_log_limit();
        let due = match self.registry().has_saved_in_pieces() {
            true => CHECKPOINT_IS_DUE_AT.of(limit),
            false => limit,
        };
        let near = nearness(grown, due);
        if near > 0.0 {
            self.store().expect_checkpoint(near);
        }
        grown > due || self.store().wants_checkpoint()
    }

    /// The thread that makes checkpoints when they are due.
    pub fn run_checkpoints(&self) {
        let mut not_before = Instant::now();
        let mut calm = Idle::default();
        while !self.checkpoints().wait(ROUND) {
            if self.store().check_poison().is_err() || Instant::now() < not_before {
                continue;
            }
            let (is_due, before) = (self.checkpoint_is_due(), self.checkpoints().cut());
            let done = if is_due {
                self.checkpoint(Speed::Gentle, false)
                    .and_then(|_| self.relocate().map_err(|e| self.failed(e)))
            } else if self.piece_is_due() {
                self.save_next_piece()
            } else {
                self.use_the_calm(&mut calm)
            };
            // Where a page is in the way of what is to be saved it frees nothing of the log. Without room it gives slots
            // back, and the next one may go on.
            let was_vain = is_due
                && self.checkpoints().cut() == before
                && !self.checkpoints().seen(|state| state.found_no_room);
            if done.is_err() || was_vain {
                not_before = Instant::now() + RETRY;
            }
        }
    }

    /// Saves a piece between two checkpoints; where that finds no space, a checkpoint gives some back.
    fn save_next_piece(&self) -> Result<()> {
        let is_closed = self.checkpoints().hold_patiently();
        let saved = match *is_closed {
            true => Ok(()),
            false => self.save_piece(),
        };
        drop(is_closed);
        match saved {
            Err(e) if e.is_no_room() => self.checkpoint(Speed::Gentle, false).map(|_| ()),
            saved => saved.map_err(|e| self.failed(e)),
        }
    }

    /// A round of what is done for the length of the file while hardly anything is written. Bounded work but for
    /// checkpoints; the caller holds nothing.
    pub fn use_the_calm(&self, calm: &mut Idle) -> Result<()> {
        // Who compacts moves pages, too, and is left alone.
        let mut moves = calm.is_moving();
        let done = self.calm_step(calm, &mut moves);
        if moves && (done.is_err() || !calm.is_moving()) {
            self.store().end_compacting();
        }
        done
    }

    /// Such a round; `moves` is set where it has moved pages.
    fn calm_step(&self, calm: &mut Idle, moves: &mut bool) -> Result<()> {
        let mut task = calm.look(&self.store().space_seen());
        if let Task::Move { from, below } = task {
            *moves = true;
            let step = {
                let _pass = self.passes().enter()?;
                self.store().compact_some_below(from, MOVED_AT_ONCE, below)
            };
            let (moved, next) = self.heard(step)?;
            task = calm.moved(moved, next);
        }
        if task == Task::Checkpoint {
            let done = self.checkpoint(Speed::Sparing, false);
            calm.checkpointed(self.store().space_seen().page_writes);
            done?;
        }
        Ok(())
    }

    /// Moves some pages away from the end of the file, so that the next checkpoint can cut it.
    fn relocate(&self) -> Result<()> {
        let _world_goes_on = self.checkpoints().hold_patiently();
        self.store().relocate_some()
    }
}
