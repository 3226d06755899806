//! The keys of a run as bytes in the same order, whatever their form.

use alloc::vec::Vec;

/// The keys of a run as bytes in the same order.
pub enum PlainKeys<'r> {
    /// They are bytes: end to end, and where each ends.
    Bytes(&'r [u8], &'r [u32]),
    /// They are integers.
    Ints(Vec<[u8; 8]>),
}

impl PlainKeys<'_> {
    /// Key `i`.
    #[inline]
    pub fn get(&self, i: usize) -> &[u8] {
        match self {
            PlainKeys::Bytes(bytes, ends) => {
                let start = if i == 0 { 0 } else { ends[i - 1] as usize };
                &bytes[start..ends[i] as usize]
            }
            PlainKeys::Ints(keys) => &keys[i],
        }
    }
}
