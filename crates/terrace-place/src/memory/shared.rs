//! A file, a memfd or a DAX device whose bytes are handed out in pieces.

use super::PAGE;
use crate::error::PlacementError;
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
    end: u64,
    /// Pieces that were given back: offset and length.
    free: Vec<(u64, usize)>,
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
        // SAFETY: the descriptor is new and nobody else's.
        let file = unsafe { File::from_raw_fd(fd) };
        let grain = if huge { DAX_GRAIN } else { PAGE };
        Ok(Shared::new(file, Path::new("memfd"), grain, None))
    }

    #[cfg(any(not(target_os = "linux"), miri))]
    pub(crate) fn memfd(_: bool) -> Result<Shared, PlacementError> {
        Err(PlacementError::NotHere { what: "memfd" })
    }

    fn new(file: File, path: &Path, grain: usize, bytes: Option<u64>) -> Shared {
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
        if let Some(at) = taken.free.iter().position(|piece| piece.1 == len) {
            return Ok(taken.free.swap_remove(at).0);
        }
        let end = taken.end + len as u64;
        match self.bytes {
            Some(bytes) if end > bytes => {
                return Err(PlacementError::DeviceFull {
                    path: self.path.clone(),
                    bytes,
                });
            }
            Some(_) => {}
            None => self
                .file
                .set_len(end)
                .map_err(|error| PlacementError::Device {
                    path: self.path.clone(),
                    error,
                })?,
        }
        Ok(std::mem::replace(&mut taken.end, end))
    }

    /// Gives a piece back; its bytes are kept by the file for whoever is next.
    pub(crate) fn give(&self, offset: u64, len: usize) {
        crate::sync_std(&self.taken).free.push((offset, len));
    }
}
