//! A table of copies of one size: which chunk has which keys.
//!
//! Kept true: a chunk gets its slots when it is new. It gets others, those of a chunk that was given up,
//! only when no reader is left that saw them belong anywhere, and it has been cleared of copies of theirs.

use super::chunk::{Chunk, Counted, Home};
use super::set::{COUNT, FULL, LOCK, PRINTS, Set, Shape, count_of};
use crate::faults::{Fault, planted};
use crate::place::words;
use crate::sync::atomic::{AtomicU8, Ordering, fence};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16 as Slot, AtomicUsize as Number};

/// Records of a set by which the worth of the last bytes is judged: the very last one is often new.
pub const LAST: usize = 2;

/// Parts of the hashes, each of which belongs to one chunk.
pub(super) const SLOTS: usize = 4096;
/// The chunk of slots that have none.
const NONE: u16 = u16::MAX;

/// A table of one size.
pub struct Table {
    pub(super) shape: Shape,
    /// The chunk of each slot.
    pub(super) slots: Box<[Slot]>,
    /// How many slots have none.
    pub(super) void: Number,
    /// How many of the first chunks may have copies of slots that went to others.
    littered: Number,
    _counted: Option<Counted>,
    pub(super) chunks: Vec<Arc<Chunk>>,
    /// Sets of a chunk.
    pub(super) sets: usize,
}

/// What a lookup found.
#[derive(Debug, PartialEq, Eq)]
pub struct Hit {
    pub val: [u64; words::MOST],
    /// Of the records of its set it is one of the [two](LAST) that are found least.
    pub least: bool,
}

/// Bytes of a chunk of this many sets.
pub(super) fn chunk_bytes(sets: usize) -> usize {
    sets * size_of::<Set>()
}

/// How many slots a chunk is to have, of `n` chunks.
fn share(chunk: usize, n: usize) -> usize {
    SLOTS / n + usize::from(chunk < SLOTS % n)
}

