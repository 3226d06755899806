//! Faults planted on purpose, one at a time, so that a test can show that it would be noticed.
//!
//! Without the feature `planted-faults` none of this is in the program.

/// What can be broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Planted {
    /// Nothing.
    None = 0,
    /// The checkpointer writes a page as it is, not as it was at the cut.
    UndoNotApplied = 1,
    /// A page that the cut still needs is freed without handing over its content.
    FreedWithoutCopy = 2,
    /// A page write is counted to the epoch in which it completes.
    EpochAtCompletion = 3,
    /// A page that was changed while it was being written counts as clean.
    CleanThoughChanged = 4,
    /// A page in memory does not learn that its place is in another layer by now.
    RetagLost = 5,
}

#[cfg(feature = "planted-faults")]
static NOW: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Breaks one thing in all stores of this process, until told otherwise.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Planted) {
    NOW.store(fault as u8, std::sync::atomic::Ordering::SeqCst);
}

/// Whether this is broken at present.
#[cfg(feature = "planted-faults")]
pub(crate) fn planted(fault: Planted) -> bool {
    NOW.load(std::sync::atomic::Ordering::SeqCst) == fault as u8
}

/// Whether this is broken at present.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn planted(_: Planted) -> bool {
    false
}
