//! What the handles of one database share, and how they end: by closing, by a fork, by a panic.
//!
//! Invariants: what was opened is used by the process that opened it alone; in its children nothing of the
//! engine is touched, not even dropped, as its threads are not there. After a panic no call is let in again.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use terrace_base::process::{Owner, Watch};
use terrace_base::sync::{Mutex, MutexGuard};

use crate::failure::{Failure, Kind, Result};
use crate::planted::{Fault, planted};

/// What concerns all handles of a database.
pub struct Home {
    owner: Watch,
    broken: AtomicBool,
    closing: AtomicBool,
}

/// A whole that closes its parts: a database, a snapshot.
pub struct Shared {
    pub home: Arc<Home>,
    parts: Mutex<Parts>,
}

#[derive(Default)]
struct Parts {
    /// No more come.
    closed: bool,
    handles: HashSet<u64>,
}

/// The process that used this first: in its children a lock may be held by a thread that is not there.
static FIRST: OnceLock<Owner> = OnceLock::new();

/// Waits for a lock; in the child of a fork not for ever.
pub fn locked<T>(mutex: &Mutex<T>) -> Result<MutexGuard<'_, T>> {
    /// Milliseconds. These locks are held for as long as a few copies take.
    const TRIES: u32 = 1_000;
    if FIRST.get_or_init(Owner::here).is_here() {
        return Ok(mutex.lock());
    }
    for _ in 0..TRIES {
        if let Some(guard) = mutex.try_lock() {
            return Ok(guard);
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Err(Failure::forked())
}

impl Home {
    /// Whether the engine may be called at all.
    #[inline]
    pub fn check(&self) -> Result<()> {
        if !self.owner.is_here() {
            return Err(Failure::forked());
        }
        if self.broken.load(Ordering::Relaxed) {
            return Err(Failure::defect("an earlier call panicked"));
        }
        Ok(())
    }

    /// Whether this is the process that has opened it.
    pub fn check_fork(&self) -> Result<()> {
        match self.owner.is_here() {
            true => Ok(()),
            false => Err(Failure::forked()),
        }
    }

    /// Whether a call has panicked.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::SeqCst)
    }

    /// From now on what the engine refuses is refused because it is closed.
    pub fn closes(&self) {
        self.closing.store(true, Ordering::SeqCst);
    }

    /// Runs a call of the engine; a panic becomes a failure, now and of all later calls.
    #[inline]
    pub fn guarded<R>(&self, call: impl FnOnce() -> Result<R>) -> Result<R> {
        let mut panicked = true;
        let done = guarded(|| {
            let done = call();
            panicked = false;
            done
        });
        match done {
            Err(failure) => Err(self.explained(failure, panicked)),
            done => done,
        }
    }

    /// A callback may answer a defect too, of something else: that breaks nothing here.
    #[cold]
    fn explained(&self, failure: Failure, panicked: bool) -> Failure {
        match failure.kind {
            _ if panicked => self.broken.store(true, Ordering::SeqCst),
            Kind::Invalid if self.closing.load(Ordering::SeqCst) => {
                return Failure::closed("database");
            }
            _ => {}
        }
        failure
    }
}

/// Runs a call; a panic becomes a failure.
#[inline]
pub fn guarded<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    if planted(Fault::PanicCrosses) {
        return call();
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|panic| {
        let text = panic
            .downcast_ref::<&str>()
            .map(ToString::to_string)
            .or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Failure::defect(text.as_deref().unwrap_or("a panic")))
    })
}

/// Drops something as a panic would: a database makes no last checkpoint then, as it is not known what was left
/// half done. What was acknowledged is in its log.
pub fn dropped_by_a_panic<T>(of: T) {
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _of = of;
        resume_unwind(Box::new(()));
    }));
    // That is what it was to do.
    let _ = unwound;
}

impl Shared {
    /// Of what this process opens now.
    pub fn new() -> Arc<Shared> {
        let home = Home {
            owner: Owner::here().watch(),
            broken: AtomicBool::new(false),
            closing: AtomicBool::new(false),
        };
        Shared::of(Arc::new(home))
    }

    fn of(home: Arc<Home>) -> Arc<Shared> {
        Arc::new(Shared {
            home,
            parts: Mutex::new(Parts::default()),
        })
    }

    /// A part that closes parts of its own.
    pub fn part(&self) -> Arc<Shared> {
        Shared::of(self.home.clone())
    }

    /// Adds the handle that `make` makes, unless this is closed.
    pub fn add(&self, make: impl FnOnce() -> Result<u64>) -> Result<u64> {
        let mut parts = locked(&self.parts)?;
        if parts.closed {
            return Err(Failure::closed("database or snapshot"));
        }
        let handle = make()?;
        parts.handles.insert(handle);
        Ok(handle)
    }

    /// A handle was closed on its own.
    pub fn forget(&self, handle: u64) {
        if let Ok(mut parts) = locked(&self.parts) {
            parts.handles.remove(&handle);
        }
    }

    /// All handles, which are to be closed; no more come.
    pub fn end(&self) -> HashSet<u64> {
        match locked(&self.parts) {
            Ok(mut parts) => {
                parts.closed = true;
                std::mem::take(&mut parts.handles)
            }
            Err(_) => HashSet::new(),
        }
    }
}
