//! Files as persistent memory: on DAX, on a device of it, and any other file.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::path::Path;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release, SeqCst};
use terrace_base::process::Owner;
use terrace_base::sync::Mutex;
use terrace_base::{Durability, Error, Result};

use super::flush::{self, Instruction};
use super::mapped::Mapped;
use super::pages::{PAGE, Pages, Waiting};
use super::{Domain, LINE_WORDS, Order, Pm, blocks, probe};
use crate::superblock::{SUPERBLOCK_BYTES, Superblock, is_being_made};

/// How a file becomes durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Lines are written back by an instruction; `None` where the power supply does that (eADR).
    Dax(Option<Instruction>),
    /// A fence is a sync of the pages that were flushed.
    Synced,
    /// Nothing is done: stores to a shared mapping outlive the process by themselves.
    Process,
}

/// A file, or a device of persistent memory, that is open and locked.
pub struct Device {
    file: File,
    map: Mapped,
    len: AtomicU64,
    capacity: u64,
    kind: Kind,
    fixed: bool,
    name: String,
    pages: Mutex<Pages>,
    /// Held by the thread that makes the file longer.
    growing: Mutex<()>,
    /// Held by the thread that syncs: whoever comes meanwhile waits, as its pages may be among those. True
    /// once a sync has failed: it is not known what of it is durable.
    syncing: Mutex<bool>,
    owner: Owner,
}

/// Opens or makes a file for `capacity` bytes at most, as durable as asked where it can be: `None` is
/// [`Durability::Sync`] on persistent memory and [`Durability::Buffered`] elsewhere.
///
/// Returns the device and whether the file was empty.
pub fn open_device(
    path: &Path,
    capacity: u64,
    durability: Option<Durability>,
    create: bool,
) -> Result<(Device, bool)> {
    let name = path.display().to_string();
    let failed = |op| {
        let name = name.clone();
        move |source: std::io::Error| Error::io(op, name, source)
    };
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(create)
        .truncate(false)
        .open(path)
        .map_err(failed("opening"))?;
    rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive).map_err(
        |e| {
            if e == rustix::io::Errno::WOULDBLOCK {
                Error::Locked {
                    path: name.clone(),
                    here: false,
                }
            } else {
                Error::io("locking", name.clone(), e.into())
            }
        },
    )?;
    let about = file.metadata().map_err(failed("looking at"))?;
    let device = about.file_type().is_char_device();
    if !device && !about.is_file() {
        return Err(Error::invalid(format!(
            "{name} is neither a file nor a device of persistent memory"
        )));
    }
    let size = if device {
        probe::device_size(&file).ok_or_else(|| {
            Error::invalid(format!("{name} is no device of persistent memory (DAX)"))
        })?
    } else {
        about.len()
    };
    if !device && size > 0 && size < SUPERBLOCK_BYTES {
        return Err(Error::corrupt(
            name,
            size,
            "it is too short for a map in persistent memory",
        ));
    }
    let capacity = if device {
        size
    } else {
        blocks::check_in_place(&file, &name)?;
        // A map that is there has the capacity with which it was made.
        let known = known_capacity(&file, size, &name)?;
        blocks::complete(&file, &name, size)?;
        if size == 0 {
            sync_folder(path).map_err(failed("syncing the folder of"))?;
        }
        capacity.max(size).max(known)
    };
    let room = usize::try_from(capacity)
        .map_err(|_| Error::invalid(format!("{capacity} bytes are more than can be mapped")))?;
    let dax = flush::best().and_then(|instruction| {
        let map = Mapped::new(&file, room, !device).ok()?;
        Some((map, instruction))
    });
    let (map, kind) = match dax {
        Some((map, _)) if durability == Some(Durability::Buffered) => (map, Kind::Process),
        Some((map, _)) if probe::caches_are_durable() => (map, Kind::Dax(None)),
        Some((map, instruction)) => (map, Kind::Dax(Some(instruction))),
        None => {
            let map = Mapped::new(&file, room, false).map_err(failed("mapping"))?;
            let kind = match durability {
                Some(Durability::Sync) => Kind::Synced,
                _ => Kind::Process,
            };
            (map, kind)
        }
    };
    let opened = Device {
        file,
        map,
        len: AtomicU64::new(size / 8 * 8),
        capacity,
        kind,
        fixed: device,
        name,
        pages: Mutex::new(Pages::default()),
        growing: Mutex::new(()),
        syncing: Mutex::new(false),
        owner: Owner::here(),
    };
    Ok((opened, size == 0))
}

/// Makes the name of a new file durable.
fn sync_folder(path: &Path) -> std::io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// The capacity of the map in a file; 0 where there is none as yet. Another kind of file is an error, before
/// anything is done to it.
fn known_capacity(file: &File, size: u64, name: &str) -> Result<u64> {
    if size < SUPERBLOCK_BYTES {
        return Ok(0);
    }
    let mut bytes = vec![0; SUPERBLOCK_BYTES as usize];
    file.read_exact_at(&mut bytes, 0)
        .map_err(|e| Error::io("reading", name, e))?;
    let known = match Superblock::of_bytes(&bytes, name) {
        Err(_) if is_being_made(&bytes) => None,
        known => known?,
    };
    Ok(known.map_or(0, |known| known.capacity))
}

