//! The one switch between real synchronisation and the concurrency checker.
//!
//! Code with latches takes its atomics, mutexes and threads from here; with the feature `shuttle`
//! the same code runs under the shuttle scheduler.
//!
//! Invariant: a process that was forked from one with threads that wait here can use locks of its own. So
//! nothing of who waits lies in a list of the whole process, which a child would find as it was, with
//! entries of threads whose memory its own threads get. The locks of the standard library keep all they
//! need in themselves and in the kernel.

use std::ops::{Deref, DerefMut};
use std::sync::TryLockError;

#[cfg(not(feature = "shuttle"))]
use std::sync as of;

#[cfg(feature = "shuttle")]
use shuttle::sync as of;

#[cfg(not(feature = "shuttle"))]
mod imp {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic;
    pub use std::thread;
    pub use std::thread::panicking;
    pub use std::thread_local;

    /// Gives the processor to another thread.
    pub fn yield_now() {
        std::thread::yield_now();
    }

    /// Sleeps for about as long as it takes to wake.
    pub(super) fn nap() {
        std::thread::sleep(std::time::Duration::from_micros(50));
    }
}

#[cfg(feature = "shuttle")]
mod imp {
    pub use shuttle::sync::atomic;
    pub use shuttle::thread;
    pub use shuttle::thread_local;

    /// Under the checker a panic is the end of all threads, and no thread is left to be told.
    pub fn panicking() -> bool {
        false
    }

    /// Gives the turn to another thread.
    pub fn yield_now() {
        shuttle::thread::yield_now();
    }

    /// Under the checker a sleep is a yield.
    pub(super) fn nap() {
        shuttle::thread::yield_now();
    }

    /// Under the checker a spin is a yield.
    pub fn spin_loop() {
        shuttle::thread::yield_now();
    }
}

pub use imp::*;

/// Rounds in which who waits for another thread spins, and up to which it lets others have the processor.
/// Afterwards it sleeps.
const SPINS: u32 = 64;
const YIELDS_END: u32 = 2 * SPINS;

/// Waits a little for what another thread is about to do; the longer, the more rounds there were before.
pub fn pause(round: u32) {
    match round {
        0..SPINS => spin_loop(),
        SPINS..YIELDS_END => yield_now(),
        _ => imp::nap(),
    }
}

/// A mutex that a panic does not poison: who must not go on after one is told otherwise.
#[derive(Default)]
pub struct Mutex<T>(of::Mutex<T>);

/// Guard of [`Mutex`]; empty only while [`Condvar::wait`] has it.
pub struct MutexGuard<'a, T> {
    inner: Option<of::MutexGuard<'a, T>>,
    /// Under the checker a wait lets go of the mutex, and takes it again.
    #[cfg(feature = "shuttle")]
    of: &'a of::Mutex<T>,
}

impl<T> Mutex<T> {
    /// A new mutex.
    #[cfg(not(feature = "shuttle"))]
    pub const fn new(value: T) -> Self {
        Mutex(of::Mutex::new(value))
    }

    /// A new mutex.
    #[cfg(feature = "shuttle")]
    pub fn new(value: T) -> Self {
        Mutex(of::Mutex::new(value))
    }

    fn guard<'a>(&'a self, inner: of::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard {
            inner: Some(inner),
            #[cfg(feature = "shuttle")]
            of: &self.0,
        }
    }

    /// Takes it, waiting.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.guard(self.0.lock().unwrap_or_else(|e| e.into_inner()))
    }

    /// Takes it if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(inner) => Some(self.guard(inner)),
            Err(TryLockError::Poisoned(e)) => Some(self.guard(e.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// What is in it, which no other thread has.
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(|e| e.into_inner())
    }

    /// What was in it.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(|e| e.into_inner())
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard outside of a wait")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard outside of a wait")
    }
}

/// A condition variable.
#[derive(Default)]
pub struct Condvar(of::Condvar);

impl Condvar {
    /// A new condition variable.
    pub fn new() -> Self {
        Condvar(of::Condvar::new())
    }

    /// Lets go of the mutex, waits to be woken, takes it again. May wake for nothing.
    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        if let Some(inner) = guard.inner.take() {
            guard.inner = Some(self.0.wait(inner).unwrap_or_else(|e| e.into_inner()));
        }
    }

    /// As [`Condvar::wait`], but not for longer than that.
    #[cfg(not(feature = "shuttle"))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, most: std::time::Duration) {
        if let Some(inner) = guard.inner.take() {
            let woken = self.0.wait_timeout(inner, most);
            guard.inner = Some(woken.unwrap_or_else(|e| e.into_inner()).0);
        }
    }

    /// As [`Condvar::wait`], but not for ever: under the checker the time is up at once.
    #[cfg(feature = "shuttle")]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: std::time::Duration) {
        drop(guard.inner.take());
        shuttle::thread::yield_now();
        guard.inner = Some(guard.of.lock().unwrap_or_else(|e| e.into_inner()));
    }

    /// Wakes one that waits.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes all that wait.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

/// A reader-writer lock that a panic does not poison. A thread that has it shared must not ask for it again:
/// it would wait behind a writer that waits for it.
#[derive(Default)]
pub struct RwLock<T>(of::RwLock<T>);

impl<T> RwLock<T> {
    /// A new lock.
    pub fn new(value: T) -> Self {
        RwLock(of::RwLock::new(value))
    }

    /// Takes it shared, waiting.
    #[inline]
    pub fn read(&self) -> of::RwLockReadGuard<'_, T> {
        self.0.read().unwrap_or_else(|e| e.into_inner())
    }

    /// Takes it exclusively, waiting.
    pub fn write(&self) -> of::RwLockWriteGuard<'_, T> {
        self.0.write().unwrap_or_else(|e| e.into_inner())
    }
}
