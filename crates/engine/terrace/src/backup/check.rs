//! Whether every page of every point of a set is what it should be.
//!
//! A page that a point has from the point before, in the same place, was looked at there: so maps are read
//! two at a time, and of all entries only those that are new are kept, some at a time. What memory it takes
//! does not grow with the set.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::Result;
use terrace_base::disk::Disk;

use super::report::BackupVerifyReport;
use crate::backup_set::damage::damaged;
use crate::backup_set::manifest::{Manifest, Point};
use crate::backup_set::maps::{MapReader, Packed};
use crate::backup_set::names::pages_name;
use crate::backup_set::pages::PagesReader;
use crate::progress::{Progress, Teller, Work};

/// Entries that are kept until their pages are read, in the order of the files: 2.3 MiB.
const AT_ONCE: usize = 64 << 10;
/// Bad pages that are kept by their places. Past it the files that have them count as bad altogether: their
/// points are listed as damaged though they may have none of these pages.
const MOST_BAD: usize = 64 << 10;

/// What is bad, and the text of it. A place is a file and a page in it; a file that is bad as a whole has
/// [`ALL`] for the page.
type Bad = BTreeMap<(u64, u64), String>;
const ALL: u64 = u64::MAX;

struct Checker<'a> {
    disk: &'a Arc<dyn Disk>,
    set: &'a Manifest,
    files: BTreeMap<u64, u64>,
    waiting: Vec<Packed>,
    bad: Bad,
    pages: u64,
    teller: Teller<'a>,
}

/// Checks all pages; the points that have damaged ones.
///
/// # Errors
/// Those of the disk that are not of one file.
pub fn check_pages(
    disk: &Arc<dyn Disk>,
    set: &Manifest,
    report: &mut BackupVerifyReport,
    tell: &mut dyn FnMut(Progress),
) -> Result<Vec<u64>> {
    let files = set.page_files();
    let total = files.values().map(|bytes| set.pages_in(*bytes)).sum();
    let mut checker = Checker {
        disk,
        set,
        files,
        waiting: Vec::new(),
        bad: Bad::new(),
        pages: 0,
        teller: Teller::new(tell, Work::CheckBackup, total),
    };
    let mut damaged_points = Vec::new();
    let mut before: Option<&Point> = None;
    for point in &set.points {
        let read = checker.point(point, before);
        match read {
            Ok(count) if count == point.live_pages => before = Some(point),
            Ok(count) => {
                before = Some(point);
                damaged_points.push(point.point);
                let live = point.live_pages;
                report.problem(format!(
                    "point {}: {live} pages should be there, and {count} are",
                    point.point
                ));
            }
            Err(e) if e.is_unreadable() => {
                before = None;
                damaged_points.push(point.point);
                report.problem(format!("point {}: {e}", point.point));
            }
            Err(e) => return Err(e),
        }
        checker.read_waiting();
    }
    report.pages = checker.pages;
    checker.teller.end();
    let bad = checker.bad;
    let mut points_of: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    // Whose maps cannot be read is told above.
    let readable = set.points.iter().filter(|_| !bad.is_empty());
    for point in readable.filter(|point| !damaged_points.contains(&point.point)) {
        let mut map = MapReader::open(&**disk, set.set, point)?;
        while let Some(entry) = map.next_packed()? {
            let (file, index) = entry.place();
            let places = [(file, ALL), (file, index)];
            for place in places.into_iter().filter(|place| bad.contains_key(place)) {
                let points = points_of.entry(place).or_default();
                if points.last() != Some(&point.point) {
                    points.push(point.point);
                }
            }
        }
    }
    for (place, text) in bad {
        let points = points_of.remove(&place).unwrap_or_default();
        damaged_points.extend(&points);
        let points: Vec<String> = points.iter().map(u64::to_string).collect();
        report.problem(format!("point {}: {text}", points.join(", ")));
    }
    Ok(damaged_points)
}

