//! The folder of a database: which path is a slip, and what goes again if nothing comes of a new one.

use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use terrace::{DirectIo, Disk, FileDisk};

/// Name of the file whose lock says that a folder is in use.
const LOCK: &str = "LOCK";

/// The folder of a database, locked.
#[derive(Debug)]
pub struct Place {
    path: PathBuf,
    disk: Arc<FileDisk>,
    /// Whether the folder was there before.
    was_there: bool,
    /// Whether it held no file when it was locked: then all that is there now was made under our lock.
    was_empty: bool,
}

impl Place {
    /// Locks the folder, and makes it only if told to.
    pub fn open(path: &Path, create: bool) -> Result<Place> {
        look_at(path, create)?;
        let was_there = path.is_dir();
        let opened = if create {
            FileDisk::open_or_create(path, DirectIo::Preferred)
        } else {
            FileDisk::open(path, DirectIo::Preferred)
        };
        let disk = match opened {
            Ok(disk) => Arc::new(disk),
            Err(error) => {
                if !was_there {
                    // Only if nothing was put there.
                    let _ = std::fs::remove_dir(path);
                }
                return Err(error)
                    .with_context(|| format!("cannot open the database {}", path.display()));
            }
        };
        let was_empty = disk.list().is_ok_and(|names| names.is_empty());
        Ok(Place {
            path: path.to_path_buf(),
            disk,
            was_there,
            was_empty,
        })
    }

    /// Its files, for the store.
    pub fn disk(&self) -> Arc<dyn Disk> {
        self.disk.clone()
    }

    /// Takes away what was made since it was locked, if there was nothing before. Whoever made it must
    /// have closed it. What cannot be deleted does no harm, and the error that led here says more.
    pub fn clear(self) {
        if !self.was_empty {
            return;
        }
        for name in self.disk.list().into_iter().flatten() {
            if is_ours(&name) {
                let _ = self.disk.delete(&name);
            }
        }
        // Before the lock is released, so that no other process has it.
        let _ = self.disk.delete_lock();
        if !self.was_there {
            let _ = std::fs::remove_dir(&self.path);
        }
    }
}

/// Whether a file of this name in a folder is one of a database.
fn is_ours(name: &str) -> bool {
    let segment = |digits: &str| digits.len() == 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    let number = |digits: &str| digits.parse::<u64>().is_ok();
    let load = |digits: &str| digits.len() == 16 && digits.bytes().all(|b| b.is_ascii_hexdigit());
    matches!(name, "data" | "warm" | LOCK)
        || name.strip_prefix("log-").is_some_and(segment)
        || name.strip_prefix("map-").is_some_and(number)
        || name.strip_prefix("load-").is_some_and(load)
}

/// Refuses a path that is clearly a slip, before anything is made there.
fn look_at(path: &Path, create: bool) -> Result<()> {
    let shown = path.display();
    if path.exists() && !path.is_dir() {
        bail!("{shown} is a file; a database is a folder: give the folder that holds it");
    }
    let cannot_read = || format!("cannot read the folder {shown}: check its permissions");
    let entries = match path.read_dir() {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        entries => Some(entries.with_context(cannot_read)?),
    };
    let (mut ours, mut others) = (0, 0);
    for entry in entries.into_iter().flatten() {
        let entry = entry.with_context(cannot_read)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        // What a link leads to may lie on another disk, whose promises are not those of this folder.
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        // What a process that was killed has left of `Options::control`.
        if name == "control" && entry.file_type().is_ok_and(|kind| kind.is_socket()) {
            continue;
        }
        match name.as_str() {
            "data" if is_file => return Ok(()),
            "data" if entry.path().is_file() => bail!(
                "{} is a link; the files of a database lie in its folder itself: give the folder \
                 that the link leads to, or copy the file here",
                entry.path().display()
            ),
            // A folder of such a name belongs to another program: many keep one called "data".
            name if !is_ours(name) || !is_file => others += 1,
            LOCK => {}
            _ => ours += 1,
        }
    }
    if !create && ours > 0 {
        bail!(
            "{shown} has files of a database but not the one called data: restore the folder from a \
             backup; if a database was only being made there, `terrace load` or `terrace put` begins \
             anew"
        );
    }
    if !create {
        bail!(
            "there is no database at {shown}: check the path, or create one with `terrace load` \
             or `terrace put`"
        );
    }
    if others > 0 {
        bail!("{shown} holds other files and no database: give a new or an empty folder");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_else_has_made_meanwhile_is_not_taken_away() {
        let folder = std::env::temp_dir().join(format!("terrace-place-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("data"), "theirs").unwrap();
        let place = Place::open(&folder, true).unwrap();
        place.clear();
        assert!(folder.join("data").exists());
        std::fs::remove_file(folder.join("data")).unwrap();
        let place = Place::open(&folder, true).unwrap();
        std::fs::write(folder.join("data"), "ours").unwrap();
        std::fs::write(folder.join("warm"), "ours").unwrap();
        place.clear();
        assert_eq!(folder.read_dir().unwrap().count(), 0);
        std::fs::remove_dir(&folder).unwrap();
    }
}
