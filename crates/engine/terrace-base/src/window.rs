//! A part of a file in memory, shared with the cache of the operating system.
//!
//! Invariants: the file holds the whole window, in blocks that are reserved, and keeps its length
//! while the window is open; every page of it was made writable and locked in memory when the
//! window was opened, so that what can fail then fails as an error and not as a signal later.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::Arc;

use memmap2::{MmapOptions, MmapRaw};

/// An open window.
pub(crate) struct Window {
    map: MmapRaw,
    start: u64,
}

impl Window {
    /// Maps `start..start + len` of `file`, which must be open for reading and writing; both are
    /// multiples of [`page_bytes`]. Fails where the pages cannot be had beforehand: the file ends
    /// before, there is no space, the kernel is too old, too much memory is locked.
    #[cfg(target_os = "linux")]
    pub(crate) fn open(file: &File, start: u64, len: usize) -> io::Result<Window> {
        let map = MmapOptions::new().offset(start).len(len).map_raw(file)?;
        // Each page is made when it is needed, not many of them as one: what the kernel does for
        // every page that it makes writable it does for the whole of that.
        map.advise(memmap2::Advice::Random)?;
        // This is where a write error of the file system comes out. Without it the first store
        // would end the process.
        map.advise(memmap2::Advice::PopulateWrite)?;
        // A clean page that the kernel drops would have to be read again by a later store, and
        // reading can fail.
        map.lock()?;
        Ok(Window { map, start })
    }

    #[cfg(not(target_os = "linux"))]
    pub(crate) fn open(_file: &File, _start: u64, _len: usize) -> io::Result<Window> {
        Err(io::ErrorKind::Unsupported.into())
    }

    /// The bytes of the file that it shows.
    pub(crate) fn range(&self) -> Range<u64> {
        self.start..self.start + self.map.len() as u64
    }

    /// Writes `bytes` at `offset` of the file; `false`, and nothing is done, if they are not wholly
    /// inside.
    pub(crate) fn write(&mut self, bytes: &[u8], offset: u64) -> bool {
        // SAFETY: it is borrowed exclusively.
        unsafe { self.write_beside(bytes, offset) }
    }

    /// The same while others write through it, too.
    ///
    /// # Safety
    /// No other thread writes the same bytes through it at the same time.
    unsafe fn write_beside(&self, bytes: &[u8], offset: u64) -> bool {
        let Some(at) = offset
            .checked_sub(self.start)
            .and_then(|at| usize::try_from(at).ok())
            .filter(|at| {
                at.checked_add(bytes.len())
                    .is_some_and(|end| end <= self.map.len())
            })
        else {
            return false;
        };
        // SAFETY: `at + bytes.len() <= self.map.len()`, as just checked, so the target lies in the
        // mapping, which lives as long as `self`. Nothing refers to the mapping but `self`, so the
        // target is not `bytes`, and no reference to it exists; the caller says that no other thread
        // writes it now. Its pages are there, writable and locked (`open`), and the file is not cut while a window of
        // it is open (`SmallWrites`).
        unsafe {
            std::ptr::copy_nonoverlapping(
                bytes.as_ptr(),
                self.map.as_mut_ptr().add(at),
                bytes.len(),
            )
        }
        true
    }
}

/// A part of a file that can be written by copying, by many threads at once.
pub struct Part(Kind);

enum Kind {
    Mapped(Window),
    Other(Arc<dyn FilePart>),
}

/// A part of a file that is not of the operating system.
pub trait FilePart: Send + Sync {
    /// The bytes of the file that it is.
    fn range(&self) -> Range<u64>;

    /// Writes `bytes` at `offset` of the file; `false`, and nothing is done, if they are not wholly inside.
    fn write(&self, bytes: &[u8], offset: u64) -> bool;
}

impl Part {
    pub(crate) fn mapped(window: Window) -> Part {
        Part(Kind::Mapped(window))
    }

    /// One that is not of the operating system.
    pub fn other(part: Arc<dyn FilePart>) -> Part {
        Part(Kind::Other(part))
    }

    pub(crate) fn into_window(self) -> Option<Window> {
        match self.0 {
            Kind::Mapped(window) => Some(window),
            Kind::Other(_) => None,
        }
    }

    /// The bytes of the file that it is.
    pub fn range(&self) -> Range<u64> {
        match &self.0 {
            Kind::Mapped(window) => window.range(),
            Kind::Other(part) => part.range(),
        }
    }

    /// Writes `bytes` at `offset` of the file; `false`, and nothing is done, if they are not wholly inside.
    ///
    /// # Safety
    /// No other thread writes the same bytes through it at the same time.
    pub(crate) unsafe fn write(&self, bytes: &[u8], offset: u64) -> bool {
        match &self.0 {
            // SAFETY: the caller says so.
            Kind::Mapped(window) => unsafe { window.write_beside(bytes, offset) },
            Kind::Other(part) => part.write(bytes, offset),
        }
    }
}

/// Whether a page that is written again in this file's file system stays where it is, so that only
/// the first write of it needs anything that can run out. A file system that copies pages when they
/// are written again, or that shares them between files, may have no space for that at any time.
#[cfg(target_os = "linux")]
pub(crate) fn stays_in_place(file: &File) -> bool {
    const EXT: u32 = 0xEF53;
    const TMPFS: u32 = 0x0102_1994;
    rustix::fs::fstatfs(file).is_ok_and(|stat| matches!(stat.f_type as u32, EXT | TMPFS))
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn stays_in_place(_file: &File) -> bool {
    false
}

/// Bytes of a page of the system, of which the begin and length of a window are multiples.
pub fn page_bytes() -> usize {
    rustix::param::page_size()
}
