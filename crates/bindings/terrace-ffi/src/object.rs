//! What handles name.

use std::sync::Arc;

use terrace::{
    Batch, Changes, Database, Follower, IndexHandle, Loader, Map, Snapshot, SnapshotMap,
    Transaction,
};
use terrace_base::sync::Mutex;

use crate::shared::Shared;
use crate::window::Cursor;

/// What a handle names.
// Each is moved once, to where its handle finds it.
#[allow(clippy::large_enum_variant)]
pub enum Object {
    Database(Database, Arc<Shared>),
    Map(Map),
    Index(IndexHandle),
    Snapshot(Snapshot, Arc<Shared>),
    SnapshotMap(SnapshotMap),
    Batch(Mutex<Option<Batch>>),
    Cursor(Box<Mutex<Cursor>>),
    Changes(Box<Mutex<Changes>>),
    Transaction(Box<Mutex<Option<Transaction>>>, Access),
    Loader(Box<Mutex<Option<Loader>>>),
    Follower(Mutex<Option<Follower>>),
}

/// What may be done with a transaction, and who ends it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes; committed by its user.
    ByHand,
    /// Reads and writes, for one attempt.
    BorrowedTransaction,
    /// Reads, for one attempt.
    Reads,
}
