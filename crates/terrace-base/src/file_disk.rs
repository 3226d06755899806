//! The real disk: files of one directory, opened for direct I/O, under an exclusive lock.
//!
//! The lock belongs to the [`FileDisk`] and is released when it is dropped, by a crash too (the
//! operating system holds it, not a file that could be left behind).

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{Disk, DiskFile};
use crate::small_writes::SmallWrites;
use crate::sync::Mutex;
use crate::{Error, Result};

/// Times that a lock may turn out to be that of a file which was deleted in between.
const LOCK_ROUNDS: u32 = 100;
/// Name of the file whose lock says that the directory is in use; never listed.
pub const LOCK_FILE: &str = "LOCK";

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
    /// the system says so to one of them; and after that nobody knows which names are durable.
    names: Mutex<bool>,
    direct: bool,
    // Held for its lock only.
    _lock: File,
}

impl FileDisk {
    /// Opens the directory, which must exist, and locks it.
    pub fn open(path: impl AsRef<Path>, direct: DirectIo) -> Result<FileDisk> {
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
            let lock_path = path.join(LOCK_FILE);
            let (lock, takes_direct) = open_lock(&lock_path, direct != DirectIo::Off)
                .map_err(|e| Error::io("opening", LOCK_FILE, e))?;
            match lock.try_lock() {
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: shown }),
                Err(TryLockError::Error(e)) => return Err(Error::io("locking", LOCK_FILE, e)),
            }
            // Whoever had it before may have deleted the file in between, or the directory, and the
            // next one to come would make and lock another.
            let file =
                is_at(&lock, &lock_path).map_err(|e| Error::io("examining", LOCK_FILE, e))?;
            if file && is_at(&directory, path).map_err(examined)? {
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
            path: path.to_owned(),
            directory,
            names: Mutex::new(false),
            direct: takes_direct,
            _lock: lock,
        })
    }

    /// As [`FileDisk::open`], making the directory (and those above it) if it is missing.
    pub fn open_or_create(path: impl AsRef<Path>, direct: DirectIo) -> Result<FileDisk> {
        let path = path.as_ref();
        let shown = path.display().to_string();
        let absolute = std::path::absolute(path).map_err(|e| Error::io("finding", &shown, e))?;
        let made = made_above(&absolute);
        let was_there = path.exists();
        if !was_there {
            std::fs::create_dir_all(path).map_err(|e| Error::io("creating", &shown, e))?;
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
        FileDisk::open(path, direct)
    }

    /// Whether files opened with [`Disk::open`] and [`Disk::create`] bypass the cache.
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn open_file(&self, name: &str, create: bool, buffered: bool) -> io::Result<Arc<dyn DiskFile>> {
        let path = self.file_path(name)?;
        let mut options = OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(create)
            .truncate(create);
        if self.direct && !buffered {
            options.custom_flags(direct_flag());
        }
        Ok(Arc::new(RealFile {
            file: options.open(path)?,
            small_writes: buffered.then(SmallWrites::new),
        }))
    }

    fn file_path(&self, name: &str) -> io::Result<PathBuf> {
        if name.is_empty()
            || name.starts_with('.')
            || name.contains(['/', '\0'])
            || name == LOCK_FILE
        {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("\"{name}\" cannot be the name of a database file"),
            ));
        }
        Ok(self.path.join(name))
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

/// Whether this file is the one of that name.
fn is_at(file: &File, path: &Path) -> io::Result<bool> {
    let there = match std::fs::metadata(path) {
        Ok(there) => there,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(false),
        Err(e) => return Err(e),
    };
    let file = file.metadata()?;
    Ok((file.dev(), file.ino()) == (there.dev(), there.ino()))
}

/// Opens the lock file, with the direct flag if `try_direct`, because opening a file is how one
/// learns whether the file system takes the flag.
fn open_lock(path: &Path, try_direct: bool) -> io::Result<(File, bool)> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    if try_direct {
        match options.clone().custom_flags(direct_flag()).open(path) {
            Ok(file) => return Ok((file, direct_flag() != 0)),
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
            Err(e) => return Err(e),
        }
    }
    Ok((options.open(path)?, false))
}

#[cfg(target_os = "linux")]
fn direct_flag() -> i32 {
    rustix::fs::OFlags::DIRECT.bits() as i32
}

