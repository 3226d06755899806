//! Forgetting points.
//!
//! Invariant: the manifest forgets a point before any file of it goes, and a file of pages stays as long as a
//! point that is left names it.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use super::manifest::{LogFile, Manifest};
use super::maps::MapReader;
use super::names::{log_name, map_name, pages_name};
use super::set_disk;
use super::verify::manifest;
use super::write::remove_leftovers;

/// What pruning came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Points that are left.
    pub kept: Vec<u64>,
    /// Points that were forgotten.
    pub forgotten: Vec<u64>,
    /// Bytes that the set is shorter by.
    pub freed_bytes: u64,
}

/// Forgets all points of the backup set in a folder but the newest `keep`, and deletes what only they
/// needed. The newest point always stays.
///
/// # Errors
/// When there is no set, or a point that is to stay is damaged: then nothing is deleted.
pub fn prune_backup(set: impl AsRef<Path>, keep: usize) -> Result<PruneReport> {
    prune_backup_on(set_disk(set.as_ref())?, keep)
}

/// The same on any disk.
#[doc(hidden)]
pub fn prune_backup_on(disk: Arc<dyn Disk>, keep: usize) -> Result<PruneReport> {
    let mut set = manifest(&*disk)?;
    let before = set.page_files();
    let first = set.points.len().saturating_sub(keep.max(1));
    let forgotten: Vec<_> = set.points.drain(..first).collect();
    let mut report = PruneReport {
        kept: set.points.iter().map(|point| point.point).collect(),
        forgotten: forgotten.iter().map(|point| point.point).collect(),
        freed_bytes: 0,
    };
    let mut needed = BTreeSet::new();
    for point in &set.points {
        let mut map = MapReader::open(&*disk, set.set, point.point, point.map)?;
        while let Some(entry) = map.next()? {
            needed.insert(entry.file);
        }
    }
    let own = |file: &u64| set.points.iter().any(|point| point.point == *file);
    let older = before
        .iter()
        .filter(|(file, _)| needed.contains(file) && !own(file));
    set.older_pages = older.map(|(file, bytes)| (*file, *bytes)).collect();
    let forgotten_logs = forget_logs(&mut set);
    set.write(&disk)?;
    let mut delete = |name: String, bytes: u64| match disk.delete(&name) {
        Ok(()) => {
            report.freed_bytes += bytes;
            Ok(())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("deleting", name, e)),
    };
    for point in &forgotten {
        delete(map_name(point.point), point.map.bytes)?;
    }
    for (file, bytes) in before {
        if !needed.contains(&file) && !own_file(&set, file) {
            delete(pages_name(file), bytes)?;
        }
    }
    for log in forgotten_logs {
        delete(log_name(log.file), log.bytes)?;
    }
    remove_leftovers(&disk, &set)?;
    disk.sync_directory()
        .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
    Ok(report)
}

fn own_file(set: &Manifest, file: u64) -> bool {
    set.points.iter().any(|point| point.point == file)
}

/// Forgets archived log that leads from no point anywhere; what was forgotten.
fn forget_logs(set: &mut Manifest) -> Vec<LogFile> {
    let points = &set.points;
    let is_needed = |log: &LogFile| {
        let of_chain = points.iter().filter(|point| point.chain == Some(log.chain));
        let mut from = of_chain.map(|point| point.log.sequence);
        from.any(|from| from < log.next)
    };
    // The last file stays: who follows goes on with it.
    let last = set.logs.last().map(|log| log.file);
    let keeps = |log: &LogFile| is_needed(log) || Some(log.file) == last;
    let (kept, forgotten) = std::mem::take(&mut set.logs).into_iter().partition(keeps);
    set.logs = kept;
    forgotten
}
