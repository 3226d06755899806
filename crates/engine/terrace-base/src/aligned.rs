//! Buffers aligned for direct I/O.

use std::ops::{Deref, DerefMut};

/// Alignment that every block device and file system in use accepts for direct I/O, in bytes.
pub const BLOCK_BYTES: usize = 4096;

/// A byte buffer whose address and length are multiples of [`BLOCK_BYTES`].
///
/// It is an ordinary vector with one block to spare, of which the aligned middle is shown; the
/// vector never grows, so the middle stays aligned.
pub struct AlignedBuf {
    bytes: Vec<u8>,
    start: usize,
    len: usize,
}

impl AlignedBuf {
    /// A zeroed buffer of at least `len` bytes, rounded up to whole blocks.
    pub fn zeroed(len: usize) -> AlignedBuf {
        let len = len.next_multiple_of(BLOCK_BYTES);
        let bytes = vec![0; len + BLOCK_BYTES];
        let start = bytes.as_ptr().align_offset(BLOCK_BYTES);
        AlignedBuf { bytes, start, len }
    }
}

impl Deref for AlignedBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..self.start + self.len]
    }
}

impl DerefMut for AlignedBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_length_are_whole_blocks() {
        for len in [0, 1, 4096, 5000, 65536] {
            let buf = AlignedBuf::zeroed(len);
            assert_eq!(buf.len() % BLOCK_BYTES, 0);
            assert!(buf.len() >= len);
            assert_eq!(buf.as_ptr() as usize % BLOCK_BYTES, 0);
        }
    }
}
