//! What is remembered of checkpoints: which was made, who waits, how near the next one is.
//!
//! Invariants: one checkpoint runs at a time. After the last checkpoint, which says that the database was closed
//! well, none is made.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_base::{Error, Result};
use terrace_pages::CheckpointReport;
use terrace_wal::Position;

use crate::histogram::Histogram;

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
    /// As gently, while hardly anything is written: see [`terrace_pages::Pace::Sparing`].
    Sparing,
    /// As fast as it can: somebody waits for it.
    Fast,
}

/// See the module's text.
pub struct Checkpoints {
    /// Held while one is made; whether there will be no more.
    pub(super) running: Mutex<bool>,
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
    /// When it was begun, whatever the clock shows meanwhile.
    pub began: Option<Instant>,
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
                began: None,
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
    /// has grown by so much since its cut; see [`terrace_pages::Pace::Gentle`].
    pub(super) fn pressure(&self, grown: u64, limit: u64) -> f64 {
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
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopped.wait_for(&mut stop, timeout);
        }
        *stop
    }
}

/// How near a checkpoint is when the log has grown by so much of its limit; see [`ROOM_BEGINS`].
pub(super) fn nearness(grown: u64, limit: u64) -> f64 {
    let part = grown as f64 / limit.max(1) as f64;
    ((part - ROOM_BEGINS) / (ROOM_IS_THERE - ROOM_BEGINS)).clamp(0.0, 1.0)
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
