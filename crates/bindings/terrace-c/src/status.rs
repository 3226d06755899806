//! What calls answer: a status, and what went wrong.
#![allow(non_camel_case_types)]

use std::ffi::{CStr, CString};

use terrace_ffi::{Failure, Kind};

macro_rules! words {
    ($($kind:ident = $word:literal,)*) => {
        /// The word of a kind, for C.
        pub fn word(kind: Kind) -> &'static CStr {
            match kind {
                $(Kind::$kind => $word,)*
                _ => c"unknown",
            }
        }
    };
}

words! {
    Corrupt = c"corrupt", Io = c"io", DiskFull = c"disk_full", Poisoned = c"poisoned",
    MemoryTooSmall = c"memory_too_small", KeyTooLong = c"key_too_long", ValueTooLong = c"value_too_long",
    Locked = c"locked", NotClosed = c"not_closed", NoSuchStructure = c"no_such_structure",
    StructureExists = c"structure_exists", Duplicate = c"duplicate", SnapshotGone = c"snapshot_gone",
    Cancelled = c"cancelled", PowerLost = c"power_lost", Conflict = c"conflict", Invalid = c"invalid",
    Closed = c"closed", Forked = c"forked", Defect = c"defect", Aborted = c"aborted",
    ChangesGone = c"changes_gone",
}

/// What a call answers. Numbers stay; new ones may come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(C)]
pub enum terrace_status {
    /// It did what it was to do.
    TERRACE_OK = 0,
    /// A file holds something that Terrace did not write.
    TERRACE_CORRUPT = 1,
    /// The operating system refused or failed an operation; see terrace_error_os.
    TERRACE_IO = 2,
    /// No space is left on the device. Nothing was changed.
    TERRACE_DISK_FULL = 3,
    /// An earlier failure stopped all writes: close and open again.
    TERRACE_POISONED = 4,
    /// The memory given does not suffice.
    TERRACE_MEMORY_TOO_SMALL = 5,
    /// The key is too long.
    TERRACE_KEY_TOO_LONG = 6,
    /// The value is too long.
    TERRACE_VALUE_TOO_LONG = 7,
    /// Another process or handle has the database.
    TERRACE_LOCKED = 8,
    /// The log has to be replayed before it can be read only.
    TERRACE_NOT_CLOSED = 9,
    /// There is no structure of this name.
    TERRACE_NO_SUCH_STRUCTURE = 10,
    /// There is a structure of this name already.
    TERRACE_STRUCTURE_EXISTS = 11,
    /// Two rows would have the same key in a unique index.
    TERRACE_DUPLICATE = 12,
    /// The space that the snapshot kept was needed.
    TERRACE_SNAPSHOT_GONE = 13,
    /// A caller asked for the end of it.
    TERRACE_CANCELLED = 14,
    /// The power went while a map without protection was open.
    TERRACE_POWER_LOST = 15,
    /// Others changed what a transaction had read. Nothing was changed; begin it again.
    TERRACE_CONFLICT = 16,
    /// Arguments that do not fit: NULL where something is needed, a length that cannot be, another kind.
    TERRACE_INVALID = 17,
    /// The handle was closed, or is none of this kind.
    TERRACE_CLOSED = 18,
    /// The handle was made before a fork, in the parent.
    TERRACE_FORKED = 19,
    /// A defect of Terrace. The database refuses everything until it is opened again.
    TERRACE_DEFECT = 20,
    /// A callback said that it failed. Nothing was changed.
    TERRACE_ABORTED = 21,
    /// Something that this version has no number for.
    TERRACE_UNKNOWN = 22,
    /// The log no longer has the changes from that place on.
    TERRACE_CHANGES_GONE = 23,
}

impl terrace_status {
    pub fn of(kind: Kind) -> terrace_status {
        use terrace_status::*;
        match kind {
            Kind::Corrupt => TERRACE_CORRUPT,
            Kind::Io => TERRACE_IO,
            Kind::DiskFull => TERRACE_DISK_FULL,
            Kind::Poisoned => TERRACE_POISONED,
            Kind::MemoryTooSmall => TERRACE_MEMORY_TOO_SMALL,
            Kind::KeyTooLong => TERRACE_KEY_TOO_LONG,
            Kind::ValueTooLong => TERRACE_VALUE_TOO_LONG,
            Kind::Locked => TERRACE_LOCKED,
            Kind::NotClosed => TERRACE_NOT_CLOSED,
            Kind::NoSuchStructure => TERRACE_NO_SUCH_STRUCTURE,
            Kind::StructureExists => TERRACE_STRUCTURE_EXISTS,
            Kind::Duplicate => TERRACE_DUPLICATE,
            Kind::SnapshotGone => TERRACE_SNAPSHOT_GONE,
            Kind::Cancelled => TERRACE_CANCELLED,
            Kind::PowerLost => TERRACE_POWER_LOST,
            Kind::Conflict => TERRACE_CONFLICT,
            Kind::Invalid => TERRACE_INVALID,
            Kind::Closed => TERRACE_CLOSED,
            Kind::Forked => TERRACE_FORKED,
            Kind::Defect => TERRACE_DEFECT,
            Kind::Aborted => TERRACE_ABORTED,
            Kind::ChangesGone => TERRACE_CHANGES_GONE,
            _ => TERRACE_UNKNOWN,
        }
    }
}

/// What went wrong, in full. Give it back with terrace_error_free.
pub struct terrace_error {
    pub(crate) failure: Failure,
    pub(crate) text: CString,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_status_and_word() {
        for kind in Kind::ALL {
            assert_eq!(terrace_status::of(*kind) as u32, *kind as u32);
            assert_eq!(word(*kind).to_str(), Ok(kind.word()));
        }
        let shown = format!("{:?}", terrace_status::of(Kind::DiskFull));
        assert_eq!(shown, "TERRACE_DISK_FULL");
        for kind in Kind::ALL {
            let name = format!("{:?}", terrace_status::of(*kind));
            assert_eq!(name, format!("TERRACE_{}", kind.word().to_uppercase()));
        }
    }
}
