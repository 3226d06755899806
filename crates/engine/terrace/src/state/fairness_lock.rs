//! The fairness lock: taken by a transaction that was often too late. While it has it, whoever is to write what
//! it has read waits.
//!
//! It is there for fairness alone, and bounded everywhere: it is held for [`most_of`] at the longest, whether its
//! transaction has ended or not, and no write waits for more than one holder, because the next one takes it when
//! those have written who have waited for the one before. The thread that has it never waits for itself.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::sync::{Condvar, Mutex};
use terrace_tier::WriteReservation;

/// It is held for this many times as long as the longest attempt so far: others are at work, and so it may take longer.
const TIMES: u32 = 4;
/// The shortest time: a thread may not be running for so long, on a busy machine. And the longest, which is how
/// long a write may wait.
const SHORTEST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(1);
/// Longest wait for the lock. Who does not get it goes on without: another thread may wait for this one.
const WAIT: Duration = Duration::from_secs(2);

/// How long it is held at most, by the longest attempt so far.
pub fn most_of(longest: Duration) -> Duration {
    (longest * TIMES).clamp(SHORTEST, LONGEST)
}

/// The fairness lock of a database.
#[derive(Default)]
pub struct FairnessLock {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    now: Option<Arc<WriteReservation>>,
    /// Who waits for it, the first one first.
    queue: VecDeque<u64>,
    tickets: u64,
    /// Writes that have waited for a holder and are not made yet.
    owed: u32,
}

/// The fairness lock, held until it is dropped.
pub struct Taken {
    turn: Arc<FairnessLock>,
    /// What holds writers up.
    pub claim: Arc<WriteReservation>,
}

/// A write that has waited, until it is made.
pub struct Owed<'a>(&'a FairnessLock);

impl FairnessLock {
    /// Takes it for so long at most, as soon as it is free; nothing if that takes too long.
    pub fn take(self: &Arc<FairnessLock>, most: Duration) -> Option<Taken> {
        let until = Instant::now() + WAIT;
        let mut state = self.state.lock();
        let ticket = state.tickets;
        state.tickets += 1;
        state.queue.push_back(ticket);
        loop {
            let now = Instant::now();
            let is_over = |claim: &Arc<WriteReservation>| claim.left(now).is_none();
            if state.queue.front() == Some(&ticket)
                && state.now.as_ref().is_none_or(is_over)
                && state.owed == 0
            {
                break;
            }
            // A transaction in a closure of the one that has it would wait for itself.
            let is_own = state.now.as_ref().is_some_and(|claim| claim.is_own());
            if is_own || now >= until {
                state.queue.retain(|waiting| *waiting != ticket);
                self.changed.notify_all();
                return None;
            }
            let over = state.now.as_ref().and_then(|claim| claim.left(now));
            let left = until.saturating_duration_since(now);
            self.changed
                .wait_for(&mut state, over.map_or(left, |over| over.min(left)));
        }
        state.queue.pop_front();
        let claim = WriteReservation::new(most);
        state.now = Some(claim.clone());
        let turn = self.clone();
        Some(Taken { turn, claim })
    }

    /// Waits until a claim that a write has met holds up no thread any more. The caller holds nothing.
    #[cold]
    pub fn wait_for(&self, claim: &WriteReservation) -> Owed<'_> {
        self.state.lock().owed += 1;
        claim.wait();
        Owed(self)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.claim.end();
        let mut state = self.turn.state.lock();
        // Unless it was over before, and is another one's.
        let mine = |claim: &Arc<WriteReservation>| Arc::ptr_eq(claim, &self.claim);
        if state.now.as_ref().is_some_and(mine) {
            state.now = None;
        }
        drop(state);
        self.turn.changed.notify_all();
    }
}

impl Drop for Owed<'_> {
    fn drop(&mut self) {
        self.0.state.lock().owed -= 1;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    fn others<T: Send>(call: impl FnOnce() -> T + Send) -> T {
        std::thread::scope(|threads| threads.spawn(call).join().unwrap())
    }

    #[test]
    fn one_has_it_and_no_write_waits_for_two() {
        let turn = Arc::new(FairnessLock::default());
        let first = turn.take(LONGEST * 1000).unwrap();
        // Not for itself.
        assert!(turn.take(SHORTEST).is_none());
        turn.wait_for(&first.claim);
        let (claim, has_it) = (first.claim.clone(), AtomicBool::new(false));
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| {
                let owed = turn.wait_for(&claim);
                assert!(claim.left(Instant::now()).is_none());
                // No transaction has the lock as long as this is not written.
                assert!(!has_it.load(Ordering::SeqCst));
                drop(owed);
            });
            let next = threads.spawn(|| {
                let taken = turn.take(SHORTEST);
                has_it.store(true, Ordering::SeqCst);
                taken.is_some()
            });
            let both_wait = || {
                let state = turn.state.lock();
                state.owed > 0 && !state.queue.is_empty()
            };
            while !both_wait() {
                std::thread::yield_now();
            }
            drop(first);
            waits.join().unwrap();
            assert!(next.join().unwrap());
        });
        let state = turn.state.lock();
        assert!(state.queue.is_empty() && state.now.is_none());
    }

    #[test]
    fn a_turn_that_is_over_holds_nobody_up() {
        let turn = Arc::new(FairnessLock::default());
        let first = turn.take(Duration::ZERO).unwrap();
        others(|| drop(turn.wait_for(&first.claim)));
        let second = others(|| {
            turn.take(Duration::from_secs(600))
                .map(|taken| taken.claim.clone())
        });
        assert!(second.is_some());
        drop(first);
        assert!(others(|| turn.take(SHORTEST).is_some()));
        assert_eq!(most_of(Duration::ZERO), SHORTEST);
        assert_eq!(most_of(Duration::from_secs(60)), LONGEST);
    }
}
