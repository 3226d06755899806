//! Who is at work in the database, and whether anybody may be.
//!
//! Every call on the database holds a [`Pass`] while it works. Counting in and out is one cache
//! line per thread. This is what lets a drop wait until nobody uses the structure any more, lets a
//! verification stop the world, and lets closing wait for the last call.
//!
//! Invariants: after [`Passes::quiesce`] returned, every pass that was given out before it began
//! has been given back; while the state is not `Open` no pass is given out. Nobody asks for a pass
//! while holding one.

use std::cell::Cell;
use std::sync::atomic::{AtomicU8, AtomicU64, AtomicUsize, Ordering};

use parking_lot::{Condvar, Mutex};
use terrace_base::{Error, Result};

/// Cache lines over which the threads spread: more than usually call at once.
const LANES: usize = 64;

const OPEN: u8 = 0;
const PAUSED: u8 = 1;
const CLOSED: u8 = 2;
const DEAD: u8 = 3;

#[derive(Default)]
#[repr(align(64))]
struct Lane(AtomicU64);

/// See the module's text.
pub struct Passes {
    lanes: Box<[Lane]>,
    state: AtomicU8,
    /// Why the state is `DEAD`. The condition variable signals every change of state.
    cause: Mutex<Option<Error>>,
    changed: Condvar,
}

/// The right to work in the database, until it is dropped.
pub struct Pass<'a> {
    lane: &'a AtomicU64,
}

impl Drop for Pass<'_> {
    #[inline]
    fn drop(&mut self) {
        self.lane.fetch_sub(1, Ordering::Release);
    }
}

/// Nobody has a pass while this is held.
pub struct Pause<'a> {
    passes: &'a Passes,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let _held = self.passes.cause.lock();
        // It may have been closed or have failed meanwhile.
        let _ =
            self.passes
                .state
                .compare_exchange(PAUSED, OPEN, Ordering::SeqCst, Ordering::SeqCst);
        self.passes.changed.notify_all();
    }
}

thread_local! {
    static LANE: Cell<usize> = const { Cell::new(usize::MAX) };
}

static NEXT_LANE: AtomicUsize = AtomicUsize::new(0);

fn lane() -> usize {
    LANE.with(|l| {
        if l.get() == usize::MAX {
            l.set(NEXT_LANE.fetch_add(1, Ordering::Relaxed) % LANES);
        }
        l.get()
    })
}

impl Passes {
    /// Open.
    pub fn new() -> Passes {
        Passes {
            lanes: (0..LANES).map(|_| Lane::default()).collect(),
            state: AtomicU8::new(OPEN),
            cause: Mutex::new(None),
            changed: Condvar::new(),
        }
    }

    /// A pass; waits while there is a pause.
    ///
    /// # Errors
    /// When the database was closed, or has failed so that it cannot answer any more.
    #[inline]
    pub fn enter(&self) -> Result<Pass<'_>> {
        loop {
            let lane = &self.lanes[lane()].0;
            // Together with the load below ordered against the store and the loads of `quiesce`.
            lane.fetch_add(1, Ordering::SeqCst);
            if self.state.load(Ordering::SeqCst) == OPEN {
                return Ok(Pass { lane });
            }
            lane.fetch_sub(1, Ordering::SeqCst);
            self.wait_to_enter()?;
        }
    }

    #[cold]
    fn wait_to_enter(&self) -> Result<()> {
        let mut cause = self.cause.lock();
        loop {
            match self.state.load(Ordering::SeqCst) {
                OPEN => return Ok(()),
                PAUSED => self.changed.wait(&mut cause),
                CLOSED => {
                    return Err(Error::invalid(
                        "the database has been closed by this program; open it again",
                    ));
                }
                _ => {
                    let unknown = || Error::Poisoned {
                        cause: "an earlier failure".into(),
                    };
                    return Err(cause.clone().unwrap_or_else(unknown));
                }
            }
        }
    }

    /// Waits until every pass given out so far was given back. The caller has none.
    pub fn quiesce(&self) {
        for lane in &self.lanes {
            let mut spins = 0u32;
            while lane.0.load(Ordering::SeqCst) != 0 {
                spins += 1;
                // Whoever has a pass may be waiting for a disk.
                if spins < 100 {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
        }
    }

    /// Waits until nobody has a pass, and keeps it so while the answer lives.
    ///
    /// # Errors
    /// As [`Passes::enter`]; one pause waits for the other.
    pub fn pause(&self) -> Result<Pause<'_>> {
        loop {
            self.wait_to_enter()?;
            if self
                .state
                .compare_exchange(OPEN, PAUSED, Ordering::SeqCst, Ordering::SeqCst)
                .is_ok()
            {
                self.quiesce();
                return Ok(Pause { passes: self });
            }
        }
    }

    /// Gives out no more passes, and waits for those that are out. Returns whether this was the
    /// first call.
    pub fn close(&self) -> bool {
        let first = {
            let mut cause = self.cause.lock();
            while self.state.load(Ordering::SeqCst) == PAUSED {
                self.changed.wait(&mut cause);
            }
            let first = self.state.load(Ordering::SeqCst) == OPEN;
            if first {
                self.state.store(CLOSED, Ordering::SeqCst);
            }
            first
        };
        self.quiesce();
        first
    }

    /// Why nobody may call any more, after [`Passes::kill`].
    pub fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    /// After a failure that leaves memory behind the log: nobody reads or writes any more. Never
    /// waits.
    pub fn kill(&self, error: &Error) {
        let mut cause = self.cause.lock();
        cause.get_or_insert_with(|| error.clone());
        self.state.store(DEAD, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn a_pause_begins_when_the_last_pass_is_back() {
        let passes = Passes::new();
        let inside = AtomicBool::new(false);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    for _ in 0..2000 {
                        let _pass = passes.enter().unwrap();
                        assert!(!inside.load(Ordering::SeqCst));
                    }
                });
            }
            for _ in 0..50 {
                let pause = passes.pause().unwrap();
                inside.store(true, Ordering::SeqCst);
                std::thread::yield_now();
                inside.store(false, Ordering::SeqCst);
                drop(pause);
            }
        });
    }

    #[test]
    fn closed_and_dead_say_so() {
        let passes = Passes::new();
        assert!(passes.close());
        assert!(!passes.close());
        assert!(matches!(passes.enter(), Err(Error::Invalid { .. })));
        let passes = Passes::new();
        let pause = passes.pause().unwrap();
        passes.kill(&Error::Poisoned { cause: "x".into() });
        drop(pause);
        assert!(matches!(passes.enter(), Err(Error::Poisoned { .. })));
        assert!(passes.pause().is_err());
    }
}
