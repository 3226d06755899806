//! Copies of hot entries of a map for one thread, which lends them: they come and go only while no thread
//! else has the map.
//!
//! What always holds: where a key has a copy, an entry of the static stage has that key and that value.
//! So who changes or takes out a value there erases the copy of its key; that segments are merged or
//! moved changes nothing. The key keeps its place in the set, and has a copy again when its entry comes back
//! to the static stage, with the value that it has by then.
//!
//! Lookups count what they find. What they miss is wanted where its set has room; else they leave prints, and
//! a key that is missed twice while its print is there is wanted. The number of sets grows by linear hashing: each new set takes its
//! records from one other, so that no step is longer where there are more.

use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::home::{Block, Store};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering::Relaxed};

/// Records of a set: of integers and words as many as two lines have room for.
const PER_SET: usize = 7;
/// Prints of a set.
const GHOSTS: usize = 8;
/// Records by which the worth of the last bytes is judged: the very last one is often new.
const LAST: usize = 2;
/// Sets that come and go at once.
const CHUNK: usize = 64;
/// Bits of a count, and the most that it counts.
const COUNT: u32 = 4;
const FULL: u32 = (1 << COUNT) - 1;
/// A new record counts as found so often.
const FRESH: u32 = 2;

#[repr(align(64))]
struct Set<K, V> {
    keys: [K; PER_SET],
    vals: [V; PER_SET],
    counts: AtomicU32,
    ghosts: [AtomicU8; GHOSTS],
    /// Which records there are, a bit each, and which have a key alone.
    used: u8,
    held: u8,
}

impl<K: Copy + Eq, V> Set<K, V> {
    fn find(&self, key: &K) -> Option<usize> {
        self.place(key, self.used)
    }

    /// The place of a key, of some.
    fn place(&self, key: &K, of: u8) -> Option<usize> {
        (0..PER_SET).find(|&i| of >> i & 1 == 1 && self.keys[i] == *key)
    }

    /// A place that no key has.
    fn free(&self) -> Option<usize> {
        (0..PER_SET).find(|&i| (self.used | self.held) >> i & 1 == 0)
    }

    fn count(&self, i: usize) -> u32 {
        self.counts.load(Relaxed) >> (i as u32 * COUNT) & FULL
    }

    fn set_count(&mut self, i: usize, count: u32) {
        let at = i as u32 * COUNT;
        let counts = self.counts.get_mut();
        *counts = *counts & !(FULL << at) | count << at;
    }

    /// Writes a record over the one that is found least, if that is found no more often than so.
    fn put(&mut self, (key, val, count): (K, V, u32), most: u32) -> bool {
        let taken = self.used | self.held;
        let least = || (0..PER_SET).min_by_key(|&i| self.count(i)).unwrap_or(0);
        let known = self.place(&key, taken).or(self.free());
        let i = known.unwrap_or_else(least);
        let other = taken >> i & 1 == 1 && self.keys[i] != key;
        if other && self.count(i) > most {
            return false;
        }
        (self.keys[i], self.vals[i]) = (key, val);
        self.used |= 1 << i;
        self.held &= !(1 << i);
        self.set_count(i, count);
        true
    }
}

/// What a lookup found.
pub struct Hit<'a, V> {
    pub val: &'a V,
    /// Of the records of its set it is one of the [two](LAST) that are found least.
    pub least: bool,
}

type SetOf<F, V> = Set<<F as Family>::CopyKey, V>;

/// The copies.
pub struct HotCopies<F: Family, V> {
    chunks: Vec<Block<SetOf<F, V>>>,
    copy: fn(&V) -> V,
}

impl<F: Family, V> HotCopies<F, V> {
    /// None yet; they are made by `copy`.
    pub fn new(copy: fn(&V) -> V) -> Self {
        let chunks = vec![];
        HotCopies { chunks, copy }
    }

    /// None, as many there are: for a map that is emptied.
    pub fn again(&self) -> Self {
        Self::new(self.copy)
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        let chunks = self.chunks.iter().map(Block::footprint).sum::<usize>();
        (chunks + self.chunks.len() * size_of::<Block<SetOf<F, V>>>()) as u64
    }

    /// Bytes by which they grow.
    pub const fn chunk() -> u64 {
        (CHUNK * size_of::<SetOf<F, V>>() + size_of::<Block<SetOf<F, V>>>()) as u64
    }

    /// How many times the [last](LAST) records are in all of them.
    pub const fn times_last() -> f64 {
        PER_SET as f64 / LAST as f64
    }

    fn sets(&self) -> usize {
        self.chunks.len() * CHUNK
    }

    /// The set of a key with this hash, where there are `n`.
    fn index(hash: u64, n: usize) -> usize {
        let all = n.next_power_of_two();
        let i = hash as usize & (all - 1);
        if i < n { i } else { i & (all / 2 - 1) }
    }

    fn set(&self, hash: u64) -> Option<&SetOf<F, V>> {
        let n = self.sets();
        let i = (n > 0).then(|| Self::index(hash, n))?;
        self.chunks[i / CHUNK].get(i % CHUNK)
    }

