//! A range of addresses, reserved once, whose pieces get memory of a kind when they are needed.
//!
//! Kept true: a piece that [`Region::commit`] has granted is readable and writable, and zero
//! unless it comes from a file that was used before; all others fault, and no code gets a pointer
//! to them.

use super::page::PAGE;
use super::source::Source;
use crate::error::PlacementError;
use std::ptr::NonNull;

/// The reserved range.
#[derive(Debug)]
pub(crate) struct Region {
    base: NonNull<u8>,
    len: usize,
    /// Bytes of the mapping before `base`.
    #[cfg(all(target_os = "linux", not(miri)))]
    skip: usize,
}

/// Where regions begin: large pages and devices want it so.
#[cfg(all(target_os = "linux", not(miri)))]
const ALIGN: usize = 2 << 20;

// SAFETY: a region is a range of addresses; what is done with them is its owner's matter.
unsafe impl Send for Region {}
// SAFETY: as above; committing different pieces at once is what the kernel allows.
unsafe impl Sync for Region {}

impl Region {
    /// The first address.
    #[inline]
    pub(crate) fn base(&self) -> *mut u8 {
        self.base.as_ptr()
    }

    /// Writes all bytes of a committed piece that no other code uses, and reads them back.
    #[cfg(test)]
    pub(crate) fn holds_bytes(&self, offset: usize, len: usize) -> bool {
        let at = self.base().wrapping_add(offset);
        for i in 0..len {
            // SAFETY: within the committed piece.
            unsafe { at.add(i).write(i as u8) };
        }
        // SAFETY: as above, and written.
        (0..len).all(|i| unsafe { at.add(i).read() } == i as u8)
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Region {
    /// Reserves this many bytes, whole pages, of address space, from a multiple of 2 MiB on.
    pub(crate) fn reserve(len: usize) -> Result<Region, PlacementError> {
        assert!(len > 0 && len.is_multiple_of(PAGE), "whole pages");
        let wanted = len;
        let len = len.saturating_add(ALIGN);
        // SAFETY: a new mapping at an address of the kernel's choice disturbs nothing.
        let at = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        match NonNull::new(at.cast::<u8>()) {
            Some(whole) if at != libc::MAP_FAILED => {
                let skip = at.cast::<u8>().align_offset(ALIGN).min(ALIGN);
                // SAFETY: the mapping is longer than what is skipped.
                let base = unsafe { whole.add(skip) };
                Ok(Region {
                    base,
                    len: wanted,
                    skip,
                })
            }
            _ => Err(PlacementError::NoAddressSpace {
                bytes: len,
                error: std::io::Error::last_os_error(),
            }),
        }
    }

    /// Gives memory to a piece that has none. Returns what [`Region::release`] wants to hear.
    ///
    /// # Errors
    /// As [`PlacementError`] says; the piece has no memory then.
    pub(crate) fn commit(
        &self,
        offset: usize,
        len: usize,
        source: &Source,
    ) -> Result<u64, PlacementError> {
        let at = self.piece(offset, len);
        match source {
            Source::Heap => self.open(at, len).map(|()| 0),
            Source::Node(node) => {
                self.open(at, len)?;
                // SAFETY: the piece is of whole pages and ours.
                let placed = unsafe { super::numa::prefer(at, len, *node) }
                    .and_then(|()| populate(at, len))
                    .and_then(|()| super::numa::check(at, len, *node));
                if let Err(error) = placed {
                    self.close(at, len);
                    return Err(error);
                }
                Ok(0)
            }
            Source::Shared(shared) => {
                let place = shared.take(len)?;
                // SAFETY: the piece lies in our reservation, to which no code has a pointer yet.
                let mapped = unsafe {
                    libc::mmap(
                        at.cast(),
                        len,
                        libc::PROT_READ | libc::PROT_WRITE,
                        libc::MAP_SHARED | libc::MAP_FIXED,
                        std::os::fd::AsRawFd::as_raw_fd(shared.file_ref()),
                        place as libc::off_t,
                    )
                };
                if mapped == libc::MAP_FAILED {
                    let error = std::io::Error::last_os_error();
                    shared.give(place, len);
                    self.close(at, len);
                    return Err(PlacementError::NoMemory { bytes: len, error });
                }
                // A hole that no page can be had for would be a signal at the first touch.
                if let Err(error) = populate(at, len) {
                    self.close(at, len);
                    shared.give(place, len);
                    return Err(error);
                }
                Ok(place)
            }
        }
    }

    /// Takes the memory of a piece away; no code may have a pointer to it any more.
    pub(crate) fn release(&self, offset: usize, len: usize, source: &Source, place: u64) {
        self.close(self.piece(offset, len), len);
        if let Source::Shared(shared) = source {
            shared.give(place, len);
        }
    }

    fn piece(&self, offset: usize, len: usize) -> *mut u8 {
        assert!(
            offset.is_multiple_of(PAGE)
                && len > 0
                && len.is_multiple_of(PAGE)
                && offset.checked_add(len).is_some_and(|end| end <= self.len),
            "whole pages of the region"
        );
        self.base.as_ptr().wrapping_add(offset)
    }

    fn open(&self, at: *mut u8, len: usize) -> Result<(), PlacementError> {
        // SAFETY: `piece` made sure that the range is ours.
        let done = unsafe { libc::mprotect(at.cast(), len, libc::PROT_READ | libc::PROT_WRITE) };
        if done == 0 {
            return Ok(());
        }
        Err(PlacementError::NoMemory {
            bytes: len,
            error: std::io::Error::last_os_error(),
        })
    }

    /// Makes the range a reservation again, without memory.
    fn close(&self, at: *mut u8, len: usize) {
        // SAFETY: `piece` made sure that the range is ours; its owner has no pointer to it.
        let closed = unsafe {
            libc::mmap(
                at.cast(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED,
                -1,
                0,
            )
        };
        // If the kernel has no room to note it, the memory stays until the region goes.
        debug_assert_ne!(closed, libc::MAP_FAILED, "a reservation is made anew");
    }
}

/// Touches all pages for writing, so that a lack shows here and not as a signal later.
#[cfg(all(target_os = "linux", not(miri)))]
fn populate(at: *mut u8, len: usize) -> Result<(), PlacementError> {
    // SAFETY: the range is a writable mapping of ours; populating changes no byte.
    if unsafe { libc::madvise(at.cast(), len, libc::MADV_POPULATE_WRITE) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    if error.raw_os_error() == Some(libc::EINVAL) {
        // Before Linux 5.14: one byte of each page, written as it is.
        for offset in (0..len).step_by(PAGE) {
            // SAFETY: within the range, which no other code has a pointer to.
            unsafe {
                let byte = at.add(offset);
                byte.write_volatile(byte.read_volatile());
            }
        }
        return Ok(());
    }
    Err(PlacementError::NoMemory { bytes: len, error })
}

#[cfg(all(target_os = "linux", not(miri)))]
impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and its owner goes with it.
        unsafe {
            let at = self.base.as_ptr().sub(self.skip);
            libc::munmap(at.cast(), self.len + ALIGN);
        }
    }
}

// Elsewhere, and under Miri, a region is one allocation of zeros.
#[cfg(any(not(target_os = "linux"), miri))]
impl Region {
    pub(crate) fn reserve(len: usize) -> Result<Region, PlacementError> {
        /// More would be memory, not only addresses.
        const MOST: usize = 16 << 20;
        let fail = || PlacementError::NoAddressSpace {
            bytes: len,
            error: std::io::ErrorKind::OutOfMemory.into(),
        };
        if len > MOST {
            return Err(fail());
        }
        // SAFETY: the layout has a size above zero.
        let at = unsafe { std::alloc::alloc_zeroed(layout(len)) };
        let base = NonNull::new(at).ok_or_else(fail)?;
        Ok(Region { base, len })
    }

    pub(crate) fn commit(
        &self,
        offset: usize,
        len: usize,
        source: &Source,
    ) -> Result<u64, PlacementError> {
        assert!(offset + len <= self.len, "within the region");
        match source {
            Source::Heap => Ok(0),
            _ => Err(PlacementError::NotHere {
                what: "memory of this kind",
            }),
        }
    }

    pub(crate) fn release(&self, _: usize, _: usize, _: &Source, _: u64) {}
}

#[cfg(any(not(target_os = "linux"), miri))]
fn layout(len: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(len, PAGE).expect("a size of whole pages")
}

#[cfg(any(not(target_os = "linux"), miri))]
impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: allocated with the same layout.
        unsafe { std::alloc::dealloc(self.base.as_ptr(), layout(self.len)) };
    }
}

/// Words of a committed region, one every `step` bytes.
pub(crate) struct Words<'a> {
    region: &'a Region,
    len: usize,
    step: usize,
}

impl Region {
    /// The words of the first `bytes`, which are committed.
    pub(crate) fn words(&self, bytes: usize, step: usize) -> Words<'_> {
        assert!(bytes <= self.len && step.is_multiple_of(8), "words within");
        Words {
            region: self,
            len: bytes / step,
            step,
        }
    }
}

impl Words<'_> {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn at(&self, i: usize) -> *const std::sync::atomic::AtomicUsize {
        assert!(i < self.len, "a word of the region");
        self.region.base().wrapping_add(i * self.step).cast()
    }

    pub(crate) fn get(&self, i: usize) -> usize {
        // SAFETY: `at` made sure that it is within committed memory, aligned, and an atomic may
        // be anything.
        unsafe { (*self.at(i)).load(std::sync::atomic::Ordering::Relaxed) }
    }

    pub(crate) fn set(&self, i: usize, to: usize) {
        // SAFETY: as above.
        unsafe { (*self.at(i)).store(to, std::sync::atomic::Ordering::Relaxed) };
    }
}
