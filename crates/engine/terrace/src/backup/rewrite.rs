//! Writing a file of pages anew, with only those that are still needed.
//!
//! Invariants: what there is stays as it is, and the manifest in memory is changed when all that it names is
//! durable; each page is checked before it is copied.

use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::backup_set::damage::damaged;
use crate::backup_set::manifest::{FileInfo, Manifest};
use crate::backup_set::maps::{Entry, MapReader, MapWriter, Packed};
use crate::backup_set::names::pages_name;
use crate::backup_set::pages::{PagesReader, PagesWriter};

/// Copies what the points of the set need of a file of pages to a new one, and writes new maps for those
/// points; they have the numbers from `next` on. The manifest names them then; it has still to be written, and
/// the old files to be deleted. How many bytes were written.
///
/// # Errors
/// `Corrupt` when the file or a map is damaged, those of the disk: then the manifest is as it was, and what was
/// written is a leftover.
pub fn write_anew(
    disk: &Arc<dyn Disk>,
    set: &mut Manifest,
    file: u64,
    next: &mut u64,
) -> Result<u64> {
    let name = pages_name(file);
    let bytes = set.page_files().get(&file).copied();
    let bytes = bytes.ok_or_else(|| damaged(&name, None, "no point has a file of this name"))?;
    let page_bytes = set.page_bytes as usize;
    let mut reader = PagesReader::open(&**disk, set.set, file, page_bytes, bytes)?;
    let kept = needed(disk, set, file)?;
    let number = take(next);
    let mut writer = PagesWriter::new(disk.clone(), set.set, number, page_bytes);
    for entry in &kept {
        let entry = entry.entry();
        let mut page = Vec::new();
        reader.read(entry.index, 1, &mut |_, bytes| {
            page.extend_from_slice(bytes);
            Ok(())
        })?;
        reader.check(&entry, &page)?;
        writer.push(&page)?;
    }
    let pages = writer.finish()?;
    let pages_bytes = pages.map_or(0, |pages| pages.bytes);
    let mut written = pages_bytes;
    let mut maps: Vec<Option<(u64, FileInfo)>> = Vec::new();
    for point in &set.points {
        let mut map = MapReader::open(&**disk, set.set, point)?;
        let mut is_in_it = false;
        while let Some(entry) = map.next_packed()? {
            is_in_it |= entry.place().0 == file;
        }
        if !is_in_it {
            maps.push(None);
            continue;
        }
        map.rewind();
        let map_number = take(next);
        let mut writer = MapWriter::create(&**disk, set.set, map_number)?;
        while let Some(entry) = map.next()? {
            writer.push(&match entry.file == file {
                false => entry,
                true => Entry {
                    file: number,
                    index: place_of(&kept, &entry)
                        .ok_or_else(|| damaged(&name, None, "its points disagree"))?,
                    ..entry
                },
            })?;
        }
        let info = writer.finish()?;
        written += info.bytes;
        maps.push(Some((map_number, info)));
    }
    disk.sync_directory()
        .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
    for (point, map) in set.points.iter_mut().zip(maps) {
        if let Some((map_file, map)) = map {
            (point.map_file, point.map) = (Some(map_file), map);
        }
        if point.point == file {
            point.pages = None;
        }
    }
    set.older_pages.retain(|(older, _)| *older != file);
    set.older_pages.push((number, pages_bytes));
    set.older_pages.sort_unstable();
    Ok(written)
}

fn take(next: &mut u64) -> u64 {
    let number = *next;
    *next = number.saturating_add(1);
    number
}

/// What the points name of a file, each place once, in the order of the places.
fn needed(disk: &Arc<dyn Disk>, set: &Manifest, file: u64) -> Result<Vec<Packed>> {
    let mut kept: Vec<Packed> = Vec::new();
    for point in &set.points {
        let mut map = MapReader::open(&**disk, set.set, point)?;
        while let Some(entry) = map.next_packed()? {
            if entry.place().0 == file {
                kept.push(entry);
            }
        }
        // Most are those of the point before.
        kept.sort_unstable_by_key(Packed::place);
        kept.dedup_by_key(|entry| entry.place());
    }
    Ok(kept)
}

/// Where a page came to lie, if it is the one that was copied.
fn place_of(kept: &[Packed], entry: &Entry) -> Option<u64> {
    let place = (entry.file, entry.index);
    let at = kept.binary_search_by_key(&place, Packed::place).ok()?;
    let is_it = kept[at].entry().hash == entry.hash && kept[at].page() == entry.page;
    is_it.then_some(at as u64)
}
