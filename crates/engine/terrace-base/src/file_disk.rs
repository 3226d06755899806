//! The real disk: files of one directory, opened for direct I/O, under an exclusive lock.
//!
//! The lock belongs to the [`FileDisk`], in the process that opened it, and is released when it is dropped, by a crash too (the
//! operating system holds it, not a file that could be left behind).
//!
//! Invariant: once open, the disk is the directory itself, not a path: files are found from its handle.
//! So it stays the same one when the program changes its working directory, and when the directory gets
//! another name.

use std::fs::{DirBuilder, File, TryLockError};
use std::io::{self, IoSliceMut};
use std::ops::Range;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};

use crate::disk::{Disk, DiskFile, DiskRead, ReadsTogether};
use crate::held::{Held, is_held};
use crate::process::{Owner, of_another_process};
use crate::small_writes::SmallWrites;
use crate::sync::Mutex;
use crate::together::{Together, read_many};
use crate::window::Part;
use crate::{Error, Result};

/// Times that a lock may turn out to be that of a file which was deleted in between.
const LOCK_ROUNDS: u32 = 100;
/// Name of the file that says what was hot in a database when it was closed.
pub const WARM_FILE: &str = "warm";
/// Name of the file whose lock says that the directory is in use; never listed.
pub const LOCK_FILE: &str = "LOCK";

/// Rights that forbid no user anything.
pub const ALL_RIGHTS: u32 = 0o777;

/// Whether reads and writes go around the cache of the operating system.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DirectIo {
    /// Direct I/O, or an error where the file system refuses it.
    Required,
    /// Direct I/O where the file system allows it, else through the cache; ask
    /// [`FileDisk::is_direct`].
    #[default]
    Preferred,
    /// Through the cache of the operating system. The cached bytes are outside every budget.
    Off,
}

/// A directory of files, locked against every other process and handle.
pub struct FileDisk {
    path: PathBuf,
    directory: File,
    /// Whether a sync of the directory has failed. One at a time, for where two are at once and it fails,
    /// the system says so to one of them; and after that it is not known which names are durable.
    names: Mutex<bool>,
    direct: bool,
    /// What files are made with at most.
    rights: u32,
    /// What makes reads of its files that are asked for together.
    together: Arc<Together>,
    lock: File,
    owner: Owner,
    _held: Held,
}

impl FileDisk {
    /// Opens the directory, which must exist, and locks it.
    pub fn open(path: impl AsRef<Path>, direct: DirectIo) -> Result<FileDisk> {
        FileDisk::open_within(path, direct, ALL_RIGHTS)
    }

