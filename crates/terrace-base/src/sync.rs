//! The one switch between real synchronisation and the concurrency checker.
//!
//! Code with latches takes its atomics, mutexes and threads from here; with the feature `shuttle`
//! the same code runs under the shuttle scheduler.

#[cfg(not(feature = "shuttle"))]
mod imp {
    pub use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
    pub use std::hint::spin_loop;
    pub use std::sync::atomic;
    pub use std::thread;
    pub use std::thread::panicking;

    /// Gives the processor to another thread.
    pub fn yield_now() {
        std::thread::yield_now();
    }
}

#[cfg(feature = "shuttle")]
mod imp {
    pub use shuttle::sync::atomic;
    pub use shuttle::thread;

    /// Under the checker a panic is the end of all threads, and nobody is left to be told.
    pub fn panicking() -> bool {
        false
    }

    /// Gives the turn to another thread.
    pub fn yield_now() {
        shuttle::thread::yield_now();
    }

    /// Under the checker a spin is a yield.
    pub fn spin_loop() {
        shuttle::thread::yield_now();
    }

    /// shuttle's mutex with parking_lot's manners.
    #[derive(Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);
    /// Guard of [`Mutex`]; empty only while [`Condvar::wait`] has it.
    pub struct MutexGuard<'a, T>(
        Option<shuttle::sync::MutexGuard<'a, T>>,
        &'a shuttle::sync::Mutex<T>,
    );

    impl<T> std::ops::Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_ref().expect("a guard outside of a wait")
        }
    }

    impl<T> std::ops::DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect("a guard outside of a wait")
        }
    }

    /// shuttle's condition variable with parking_lot's manners.
    #[derive(Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    impl Condvar {
        /// A new condition variable.
        pub fn new() -> Self {
            Condvar(shuttle::sync::Condvar::new())
        }

        /// Lets go of the mutex, waits to be woken, takes it again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            if let Some(inner) = guard.0.take() {
                guard.0 = Some(self.0.wait(inner).unwrap_or_else(|e| e.into_inner()));
            }
        }

        /// As [`Condvar::wait`], but not for ever: under the checker the time is up at once.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, _: std::time::Duration) {
            drop(guard.0.take());
            shuttle::thread::yield_now();
            guard.0 = Some(guard.1.lock().unwrap_or_else(|e| e.into_inner()));
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

    impl<T> Mutex<T> {
        /// A new mutex.
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        /// Takes it, waiting.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(
                Some(self.0.lock().unwrap_or_else(|e| e.into_inner())),
                &self.0,
            )
        }

        /// Takes it if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok().map(|g| MutexGuard(Some(g), &self.0))
        }

        /// What was in it.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(|e| e.into_inner())
        }
    }

    /// shuttle's reader-writer lock with parking_lot's manners.
    #[derive(Default)]
    pub struct RwLock<T>(shuttle::sync::RwLock<T>);

    impl<T> RwLock<T> {
        /// A new lock.
        pub fn new(value: T) -> Self {
            RwLock(shuttle::sync::RwLock::new(value))
        }

        /// Takes it shared, waiting.
        pub fn read(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.0.read().unwrap_or_else(|e| e.into_inner())
        }

        /// As [`RwLock::read`], for a thread that has it already: not behind those that wait for
        /// [`RwLock::write`].
        pub fn read_recursive(&self) -> shuttle::sync::RwLockReadGuard<'_, T> {
            self.read()
        }

        /// Takes it exclusively, waiting.
        pub fn write(&self) -> shuttle::sync::RwLockWriteGuard<'_, T> {
            self.0.write().unwrap_or_else(|e| e.into_inner())
        }
    }
}

pub use imp::*;
