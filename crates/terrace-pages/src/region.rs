//! The memory of the frames and of the page table: two anonymous mappings, taken once.

use memmap2::{Advice, MmapOptions, MmapRaw, UncheckedAdvice};
use terrace_base::{Error, Result};

/// A zeroed anonymous mapping, addressed in equal pieces.
pub struct Region {
    map: MmapRaw,
    piece: usize,
}

impl Region {
    /// Maps `pieces` × `piece` bytes. Pages of it become resident when first touched.
    pub fn new(pieces: usize, piece: usize, huge: bool) -> Result<Region> {
        let bytes = pieces.saturating_mul(piece).max(4096);
        let map = MmapOptions::new()
            .len(bytes)
            .no_reserve_swap()
            .map_anon()
            .map_err(|e| Error::io("reserving memory for", "the frame pool", e))?;
        if huge {
            // Only advice: without huge pages everything works, a little slower.
            let _ = map.advise(Advice::HugePage);
        }
        Ok(Region {
            map: MmapRaw::from(map),
            piece,
        })
    }

    /// Address of piece `index`.
    #[inline]
    pub fn piece(&self, index: usize) -> *mut u8 {
        assert!((index + 1) * self.piece <= self.map.len());
        // SAFETY: the offset is inside the mapping, as just checked.
        unsafe { self.map.as_mut_ptr().add(index * self.piece) }
    }

    /// Start of the mapping, and its length in bytes.
    pub fn start(&self) -> (*mut u8, usize) {
        (self.map.as_mut_ptr(), self.map.len())
    }

    /// Gives the memory of piece `index` back to the system; it reads as zero afterwards. The
    /// caller owns the piece exclusively.
    pub fn give_back(&self, index: usize) {
        // SAFETY: the range is one piece of this private anonymous mapping; the caller holds it
        // exclusively, so that nobody relies on its content.
        let _ = unsafe {
            self.map.unchecked_advise_range(
                UncheckedAdvice::DontNeed,
                index * self.piece,
                self.piece,
            )
        };
    }
}
