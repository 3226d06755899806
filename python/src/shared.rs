//! What the handles of a database share, and how they end: by closing, by a fork, by a panic.
//!
//! Invariants: the engine's handles lie in slots, and closing empties every slot, so the folder is free
//! when it returns whatever Python objects are still about. In the child of a fork nothing of the engine is
//! touched, not even dropped: its threads are not there.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::{Mutex, RwLock};
use pyo3::prelude::*;

use crate::errors::Failure;
use crate::wake::Wakes;

/// How many forks lie between this process and the one that loaded the module.
static FORKS: AtomicU64 = AtomicU64::new(0);

/// Called in the child of a fork.
#[pyfunction]
#[pyo3(name = "_forked")]
pub fn forked() {
    FORKS.fetch_add(1, Ordering::SeqCst);
}

/// See the module's text.
pub struct Shared {
    born: u64,
    /// What is closed when its slots are empty.
    what: &'static str,
    /// One for the database and all its parts.
    broken: Arc<AtomicBool>,
    slots: Mutex<Vec<Weak<dyn Emptied>>>,
    pub wakes: Wakes,
}

/// What closing empties.
trait Emptied: Send + Sync {
    fn empty(&self);
}

/// A handle of the engine, until the database is closed.
pub struct Slot<T: Send + Sync + 'static> {
    pub shared: Arc<Shared>,
    value: RwLock<Option<T>>,
}

impl Shared {
    pub fn new() -> Arc<Shared> {
        let broken = Arc::default();
        Shared::of("the database", FORKS.load(Ordering::SeqCst), broken)
    }

    fn of(what: &'static str, born: u64, broken: Arc<AtomicBool>) -> Arc<Shared> {
        Arc::new(Shared {
            born,
            what,
            broken,
            slots: Mutex::default(),
            wakes: Wakes::default(),
        })
    }

    /// A number of its own among those that are there.
    pub fn number(self: &Arc<Shared>) -> usize {
        Arc::as_ptr(self) as usize
    }

    /// A part that can be closed alone, and is closed with the whole.
    pub fn part(&self, what: &'static str) -> Arc<Shared> {
        let part = Shared::of(what, self.born, self.broken.clone());
        let weak: Weak<dyn Emptied> = Arc::<Shared>::downgrade(&part);
        self.add(weak);
        part
    }

    fn is_forked(&self) -> bool {
        self.born != FORKS.load(Ordering::Relaxed)
    }

    /// Whether the engine may be called at all.
    pub fn check(&self) -> Result<(), Failure> {
        if self.is_forked() {
            return Err(Failure::Forked);
        }
        if self.is_broken() {
            return Err(Failure::Defect("an earlier call panicked".into()));
        }
        Ok(())
    }

    /// Whether a call of the engine has panicked, here or in another part of the same database.
    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Drops a handle of the engine.
    pub fn give_up<T>(&self, handle: T) {
        if !self.is_broken() {
            return drop(handle);
        }
        // As a panic does: the last handle makes no checkpoint then, as nobody knows what was left half done. What was
        // acknowledged is in the log.
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            let _handle = handle;
            resume_unwind(Box::new(()));
        }));
        // That is what it was to do.
        let _ = unwound;
    }

    /// Whether this is the process that has opened it.
    pub fn check_fork(&self) -> Result<(), Failure> {
        if self.is_forked() {
            Err(Failure::Forked)
        } else {
            Ok(())
        }
    }

    /// Opens or closes, without the interpreter.
    pub fn opened<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce() -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        Ok(py.detach(|| self.guarded(call))?)
    }

    /// A slot for a handle.
    pub fn slot<T: Send + Sync + 'static>(self: &Arc<Shared>, value: T) -> Arc<Slot<T>> {
        let slot = Arc::new(Slot {
            shared: self.clone(),
            value: RwLock::new(Some(value)),
        });
        let weak: Weak<dyn Emptied> = Arc::<Slot<T>>::downgrade(&slot);
        self.add(weak);
        slot
    }

    fn add(&self, weak: Weak<dyn Emptied>) {
        let mut slots = self.slots.lock();
        if slots.len() == slots.capacity() {
            slots.retain(|slot| slot.strong_count() > 0);
        }
        slots.push(weak);
    }

    /// Empties all slots. Waits for the calls that use them.
    pub fn empty(&self) {
        let slots = std::mem::take(&mut *self.slots.lock());
        slots
            .iter()
            .filter_map(Weak::upgrade)
            .for_each(|slot| slot.empty());
    }

    /// Runs a call of the engine; a panic becomes an error.
    pub fn guarded<R>(&self, call: impl FnOnce() -> terrace::Result<R>) -> Result<R, Failure> {
        match catch_unwind(AssertUnwindSafe(call)) {
            Ok(done) => Ok(done?),
            Err(panic) => {
                self.broken.store(true, Ordering::SeqCst);
                let text = panic
                    .downcast_ref::<&str>()
                    .map(ToString::to_string)
                    .or_else(|| panic.downcast_ref::<String>().cloned());
                Err(Failure::Defect(text.unwrap_or_else(|| "a panic".into())))
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_forked() {
            std::mem::forget(std::mem::take(&mut self.wakes));
        }
    }
}

impl<T: Send + Sync + 'static> Slot<T> {
    /// Calls the engine, without the interpreter. The handle stays until that is over.
    pub fn with<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(&T) -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        self.shared.check()?;
        Ok(py.detach(|| self.within(call))?)
    }

    /// The same for who has let go of the interpreter.
    pub fn within<R>(&self, call: impl FnOnce(&T) -> terrace::Result<R>) -> Result<R, Failure> {
        // Not behind somebody who closes: they wait for a call that may wait for this one.
        let value = self.value.read_recursive();
        let value = value.as_ref().ok_or(Failure::Closed(self.shared.what))?;
        self.shared.guarded(|| call(value))
    }
}

impl Emptied for Shared {
    fn empty(&self) {
        Shared::empty(self);
    }
}

impl<T: Send + Sync + Clone + 'static> Slot<T> {
    /// As [`Slot::with`], for calls that take long or call back into Python: closing does not wait for them
    /// here, and the engine answers them with an error.
    pub fn with_clone<R: Send>(
        &self,
        py: Python<'_>,
        call: impl FnOnce(T) -> terrace::Result<R> + Send,
    ) -> PyResult<R> {
        self.shared.check()?;
        let value = self.value.read_recursive().clone();
        let value = value.ok_or(Failure::Closed(self.shared.what))?;
        Ok(py.detach(|| self.shared.guarded(|| call(value)))?)
    }

    /// What is in it, if anything, and if this is the process that put it there.
    pub fn peek(&self) -> Option<T> {
        self.shared.check_fork().ok()?;
        self.value.read_recursive().clone()
    }

    /// What is in it.
    pub fn take_clone(&self) -> PyResult<T> {
        self.shared.check()?;
        let value = self.value.read_recursive().clone();
        Ok(value.ok_or(Failure::Closed(self.shared.what))?)
    }
}

impl<T: Send + Sync + 'static> Emptied for Slot<T> {
    fn empty(&self) {
        let value = self.value.write().take();
        self.shared.give_up(value);
    }
}

impl<T: Send + Sync + 'static> Drop for Slot<T> {
    fn drop(&mut self) {
        let value = self.value.get_mut().take();
        if self.shared.is_forked() {
            std::mem::forget(value);
        } else {
            self.shared.give_up(value);
        }
    }
}
