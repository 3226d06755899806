//! The gate: everything that changes pages is inside while it does, and a checkpoint closes it for
//! the instant of its cut.
//!
//! Invariants: while the gate is closed and drained no thread is inside, so the epoch can be raised and
//! the log position noted. Counting in and out is one cache line per thread, not a shared counter.
//! No thread inside waits for a disk, a sync, space or user code, so draining is short.
//!
//! Who is inside is counted by phase. [`Gate::grace`] begins another phase and waits for those of
//! the one before, so newcomers do not keep it waiting; no pass of the phase before is in use when
//! the next one begins.

use std::cell::Cell;
// Of all gates together, and of no schedule that is tried out.
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU64, AtomicUsize};

use terrace_base::sync::atomic::{AtomicU32, Ordering};
use terrace_base::sync::{Mutex, yield_now};

use crate::faults::{Planted, Point, planted, reached};

/// Counters over which threads spread: more than the threads that usually write at once.
const LANES: usize = 64;

/// Passes that are in use, by whether the phase in which they were given out is odd.
#[derive(Default)]
#[repr(align(64))]
struct Lane([AtomicU32; 2]);

/// The bit of the gate's word that says that it is closed; the phase counts in the others. In one word, so
/// that who goes in looks at both at once.
const CLOSED: u32 = 1;
const PHASE: u32 = 2;

impl Lane {
    /// The counter of the phase that this word of the gate has.
    #[inline]
    fn of(&self, word: u32) -> &AtomicU32 {
        &self.0[usize::from(word & PHASE != 0)]
    }

    /// Who is inside, of both phases.
    fn sum(&self) -> u32 {
        self.0[0].load(Ordering::SeqCst) + self.0[1].load(Ordering::SeqCst)
    }
}

/// The gate: counts who is inside, and can be closed for an instant.
pub struct Gate {
    lanes: Box<[Lane; LANES]>,
    /// Whether it is closed, and the phase.
    word: AtomicU32,
    /// Held by whoever closed the gate; waiters for its opening queue up here.
    closer: Mutex<()>,
    epoch: AtomicU32,
    /// Held while those of an earlier phase are waited for: there are counters for two only.
    grace: Mutex<()>,
}

thread_local! {
    static SEAT: Seat = const { Seat(Cell::new(usize::MAX)) };
}

/// How many threads got a lane, and how many of them are still running.
static SEATS: AtomicUsize = AtomicUsize::new(0);
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The lane of a thread, from the first time that it goes in until it ends.
struct Seat(Cell<usize>);

impl Drop for Seat {
    fn drop(&mut self) {
        if self.0.get() != usize::MAX {
            TAKEN.fetch_sub(1, SeqCst);
        }
    }
}

fn lane() -> usize {
    let take = |seat: &Seat| {
        if seat.0.get() == usize::MAX {
            seat.0.set(SEATS.fetch_add(1, SeqCst) % LANES);
            TAKEN.fetch_add(1, SeqCst);
        }
        seat.0.get()
    };
    // A thread that is ending has no seat any more; then others are counted one by one.
    SEAT.try_with(take).unwrap_or(0)
}

impl Gate {
    pub fn new(epoch: u32) -> Gate {
        Gate {
            lanes: Box::new(std::array::from_fn(|_| Lane::default())),
            word: AtomicU32::new(0),
            closer: Mutex::new(()),
            epoch: AtomicU32::new(epoch),
            grace: Mutex::new(()),
        }
    }

    /// Goes in unless the gate is closed: the counter to come out by, and the epoch.
    #[inline(always)]
    pub(crate) fn try_pass(&self) -> Option<(&AtomicU32, u32)> {
        // A seat is below the number of lanes; the remainder tells the compiler.
        let lane = &self.lanes[lane() % LANES];
        loop {
            let word = self.word.load(Ordering::SeqCst);
            let count = lane.of(word);
            // Together with the loads below ordered against the closing and its loads, and against a new
            // phase and its loads.
            count.fetch_add(1, Ordering::SeqCst);
            let now = self.word.load(Ordering::SeqCst);
            if now == word && now & CLOSED == 0 {
                return Some((count, self.epoch.load(Ordering::SeqCst)));
            }
            leave(count);
            if now & CLOSED != 0 {
                return None;
            }
        }
    }

    /// Waits until every thread that is inside now has come out. The caller is not inside.
    pub(crate) fn grace(&self) {
        if planted(Planted::NoGrace) {
            return;
        }
        let _one_at_a_time = self.grace.lock();
        let before = self.word.fetch_add(PHASE, Ordering::SeqCst);
        for lane in &self.lanes[..self.lanes()] {
            while lane.of(before).load(Ordering::SeqCst) != 0 {
                yield_now();
            }
        }
    }

    /// Waits until it is open.
    pub(crate) fn wait(&self) {
        // The closer holds this while the gate is closed, which is short.
        drop(self.closer.lock());
    }

    /// Threads that run and have been inside before: more are hardly ever inside at once. O(1).
    #[inline]
    pub fn threads(&self) -> u64 {
        TAKEN.load(SeqCst)
    }

