//! What is remembered of checkpoints: which was made, who waits, how near the next one is.
//!
//! Invariants: one checkpoint runs at a time. After the last checkpoint, which says that the database was closed
//! well, none is made.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use terrace_base::sync::{Condvar, Mutex, MutexGuard};
use terrace_base::{Error, Result};
use terrace_pages::{CheckpointReport, SavingMark};
use terrace_wal::Position;

use super::pieces::{Began, Pieces, RoundDone, RoundPlace};
use crate::histogram::Histogram;

/// A checkpoint is to be done by the time that the log has grown by this many quarters of its limit: slowly,
/// so that others hardly notice, but what is replayed after a crash is never much more than the limit.
const GROWTH_OVER_4: u64 = 3;
/// Where hot tiers lie in memory alone they are gone through once, piece by piece, while the log grows by this much.
pub const ROUND_TAKES: LogPart = LogPart(10);
/// Replay begins where the oldest piece began, so that a checkpoint is due earlier: what is replayed stays within the
/// limit. Pieces that are too old by then are saved first.
pub const CHECKPOINT_IS_DUE_AT: LogPart = LogPart(13);
pub const SAVING_ENDS_AT: LogPart = LogPart(14);
pub const IS_MADE_AT: LogPart = LogPart(15);

/// So many sixteenths of the log's limit.
pub struct LogPart(u64);

impl LogPart {
    /// In bytes.
    pub fn of(&self, limit: u64) -> u64 {
        limit / 16 * self.0
    }
}

/// Room for what a checkpoint borrows begins to be made at this part of the log's limit, and is there at
/// that one: so slowly that others hardly notice, and shortly before it is needed.
const ROOM_BEGINS: f64 = 0.5;
const ROOM_IS_THERE: f64 = 0.9;

/// How fast a checkpoint is made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Speed {
    /// So that others hardly notice, until the log or the space it holds presses it, or a caller waits.
    Gentle,
    /// As gently, while hardly anything is written: see [`terrace_pages::Pace::Sparing`].
    Sparing,
    /// As fast as it can: a caller waits for it.
    Fast,
    /// The same, and what it leaves is of one instant, without any log: for who keeps it.
    Exact,
}

/// The checkpoints of a database, and those who wait for them.
pub struct Checkpoints {
    /// Held while one is made; whether there will be no more.
    running: Mutex<bool>,
    /// Those who wait for the checkpoint that is being made.
    waiting: AtomicUsize,
    /// Microseconds that each write waits behind its commit.
    slowed: AtomicU64,
    state: Mutex<State>,
    stop: Mutex<bool>,
    stopped: Condvar,
}

