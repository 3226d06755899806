//! A file mapped into memory as words.
//!
//! The whole capacity is mapped once, so places never move; only what the file has been given is handed
//! out. Who cuts the file short from outside while it is mapped ends the process with SIGBUS.

use std::fs::File;
use std::sync::atomic::AtomicU64;

use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};

/// A shared mapping of `capacity` bytes from the beginning of a file.
pub struct Mapped {
    at: *mut core::ffi::c_void,
    capacity: usize,
}

// SAFETY: the mapping belongs to this value alone until it is dropped, and what lies in it is reached only
// as atomic words.
unsafe impl Send for Mapped {}
// SAFETY: as above: all access through a shared reference is atomic.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps the file; with `sync`, only if its storage makes a flushed line durable by itself (MAP_SYNC).
    pub fn new(file: &File, capacity: usize, sync: bool) -> std::io::Result<Mapped> {
        // Without SHARED_VALIDATE the kernel would ignore SYNC in silence.
        let flags = if sync {
            MapFlags::SHARED_VALIDATE | MapFlags::SYNC
        } else {
            MapFlags::SHARED
        };
        let access = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: the kernel chooses the place (null), so nothing that exists is mapped over.
        let at =
            unsafe { rustix::mm::mmap(core::ptr::null_mut(), capacity, access, flags, file, 0) }?;
        Ok(Mapped { at, capacity })
    }

    /// A mapping of zeros that is no file's; a page takes memory when it is touched first.
    pub fn anonymous(capacity: usize) -> std::io::Result<Mapped> {
        let access = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: the kernel chooses the place (null), so nothing that exists is mapped over.
        let at = unsafe {
            rustix::mm::mmap_anonymous(core::ptr::null_mut(), capacity.max(1), access, flags)
        }?;
        Ok(Mapped { at, capacity })
    }

    /// The first `count` words, which the file must have.
    #[inline]
    pub fn words(&self, count: usize) -> &[AtomicU64] {
        let count = count.min(self.capacity / 8);
        // SAFETY: the mapping has `capacity` bytes, begins at a page, stays until `self` is dropped, and
        // any bytes are a valid `AtomicU64`; no code in this process reaches it in another way.
        unsafe { core::slice::from_raw_parts(self.at.cast::<AtomicU64>(), count) }
    }

    /// Writes these bytes of the file to its device, and waits.
    pub fn sync(&self, from: usize, bytes: usize) -> std::io::Result<()> {
        let start = (from / 4096 * 4096).min(self.capacity);
        let end = (from + bytes).min(self.capacity);
        // SAFETY: `start <= capacity`, so the place is in the mapping or at its end.
        let at = unsafe { self.at.cast::<u8>().add(start) };
        // SAFETY: the range lies within the mapping; the call changes nothing in it.
        unsafe { rustix::mm::msync(at.cast(), end.saturating_sub(start), MsyncFlags::SYNC) }?;
        Ok(())
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length, and no reference outlives `self`. That
        // it cannot be unmapped is no reason to fail: the process has a few pages more.
        let _ = unsafe { rustix::mm::munmap(self.at, self.capacity.max(1)) };
    }
}
