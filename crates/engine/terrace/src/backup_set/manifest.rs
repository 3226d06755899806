//! What a backup set says of itself: one JSON file, replaced as a whole.
//!
//! Invariants: a point is there if the manifest names it; what no point names is a leftover. The manifest
//! is written when all that it names is durable, and takes the place of the one before by a new name.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use terrace_base::checksum::seeded;
use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::backup_set::names::{
    ANEW, HEADER_BYTES, log_name, log_of, map_name, pages_name, point_of,
};

/// Version of all files of a set.
pub const FORMAT: u32 = 1;
/// The file.
pub const MANIFEST: &str = "manifest.json";
/// It is written under this name.
const WRITTEN: &str = "manifest.new";
/// More is no manifest: a million points.
const MOST_BYTES: u64 = 1 << 30;
/// Sizes that a page can have.
const PAGE_BYTES: std::ops::RangeInclusive<u32> = 4096..=65536;
/// Sequence numbers, times and lengths are smaller: some of them can be added.
const MOST: u64 = 1 << 56;
/// Pages have numbers of five bytes in a map.
const MOST_PAGES: u64 = 1 << 40;
/// So that the checksum of something else does not fit.
const SEED: u64 = 0x5E70_FBAC_0FF5;

/// A file of a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FileInfo {
    /// Its length.
    pub bytes: u64,
    /// Of all of it; 0 for pages, which have one each.
    pub checksum: u64,
}

/// A place in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogPlace {
    /// The segment.
    pub segment: u64,
    /// The byte in it.
    pub offset: u64,
    /// The number of the record there.
    pub sequence: u64,
}

/// A state of the database that can be restored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Point {
    /// Its number in the set, from 1.
    pub point: u64,
    /// The checkpoint that it is.
    pub generation: u64,
    /// When that checkpoint's cut was, in milliseconds since 1970.
    pub time_ms: u64,
    /// Where the log goes on behind it.
    pub log: LogPlace,
    /// Page numbers lie below.
    pub page_numbers: u64,
    /// Pages that it has.
    pub live_pages: u64,
    /// Epoch of the cut.
    pub epoch: u64,
    /// Number for the next structure.
    pub next_structure: u32,
    /// Root page of the catalog.
    pub catalog_root: u64,
    /// The file of the pages that were stored for it, if any were.
    pub pages: Option<FileInfo>,
    /// The file that says where each page is.
    pub map: FileInfo,
    /// The number of that file, if it is not the point's: it was written anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub map_file: Option<u64>,
    /// The chain of archived log that goes on behind it, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chain: Option<u64>,
    /// Where the archived log ended when the point was put here: chain and next record.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub archived: Option<(u64, u64)>,
    /// What it was called.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
}

impl Point {
    /// The number of its map.
    pub fn map_number(&self) -> u64 {
        self.map_file.unwrap_or(self.point)
    }

    /// The last logged change that it has.
    pub fn last(&self) -> u64 {
        self.log.sequence.saturating_sub(1)
    }
}

/// A named mark in the archived log.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct MarkNote {
    /// Its name.
    pub name: String,
    /// Its record.
    pub sequence: u64,
    /// When it was made, in milliseconds since 1970.
    pub time_ms: u64,
}

/// A place in the archived log before which the clock had gone back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Leap {
    /// The mark that has an earlier time than the one before it.
    pub sequence: u64,
    /// The time of the one before, in milliseconds since 1970.
    pub from_ms: u64,
    /// Its own.
    pub to_ms: u64,
}

/// A file of archived records. Bytes behind `bytes` mean nothing.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogFile {
    /// Its number.
    pub file: u64,
    /// The chain that it belongs to: in a chain no record is missing.
    pub chain: u64,
    /// The first record.
    pub first: u64,
    /// The record behind the last one.
    pub next: u64,
    /// Bytes of it that count.
    pub bytes: u64,
    /// Of its blocks' checksums, one after the other.
    pub checksum: u64,
    /// The time of the last mark in it, in milliseconds since 1970; 0 if it has none.
    #[serde(default)]
    pub last_ms: u64,
    /// The marks with a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub marks: Vec<MarkNote>,
    /// Where the clock had gone back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub leaps: Vec<Leap>,
}

/// Where the archived log ends, and where it goes on in the log of the database.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LogEnd {
    /// The chain.
    pub chain: u64,
    /// The next record.
    pub next: u64,
    /// Where a block begins in the database's log: segment, what it was given when it was made, byte, and
    /// the number of the first record that begins there.
    pub segment: u32,
    /// See `segment`.
    pub incarnation: u64,
    /// See `segment`.
    pub offset: u32,
    /// See `segment`.
    pub sequence: u64,
}

