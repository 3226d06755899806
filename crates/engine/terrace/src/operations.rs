//! Who is at work in the database, and whether any thread may be.
//!
//! Every call on the database holds a [`OperationGuard`] while it works. Counting in and out is one cache
//! line per thread. This is what lets a drop wait until no thread uses the structure any more, lets a
//! verification stop the world, and lets closing wait for the last call.
//!
//! Operations are counted by the phase in which they were given out, and who waits for those that are
//! out begins another phase first: newcomers do not keep it waiting, however many there are.
//!
//! Invariants: after [`Operations::quiesce`] returned, every operation that was given out before it began
//! has been given back; while the state is not `Open` no operation is given out; no operation of the phase
//! before is out when the next one begins. No thread asks for an operation while holding one. No code of the
//! program runs under an operation but what catches its panics, so a panic under one is a fault of ours, and
//! it is not known what it has left half done.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::panicking;

use terrace_base::process::{OwnWord, of_another_process};
use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, Result, thread_number};

/// Cache lines over which the threads spread: more than usually call at once.
const LANES: usize = 64;

/// What a child process finds, which has none of the threads.
const FORKED: u64 = 0;
const OPEN: u64 = 1;
const PAUSED: u64 = 2;
const CLOSED: u64 = 4;
/// The state that is all its bits: it comes from every other one.
const DEAD: u64 = 7;
/// The bits of the state, and that which says whether the phase is odd. In one word, so that who
/// comes in looks at both at once.
const STATE: u64 = 7;
const ODD: u64 = 8;

/// What is called when a thread panics that holds an operation.
type OnPanic = OnceLock<Box<dyn Fn() + Send + Sync>>;

/// Operations that are out, by whether their phase is odd.
#[repr(align(64))]
struct Lane {
    out: [AtomicU64; 2],
    /// Here, so that an operation guard is two words: it is handed on with every write.
    on_panic: Arc<OnPanic>,
}

impl Lane {
    #[inline]
    fn of(&self, word: u64) -> &AtomicU64 {
        &self.out[usize::from(word & ODD != 0)]
    }
}

/// The operations that are under way, and whether new ones may begin.
pub struct Operations {
    lanes: Box<[Lane; LANES]>,
    /// State and phase.
    word: OwnWord,
    /// Held while operations of an earlier phase are waited for: there are counters for two only.
    phase: Mutex<()>,
    /// Why the state is `DEAD`. The condition variable signals every change of state.
    cause: Mutex<Option<Error>>,
    changed: Condvar,
    on_panic: Arc<OnPanic>,
}

/// The right to work in the database, until it is dropped.
pub struct OperationGuard<'a> {
    lane: &'a Lane,
    /// The phase in which it was given out, as in the word, and whether its thread was unwinding already.
    bits: u64,
}

/// Of [`OperationGuard::bits`].
const UNWINDING: u64 = ODD << 1;

impl Drop for OperationGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        if panicking() {
            self.panicked();
        }
        self.lane.of(self.bits).fetch_sub(1, Ordering::Release);
    }
}

impl OperationGuard<'_> {
    #[cold]
    fn panicked(&self) {
        if self.bits & UNWINDING == 0
            && let Some(stop) = self.lane.on_panic.get()
        {
            stop();
        }
    }
}

/// No thread holds an operation while this is held.
pub struct Pause<'a> {
    passes: &'a Operations,
}

impl Drop for Pause<'_> {
    fn drop(&mut self) {
        let _held = self.passes.cause.lock();
        // It may have been closed or have failed meanwhile.
        self.passes.change(PAUSED, OPEN);
        self.passes.changed.notify_all();
    }
}

#[inline]
fn lane() -> usize {
    thread_number() % LANES
}

impl Operations {
    /// Open.
    ///
    /// # Errors
    /// When there is no memory for it.
    pub fn new() -> Result<Operations> {
        let on_panic = Arc::<OnPanic>::default();
        let lane = |_| Lane {
            out: Default::default(),
            on_panic: on_panic.clone(),
        };
        Ok(Operations {
            lanes: Box::new(std::array::from_fn(lane)),
            word: OwnWord::new(OPEN)?,
            phase: Mutex::new(()),
            cause: Mutex::new(None),
            changed: Condvar::new(),
            on_panic,
        })
    }

    /// Whether this is the process that opened the database, not a child of it.
    pub fn is_mine(&self) -> bool {
        self.word.is_mine()
    }

