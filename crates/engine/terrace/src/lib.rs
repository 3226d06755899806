//! Terrace: an embedded, durable key-value engine for data larger than memory whose accesses are
//! skewed.
//!
//! You give it one number, the memory it may use, and it keeps the *records* that you use in that
//! memory, not the *pages* that they happen to lie on. Begin with [`Database::open`].
//!
//! What it promises:
//! - A write that returned with [`Durability::Sync`] survives a power cut, one with
//!   [`Durability::Buffered`] a crash of the process. What survives is always a prefix of the order
//!   of commits, and a [`Batch`] survives whole or not at all.
//! - Everything that Terrace keeps fits [`Options::memory`]; see [`Stats::memory`].
//! - Damaged files are errors, never wrong values.
//!
//! Layers, downwards: this crate, the two-tier composition and the access methods, the page store
//! and the log. ARCHITECTURE.md has the rules, docs/decisions/ the reasons.

#![forbid(unsafe_code)]

// What a user holds and calls.
#[cfg(feature = "tokio")]
pub mod aio;
mod api;
#[cfg(feature = "backup")]
mod backup;
mod changes;
#[cfg(feature = "control")]
pub mod control;
mod snapshot;
mod transaction;

// What is done, over the core.
mod checkpoint;
mod compact;
mod drops;
mod expired;
mod load;
mod mark;
mod read;
mod recover;
mod stats;
mod table;
mod verify;
mod write;

// The core, and the parts that own its state; those of what is above lie there, in `state.rs` and the like.
mod catalog;
mod core;
mod index;
mod kinds;
mod passes;

// What all of them know.
mod clock;
#[doc(hidden)]
pub mod decoders;
mod effects;
pub mod encode;
mod gentle;
// The programs of the guide: documentation tests alone.
#[cfg(doctest)]
mod guide;
mod histogram;
mod latency;
mod merge;
mod millis;
mod options;
mod planted;
#[cfg(feature = "planted-faults")]
mod probes;
mod progress;
mod range_cut;
mod range_removal;

pub use api::database::Database;
pub use api::expiring::Expires;
pub use api::hash::Hash;
pub use api::hash_scan::HashStep;
pub use api::index::{IndexHandle, Keys, Rows};
pub use api::map::Map;
pub use api::range::Range;
pub use api::table::Table;
pub use api::tree::Tree;
pub use api::unordered::Unordered;
#[cfg(feature = "backup")]
pub use backup::{
    ArchivedLog, BackupContents, BackupOptions, BackupPoint, BackupReport, BackupVerifyReport,
    ClockLeap, ExpiredPart, FollowOptions, FollowStatus, Follower, Keep, PruneReport,
    RestoreOptions, RestoreReport, RestoreTo, backup_contents, list_backup, prune_backup, restore,
    verify_backup,
};
#[cfg(feature = "backup")]
#[doc(hidden)]
pub use backup::{
    backup_contents_on, list_backup_on, parse_time, prune_backup_on, restore_on, text_of,
    verify_backup_on,
};
pub use catalog::change::StructureInfo;
pub use changes::{
    Change, ChangeLine, ChangedStructure, Changes, ChangesOptions, Commit, CommitLine, Place,
};
#[doc(hidden)]
pub use clock::TimeSource;
pub use compact::{CompactOptions, CompactReport};
#[cfg(feature = "control")]
pub use control::Control;
pub use expired::counts::ExpiryStats;
pub use gentle::{Cancel, Rate};
pub use histogram::Summary;
pub use index::definition::{Index, IndexInfo, KeySource};
pub use kinds::Kind;
pub use kinds::spec::{
    Compression, HashOptions, LsmOptions, MAX_NAME_BYTES, MapOptions, Policy, Tiers, TreeOptions,
};
pub use latency::{Call, CallStats, Latency};
pub use load::Loader;
pub use mark::Mark;
pub use merge::Merge;
#[cfg(feature = "paper")]
pub use options::SweepOrder;
pub use options::{MemoryStats, Options};
pub use progress::{Progress, Work};
pub use range_removal::RemoveOptions;
pub use recover::opening::Opening;
pub use snapshot::{Snapshot, SnapshotMap};
pub use stats::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, ProgramFigure, Stats, StructureStats,
};
pub use table::options::{MAX_INDEXES, TableOptions};
pub use transaction::{
    Attempted, Attempts, Committed, LastConflict, Reader, Savepoint, Transaction, TransactionIndex,
    TransactionOptions, TransactionRange, TransactionRows, TransactionStats,
};
pub use verify::{VerifiedStructure, VerifyReport};
pub use write::batch::{Batch, MAX_BATCH_OPERATIONS};

/// Faults that tests plant, and what these tests look at.
#[cfg(feature = "planted-faults")]
#[doc(hidden)]
pub mod fault {
    pub use crate::planted::{Fault, plant, set_clock_ahead};
    pub use crate::probes::{calm_rounds, lock_of, locks, now, round, shared_locks, store, tend};
}

/// What the paper's own policy for LSM-trees is made of: for comparison, with the feature `paper`.
#[cfg(feature = "paper")]
pub mod paper {
    pub use terrace_tier::bilsm::{BiLsmOptions, Law, Rates};
}

pub use terrace_base::disk::{Disk, DiskFile};
pub use terrace_base::file_disk::{DirectIo, FileDisk};
pub use terrace_base::read_only::ReadOnlyDisk;
pub use terrace_base::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result, max_key_bytes};
pub use terrace_base::{FilePart, Part};
pub use terrace_tier::Estimate;
pub use terrace_wal::Durability;
