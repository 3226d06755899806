//! Faults that tests plant to show that the test suite would catch them.
//!
//! Without the feature `planted-faults` every fault is off and costs nothing.

/// A mistake in the machinery, one of those that are easily made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Fault {
    /// A list of moves is used although another node lies at its place by now.
    StaleList = 1,
    /// The slot that a moved node leaves is not freed.
    SlotKept = 2,
    /// The slot that a moved node leaves is freed twice.
    SlotFreedTwice = 3,
    /// The new handle of a moved node is stored in the place of the next child.
    WrongPlace = 4,
    /// A node is copied to the other memory, its handle keeps the old tier bit.
    WrongTierBit = 5,
    /// What is split off an inner node is slow although it gets fast children.
    SlowSibling = 6,
    /// A new root is slow although the old one is fast.
    SlowRoot = 7,
    /// A promotion begins with the node instead of the uppermost slow one above it.
    BottomUp = 8,
    /// A demotion does not look at the children.
    BlindDemotion = 9,
    /// The heat of a node that was freed stays for whoever gets its slot.
    HeatInherited = 10,
    /// A node that moves leaves its heat behind.
    HeatLeftBehind = 11,
    /// The budget counts nodes as if all were as large as a leaf.
    BudgetInNodes = 12,
    /// The threshold lets the bin in that no longer fits.
    ThresholdExceeds = 13,
    /// One slice of the heat is halved twice in a cooling.
    CooledTwice = 14,
    /// Two nodes are merged into the slow one although the other has fast children.
    SlowMerge = 15,
    /// A promotion takes room beyond its bound.
    BoundIgnored = 16,
    /// The bytes of a key that goes are still counted.
    KeyBytesKept = 17,
}

#[cfg(feature = "planted-faults")]
static PLANTED: std::sync::atomic::AtomicU8 = std::sync::atomic::AtomicU8::new(0);

/// Plants a fault in the whole process, or none.
#[cfg(feature = "planted-faults")]
pub fn plant(fault: Option<Fault>) {
    PLANTED.store(
        fault.map_or(0, |f| f as u8),
        std::sync::atomic::Ordering::SeqCst,
    );
}

/// Whether the fault is planted.
#[cfg(feature = "planted-faults")]
pub(crate) fn planted(fault: Fault) -> bool {
    PLANTED.load(std::sync::atomic::Ordering::SeqCst) == fault as u8
}

/// Whether the fault is planted: it never is.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn planted(_: Fault) -> bool {
    false
}
