//! Numbers in as few bytes each as the greatest of them needs: none where all are the same.

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
        let bytes = all
            .iter()
            .flat_map(|n| n.to_le_bytes().into_iter().take(width));
        Nums {
            bytes: bytes.collect(),
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
    #[inline]
    pub fn sum(&self, from: usize, to: usize) -> usize {
        match self.width {
            0 => self.same as usize * (to - from),
            1 => self.bytes[from..to].iter().map(|&n| usize::from(n)).sum(),
            _ => (from..to).map(|i| self.get(i)).sum(),
        }
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
            let all: u32 = row.iter().sum();
            assert_eq!(nums.sum(0, row.len()), all as usize);
        }
    }
}