    /// Lanes that threads have taken. O(1).
    fn lanes(&self) -> usize {
        SEATS.load(SeqCst).clamp(1, LANES)
    }

    /// How often the gate was passed by those who are inside now. O(lanes).
    pub fn inside(&self) -> u64 {
        let count = |lane: &Lane| u64::from(lane.sum());
        self.lanes[..self.lanes()].iter().map(count).sum()
    }

    /// Closes the gate, waits until no thread is inside, runs `f` with the current epoch, raises the
    /// epoch, opens the gate. Also returns how long it drained and how long it was closed in all.
    pub fn closed<T>(
        &self,
        f: impl FnOnce(u32) -> T,
    ) -> (T, std::time::Duration, std::time::Duration) {
        self.shut(|| {
            let epoch = self.epoch.load(Ordering::SeqCst);
            let result = f(epoch);
            self.epoch.store(epoch + 1, Ordering::SeqCst);
            result
        })
    }

    /// The same in the same epoch.
    pub fn shut<T>(&self, f: impl FnOnce() -> T) -> (T, std::time::Duration, std::time::Duration) {
        let start = std::time::Instant::now();
        let hold = self.closer.lock();
        self.word.fetch_or(CLOSED, Ordering::SeqCst);
        let opens = Opens(self);
        let occupied = |l: &Lane| l.sum() != 0;
        while self.lanes.iter().any(occupied) && !planted(Planted::GateNotDrained) {
            reached(Point::Draining);
            yield_now();
        }
        let drained = start.elapsed();
        let result = f();
        drop(opens);
        drop(hold);
        (result, drained, start.elapsed())
    }
}

/// Comes out.
#[inline]
pub(crate) fn leave(count: &AtomicU32) {
    count.fetch_sub(1, Ordering::SeqCst);
}

/// Opens the gate, also when what was done while it was closed has panicked.
struct Opens<'g>(&'g Gate);

impl Drop for Opens<'_> {
    fn drop(&mut self) {
        self.0.word.fetch_and(!CLOSED, Ordering::SeqCst);
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use terrace_base::sync::thread;

    /// Who is inside stays in one epoch, and who closes the gate is alone.
    #[test]
    fn nobody_is_inside_while_the_gate_is_closed() {
        shuttle::check_random(
            || {
                let gate = Arc::new(Gate::new(5));
                // Each change is noted with its epoch; a cut sees all of its epoch and before, and
                // none after.
                let log: Arc<Mutex<Vec<u32>>> = Arc::default();
                let workers: Vec<_> = (0..2)
                    .map(|_| {
                        let (gate, log) = (gate.clone(), log.clone());
                        thread::spawn(move || {
                            for _ in 0..3 {
                                if let Some((count, epoch)) = gate.try_pass() {
                                    log.lock().push(epoch);
                                    yield_now();
                                    log.lock().push(epoch);
                                    leave(count);
                                } else {
                                    gate.wait();
                                }
                            }
                        })
                    })
                    .collect();
                let closers: Vec<_> = (0..2)
                    .map(|_| {
                        let (gate, log) = (gate.clone(), log.clone());
                        thread::spawn(move || {
                            gate.closed(|epoch| {
                                let before = log.lock().len();
                                assert!(before % 2 == 0, "somebody is halfway through");
                                assert!(log.lock().iter().all(|e| *e <= epoch));
                                yield_now();
                                assert_eq!(before, log.lock().len(), "somebody came in");
                            });
                        })
                    })
                    .collect();
                for thread in workers.into_iter().chain(closers) {
                    thread.join().unwrap();
                }
                assert!(log.lock().is_sorted(), "epochs went back");
            },
            2000,
        );
    }

    /// Whoever was inside when the grace began has come out when it ends, whatever phases pass.
    #[test]
    fn a_grace_waits_for_all_who_were_inside() {
        shuttle::check_random(
            || {
                let gate = Arc::new(Gate::new(5));
                // Who is inside, by turns of each worker.
                let inside: Arc<Mutex<Vec<(usize, u32)>>> = Arc::default();
                let workers: Vec<_> = (0..3)
                    .map(|who| {
                        let (gate, inside) = (gate.clone(), inside.clone());
                        thread::spawn(move || {
                            for turn in 0..3 {
                                let Some((count, _)) = gate.try_pass() else {
                                    continue;
                                };
                                inside.lock().push((who, turn));
                                yield_now();
                                inside.lock().retain(|it| *it != (who, turn));
                                leave(count);
                            }
                        })
                    })
                    .collect();
                let waiters: Vec<_> = (0..2)
                    .map(|_| {
                        let (gate, inside) = (gate.clone(), inside.clone());
                        thread::spawn(move || {
                            for _ in 0..2 {
                                let before = inside.lock().clone();
                                gate.grace();
                                let now = inside.lock().clone();
                                assert!(
                                    before.iter().all(|it| !now.contains(it)),
                                    "{before:?} {now:?}"
                                );
                            }
                        })
                    })
                    .collect();
                for thread in workers.into_iter().chain(waiters) {
                    thread.join().unwrap();
                }
            },
            2000,
        );
    }
}