    fn set_mut(&mut self, i: usize) -> &mut SetOf<F, V> {
        &mut self.chunks[i / CHUNK][i % CHUNK]
    }

    /// The line of the set of a key with this hash.
    pub fn line(&self, hash: u64) -> Option<u64> {
        Some(std::ptr::from_ref(self.set(hash)?) as u64 / 64)
    }

    /// The copy of a key. O(1).
    #[inline]
    pub fn find(&self, key: &F::CopyKey, hash: u64) -> Option<Hit<'_, V>> {
        let set = self.set(hash)?;
        let i = set.find(key)?;
        let count = set.count(i);
        if count < FULL {
            // Others that count at once may lose theirs: no harm.
            let more = set.counts.load(Relaxed) + (1 << (i as u32 * COUNT));
            set.counts.store(more, Relaxed);
        }
        let colder = |&other: &usize| (set.count(other), other) < (count, i);
        let least = (0..PER_SET).filter(colder).count() < LAST;
        let val = &set.vals[i];
        Some(Hit { val, least })
    }

    /// A key without a copy was found where it lies: whether it is to have one, since there is room or it
    /// has its place, or it is known to be wanted again. O(1).
    pub fn missed(&self, key: &F::CopyKey, hash: u64) -> bool {
        let Some(set) = self.set(hash) else {
            return false;
        };
        if set.free().is_some() || set.place(key, set.held).is_some() {
            return true;
        }
        let ghost = &set.ghosts[(hash >> 56) as usize % GHOSTS];
        let print = ((hash >> 40) as u8).max(1);
        let again = ghost.load(Relaxed) == print;
        ghost.store(if again { 0 } else { print }, Relaxed);
        again
    }

    /// Makes a copy, if the set of the key has room, or one that is hardly found. O(1).
    pub fn put(&mut self, key: F::CopyKey, hash: u64, val: &V) -> bool {
        let n = self.sets();
        if n == 0 {
            return false;
        }
        let record = (key, (self.copy)(val), FRESH);
        let set = self.set_mut(Self::index(hash, n));
        if set.put(record, 1) {
            return true;
        }
        // All of them are found often: they count less from now on.
        for i in 0..PER_SET {
            let less = set.count(i).saturating_sub(1);
            set.set_count(i, less);
        }
        false
    }

    /// The value of a key changes, or leaves: it has no copy any more, but a place. O(1).
    pub fn erase(&mut self, key: &F::CopyKey, hash: u64) {
        let n = self.sets();
        if n == 0 || planted(Fault::KeptCopy) {
            return;
        }
        let set = self.set_mut(Self::index(hash, n));
        if let Some(i) = set.find(key) {
            set.used &= !(1 << i);
            set.held |= 1 << i;
        }
    }

    /// A key comes to the static stage with this value: it has a copy again if it has its place. O(1).
    pub fn returned(&mut self, key: &F::CopyKey, hash: u64, val: &V) {
        let (n, copy) = (self.sets(), self.copy);
        if n == 0 {
            return;
        }
        let set = self.set_mut(Self::index(hash, n));
        if let Some(i) = set.place(key, set.held) {
            if !planted(Fault::OldReturn) {
                set.vals[i] = copy(val);
            }
            set.used |= 1 << i;
            set.held &= !(1 << i);
        }
    }

    /// Has no copy of any key.
    pub fn erase_all(&mut self) {
        if planted(Fault::KeptCopy) {
            return;
        }
        for set in self.chunks.iter_mut().flat_map(|chunk| chunk.iter_mut()) {
            (set.used, set.held) = (0, 0);
            *set.counts.get_mut() = 0;
        }
    }

    /// Room for how many there is.
    pub fn room(&self) -> usize {
        self.sets() * PER_SET
    }

    /// Adds a chunk, which lies in the store, or on the heap; false where the memory is refused.
    /// `filler` is any value.
    pub fn grow(&mut self, store: Option<&Store>, filler: &V) -> bool {
        let n = self.sets();
        let empty = || Set {
            keys: [F::CopyKey::default(); PER_SET],
            vals: std::array::from_fn(|_| (self.copy)(filler)),
            counts: AtomicU32::new(0),
            ghosts: Default::default(),
            used: 0,
            held: 0,
        };
        let sets: Vec<SetOf<F, V>> = (0..CHUNK).map(|_| empty()).collect();
        let chunk = match store {
            None => sets.into(),
            Some(store) => match store.keep(sets) {
                Ok(chunk) => chunk,
                Err(_) => return false,
            },
        };
        self.chunks.push(chunk);
        // Each set has its records from the one that had all of both.
        for new in n.max(1)..n + CHUNK {
            self.refill(new - (1 << new.ilog2()), n + CHUNK);
        }
        true
    }

    /// Gives up the last chunk.
    pub fn shrink(&mut self) {
        let Some(n) = self.sets().checked_sub(CHUNK) else {
            return;
        };
        if n > 0 {
            for old in n..n + CHUNK {
                self.refill(old, n);
            }
        }
        self.chunks.pop();
    }

    /// Moves the records of a set that belong into another where there are `n`.
    fn refill(&mut self, from: usize, n: usize) {
        for i in 0..PER_SET {
            let set = self.set_mut(from);
            if (set.used | set.held) >> i & 1 == 0 {
                continue;
            }
            let (key, count) = (set.keys[i], set.count(i));
            let to = Self::index(F::copy_hash(&key), n);
            if to == from {
                continue;
            }
            let is_used = set.used >> i & 1 == 1;
            set.used &= !(1 << i);
            set.held &= !(1 << i);
            set.set_count(i, 0);
            if !is_used {
                continue;
            }
            let val = (self.copy)(&self.set_mut(from).vals[i]);
            self.set_mut(to).put((key, val, count), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{ByteFamily, IntFamily};
    use std::collections::BTreeMap;

    fn random(x: &mut u64) -> u64 {
        *x = x
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        *x >> 33
    }

    #[test]
    fn a_set_of_integers_is_two_lines() {
        assert_eq!(size_of::<SetOf<IntFamily, u64>>(), 128);
    }

    /// Puts, erasures, growth and shrinking by chance beside a model of what may be found.
    #[test]
    fn what_is_found_is_what_was_put_last_and_not_erased() {
        let mut lent = HotCopies::<IntFamily, u64>::new(u64::clone);
        let (mut model, mut x, mut hits) = (BTreeMap::new(), 1, 0);
        for round in 0..if cfg!(miri) { 2_000 } else { 200_000u64 } {
            let key = random(&mut x) % 3000;
            let hash = IntFamily::copy_hash(&key);
            match random(&mut x) % 64 {
                0 if random(&mut x).is_multiple_of(8) => assert!(lent.grow(None, &7)),
                1 if random(&mut x).is_multiple_of(12) => lent.shrink(),
                2..8 => {
                    lent.erase(&key, hash);
                    model.remove(&key);
                }
                8..40 => {
                    // A change erases first, as the map does.
                    lent.erase(&key, hash);
                    model.remove(&key);
                    if lent.put(key, hash, &round) {
                        model.insert(key, round);
                    }
                }
                _ => {
                    let found = lent.find(&key, hash).map(|hit| *hit.val);
                    assert!(found.is_none() || found.as_ref() == model.get(&key));
                    hits += u64::from(found.is_some());
                }
            }
        }
        assert!(hits > if cfg!(miri) { 10 } else { 10_000 }, "{hits}");
        lent.erase_all();
        assert!((0..3000).all(|key| lent.find(&key, IntFamily::copy_hash(&key)).is_none()));
    }

    #[test]
    fn growth_loses_no_copy() {
        let mut lent = HotCopies::<IntFamily, u64>::new(u64::clone);
        assert!(lent.grow(None, &0));
        let hash = |key: &u64| IntFamily::copy_hash(key);
        let put: Vec<u64> = (0..200)
            .filter(|k| lent.put(*k, hash(k), &(k * 3)))
            .collect();
        assert!(put.len() > 190);
        for _ in 0..20 {
            assert!(lent.grow(None, &0));
            for key in &put {
                let hit = lent.find(key, hash(key)).map(|hit| *hit.val);
                assert_eq!(hit, Some(key * 3));
            }
        }
        assert_eq!(lent.room(), 21 * CHUNK * PER_SET);
        assert!(lent.bytes() >= 21 * (CHUNK * 128) as u64);
    }

    #[test]
    fn strings_have_the_hash_of_their_key() {
        for text in [
            "",
            "a",
            "a longer key",
            "one of thirty-nine bytes, the longest..",
        ] {
            let key = ByteFamily::copy_key(text.as_bytes()).unwrap();
            assert_eq!(
                ByteFamily::copy_hash(&key),
                ByteFamily::hash(text.as_bytes())
            );
        }
        assert!(ByteFamily::copy_key(&[0; 40]).is_none());
    }

    #[test]
    fn what_is_missed_is_wanted_where_there_is_room_and_else_when_it_is_missed_twice() {
        let mut lent = HotCopies::<IntFamily, u64>::new(u64::clone);
        assert!(!lent.missed(&5, 5) && !lent.missed(&5, 5));
        lent.grow(None, &0);
        for key in 0..PER_SET as u64 {
            assert!(lent.missed(&9, 5) && lent.missed(&9, 5));
            assert!(lent.put(key, 5, &key));
        }
        let missed = [(); 4].map(|()| lent.missed(&9, 5));
        assert_eq!(missed, [false, true, false, true]);
        // What was erased keeps its place.
        lent.erase(&3, 5);
        assert!(lent.find(&3, 5).is_none());
        assert!(lent.missed(&3, 5) && !lent.missed(&8, 5));
        assert!(lent.put(3, 5, &7));
        assert_eq!(lent.find(&3, 5).map(|hit| *hit.val), Some(7));
        lent.erase(&3, 5);
        lent.returned(&8, 5, &1);
        assert!(lent.find(&3, 5).is_none() && lent.find(&8, 5).is_none());
        lent.returned(&3, 5, &9);
        assert_eq!(lent.find(&3, 5).map(|hit| *hit.val), Some(9));
    }
}
