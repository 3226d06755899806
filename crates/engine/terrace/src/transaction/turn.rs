//! The turn: held by a transaction that was often too late, and shared by the attempts of all others.
//!
//! It is there for fairness alone, so nobody waits for it for long, and who does not get it goes on without: the
//! holder may be waiting for this very thread.

use std::time::{Duration, Instant};

use terrace_base::sync::{Condvar, Mutex};

/// Longest wait for the turn.
pub const TURN_WAIT: Duration = Duration::from_millis(20);

/// See the module's text.
#[derive(Default)]
pub struct Turn {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    alone: bool,
    shared: u32,
    /// Who waits for it alone: newcomers that share it wait behind them.
    wait_alone: u32,
}

/// A hold of the turn.
pub struct Held<'a> {
    turn: &'a Turn,
    alone: bool,
}

impl Turn {
    /// Takes it alone, if all others let go of it within that time.
    pub fn alone(&self, most: Duration) -> Option<Held<'_>> {
        let until = Instant::now() + most;
        let mut state = self.state.lock();
        state.wait_alone += 1;
        while state.alone || state.shared > 0 {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                state.wait_alone -= 1;
                self.changed.notify_all();
                return None;
            }
            self.changed.wait_for(&mut state, left);
        }
        state.wait_alone -= 1;
        state.alone = true;
        let turn = self;
        Some(Held { turn, alone: true })
    }

    /// Takes it beside others, if nobody has or wants it alone after that time.
    pub fn shared(&self, most: Duration) -> Option<Held<'_>> {
        let mut state = self.state.lock();
        if state.alone || state.wait_alone > 0 {
            let until = Instant::now() + most;
            while state.alone || state.wait_alone > 0 {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    return None;
                }
                self.changed.wait_for(&mut state, left);
            }
        }
        state.shared += 1;
        let turn = self;
        Some(Held { turn, alone: false })
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut state = self.turn.state.lock();
        if self.alone {
            state.alone = false;
        } else {
            state.shared -= 1;
        }
        if state.shared == 0 {
            self.turn.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Duration = Duration::ZERO;

    #[test]
    fn who_has_it_alone_keeps_others_out_and_many_share_it() {
        let turn = Turn::default();
        let shared = [turn.shared(NONE).unwrap(), turn.shared(NONE).unwrap()];
        assert!(turn.alone(NONE).is_none());
        drop(shared);
        let alone = turn.alone(NONE).unwrap();
        assert!(turn.shared(NONE).is_none() && turn.alone(NONE).is_none());
        drop(alone);
        assert!(turn.shared(NONE).is_some() && turn.alone(NONE).is_some());
    }

    #[test]
    fn newcomers_wait_behind_who_wants_it_alone() {
        let turn = Turn::default();
        let shared = turn.shared(NONE).unwrap();
        std::thread::scope(|threads| {
            let wants = threads.spawn(|| turn.alone(Duration::from_secs(600)).is_some());
            while turn.state.lock().wait_alone == 0 {
                std::thread::yield_now();
            }
            assert!(turn.shared(NONE).is_none());
            drop(shared);
            assert!(wants.join().unwrap());
        });
        assert!(turn.shared(NONE).is_some());
    }
}
