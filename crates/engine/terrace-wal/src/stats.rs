//! What a log has done since it was opened, and what was found then.

use crate::lsn::Position;

/// Counters of a log since it was opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LogStats {
    /// Records appended.
    pub records: u64,
    /// Bytes of those records.
    pub record_bytes: u64,
    /// Bytes the log has grown by: records, headers, padding.
    pub log_bytes: u64,
    /// Writes to segment files.
    pub writes: u64,
    /// Sync calls for commits.
    pub syncs: u64,
    /// `Sync` commits that those served.
    pub sync_commits: u64,
    /// Most `Sync` commits that one sync has served.
    pub largest_group: u64,
    /// Segments made.
    pub segments_created: u64,
    /// Of them those that took the file of an older one.
    pub segments_reused: u64,
    /// Segments deleted.
    pub segments_deleted: u64,
}

/// What a recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryReport {
    /// Records replayed.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Segments that they lay in.
    pub segments: u64,
    /// Where the log was found to end, and the sequence number of the next record.
    pub end: Position,
    /// Whether valid blocks behind the end were dropped, or a record that was not complete: never
    /// acknowledged as durable, and lost to a power cut.
    pub dropped_tail: bool,
}
