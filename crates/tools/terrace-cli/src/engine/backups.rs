//! The calls for backup, restore, marks and compaction.

use anyhow::Result;
use std::path::Path;

pub use terrace::{
    BackupOptions, BackupPoint, ClockLeap, CompactOptions, ExpiredPart, FollowOptions,
    FollowStatus, Keep, Mark, Rate, RestoreOptions, RestoreTo, backup_contents, parse_time,
    prune_backup, restore, text_of, verify_backup,
};

use super::Db;

impl Db {
    /// Adds a point to the backup set in a folder.
    pub fn backup(&self, set: &Path, options: BackupOptions<'_>) -> Result<terrace::BackupReport> {
        Ok(self.inner.backup(set, options)?)
    }

    /// Makes pages full and the file short.
    pub fn compact(&self, options: CompactOptions<'_>) -> Result<terrace::CompactReport> {
        Ok(self.inner.compact(options)?)
    }

    /// Marks this place in the order of changes.
    pub fn mark(&self, name: &str) -> Result<Mark> {
        Ok(self.inner.mark(name)?)
    }
}
