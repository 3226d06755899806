//! When checkpoints are made, and what is remembered of them.
//!
//! Invariants: segments of the log are given up only after the superblock whose cut lies behind
//! them is durable. One checkpoint runs at a time. Nobody has a pass who waits for one, so that closing a
//! table and verifications do not wait for it; so what ends the database must end them: after the last
//! checkpoint, which says that it was closed well, none is made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_base::{Error, Result};
use terrace_pages::{CheckpointReport, CutInfo, Pace};
use terrace_wal::Position;

use crate::calm::{Calm, MOVED_AT_ONCE, Task};
use crate::core::Core;
use crate::fault::{Fault, planted};
use crate::histogram::Histogram;

/// How often the thread looks whether a checkpoint is due.
const ROUND: Duration = Duration::from_millis(20);
/// Pause after a checkpoint that was given up (a full disk, say), so that it does not use up the
/// device with attempts.
const RETRY: Duration = Duration::from_secs(1);

/// A checkpoint is to be done by the time that the log has grown by so much of its limit, over four: slowly,
/// so that others hardly notice, but what is replayed after a crash is never much more than the limit.
const GROWTH_OVER_4: u64 = 3;
/// Room for what a checkpoint borrows begins to be made at this part of the log's limit, and is there at
/// that one: so slowly that others hardly notice, and shortly before it is needed.
const ROOM_BEGINS: f64 = 0.5;
const ROOM_IS_THERE: f64 = 0.9;

/// How fast a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// So that others hardly notice, until the log or the space it holds presses it, or somebody waits.
    Gentle,
    /// As fast as it can: somebody waits for it.
    Fast,
}

/// See the module's text.
pub struct Checkpoints {
    /// Held while one is made; whether there will be no more.
    running: Mutex<bool>,
    /// Those who wait for the checkpoint that is being made.
    waiting: AtomicUsize,
    state: Mutex<State>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// What is remembered of checkpoints.
pub struct State {
    /// The cut of the last durable one.
    pub cut: Position,
    /// The generation of the last one that this process made, and the time of its cut.
    pub made: Option<(u64, SystemTime)>,
    /// How the last one went.
    pub last: Option<CheckpointReport>,
    /// Why the last attempt failed, if it did.
    pub error: Option<Error>,
    /// Times that were given up.
    pub failures: u64,
    /// How long each took until nobody was inside the gate, in nanoseconds.
    pub drained: Histogram,
    /// How long the gate was closed each time.
    pub closed: Histogram,
    /// How long each took as a whole.
    pub total: Histogram,
}

impl Checkpoints {
    /// `cut` is that of the superblock that was opened.
    pub fn new(cut: Position) -> Checkpoints {
        Checkpoints {
            running: Mutex::new(false),
            waiting: AtomicUsize::new(0),
            state: Mutex::new(State {
                cut,
                made: None,
                last: None,
                error: None,
                failures: 0,
                drained: Histogram::default(),
                closed: Histogram::default(),
                total: Histogram::default(),
            }),
            stop: Mutex::new(false),
            stopped: Condvar::new(),
        }
    }

    /// What is remembered.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// No checkpoint runs while the answer is held. One that is being made hurries up.
    pub fn hold(&self) -> MutexGuard<'_, bool> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let held = self.running.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        held
    }

    /// The same for who needs the database to stay open, which he has no pass for.
    ///
    /// # Errors
    /// When it is closed.
    pub fn hold_open(&self) -> Result<MutexGuard<'_, bool>> {
        let held = self.hold();
        match *held {
            false => Ok(held),
            true => Err(Error::invalid(
                "the database has been closed by this program; open it again",
            )),
        }
    }

    /// No checkpoint is made any more. Waits for the one that is being made.
    pub fn end(&self) {
        *self.hold() = true;
    }

    /// Waits for the checkpoint that is being made, if there is one, which hurries up.
    pub fn wait_for_running(&self) {
        drop(self.hold());
    }

    /// How much the checkpoint that is being made is pressed, by somebody who waits for it or by a log that
    /// has grown by so much since its cut; see [`Pace::Gentle`].
    fn pressure(&self, grown: u64, limit: u64) -> f64 {
        if self.waiting.load(Ordering::Relaxed) > 0 || *self.stop.lock() {
            return 1.0;
        }
        grown as f64 / (limit / 4 * GROWTH_OVER_4).max(1) as f64
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.stopped.notify_all();
    }

    /// Waits; returns whether to end.
    fn wait(&self, timeout: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopped.wait_for(&mut stop, timeout);
        }
        *stop
    }
}

/// How near a checkpoint is when the log has grown by so much of its limit; see [`ROOM_BEGINS`].
fn nearness(grown: u64, limit: u64) -> f64 {
    let part = grown as f64 / limit.max(1) as f64;
    ((part - ROOM_BEGINS) / (ROOM_IS_THERE - ROOM_BEGINS)).clamp(0.0, 1.0)
}

impl Core {
    /// Makes a checkpoint, the last one if it is `clean`. The caller holds nothing, and no pass: whoever
    /// waits for passes would wait for the checkpoint.
    pub fn checkpoint(&self, speed: Speed, clean: bool) -> Result<CheckpointReport> {
        self.checkpoint_until(speed, clean, &|| false)
    }

