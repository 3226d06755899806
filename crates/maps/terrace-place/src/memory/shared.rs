//! A file, a memfd or a DAX device whose bytes are handed out in pieces.
//!
//! Kept true: a piece of a file has its blocks before it is mapped, and keeps them until it is given back. A
//! store to a page without one, on a full disk, would end the process.

use super::blocks;
use super::page::PAGE;
use crate::error::PlacementError;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Mutex;

/// What a DAX device must be mapped in.
const DAX_GRAIN: usize = 2 << 20;

/// An opened file or device, and which of its bytes are in use.
#[derive(Debug)]
pub(crate) struct Shared {
    file: File,
    path: String,
    grain: usize,
    /// Bytes that there are; a file grows.
    bytes: Option<u64>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Bytes from here on are not in use.
    end: u64,
    /// Pieces that were given back, none beside another or at the end: offset and length.
    free: BTreeMap<u64, u64>,
    /// The same by length and offset.
    sizes: BTreeSet<(u64, u64)>,
}

impl Taken {
    fn add(&mut self, offset: u64, len: u64) {
        self.free.insert(offset, len);
        self.sizes.insert((len, offset));
    }

    fn remove(&mut self, offset: u64, len: u64) {
        self.free.remove(&offset);
        self.sizes.remove(&(len, offset));
    }

    /// The smallest piece with room for this many bytes; what is left of it stays.
    fn take(&mut self, len: u64) -> Option<u64> {
        let &(had, offset) = self.sizes.range((len, 0)..).next()?;
        self.remove(offset, had);
        if had > len {
            self.add(offset + len, had - len);
        }
        Some(offset)
    }

    fn give(&mut self, mut offset: u64, mut len: u64) {
        if let Some((&before, &n)) = self.free.range(..offset).next_back()
            && before + n == offset
        {
            self.remove(before, n);
            (offset, len) = (before, n + len);
        }
        if let Some(&n) = self.free.get(&(offset + len)) {
            self.remove(offset + len, n);
            len += n;
        }
        if offset + len == self.end {
            self.end = offset;
        } else {
            self.add(offset, len);
        }
    }
}

impl Shared {
    /// A DAX device; its size is what sysfs says.
    pub(crate) fn device(path: &Path) -> Result<Shared, PlacementError> {
        let name = path
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
        let fail = |error| PlacementError::Device {
            path: path.display().to_string(),
            error,
        };
        let size = std::fs::read_to_string(format!("/sys/bus/dax/devices/{name}/size"))
            .map_err(fail)?
            .trim()
            .parse()
            .map_err(|_| fail(io::Error::other("its size is no number")))?;
        let file = File::options()
            .read(true)
            .write(true)
            .open(path)
            .map_err(fail)?;
        Ok(Shared::new(file, path, DAX_GRAIN, Some(size)))
    }

    /// A new file, which has no name any more once it is open.
    ///
    /// # Errors
    /// Also where its file system writes a page to a new block each time: on a full disk there would be none.
    pub(crate) fn file(path: &Path) -> Result<Shared, PlacementError> {
        let fail = |error| PlacementError::Device {
            path: path.display().to_string(),
            error,
        };
        let file = File::options()
            .read(true)
            .write(true)
            .create_new(true)
            .open(path)
            .map_err(fail)?;
        std::fs::remove_file(path).map_err(fail)?;
        if let Some(system) = blocks::writes_elsewhere(&file) {
            return Err(PlacementError::NotInPlace {
                path: path.display().to_string(),
                system,
            });
        }
        Ok(Shared::new(file, path, PAGE, None))
    }

    /// An anonymous file in memory.
    #[cfg(all(target_os = "linux", not(miri)))]
    pub(crate) fn memfd(huge: bool) -> Result<Shared, PlacementError> {
        use std::os::fd::FromRawFd;
        let flags = libc::MFD_CLOEXEC | if huge { libc::MFD_HUGETLB } else { 0 };
        // SAFETY: the name ends with a zero.
        let fd = unsafe { libc::memfd_create(c"terrace-place".as_ptr(), flags) };
        if fd < 0 {
            return Err(PlacementError::Device {
                path: "memfd".into(),
                error: io::Error::last_os_error(),
            });
        }
        // SAFETY: the descriptor is new, and no other code has it.
        let file = unsafe { File::from_raw_fd(fd) };
        let grain = if huge { DAX_GRAIN } else { PAGE };
        Ok(Shared::new(file, Path::new("memfd"), grain, None))
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    pub(crate) fn memfd(_: bool) -> Result<Shared, PlacementError> {
        Err(PlacementError::NotHere { what: "memfd" })
    }

    pub(crate) fn new(file: File, path: &Path, grain: usize, bytes: Option<u64>) -> Shared {
        Shared {
            file,
            path: path.display().to_string(),
            grain,
            bytes,
            taken: Mutex::default(),
        }
    }

    pub(crate) fn grain(&self) -> usize {
        self.grain
    }

    #[cfg_attr(any(not(target_os = "linux"), miri), allow(dead_code))]
    pub(crate) fn file_ref(&self) -> &File {
        &self.file
    }

    /// Takes a piece; `len` is a multiple of the grain. Gives its offset.
    pub(crate) fn take(&self, len: usize) -> Result<u64, PlacementError> {
        let mut taken = crate::sync_std(&self.taken);
        let known = taken.take(len as u64);
        let offset = known.unwrap_or(taken.end);
        let end = offset + len as u64;
        let full = |bytes| PlacementError::DeviceFull {
            path: self.path.clone(),
            bytes,
        };
        let had = match self.bytes {
            Some(bytes) if end > bytes => Err(full(bytes)),
            Some(_) => Ok(()),
            None => blocks::have(&self.file, offset, len).map_err(|error| {
                if error.kind() == io::ErrorKind::StorageFull {
                    return full(taken.end);
                }
                PlacementError::Device {
                    path: self.path.clone(),
                    error,
                }
            }),
        };
        match (known, &had) {
            (Some(_), Err(_)) => taken.give(offset, len as u64),
            (None, Ok(())) => taken.end = end,
            _ => {}
        }
        had.map(|()| offset)
    }

    /// Gives a piece back. The memory of a file is the system's again; that of a device stays its own.
    pub(crate) fn give(&self, offset: u64, len: usize) {
        if self.bytes.is_none() {
            blocks::give(&self.file, offset, len);
        }
        crate::sync_std(&self.taken).give(offset, len as u64);
    }
}
