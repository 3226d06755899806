//! Faults that tests plant to show that they would be caught.

/// A mistake that this crate could have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
pub enum Fault {
    /// Undo brings rows back and forgets the indexes.
    UndoForgetsIndexes,
    /// Undo goes forward instead of backwards.
    UndoForward,
    /// A row that moves to another place leaves its old one in the indexes.
    IndexKeepsOldPlace,
    /// A duplicate is seen only after the row has been changed.
    DuplicateSeenLate,
    /// A list that became long is not looked for among the long ones.
    LongListForgotten,
    /// A row that is deleted is forgotten while the disk has an image of it.
    DeletedAndForgotten,
    /// The filter is not told of a row that is written down.
    FilterForgets,
    /// That a row has left memory is not told to those who read it before.
    VersionStays,
    /// A row is taken into memory as it was read, whatever has happened since.
    StaleRowTaken,
    /// Free slots of chunks are not counted as memory, and stay.
    FreeSlotsUncounted,
    /// Chunks that have few rows are kept as they are.
    ChunksStaySparse,
    /// A closure that has run in vain very often lets its partitions go between runs.
    LetsGo,
    /// Rows leave memory only after a transaction that is kept.
    RoomOnlyOnSuccess,
    /// A table that could not be made leaves what was made of it.
    HalfATable,
    /// A filter that is made anew is not told of all keys.
    MadeAnewInPart,
}

#[cfg(feature = "planted-faults")]
mod planting {
    use super::Fault;
    use std::cell::Cell;

    thread_local!(static PLANTED: Cell<Option<Fault>> = const { Cell::new(None) });
    thread_local!(static BETWEEN: Cell<Option<Box<dyn FnMut()>>> = const { Cell::new(None) });

    /// Calls this from now on in this thread each time that a transaction has let its partitions go to run again; and
    /// not for transactions that are run by it.
    pub fn between_runs(f: Option<Box<dyn FnMut()>>) {
        BETWEEN.set(f);
    }

    /// A transaction has let its partitions go.
    pub(crate) fn let_go() {
        if let Some(mut f) = BETWEEN.take() {
            f();
            BETWEEN.set(Some(f));
        }
    }

    /// Makes this mistake from now on in this thread; none with `None`.
    pub fn plant(fault: Option<Fault>) {
        PLANTED.set(fault);
    }

    /// Whether this mistake is to be made.
    pub(crate) fn planted(fault: Fault) -> bool {
        PLANTED.get() == Some(fault)
    }
}

#[cfg(feature = "planted-faults")]
pub use planting::{between_runs, plant};
#[cfg(feature = "planted-faults")]
pub(crate) use planting::{let_go, planted};

/// Never.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn planted(_: Fault) -> bool {
    false
}

/// Does nothing: faults are not planted.
#[cfg(not(feature = "planted-faults"))]
#[inline(always)]
pub(crate) fn let_go() {}