    /// The same; no user gets more rights on a file that is made there than `rights` say, of owner, group and
    /// others, as for [`rights_of`].
    pub fn open_within(path: impl AsRef<Path>, direct: DirectIo, rights: u32) -> Result<FileDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let mut rounds = 0;
        let (directory, lock, takes_direct) = loop {
            let directory = File::open(path).map_err(|e| Error::io("opening", &shown, e))?;
            let examined = |e| Error::io("examining", &shown, e);
            if !directory.metadata().map_err(examined)?.is_dir() {
                return Err(Error::invalid(format!(
                    "{shown} is not a directory; name the directory that holds the database"
                )));
            }
            let (lock, takes_direct) = open_lock(&directory, direct != DirectIo::Off, rights)
                .map_err(|e| Error::io("opening", LOCK_FILE, e))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => {
                    let here = is_held(&directory);
                    return Err(Error::Locked { path: shown, here });
                }
                Err(TryLockError::Error(e)) => return Err(Error::io("locking", LOCK_FILE, e)),
            }
            // Whoever had it before may have deleted the file in between, or the directory, and the
            // next one to come would make and lock another.
            let still = is_in(&directory, &lock);
            let still = still.map_err(|e| Error::io("examining", LOCK_FILE, e))?;
            if still && is_at(&directory, path).map_err(examined)? {
                break (directory, lock, takes_direct);
            }
            rounds += 1;
            if rounds == LOCK_ROUNDS {
                return Err(Error::invalid(format!(
                    "{shown} cannot be locked: whenever its file {LOCK_FILE} is locked, the file system says that another one is there; use a local file system"
                )));
            }
        };
        if direct == DirectIo::Required && !takes_direct {
            return Err(Error::invalid(format!(
                "the file system of {shown} refuses direct I/O; allow buffered I/O (DirectIo::Preferred) or move the database"
            )));
        }
        Ok(FileDisk {
            // Without a working directory there is only the path that was given.
            path: std::path::absolute(path).unwrap_or_else(|_| path.to_owned()),
            _held: Held::new(&directory),
            directory,
            names: Mutex::new(false),
            direct: takes_direct,
            rights,
            together: Arc::new(Together::new()),
            lock,
            owner: Owner::here(),
        })
    }

    /// As [`FileDisk::open`], making the directory (and those above it) if it is missing.
    pub fn open_or_create(path: impl AsRef<Path>, direct: DirectIo) -> Result<FileDisk> {
        FileDisk::open_or_create_within(path, direct, ALL_RIGHTS)
    }

    /// The same with the bound of [`FileDisk::open_within`], which is that of the directory too, if it is made
    /// here.
    pub fn open_or_create_within(
        path: impl AsRef<Path>,
        direct: DirectIo,
        rights: u32,
    ) -> Result<FileDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let absolute = std::path::absolute(path).map_err(|e| Error::io("finding", &shown, e))?;
        let path = absolute.as_path();
        let made = made_above(path);
        let was_there = path.exists();
        if !was_there {
            make_directory(path, rights).map_err(|e| Error::io("creating", &shown, e))?;
        }
        // The name of each new directory lies in the one above; without these syncs a power cut could
        // take the whole database away. Of one that was there before, too, as long as it is empty: who
        // made it may have died before the sync.
        for parent in made {
            match File::open(&parent).and_then(|d| d.sync_all()) {
                // Whose directory is there already, and who may not read the one above, has made nothing
                // in that one.
                Err(e) if was_there && e.kind() == io::ErrorKind::PermissionDenied => {}
                synced => {
                    synced.map_err(|e| Error::io("syncing", parent.display().to_string(), e))?
                }
            }
        }
        FileDisk::open_within(path, direct, rights)
    }

    /// How this machine lets reads be made that are asked for together.
    pub fn reads_together() -> ReadsTogether {
        Together::new().how()
    }

    /// Whether files opened with [`Disk::open`] and [`Disk::create`] bypass the cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// An error in a child of the process that opened it: both have one lock.
    fn check_owner(&self) -> io::Result<()> {
        match self.owner.is_here() {
            true => Ok(()),
            false => Err(io::Error::other(of_another_process())),
        }
    }

    /// The directory, as an absolute path where it was when it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Deletes the file of the lock, for whoever takes back all that it has made there: to be called
    /// before the disk is dropped, so that no other process has it yet.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn delete_lock(&self) -> io::Result<()> {
        let flags = AtFlags::empty();
        Ok(rustix::fs::unlinkat(&self.directory, LOCK_FILE, flags)?)
    }

    fn open_file(&self, name: &str, create: bool, buffered: bool) -> io::Result<Arc<dyn DiskFile>> {
        self.check_owner()?;
        let mut flags = OFlags::empty();
        if create {
            flags |= OFlags::CREATE | OFlags::TRUNC;
        }
        if self.direct && !buffered {
            flags |= direct_flag();
        }
        Ok(Arc::new(RealFile {
            file: open_in(&self.directory, checked(name)?, flags, self.rights)?,
            small_writes: buffered.then(SmallWrites::new),
            together: self.together.clone(),
        }))
    }
}

/// Makes a directory and those above it; its own rights go up to `rights`.
fn make_directory(path: &Path, rights: u32) -> io::Result<()> {
    if let Some(above) = path.parent() {
        std::fs::create_dir_all(above)?;
    }
    // Its owner must be able to make files there.
    match DirBuilder::new().mode(rights | 0o700).create(path) {
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists && path.is_dir() => Ok(()),
        made => made,
    }
}

/// What a directory allows its owner, its group and others, as nine bits; everything where that cannot be told.
pub fn rights_of(directory: &Path) -> u32 {
    std::fs::metadata(directory).map_or(ALL_RIGHTS, |about| about.mode() & ALL_RIGHTS)
}

/// The name, if it can be one of a database file.
fn checked(name: &str) -> io::Result<&str> {
    if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) || name == LOCK_FILE {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("\"{name}\" cannot be the name of a database file"),
        ));
    }
    Ok(name)
}

/// Opens a file of the directory for reading and writing.
fn open_in(directory: &File, name: &str, flags: OFlags, rights: u32) -> io::Result<File> {
    // As the standard library opens files: not for programs that are started, and readable to whom the
    // process and these rights allow it.
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::from_raw_mode(0o666 & (rights | 0o600));
    loop {
        match rustix::fs::openat(directory, name, flags, mode) {
            Ok(file) => return Ok(File::from(file)),
            Err(rustix::io::Errno::INTR) => {}
            Err(e) => return Err(e.into()),
        }
    }
}

impl Drop for FileDisk {
    fn drop(&mut self) {
        // Children that were forked meanwhile have the file, too, and the lock with it, which is let go of
        // for all of them here. They let go of nothing.
        if self.owner.is_here() {
            let _ = self.lock.unlock();
        }
    }
}

