//! Folders of backup sets, which several threads of the process may add to at a time.
//!
//! Invariant: a folder is locked once in a process, however many use it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use terrace_base::disk::Disk;
use terrace_base::file_disk::{ALL_RIGHTS, DirectIo, FileDisk, rights_of};
use terrace_base::read_only::ReadOnlyDisk;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

use crate::backup_set::manifest::MANIFEST;

/// How long another thread or process may have a set before that is an error.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried.
const PAUSE: Duration = Duration::from_millis(20);

/// The folders of backup sets that are open in this process.
pub struct Folders {
    open: Mutex<HashMap<PathBuf, Weak<FileDisk>>>,
    /// What the folder of the database allows: a set has the same records.
    rights: AtomicU32,
}

impl Default for Folders {
    fn default() -> Folders {
        Folders {
            open: Mutex::default(),
            rights: AtomicU32::new(ALL_RIGHTS),
        }
    }
}

impl Folders {
    /// The database lies in this folder: no user gets more rights on its sets than that one gives.
    pub fn are_of(&self, database: &Path) {
        self.rights.store(rights_of(database), Ordering::Relaxed);
    }

    /// The folder; if it is missing it is made, or that is an error.
    ///
    /// # Errors
    /// [`terrace_base::Error::Locked`] while another process adds to it; those of the file system.
    pub fn open(&self, path: &Path, make: bool) -> Result<Arc<dyn Disk>> {
        let name = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let rights = self.rights.load(Ordering::Relaxed);
        patiently(|| {
            let mut open = self.open.lock();
            open.retain(|_, disk| disk.strong_count() > 0);
            if let Some(disk) = open.get(&name(path)).and_then(Weak::upgrade) {
                return Ok(disk);
            }
            let disk = Arc::new(match make {
                true => FileDisk::open_or_create_within(path, DirectIo::Preferred, rights)?,
                false => FileDisk::open_within(path, DirectIo::Preferred, rights)?,
            });
            open.insert(name(path), Arc::downgrade(&disk));
            Ok(disk)
        })
        .map(|disk| disk as Arc<dyn Disk>)
    }
}

/// Tries again while another thread or process has the set: who follows a log has it for an instant each second.
fn patiently(open: impl Fn() -> Result<Arc<FileDisk>>) -> Result<Arc<FileDisk>> {
    let end = Instant::now() + PATIENCE;
    loop {
        match open() {
            Err(Error::Locked { .. }) if Instant::now() < end => std::thread::sleep(PAUSE),
            opened => return opened,
        }
    }
}

/// Where a set lies.
#[derive(Clone)]
pub enum SetFolder {
    /// In a folder: its whole path, so that it is the same one whatever directory the program works in.
    Path(PathBuf),
    /// On any disk.
    Disk(Arc<dyn Disk>),
}

impl SetFolder {
    /// The folder of this path, from where the program works now.
    ///
    /// # Errors
    /// When there is no such directory any more.
    pub fn at(path: &Path) -> Result<SetFolder> {
        let whole = std::path::absolute(path);
        whole
            .map(SetFolder::Path)
            .map_err(|e| Error::io("finding", path.display().to_string(), e))
    }

    /// Its path, if it has one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            SetFolder::Path(path) => Some(path),
            SetFolder::Disk(_) => None,
        }
    }

    /// Opens it, so long as the answer is used.
    ///
    /// # Errors
    /// As [`Folders::open`].
    pub fn open(&self, folders: &Folders, make: bool) -> Result<Arc<dyn Disk>> {
        match self {
            SetFolder::Path(path) => folders.open(path, make),
            SetFolder::Disk(disk) => Ok(disk.clone()),
        }
    }
}

/// The folder of a set that there is, to be changed.
pub fn set_disk(set: &Path) -> Result<Arc<dyn Disk>> {
    check_there(set)?;
    // What is written anew there has the rights that the rest has.
    let rights = rights_of(&set.join(MANIFEST));
    let opened = patiently(|| {
        let disk = FileDisk::open_within(set, DirectIo::Preferred, rights)?;
        Ok(Arc::new(disk))
    });
    Ok(opened?)
}

/// The same to be read, beside others that add to it: what is there does not change.
pub fn set_to_read(set: &Path) -> Result<Arc<dyn Disk>> {
    check_there(set)?;
    Ok(Arc::new(ReadOnlyDisk::open_shared(
        set,
        DirectIo::Preferred,
    )?))
}

fn check_there(set: &Path) -> Result<()> {
    match set.is_dir() {
        true => Ok(()),
        false => Err(Error::invalid(format!(
            "there is no folder {}; name the one that holds the backup set",
            set.display()
        ))),
    }
}
