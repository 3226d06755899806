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
    /// A grace waits for nobody.
    NoGrace = 9,
    /// Pages that gather changes are thrown out and written like others.
    TopsAsOthers = 10,
    /// Pages leave memory that are to stay for somebody.
    StayingLeave = 11,
}

/// Where a test may step in, on the thread that gets there. No latch is held at either.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// Somebody waits at the closed gate.
    AtGate,
    /// Whoever closed the gate waits for those inside.
    Draining,
}

/// What a test does at a point.
#[cfg(feature = "planted-faults")]
pub type Hook = Box<dyn FnMut(Point)>;

#[cfg(feature = "planted-faults")]
static NOW: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

#[cfg(feature = "planted-faults")]
thread_local! {
    static HOOK: std::cell::RefCell<Option<Hook>> = const { std::cell::RefCell::new(None) };
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

/// This thread comes out. (A door that was handed to it by another thread is not counted.)
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

/// Lets this thread panic when it is about to change the page after so many others.
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

/// Lets `hook` run at every point that this thread reaches, except inside of itself.
#[cfg(feature = "planted-faults")]
pub fn hook(hook: Option<Hook>) {
    HOOK.with(|place| *place.borrow_mut() = hook);
}

/// Lets a test step in.
#[cfg(feature = "planted-faults")]
pub(crate) fn reached(point: Point) {
    let taken = HOOK.with(|place| place.borrow_mut().take());
    if let Some(mut hook) = taken {
        hook(point);
        HOOK.with(|place| *place.borrow_mut() = Some(hook));
    }
}

/// Lets a test step in.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn reached(_: Point) {}

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
