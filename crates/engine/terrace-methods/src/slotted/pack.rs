//! A slotted page laid out anew: records side by side, from the end of the page, in the order of their slots.

use terrace_pages::Torn;

use super::layout::{Counts, SLOT_BYTES, Seen};

/// Lays records into the image of a page that has none.
pub(crate) struct Packer<'i, const SLOTS: usize> {
    image: &'i mut [u8],
    count: usize,
    top: usize,
}

impl<'i, const SLOTS: usize> Packer<'i, SLOTS> {
    /// Into this image, below `top`.
    pub fn new(image: &'i mut [u8], top: usize) -> Self {
        Packer {
            image,
            count: 0,
            top,
        }
    }

    /// Adds a record of `len` bytes: `write` is told where it lies, writes it, and says what its slot is.
    /// `Torn` when it does not fit.
    #[inline]
    pub fn add(
        &mut self,
        len: usize,
        write: impl FnOnce(usize, &mut [u8]) -> [u8; SLOT_BYTES],
    ) -> Seen<()> {
        let slot = Counts::<SLOTS>::slot_at(self.count);
        let at = self.top.checked_sub(len);
        let at = at.filter(|at| *at >= slot + SLOT_BYTES).ok_or(Torn)?;
        let bytes = write(at, &mut self.image[at..at + len]);
        self.image[slot..slot + SLOT_BYTES].copy_from_slice(&bytes);
        (self.count, self.top) = (self.count + 1, at);
        Ok(())
    }

    /// The numbers of the page as it is now.
    pub fn counts(&self) -> Counts<SLOTS> {
        Counts {
            count: self.count,
            heap: self.image.len() - self.top,
            garbage: 0,
        }
    }
}
