//! Restoring: a new database of the pages of a point.
//!
//! Invariants: the set is only read; nothing is written where something is; what is restored gets its name
//! when it is whole and verified, and never opens an old log, so that nobody takes it for the database that
//! it was.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Instant, SystemTime};

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk, LOCK_FILE};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Build, CutInfo, LEARNT_BYTES, StoreBuilder};

use super::archive::read_records;
use super::manifest::{Manifest, Point};
use super::names::pages_name;
use super::pages::{Entry, PagesReader, damaged, read_map};
use super::select::{Target, select};
use super::set_to_read;
use super::verify::{BackupPoint, manifest};
use crate::database::Database;
use crate::gentle::Cancel;
use crate::handle::Handle;
use crate::mark::time_of;
use crate::open::{identity, new_log};
use crate::options::Options;
use crate::progress::{Progress, Teller, Work};
use crate::replay::Replay;

/// What the folder is called in which a database is restored, until it is whole: this behind its name.
const UNFINISHED: &str = ".restoring";

/// Which state is restored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum RestoreTo {
    /// The newest that there is: the newest point, and all archived changes behind it.
    #[default]
    Latest,
    /// That of a point.
    Point(u64),
    /// That of this time: of the last point, or second of an archived log, up to it. An error where the set
    /// does not know what was so then: before the first point, behind the end, or where no log is archived.
    Time(SystemTime),
    /// That after the change of this number, and before the next.
    Sequence(u64),
    /// That of the newest mark of this name ([`Database::mark`], [`crate::BackupOptions::mark`]).
    Mark(String),
}

/// How a backup is restored.
#[must_use = "options do nothing until something is restored with them"]
pub struct RestoreOptions<'p> {
    pub(crate) to: RestoreTo,
    pub(crate) structure: Option<String>,
    pub(crate) options: Options,
    pub(crate) verify: bool,
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
    pub fn structure(self, name: impl Into<String>) -> RestoreOptions<'p> {
        RestoreOptions {
            structure: Some(name.into()),
            ..self
        }
    }

    /// What the restored database is opened with, to be verified: its memory, above all.
    pub fn options(self, options: Options) -> RestoreOptions<'p> {
        RestoreOptions { options, ..self }
    }

    /// Whether every page and every structure of what was restored is checked (the default).
    pub fn verify(self, verify: bool) -> RestoreOptions<'p> {
        RestoreOptions { verify, ..self }
    }

    /// What ends it early.
    pub fn cancel(self, cancel: &Cancel) -> RestoreOptions<'p> {
        RestoreOptions {
            cancel: Some(cancel.clone()),
            ..self
        }
    }

    /// Who hears how far it has come.
    pub fn progress(self, progress: impl FnMut(Progress) + 'p) -> RestoreOptions<'p> {
        RestoreOptions {
            progress: Some(Box::new(progress)),
            ..self
        }
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
    /// Pages that were written.
    pub pages: u64,
    /// Structures that there are now.
    pub structures: Vec<String>,
    /// Whether it was verified.
    pub verified: bool,
    /// How long it took.
    pub seconds: f64,
}

/// Makes a new database at `to`, which must not be there or be an empty folder, of a state that the backup
/// set in a folder has. It appears under its name when it is whole; what a restore leaves that was cut off
/// lies beside it, with `.restoring` behind the name, and the next one deletes it.
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
    let set = set_to_read(set.as_ref())?;
    let to = std::path::absolute(to.as_ref())
        .map_err(|e| Error::io("finding", to.as_ref().display().to_string(), e))?;
    let shown = to.display().to_string();
    check_free(&to)?;
    let work = work_folder(&to)?;
    let disk = FileDisk::open_or_create(&work, DirectIo::Preferred)?;
    clear(&work, &disk)?;
    let disk: Arc<dyn Disk> = Arc::new(disk);
    let done = restore_on(set, disk.clone(), options).and_then(|report| {
        check_free(&to)?;
        // Atomic where the target is an empty folder, too.
        std::fs::rename(&work, &to).map_err(|e| Error::io("renaming to", &shown, e))?;
        let above = to.parent().unwrap_or(Path::new("/"));
        let synced = std::fs::File::open(above).and_then(|above| above.sync_all());
        synced.map_err(|e| Error::io("syncing", above.display().to_string(), e))?;
        Ok(report)
    });
    if done.is_err() && work.exists() {
        // What was begun only takes space.
        if let Ok(names) = disk.list() {
            names.iter().for_each(|name| drop(disk.delete(name)));
        }
        let _ = std::fs::remove_file(work.join(LOCK_FILE));
        let _ = std::fs::remove_dir(&work);
    }
    done
}

/// Only where nothing is.
fn check_free(to: &Path) -> Result<()> {
    let mut entries = match std::fs::read_dir(to) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(e) => return Err(Error::io("examining", to.display().to_string(), e)),
    };
    match entries.next() {
        None => Ok(()),
        Some(_) => Err(Error::invalid(format!(
            "{} is not empty; restore to a folder that is empty or not there, and put it in the place of the old one yourself",
            to.display()
        ))),
    }
}

