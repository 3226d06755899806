//! Why a call failed: a kind with a number that stays, and a text.

use std::fmt;

use crate::planted::{Fault, planted};

/// Shorthand for a result with a [`Failure`].
pub type Result<T> = std::result::Result<T, Failure>;

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $number:literal, $word:literal;)*) => {
        /// What went wrong, for programs. Numbers and words stay; new ones may come.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
        #[repr(u32)]
        #[non_exhaustive]
        pub enum Kind { $($(#[$doc])* $name = $number,)* }

        impl Kind {
            /// All of them, by number.
            pub const ALL: &[Kind] = &[$(Kind::$name,)*];

            /// Its word; of what the engine says, that of [`terrace::Error::kind`].
            pub fn word(self) -> &'static str {
                match self { $(Kind::$name => $word,)* }
            }
        }
    };
}

kinds! {
    /// A file holds something that Terrace did not write.
    Corrupt = 1, "corrupt";
    /// The operating system refused or failed an operation.
    Io = 2, "io";
    /// No space is left on the device. Nothing was changed.
    DiskFull = 3, "disk_full";
    /// An earlier failure stopped all writes: close and open again.
    Poisoned = 4, "poisoned";
    /// The memory given does not suffice.
    MemoryTooSmall = 5, "memory_too_small";
    /// The key is too long.
    KeyTooLong = 6, "key_too_long";
    /// The value is too long.
    ValueTooLong = 7, "value_too_long";
    /// Another process or handle has the database.
    Locked = 8, "locked";
    /// The log has to be replayed before it can be read only.
    NotClosed = 9, "not_closed";
    /// There is no structure of this name.
    NoSuchStructure = 10, "no_such_structure";
    /// There is a structure of this name already.
    StructureExists = 11, "structure_exists";
    /// Two rows would have the same key in a unique index.
    Duplicate = 12, "duplicate";
    /// The space that the snapshot kept was needed.
    SnapshotGone = 13, "snapshot_gone";
    /// A caller asked for the end of it.
    Cancelled = 14, "cancelled";
    /// The power went while a map without protection was open.
    PowerLost = 15, "power_lost";
    /// Others kept changing what a transaction had read. Nothing was changed.
    Conflict = 16, "conflict";
    /// Arguments that do not fit.
    Invalid = 17, "invalid";
    /// The handle was closed, or is none of this kind.
    Closed = 18, "closed";
    /// The handle was made before a fork, in the parent.
    Forked = 19, "forked";
    /// A panic, now or before: a defect of Terrace.
    Defect = 20, "defect";
    /// A callback said that it failed. Nothing was changed.
    Aborted = 21, "aborted";
    /// The engine says what this version of the binding has no number for.
    Unknown = 22, "unknown";
    /// The log no longer has the changes from that place on.
    ChangesGone = 23, "changes_gone";
}

impl Kind {
    /// The one with this word.
    pub fn of(word: &str) -> Option<Kind> {
        Kind::ALL.iter().copied().find(|kind| kind.word() == word)
    }

    /// The one with this number.
    pub fn of_number(number: u32) -> Option<Kind> {
        let at = (number as usize).checked_sub(1)?;
        Kind::ALL.get(at).copied()
    }
}

/// Why a call failed: what happened, where, and the way out.
#[derive(Clone, Debug)]
pub struct Failure {
    /// For programs.
    pub kind: Kind,
    /// For people; it may change.
    pub text: String,
    /// The number of the operating system's error, where it was one.
    pub os: Option<i32>,
}

impl Failure {
    /// Of this kind.
    #[cold]
    pub fn new(kind: Kind, text: impl Into<String>) -> Failure {
        let kind = match planted(Fault::ErrorKindLost) {
            true => Kind::Invalid,
            false => kind,
        };
        let (text, os) = (text.into(), None);
        Failure { kind, text, os }
    }

    /// Arguments that do not fit.
    #[cold]
    pub fn invalid(text: impl Into<String>) -> Failure {
        Failure::new(Kind::Invalid, text)
    }

    /// What a callback answers that failed.
    #[cold]
    pub fn aborted() -> Failure {
        Failure::new(
            Kind::Aborted,
            "the callback said that it failed, so nothing was changed",
        )
    }

    #[cold]
    pub(crate) fn closed(what: &str) -> Failure {
        Failure::new(
            Kind::Closed,
            format!(
                "this is no {what} that is open: it was closed, or never was one; open it again"
            ),
        )
    }

    #[cold]
    pub(crate) fn forked() -> Failure {
        Failure::new(
            Kind::Forked,
            "the database was opened before a fork, and this is the child; open it here, after the parent has \
             closed it",
        )
    }

    #[cold]
    pub(crate) fn defect(text: &str) -> Failure {
        Failure::new(
            Kind::Defect,
            format!(
                "a defect of Terrace; please report it: {text}. Close the database and open it again"
            ),
        )
    }
}

impl From<terrace::Error> for Failure {
    #[cold]
    fn from(error: terrace::Error) -> Failure {
        let kind = Kind::of(error.kind()).unwrap_or(Kind::Unknown);
        let mut failure = Failure::new(kind, error.to_string());
        if let terrace::Error::Io { source, .. } = &error {
            failure.os = source.raw_os_error();
        }
        failure
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_places_and_words_are_unique() {
        for (at, kind) in Kind::ALL.iter().enumerate() {
            assert_eq!(*kind as usize, at + 1);
            assert_eq!(Kind::of_number(*kind as u32), Some(*kind));
            assert_eq!(Kind::of(kind.word()), Some(*kind));
        }
        assert_eq!(Kind::of_number(0), None);
        assert_eq!(Kind::of_number(Kind::ALL.len() as u32 + 1), None);
    }

    #[test]
    fn every_kind_of_the_engine_has_a_number() {
        let source = include_str!("../../../engine/terrace-base/src/error.rs");
        let (_, from) = source.split_once("fn kind(&self)").unwrap();
        let (body, _) = from.split_once("\n    }\n").unwrap();
        let words: Vec<&str> = body
            .lines()
            .filter_map(|line| line.split_once("=> \"")?.1.strip_suffix("\","))
            .collect();
        assert!(words.len() >= 17, "{words:?}");
        for word in words {
            assert!(Kind::of(word).is_some(), "{word} has no number");
        }
    }
}