/// What a set is.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Manifest {
    /// [`FORMAT`].
    pub format: u32,
    /// Its identity, drawn at random.
    pub set: u64,
    /// The database that it is of.
    pub database: u64,
    /// Size of a page.
    pub page_bytes: u32,
    /// The points, in the order in which they were made.
    pub points: Vec<Point>,
    /// Files of pages whose own point was forgotten, and which others still need: number and length.
    pub older_pages: Vec<(u64, u64)>,
    /// The files of archived log, in the order in which they were made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub logs: Vec<LogFile>,
    /// Where that log ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end: Option<LogEnd>,
}

#[derive(Deserialize)]
struct Outer<'a> {
    checksum: String,
    #[serde(borrow)]
    manifest: &'a RawValue,
}

#[derive(Deserialize)]
struct Version {
    format: u32,
}

fn checksum(body: &str) -> String {
    format!("{:016x}", seeded(SEED, body.as_bytes()))
}

impl Manifest {
    /// The one in a folder; `None` if there is none.
    ///
    /// # Errors
    /// `Corrupt`, a newer format, those of the disk.
    pub fn read(disk: &dyn Disk) -> Result<Option<Manifest>> {
        let names = disk
            .list()
            .map_err(|e| Error::io("listing", "the folder of the backup set", e))?;
        if !names.iter().any(|name| name == MANIFEST) {
            return Ok(None);
        }
        let file = disk
            .open_buffered(MANIFEST)
            .map_err(|e| Error::io("opening", MANIFEST, e))?;
        let len = file
            .len()
            .map_err(|e| Error::io("measuring", MANIFEST, e))?;
        if len > MOST_BYTES {
            return Err(damaged(format!("it has {len} bytes")));
        }
        let mut bytes = vec![0; len as usize];
        file.read_at(&mut bytes, 0)
            .map_err(|e| Error::io("reading", MANIFEST, e))?;
        Manifest::decode(&bytes).map(Some)
    }

    /// Takes any bytes.
    pub fn decode(bytes: &[u8]) -> Result<Manifest> {
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text".into()))?;
        let outer: Outer<'_> =
            serde_json::from_str(text).map_err(|e| damaged(format!("it is no manifest ({e})")))?;
        let body = outer.manifest.get();
        if checksum(body) != outer.checksum {
            return Err(damaged("its checksum does not fit".into()));
        }
        let version: Version =
            serde_json::from_str(body).map_err(|e| damaged(format!("it has no format ({e})")))?;
        if version.format != FORMAT {
            return Err(Error::invalid(format!(
                "{MANIFEST} says that the backup set has format {}, and this program knows {FORMAT}; use the version of terrace that made it, or a later one",
                version.format
            )));
        }
        let manifest: Manifest =
            serde_json::from_str(body).map_err(|e| damaged(format!("it makes no sense ({e})")))?;
        let page = manifest.page_bytes;
        if !PAGE_BYTES.contains(&page) || !page.is_power_of_two() {
            return Err(damaged(format!("its pages have {page} bytes")));
        }
        let rising = manifest.points.is_sorted_by(|a, b| a.point < b.point);
        let is_number = |point: &Point| (1..ANEW).contains(&point.point);
        if !rising || !manifest.points.iter().all(is_number) {
            return Err(damaged("its points are in no order".into()));
        }
        let logs = &manifest.logs;
        let joined = |a: &LogFile, b: &LogFile| {
            a.file < b.file && (a.chain < b.chain || a.chain == b.chain && a.next == b.first)
        };
        if !logs.is_sorted_by(joined) || logs.iter().any(|log| log.first > log.next) {
            return Err(damaged("its files of the log are in no order".into()));
        }
        if !manifest.has_possible_numbers() {
            return Err(damaged(
                "it has a number that is larger than any can be".into(),
            ));
        }
        Ok(manifest)
    }

    /// Whether its numbers are so small that they can be reckoned with, whoever wrote them.
    fn has_possible_numbers(&self) -> bool {
        let of_point = |p: &Point| {
            let file = p.pages.map_or(0, |pages| pages.bytes);
            let pages = p.live_pages <= p.page_numbers && p.page_numbers <= MOST_PAGES;
            let numbers = [file, p.map.bytes, p.log.sequence, p.chain.unwrap_or(0)];
            pages && p.time_ms < MOST && numbers.iter().all(|number| *number < MOST)
        };
        let of_log = |log: &LogFile| {
            let numbers = [log.file, log.chain, log.next, log.bytes, log.last_ms];
            let of_leaps = log
                .leaps
                .iter()
                .flat_map(|leap| [leap.sequence, leap.from_ms]);
            let of_marks = log
                .marks
                .iter()
                .flat_map(|mark| [mark.sequence, mark.time_ms]);
            numbers
                .into_iter()
                .chain(of_marks)
                .chain(of_leaps)
                .all(|number| number < MOST)
        };
        self.points.iter().all(of_point)
            && self.logs.iter().all(of_log)
            && self.older_pages.iter().all(|(_, bytes)| *bytes < MOST)
            && self
                .end
                .is_none_or(|end| end.chain < MOST && end.next < MOST)
    }

