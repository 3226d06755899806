//! Folders of backup sets, which several threads of the process may add to at a time.
//!
//! Invariant: a folder is locked once in a process, however many use it.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use terrace_base::disk::Disk;
use terrace_base::file_disk::{DirectIo, FileDisk};
use terrace_base::read_only::ReadOnlyDisk;
use terrace_base::sync::Mutex;
use terrace_base::{Error, Result};

/// How long somebody else may have a set before that is an error.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is tried.
const PAUSE: Duration = Duration::from_millis(20);

/// See the module's text.
#[derive(Default)]
pub struct Folders(Mutex<HashMap<PathBuf, Weak<FileDisk>>>);

impl Folders {
    /// The folder; if it is missing it is made, or that is an error.
    ///
    /// # Errors
    /// [`terrace_base::Error::Locked`] while another process adds to it; those of the file system.
    pub fn open(&self, path: &Path, make: bool) -> Result<Arc<dyn Disk>> {
        let name = |path: &Path| std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        patiently(|| {
            let mut open = self.0.lock();
            open.retain(|_, disk| disk.strong_count() > 0);
            if let Some(disk) = open.get(&name(path)).and_then(Weak::upgrade) {
                return Ok(disk);
            }
            let disk = Arc::new(match make {
                true => FileDisk::open_or_create(path, DirectIo::Preferred)?,
                false => FileDisk::open(path, DirectIo::Preferred)?,
            });
            open.insert(name(path), Arc::downgrade(&disk));
            Ok(disk)
        })
        .map(|disk| disk as Arc<dyn Disk>)
    }
}

/// Tries again while somebody else has the set: who follows a log has it for an instant each second.
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
    let opened = patiently(|| Ok(Arc::new(FileDisk::open(set, DirectIo::Preferred)?)));
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
