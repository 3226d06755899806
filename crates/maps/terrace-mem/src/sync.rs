//! The primitives of the concurrent map, and of shortcuts: those of `std`, or those of a randomised scheduler.

#[cfg(all(feature = "concurrent", not(feature = "shuttle")))]
pub use std::sync::{Arc, Condvar, Mutex, RwLock};
#[cfg(all(feature = "concurrent", not(feature = "shuttle")))]
pub use std::thread;

#[cfg(feature = "shuttle")]
pub use shuttle::{
    sync::{Arc, Condvar, Mutex, RwLock},
    thread,
};

#[cfg(not(all(feature = "shuttle", test)))]
pub use core::sync::atomic;
/// Those of the scheduler in tests of this crate's own modules alone: others use maps without it, too.
#[cfg(all(feature = "shuttle", test))]
pub use shuttle::sync::atomic;

/// A place where another thread may come in between: for the scheduler, nothing otherwise.
#[cfg(feature = "concurrent")]
#[inline(always)]
pub fn between() {
    #[cfg(feature = "shuttle")]
    shuttle::hint::spin_loop();
}
