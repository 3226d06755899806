//! How an opening went, for users.

/// How an opening went.
#[derive(Clone, Copy, Debug, Default, PartialEq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Opening {
    /// Whether the database was made by it.
    pub created: bool,
    /// Whether pages are read and written around the cache of the operating system; `false` where it was
    /// not to be or the file system refuses it, and then that cache takes memory beyond the limit.
    /// `None` on a disk without such a cache.
    pub direct_io: Option<bool>,
    /// Log records replayed.
    pub replayed_records: u64,
    /// Changes that were in them.
    pub replayed_operations: u64,
    /// Bytes of these records.
    pub replayed_bytes: u64,
    /// Whether the log ended in something that a power cut had left incomplete.
    pub dropped_tail: bool,
    /// How long the replay took.
    pub replay_seconds: f64,
    /// How long all of it took.
    pub seconds: f64,
}
