//! Numbers in as few bytes each as the greatest of them needs: none where all are the same.

use alloc::boxed::Box;
#[cfg(feature = "pairs")]
use alloc::vec::Vec;
#[cfg(feature = "pairs")]
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
            _ => all
                .iter()
                .flat_map(|n| n.to_le_bytes().into_iter().take(width))
                .collect(),
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

    /// The sum of the numbers `from..to`.
    #[cfg(feature = "pairs")]
    #[inline]
    pub fn sum(&self, from: usize, to: usize) -> usize {
        match self.width {
            0 => self.same as usize * (to - from),
            1 => self.bytes[from..to].iter().map(|&n| usize::from(n)).sum(),
            _ => (from..to).map(|i| self.get(i)).sum(),
        }
    }

    /// Adds the numbers of a range to a row; their sum.
    #[cfg(feature = "pairs")]
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

    pub fn heap(&self) -> usize {
        self.bytes.len()
    }
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