impl std::fmt::Debug for FileDisk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FileDisk")
            .field("path", &self.path)
            .field("direct", &self.direct)
            .finish_non_exhaustive()
    }
}

/// The directories in which names must be made durable when a database is made at `path`: those above
/// each directory that is not there, and above it itself while it is empty.
fn made_above(path: &Path) -> Vec<PathBuf> {
    let is_new = |path: &Path| match std::fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(e) => e.kind() == io::ErrorKind::NotFound,
    };
    let above = path.ancestors().take_while(|path| is_new(path));
    above
        .filter_map(|path| path.parent().map(Path::to_owned))
        .collect()
}

/// Whether this is the directory of that path.
fn is_at(directory: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let opened = directory.metadata()?;
    Ok((opened.dev(), opened.ino()) == (there.dev(), there.ino()))
}

/// Whether this file is the one that the directory has under the name of the lock.
fn is_in(directory: &File, lock: &File) -> io::Result<bool> {
    let there = match rustix::fs::statat(directory, LOCK_FILE, AtFlags::empty()) {
        Ok(there) => there,
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        Err(e) => return Err(e.into()),
    };
    let opened = rustix::fs::fstat(lock)?;
    Ok((opened.st_dev, opened.st_ino) == (there.st_dev, there.st_ino))
}

/// Opens the lock file, with the direct flag if `try_direct`, because opening a file is how one
/// learns whether the file system takes the flag.
fn open_lock(directory: &File, try_direct: bool, rights: u32) -> io::Result<(File, bool)> {
    if try_direct {
        match open_in(directory, LOCK_FILE, OFlags::CREATE | direct_flag(), rights) {
            Ok(file) => return Ok((file, !direct_flag().is_empty())),
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
            Err(e) => return Err(e),
        }
    }
    let lock = open_in(directory, LOCK_FILE, OFlags::CREATE, rights)?;
    Ok((lock, false))
}

#[cfg(target_os = "linux")]
fn direct_flag() -> OFlags {
    OFlags::DIRECT
}

#[cfg(not(target_os = "linux"))]
fn direct_flag() -> OFlags {
    OFlags::empty()
}

impl Disk for FileDisk {
    fn open(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, false, false)
    }

    fn create(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, true, false)
    }

    fn open_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, false, true)
    }

    fn create_buffered(&self, name: &str) -> io::Result<Arc<dyn DiskFile>> {
        self.open_file(name, true, true)
    }

    fn reuse_buffered(&self, old: &str, new: &str, len: u64) -> io::Result<Arc<dyn DiskFile>> {
        self.check_owner()?;
        let (old, new) = (checked(old)?, checked(new)?);
        let file = open_in(&self.directory, old, OFlags::empty(), self.rights)?;
        if file.metadata()?.len() != len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file of another length cannot be used again",
            ));
        }
        clear(&file, len)?;
        rustix::fs::renameat(&self.directory, old, &self.directory, new)?;
        let small_writes = SmallWrites::new();
        small_writes.reserved(&file, 0, len);
        Ok(Arc::new(RealFile {
            file,
            small_writes: Some(small_writes),
            together: self.together.clone(),
        }))
    }

    fn rename(&self, old: &str, new: &str) -> io::Result<()> {
        self.check_owner()?;
        let (old, new) = (checked(old)?, checked(new)?);
        Ok(rustix::fs::renameat(
            &self.directory,
            old,
            &self.directory,
            new,
        )?)
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        self.check_owner()?;
        let name = checked(name)?;
        Ok(rustix::fs::unlinkat(
            &self.directory,
            name,
            AtFlags::empty(),
        )?)
    }

    fn folder(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn directory(&self) -> Option<File> {
        self.directory.try_clone().ok()
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.directory)? {
            let entry = entry?;
            // A name that is not UTF-8 is none of ours.
            let Ok(name) = entry.file_name().to_str() else {
                continue;
            };
            let is_file = match entry.file_type() {
                FileType::Unknown => {
                    let flags = AtFlags::SYMLINK_NOFOLLOW;
                    match rustix::fs::statat(&self.directory, name, flags) {
                        Ok(stat) => FileType::from_raw_mode(stat.st_mode).is_file(),
                        // Deleted in between.
                        Err(rustix::io::Errno::NOENT) => false,
                        Err(e) => return Err(e.into()),
                    }
                }
                told => told.is_file(),
            };
            if is_file && name != LOCK_FILE {
                names.push(name.to_owned());
            }
        }
        Ok(names)
    }

    fn sync_directory(&self) -> io::Result<()> {
        let mut failed = self.names.lock();
        if *failed {
            return Err(io::Error::other(
                "syncing the directory has failed before, and what is durable is not known",
            ));
        }
        let synced = self.directory.sync_all();
        *failed = synced.is_err();
        synced
    }

    fn goes_around_cache(&self) -> Option<bool> {
        Some(self.direct)
    }

    fn free_bytes(&self) -> io::Result<u64> {
        free_bytes(&self.directory)
    }
}

