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

    /// Gives the processor to another thread.
    pub fn yield_now() {
        std::thread::yield_now();
    }
}

#[cfg(feature = "shuttle")]
mod imp {
    pub use shuttle::sync::atomic;
    pub use shuttle::thread;

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
    /// Guard of [`Mutex`].
    pub type MutexGuard<'a, T> = shuttle::sync::MutexGuard<'a, T>;

    impl<T> Mutex<T> {
        /// A new mutex.
        pub fn new(value: T) -> Self {
            Mutex(shuttle::sync::Mutex::new(value))
        }

        /// Takes it, waiting.
        pub fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(|e| e.into_inner())
        }

        /// Takes it if it is free.
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            self.0.try_lock().ok()
        }
    }
}

pub use imp::*;
