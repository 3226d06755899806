//! Making a point: the last checkpoint is pinned, what the set has not yet is read and stored.
//!
//! Invariants: the set is as it was until the manifest is replaced, whatever happens before; a page that is
//! not what it should be is never stored; no writer waits.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use terrace_base::checksum::mix;
use terrace_base::disk::Disk;
use terrace_base::{AlignedBuf, Error, Result};
use terrace_pages::PinnedImage;
use terrace_pages::map::SlotSet;
use terrace_wal::Position;

use super::to_read::{Before, ToRead};
use crate::backup_set::leftovers::remove_leftovers;
use crate::backup_set::manifest::{FORMAT, LogPlace, MANIFEST, Manifest, Point};
use crate::backup_set::maps::{MapReader, MapWriter};
use crate::backup_set::names::{log_of, map_name, pages_name, point_of};
use crate::backup_set::options::{BackupOptions, BackupReport};
use crate::backup_set::pages::{PagesWriter, hash_of};
use crate::core::Core;
use crate::gentle::{Cancel, Pace};
use crate::millis::millis;
use crate::progress::{Teller, Work};
use crate::state::backups::PointId;

fn id_of(point: &Point) -> PointId {
    PointId {
        point: point.point,
        generation: point.generation,
    }
}

impl Core {
    /// Adds a point to the set in a folder, which is made if it is missing.
    pub fn back_up_to(&self, set: &Path, options: BackupOptions<'_>) -> Result<BackupReport> {
        let disk = self.backups().folders().open(set, true)?;
        self.back_up(disk, options)
    }

    /// Adds a point to the set in this folder.
    pub fn back_up(
        &self,
        disk: Arc<dyn Disk>,
        mut options: BackupOptions<'_>,
    ) -> Result<BackupReport> {
        options.rate.check()?;
        let began = Instant::now();
        let _one_at_a_time = self.backups().hold();
        let (set, number) = {
            let _alone = self.backups().hold_manifests();
            let set = self.set(&disk)?;
            set.check_same(options.only)?;
            remove_leftovers(&disk, &set)?;
            let number = set.points.last().map_or(0, |point| point.point) + 1;
            (set, number)
        };
        // What is read only is not written to, and its log has nothing: then only the point has the name.
        if let (Some(name), None) = (&options.mark, self.read_only_of()) {
            self.mark(name)?;
        }
        let known = self.backups().last_point(set.set);
        let chain_then = self.backups().following().chain_of(set.set);
        let (pin, written) = if let Some(main) = self.read_only_of() {
            drop(self.passes().enter()?);
            (main.pin_image()?, None)
        } else {
            // It is open, and does not have to stay so.
            drop(self.passes().enter()?);
            let _no_checkpoint = self.exact_checkpoint(false)?;
            self.heard(self.store().pin_image_for(set.set))?
        };
        let made = self.store_point(&disk, &set, number, &pin, (known, &written), &mut options);
        let made = made.and_then(|(mut point, report)| {
            let id = id_of(&point);
            let _alone = self.backups().hold_manifests();
            // The log may have been archived further meanwhile.
            let id_before = set.set;
            let mut set = Manifest::read(&*disk)?.unwrap_or(set.clone());
            set.check_same(Some(id_before))?;
            let chain_now = self.backups().following().chain_of(set.set);
            point.chain = set.chain_behind(point.log.sequence, chain_then, chain_now);
            point.archived = set.end.map(|end| (end.chain, end.next));
            point.mark = options.mark.take();
            set.points.push(point);
            set.write(&disk)?;
            Ok((id, report))
        });
        match made {
            Ok((id, mut report)) => {
                report.seconds = began.elapsed().as_secs_f64();
                self.backups().made(set.set, id, report);
                Ok(report)
            }
            Err(e) => {
                self.store().backup_failed(set.set, written);
                // If the manifest was replaced after all, the files are named by it.
                if Manifest::read(&*disk).is_ok_and(|now| is_without(now.as_ref(), number)) {
                    let _ = disk.delete(&pages_name(number));
                    let _ = disk.delete(&map_name(number));
                }
                Err(e)
            }
        }
    }

    /// The set in a folder, or what a new one will be.
    pub(super) fn set(&self, disk: &Arc<dyn Disk>) -> Result<Manifest> {
        let database = self.store().superblock().database;
        let page_bytes = self.store().page_bytes() as u32;
        let Some(set) = Manifest::read(&**disk)? else {
            check_empty(disk)?;
            return Ok(Manifest {
                format: FORMAT,
                set: self.draw(),
                database,
                page_bytes,
                points: Vec::new(),
                older_pages: Vec::new(),
                logs: Vec::new(),
                end: None,
            });
        };
        if set.database != database || set.page_bytes != page_bytes {
            return Err(Error::invalid(format!(
                "{MANIFEST} is of a backup set of another database (number {:016x}, this one has {database:016x}); name another folder",
                set.database
            )));
        }
        Ok(set)
    }