#[cfg(not(target_os = "linux"))]
fn direct_flag() -> i32 {
    0
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
        let (old, new) = (self.file_path(old)?, self.file_path(new)?);
        let file = OpenOptions::new().read(true).write(true).open(&old)?;
        if file.metadata()?.len() != len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "a file of another length cannot be used again",
            ));
        }
        clear(&file, len)?;
        std::fs::rename(old, new)?;
        let small_writes = SmallWrites::new();
        small_writes.reserved(&file, 0, len);
        Ok(Arc::new(RealFile {
            file,
            small_writes: Some(small_writes),
        }))
    }

    fn delete(&self, name: &str) -> io::Result<()> {
        std::fs::remove_file(self.file_path(name)?)
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path)? {
            let entry = entry?;
            if !entry.file_type()?.is_file() {
                continue;
            }
            // A name that is not UTF-8 is none of ours.
            if let Ok(name) = entry.file_name().into_string()
                && name != LOCK_FILE
            {
                names.push(name);
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
}

impl DiskFile for RealFile {
    // Both loops of the standard library go on after an interruption and after a short transfer.
    fn read_at(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.file.read_exact_at(buf, offset)
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
mod tests {
    use super::*;
    use crate::AlignedBuf;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().expect("a temporary directory")
    }

    #[test]
    fn a_second_handle_is_refused_until_the_first_is_gone() {
        let dir = directory();
        let first = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
        assert!(matches!(
            FileDisk::open(dir.path(), DirectIo::Off),
            Err(Error::Locked { .. })
        ));
        drop(first);
        FileDisk::open(dir.path(), DirectIo::Off).unwrap();
    }

    #[test]
    fn what_is_discarded_takes_no_space_and_the_rest_stays() {
        use std::os::unix::fs::MetadataExt;
        let dir = directory();
        let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
        let file = disk.create("file").unwrap();
        let mut block = AlignedBuf::zeroed(1 << 20);
        block.fill(7);
        for i in 0..4 {
            file.write_at(&block, i << 20).unwrap();
        }
        file.sync().unwrap();
        let taken = || std::fs::metadata(dir.path().join("file")).unwrap().blocks() * 512;
        let before = taken();
        file.discard(1 << 20, 2 << 20);
        assert_eq!(file.len().unwrap(), 4 << 20);
        for i in [0, 3] {
            file.read_at(&mut block, i << 20).unwrap();
            assert!(block.iter().all(|byte| *byte == 7));
        }
        let after = taken();
        // Where the file system knows no holes it says so, and nothing has happened.
        let other = std::fs::File::create(dir.path().join("other")).unwrap();
        other.set_len(1 << 20).unwrap();
        let flags = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(&other, flags, 0, 1 << 20) {
            Ok(()) => assert!(after <= before - (2 << 20), "{before}, {after}"),
            Err(_) => assert_eq!(after, before),
        }
    }

    #[test]
    fn a_lock_that_was_deleted_by_its_owner_is_nobodys() {
        use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
        let dir = directory();
        let lock = dir.path().join(LOCK_FILE);
        let (owned, owners, twice) = (AtomicBool::new(false), AtomicU64::new(0), AtomicU64::new(0));
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..2000 {
                        let Ok(disk) = FileDisk::open(dir.path(), DirectIo::Off) else {
                            continue;
                        };
                        owners.fetch_add(1, SeqCst);
                        twice.fetch_add(u64::from(owned.swap(true, SeqCst)), SeqCst);
                        // As who takes back what it has made, while it still has the lock.
                        owned.store(false, SeqCst);
                        std::fs::remove_file(&lock).unwrap();
                        drop(disk);
                    }
                });
            }
        });
        assert!(owners.into_inner() > 0);
        assert_eq!(twice.into_inner(), 0);
    }

    #[test]
    fn a_missing_directory_is_made_only_if_asked() {
        let dir = directory();
        let path = dir.path().join("a/b");
        assert!(matches!(
            FileDisk::open(&path, DirectIo::Off),
            Err(Error::Io { .. })
        ));
        std::fs::write(dir.path().join("notes"), "").unwrap();
        let above = |path: &Path| made_above(path).len();
        assert_eq!(
            made_above(&path),
            [dir.path().join("a"), dir.path().to_owned()]
        );
        FileDisk::open_or_create(&path, DirectIo::Off).unwrap();
        assert!(path.is_dir());
        // With a database in it there is nothing to do; empty, as a crash leaves it, there is.
        assert_eq!(above(&path), 0);
        std::fs::create_dir(dir.path().join("c")).unwrap();
        assert_eq!(above(&dir.path().join("c")), 1);
    }

    #[test]
    fn files_hold_what_was_written_in_every_mode() {
        for mode in [DirectIo::Preferred, DirectIo::Off] {
            let dir = directory();
            let disk = FileDisk::open(dir.path(), mode).unwrap();
            let file = disk.create("data").unwrap();
            file.allocate(0, 65536).unwrap();
            assert_eq!(file.len().unwrap(), 65536);
            let mut block = AlignedBuf::zeroed(8192);
            block.fill(7);
            file.write_at(&block, 4096).unwrap();
            file.sync().unwrap();
            disk.sync_directory().unwrap();
            let mut back = AlignedBuf::zeroed(65536);
            disk.open("data").unwrap().read_at(&mut back, 0).unwrap();
            assert!(back[..4096].iter().all(|&b| b == 0));
            assert!(back[4096..12288].iter().all(|&b| b == 7));
            let end = file.read_at(&mut back, 4096).unwrap_err();
            assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
            assert_eq!(disk.list().unwrap(), ["data"]);
            assert!(disk.free_bytes().unwrap() > 0);
            disk.delete("data").unwrap();
            assert!(disk.list().unwrap().is_empty());
            assert_eq!(
                disk.open("data").err().unwrap().kind(),
                io::ErrorKind::NotFound
            );
        }
    }

    #[test]
    fn buffered_files_take_any_offset_beside_direct_ones() {
        let dir = directory();
        let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
        let file = disk.create_buffered("log").unwrap();
        file.write_at(b"abc", 5).unwrap();
        let mut back = [0; 4];
        disk.open_buffered("log")
            .unwrap()
            .read_at(&mut back, 4)
            .unwrap();
        assert_eq!(&back, b"\0abc");
    }

    #[test]
    fn a_file_that_is_used_again_has_another_name_and_only_zeros() {
        let dir = directory();
        let disk = FileDisk::open(dir.path(), DirectIo::Preferred).unwrap();
        let file = disk.create_buffered("old").unwrap();
        file.allocate(0, 65536).unwrap();
        file.write_at(&[7; 65536], 0).unwrap();
        let other_length = disk.reuse_buffered("old", "new", 4096).err().unwrap();
        assert_eq!(other_length.kind(), io::ErrorKind::InvalidInput);
        let file = match disk.reuse_buffered("old", "new", 65536) {
            Err(e) if e.kind() == io::ErrorKind::Unsupported => return,
            reused => reused.unwrap(),
        };
        assert_eq!(disk.list().unwrap(), ["new"]);
        let mut back = vec![1; 65536];
        file.read_at(&mut back, 0).unwrap();
        assert!(back.iter().all(|&byte| byte == 0));
        file.write_at(b"abc", 5).unwrap();
        file.sync().unwrap();
        disk.sync_directory().unwrap();
        let again = disk.open_buffered("new").unwrap();
        again.read_at(&mut back, 0).unwrap();
        assert_eq!((&back[5..8], back[8]), (&b"abc"[..], 0));
        let gone = disk.reuse_buffered("old", "new", 65536).err().unwrap();
        assert_eq!(gone.kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn names_cannot_leave_the_directory_or_touch_the_lock() {
        let dir = directory();
        let disk = FileDisk::open(dir.path(), DirectIo::Off).unwrap();
        for name in ["", ".", "..", "../x", "a/b", LOCK_FILE] {
            assert_eq!(
                disk.create(name).err().unwrap().kind(),
                io::ErrorKind::InvalidInput,
                "{name}"
            );
            assert_eq!(
                disk.delete(name).err().unwrap().kind(),
                io::ErrorKind::InvalidInput,
                "{name}"
            );
        }
    }

    #[test]
    fn an_allocation_that_cannot_be_had_changes_nothing() {
        let dir = directory();
        let disk = FileDisk::open(dir.path(), DirectIo::Off).unwrap();
        let file = disk.create("big").unwrap();
        file.set_len(4096).unwrap();
        assert!(file.allocate(0, 1 << 62).is_err());
        assert_eq!(file.len().unwrap(), 4096);
    }
}
