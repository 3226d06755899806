//! Restoring: a new database of the pages of a point.
//!
//! Invariants: the set is only read; nothing is written where something is; what is restored gets its name
//! when it is whole and verified, and never opens an old log, so that it is not taken for the database that
//! it was.

use std::path::Path;
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use terrace_base::disk::Disk;
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Build, CheckpointMeta, LEARNT_BYTES, StoreBuilder};

use super::select::{RestoreTo, select};
use super::target::Target;
use super::verify::{BackupPoint, ClockLeap, manifest};
use crate::backup_set::archive::read_records;
use crate::backup_set::damage::damaged;
use crate::backup_set::folder::set_to_read;
use crate::backup_set::manifest::{Manifest, Point};
use crate::backup_set::maps::{MapReader, Packed};
use crate::backup_set::names::pages_name;
use crate::backup_set::pages::PagesReader;
use crate::backup_set::place::Place;
use crate::clock::Source;
use crate::core::Core;
use crate::gentle::Cancel;
use crate::handle::shared::Handle;
use crate::millis::time_of;
use crate::opening;
use crate::options::Options;
use crate::progress::{Progress, Teller, Work};
use crate::recover::open::{identity, new_log};
use crate::recover::replay::Replay;

/// How a backup is restored.
#[must_use = "options do nothing until something is restored with them"]
pub struct RestoreOptions<'p> {
    pub(crate) to: RestoreTo,
    pub(crate) structure: Option<String>,
    pub(crate) options: Options,
    pub(crate) verify: bool,
    pub(crate) up_to_break: bool,
    pub(crate) cancel: Option<Cancel>,
    pub(crate) progress: Option<Box<dyn FnMut(Progress) + 'p>>,
}

impl Default for RestoreOptions<'_> {
    fn default() -> Self {
        RestoreOptions {
            to: RestoreTo::Latest,
            structure: None,
            options: Options::new(),
            verify: true,
            up_to_break: false,
            cancel: None,
            progress: None,
        }
    }
}

impl<'p> RestoreOptions<'p> {
    /// The defaults: the newest state, all structures, verified.
    pub fn new() -> RestoreOptions<'p> {
        RestoreOptions::default()
    }

    /// Which state.
    pub fn to(self, to: RestoreTo) -> RestoreOptions<'p> {
        RestoreOptions { to, ..self }
    }

    /// Only this structure, a table with its indexes.
    pub fn structure(mut self, name: impl Into<String>) -> RestoreOptions<'p> {
        self.structure = Some(name.into());
        self
    }

    /// What the restored database is opened with, to be verified: its memory, above all.
    pub fn options(self, options: Options) -> RestoreOptions<'p> {
        RestoreOptions { options, ..self }
    }

    /// Whether every page and every structure of what was restored is checked (the default).
    pub fn verify(self, verify: bool) -> RestoreOptions<'p> {
        RestoreOptions { verify, ..self }
    }

    /// Whether the newest state before a break will do, where the newest changes that were archived cannot be
    /// restored: the log was given up before them ([`crate::FollowStatus::breaks`]), and the point that they
    /// need was not made yet. Without it that is an error of [`RestoreTo::Latest`].
    pub fn up_to_break(mut self, up_to_break: bool) -> RestoreOptions<'p> {
        self.up_to_break = up_to_break;
        self
    }

    /// What ends it early.
    pub fn cancel(mut self, cancel: &Cancel) -> RestoreOptions<'p> {
        self.cancel = Some(cancel.clone());
        self
    }

    /// Who hears how far it has come.
    pub fn progress(mut self, progress: impl FnMut(Progress) + 'p) -> RestoreOptions<'p> {
        self.progress = Some(Box::new(progress));
        self
    }
}

/// What a restore came to.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct RestoreReport {
    /// The point.
    pub point: BackupPoint,
    /// The last logged change that it has.
    pub sequence: u64,
    /// When it was so: the time of the last point, or mark in the archived log, up to there.
    pub time: SystemTime,
    /// Changes that were replayed behind the point, in log records.
    pub replayed: u64,
    /// Structures without log, if any changes were replayed: they are as they were at the point.
    pub as_of_point: Vec<String>,
    /// Indexes over such tables that were made behind the point: they are not there, and can be made again.
    pub lost_indexes: Vec<String>,
    /// Where the clock had gone back in the log that was replayed.
    pub clock_leaps: Vec<ClockLeap>,
    /// Structures of which records have expired by today's time, which the new database has.
    pub expired: Vec<ExpiredPart>,
    /// Pages that were written.
    pub pages: u64,
    /// Structures that there are now.
    pub structures: Vec<String>,
    /// Whether it was verified.
    pub verified: bool,
    /// How long it took.
    pub seconds: f64,
}

