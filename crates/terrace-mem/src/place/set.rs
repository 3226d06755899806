//! A set of the table of copies: its records, how often each was found, and the lock under which one is written.

use crate::sync::atomic::{AtomicU64, Ordering, fence};

/// Words of a set, two lines.
pub const WORDS: usize = 16;
/// Records of a set at most: as many as there are ids.
pub const MOST: usize = 6;
/// The first word of the records; before them are the head and the ids, two in a word.
pub const RECORDS: usize = 4;

/// Bits of a count, and the most that it counts.
pub const COUNT: u32 = 4;
pub const FULL: u64 = (1 << COUNT) - 1;
/// A new record counts as found so often.
pub const FRESH: u64 = 2;
/// In the head: the counts, then the lock, then how often the set was written.
pub const LOCK: u64 = 1 << (MOST as u32 * COUNT);
pub const WRITTEN: u64 = LOCK << 1;

/// Records of copies, and in the first word how often each was found.
#[derive(Default)]
#[repr(align(64))]
pub struct Set(pub [AtomicU64; WORDS]);

/// How the words of a set are used.
#[derive(Clone, Copy)]
pub struct Shape {
    pub key: usize,
    pub record: usize,
    pub per_set: usize,
}

#[inline]
pub fn count_of(head: u64, i: usize) -> u64 {
    head >> (i as u32 * COUNT) & FULL
}

impl Set {
    /// Which record has the key.
    #[inline]
    pub fn record(&self, shape: Shape, key: &[u64]) -> Option<usize> {
        let same = |i: &usize| {
            let from = RECORDS + i * shape.record;
            let cells = &self.0[from..from + shape.key];
            self.id(*i) != 0
                && cells
                    .iter()
                    .zip(key)
                    .all(|(cell, word)| cell.load(Ordering::Relaxed) == *word)
        };
        (0..shape.per_set).find(same)
    }

    /// The id of a record, one more than it is; 0: it has none.
    #[inline]
    pub fn id(&self, i: usize) -> u64 {
        self.0[1 + i / 2].load(Ordering::Relaxed) >> (i % 2 * 32) & 0xFFFF_FFFF
    }

    /// Writes a record in the place of the one that is found least, if it is found hardly.
    pub fn put(&self, shape: Shape, (key, val): (&[u64], &[u64]), id: u64) {
        let head = self.0[0].load(Ordering::Relaxed);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let taken = head & LOCK == 0
            && self.0[0]
                .compare_exchange(head, head | LOCK, order.0, order.1)
                .is_ok();
        if !taken {
            return;
        }
        let least = || {
            let empty = (0..shape.per_set).find(|&i| self.id(i) == 0);
            empty.or_else(|| (0..shape.per_set).min_by_key(|&i| count_of(head, i)))
        };
        let i = self.record(shape, key).or_else(least).unwrap_or(0);
        let (mut counts, mut written) = (head & (LOCK - 1), head & !(2 * LOCK - 1));
        let known = self.record(shape, key).is_some();
        if !known && self.id(i) != 0 && count_of(head, i) > 1 {
            for i in 0..shape.per_set {
                counts -= u64::from(count_of(head, i) > 0) << (i as u32 * COUNT);
            }
        } else {
            fence(Ordering::Release);
            crate::sync::between();
            let word = &self.0[1 + i / 2];
            let shift = i % 2 * 32;
            let others = word.load(Ordering::Relaxed) & !(0xFFFF_FFFF << shift);
            word.store(others | id << shift, Ordering::Relaxed);
            let from = RECORDS + i * shape.record;
            for (cell, word) in self.0[from..][..shape.record]
                .iter()
                .zip(key.iter().chain(val))
            {
                cell.store(*word, Ordering::Relaxed);
                crate::sync::between();
            }
            let at = i as u32 * COUNT;
            counts = counts & !(FULL << at) | FRESH << at;
            written = written.wrapping_add(WRITTEN);
        }
        self.0[0].store(counts | written, Ordering::Release);
    }
}
