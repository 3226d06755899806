//! Taking away what was cut off before a manifest named it.

use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::backup_set::manifest::Manifest;

/// Deletes what a backup left that was cut off.
pub fn remove_leftovers(disk: &Arc<dyn Disk>, set: &Manifest) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the folder of the backup set", e))?;
    for name in names.iter().filter(|name| set.is_leftover(name)) {
        disk.delete(name)
            .map_err(|e| Error::io("deleting", name, e))?;
    }
    Ok(())
}

/// Deletes archived log that was cut off before a manifest named it. The caller alone changes the set.
pub fn remove_log_leftovers(disk: &Arc<dyn Disk>, set: &Manifest) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the folder of the backup set", e))?;
    for name in names.iter().filter(|name| set.is_log_leftover(name)) {
        disk.delete(name)
            .map_err(|e| Error::io("deleting", name, e))?;
    }
    Ok(())
}
