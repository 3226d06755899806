//! Where a restore builds a database, and how it comes to its name.
//!
//! A target that is not there is built in a folder beside it, which gets its name at the end. One that is
//! there and empty may be where a device is mounted, or what a link leads to, which nothing takes the place
//! of: it is built in a folder inside, whose files move up at the end, the data file last.
//!
//! The folder that it is built in has a mark of its own from the first instant to the last: only where that is,
//! what lies there was made by a restore.
//!
//! Invariants: there is no data file at the target before all else is there, whole and durable; nothing is
//! deleted but what a restore has made; a target that is there is locked until it is done.

use std::fs::{File, rename};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk, LOCK_FILE, WARM_FILE, rights_of};
use terrace_base::{Error, Result};
use terrace_pages::DATA_FILE;

use crate::backup_set::manifest::MANIFEST;

/// What the folder is called in which a database is restored, until it is whole: alone inside the target,
/// or behind its name.
const UNFINISHED: &str = ".restoring";
/// The mark: a file that says that a restore is making, or has left, what lies beside it.
const MARK: &str = "RESTORING";
/// What it says to people.
const MARK_TEXT: &str = "A database is being restored here. If it was cut off, the next restore to the same place deletes this.\n";
/// A folder that an empty file system may have.
const OF_FILE_SYSTEM: &str = "lost+found";

/// The place where a restore builds a database.
pub struct Place {
    to: PathBuf,
    work: PathBuf,
    disk: Arc<FileDisk>,
    /// Of a target that is there.
    lock: Option<FileDisk>,
}

/// What lies at a target.
enum Found {
    Nothing,
    EmptyFolder,
}

impl Place {
    /// Makes a place to build what is to be at `to`, and deletes what an earlier attempt left there. `set` is
    /// where it comes from: no user gets more rights on it.
    ///
    /// # Errors
    /// `Invalid` when something is there; those of the file system.
    pub fn prepare(to: &Path, set: &Path) -> Result<Place> {
        let to = std::path::absolute(to)
            .map_err(|e| Error::io("finding", to.display().to_string(), e))?;
        let found = look_at(&to)?;
        let work = match found {
            Found::EmptyFolder => to.join(UNFINISHED),
            Found::Nothing => beside(&to)?,
        };
        // Who may read a file of the set may enter a folder of the same rights.
        let of_files = rights_of(&set.join(MANIFEST));
        let rights = rights_of(set) & (of_files | ((of_files & 0o444) >> 2));
        let disk = FileDisk::open_or_create_within(&work, DirectIo::Preferred, rights)?;
        let disk = Arc::new(disk);
        mark(&work, &disk)?;
        let lock = match found {
            Found::Nothing => None,
            // After the folder inside: so a lock that a restore left is known by it.
            Found::EmptyFolder => Some(FileDisk::open_within(&to, DirectIo::Off, rights)?),
        };
        look_at(&to)?;
        let place = Place {
            to,
            work,
            disk,
            lock,
        };
        let cleared = place.clear();
        cleared.map_err(|e| Error::io("deleting in", place.work.display().to_string(), e))?;
        Ok(place)
    }

    /// Where it is built.
    pub fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// What was built gets its name.
    ///
    /// # Errors
    /// `Invalid` when something has come there meanwhile; those of the file system.
    pub fn finish(&self) -> Result<()> {
        let found = look_at(&self.to)?;
        let shown = self.to.display().to_string();
        let moved = match (found, &self.lock) {
            // Should it have been made meanwhile, and be empty, its place is taken.
            (_, None) => rename(&self.work, &self.to).and_then(|()| {
                let above = self.to.parent().unwrap_or(Path::new("/"));
                File::open(above)?.sync_all()?;
                // It is there; a file more does no harm.
                let _ = std::fs::remove_file(self.to.join(MARK));
                Ok(())
            }),
            (_, Some(_)) => self.move_up(),
        };
        moved.map_err(|e| Error::io("moving what was restored to", shown, e))
    }

    fn move_up(&self) -> std::io::Result<()> {
        let names = self.disk.list()?;
        let above = File::open(&self.to)?;
        let up = |name: &str| rename(self.work.join(name), self.to.join(name));
        names
            .iter()
            .filter(|name| *name != DATA_FILE && *name != MARK)
            .try_for_each(|name| up(name))?;
        above.sync_all()?;
        up(DATA_FILE)?;
        above.sync_all()?;
        // It is there and durable; an empty folder more does no harm.
        let _ = self.disk.delete(MARK);
        let _ = self.disk.delete_lock();
        let _ = std::fs::remove_dir(&self.work);
        Ok(())
    }