    /// As it is stored.
    pub fn encode(&self) -> Result<String> {
        let body = serde_json::to_string(self)
            .map_err(|e| Error::invalid(format!("the manifest cannot be written: {e}")))?;
        Ok(format!(
            "{{\"checksum\":\"{}\",\"manifest\":{body}}}\n",
            checksum(&body)
        ))
    }

    /// Puts it in the place of the one before.
    ///
    /// # Errors
    /// Those of the disk; then the one before is still there.
    pub fn write(&self, disk: &Arc<dyn Disk>) -> Result<()> {
        let text = self.encode()?;
        let file = disk
            .create_buffered(WRITTEN)
            .map_err(|e| Error::io("creating", WRITTEN, e))?;
        file.write_at(text.as_bytes(), 0)
            .map_err(|e| Error::io("writing", WRITTEN, e))?;
        file.sync().map_err(|e| Error::io("syncing", WRITTEN, e))?;
        disk.rename(WRITTEN, MANIFEST)
            .map_err(|e| Error::io("renaming", WRITTEN, e))?;
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the folder of the backup set", e))
    }

    /// An error if this is not the set of this number.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check_same(&self, number: Option<u64>) -> Result<()> {
        match number {
            Some(number) if number != self.set => Err(Error::invalid(format!(
                "the backup set {number:016x} is not in its folder any more: an empty one, or another set, is there; bring it back, or begin again with what is there"
            ))),
            _ => Ok(()),
        }
    }

    /// The files of pages that there are, with their lengths.
    pub fn page_files(&self) -> BTreeMap<u64, u64> {
        let own = |point: &Point| Some((point.point, point.pages?.bytes));
        let own = self.points.iter().filter_map(own);
        own.chain(self.older_pages.iter().copied()).collect()
    }

    /// A number that no file has that was written anew, nor a map.
    pub fn new_number(&self) -> u64 {
        let maps = self.points.iter().map(Point::map_number);
        let files = self.older_pages.iter().map(|(file, _)| *file);
        let last = maps.chain(files).filter(|number| *number >= ANEW).max();
        last.map_or(ANEW, |last| last.saturating_add(1))
    }

    /// Pages in a file of `bytes` bytes.
    pub fn pages_in(&self, bytes: u64) -> u64 {
        bytes.saturating_sub(HEADER_BYTES) / u64::from(self.page_bytes.max(1))
    }

    /// Whether this is a file of archived log that nothing points to.
    pub fn is_log_leftover(&self, name: &str) -> bool {
        log_of(name).is_some() && !self.logs.iter().any(|log| log_name(log.file) == name)
    }

    /// The records of a chain that are archived: the first, and the one behind the last.
    pub fn records_of(&self, chain: u64) -> Option<(u64, u64)> {
        let mut files = self.logs.iter().filter(|log| log.chain == chain);
        let first = files.next()?;
        Some((first.first, files.next_back().unwrap_or(first).next))
    }

    /// A number for a chain that no other has.
    pub fn new_chain(&self) -> u64 {
        let of_points = self.points.iter().filter_map(|point| point.chain);
        let of_logs = self.logs.iter().map(|log| log.chain);
        let of_end = self.end.map(|end| end.chain);
        of_points.chain(of_logs).chain(of_end).max().unwrap_or(0) + 1
    }

    /// Whether this is a file of a point, and no point needs it.
    pub fn is_leftover(&self, name: &str) -> bool {
        let is_map = |point: &Point| map_name(point.map_number()) == name;
        let is_pages = |file: &u64| pages_name(*file) == name;
        point_of(name).is_some()
            && !self.points.iter().any(is_map)
            && !self.page_files().keys().any(is_pages)
    }

    /// The point of this number.
    ///
    /// # Errors
    /// `Invalid` with those that there are.
    pub fn point(&self, number: u64) -> Result<&Point> {
        let found = self.points.iter().find(|point| point.point == number);
        found.ok_or_else(|| {
            let there = self.points.iter().map(|point| point.point.to_string());
            Error::invalid(format!(
                "the backup set has no point {number}; it has {}",
                there.collect::<Vec<_>>().join(", ")
            ))
        })
    }
}

fn damaged(what: String) -> Error {
    Error::Corrupt {
        file: MANIFEST.into(),
        offset: None,
        what,
        way_out: "use another backup set, or another copy of this one; what its points hold cannot be told without it",
    }
}
