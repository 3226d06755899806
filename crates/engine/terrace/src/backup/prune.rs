//! Forgetting points.
//!
//! Invariant: the manifest forgets a point before any file of it goes, and a file of pages stays as long as a
//! point that is left names it; of one that is named by few pages these are copied first.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};
use terrace_pages::map::SlotSet;

use super::rewrite::write_anew;
use super::verify::manifest;
use crate::backup_set::folder::set_disk;
use crate::backup_set::leftovers::remove_leftovers;
use crate::backup_set::manifest::{LogFile, Manifest, Point};
use crate::backup_set::maps::MapReader;
use crate::backup_set::names::{log_name, map_name, pages_name};

/// A file of pages is written anew when less than one of this many of its pages is named: at half of it what is
/// freed is as much as what has to be written.
const LEAST_PART: u64 = 2;

/// What pruning came to.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct PruneReport {
    /// Points that are left.
    pub kept: Vec<u64>,
    /// Points that were forgotten.
    pub forgotten: Vec<u64>,
    /// Points whose files of pages were mostly not in use any more: what is needed of them was copied to
    /// new files.
    pub rewritten: Vec<u64>,
    /// Bytes that the set is shorter by.
    pub freed_bytes: u64,
}

/// Which points of a set stay: a number of the newest, or as [`Keep::since`] says, whichever are more. The newest
/// one always does. A number is [`Keep::newest`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    newest: usize,
    since: Option<SystemTime>,
}

impl Keep {
    /// This many of the newest points.
    pub fn newest(points: usize) -> Keep {
        Keep {
            newest: points,
            since: None,
        }
    }

    /// Also whatever is needed to restore the database as it was then, or at any time since: the points made since
    /// then, and the last one before.
    pub fn since(mut self, time: SystemTime) -> Keep {
        self.since = Some(time);
        self
    }

    /// How many of these points, the oldest first, do not stay.
    fn forgets(self, points: &[Point]) -> usize {
        let more = points.len().saturating_sub(self.newest.max(1));
        let Some(since) = self.since else {
            return more;
        };
        let since = since.duration_since(UNIX_EPOCH).unwrap_or_default();
        // The clock may have gone back: whatever is behind the first point since then stays, too.
        let is_new = |point: &Point| u128::from(point.time_ms) > since.as_millis();
        let first = points.iter().position(is_new).unwrap_or(points.len());
        let mut before = first.saturating_sub(1);
        // One that was made beside what is followed has no log behind it: times since then need the one before it.
        let followed = points.iter().position(|point| point.chain.is_some());
        while points
            .get(before)
            .is_some_and(|point| point.chain.is_none())
            && followed.is_some_and(|followed| followed < before)
        {
            before -= 1;
        }
        more.min(before)
    }
}

impl From<usize> for Keep {
    fn from(points: usize) -> Keep {
        Keep::newest(points)
    }
}

/// Forgets all points of the backup set in a folder but those to `keep`, and deletes what only they
/// needed. Of a file of pages of which less than half is needed that is copied
/// to a new one, where there is room for it.
///
/// # Errors
/// When there is no set, or a point that is to stay is damaged: then nothing is deleted.
///
/// ```no_run
/// use std::time::{Duration, SystemTime};
/// use terrace::{Keep, prune_backup};
///
/// let week = SystemTime::now() - Duration::from_secs(7 * 86_400);
/// prune_backup("/backup/people", Keep::newest(3).since(week))?;
/// # Ok::<(), terrace::Error>(())
/// ```
pub fn prune_backup(set: impl AsRef<Path>, keep: impl Into<Keep>) -> Result<PruneReport> {
    prune_backup_on(set_disk(set.as_ref())?, keep)
}