impl Table {
    pub(super) fn empty(shape: Shape, sets: usize) -> Self {
        Table {
            shape,
            slots: Box::default(),
            void: Number::new(0),
            littered: Number::new(0),
            _counted: None,
            chunks: Vec::new(),
            sets,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * chunk_bytes(self.sets) + self.slots.len() * 2
    }

    /// How many slots each chunk has.
    pub(super) fn has(&self) -> Vec<usize> {
        let mut has = vec![0; self.chunks.len()];
        for slot in &self.slots {
            if let Some(had) = has.get_mut(usize::from(slot.load(Ordering::Relaxed))) {
                *had += 1;
            }
        }
        has
    }

    /// The table with this many chunks, fewer where memory is refused. Most slots stay with theirs, new
    /// chunks get the others, and where there are none they have no chunk.
    pub(super) fn resized(&self, n: usize, home: &Home) -> Self {
        let (mut chunks, had) = (self.chunks.clone(), self.chunks.len());
        chunks.truncate(n);
        while chunks.len() < n
            && let Some(chunk) = Chunk::new(self.sets, home)
        {
            chunks.push(Arc::new(chunk));
        }
        let n = chunks.len();
        let mut slots: Vec<u16> = self
            .slots
            .iter()
            .map(|s| s.load(Ordering::Relaxed))
            .collect();
        slots.resize(if n == 0 { 0 } else { SLOTS }, NONE);
        let mut has = vec![0; n];
        for slot in &mut slots {
            match has.get_mut(usize::from(*slot)) {
                Some(had) if *had < share(usize::from(*slot), n) => *had += 1,
                _ => *slot = NONE,
            }
        }
        let fresh = (had.min(n)..n).flat_map(|new| std::iter::repeat_n(new as u16, share(new, n)));
        for (slot, new) in slots.iter_mut().filter(|slot| **slot == NONE).zip(fresh) {
            *slot = new;
        }
        Table {
            shape: self.shape,
            void: Number::new(slots.iter().filter(|slot| **slot == NONE).count()),
            littered: Number::new(match n > had {
                true => had,
                false => self.littered.load(Ordering::Relaxed).min(n),
            }),
            _counted: Some(Counted::new(&home.live, slots.len() * 2)),
            slots: slots.into_iter().map(Slot::new).collect(),
            chunks,
            sets: self.sets,
        }
    }

    /// Takes copies of slots that have other chunks out of up to this many; returns out of how many.
    pub(super) fn clean(&self, hash: fn(&[u64]) -> u64, most: usize) -> usize {
        let littered = self.littered.load(Ordering::Relaxed);
        let left = littered.saturating_sub(most);
        (left..littered).for_each(|i| self.keep_own(i, hash));
        self.littered.store(left, Ordering::Relaxed);
        littered - left
    }

    fn keep_own(&self, i: usize, hash: fn(&[u64]) -> u64) {
        let slot = |key: &[u64]| self.slots[hash(key) as usize % SLOTS].load(Ordering::Relaxed);
        for set in self.chunks[i].sets.iter() {
            set.keep(self.shape, |key| usize::from(slot(key)) == i);
        }
    }

    /// Has up to this many chunks get the slots that they lack; returns how many do. O(slots + bytes of
    /// them).
    pub(super) fn settle(&self, hash: fn(&[u64]) -> u64, most: usize) -> usize {
        let (n, has) = (self.chunks.len(), self.has());
        let lack = |i: &usize| has[*i] < share(*i, n);
        let mut void = self.slots.iter();
        let mut settled = 0;
        for i in (0..n).filter(lack).take(most) {
            if !planted(Fault::OldSlot) {
                self.keep_own(i, hash);
            }
            let void = void.by_ref();
            let void = void.filter(|slot| slot.load(Ordering::Relaxed) == NONE);
            for slot in void.take(share(i, n) - has[i]) {
                slot.store(i as u16, Ordering::Release);
                self.void.fetch_sub(1, Ordering::Relaxed);
            }
            settled += 1;
        }
        settled
    }

    /// The set of a key with this hash.
    #[inline]
    fn set(&self, hash: u64) -> Option<&Set> {
        let slot = self.slots.get(hash as usize % SLOTS)?;
        let chunk = self.chunks.get(usize::from(slot.load(Ordering::Acquire)))?;
        Some(&chunk.sets[(hash >> 12) as usize & (self.sets - 1)])
    }

    /// The address of the set for a key with this hash.
    pub fn line(&self, hash: u64) -> Option<u64> {
        let set = self.set(hash)?;
        Some(std::ptr::from_ref(set) as u64 / 64)
    }

    /// The value of a key, if there is a copy. O(1).
    #[inline]
    pub fn find(&self, key: &[u64], hash: u64) -> Option<Hit> {
        let set = self.set(hash)?;
        let head = set.head.load(Ordering::Acquire);
        if head & LOCK != 0 && !planted(Fault::TornCopy) {
            return None;
        }
        let i = set.record(self.shape, head, key)?;
        let mut val = [0; words::MOST];
        for (word, cell) in val.iter_mut().zip(set.val(self.shape, i)) {
            *word = cell.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let behind = set.head.load(Ordering::Relaxed);
        if behind / LOCK != head / LOCK && !planted(Fault::TornCopy) {
            return None;
        }
        let count = count_of(head, i);
        if count < FULL {
            // Lost where another one counts or writes: no harm.
            let more = head + (1 << (i as u32 * COUNT));
            let order = Ordering::Relaxed;
            let _ = set.head.compare_exchange(head, more, order, order);
        }
        let colder = |&other: &usize| (count_of(head, other), other) < (count_of(head, i), i);
        let least = (0..self.shape.per_set).filter(colder).count() < LAST;
        Some(Hit { val, least })
    }

    /// A key without a copy was found in its segment: whether it is to have one, since there is room, or
    /// it is known to be wanted again. O(1).
    pub fn missed(&self, hash: u64) -> bool {
        let Some(set) = self.set(hash) else {
            return false;
        };
        if set.has_room(self.shape) {
            return true;
        }
        let print: &AtomicU8 = &set.prints[(hash >> 56) as usize % PRINTS];
        let new = ((hash >> 40) as u8).max(1);
        let again = print.load(Ordering::Relaxed) == new;
        print.store(if again { 0 } else { new }, Ordering::Relaxed);
        again
    }

    /// Makes a copy, if the set of the key has room, or one that is hardly found. Under the latch of its
    /// part, whose published segment has this value. O(1).
    pub fn put(&self, key: &[u64], hash: u64, val: &[u64]) {
        if let Some(set) = self.set(hash) {
            set.put(self.shape, key, val);
        }
    }

    /// The published segment has another value for a key, or none. Under the latch of its part, which
    /// no other thread has. O(1).
    pub fn change(&self, key: &[u64], hash: u64, val: Option<&[u64]>) {
        if let Some(set) = self.set(hash) {
            set.change(self.shape, key, val);
        }
    }
}