impl Drop for Device {
    fn drop(&mut self) {
        // Children that were forked meanwhile have the file, too, and the lock with it, which is let go of
        // for all of them here. They let go of nothing.
        if self.owner.is_here() {
            let _ = rustix::fs::flock(&self.file, rustix::fs::FlockOperation::Unlock);
        }
    }
}

impl Device {
    /// How it becomes durable.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// File system and inode; zeros for a device, whose node has another inode with each boot.
    pub fn identity(&self) -> (u64, u64) {
        match self.fixed {
            true => (0, 0),
            false => probe::file_identity(&self.file),
        }
    }

    fn sync_pages(&self) -> Result<()> {
        let mut has_failed = self.syncing.lock();
        if *has_failed {
            return Err(Error::Poisoned {
                cause: format!("an earlier sync of {} failed", self.name),
            });
        }
        let synced = self.sync_taken();
        *has_failed = synced.is_err();
        synced
    }

    fn sync_taken(&self) -> Result<()> {
        let waiting = self.pages.lock().take();
        let failed = |e| Error::io("syncing", self.name.clone(), e);
        let Waiting::Some(pages) = waiting else {
            return self.sync_all().map_err(failed);
        };
        let mut rest = &pages[..];
        while let [first, ..] = rest {
            let run = rest
                .iter()
                .enumerate()
                .take_while(|(i, page)| **page == first + i)
                .count();
            self.map.sync(first * PAGE, run * PAGE).map_err(failed)?;
            rest = &rest[run..];
        }
        Ok(())
    }

    fn sync_all(&self) -> std::io::Result<()> {
        self.map.sync(0, self.len.load(Acquire) as usize)?;
        self.file.sync_all()
    }
}

impl Pm for Device {
    fn words(&self) -> &[AtomicU64] {
        self.map.words((self.len.load(Acquire) / 8) as usize)
    }

    fn store_all(&self, word: usize, values: &[u64]) {
        super::store_words(self.words(), word, values);
    }

    fn flush(&self, word: usize, count: usize) {
        match self.kind {
            Kind::Dax(Some(instruction)) => {
                if let Some(words) = self.words().get(word..word + count) {
                    flush::flush(words, instruction);
                }
            }
            Kind::Synced => {
                let last = (word + count.max(1) - 1) * 8 / PAGE;
                self.pages.lock().note(word * 8 / PAGE..=last);
            }
            Kind::Dax(None) | Kind::Process => {}
        }
    }

    fn fence(&self) -> Result<()> {
        match self.kind {
            Kind::Dax(_) => flush::fence(),
            Kind::Process => std::sync::atomic::compiler_fence(SeqCst),
            Kind::Synced => self.sync_pages()?,
        }
        Ok(())
    }

    fn grow(&self, bytes: u64) -> Result<()> {
        let _growing = self.growing.lock();
        let now = self.len.load(Relaxed);
        if bytes <= now {
            return Ok(());
        }
        if bytes > self.capacity || self.fixed {
            return Err(Error::DiskFull {
                what: format!(
                    "{} has no room beyond {} bytes (Options::capacity)",
                    self.name, self.capacity
                ),
            });
        }
        blocks::allocate(&self.file, &self.name, now, bytes)?;
        if self.kind != Kind::Process {
            self.file
                .sync_all()
                .map_err(|e| Error::io("syncing", self.name.clone(), e))?;
        }
        self.len.store(bytes, Release);
        Ok(())
    }

    fn capacity(&self) -> u64 {
        self.capacity
    }

    fn order(&self) -> Order {
        match self.kind {
            Kind::Dax(_) if cfg!(target_arch = "x86_64") => Order::Line,
            _ => Order::Word,
        }
    }

    fn domain(&self) -> Domain {
        match self.kind {
            Kind::Process => Domain::Process,
            _ => Domain::Power,
        }
    }

    fn sync(&self) -> Result<()> {
        match self.kind {
            // The caches are durable.
            Kind::Dax(None) => Ok(()),
            // A device cannot be synced; stores that were not flushed may be of a life that was Buffered.
            Kind::Dax(Some(instruction)) if self.fixed => {
                flush::flush(self.words(), instruction);
                flush::fence();
                Ok(())
            }
            _ => self
                .sync_all()
                .map_err(|e| Error::io("syncing", self.name.clone(), e)),
        }
    }

    fn is_slow(&self) -> bool {
        self.kind == Kind::Synced
    }

    fn name(&self) -> &str {
        &self.name
    }
}

const _: () = assert!(LINE_WORDS * 8 == 64);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_not_known_by_its_node() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("node");
        let (mut device, is_new) = open_device(&path, 1 << 20, None, true).unwrap();
        assert!(is_new && device.identity().1 != 0, "an inode");
        // The node of a device is made anew with each boot.
        device.fixed = true;
        assert_eq!(device.identity(), (0, 0));
    }

    #[test]
    fn threads_that_grow_a_file_at_once_leave_it_as_long_as_any_wants() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let (device, _) = open_device(&path, 64 << 20, None, true).unwrap();
        std::thread::scope(|scope| {
            for thread in 1..=8u64 {
                let device = &device;
                scope.spawn(move || device.grow(thread * (1 << 20)).unwrap());
            }
        });
        assert_eq!(device.words().len() * 8, 8 << 20);
        assert_eq!(std::fs::metadata(&path).unwrap().len(), 8 << 20);
    }
}
