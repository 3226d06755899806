//! What a log has done since it was opened.

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
