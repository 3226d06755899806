//! Faults planted on purpose, one at a time, so that a test can show that it would be noticed, and points
//! at which a test steps in between.
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
    /// A cut does not wait for those who are inside the gate.
    GateNotDrained = 6,
    /// The cleaner is inside the gate while it writes.
    CleanerEnters = 7,
    /// The checkpointer is inside the gate while it writes pages.
    CutWritesEnter = 8,
    /// A grace waits for no thread.
    NoGrace = 9,
    /// Pages that gather changes are thrown out and written like others.
    TopsAsOthers = 10,
    /// Pages leave memory that are to stay for a caller.
    StayingLeave = 11,
    /// The cap of hot pages goes up and down with pages that gather changes.
    CapFollowsTops = 12,
    /// No numbers of pages are kept back for those who give pages back.
    NoNumbersKept = 13,
    /// Of pages that are read together no caller learns that one could not be read.
    ErrorsAreForgotten = 14,
    /// A page that could not be read with others stays one that is being read.
    ClaimsAreLost = 15,
    /// Pages of hot tiers that lie in memory alone are dirty, and so get a place.
    HotGetsPlace = 16,
    /// No slots are kept free for what lies in memory alone.
    SavingUnpromised = 17,
    /// As many frames are lent as if pages in memory alone could leave.
    LentAsIfHotCouldLeave = 18,
    /// The data file grows as long as the disk has anything.
    DataTakesAllSpace = 19,
    /// What is saved is expected to take no more slots than it had before.
    GrowthUnpromised = 20,
}

/// Where a test may step in, on the thread that gets there. No latch is held at either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// A thread waits at the closed gate.
    AtGate,
    /// Whoever closed the gate waits for those inside.
    Draining,
}

terrace_base::points_of_threads!(feature = "planted-faults", Point);

#[cfg(feature = "planted-faults")]
thread_local! {
    static PANIC_IN: std::cell::Cell<Option<u32>> = const { std::cell::Cell::new(None) };
    static ENTERED: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Whether this thread is inside the gate of any store.
#[cfg(feature = "planted-faults")]
pub fn is_inside() -> bool {
    ENTERED.get() > 0
}

/// This thread goes in.
#[cfg(feature = "planted-faults")]
pub(crate) fn entered() {
    ENTERED.set(ENTERED.get() + 1);
}

/// This thread comes out. (A write guard that was handed to it by another thread is not counted.)
#[cfg(feature = "planted-faults")]
pub(crate) fn left() {
    ENTERED.set(ENTERED.get().saturating_sub(1));
}

/// This thread goes in.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn entered() {}

/// This thread comes out.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn left() {}

/// Lets this thread panic when it is about to change the page after this many others.
#[cfg(feature = "planted-faults")]
pub fn panic_after(changes: Option<u32>) {
    PANIC_IN.set(changes);
}

/// This thread is about to change a page.
#[cfg(feature = "planted-faults")]
#[inline]
pub(crate) fn changing() {
    if let Some(left) = PANIC_IN.get() {
        PANIC_IN.set(left.checked_sub(1));
        assert!(left > 0, "a panic that a test has asked for");
    }
}

/// This thread is about to change a page.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn changing() {}

mod planting {
    use super::Planted;

    terrace_base::faults_of_processes!(feature = "planted-faults", Planted);
}

pub(crate) use planting::planted;

/// Breaks one thing in all stores of this process, until told otherwise.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Planted) {
    planting::plant(Some(fault));
}