    /// A number that was not drawn before.
    fn draw(&self) -> u64 {
        use std::hash::{BuildHasher, RandomState};
        match self.options().seed {
            // Another one for each set of this database.
            Some(seed) => mix(seed, 0x5E7 + self.backups().draw()),
            None => RandomState::new().hash_one(std::process::id()),
        }
    }

    fn store_point(
        &self,
        disk: &Arc<dyn Disk>,
        set: &Manifest,
        number: u64,
        pin: &PinnedImage,
        (known, written): (Option<PointId>, &Option<SlotSet>),
        options: &mut BackupOptions<'_>,
    ) -> Result<(Point, BackupReport)> {
        let page_bytes = self.store().page_bytes();
        let last = set.points.last().filter(|_| !options.full);
        let mut before = match last {
            None => None,
            Some(last) => Some(Before::new(
                MapReader::open(&**disk, set.set, last)?,
                written.clone().filter(|_| known == Some(id_of(last))),
            )),
        };
        let superblock = pin.superblock();
        let work = ToRead::of(self.store(), pin, &mut before)?;
        let to_read = work.pages();
        let mut report = BackupReport {
            point: number,
            live_pages: pin.live_pages(),
            read_pages: to_read,
            ..BackupReport::default()
        };
        let mut pages = PagesWriter::new(disk.clone(), set.set, number, page_bytes);
        let bytes = to_read * page_bytes as u64;
        let mut pace = Pace::new(options.rate, bytes, options.cancel.as_ref());
        let mut buffer = AlignedBuf::zeroed(pace.batch(page_bytes));
        let mut nothing = |_| ();
        let tell = match &mut options.progress {
            Some(progress) => &mut **progress,
            None => &mut nothing,
        };
        let mut teller = Teller::new(tell, Work::Backup, to_read);
        let mut done = 0;
        let cancel = options.cancel.clone();
        pin.in_file_order(
            |page| work.has(page),
            |mut some| {
                while !some.is_empty() {
                    if cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                        return Err(Error::Cancelled {
                            what: "the backup; the set is as it was before".into(),
                        });
                    }
                    // What is rotten is told with its name, and is not stored.
                    let count = pin.read(some, &mut buffer)?;
                    for (page, bytes) in
                        some.iter().zip(buffer.chunks_exact(page_bytes)).take(count)
                    {
                        work.is_read(page, hash_of(bytes), || {
                            report.stored_pages += 1;
                            Ok((number, pages.push(bytes)?))
                        })?;
                    }
                    some = &some[count..];
                    done += count as u64;
                    teller.is_at(done);
                    let mut beside = || {
                        if let Some(beside) = &mut options.beside {
                            beside();
                        }
                    };
                    beside();
                    pace.after((count * page_bytes) as u64, &mut beside);
                }
                Ok(())
            },
        )?;
        teller.end();
        let pages = pages.finish()?;
        let map = MapWriter::create(&**disk, set.set, number)?;
        let map = work.write(pin, &mut before, map)?;
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the folder of the backup set", e))?;
        report.stored_bytes = pages.map_or(0, |pages| pages.bytes) + map.bytes;
        let log = Position::decode(&superblock.log_position).ok_or_else(|| {
            Error::corrupt("data", None, "the superblock names no place in the log")
        })?;
        let time = self.checkpoints().time_of(superblock.generation);
        let point = Point {
            point: number,
            generation: superblock.generation,
            time_ms: millis(time),
            log: LogPlace {
                segment: log.segment,
                offset: log.offset,
                sequence: log.sequence,
            },
            page_numbers: superblock.pages,
            live_pages: pin.live_pages(),
            epoch: superblock.epoch,
            next_structure: superblock.next_structure,
            catalog_root: superblock.catalog_root.0,
            pages,
            map,
            map_file: None,
            chain: None,
            archived: None,
            mark: None,
        };
        report.sequence = log.sequence.saturating_sub(1);
        report.time = time;
        Ok((point, report))
    }
}

fn is_without(manifest: Option<&Manifest>, number: u64) -> bool {
    manifest.is_none_or(|now| now.point(number).is_err())
}

/// A set begins in a folder of its own, so that nothing of others is deleted.
fn check_empty(disk: &Arc<dyn Disk>) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", "the folder of the backup set", e))?;
    let foreign = names
        .iter()
        .find(|name| point_of(name).is_none() && log_of(name).is_none() && *name != "manifest.new");
    match foreign {
        None => Ok(()),
        Some(name) => Err(Error::invalid(format!(
            "the folder for the backup set has other files in it ({name}, for one) and no {MANIFEST}; name an empty folder, or one that is not there"
        ))),
    }
}