    /// Calls `stop` when a thread panics that holds an operation: it is to stop all parts, which calls
    /// [`Operations::kill`].
    pub fn on_panic(&self, stop: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_panic.set(Box::new(stop));
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        self.word.word()
    }

    fn state(&self) -> u64 {
        self.word().load(Ordering::SeqCst) & STATE
    }

    /// Changes the state if it is this one; returns whether it was.
    fn change(&self, from: u64, to: u64) -> bool {
        let changed = |word: u64| (word & STATE == from).then_some(word & !STATE | to);
        self.word()
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, changed)
            .is_ok()
    }

    /// The guard of an operation; waits while there is a pause.
    ///
    /// # Errors
    /// When the database was closed, or has failed so that it cannot answer any more.
    #[inline]
    pub fn enter(&self) -> Result<OperationGuard<'_>> {
        loop {
            if let Some(pass) = self.attempt() {
                return Ok(pass);
            }
            self.wait_to_enter(true)?;
        }
    }

    /// The same, but none while there is a pause: for who must not wait.
    ///
    /// # Errors
    /// As [`Operations::enter`].
    pub fn try_enter(&self) -> Result<Option<OperationGuard<'_>>> {
        loop {
            if let Some(pass) = self.attempt() {
                return Ok(Some(pass));
            }
            if !self.wait_to_enter(false)? {
                return Ok(None);
            }
        }
    }

    #[inline]
    fn attempt(&self) -> Option<OperationGuard<'_>> {
        let word = self.word().load(Ordering::SeqCst);
        // A lane is below their number; the remainder tells the compiler.
        let lane = &self.lanes[lane() % LANES];
        let out = lane.of(word);
        // Together with the load below ordered against the change of the word by `quiesce`, and its
        // loads: if the phase is still the same, the next one waits for this operation.
        out.fetch_add(1, Ordering::SeqCst);
        let now = self.word().load(Ordering::SeqCst);
        if now == word && now & STATE == OPEN {
            let unwinding = if panicking() { UNWINDING } else { 0 };
            return Some(OperationGuard {
                lane,
                bits: now & ODD | unwinding,
            });
        }
        out.fetch_sub(1, Ordering::SeqCst);
        None
    }

    /// Whether there is no pause, once it is over if the caller waits for that.
    #[cold]
    fn wait_to_enter(&self, waits: bool) -> Result<bool> {
        if self.state() == FORKED {
            // Another thread may have had the lock when it was forked.
            return Err(of_another_process());
        }
        let mut cause = self.cause.lock();
        loop {
            match self.state() {
                OPEN => return Ok(true),
                PAUSED if !waits => return Ok(false),
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

    /// Waits until every operation given out so far was given back. The caller holds none.
    pub fn quiesce(&self) {
        let _phase = self.phase.lock();
        let before = self.word().fetch_xor(ODD, Ordering::SeqCst);
        for lane in self.lanes.iter() {
            let mut spins = 0u32;
            while lane.of(before).load(Ordering::SeqCst) != 0 {
                spins += 1;
                // Whoever holds an operation may be waiting for a disk.
                if spins < 100 {
                    std::thread::yield_now();
                } else {
                    std::thread::sleep(std::time::Duration::from_micros(50));
                }
            }
        }
    }

    /// Waits until all that was begun so far has ended, operations and pauses. The caller holds none.
    ///
    /// # Errors
    /// When the database has failed so that it cannot answer any more.
    pub fn wait_for_all(&self) -> Result<()> {
        match self.enter() {
            Err(e) if self.state() != CLOSED => return Err(e),
            _ => {}
        }
        self.quiesce();
        Ok(())
    }

    /// Waits until no thread holds an operation, and keeps it so while the answer lives.
    ///
    /// # Errors
    /// As [`Operations::enter`]; one pause waits for the other.
    pub fn pause(&self) -> Result<Pause<'_>> {
        loop {
            self.wait_to_enter(true)?;
            if self.change(OPEN, PAUSED) {
                self.quiesce();
                return Ok(Pause { passes: self });
            }
        }
    }

    /// Gives out no more operations, and waits for those that are out. Returns whether this was the
    /// first call.
    pub fn close(&self) -> bool {
        let first = {
            let mut cause = self.cause.lock();
            loop {
                if self.change(OPEN, CLOSED) {
                    break true;
                }
                if self.state() != PAUSED {
                    break false;
                }
                self.changed.wait(&mut cause);
            }
        };
        self.quiesce();
        first
    }

    /// Why no thread may call any more, after [`Operations::kill`].
    pub fn cause(&self) -> Option<Error> {
        self.cause.lock().clone()
    }

    /// After a failure that leaves memory behind the log: no thread reads or writes any more. Never
    /// waits.
    pub fn kill(&self, error: &Error) {
        let mut cause = self.cause.lock();
        cause.get_or_insert_with(|| error.clone());
        self.word().fetch_or(DEAD, Ordering::SeqCst);
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::time::{Duration, Instant};

    #[test]
    fn a_pause_begins_when_the_last_pass_is_back() {
        let passes = Operations::new().unwrap();
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
    fn who_waits_for_those_at_work_waits_for_no_newcomers() {
        let passes = Operations::new().unwrap();
        let (entered, returned) = (AtomicBool::new(false), AtomicBool::new(false));
        // Only so that a failure ends; how long it takes does not matter.
        let end = Instant::now() + Duration::from_secs(20);
        std::thread::scope(|s| {
            s.spawn(|| {
                // As threads of one lane do that come and go: one of them always holds an operation.
                let mut held = passes.enter().unwrap();
                entered.store(true, Ordering::SeqCst);
                while !returned.load(Ordering::SeqCst) {
                    assert!(Instant::now() < end, "it waits for newcomers");
                    let next = passes.enter().unwrap();
                    drop(std::mem::replace(&mut held, next));
                }
            });
            while !entered.load(Ordering::SeqCst) {
                std::thread::yield_now();
            }
            for _ in 0..5 {
                passes.quiesce();
            }
            returned.store(true, Ordering::SeqCst);
        });
    }

    #[test]
    fn those_at_work_are_waited_for_while_newcomers_come_and_go() {
        let passes = Operations::new().unwrap();
        let word = || passes.word().load(Ordering::SeqCst);
        for _ in 0..4 {
            let done = AtomicBool::new(false);
            let before = word();
            let old = passes.enter().unwrap();
            std::thread::scope(|s| {
                s.spawn(|| {
                    passes.quiesce();
                    done.store(true, Ordering::SeqCst);
                });
                while word() == before {
                    std::thread::yield_now();
                }
                let new = passes.enter().unwrap();
                for _ in 0..50 {
                    drop(passes.enter().unwrap());
                    std::thread::yield_now();
                    assert!(!done.load(Ordering::SeqCst));
                }
                drop(old);
                while !done.load(Ordering::SeqCst) {
                    std::thread::yield_now();
                }
                drop(new);
            });
        }
    }

    #[test]
    fn what_two_take_away_at_once_nobody_uses_after_they_have_waited() {
        let passes = Operations::new().unwrap();
        // What has been taken away, and what is gone since, of each of the two.
        let taken = [const { AtomicU64::new(0) }; 2];
        let gone = [const { AtomicU64::new(0) }; 2];
        let done = AtomicU64::new(0);
        std::thread::scope(|s| {
            for _ in 0..3 {
                s.spawn(|| {
                    while done.load(Ordering::SeqCst) < 2 {
                        let _pass = passes.enter().unwrap();
                        let used = [0, 1].map(|i: usize| taken[i].load(Ordering::SeqCst));
                        std::thread::yield_now();
                        for i in 0..2 {
                            assert!(gone[i].load(Ordering::SeqCst) <= used[i]);
                        }
                    }
                });
            }
            for i in 0..2 {
                let (passes, taken, gone, done) = (&passes, &taken, &gone, &done);
                s.spawn(move || {
                    for _ in 0..500 {
                        let now = taken[i].fetch_add(1, Ordering::SeqCst) + 1;
                        passes.quiesce();
                        gone[i].store(now, Ordering::SeqCst);
                    }
                    done.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
    }

    #[test]
    fn closed_and_dead_say_so() {
        let passes = Operations::new().unwrap();
        assert!(passes.close());
        assert!(!passes.close());
        assert!(matches!(passes.enter(), Err(Error::Invalid { .. })));
        let passes = Operations::new().unwrap();
        let pause = passes.pause().unwrap();
        passes.kill(&Error::Poisoned { cause: "x".into() });
        drop(pause);
        assert!(matches!(passes.enter(), Err(Error::Poisoned { .. })));
        assert!(passes.pause().is_err());
    }
}
