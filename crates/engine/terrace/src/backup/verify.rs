//! What a backup set has, and whether all of it is whole.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use super::check::check_pages;
use super::report::BackupVerifyReport;
use crate::backup_set::archive::read_records;
use crate::backup_set::damage::damaged;
use crate::backup_set::folder::set_to_read;
use crate::backup_set::manifest::{Leap, MANIFEST, Manifest, Point};
use crate::backup_set::names::log_name;
use crate::effects::Effects;
use crate::mark::Mark;
use crate::millis::time_of;
use crate::progress::Progress;

/// A point of a backup set.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BackupPoint {
    /// Its number.
    pub point: u64,
    /// The instant that it shows.
    pub time: SystemTime,
    /// The last logged change that it has.
    pub sequence: u64,
    /// Pages that it has.
    pub live_pages: u64,
    /// Bytes that were stored for it.
    pub stored_bytes: u64,
    /// The chain of archived log that goes on behind it, if there is one.
    pub chain: Option<u64>,
    /// What it was called.
    pub mark: Option<String>,
}

/// A stretch of archived log without a gap: from each of its points on a restore can go to any change in it.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ArchivedLog {
    /// Its number.
    pub chain: u64,
    /// The first change that it has.
    pub first: u64,
    /// The last change that it has.
    pub last: u64,
    /// The last time that it has.
    pub until: Option<SystemTime>,
    /// Its bytes.
    pub bytes: u64,
    /// Its named marks.
    pub marks: Vec<Mark>,
    /// Where the clock had gone back, so that times are there twice.
    pub leaps: Vec<ClockLeap>,
}

/// A place in the archived log before which the clock had gone back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct ClockLeap {
    /// The first change that has an earlier time than one before it.
    pub sequence: u64,
    /// The time before.
    pub from: SystemTime,
    /// The time at that change.
    pub to: SystemTime,
}

impl ClockLeap {
    pub(super) fn of(leap: &Leap) -> ClockLeap {
        ClockLeap {
            sequence: leap.sequence,
            from: time_of(leap.from_ms),
            to: time_of(leap.to_ms),
        }
    }
}

/// What a backup set has.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
#[non_exhaustive]
pub struct BackupContents {
    /// Its points, in the order in which they were made.
    pub points: Vec<BackupPoint>,
    /// The log between and behind them.
    pub logs: Vec<ArchivedLog>,
}

impl BackupPoint {
    pub(super) fn of(point: &Point) -> BackupPoint {
        BackupPoint {
            point: point.point,
            time: UNIX_EPOCH + Duration::from_millis(point.time_ms),
            sequence: point.log.sequence.saturating_sub(1),
            live_pages: point.live_pages,
            stored_bytes: point
                .pages
                .map_or(0, |pages| pages.bytes)
                .saturating_add(point.map.bytes),
            chain: point.chain,
            mark: point.mark.clone(),
        }
    }
}

/// The manifest of the set on this disk.
pub fn manifest(disk: &dyn Disk) -> Result<Manifest> {
    Manifest::read(disk)?.ok_or_else(|| {
        Error::invalid(format!(
            "there is no backup set here: {MANIFEST} is missing; name the folder that was given to the backup"
        ))
    })
}

/// The points of the backup set in a folder, in the order in which they were made.
///
/// # Errors
/// When there is no set, or its manifest is damaged.
pub fn list_backup(set: impl AsRef<Path>) -> Result<Vec<BackupPoint>> {
    list_backup_on(set_to_read(set.as_ref())?)
}

/// The same on any disk.
#[doc(hidden)]
pub fn list_backup_on(disk: Arc<dyn Disk>) -> Result<Vec<BackupPoint>> {
    let set = manifest(&*disk)?;
    Ok(set.points.iter().map(BackupPoint::of).collect())
}

/// What the backup set in a folder has: points, archived log, and marks.
///
/// # Errors
/// As [`list_backup`].
pub fn backup_contents(set: impl AsRef<Path>) -> Result<BackupContents> {
    backup_contents_on(set_to_read(set.as_ref())?)
}

/// The same on any disk.
#[doc(hidden)]
pub fn backup_contents_on(disk: Arc<dyn Disk>) -> Result<BackupContents> {
    let set = manifest(&*disk)?;
    let mut logs: Vec<ArchivedLog> = Vec::new();
    for log in &set.logs {
        let archived = match logs.last_mut() {
            Some(last) if last.chain == log.chain => last,
            _ => {
                logs.push(ArchivedLog {
                    chain: log.chain,
                    first: log.first,
                    last: log.first,
                    until: None,
                    bytes: 0,
                    marks: Vec::new(),
                    leaps: Vec::new(),
                });
                match logs.last_mut() {
                    Some(last) => last,
                    None => continue,
                }
            }
        };
        archived.last = log.next.saturating_sub(1);
        archived.bytes = archived.bytes.saturating_add(log.bytes);
        if log.last_ms > 0 {
            archived.until = Some(time_of(log.last_ms));
        }
        let marks = log.marks.iter();
        let marks = marks.map(|m| Mark::new(m.name.clone(), m.time_ms, m.sequence));
        archived.marks.extend(marks);
        archived.leaps.extend(log.leaps.iter().map(ClockLeap::of));
    }
    Ok(BackupContents {
        points: set.points.iter().map(BackupPoint::of).collect(),
        logs,
    })
}

/// Reads all of the backup set in a folder and checks every page of every point, and all archived log.
///
/// # Errors
/// When there is no set, its manifest is damaged, or it cannot be read. What else is wrong is in the report.
pub fn verify_backup(
    set: impl AsRef<Path>,
    progress: impl FnMut(Progress),
) -> Result<BackupVerifyReport> {
    verify_backup_on(set_to_read(set.as_ref())?, progress)
}

/// The same on any disk.
#[doc(hidden)]
pub fn verify_backup_on(
    disk: Arc<dyn Disk>,
    mut progress: impl FnMut(Progress),
) -> Result<BackupVerifyReport> {
    let set = manifest(&*disk)?;
    let mut report = BackupVerifyReport::default();
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the folder of the backup set", e))?;
    let mut leftovers: Vec<String> = names
        .into_iter()
        .filter(|name| set.is_leftover(name) || set.is_log_leftover(name))
        .collect();
    leftovers.sort_unstable();
    report.leftovers = leftovers;
    report.unreached = set.unreached();
    let bad = check_pages(&disk, &set, &mut report, &mut progress)?;
    for log in &set.logs {
        let read = read_records(&*disk, set.set, log, &mut |_, record| {
            report.records += 1;
            match Effects::new(record).all(|effect| effect.is_ok()) {
                true => Ok(()),
                false => Err(damaged(&log_name(log.file), None, "a record is none")),
            }
        });
        if let Err(e) = read {
            let last = log.next.saturating_sub(1);
            report.problem(format!("changes {} to {last}: {e}", log.first));
        }
    }
    for point in &set.points {
        match bad.contains(&point.point) {
            true => report.damaged.push(point.point),
            false => report.whole.push(point.point),
        }
    }
    Ok(report)
}
