//! Numbers in as few bytes each as the greatest of them needs: none where all are the same.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

/// A fixed row of numbers.
pub struct Nums {
    bytes: Box<[u8]>,
    /// Bytes of each: 0, 1, 2 or 4.
    width: u8,
    /// All of them, where they take no bytes.
    same: u32,
}

impl Nums {
    pub fn new(all: &[u32]) -> Self {
        let first = all.first().copied().unwrap_or(0);
        let width = match all.iter().max() {
            _ if all.iter().all(|&n| n == first) => 0,
            Some(..=0xFF) | None => 1,
            Some(..=0xFFFF) => 2,
            Some(_) => 4,
        };
        let bytes = match width {
            0 => Box::default(),
            1 => all.iter().map(|&n| n as u8).collect(),
            2 => pairs_of(all),
            _ => all.iter().flat_map(|n| n.to_le_bytes()).collect(),
        };
        Nums {
            bytes,
            width: width as u8,
            same: first,
        }
    }

    #[inline]
    pub fn get(&self, i: usize) -> usize {
        match self.width {
            0 => self.same as usize,
            1 => usize::from(self.bytes[i]),
            2 => read2(&self.bytes, i * 2),
            _ => read4(&self.bytes, i * 4),
        }
    }

    /// Adds the numbers of a range, each that much greater, to a row.
    pub fn shifted(&self, which: Range<usize>, by: u32, into: &mut Vec<u32>) {
        match self.width {
            2 => {
                let pairs = &self.bytes.as_chunks::<2>().0[which];
                into.extend(
                    pairs
                        .iter()
                        .map(|&n| by.wrapping_add(u16::from_le_bytes(n).into())),
                );
            }
            _ => into.extend(which.map(|i| by.wrapping_add(self.get(i) as u32))),
        }
    }

    pub fn heap(&self) -> usize {
        self.bytes.len()
    }
}

#[cfg(feature = "pairs")]
impl Nums {
    /// The sum of the numbers `from..to`.
    #[inline]
    pub fn sum(&self, from: usize, to: usize) -> usize {
        match self.width {
            0 => self.same as usize * (to - from),
            1 => self.bytes[from..to].iter().map(|&n| usize::from(n)).sum(),
            _ => (from..to).map(|i| self.get(i)).sum(),
        }
    }

    /// Adds the numbers of a range to a row; their sum.
    #[inline]
    pub fn copy(&self, which: Range<usize>, into: &mut Vec<u32>) -> usize {
        let from = into.len();
        match self.width {
            0 => into.resize(from + which.len(), self.same),
            1 => into.extend(self.bytes[which].iter().map(|&n| u32::from(n))),
            _ => into.extend(which.map(|i| self.get(i) as u32)),
        }
        into[from..].iter().map(|&n| n as usize).sum()
    }
}

/// The lower two bytes of each.
fn pairs_of(all: &[u32]) -> Box<[u8]> {
    let mut bytes = vec![0; all.len() * 2];
    for (pair, n) in bytes.as_chunks_mut::<2>().0.iter_mut().zip(all) {
        *pair = (*n as u16).to_le_bytes();
    }
    bytes.into()
}

#[inline]
pub fn read2(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| usize::from(u16::from_le_bytes(*b)))
}

#[inline]
pub fn read4(bytes: &[u8], at: usize) -> usize {
    bytes[at..]
        .first_chunk()
        .map_or(0, |b| u32::from_le_bytes(*b) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_all_sizes_come_back() {
        let rows: [&[u32]; 6] = [
            &[],
            &[7; 9],
            &[0, 255],
            &[3, 256, 1],
            &[65_535, 0],
            &[1 << 20, 5],
        ];
        for (row, width) in rows.into_iter().zip([0, 0, 1, 2, 2, 4]) {
            let nums = Nums::new(row);
            assert_eq!(nums.heap(), row.len() * width);
            assert!(
                row.iter()
                    .enumerate()
                    .all(|(i, &n)| nums.get(i) == n as usize)
            );
            #[cfg(feature = "pairs")]
            {
                let all: u32 = row.iter().sum();
                assert_eq!(nums.sum(0, row.len()), all as usize);
                let mut copied = vec![1];
                assert_eq!(nums.copy(0..row.len(), &mut copied), all as usize);
                assert_eq!(&copied[1..], row);
            }
        }
    }
}