    /// The same; a gentle one hurries up once `hurry` says so.
    fn checkpoint_until(
        &self,
        speed: Speed,
        clean: bool,
        hurry: &dyn Fn() -> bool,
    ) -> Result<CheckpointReport> {
        let mut running = self.checkpoints.hold_open()?;
        *running = clean;
        let result = self.checkpoint_alone(speed, clean, hurry);
        // Somebody waits for it, perhaps for the space.
        let deleted = match speed {
            Speed::Fast => self.log.delete_outdated(),
            Speed::Gentle => Ok(()),
        };
        let mut state = self.checkpoints.state.lock();
        match result {
            Ok((report, cut, time)) => {
                state.cut = cut;
                state.made = Some((report.generation, time));
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
            time.set(SystemTime::now());
            CutInfo {
                log_position: position.encode(),
                learnt: self.registry.learnt(),
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
            Speed::Fast => Pace::Fast,
        };
        // The log notes the generation before slots of the older image are used again, so that it
        // never goes unnoticed when that image is opened after all.
        let report = self
            .store
            .checkpoint_then(pace, &mut at_cut, &mut |generation| {
                self.log.checkpointed(made()?, generation)
            })?;
        Ok((report, made()?, time.get()))
    }

    fn next_structure(&self) -> u32 {
        if planted(Fault::ForgottenNumber) {
            1
        } else {
            self.registry.next_id()
        }
    }

    /// Whether a checkpoint is due; if not, the store is told how near it is.
    fn checkpoint_is_due(&self) -> bool {
        let cut = self.checkpoints.state.lock().cut;
        let grown = self.log.bytes_since(cut);
        let limit = self.options.effective_log_limit();
        let near = nearness(grown, limit);
        if near > 0.0 {
            self.store.expect_checkpoint(near);
        }
        grown > limit || self.store.wants_checkpoint()
    }

    /// The thread that makes checkpoints when they are due.
    pub fn run_checkpoints(&self) {
        let mut not_before = Instant::now();
        let mut calm = Calm::default();
        while !self.checkpoints.wait(ROUND) {
            if self.store.check_poison().is_err() || Instant::now() < not_before {
                continue;
            }
            let done = match self.checkpoint_is_due() {
                true => self
                    .checkpoint(Speed::Gentle, false)
                    .and_then(|_| self.relocate().map_err(|e| self.failed(e))),
                false => self.use_the_calm(&mut calm),
            };
            if done.is_err() {
                not_before = Instant::now() + RETRY;
            }
        }
    }

    /// A round of what is done for the length of the file while hardly anything is written. Bounded work but for
    /// checkpoints; the caller holds nothing.
    pub fn use_the_calm(&self, calm: &mut Calm) -> Result<()> {
        // Who compacts moves pages, too, and is left alone.
        let mut moves = calm.is_moving();
        let done = self.calm_step(calm, &mut moves);
        if moves && (done.is_err() || !calm.is_moving()) {
            self.store.end_compacting();
        }
        done
    }

    /// Such a round; `moves` is set where it has moved pages.
    fn calm_step(&self, calm: &mut Calm, moves: &mut bool) -> Result<()> {
        let mut task = calm.look(&self.store.space_seen());
        if let Task::Move { from, below } = task {
            *moves = true;
            let step = {
                let _pass = self.passes.enter()?;
                self.store.compact_some_below(from, MOVED_AT_ONCE, below)
            };
            let (moved, next) = step.map_err(|e| self.failed(e))?;
            task = calm.moved(moved, next);
        }
        if task == Task::Checkpoint {
            let done = self.checkpoint(Speed::Gentle, false);
            calm.checkpointed(self.store.space_seen().page_writes);
            done?;
        }
        Ok(())
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

    /// Moves some pages away from the end of the file, so that the next checkpoint can cut it.
    fn relocate(&self) -> Result<()> {
        let _world_goes_on = self.checkpoints.running.lock();
        self.store.relocate_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoints() -> Checkpoints {
        Checkpoints::new(Position {
            segment: 1,
            offset: 0,
            sequence: 1,
        })
    }

    #[test]
    fn a_growing_log_presses_a_checkpoint() {
        let checkpoints = checkpoints();
        let pressure = |grown| checkpoints.pressure(grown, 1000);
        assert_eq!([0, 375, 750].map(pressure), [0.0, 0.5, 1.0]);
        assert!(checkpoints.pressure(u64::MAX, 0) > 1.0);
    }

    #[test]
    fn a_checkpoint_comes_nearer_as_the_log_grows() {
        let near = |grown| (nearness(grown, 1000) * 100.0).round();
        assert_eq!(
            [0, 500, 700, 900, 2000].map(near),
            [0.0, 0.0, 50.0, 100.0, 100.0]
        );
        assert_eq!(nearness(5, 0), 1.0);
    }

    #[test]
    fn who_waits_for_a_checkpoint_presses_it() {
        let checkpoints = checkpoints();
        let running = checkpoints.hold();
        assert_eq!(checkpoints.pressure(0, 1000), 0.0);
        std::thread::scope(|scope| {
            scope.spawn(|| drop(checkpoints.hold()));
            while checkpoints.pressure(0, 1000) != 1.0 {
                std::thread::yield_now();
            }
            drop(running);
        });
        assert_eq!(checkpoints.pressure(0, 1000), 0.0);
        checkpoints.stop();
        assert_eq!(checkpoints.pressure(0, 1000), 1.0);
    }
}