    /// Takes back what was made.
    pub fn give_up(&self) {
        if self.lock.is_some() && self.to.join(DATA_FILE).exists() || !self.work.exists() {
            // It has its name already, and only whether that is durable is not known.
            return;
        }
        // What stays only takes space, and the next attempt deletes it.
        if self.clear().is_err() {
            return;
        }
        if let Some(lock) = &self.lock {
            let _ = lock.delete_lock();
        }
        let _ = self.disk.delete(MARK);
        let _ = self.disk.delete_lock();
        let _ = std::fs::remove_dir(&self.work);
    }

    /// Deletes what a restore has made so far, here or in a process before, but for the mark.
    fn clear(&self) -> std::io::Result<()> {
        let work = self.disk.list()?;
        let work = work.iter().filter(|name| *name != MARK);
        { work }.try_for_each(|name| self.disk.delete(name))?;
        if let Some(to) = &self.lock {
            // Those that had moved up when it was killed.
            let moved = to.list()?;
            let moved = moved.iter().filter(|name| is_of_database(name));
            { moved }.try_for_each(|name| to.delete(name))?;
        }
        Ok(())
    }
}

/// Whether a file of this name may be one of a database.
fn is_of_database(name: &str) -> bool {
    let kinds = ["map-", "log-", "load-"];
    name == DATA_FILE || name == WARM_FILE || kinds.iter().any(|kind| name.starts_with(kind))
}

/// An error if there is something at the target, except for what a restore that was killed has left.
fn look_at(to: &Path) -> Result<Found> {
    let failed = |e| Error::io("examining", to.display().to_string(), e);
    let entries = match std::fs::read_dir(to) {
        Ok(entries) => entries,
        Err(e) if e.kind() == ErrorKind::NotFound => {
            let is_link = std::fs::symlink_metadata(to).is_ok_and(|there| there.is_symlink());
            return match is_link {
                false => Ok(Found::Nothing),
                true => Err(Error::invalid(format!(
                    "{} is a link to a folder that is not there; make that one, or name another",
                    to.display()
                ))),
            };
        }
        Err(e) => return Err(failed(e)),
    };
    let is_unfinished = to.join(UNFINISHED).join(MARK).is_file();
    for entry in entries {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let name = name.to_str().unwrap_or("");
        let is_folder = entry.file_type().map_err(failed)?.is_dir();
        let is_left = match is_folder {
            true => [UNFINISHED, OF_FILE_SYSTEM].contains(&name),
            false => {
                let of_restore = name == LOCK_FILE || is_of_database(name) && name != DATA_FILE;
                is_unfinished && of_restore
            }
        };
        if !is_left {
            return Err(Error::invalid(format!(
                "{} is not empty; restore to a folder that is empty or not there, and put it in the place of the old one yourself",
                to.display()
            )));
        }
    }
    Ok(Found::EmptyFolder)
}

/// The folder beside a target.
fn beside(to: &Path) -> Result<PathBuf> {
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

/// Takes a mark away that lies in a database which is opened: its restore ended with its name, and was cut off then.
/// Whoever looks at the folder later is not to think that it was made to be deleted.
pub fn forget_mark(disk: &dyn Disk) {
    let names = disk.list().unwrap_or_default();
    if names.iter().any(|name| name == MARK) {
        // It does the database no harm.
        let _ = disk.delete(MARK);
    }
}

/// Marks a folder that is to be built in, if nothing is there; an error if there is, and no mark, or anything
/// that no restore has made.
fn mark(work: &Path, disk: &FileDisk) -> Result<()> {
    let shown = || work.display().to_string();
    let names = disk.list().map_err(|e| Error::io("listing", shown(), e))?;
    let is_marked = names.iter().any(|name| name == MARK);
    let is_made = |name: &String| is_marked && (name == MARK || is_of_database(name));
    if let Some(name) = names.iter().find(|name| !is_made(name)) {
        return Err(Error::invalid(format!(
            "{} is needed to restore in, and has files in it that no restore has made ({name}, for one); put them elsewhere",
            shown()
        )));
    }
    if is_marked {
        return Ok(());
    }
    // Durable before anything else is there.
    let failed = |e| Error::io("writing", format!("{}/{MARK}", shown()), e);
    let file = disk.create_buffered(MARK).map_err(failed)?;
    file.write_at(MARK_TEXT.as_bytes(), 0).map_err(failed)?;
    file.sync().map_err(failed)?;
    disk.sync_directory().map_err(failed)
}