/// About how much of a structure has expired.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
#[non_exhaustive]
pub struct ExpiredPart {
    /// The structure.
    pub structure: String,
    /// The part of its records that no reader sees any more, from 0 to 1; by a sample, if there are many.
    pub part: f64,
}

/// Makes a new database at `to`, which must not be there or be an empty folder, of a state that the backup
/// set in a folder has. It is there when it is whole. Until then it lies in a folder that is called
/// `.restoring`: inside the target if that is there (it may be where a device is mounted), else beside it, with
/// the name of the target in front. What a restore leaves that was cut off the next one deletes, by a file
/// `RESTORING` that says that it is that; nothing else is deleted. No user has rights on folder and files who has none
/// on the set.
///
/// The new database has a number of its own: it is another one, to whose set nothing is added by mistake.
///
/// # Errors
/// [`Error::Invalid`] when there is something at `to`, no set, or no such point or structure, with what
/// there is; [`Error::Corrupt`] with file and page when the set is damaged there; [`Error::DiskFull`];
/// [`Error::Cancelled`].
pub fn restore(
    set: impl AsRef<Path>,
    to: impl AsRef<Path>,
    options: RestoreOptions<'_>,
) -> Result<RestoreReport> {
    let disk = set_to_read(set.as_ref())?;
    let place = Place::prepare(to.as_ref(), set.as_ref())?;
    let done = restore_on(disk, place.disk(), options).and_then(|report| {
        place.finish()?;
        Ok(report)
    });
    if done.is_err() {
        place.give_up();
    }
    done
}