fn work_folder(to: &Path) -> Result<PathBuf> {
    let name = to.file_name().ok_or_else(|| {
        Error::invalid(format!(
            "{} has no name to restore to; name a folder",
            to.display()
        ))
    })?;
    let mut name = name.to_os_string();
    name.push(UNFINISHED);
    Ok(to.with_file_name(name))
}

/// Deletes what an earlier attempt left.
fn clear(work: &Path, disk: &FileDisk) -> Result<()> {
    let names = disk
        .list()
        .map_err(|e| Error::io("listing", work.display().to_string(), e))?;
    for name in names {
        disk.delete(&name)
            .map_err(|e| Error::io("deleting", &name, e))?;
    }
    Ok(())
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
    let target = select(&set, &*set_disk, &options.to)?;
    let point = target.point;
    let mut progress = options.progress.take();
    let mut nothing = |_| ();
    let tell: &mut dyn FnMut(Progress) = match &mut progress {
        Some(progress) => &mut **progress,
        None => &mut nothing,
    };
    copy_pages(&set_disk, &set, point, &to, &options, tell)?;
    let db = open_with(&set_disk, &set, &target, to, &options)?;
    if let Some(name) = &options.structure {
        keep_only(&db, name)?;
    }
    db.checkpoint()?;
    if options.verify {
        db.verify_with(tell)?.into_result()?;
    }
    let replayed = (target.last + 1).saturating_sub(point.log.sequence);
    let all = db.structures();
    let unlogged = all.iter().filter(|info| !info.logged && replayed > 0);
    let as_of_point = unlogged.map(|info| info.name.clone()).collect();
    let structures = all.into_iter().map(|info| info.name).collect();
    db.close()?;
    Ok(RestoreReport {
        point: BackupPoint::of(point),
        sequence: target.last,
        time: time_of(target.time_ms),
        replayed,
        as_of_point,
        pages: point.live_pages,
        structures,
        verified: options.verify,
        seconds: began.elapsed().as_secs_f64(),
    })
}

/// Opens the new database and gives it the changes behind the point.
fn open_with(
    set_disk: &Arc<dyn Disk>,
    set: &Manifest,
    target: &Target<'_>,
    to: Arc<dyn Disk>,
    options: &RestoreOptions<'_>,
) -> Result<Database> {
    let from = target.point.log.sequence;
    let mut behind = |replay: &mut Replay<'_>| {
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
        Ok(())
    };
    let opened = Options {
        control: false,
        ..options.options.clone().create(false)
    };
    let handle = Handle::open_with(to, opened, Some(&mut behind))?;
    Ok(Database {
        handle: Arc::new(handle),
    })
}

fn cancelled() -> Error {
    Error::Cancelled {
        what: "the restore; there is no database".into(),
    }
}

/// Drops all structures but one.
fn keep_only(db: &Database, name: &str) -> Result<()> {
    let all: Vec<String> = db.structures().into_iter().map(|info| info.name).collect();
    if !all.iter().any(|there| there == name) {
        return Err(Error::invalid(format!(
            "there was no structure named \"{name}\" then; there were: {}",
            all.join(", ")
        )));
    }
    for other in all.iter().filter(|there| *there != name) {
        db.drop_structure(other)?;
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
    let mut entries = read_map(&**set_disk, set.set, point.point, point.map)?;
    if entries.len() as u64 != point.live_pages {
        let name = super::names::map_name(point.point);
        return Err(damaged(&name, None, "it has too few pages"));
    }
    // In the order in which they lie there.
    entries.sort_unstable_by_key(|entry| (entry.file, entry.index));
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
    for some in entries.chunk_by(|a, b| a.file == b.file) {
        let file = some[0].file;
        let bytes = files
            .get(&file)
            .ok_or_else(|| damaged(&pages_name(file), None, "no point has a file of this name"))?;
        let mut reader = PagesReader::open(&**set_disk, set.set, file, page_bytes, *bytes)?;
        let most = reader.most();
        for run in some.chunk_by(|a, b| a.index + 1 == b.index) {
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
    builder.finish(&CutInfo {
        log_position: cut.encode(),
        learnt: [0; LEARNT_BYTES],
        next_structure: point.next_structure,
        next_sequence: cut.sequence,
        catalog_root: PageId(point.catalog_root),
        clean: true,
    })
}

/// Pages that lie one behind the other.
fn push_pages(reader: &mut PagesReader, part: &[Entry], builder: &mut StoreBuilder) -> Result<()> {
    let Some(first) = part.first() else {
        return Ok(());
    };
    let mut pages = Vec::new();
    reader.read(first.index, part.len(), &mut |_, bytes| {
        pages.extend_from_slice(bytes);
        Ok(())
    })?;
    let each = pages.len() / part.len();
    for (entry, bytes) in part.iter().zip(pages.chunks_exact(each)) {
        reader.check(entry, bytes)?;
        builder.push(PageId(entry.page), bytes)?;
    }
    Ok(())
}
