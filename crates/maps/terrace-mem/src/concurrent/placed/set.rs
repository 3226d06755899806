//! A set of the table of copies: its records, how often each was found, and the lock under which one is written.
//!
//! Kept true: a key has one record at most; a record is written under the lock alone, and taken out without it.
//! What was read counts only if lock and writes are the same before and behind.

use crate::faults::{Fault, planted};
use crate::sync::atomic::{AtomicU8, AtomicU64, Ordering, fence};

/// Words of the records of a set: two lines without the head and the prints.
pub const WORDS: usize = 14;
/// Records of a set at most: of integers and words as many as it has room for.
pub const MOST: usize = 7;
/// Prints of keys that were missed.
pub const PRINTS: usize = 8;

/// Bits of a count, and the most that it counts.
pub const COUNT: u32 = 4;
pub const FULL: u64 = (1 << COUNT) - 1;
/// A new record counts as found so often.
const FRESH: u64 = 2;
/// In the head: the counts, then which records there are, the lock, and how often the set was written.
const COUNTS: u64 = (1 << (MOST as u32 * COUNT)) - 1;
const USED: u64 = ((1 << MOST) - 1) << (MOST as u32 * COUNT);
pub const LOCK: u64 = 1 << (MOST as u32 * (COUNT + 1));
const WRITTEN: u64 = LOCK << 1;

/// Records of copies, and prints of keys that have none.
#[derive(Default)]
#[repr(align(64))]
pub struct Set {
    pub head: AtomicU64,
    pub prints: [AtomicU8; PRINTS],
    words: [AtomicU64; WORDS],
}

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

/// The bit that says whether there is a record.
#[inline]
fn used(i: usize) -> u64 {
    1 << (MOST as u32 * COUNT + i as u32)
}

impl Set {
    /// Which record has the key, of those that there are by the head.
    #[inline]
    pub fn record(&self, shape: Shape, head: u64, key: &[u64]) -> Option<usize> {
        let same = |i: &usize| {
            let from = i * shape.record;
            let cells = &self.words[from..from + shape.key];
            head & used(*i) != 0
                && cells
                    .iter()
                    .zip(key)
                    .all(|(cell, word)| cell.load(Ordering::Relaxed) == *word)
        };
        (0..shape.per_set).find(same)
    }

    /// How many records there are.
    #[inline]
    pub fn used(&self, shape: Shape) -> usize {
        let used = self.head.load(Ordering::Relaxed) & USED;
        debug_assert!(used.count_ones() as usize <= shape.per_set);
        used.count_ones() as usize
    }

    /// Whether there are fewer records than it has room for.
    #[inline]
    pub fn has_room(&self, shape: Shape) -> bool {
        self.used(shape) < shape.per_set
    }

    /// The words of the value of a record.
    #[inline]
    pub fn val(&self, shape: Shape, i: usize) -> &[AtomicU64] {
        &self.words[i * shape.record + shape.key..(i + 1) * shape.record]
    }

    /// The head, if no thread writes: then no other thread does until it is [unlocked](Self::unlock).
    fn lock(&self) -> Option<u64> {
        let head = self.head.load(Ordering::Relaxed);
        let order = (Ordering::Acquire, Ordering::Relaxed);
        let taken = head & LOCK == 0
            && self
                .head
                .compare_exchange(head, head | LOCK, order.0, order.1)
                .is_ok();
        taken.then_some(head)
    }

    /// Gives the lock back, with other counts, and a record that has been written. Others that were taken out
    /// meanwhile stay so.
    fn unlock(&self, head: u64, counts: u64, wrote: Option<usize>) {
        let (put, writes) = wrote.map_or((0, 0), |i| (used(i), WRITTEN));
        let written = (head & !(WRITTEN - 1)).wrapping_add(writes);
        let order = (Ordering::Release, Ordering::Relaxed);
        let _ = self.head.fetch_update(order.0, order.1, |now| {
            let there = if planted(Fault::BlindUnlock) {
                head
            } else {
                now
            };
            Some(counts | (there & USED) | put | written)
        });
    }

    fn write(&self, from: usize, words: impl Iterator<Item = u64>) {
        fence(Ordering::Release);
        crate::sync::between();
        for (cell, word) in self.words[from..].iter().zip(words) {
            cell.store(word, Ordering::Relaxed);
            crate::sync::between();
        }
    }

    /// Writes a record in the place of the one that is found least, if it is found hardly. Nothing where
    /// another thread writes.
    pub fn put(&self, shape: Shape, key: &[u64], val: &[u64]) {
        let Some(head) = self.lock() else {
            return;
        };
        let known = self.record(shape, head, key);
        let least = || {
            let empty = (0..shape.per_set).find(|&i| head & used(i) == 0);
            empty.or_else(|| (0..shape.per_set).min_by_key(|&i| count_of(head, i)))
        };
        let i = known.or_else(least).unwrap_or(0);
        let mut counts = head & COUNTS;
        if known.is_none() && head & used(i) != 0 && count_of(head, i) > 1 {
            for i in 0..shape.per_set {
                counts -= u64::from(count_of(head, i) > 0) << (i as u32 * COUNT);
            }
            self.unlock(head, counts, None);
            return;
        }
        self.write(i * shape.record, key.iter().chain(val).copied());
        let at = i as u32 * COUNT;
        self.unlock(head, counts & !(FULL << at) | FRESH << at, Some(i));
    }

    /// The value of a key, which no other thread puts meanwhile, is another one now, or none: so is that of its
    /// record, or it has none any more.
    pub fn change(&self, shape: Shape, key: &[u64], val: Option<&[u64]>) {
        let found = |head| self.record(shape, head, key);
        let Some(i) = found(self.head.load(Ordering::Acquire)) else {
            return;
        };
        if let Some(val) = val
            && let Some(head) = self.lock()
        {
            // Another key may have taken its place.
            let still = found(head);
            if let Some(i) = still {
                self.write(i * shape.record + shape.key, val.iter().copied());
            }
            self.unlock(head, head & COUNTS, still);
        } else {
            self.take(i);
        }
    }

    /// Takes out the records of all keys but those that `stay`, of which no thread puts one meanwhile.
    pub fn keep(&self, shape: Shape, stay: impl Fn(&[u64]) -> bool) {
        let mut key = [0; WORDS];
        let key = &mut key[..shape.key];
        for i in 0..shape.per_set {
            if self.head.load(Ordering::Acquire) & used(i) == 0 {
                continue;
            }
            for (word, cell) in key.iter_mut().zip(&self.words[i * shape.record..]) {
                *word = cell.load(Ordering::Relaxed);
            }
            if !stay(key) {
                self.take(i);
            }
        }
    }

    /// Takes a record out, whatever it is by now: to lose one is no harm. Who writes it just now writes it
    /// for another key, or for one that stays, and has it be there afterwards.
    fn take(&self, i: usize) {
        self.head.fetch_and(!used(i), Ordering::Release);
    }
}