/// The same from and to any disk; what there is on `to` is not looked at.
#[doc(hidden)]
pub fn restore_on(
    set_disk: Arc<dyn Disk>,
    to: Arc<dyn Disk>,
    mut options: RestoreOptions<'_>,
) -> Result<RestoreReport> {
    let began = Instant::now();
    let set = manifest(&*set_disk)?;
    let target = select(&set, &*set_disk, &options.to, options.up_to_break)?;
    let point = target.point;
    let mut progress = options.progress.take();
    let mut nothing = |_| ();
    let tell: &mut dyn FnMut(Progress) = match &mut progress {
        Some(progress) => &mut **progress,
        None => &mut nothing,
    };
    copy_pages(&set_disk, &set, point, &to, &options, tell)?;
    let (handle, lost_indexes) = open_with(&set_disk, &set, &target, to, &options)?;
    let core = &**handle.core();
    if let Some(name) = &options.structure {
        keep_only(core, name)?;
    }
    core.purging_checkpoint()?;
    if options.verify {
        let cancel = options.cancel.clone().unwrap_or_default();
        match core.verify(tell, &cancel) {
            Err(Error::Cancelled { .. }) => return Err(cancelled()),
            verified => verified?.into_result()?,
        }
    }
    let replayed = (target.last + 1).saturating_sub(point.log.sequence);
    let all = core.structures();
    let unlogged = all.iter().filter(|info| !info.logged && replayed > 0);
    let as_of_point = unlogged.map(|info| info.name.clone()).collect();
    let expired = expired_since(core, &options)?;
    let structures = all.into_iter().map(|info| info.name).collect();
    handle.close()?;
    Ok(RestoreReport {
        point: BackupPoint::of(point),
        sequence: target.last,
        time: time_of(target.time_ms),
        replayed,
        as_of_point,
        lost_indexes,
        clock_leaps: target.leaps(),
        expired,
        pages: point.live_pages,
        structures,
        verified: options.verify,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Opens the new database and gives it the changes behind the point; and the names of indexes that it lacks.
fn open_with(
    set_disk: &Arc<dyn Disk>,
    set: &Manifest,
    target: &Target<'_>,
    to: Arc<dyn Disk>,
    options: &RestoreOptions<'_>,
) -> Result<(Handle, Vec<String>)> {
    let from = target.point.log.sequence;
    let mut lost_indexes = Vec::new();
    let mut behind = |replay: &mut Replay<'_>| {
        replay.begin_point();
        for log in &target.logs {
            read_records(&**set_disk, set.set, log, &mut |sequence, record| {
                if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                    return Err(cancelled());
                }
                match (from..=target.last).contains(&sequence) {
                    true => replay.record(sequence, record),
                    false => Ok(()),
                }
            })?;
        }
        lost_indexes = replay.lost_indexes();
        Ok(())
    };
    let opened = Options {
        control: false,
        // Nothing expires before it is all there, so that it can be said how much has.
        clock: Some(Source::standing(target.time_ms.min(today(options)))),
        ..options.options.clone().create(false)
    };
    let handle = opening::open_with(to, opened, Some(&mut behind))?;
    Ok((handle, lost_indexes))
}

/// What time it is, in milliseconds since 1970.
fn today(options: &RestoreOptions<'_>) -> u64 {
    let source = options.options.clock.clone();
    source.unwrap_or_else(Source::system).now()
}

/// From now on the new database has today's time: what has expired by then?
fn expired_since(core: &Core, options: &RestoreOptions<'_>) -> Result<Vec<ExpiredPart>> {
    core.clock().not_before(today(options));
    let mut expired = Vec::new();
    for open in core.registry().all() {
        if !open.spec.expiring || !open.is_named() {
            continue;
        }
        let part = core.expired_share(&open)?;
        if part > 0.0 {
            let structure = open.name().to_string();
            expired.push(ExpiredPart { structure, part });
        }
    }
    Ok(expired)
}

fn cancelled() -> Error {
    Error::Cancelled {
        what: "the restore; there is no database".into(),
    }
}

/// Drops all structures but one.
fn keep_only(core: &Core, name: &str) -> Result<()> {
    let all: Vec<String> = core
        .structures()
        .into_iter()
        .map(|info| info.name)
        .collect();
    if !all.iter().any(|there| there == name) {
        return Err(Error::invalid(format!(
            "there was no structure named \"{name}\" then; there were: {}",
            all.join(", ")
        )));
    }
    for other in all.iter().filter(|there| *there != name) {
        core.drop_structure(other)?;
    }
    Ok(())
}

/// Makes the store of the new database, and an empty log.
fn copy_pages(
    set_disk: &Arc<dyn Disk>,
    set: &Manifest,
    point: &Point,
    to: &Arc<dyn Disk>,
    options: &RestoreOptions<'_>,
    tell: &mut dyn FnMut(Progress),
) -> Result<()> {
    let mut map = MapReader::open(&**set_disk, set.set, point)?;
    if map.count() != point.live_pages {
        let name = crate::backup_set::names::map_name(point.map_number());
        return Err(damaged(&name, None, "it has too few pages"));
    }
    let mut entries = Vec::with_capacity(map.count() as usize);
    while let Some(entry) = map.next_packed()? {
        entries.push(entry);
    }
    // In the order in which they lie there.
    entries.sort_unstable_by_key(Packed::place);
    // The table of pages, which a database holds in its memory: so a set that names pages without end takes
    // no memory that was not given.
    let (needed, given) = (point.page_numbers * 8, options.options.memory);
    if needed > given {
        return Err(Error::MemoryTooSmall {
            what: format!("a database with {} page numbers", point.page_numbers),
            given,
            needed,
        });
    }
    let page_bytes = set.page_bytes as usize;
    let build = Build {
        page_bytes,
        database: identity(&options.options),
        pages: point.page_numbers,
        live: point.live_pages,
        epoch: point.epoch,
    };
    let mut builder = StoreBuilder::new(to.clone(), build)?;
    let files = set.page_files();
    let mut teller = Teller::new(tell, Work::Restore, point.live_pages);
    let mut done = 0;
    for some in entries.chunk_by(|a, b| a.place().0 == b.place().0) {
        let (file, _) = some[0].place();
        let bytes = files
            .get(&file)
            .ok_or_else(|| damaged(&pages_name(file), None, "no point has a file of this name"))?;
        let mut reader = PagesReader::open(&**set_disk, set.set, file, page_bytes, *bytes)?;
        let most = reader.most();
        for run in some.chunk_by(|a, b| a.place().1 + 1 == b.place().1) {
            for part in run.chunks(most) {
                if options.cancel.as_ref().is_some_and(Cancel::is_cancelled) {
                    return Err(cancelled());
                }
                push_pages(&mut reader, part, &mut builder)?;
                done += part.len() as u64;
                teller.is_at(done);
            }
        }
    }
    teller.end();
    let cut = new_log(to.clone(), &options.options)?;
    builder.finish(&CheckpointMeta {
        log_position: cut.encode(),
        learnt: [0; LEARNT_BYTES],
        next_structure: point.next_structure,
        next_sequence: cut.sequence,
        unlogged_from: cut.sequence,
        catalog_root: PageId(point.catalog_root),
        clean: true,
    })
}

/// Pages that lie one behind the other.
fn push_pages(reader: &mut PagesReader, part: &[Packed], builder: &mut StoreBuilder) -> Result<()> {
    let Some(first) = part.first() else {
        return Ok(());
    };
    let mut pages = Vec::new();
    reader.read(first.place().1, part.len(), &mut |_, bytes| {
        pages.extend_from_slice(bytes);
        Ok(())
    })?;
    let each = pages.len() / part.len();
    for (entry, bytes) in part.iter().zip(pages.chunks_exact(each)) {
        reader.check(&entry.entry(), bytes)?;
        builder.push(PageId(entry.page()), bytes)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use terrace_sim::SimDisk;

    use super::*;
    use crate::backup::prune::prune_backup_on;
    use crate::backup_set::options::BackupOptions;

    fn tiny(seed: u64) -> Options {
        let options = Options::new().memory(1 << 20).page_size(4096).seed(seed);
        options.log_segment(16 << 10).foreground(true)
    }

    /// What a restore of a set says whose manifest was changed, and has the right checksum.
    fn crafted(change: fn(&mut Manifest)) -> (SimDisk, Result<RestoreReport>) {
        let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
        let db = crate::Database::open_on(disk.shared(), tiny(1)).unwrap();
        db.tree("t").unwrap().put("a", "1").unwrap();
        db.backup_on(set.shared(), BackupOptions::new()).unwrap();
        let mut manifest = Manifest::read(&*set.shared()).unwrap().unwrap();
        change(&mut manifest);
        manifest.write(&set.shared()).unwrap();
        let options = RestoreOptions::new().options(tiny(2));
        let done = restore_on(set.shared(), SimDisk::new(3).shared(), options);
        (set, done)
    }

    #[test]
    fn a_set_of_somebody_who_means_harm_is_an_error() {
        crafted(|_| ()).1.unwrap();
        let changes: [fn(&mut Manifest); 8] = [
            // The root of the catalog is no page: whoever waited for it would wait for ever.
            |set| set.points[0].catalog_root = set.points[0].page_numbers - 1 + 1000,
            |set| set.points[0].catalog_root = u64::MAX >> 20,
            |set| {
                set.points[0].page_numbers += 5;
                set.points[0].catalog_root = set.points[0].page_numbers - 1;
            },
            // Tables for pages without end.
            |set| set.points[0].page_numbers = 1 << 39,
            |set| set.points[0].page_numbers = u64::MAX,
            |set| set.points[0].live_pages = u64::MAX,
            |set| set.points[0].log.sequence = u64::MAX,
            |set| set.points[0].pages.as_mut().unwrap().bytes = u64::MAX,
        ];
        for change in changes {
            let (set, done) = crafted(change);
            let told = done.unwrap_err();
            let known = ["corrupt", "memory_too_small"].contains(&told.kind());
            assert!(known, "{}: {told}", told.kind());
            // Whatever comes of it, it ends.
            let _ = prune_backup_on(set.shared(), 1);
        }
    }

    /// The same where the roots of a structure are pages that there are not.
    #[test]
    fn a_set_whose_structures_have_no_roots_is_an_error() {
        let roots = [(false, 1000), (true, 1000), (false, 60), (true, 60)];
        let both = roots.map(|(is_hot, none)| [false, true].map(|form| (is_hot, none, form)));
        for (is_hot, none, in_memory) in both.into_iter().flatten() {
            let (disk, set) = (SimDisk::new(1), SimDisk::new(2));
            let db = crate::Database::open_on(disk.shared(), tiny(1)).unwrap();
            let made = crate::MapOptions::new().hot_in_memory(in_memory);
            let tree = db.create_tree("t", made).unwrap();
            tree.put("a", "1").unwrap();
            // What is dirty is saved from then on, and the place of that stands in the catalog.
            db.checkpoint().unwrap();
            let core = db.core();
            let catalog = core.registry().catalog();
            let mut entry = catalog.load().unwrap().pop().unwrap();
            match is_hot {
                true => entry.roots.hot = Some(PageId(none)),
                false => entry.roots.cold = PageId(none),
            }
            let door = core.store().enter().unwrap();
            let put = catalog.put(&door, &entry, &mut || ());
            assert!(put.is_ok());
            drop(door);
            db.backup_on(set.shared(), BackupOptions::new()).unwrap();
            let options = RestoreOptions::new().options(tiny(2));
            let told = restore_on(set.shared(), SimDisk::new(3).shared(), options).unwrap_err();
            assert!(
                told.to_string().contains("the root of t is to be"),
                "{told}"
            );
        }
    }
}
