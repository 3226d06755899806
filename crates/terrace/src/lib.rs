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

#[cfg(feature = "backup")]
mod backup;
mod batch;
mod catalog;
mod checkpoint;
mod compact;
#[cfg(feature = "control")]
pub mod control;
mod core;
mod database;
mod database_open;
#[doc(hidden)]
pub mod decoders;
mod drops;
mod effects;
pub mod encode;
mod gentle;
mod handle;
mod hash;
mod histogram;
mod kinds;
mod load;
mod many;
mod map;
mod mark;
mod merge;
mod methods;
mod naming;
mod open;
mod opened;
mod opening;
mod options;
mod ordered;
mod passes;
mod planted;
#[cfg(feature = "planted-faults")]
mod probes;
mod progress;
mod range;
mod registry;
mod replay;
mod snapshot;
mod spec;
mod stats;
mod stats_table;
mod structures;
mod table;
mod transaction;
mod tree;
mod unordered;
mod verify;
mod write;

#[cfg(feature = "backup")]
pub use backup::{
    ArchivedLog, BackupContents, BackupOptions, BackupPoint, BackupReport, BackupVerifyReport,
    FollowOptions, FollowStatus, Follower, Keep, PruneReport, RestoreOptions, RestoreReport,
    RestoreTo, backup_contents, list_backup, prune_backup, restore, verify_backup,
};
#[cfg(feature = "backup")]
#[doc(hidden)]
pub use backup::{
    backup_contents_on, list_backup_on, parse_time, prune_backup_on, restore_on, text_of,
    verify_backup_on,
};
pub use batch::{Batch, MAX_BATCH_OPERATIONS};
pub use compact::{CompactOptions, CompactReport};
#[cfg(feature = "control")]
pub use control::Control;
pub use database::Database;
pub use gentle::{Cancel, Rate};
pub use hash::Hash;
pub use histogram::Summary;
pub use load::Loader;
pub use map::Map;
pub use mark::Mark;
pub use merge::Merge;
pub use naming::StructureInfo;
pub use opening::Opening;
#[cfg(feature = "paper")]
pub use options::SweepOrder;
pub use options::{MemoryStats, Options};
pub use progress::{Progress, Work};
pub use range::Range;
pub use snapshot::{Snapshot, SnapshotMap};
pub use spec::{
    Compression, HashOptions, Kind, LsmOptions, MAX_NAME_BYTES, MapOptions, Policy, Tiers,
    TreeOptions,
};
pub use stats::{
    CheckpointInfo, CheckpointStats, DropStats, LevelStats, LoaderStats, LogFigures, LsmStats,
    PageStats, Stats, StructureStats,
};
pub use table::{
    Index, IndexHandle, IndexInfo, KeySource, Keys, MAX_INDEXES, Rows, Table, TableOptions,
};
pub use transaction::{
    Committed, LastConflict, Reader, Savepoint, Transaction, TransactionIndex, TransactionOptions,
    TransactionRange, TransactionRows, TransactionStats,
};
pub use tree::Tree;
pub use unordered::Unordered;
pub use verify::{VerifiedStructure, VerifyReport};

/// Faults that tests plant, and what these tests look at.
#[cfg(feature = "planted-faults")]
#[doc(hidden)]
pub mod fault {
    pub use crate::planted::{Fault, plant};
    pub use crate::probes::{calm_rounds, lock_of, locks, shared_locks, store};
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
pub use terrace_tier::Estimate;
pub use terrace_wal::Durability;