fn free_bytes(file: &File) -> io::Result<u64> {
    let stat = rustix::fs::fstatvfs(file)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

struct RealFile {
    file: File,
    /// For files that are opened for them.
    small_writes: Option<SmallWrites>,
    together: Arc<Together>,
}

impl DiskFile for RealFile {
    // Both loops of the standard library go on after an interruption and after a short transfer.
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

    fn write_at(&self, buf: &[u8], offset: u64) -> io::Result<()> {
        match &self.small_writes {
            Some(small) => small.write_at(&self.file, buf, offset),
            None => self.file.write_all_at(buf, offset),
        }
    }

    fn write_now(&self, buf: &[u8], offset: u64) -> bool {
        self.small_writes
            .as_ref()
            .is_some_and(|small| small.write_now(buf, offset))
    }

    fn take_part(&self, offset: u64) -> Option<Part> {
        let window = self.small_writes.as_ref()?.lend(offset)?;
        Some(Part::mapped(window))
    }

    fn give_part(&self, part: Part, written: Range<u64>) {
        if let (Some(small), Some(window)) = (&self.small_writes, part.into_window()) {
            small.take_back(window, written.end);
        }
    }

    fn write_back(&self, offset: u64, len: u64) {
        start_write_back(&self.file, offset, len);
    }

    fn discard(&self, offset: u64, len: u64) {
        use rustix::fs::FallocateFlags;
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        // Where the file system knows no holes the space stays taken.
        let _ = rustix::fs::fallocate(&self.file, flags, offset, len);
    }

    fn sync(&self) -> io::Result<()> {
        if let Some(small) = &self.small_writes {
            small.shut();
        }
        // fdatasync: it includes the length, and leaves out only the times.
        self.file.sync_data()
    }

    fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        if len == 0 {
            return Ok(());
        }
        let end = offset.checked_add(len).ok_or_else(|| {
            io::Error::new(
                io::ErrorKind::InvalidInput,
                "allocation beyond the largest file",
            )
        })?;
        let before = self.file.metadata()?.len();
        match reserve(&self.file, offset, len) {
            Ok(true) => {
                if let Some(small) = &self.small_writes {
                    small.reserved(&self.file, offset, len);
                }
                Ok(())
            }
            Ok(false) => {
                // The file system cannot reserve; looking at the free space is the best there is.
                if free_bytes(&self.file)? < len {
                    return Err(io::Error::new(
                        io::ErrorKind::StorageFull,
                        "not enough free space",
                    ));
                }
                if end > before {
                    self.set_len(end)
                } else {
                    Ok(())
                }
            }
            Err(e) => {
                // A reservation that ran out half-way may have grown the file.
                if self.file.metadata()?.len() != before {
                    self.set_len(before)?;
                }
                Err(e)
            }
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        match &self.small_writes {
            Some(small) => small.set_len(&self.file, len),
            None => self.file.set_len(len),
        }
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

/// Reserves space; `false` where the file system cannot.
#[cfg(target_os = "linux")]
fn reserve(file: &File, offset: u64, len: u64) -> io::Result<bool> {
    use rustix::io::Errno;
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), offset, len) {
            Ok(()) => return Ok(true),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Ok(false),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn reserve(_file: &File, _offset: u64, _len: u64) -> io::Result<bool> {
    Ok(false)
}

/// Makes the first `len` bytes zeros and keeps their space: a note of the file system, nothing is written.
#[cfg(target_os = "linux")]
fn clear(file: &File, len: u64) -> io::Result<()> {
    use rustix::io::Errno;
    loop {
        match rustix::fs::fallocate(file, rustix::fs::FallocateFlags::ZERO_RANGE, 0, len) {
            Ok(()) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => return Err(io::ErrorKind::Unsupported.into()),
            Err(e) => return Err(e.into()),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn clear(_file: &File, _len: u64) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Lets what is dirty in the cache go to the device. An error of that comes out of the next sync, as
/// if the system had begun by itself.
#[cfg(target_os = "linux")]
fn start_write_back(file: &File, offset: u64, len: u64) {
    // Begins to write what is dirty, and only drops what is clean already.
    let advice = rustix::fs::Advice::DontNeed;
    let _ = rustix::fs::fadvise(file, offset, std::num::NonZeroU64::new(len), advice);
}

#[cfg(not(target_os = "linux"))]
fn start_write_back(_file: &File, _offset: u64, _len: u64) {}

#[cfg(test)]
mod tests;
