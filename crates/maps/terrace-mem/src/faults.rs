//! Faults that tests plant to show that the test suite would catch them.
//!
//! Without the feature `planted-faults` every fault is off and costs nothing.

/// A mistake in the machinery, one of those that are easily made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(
    not(feature = "planted-faults"),
    allow(dead_code, reason = "some are of parts that other features turn on")
)]
#[repr(u8)]
pub enum Fault {
    /// A merge forgets that an entry of the static stage was deleted.
    DroppedTombstone = 1,
    /// A merge removes entries from the dynamic stage before the new segment is published.
    EarlyRemove = 2,
    /// A merge removes entries from the dynamic stage that were changed meanwhile.
    BlindRemove = 3,
    /// The filter's new generation serves before all keys are in it.
    EarlySwap = 4,
    /// A lookup of a byte string looks for it only in the half of a line that its hash names.
    ShortSearch = 5,
    /// A merge takes what a byte string shares with the one before it for what it shares with
    /// a new one that comes between.
    StaleShare = 6,
    /// A part without entries leaves the directory and is not marked retired.
    UnmarkedLeave = 7,
    /// A search for the first or the last entry lets go of the parts that it found empty.
    LooseEnds = 8,
    /// The parts that a map had before it was emptied are not marked retired.
    UnmarkedClear = 9,
    /// A shortcut is taken although its segment has been built anew.
    StaleShortcut = 10,
    /// A shortcut is taken that was being written while it was read.
    TornShortcut = 11,
    /// A place of a slab is given back twice.
    FreedTwice = 12,
    /// A layer of a trie of words stays when its last key is removed.
    LeftLayer = 13,
    /// A merge takes entries that are marked as used for ones that are not.
    LostMark = 14,
    /// A hot copy stays as it was when its entry is merged with another value.
    StaleCopy = 15,
    /// A hot copy is taken that was being written while it was read.
    TornCopy = 16,
    /// A segment that moves to the other memory leaves an entry behind.
    ShortMove = 17,
    /// A change goes to the place where its key was before the merge step that came between.
    StalePlace = 18,
    /// A hot copy that is lent stays when the value of its entry changes.
    KeptCopy = 19,
    /// A hot copy is made of a segment that another one has replaced.
    LateCopy = 20,
    /// Hot copies stay when the map is emptied.
    KeptTable = 21,
    /// Who writes a hot copy brings back another one that was taken out meanwhile.
    BlindUnlock = 22,
    /// A piece of the hot copies gets a part of the hashes back with what it had of them before.
    OldSlot = 23,
    /// A hot copy that is lent comes back as it was before its entry changed.
    OldReturn = 24,
}

#[cfg(feature = "planted-faults")]
static PLANTED: core::sync::atomic::AtomicU8 = core::sync::atomic::AtomicU8::new(0);

/// Plants a fault in the whole process, or none.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(
        fault.map_or(0, |f| f as u8),
        core::sync::atomic::Ordering::SeqCst,
    );
}

/// Whether the fault is planted.
#[cfg(feature = "planted-faults")]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.load(core::sync::atomic::Ordering::SeqCst) == fault as u8
}

/// Whether the fault is planted: it never is.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn planted(_: Fault) -> bool {
    false
}

/// The check of a test passes, and does not with a fault, which is planted in a process of its own: a check
/// that fails under the scheduler leaves threads behind that look into maps for ever.
#[cfg(all(test, feature = "shuttle"))]
pub(crate) fn checked(test: &str, fault: Fault, check: impl Fn()) {
    #[cfg(feature = "planted-faults")]
    {
        const FAULT: &str = "TERRACE_MEM_FAULT";
        if let Ok(wanted) = std::env::var(FAULT) {
            plant((wanted == format!("{fault:?}")).then_some(fault));
            return check();
        }
        let run = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", test])
            .env(FAULT, format!("{fault:?}"))
            // The same orders each time: what they find they find again.
            .env("SHUTTLE_RANDOM_SEED", "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&run.stdout);
        assert!(said.contains("running 1 test"), "{test}: {said}");
        assert!(!run.status.success(), "{fault:?} was not seen");
    }
    let _ = (test, fault);
    check();
}