/// The same on any disk.
#[doc(hidden)]
pub fn prune_backup_on(disk: Arc<dyn Disk>, keep: impl Into<Keep>) -> Result<PruneReport> {
    let mut set = manifest(&*disk)?;
    let before = set.page_files();
    // Before anything is forgotten: so no file that there is, is written over.
    let mut next = set.new_number();
    let first = keep.into().forgets(&set.points);
    let forgotten: Vec<_> = set.points.drain(..first).collect();
    let mut report = PruneReport {
        kept: set.points.iter().map(|point| point.point).collect(),
        forgotten: forgotten.iter().map(|point| point.point).collect(),
        rewritten: Vec::new(),
        freed_bytes: 0,
    };
    let mut added = 0;
    let named = count_named(&*disk, &set, &before)?;
    let own = |set: &Manifest, file: u64| set.points.iter().any(|point| point.point == file);
    let older = before
        .iter()
        .filter(|(file, _)| named.contains_key(file) && !own(&set, **file));
    set.older_pages = older.map(|(file, bytes)| (*file, *bytes)).collect();
    let sparse = named.iter().filter(|(file, count)| {
        let bytes = before.get(file).copied().unwrap_or(0);
        **count > 0 && *count * LEAST_PART < set.pages_in(bytes)
    });
    let sparse: Vec<u64> = sparse.map(|(file, _)| *file).collect();
    let maps_before: Vec<(u64, u64)> = set.points.iter().map(map_of).collect();
    for file in sparse {
        let first = next;
        match write_anew(&disk, &mut set, file, &mut next) {
            Ok(bytes) => {
                report.rewritten.push(file);
                added = bytes.saturating_add(added);
            }
            // What is damaged a verification tells of, and where there is no room nothing is gained.
            Err(e) if e.is_unreadable() || e.is_disk_full() => {
                // The manifest needs room, too. What stays is a leftover.
                for name in (first..next).flat_map(|n| [pages_name(n), map_name(n)]) {
                    let _ = disk.delete(&name);
                }
            }
            Err(e) => return Err(e),
        }
    }
    let forgotten_logs = forget_logs(&mut set);
    set.write(&disk)?;
    let mut delete = |name: String, bytes: u64| match disk.delete(&name) {
        Ok(()) => {
            report.freed_bytes = report.freed_bytes.saturating_add(bytes);
            Ok(())
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) => Err(Error::io("deleting", name, e)),
    };
    let maps_now: BTreeSet<u64> = set.points.iter().map(Point::map_number).collect();
    let maps = forgotten.iter().map(map_of).chain(maps_before);
    for (map, bytes) in maps.filter(|(map, _)| !maps_now.contains(map)) {
        delete(map_name(map), bytes)?;
    }
    let files = set.page_files();
    for (file, bytes) in before {
        if !files.contains_key(&file) {
            delete(pages_name(file), bytes)?;
        }
    }
    for log in forgotten_logs {
        delete(log_name(log.file), log.bytes)?;
    }
    remove_leftovers(&disk, &set)?;
    disk.sync_directory()
        .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
    report.freed_bytes = report.freed_bytes.saturating_sub(added);
    Ok(report)
}

/// The number of its map, and the length.
fn map_of(point: &Point) -> (u64, u64) {
    (point.map_number(), point.map.bytes)
}

/// How many pages of each of these files the points name.
fn count_named(
    disk: &dyn Disk,
    set: &Manifest,
    all: &BTreeMap<u64, u64>,
) -> Result<BTreeMap<u64, u64>> {
    // Of a file that is not as long as the manifest says nothing is counted, and nothing written anew.
    let is_whole = |(file, bytes): (&u64, &u64)| {
        let opened = disk
            .open(&pages_name(*file))
            .and_then(|opened| opened.len());
        opened
            .is_ok_and(|len| len >= *bytes)
            .then_some((*file, *bytes))
    };
    let files: BTreeMap<u64, u64> = all.iter().filter_map(is_whole).collect();
    let mut seen: BTreeMap<u64, (SlotSet, u64)> = BTreeMap::new();
    for point in &set.points {
        let mut map = MapReader::open(disk, set.set, point)?;
        while let Some(packed) = map.next_packed()? {
            let (file, index) = packed.place();
            let (pages, count) = seen.entry(file).or_default();
            let bytes = files.get(&file).copied().unwrap_or(0);
            // One that cannot be would take memory for all before it.
            if index < set.pages_in(bytes) && !pages.has(index) {
                pages.insert(index);
                *count += 1;
            }
        }
    }
    Ok(seen.into_iter().map(|(file, (_, n))| (file, n)).collect())
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