impl Checker<'_> {
    /// Puts down what a point has that the one before has not in the same place; its pages.
    fn point(&mut self, point: &Point, before: Option<&Point>) -> Result<u64> {
        let open = |point: &Point| MapReader::open(&**self.disk, self.set.set, point);
        let mut map = open(point)?;
        let mut before = before.map(open).transpose()?;
        let mut ahead = None;
        while let Some(packed) = map.next_packed()? {
            let entry = packed.entry();
            let there = match &mut before {
                Some(before) => before.seek(entry.page, &mut ahead)?,
                None => None,
            };
            if there.is_some_and(|there| there.is_same_place(&entry)) {
                continue;
            }
            self.waiting.push(packed);
            if self.waiting.len() == AT_ONCE {
                self.read_waiting();
            }
        }
        Ok(map.count())
    }

    /// Reads and checks what was put down.
    fn read_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.sort_unstable_by_key(Packed::place);
        for some in waiting.chunk_by(|a, b| a.place().0 == b.place().0) {
            let (file, _) = some[0].place();
            if self.bad.contains_key(&(file, ALL)) {
                continue;
            }
            match self.open(file) {
                Ok(mut reader) => self.read(file, &mut reader, some),
                Err(e) => self.is_bad((file, ALL), e.to_string()),
            }
        }
        waiting.clear();
        self.waiting = waiting;
    }

    fn open(&self, file: u64) -> Result<PagesReader> {
        let name = pages_name(file);
        let bytes = self.files.get(&file);
        let bytes =
            bytes.ok_or_else(|| damaged(&name, None, "no point has a file of this name"))?;
        let page_bytes = self.set.page_bytes as usize;
        PagesReader::open(&**self.disk, self.set.set, file, page_bytes, *bytes)
    }

    /// Pages of one file, in its order.
    fn read(&mut self, file: u64, reader: &mut PagesReader, some: &[Packed]) {
        let (most, page_bytes) = (reader.most(), self.set.page_bytes as usize);
        // Several entries may name one place, and only one of them can be right.
        for run in some.chunk_by(|a, b| b.place().1 - a.place().1 <= 1) {
            for part in run.chunks(most) {
                let first = part[0].place().1;
                let count = part[part.len() - 1].place().1 - first + 1;
                let mut pages = Vec::new();
                let mut take = |_: u64, bytes: &[u8]| {
                    pages.extend_from_slice(bytes);
                    Ok(())
                };
                let whole = reader.read(first, count as usize, &mut take);
                for entry in part {
                    let (entry, index) = (entry.entry(), entry.place().1);
                    // If they cannot be read together, which of them it is.
                    let alone = match &whole {
                        Ok(()) => Ok(None),
                        Err(_) => one(reader, index).map(Some),
                    };
                    let checked = alone.and_then(|alone| {
                        let at = (index - first) as usize * page_bytes;
                        let bytes = alone.as_deref().or_else(|| pages.get(at..at + page_bytes));
                        reader.check(&entry, bytes.unwrap_or(&[]))
                    });
                    if let Err(e) = checked {
                        self.is_bad((file, index), e.to_string());
                    }
                }
                self.pages += count;
                self.teller.is_at(self.pages);
            }
        }
    }

    fn is_bad(&mut self, place: (u64, u64), text: String) {
        self.bad.insert(place, text);
        if self.bad.len() > MOST_BAD {
            let mut files: Vec<u64> = self.bad.keys().map(|(file, _)| *file).collect();
            files.dedup();
            self.bad.clear();
            for file in files {
                let text = format!("{}: most of its pages are damaged", pages_name(file));
                self.bad.insert((file, ALL), text);
            }
        }
    }
}

/// A page alone.
fn one(reader: &mut PagesReader, index: u64) -> Result<Vec<u8>> {
    let mut page = Vec::new();
    reader.read(index, 1, &mut |_, bytes| {
        page.extend_from_slice(bytes);
        Ok(())
    })?;
    Ok(page)
}
