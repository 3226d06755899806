//! The errors of Terrace: what happened, where, and the way out.

use std::sync::Arc;

/// Shorthand for a result with Terrace's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

/// Everything that can go wrong, grouped by what the caller can do about it.
///
/// Cheap to clone, because one failed write may have to be told to many waiting threads.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A file holds something that Terrace did not write, or not in this place.
    #[error("{file} is damaged{}: {what}. Way out: {way_out}", at_byte(.offset))]
    Corrupt {
        /// Name of the file inside the database directory.
        file: String,
        /// Byte offset of the damage; none where it is a page that names others wrongly, or was not on
        /// the disk yet: then `what` names the page.
        offset: Option<u64>,
        /// What was found and what was expected.
        what: String,
        /// What the user can do.
        way_out: &'static str,
    },
    /// The operating system refused or failed an operation.
    #[error("{op} {file} failed: {source}")]
    Io {
        /// The operation, as a verb: "reading", "syncing".
        op: &'static str,
        /// Name of the file inside the database directory.
        file: String,
        /// The cause.
        source: Arc<std::io::Error>,
    },
    /// No space left on the device (or the quota is used up). Nothing was changed.
    #[error(
        "the disk is full: {what}. Nothing was changed or lost; reads, deletes and checkpoints go on; free some space and write again"
    )]
    DiskFull {
        /// What needed space.
        what: String,
    },
    /// An earlier failure leaves it unknown what is on disk; nothing more is written.
    #[error(
        "the database stopped accepting writes after a failure: {cause}. Way out: close it and open it again; recovery restores everything that was acknowledged"
    )]
    Poisoned {
        /// The first failure.
        cause: String,
    },
    /// The memory given does not suffice for what is opened.
    #[error(
        "the memory limit of {given} bytes is too small: {what} needs at least {needed} bytes; raise Options::memory"
    )]
    MemoryTooSmall {
        /// What needs the memory.
        what: String,
        /// The limit in force.
        given: u64,
        /// The least that would do.
        needed: u64,
    },
    /// The power went while a map that keeps only what survives its process was open: what is in its file
    /// came to the disk in any order, so nothing of it can be believed.
    #[error(
        "{file} was open without power-fail protection when the machine went down, so what it holds cannot be believed. Way out: restore it from a backup, or start it empty (Options::discard_after_power_loss), as one would a cache; Durability::Sync or a file on persistent memory survives this"
    )]
    PowerLost {
        /// The file.
        file: String,
    },
    /// The key is longer than [`crate::MAX_KEY_BYTES`] (or than the page size allows).
    #[error(
        "a key of {len} bytes is longer than the limit of {limit} bytes; use a shorter one, a hash of it for example, and keep the long one in the value"
    )]
    KeyTooLong {
        /// Its length.
        len: usize,
        /// The limit in force.
        limit: usize,
    },
    /// The value is longer than [`crate::MAX_VALUE_BYTES`].
    #[error(
        "a value of {len} bytes is longer than the limit of {limit} bytes; divide it over several records"
    )]
    ValueTooLong {
        /// Its length.
        len: usize,
        /// The limit in force.
        limit: usize,
    },
    /// Another process (or another handle of this one) holds the database.
    #[error(
        "the database in {path} is open {}",
        if *.here {
            "in this process; its directory stays locked until every handle is dropped, also after close(): those of the database, of its structures, and iterators"
        } else {
            "elsewhere; close it there first (one process at a time)"
        }
    )]
    Locked {
        /// The directory.
        path: String,
        /// Whether it is this process that has it.
        here: bool,
    },
    /// The database was not closed after the last writes, so its log has to be replayed, which writes.
    #[error(
        "the database was not closed, and its log has to be replayed before it can be read only: who may write to its directory opens it once (Database::open, or any command of `terrace`) and closes it"
    )]
    NotClosed,
    /// There is no structure of this name.
    #[error(
        "there is no structure named \"{name}\"; look at the names that there are (Database::structures), or create it"
    )]
    NoSuchStructure {
        /// The name asked for.
        name: String,
    },
    /// There is a structure of this name already.
    #[error(
        "a structure named \"{name}\" exists already; choose another name, or open, rename or drop the one that is there"
    )]
    StructureExists {
        /// The name asked for.
        name: String,
    },
    /// Two rows of a table would have the same key in a unique index. Nothing was changed.
    #[error(
        "the unique index \"{index}\" of the table \"{table}\" has the key \"{}\" for the row \"{}\" already, so the row \"{}\" cannot have it too; nothing was changed",
        key.escape_ascii(), has_it.escape_ascii(), wants_it.escape_ascii()
    )]
    Duplicate {
        /// The name of the table.
        table: String,
        /// The name of the index.
        index: String,
        /// The key that both would have in the index.
        key: Vec<u8>,
        /// The primary key of the row that has it.
        has_it: Vec<u8>,
        /// The primary key of the row that was to get it.
        wants_it: Vec<u8>,
    },
    /// The snapshot does not hold any more: the space that it kept was needed. Nothing wrong was answered.
    #[error(
        "the snapshot taken {} seconds ago was given up: {cause}. Way out: take another one, raise Options::snapshot_space, or free some space",
        .since.elapsed().map_or(0, |age| age.as_secs())
    )]
    SnapshotGone {
        /// When it was taken.
        since: std::time::SystemTime,
        /// Why it was given up.
        cause: String,
    },
    /// The log no longer has the changes from that place on. None was passed over unseen.
    #[error(
        "the changes from number {from} on are not in the log any more: {cause}. Way out: begin anew with a snapshot (Database::changes_and_snapshot), and keep more of the log (Options::keep_changes, Options::archive_lag)"
    )]
    ChangesGone {
        /// Number of the first commit that was wanted.
        from: u64,
        /// Why they are gone.
        cause: String,
    },
    /// A caller asked for the end of it.
    #[error("cancelled: {what}")]
    Cancelled {
        /// What was ended, and how things are now.
        what: String,
    },
    /// A transaction was given up, because others kept changing what it had read. Nothing was changed.
    #[error(
        "a transaction was given up after {attempts} attempts, because others had changed what it had read: \"{}\" in \"{structure}\"; nothing was changed. Run it again, or change a single record with update or merge, which wait for nobody",
        key.escape_ascii()
    )]
    Conflict {
        /// The structure in which something had changed.
        structure: String,
        /// The key, or the first key of the range.
        key: Vec<u8>,
        /// How often it was tried.
        attempts: u32,
    },
    /// The arguments do not fit: an option out of range, a name too long, a structure of another kind.
    #[error("{what}")]
    Invalid {
        /// What does not fit and what would.
        what: String,
    },
}

