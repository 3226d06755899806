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

// Folders and files need one another in one direction: those of a group only their own group and those below.

// What a user calls, and what is done through it.
#[cfg(feature = "tokio")]
pub mod aio;
mod api;
#[cfg(feature = "backup")]
mod backup;
mod changes;
mod compact;
#[cfg(feature = "control")]
pub mod control;
mod load;
mod opening;
#[cfg(feature = "planted-faults")]
mod probes;
mod range_delete;
mod range_removal;
mod snapshot;
mod stats;
mod structures;
mod transaction;
mod verify;

// What is done, over the core.
mod checkpoint;
mod ddl;
mod drops;
mod expired;
mod handle;
mod mark;
mod read;
mod recover;
mod saved;
mod table;
mod warm;
mod write;

// The core, and the parts that own its state.
mod catalog;
mod core;
#[doc(hidden)]
pub mod decoders;
mod effects;
mod options;
mod state;

// What all of them know.
#[cfg(feature = "backup")]
mod backup_set;
mod clock;
pub mod encode;
mod expires;
mod gentle;
// The programs of the guide: documentation tests alone.
#[cfg(doctest)]
mod guide;
mod histogram;
mod index;
mod kinds;
mod latency;
mod merge;
mod millis;
mod operations;
mod planted;
mod progress;

#[cfg(feature = "backup")]
pub use backup::{
    ArchivedLog, BackupContents, BackupPoint, BackupVerifyReport, ClockLeap, ExpiredPart, Follower,
    Keep, PruneReport, RestoreOptions, RestoreReport, RestoreTo, backup_contents, list_backup,
    prune_backup, restore, verify_backup,
};
#[cfg(feature = "backup")]
#[doc(hidden)]
pub use backup::{
    backup_contents_on, list_backup_on, prune_backup_on, restore_on, verify_backup_on,
};
#[cfg(feature = "backup")]
pub use backup_set::follow_options::{FollowOptions, FollowStatus};
#[cfg(feature = "backup")]
pub use backup_set::options::{BackupOptions, BackupReport};
#[cfg(feature = "backup")]
#[doc(hidden)]
pub use backup_set::text::{parse_time, text_of};
pub use catalog::info::StructureInfo;
pub use changes::{
    Change, ChangeLine, ChangedStructure, Changes, ChangesOptions, Commit, CommitLine, Place,
};
#[doc(hidden)]
pub use clock::TimeSource;
pub use compact::{CompactOptions, CompactReport};
#[cfg(feature = "control")]
pub use control::Control;
pub use expires::Expires;
pub use gentle::{Cancel, Rate};
pub use handle::database::Database;
pub use handle::map::Map;
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
pub use snapshot::{Snapshot, SnapshotMap};
pub use state::expired::ExpiryStats;
pub use state::opening::Opening;
pub use state::program::ProgramFigure;
pub use state::transactions::{LastConflict, TransactionStats};
pub use stats::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, PageStays, PagesLeft, Stats, StructureStats,
};
pub use structures::hash::Hash;
pub use structures::hash_scan::HashStep;
pub use structures::index::{IndexHandle, Keys, Rows};
pub use structures::range::Range;
pub use structures::table::Table;
pub use structures::tree::Tree;
pub use structures::unordered::Unordered;
pub use table::options::{MAX_INDEXES, TableOptions};
pub use transaction::{
    Attempted, Attempts, Committed, Reader, Savepoint, Transaction, TransactionIndex,
    TransactionOptions, TransactionRange, TransactionRows,
};
pub use verify::{VerifiedStructure, VerifyReport};
pub use write::batch::{Batch, MAX_BATCH_OPERATIONS};

/// Faults that tests plant, and what these tests look at.
#[cfg(feature = "planted-faults")]
#[doc(hidden)]
pub mod fault {
    pub use crate::planted::{Fault, Point, hook, keep_hot_in_memory, plant, set_clock_ahead};
    pub use crate::probes::{
        calm_rounds, gentle_checkpoint, has_loaded, lock_of, locks, now, passes, reader_rests,
        round, shared_locks, store, tend, waiting_for_pages,
    };
}

/// What the paper's own policy for LSM-trees is made of: for comparison, with the feature `paper`.
#[cfg(feature = "paper")]
pub mod paper {
    pub use terrace_tier::bilsm::{BiLsmOptions, Law, Rates};
}

pub use terrace_base::disk::{Disk, DiskFile, DiskRead, ReadsTogether};
pub use terrace_base::file_disk::{DirectIo, FileDisk};
pub use terrace_base::read_only::ReadOnlyDisk;
pub use terrace_base::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result, max_key_bytes};
pub use terrace_base::{FilePart, Part};
pub use terrace_tier::Estimate;
pub use terrace_wal::Durability;
