//! The real disk, to be read only: no file is written, made or deleted, so it may belong to others or lie
//! on a file system that takes no writes.
//!
//! Invariant: as long as it is open no writer has the directory: its lock is a shared one,
//! which any number of readers have at a time, and writers take the same one alone. It is let go of when
//! the disk is dropped, for children that were forked meanwhile, too. Who opens it with
//! [`ReadOnlyDisk::open_shared`] does without.

use std::fs::{File, TryLockError};
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Dir, FileType, Mode, OFlags, StatVfsMountFlags};

use crate::disk::{Disk, DiskFile, DiskRead};
use crate::file_disk::{DirectIo, LOCK_FILE};
use crate::held::{Held, is_held};
use crate::process::{Owner, of_another_process};
use crate::together::{Together, read_many};
use crate::{Error, Result};

/// A directory of files that are only read, locked against writers.
pub struct ReadOnlyDisk {
    path: PathBuf,
    directory: File,
    direct: bool,
    together: Arc<Together>,
    // Held for its lock only, if it has one.
    lock: Option<File>,
    owner: Owner,
    _held: Option<Held>,
}

impl Drop for ReadOnlyDisk {
    fn drop(&mut self) {
        // As that of `FileDisk`: children have the lock, too, and let go of nothing.
        if let Some(lock) = &self.lock
            && self.owner.is_here()
        {
            let _ = lock.unlock();
        }
    }
}

impl ReadOnlyDisk {
    /// Opens the directory.
    ///
    /// # Errors
    /// [`Error::Locked`] while a writer has it open; those of the file system. A directory in
    /// which no database has ever been opened is refused.
    pub fn open(path: impl AsRef<Path>, direct: DirectIo) -> Result<ReadOnlyDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let directory = File::open(path).map_err(|e| Error::io("opening", &shown, e))?;
        let lock = match open_in(&directory, LOCK_FILE, OFlags::empty()) {
            Ok(lock) => Some(lock),
            // A copy without that file, on media that take no writes: there no process can write.
            Err(e) if e.kind() == io::ErrorKind::NotFound && takes_no_writes(&directory) => None,
            Err(e) => {
                return Err(match e.kind() {
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => {
                        Error::invalid(format!(
                            "there is no database in {shown}, for its file {LOCK_FILE} is missing; name the directory that holds it, and if it is a copy without that file, make an empty one"
                        ))
                    }
                    _ => Error::io("opening", LOCK_FILE, e),
                });
            }
        };
        match lock.as_ref().map_or(Ok(()), File::try_lock_shared) {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let here = is_held(&directory);
                return Err(Error::Locked { path: shown, here });
            }
            Err(TryLockError::Error(e)) => return Err(Error::io("locking", LOCK_FILE, e)),
        }
        let direct = direct != DirectIo::Off
            && !direct_flag().is_empty()
            && open_in(&directory, LOCK_FILE, direct_flag()).is_ok();
        Ok(ReadOnlyDisk {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            _held: Some(Held::new(&directory)),
            directory,
            direct,
            together: Arc::new(Together::new()),
            lock,
            owner: Owner::here(),
        })
    }

    /// Opens the directory without its lock, whoever writes there: for files that never change once they
    /// are there.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn open_shared(path: impl AsRef<Path>, direct: DirectIo) -> Result<ReadOnlyDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let directory = File::open(path).map_err(|e| Error::io("opening", &shown, e))?;
        let direct = direct != DirectIo::Off
            && !direct_flag().is_empty()
            && open_in(&directory, LOCK_FILE, direct_flag()).is_ok();
        Ok(ReadOnlyDisk {
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            directory,
            direct,
            together: Arc::new(Together::new()),
            lock: None,
            owner: Owner::here(),
            _held: None,
        })
    }

    fn open_file(&self, name: &str, direct: bool) -> io::Result<Arc<dyn DiskFile>> {
        if !self.owner.is_here() {
            return Err(io::Error::other(of_another_process()));
        }
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let flags = if direct {
            direct_flag()
        } else {
            OFlags::empty()
        };
        Ok(Arc::new(ReadOnlyFile {
            file: open_in(&self.directory, name, flags)?,
            together: self.together.clone(),
        }))
    }
}

/// Whether the file system is mounted to be read only.
fn takes_no_writes(directory: &File) -> bool {
    let stat = rustix::fs::fstatvfs(directory);
    stat.is_ok_and(|stat| stat.f_flag.contains(StatVfsMountFlags::RDONLY))
}

/// Opens a file of the directory for reading.
fn open_in(directory: &File, name: &str, flags: OFlags) -> io::Result<File> {
    let flags = flags | OFlags::RDONLY | OFlags::CLOEXEC;
    loop {
        match rustix::fs::openat(directory, name, flags, Mode::empty()) {
            Ok(file) => return Ok(File::from(file)),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(target_os = "linux")]
fn direct_flag() -> OFlags {
    OFlags::DIRECT
}

#[cfg(not(target_os = "linux"))]
fn direct_flag() -> OFlags {
    OFlags::empty()
}

fn refused<T>() -> io::Result<T> {
    Err(io::Error::new(
        io::ErrorKind::ReadOnlyFilesystem,
        "the files were opened to be read only",
    ))
}

impl Disk for ReadOnlyDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, self.direct)
    }

    fn create(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        refused()
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, false)
    }

    fn create_buffered(&self, _name: &str) -> io::Result<Arc<dyn DiskFile>> {
        refused()
    }

    fn delete(&self, _name: &str) -> io::Result<()> {
        refused()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            if let Ok(name) = entry.file_name().to_str()
                && matches!(entry.file_type(), FileType::RegularFile | FileType::Unknown)
                && !name.starts_with('.')
                && name != LOCK_FILE
            {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        refused()
    }

    fn free_bytes(&self) -> io::Result<u64> {
        Ok(0)
    }

    fn goes_around_cache(&self) -> Option<bool> {
        Some(self.direct)
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.path)
    }
}

struct ReadOnlyFile {
    file: File,
    together: Arc<Together>,
}

impl DiskFile for ReadOnlyFile {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
    }

    fn read_many_at(&self, bufs: &mut [IoSliceMut<'_>], offset: u64) -> io::Result<()> {
        read_many(&self.file, bufs, offset)
    }

    fn read_together(
        &self,
        reads: &mut [DiskRead<'_>],
        done: &mut dyn FnMut(usize, &DiskRead<'_>, io::Result<()>),
    ) {
        self.together.read(&self.file, reads, done);
    }

    fn write_at(&self, _buf: &[u8], _offset: u64) -> io::Result<()> {
        refused()
    }

    fn sync(&self) -> io::Result<()> {
        refused()
    }

    fn allocate(&self, _offset: u64, _len: u64) -> io::Result<()> {
        refused()
    }

    fn set_len(&self, _len: u64) -> io::Result<()> {
        refused()
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}
