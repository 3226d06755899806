//! Sorted keys that do not change any more, in few bytes: integers as they are, byte strings end to end with
//! where each begins, in two bytes where all of them have less than 64 KiB.

use super::nums::Nums;
use super::run::ByteRun;
use crate::family::{ByteFamily, FixedKeys, IntFamily, KeyRun};
use alloc::boxed::Box;
use alloc::vec::Vec;

impl FixedKeys<IntFamily> for Box<[u64]> {
    fn of(run: &Vec<u64>, from: usize, to: usize) -> Self {
        run[from..to].into()
    }
    #[inline]
    fn len(&self) -> usize {
        <[u64]>::len(self)
    }
    #[inline]
    fn get(&self, i: usize) -> u64 {
        self[i]
    }
    fn heap(&self) -> usize {
        size_of_val(&**self)
    }
}

/// Byte strings end to end.
pub struct FixedBytes {
    bytes: Box<[u8]>,
    /// Where each begins, and where the last one ends.
    starts: Nums,
    n: usize,
}

impl FixedBytes {
    /// Bytes of all keys.
    pub fn key_bytes(&self) -> usize {
        self.bytes.len()
    }

    /// Appends all keys to a run.
    pub fn decode(&self, into: &mut ByteRun) {
        into.reserve(self.n, self.bytes.len());
        let ends = (1..=self.n).map(|i| self.starts.get(i) as u32);
        into.append_part(&self.bytes, ends);
    }
}

impl FixedKeys<ByteFamily> for FixedBytes {
    fn of(run: &ByteRun, from: usize, to: usize) -> Self {
        let (bytes, ends) = run.part(from, to);
        let mut starts = Vec::with_capacity(to - from + 1);
        starts.push(0);
        starts.extend(ends);
        FixedBytes {
            bytes: bytes.into(),
            starts: Nums::new(&starts),
            n: to - from,
        }
    }
    #[inline]
    fn len(&self) -> usize {
        self.n
    }
    #[inline]
    fn get(&self, i: usize) -> &[u8] {
        &self.bytes[self.starts.get(i)..self.starts.get(i + 1)]
    }
    fn heap(&self) -> usize {
        self.bytes.len() + self.starts.heap()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_come_back_from_any_part_of_a_run_and_take_two_bytes_more() {
        let mut run = ByteRun::default();
        for i in 0..900u32 {
            run.push(&i.to_be_bytes()[..(i % 5) as usize]);
        }
        for (from, to) in [(0, 0), (0, 1), (3, 800), (0, 900), (899, 900)] {
            let keys = FixedBytes::of(&run, from, to);
            assert_eq!(keys.len(), to - from);
            assert!((from..to).all(|i| keys.get(i - from) == run.get(i)));
            let mut back = ByteRun::default();
            keys.decode(&mut back);
            assert!(
                back.len() == to - from && (from..to).all(|i| back.get(i - from) == run.get(i))
            );
            assert!(keys.heap() <= run.key_bytes(from, to) + 2 * (to - from + 1));
        }
        // Beyond 64 KiB they take four.
        let mut run = ByteRun::default();
        (0..3).for_each(|i| run.push(&[i; 40_000]));
        let keys = FixedBytes::of(&run, 0, 3);
        assert!((0..3).all(|i| keys.get(i) == run.get(i)));
        assert_eq!((keys.heap(), keys.key_bytes()), (120_000 + 4 * 4, 120_000));
    }
}
