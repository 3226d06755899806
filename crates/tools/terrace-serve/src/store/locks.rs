//! Who may do what to which keys: stripes of locks by key, and a gate for those who need everything.
//!
//! Invariants: who waits for a stripe holds none, or only lower ones that it took in the same call; who waits for
//! the gate holds no stripes. So no threads wait in a circle. An event loop only tries.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Stripes: so many that the keys of two pipelines seldom share one.
pub const STRIPES: usize = 16_384;
/// How long a waiter sleeps at most before it looks again; it is woken before.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Looks at a stripe that another thread has, before it is called busy: some microseconds.
const SPINS: usize = 500;
/// The gate while a thread has all of it, or waits for all of it.
const CLOSED: usize = 1 << 32;

/// The locks of all keys.
pub struct Locks {
    stripes: Vec<AtomicBool>,
    /// How many are inside, and whether a thread wants to be alone.
    gate: AtomicUsize,
    /// Threads that sleep.
    sleepers: AtomicUsize,
    slept: Mutex<()>,
    woken: Condvar,
}

impl Locks {
    /// All of them free.
    pub fn new() -> Locks {
        Locks {
            stripes: (0..STRIPES).map(|_| AtomicBool::new(false)).collect(),
            gate: AtomicUsize::new(0),
            sleepers: AtomicUsize::new(0),
            slept: Mutex::new(()),
            woken: Condvar::new(),
        }
    }

    /// Takes a stripe if it is free.
    pub fn try_stripe(&self, stripe: u16) -> bool {
        let lock = &self.stripes[usize::from(stripe) % STRIPES];
        !lock.load(Ordering::Relaxed) && !lock.swap(true, Ordering::SeqCst)
    }

    /// Takes a stripe if it is free, or will be in an instant: a loop that goes to the pool for it takes longer.
    pub fn try_stripe_a_while(&self, stripe: u16) -> bool {
        (0..SPINS).any(|_| {
            let taken = self.try_stripe(stripe);
            if !taken {
                std::hint::spin_loop();
            }
            taken
        })
    }

    /// Takes a stripe; waits for it.
    pub fn stripe(&self, stripe: u16) {
        self.wait_until(|| self.try_stripe(stripe));
    }

    /// Gives a stripe back.
    pub fn free_stripe(&self, stripe: u16) {
        self.stripes[usize::from(stripe) % STRIPES].store(false, Ordering::SeqCst);
        self.wake();
    }

    /// Goes in beside others, if no thread is alone or wants to be.
    pub fn try_enter(&self) -> bool {
        let inside = self.gate.fetch_add(1, Ordering::SeqCst);
        if inside < CLOSED {
            return true;
        }
        // No thread is woken: one that waits has the lock that waking takes, and one that wants to be alone looks
        // again.
        self.gate.fetch_sub(1, Ordering::SeqCst);
        false
    }

    /// Goes in beside others; waits for who is alone.
    pub fn enter(&self) {
        self.wait_until(|| self.try_enter());
    }

    /// Goes out again.
    pub fn leave(&self) {
        self.gate.fetch_sub(1, Ordering::SeqCst);
        self.wake();
    }

    /// Waits until no other thread is inside; no thread comes in until [`Locks::leave_alone`].
    pub fn enter_alone(&self) {
        // One after the other: who is first closes the gate.
        self.wait_until(|| {
            let closed = self.gate.fetch_or(CLOSED, Ordering::SeqCst);
            closed & CLOSED == 0
        });
        self.wait_until(|| self.gate.load(Ordering::SeqCst) == CLOSED);
    }

    /// Lets others in again.
    pub fn leave_alone(&self) {
        self.gate.fetch_and(!CLOSED, Ordering::SeqCst);
        self.wake();
    }

    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            let _slept = self.slept.lock().unwrap_or_else(PoisonError::into_inner);
            self.woken.notify_all();
        }
    }

    fn wait_until(&self, ready: impl Fn() -> bool) {
        for _ in 0..50 {
            if ready() {
                return;
            }
            std::hint::spin_loop();
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        let mut slept = self.slept.lock().unwrap_or_else(PoisonError::into_inner);
        while !ready() {
            let waited = self.woken.wait_timeout(slept, LOOK_AGAIN);
            slept = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(slept);
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn who_is_alone_is_alone() {
        let locks = Arc::new(Locks::new());
        let inside = Arc::new(AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                let (locks, inside) = (locks.clone(), inside.clone());
                scope.spawn(move || {
                    for i in 0..500u32 {
                        if i % 50 == 0 {
                            locks.enter_alone();
                            assert_eq!(inside.load(Ordering::SeqCst), 0);
                            locks.leave_alone();
                        } else {
                            locks.enter();
                            inside.fetch_add(1, Ordering::SeqCst);
                            locks.stripe((i % 3) as u16);
                            locks.free_stripe((i % 3) as u16);
                            inside.fetch_sub(1, Ordering::SeqCst);
                            locks.leave();
                        }
                    }
                });
            }
        });
        assert!(locks.try_enter());
        assert!(locks.try_stripe(5) && !locks.try_stripe(5));
    }
}
