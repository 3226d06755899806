//! Reading a page that may change under the reader.
//!
//! A [`View`] is what optimistic readers, shared holders and exclusive holders read through. Every
//! accessor is bounds-checked and answers [`Torn`] instead of panicking, because before validation
//! an optimistic reader may see any bytes. Two rules keep this sound in practice:
//!
//! * numbers that decide *where* to read next are read once, with a volatile load, so that the
//!   value that was checked is the value that is used;
//! * bytes are only compared or copied out; nothing derived from them is believed until the latch
//!   version has been validated (a sequence lock).
//!
//! The copies race with writers by design. All racing loads are in this file, so that a race
//! detector can be told about exactly these functions.

use std::cmp::Ordering;
use std::marker::PhantomData;

use crate::enter::retry::Retry;
use crate::frames::prefetch::prefetch_at;

/// The page said something that cannot be: it changed while it was read, or it is damaged.
/// Validate the latch version to tell which.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Torn;

/// Under an optimistic guard garbage means "changed meanwhile" until validation says otherwise.
impl From<Torn> for Retry {
    fn from(_: Torn) -> Self {
        Retry::Conflict
    }
}

/// A bounds-checked window on one page's bytes, for as long as its guard lives.
#[derive(Clone, Copy)]
pub struct View<'a> {
    start: *const u8,
    len: usize,
    _guard: PhantomData<&'a [u8]>,
}