impl Error {
    /// An I/O error with its operation and file; "no space" becomes [`Error::DiskFull`].
    pub fn io(op: &'static str, file: impl Into<String>, source: std::io::Error) -> Error {
        let file = file.into();
        match source.kind() {
            std::io::ErrorKind::StorageFull | std::io::ErrorKind::QuotaExceeded => {
                Error::DiskFull {
                    what: format!("{op} {file}: {source}"),
                }
            }
            _ => Error::Io {
                op,
                file,
                source: Arc::new(source),
            },
        }
    }

    /// The same; of [`Error::DiskFull`] it says how much space was needed, and how much there is.
    pub fn with_space(mut self, needed: u64, free: Option<u64>) -> Error {
        if let Error::DiskFull { what } = &mut self {
            *what += &format!(" ({} KiB are needed at least", needed.div_ceil(1024));
            *what += &match free {
                Some(free) => format!(", and {} KiB are free)", free / 1024),
                None => ")".to_owned(),
            };
        }
        self
    }

    /// A damaged file.
    pub fn corrupt(
        file: impl Into<String>,
        offset: impl Into<Option<u64>>,
        what: impl Into<String>,
    ) -> Error {
        Error::Corrupt {
            file: file.into(),
            offset: offset.into(),
            what: what.into(),
            way_out: "restore the directory from a backup; without one, what can still be read of it can be saved with `terrace dump`, if the database opens",
        }
    }

    /// The name of its kind, for programs in other languages; it stays, while texts may change.
    ///
    /// ```
    /// let error = terrace_base::Error::invalid("no");
    /// assert_eq!(error.kind(), "invalid");
    /// ```
    pub fn kind(&self) -> &'static str {
        match self {
            Error::Corrupt { .. } => "corrupt",
            Error::Io { .. } => "io",
            Error::DiskFull { .. } => "disk_full",
            Error::Poisoned { .. } => "poisoned",
            Error::MemoryTooSmall { .. } => "memory_too_small",
            Error::KeyTooLong { .. } => "key_too_long",
            Error::ValueTooLong { .. } => "value_too_long",
            Error::Locked { .. } => "locked",
            Error::NotClosed => "not_closed",
            Error::NoSuchStructure { .. } => "no_such_structure",
            Error::StructureExists { .. } => "structure_exists",
            Error::Duplicate { .. } => "duplicate",
            Error::SnapshotGone { .. } => "snapshot_gone",
            Error::ChangesGone { .. } => "changes_gone",
            Error::Cancelled { .. } => "cancelled",
            Error::PowerLost { .. } => "power_lost",
            Error::Conflict { .. } => "conflict",
            Error::Invalid { .. } => "invalid",
        }
    }

    /// Arguments that do not fit.
    pub fn invalid(what: impl Into<String>) -> Error {
        Error::Invalid { what: what.into() }
    }

    /// Whether writing works again once space is freed.
    pub fn is_disk_full(&self) -> bool {
        matches!(self, Error::DiskFull { .. })
    }

    /// Whether there is no room for more, on the disk or in the page table: what gives some back goes on.
    pub fn is_no_room(&self) -> bool {
        self.is_disk_full() || matches!(self, Error::MemoryTooSmall { .. })
    }

    /// Whether something could not be read, or is not what it should be: it fails those who need it, and
    /// no others.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Error::Corrupt { .. } | Error::Io { .. })
    }
}

fn at_byte(offset: &Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!(" at byte {offset}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_that_a_caller_can_mend_says_how() {
        let name = || "x".to_owned();
        let (len, limit) = (2, 1);
        for (error, way_out) in [
            (Error::NoSuchStructure { name: name() }, "create it"),
            (Error::StructureExists { name: name() }, "another name"),
            (Error::KeyTooLong { len, limit }, "shorter"),
            (Error::ValueTooLong { len, limit }, "divide"),
        ] {
            let text = error.to_string();
            assert!(text.contains(way_out), "{text}");
        }
    }

    #[test]
    fn damage_does_not_send_to_a_command_that_needs_an_open_database_first() {
        let text = Error::corrupt("data", None, "it is rotten").to_string();
        assert!(text.contains("backup"), "{text}");
        assert!(!text.contains("terrace verify"), "{text}");
    }
}