/// What is remembered of checkpoints.
pub struct State {
    /// Where replay begins with the last durable one: at its cut, or before it.
    pub cut: Position,
    /// The generation of the last one that this process made, and the time of its cut.
    made: Option<(u64, SystemTime)>,
    /// How often a pass has rested.
    pub rests: u64,
    /// What is saved of hot tiers that lie in memory alone.
    pub pieces: Pieces,
    /// Page writes until all hot tiers were gone through last.
    pub writes_by_pass: u64,
    /// Most records of the log that were saved at once while no call was at work.
    pub most_in_a_pause: u64,
    /// Whether the disk was found full since then: the log is to become shorter.
    pub is_short: bool,
    /// Whether there was no room for what was to be saved.
    pub found_no_room: bool,
    /// When it was begun, whatever the clock shows meanwhile.
    began: Option<Instant>,
    /// How the last one went.
    pub last: Option<CheckpointReport>,
    /// Why the last attempt failed, if it did.
    pub error: Option<Error>,
    /// Times that were given up.
    pub failures: u64,
    /// How long each took until no thread was inside the gate, in nanoseconds.
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
            slowed: AtomicU64::new(0),
            state: Mutex::new(State {
                cut,
                pieces: Pieces::one(Began {
                    at: cut,
                    mark: SavingMark::default(),
                }),
                rests: 0,
                most_in_a_pause: 0,
                writes_by_pass: 0,
                is_short: false,
                found_no_room: false,
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

    /// Looks at what is remembered.
    pub fn seen<T>(&self, see: impl FnOnce(&State) -> T) -> T {
        see(&self.state.lock())
    }

    /// Where replay begins with the last durable one.
    pub fn cut(&self) -> Position {
        self.state.lock().cut
    }

    /// The time of the cut of the one with this generation, if it is the last one that this process made; otherwise now.
    pub fn time_of(&self, generation: u64) -> SystemTime {
        let made = self.state.lock().made;
        let of_it = made.filter(|(last, _)| *last == generation);
        of_it.map_or_else(SystemTime::now, |(_, time)| time)
    }

    /// Whether the last one began so long ago at most.
    pub fn is_within(&self, age: Duration) -> bool {
        let began = self.state.lock().began;
        began.is_some_and(|began| began.elapsed() <= age)
    }

    /// The disk was found full: the log is to become shorter.
    pub fn shorten(&self) {
        self.state.lock().is_short = true;
    }

    /// Whether there was no room for what was to be saved: something saved is to be given up first.
    pub fn found_no_room(&self, found: bool) {
        self.state.lock().found_no_room = found;
    }

    /// Each write waits for so long behind its commit, from now on.
    pub fn slow_writers(&self, by: Duration) {
        self.slowed.store(by.as_micros() as u64, Ordering::Relaxed);
    }

    /// Waits, if writers are to be slower. The caller holds nothing.
    #[inline]
    pub fn slow_down(&self) {
        let by = self.slowed.load(Ordering::Relaxed);
        if by > 0 {
            std::thread::sleep(Duration::from_micros(by));
        }
    }

    /// A pass rests.
    pub fn rested(&self) {
        self.state.lock().rests += 1;
    }

    /// So many records of the log were saved while no call was at work.
    pub fn saved_in_a_pause(&self, records: u64) {
        let mut state = self.state.lock();
        state.most_in_a_pause = state.most_in_a_pause.max(records);
    }

    /// A piece that began then is saved up to this place, in so many slots at most; what the round was if it has ended.
    pub fn saved_up_to(&self, end: RoundPlace, began: Began, slots: u64) -> Option<RoundDone> {
        self.state.lock().pieces.note(end, began, slots)
    }

    /// Nothing was to be saved: replay begins there.
    pub fn begin_anew(&self, began: Began) {
        self.state.lock().pieces = Pieces::one(began);
    }

    /// All hot tiers were gone through in one piece that began then, after so many page writes.
    pub fn saved(&self, began: Began, writes: u64) {
        let mut state = self.state.lock();
        state.pieces = Pieces::one(began);
        state.is_short = false;
        state.writes_by_pass = writes;
    }

    /// One that began then is durable: replay begins at `cut`, and it is of this `time`.
    pub fn made(&self, began: Instant, cut: Position, time: SystemTime, report: &CheckpointReport) {
        let mut state = self.state.lock();
        state.cut = cut;
        state.made = Some((report.generation, time));
        state.began = Some(began);
        state.last = Some(*report);
        state.error = None;
        state.drained.record(report.drained);
        state.closed.record(report.closed);
        state.total.record(report.total);
    }

    /// One was given up.
    pub fn failed(&self, error: &Error) {
        let mut state = self.state.lock();
        state.error = Some(error.clone());
        state.failures += 1;
    }

    /// No checkpoint runs while the answer is held; one that is being made takes its time.
    pub fn hold_patiently(&self) -> MutexGuard<'_, bool> {
        self.running.lock()
    }

    /// No checkpoint runs while the answer is held. One that is being made hurries up.
    pub fn hold(&self) -> MutexGuard<'_, bool> {
        self.waiting.fetch_add(1, Ordering::Relaxed);
        let held = self.running.lock();
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        held
    }

    /// The same for a caller that needs the database to stay open, and holds no operation for that.
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

    /// How much the checkpoint that is being made is pressed, by a caller that waits for it or by a log that
    /// has grown by `grown` since its cut; see [`terrace_pages::Pace::Gentle`].
    pub fn pressure(&self, grown: u64, limit: u64) -> f64 {
        if self.waiting.load(Ordering::Relaxed) > 0 || *self.stop.lock() {
            return 1.0;
        }
        grown as f64 / (limit / 4 * GROWTH_OVER_4).max(1) as f64
    }

    /// The same for what has begun when the log was `before` long from where replay begins, is `now` long, and is to be
    /// done at `end`, or soon where it began later than that.
    pub fn pressure_within(&self, now: u64, before: u64, end: u64) -> f64 {
        if self.waiting.load(Ordering::Relaxed) > 0 || *self.stop.lock() {
            return 1.0;
        }
        let soon = before + end / 16;
        now.saturating_sub(before) as f64 / (end.max(soon) - before).max(1) as f64
    }

    /// Tells the thread to end.
    pub fn stop(&self) {
        *self.stop.lock() = true;
        self.stopped.notify_all();
    }

    /// Waits; returns whether to end.
    pub fn wait(&self, timeout: Duration) -> bool {
        let mut stop = self.stop.lock();
        if !*stop {
            self.stopped.wait_for(&mut stop, timeout);
        }
        *stop
    }
}

/// How near a checkpoint is when the log has grown by `grown` of its `limit`; see [`ROOM_BEGINS`].
pub fn nearness(grown: u64, limit: u64) -> f64 {
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