impl<'a> View<'a> {
    /// # Safety
    /// `start..start + len` must stay mapped memory of the frame region for `'a`, and `start` must
    /// be aligned to 4096.
    pub(crate) unsafe fn new(start: *const u8, len: usize) -> View<'a> {
        View {
            start,
            len,
            _guard: PhantomData,
        }
    }

    /// A view of ordinary bytes, for code that works on a private copy of a page.
    pub fn of(bytes: &'a [u8]) -> View<'a> {
        View {
            start: bytes.as_ptr(),
            len: bytes.len(),
            _guard: PhantomData,
        }
    }

    /// Length of the page in bytes.
    #[allow(clippy::len_without_is_empty)]
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    #[inline]
    fn check(&self, at: usize, len: usize) -> Result<(), Torn> {
        if at <= self.len && len <= self.len - at {
            Ok(())
        } else {
            Err(Torn)
        }
    }

    /// The byte at `at`.
    #[inline]
    pub fn u8(&self, at: usize) -> Result<u8, Torn> {
        self.check(at, 1)?;
        // SAFETY: `at` is inside the page, as just checked.
        Ok(unsafe { self.start.add(at).read_volatile() })
    }

    /// The little-endian number at `at`, read byte by byte unless `at` is even.
    #[inline]
    pub fn u16(&self, at: usize) -> Result<u16, Torn> {
        self.check(at, 2)?;
        // SAFETY: `at..at + 2` is inside the page, as just checked; the aligned load is used only
        // for an aligned address.
        unsafe {
            let p = self.start.add(at);
            Ok(u16::from_le(if p.addr() & 1 == 0 {
                p.cast::<u16>().read_volatile()
            } else {
                u16::from_ne_bytes([p.read_volatile(), p.add(1).read_volatile()])
            }))
        }
    }

    /// The little-endian number at `at`.
    #[inline]
    pub fn u32(&self, at: usize) -> Result<u32, Torn> {
        self.check(at, 4)?;
        // SAFETY: `at..at + 4` is inside the page, as just checked; the aligned load is used only
        // for an aligned address, and an array of bytes needs no alignment.
        unsafe {
            let p = self.start.add(at);
            Ok(u32::from_le(if p.addr() & 3 == 0 {
                p.cast::<u32>().read_volatile()
            } else {
                u32::from_ne_bytes(p.cast::<[u8; 4]>().read_volatile())
            }))
        }
    }

    /// The little-endian number at `at`.
    #[inline]
    pub fn u64(&self, at: usize) -> Result<u64, Torn> {
        self.check(at, 8)?;
        // SAFETY: `at..at + 8` is inside the page, as just checked; the aligned load is used only
        // for an aligned address, and an array of bytes needs no alignment.
        unsafe {
            let p = self.start.add(at);
            Ok(u64::from_le(if p.addr() & 7 == 0 {
                p.cast::<u64>().read_volatile()
            } else {
                u64::from_ne_bytes(p.cast::<[u8; 8]>().read_volatile())
            }))
        }
    }

    /// Asks the processor for the lines of the `len` bytes at `at`, for later. They need not be in the page.
    #[inline]
    pub fn prefetch(&self, at: usize, len: usize) {
        prefetch_at(self.start.wrapping_add(at));
        self.prefetch_behind(at, len);
    }

    /// Asks the processor for the lines of the `len` bytes at `at` behind the first of them, which will
    /// be wanted as soon as that one has said what is there. They need not be in the page.
    #[inline]
    pub fn prefetch_behind(&self, at: usize, len: usize) {
        for line in (64..len).step_by(64) {
            prefetch_at(self.start.wrapping_add(at + line));
        }
    }

    /// `N` little-endian numbers in a row from `at` on: looked at once for all of them.
    #[inline]
    pub fn u32s<const N: usize>(&self, at: usize) -> Result<[u32; N], Torn> {
        self.check(at, 4 * N)?;
        // SAFETY: `at..at + 4 * N` is inside the page, as just checked; the aligned loads are used
        // only for an aligned address, and arrays of bytes need no alignment.
        unsafe {
            let p = self.start.add(at);
            Ok(if p.addr() & 3 == 0 {
                std::array::from_fn(|i| u32::from_le(p.cast::<u32>().add(i).read_volatile()))
            } else {
                let bytes = p.cast::<[u8; 4]>();
                std::array::from_fn(|i| u32::from_le_bytes(bytes.add(i).read_volatile()))
            })
        }
    }

    /// The same of longer numbers.
    #[inline]
    pub fn u64s<const N: usize>(&self, at: usize) -> Result<[u64; N], Torn> {
        self.check(at, 8 * N)?;
        // SAFETY: `at..at + 8 * N` is inside the page, as just checked; the aligned loads are used
        // only for an aligned address, and arrays of bytes need no alignment.
        unsafe {
            let p = self.start.add(at);
            Ok(if p.addr() & 7 == 0 {
                std::array::from_fn(|i| u64::from_le(p.cast::<u64>().add(i).read_volatile()))
            } else {
                let bytes = p.cast::<[u8; 8]>();
                std::array::from_fn(|i| u64::from_le_bytes(bytes.add(i).read_volatile()))
            })
        }
    }

    /// Appends the `len` bytes at `at` to `out`.
    #[inline]
    pub fn append_to(&self, at: usize, len: usize, out: &mut Vec<u8>) -> Result<(), Torn> {
        self.check(at, len)?;
        out.reserve(len);
        // SAFETY: source is inside the page, as just checked; the destination has the capacity that
        // was just reserved, does not overlap the frame region, and is initialised up to the new
        // length by the copy.
        unsafe {
            let end = out.len();
            std::ptr::copy_nonoverlapping(self.start.add(at), out.as_mut_ptr().add(end), len);
            out.set_len(end + len);
        }
        Ok(())
    }

    /// Copies the bytes at `at` into `out`, filling it.
    #[inline]
    pub fn copy_to(&self, at: usize, out: &mut [u8]) -> Result<(), Torn> {
        self.check(at, out.len())?;
        // SAFETY: source is inside the page, as just checked; `out` is a separate live slice.
        unsafe { std::ptr::copy_nonoverlapping(self.start.add(at), out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    /// Compares the `len` bytes at `at` with `other`, as byte strings.
    #[inline]
    pub fn compare(&self, at: usize, len: usize, other: &[u8]) -> Result<Ordering, Torn> {
        self.check(at, len)?;
        let n = len.min(other.len());
        let mut i = 0;
        // SAFETY: every read is below `at + len`, which is inside the page, as just checked; arrays
        // of bytes need no alignment.
        unsafe {
            let p = self.start.add(at);
            while i + 8 <= n {
                let a = u64::from_be_bytes(p.add(i).cast::<[u8; 8]>().read());
                let b = u64::from_be_bytes(other[i..i + 8].try_into().unwrap_or_default());
                if a != b {
                    return Ok(a.cmp(&b));
                }
                i += 8;
            }
            while i < n {
                let (a, b) = (p.add(i).read(), other[i]);
                if a != b {
                    return Ok(a.cmp(&b));
                }
                i += 1;
            }
        }
        Ok(len.cmp(&other.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_at_any_offset_and_nothing_past_the_end() {
        let bytes: Vec<u8> = (0..32).collect();
        let v = View::of(&bytes);
        for at in 0..40 {
            let want = |n: usize| bytes.get(at..at + n);
            assert_eq!(v.u8(at).ok(), want(1).map(|b| b[0]));
            assert_eq!(
                v.u16(at).ok(),
                want(2).map(|b| u16::from_le_bytes(b.try_into().unwrap()))
            );
            assert_eq!(
                v.u32(at).ok(),
                want(4).map(|b| u32::from_le_bytes(b.try_into().unwrap()))
            );
            assert_eq!(
                v.u64(at).ok(),
                want(8).map(|b| u64::from_le_bytes(b.try_into().unwrap()))
            );
            assert_eq!(
                v.u32s::<2>(at).ok(),
                want(8).map(|_| [v.u32(at).unwrap(), v.u32(at + 4).unwrap()])
            );
            assert_eq!(
                v.u64s::<2>(at).ok(),
                want(16).map(|_| [v.u64(at).unwrap(), v.u64(at + 8).unwrap()])
            );
            let mut out = vec![];
            assert_eq!(v.append_to(at, 5, &mut out).is_ok(), at + 5 <= 32);
        }
        assert!(v.append_to(usize::MAX, 2, &mut vec![]).is_err());
        assert!(v.u64(usize::MAX - 3).is_err());
    }

    #[test]
    fn comparison_is_that_of_byte_strings() {
        let words: [&[u8]; 7] = [
            b"",
            b"a",
            b"ab",
            b"abcdefgh",
            b"abcdefghi",
            b"abcdefgi",
            b"\xff",
        ];
        for a in words {
            for b in words {
                assert_eq!(View::of(a).compare(0, a.len(), b), Ok(a.cmp(b)));
            }
        }
    }
}
