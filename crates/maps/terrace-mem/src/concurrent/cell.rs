//! A shared value that is replaced as a whole; the old one is freed when no reader is left.
//!
//! One of the files with `unsafe`: epoch-based reclamation. What always holds: the pointer is
//! never null and was made by `Owned::new`; a replaced value is unreachable for new readers
//! before its destruction is deferred, and destroyed once.

use crate::sync::between;
use crossbeam_epoch::{self as epoch, Atomic, Guard, Owned};
use std::sync::atomic::Ordering;

/// Frees what was replaced and no reader can see any more. Otherwise it would wait until this
/// thread has replaced some dozens of values, and some thread has looked into maps a hundred times.
/// Drops users' values, so no lock may be held.
pub fn free() {
    // Each round lets an epoch pass where no reader is left behind; what was replaced in one is
    // freed two epochs later.
    for _ in 0..3 {
        epoch::pin().flush();
    }
}

/// A value that many read and few replace.
pub struct EpochCell<T>(Atomic<T>);

impl<T: Send + Sync + 'static> EpochCell<T> {
    /// A cell with a value.
    pub fn new(val: T) -> Self {
        EpochCell(Atomic::new(val))
    }

    /// The value as of now; it stays for as long as the guard and the cell do.
    #[inline]
    pub fn load<'g>(&'g self, guard: &'g Guard) -> &'g T {
        between();
        let now = self.0.load(Ordering::Acquire, guard);
        // SAFETY: never null, and what a pinned guard sees is not freed before it is unpinned; the
        // drop of the cell, which frees it at once, comes after the borrow.
        unsafe { now.deref() }
    }

    /// Replaces the value; the old one is destroyed when no guard from before is left.
    pub fn store(&self, val: T, guard: &Guard) {
        between();
        let old = self.0.swap(Owned::new(val), Ordering::AcqRel, guard);
        // SAFETY: the swap made `old` unreachable for later guards, and no one else got it from
        // a swap, so it is deferred once.
        unsafe { guard.defer_destroy(old) };
        between();
    }
}

impl<T> Drop for EpochCell<T> {
    fn drop(&mut self) {
        // SAFETY: `&mut self` means that no reader is left; the pointer is from `Owned::new` and
        // is not used again.
        drop(unsafe { std::mem::replace(&mut self.0, Atomic::null()).into_owned() });
    }
}
