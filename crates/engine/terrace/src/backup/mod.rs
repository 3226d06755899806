//! Backup of an open database, and restoring it.
//!
//! A backup *set* is a folder with *points*, each the image of a checkpoint: the pages that were not in the
//! set yet, and a list of where each page of it is. See `docs/format-backup.md` for the files, and
//! `docs/backup.md` for how to use them.

mod check;
mod follow;
mod prune;
mod report;
mod restore;
mod rewrite;
mod select;
mod target;
mod times;
mod to_read;
mod verify;
mod worker;
mod write;

pub use follow::Follower;
pub use prune::{Keep, PruneReport, prune_backup, prune_backup_on};
pub use report::BackupVerifyReport;
pub use restore::{ExpiredPart, RestoreOptions, RestoreReport, restore, restore_on};
pub use select::RestoreTo;
pub use verify::{
    ArchivedLog, BackupContents, BackupPoint, ClockLeap, backup_contents, backup_contents_on,
    list_backup, list_backup_on, verify_backup, verify_backup_on,
};
pub use worker::follow_from_opening;
#[cfg(feature = "control")]
pub use worker::{follow_until_closed, stop_following};
