//! Copies of hot entries in fast memory: a table of keys and values that are words.
//!
//! What always holds: a segment never changes which value a key has, and no two have the same id.
//! So a copy is right as long as the segment of its key has the id that the copy names, and
//! otherwise it is no hit. A set is written by who has set the lock in its first word, and what was
//! read from it counts only if that word, but for the counts in it, is the same before and behind.
//!
//! Chunks are as large as the map wants them, so that a table grows by one at a time: that takes no
//! more than it adds, and loses nothing. They are counted for as long as somebody can see them.
//!
//! A key comes in when it is missed for the second time while its print is among the ghosts, and
//! takes the place of the one in its set that was found least. What is found often stays: counts
//! age by one whenever somebody wants a place and all are used.

use super::chunk::{Chunk, Counted, Home};
use super::set::{COUNT, FULL, LOCK, MOST, RECORDS, Set, Shape, WORDS, count_of};
use super::words;
use crate::concurrent::cell::EpochCell;
use crate::faults::{Fault, planted};
use crate::home::Store;
use crate::sync::atomic::{AtomicU16, Ordering, fence};
use crossbeam_epoch::Guard;
use std::sync::Arc;
use std::sync::atomic::AtomicU64 as Sum;

/// Records of a set by which the worth of the last bytes is judged: the very last one is often new.
pub const LAST: usize = 2;

/// Parts of the hashes, each of which belongs to one chunk.
const SLOTS: usize = 4096;
/// Chunks at most: each has 8 slots or more, so that none has much more to do than another.
const CHUNKS: usize = SLOTS / 8;
/// Sets of the smallest chunks, 8 KiB.
const LEAST_SETS: usize = 64;
/// Chunks that are so many times as large as they need be are made anew.
const FAR: usize = 8;

/// Bits of an id in a record. Tests come by more.
const ID_BITS: u32 = if cfg!(test) { 5 } else { 32 };

/// A table of one size.
pub struct Table {
    shape: Shape,
    /// The chunk of each slot.
    slots: Box<[u16]>,
    _counted: Option<Counted>,
    chunks: Vec<Arc<Chunk>>,
    /// Sets of a chunk.
    sets: usize,
    /// What the ids of all records have in their higher bits.
    era: u64,
}

/// What a lookup found.
#[derive(Debug, PartialEq, Eq)]
pub struct Hit {
    pub val: [u64; words::MOST],
    /// Of the records of its set it is one of the [two](LAST) that are found least.
    pub least: bool,
}

fn chunk_bytes(sets: usize, shape: Shape) -> usize {
    sets * (size_of::<Set>() + shape.per_set * size_of::<AtomicU16>())
}

impl Table {
    fn empty(shape: Shape, sets: usize, era: u64) -> Self {
        Table {
            shape,
            slots: Box::default(),
            _counted: None,
            chunks: Vec::new(),
            sets,
            era,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> usize {
        self.chunks.len() * chunk_bytes(self.sets, self.shape) + self.slots.len() * 2
    }

    /// The table with so many chunks, fewer where memory is refused; most slots stay with theirs.
    fn resized(&self, n: usize, home: &Home) -> Self {
        let mut chunks = self.chunks.clone();
        chunks.truncate(n);
        while chunks.len() < n
            && let Some(chunk) = Chunk::new(self.sets, self.shape, home)
        {
            chunks.push(Arc::new(chunk));
        }
        let n = chunks.len();
        let mut slots = self.slots.to_vec();
        slots.resize(if n == 0 { 0 } else { SLOTS }, u16::MAX);
        // Each chunk keeps as many of its slots as it is to have; the others go to who has less.
        let most = |chunk: usize| SLOTS / n + usize::from(chunk < SLOTS % n);
        let mut has = vec![0; n];
        for slot in &mut slots {
            match has.get_mut(usize::from(*slot)) {
                Some(had) if *had < most(usize::from(*slot)) => *had += 1,
                _ => *slot = u16::MAX,
            }
        }
        let mut next = 0;
        for slot in slots.iter_mut().filter(|slot| **slot == u16::MAX) {
            while has[next] == most(next) {
                next += 1;
            }
            has[next] += 1;
            *slot = next as u16;
        }
        Table {
            shape: self.shape,
            _counted: Some(Counted::new(&home.live, slots.len() * 2)),
            slots: slots.into(),
            chunks,
            sets: self.sets,
            era: self.era,
        }
    }

    /// The set of a key with this hash, and its ghost.
    #[inline]
    fn place(&self, hash: u64) -> Option<(&Set, &AtomicU16)> {
        let slot = self.slots.get(hash as usize % SLOTS)?;
        let chunk = self.chunks.get(usize::from(*slot))?;
        let set = &chunk.sets[(hash >> 12) as usize & (self.sets - 1)];
        let other = hash.rotate_left(32).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        let ghost = &chunk.ghosts[(other as usize * chunk.ghosts.len()) >> 32];
        Some((set, ghost))
    }

    /// The address of the set for a key with this hash.
    pub fn line(&self, hash: u64) -> Option<u64> {
        let (set, _) = self.place(hash)?;
        Some(std::ptr::from_ref(set) as u64 / 64)
    }

    fn short(&self, id: u64) -> Option<u64> {
        (id >> ID_BITS == self.era && id > 0).then_some(id & ((1 << ID_BITS) - 1))
    }

    /// The value of a key as the segment with this id has it, if there is a copy. O(1).
    #[inline]
    pub fn find(&self, key: &[u64], hash: u64, id: u64) -> Option<Hit> {
        let short = self.short(id)?;
        let (set, _) = self.place(hash)?;
        let head = set.0[0].load(Ordering::Acquire);
        if head & LOCK != 0 && !planted(Fault::TornCopy) {
            return None;
        }
        let i = set.record(self.shape, key)?;
        if set.id(i) != short && !planted(Fault::StaleCopy) {
            return None;
        }
        let mut val = [0; words::MOST];
        let from = RECORDS + i * self.shape.record + self.shape.key;
        let cells = &set.0[from..RECORDS + (i + 1) * self.shape.record];
        for (word, cell) in val.iter_mut().zip(cells) {
            *word = cell.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        let behind = set.0[0].load(Ordering::Relaxed);
        if behind / LOCK != head / LOCK && !planted(Fault::TornCopy) {
            return None;
        }
        let count = count_of(head, i);
        if count < FULL {
            // Lost where another one counts or writes: no harm.
            let more = head + (1 << (i as u32 * COUNT));
            let _ = set.0[0].compare_exchange(head, more, Ordering::Relaxed, Ordering::Relaxed);
        }
        let colder = |&other: &usize| (count_of(head, other), other) < (count_of(head, i), i);
        let least = (0..self.shape.per_set).filter(colder).count() < LAST;
        Some(Hit { val, least })
    }

    /// A key was found in its segment, which has this id: whether it is known to be wanted again.
    /// It may have a copy from now on. O(1).
    pub fn note(&self, key: &[u64], hash: u64, id: u64, val: &[u64]) -> bool {
        let (Some(short), Some((set, ghost))) = (self.short(id), self.place(hash)) else {
            return false;
        };
        let print = ((hash >> 40) as u16).max(1);
        if ghost.load(Ordering::Relaxed) != print {
            ghost.store(print, Ordering::Relaxed);
            return false;
        }
        ghost.store(0, Ordering::Relaxed);
        set.put(self.shape, (key, val), short);
        true
    }
}

/// The copies of a map.
pub struct Copies {
    table: EpochCell<Table>,
    shape: Shape,
    home: Home,
}

impl Copies {
    /// No copies of keys and values of so many words; none ever, where they are too long. Chunks lie
    /// in the store, or on the heap.
    pub fn new(key: usize, val: usize, store: Option<Store>) -> Option<Self> {
        let record = key + val;
        let per_set = ((WORDS - RECORDS) / record.max(1)).min(MOST);
        let shape = Shape {
            key,
            record,
            per_set,
        };
        let table = Table::empty(shape, LEAST_SETS, 0);
        let table = EpochCell::new(table);
        let live = Arc::default();
        let home = Home { store, live };
        (per_set > 0).then_some(Copies { table, shape, home })
    }

    /// Bytes of all that somebody can see.
    pub fn live(&self) -> &Arc<Sum> {
        &self.home.live
    }

    /// The table as of now.
    #[inline]
    pub fn table<'g>(&'g self, guard: &'g Guard) -> &'g Table {
        self.table.load(guard)
    }

    /// How many times the [last](LAST) records are in all of them.
    pub fn times_last(&self) -> f64 {
        self.shape.per_set as f64 / self.shape.per_set.min(LAST) as f64
    }

    /// Bytes of the smallest table that can learn, and so many more make the next larger one.
    pub fn least(&self, guard: &Guard) -> usize {
        chunk_bytes(self.table(guard).sets, self.shape)
    }

    /// Bytes that one more chunk takes: its own, and those of the list of slots, which is made anew while somebody
    /// still sees the one before.
    pub fn next(&self, guard: &Guard) -> usize {
        self.least(guard) + SLOTS * 2
    }

    /// Has chunks be of a size for a table of so many bytes at most; where they are far from that the
    /// table begins anew, without any. Returns whether it does. One caller at a time.
    pub fn suit(&self, bytes: u64, guard: &Guard) -> bool {
        let table = self.table(guard);
        let mut sets = LEAST_SETS;
        while (CHUNKS * chunk_bytes(sets, self.shape)) as u64 <= bytes {
            sets *= 2;
        }
        if sets <= table.sets && sets * FAR > table.sets {
            return false;
        }
        // Twice as large, so that a map that grows does not come here soon again.
        let sets = if sets > LEAST_SETS { sets * 2 } else { sets };
        if sets == table.sets {
            return false;
        }
        self.table
            .store(Table::empty(self.shape, sets, table.era), guard);
        true
    }

    /// Has the table take up to so many bytes. One caller at a time. O(slots + bytes that come).
    pub fn fit(&self, bytes: usize, guard: &Guard) {
        let table = self.table(guard);
        let n = bytes.saturating_sub(SLOTS * 2) / chunk_bytes(table.sets, self.shape);
        let n = n.min(CHUNKS);
        if n != table.chunks.len() {
            self.table.store(table.resized(n, &self.home), guard);
        }
    }

    /// Adds a chunk, if the table takes no more than so many bytes with it; whether it did. One
    /// caller at a time.
    pub fn grow(&self, most: u64, guard: &Guard) -> bool {
        let table = self.table(guard);
        let n = table.chunks.len() + 1;
        let bytes = n * chunk_bytes(table.sets, self.shape) + SLOTS * 2;
        if bytes as u64 > most || n > CHUNKS {
            return false;
        }
        self.table.store(table.resized(n, &self.home), guard);
        self.table(guard).chunks.len() == n
    }

    /// Makes the table one for the ids as high as this one; returns whether it was another, and
    /// has no chunks now. Ids of another era have no copies. One caller at a time.
    pub fn renew(&self, id: u64, guard: &Guard) -> bool {
        let table = self.table(guard);
        let era = id >> ID_BITS;
        if era == table.era {
            return false;
        }
        self.table
            .store(Table::empty(self.shape, table.sets, era), guard);
        true
    }

    /// Whether copies of the segment with this id can be told from those of others.
    pub fn knows(&self, id: u64, guard: &Guard) -> bool {
        self.table(guard).short(id).is_some()
    }
}

/// Ids that no record can have: those whose lower bits are 0, which say that there is none.
pub fn is_id(id: u64) -> bool {
    !id.is_multiple_of(1 << ID_BITS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_epoch as epoch;

    fn hash(key: u64) -> u64 {
        <crate::family::IntFamily as crate::family::Family>::hash(key)
    }

    #[cfg(not(feature = "shuttle"))]
    mod alone {
        use super::*;

        fn copies(chunks: usize) -> Copies {
            let copies = Copies::new(1, 1, None).unwrap();
            let guard = epoch::pin();
            let bytes = chunks * copies.least(&guard) + SLOTS * 2;
            copies.fit(bytes, &guard);
            assert_eq!(copies.table(&guard).bytes(), bytes);
            copies
        }

        fn put(table: &Table, key: u64, id: u64, val: u64) {
            // The first time only its print is left.
            let again = (0..2).any(|_| table.note(&[key], hash(key), id, &[val]));
            assert!(again);
        }

        fn get(table: &Table, key: u64, id: u64) -> Option<u64> {
            table.find(&[key], hash(key), id).map(|hit| hit.val[0])
        }

        #[test]
        fn a_copy_is_that_of_its_key_and_segment_alone() {
            let copies = copies(3);
            let guard = epoch::pin();
            let table = copies.table(&guard);
            for key in 0..300 {
                assert_eq!(get(table, key, 7), None);
                put(table, key, 7, key * 3);
            }
            let known = (0..300)
                .filter(|&key| get(table, key, 7) == Some(key * 3))
                .count();
            assert!(known > 250, "{known}");
            for key in 0..300 {
                assert!(get(table, key, 7).is_none_or(|val| val == key * 3));
                assert_eq!(
                    (get(table, key, 8), get(table, key + 1000, 7)),
                    (None, None)
                );
                assert_eq!(
                    (get(table, key, 0), get(table, key, 7 + (1 << ID_BITS))),
                    (None, None)
                );
            }
            // Built anew: the same place, another value.
            put(table, 5, 9, 1);
            assert_eq!((get(table, 5, 7), get(table, 5, 9)), (None, Some(1)));
        }

        #[test]
        fn what_is_found_often_stays_and_what_is_not_makes_way() {
            let copies = copies(1);
            let guard = epoch::pin();
            let table = copies.table(&guard);
            put(table, 1, 7, 10);
            (0..10).for_each(|_| assert_eq!(get(table, 1, 7), Some(10)));
            for key in 100..20_000 {
                put(table, key, 7, key);
                // Less than one new key a set meanwhile.
                if key % 50 == 0 {
                    assert_eq!(get(table, 1, 7), Some(10), "{key}");
                }
            }
            let before = get(table, 1, 7);
            (20_000..60_000).for_each(|key| put(table, key, 7, key));
            assert_eq!((before, get(table, 1, 7)), (Some(10), None));
        }

        #[test]
        fn most_copies_stay_where_the_table_grows_and_shrinks() {
            let copies = copies(4);
            for chunks in [5usize, 6, 9, 8, 5, 1, 40] {
                let guard = epoch::pin();
                let table = copies.table(&guard);
                let keys: Vec<u64> = (0..200).collect();
                keys.iter().for_each(|&key| put(table, key, 7, key));
                let known = |table: &Table| {
                    let keys = keys.iter().filter(|&&key| get(table, key, 7) == Some(key));
                    keys.count()
                };
                let (before, had) = (known(table), table.chunks.len());
                copies.fit(chunks * copies.least(&guard) + SLOTS * 2, &guard);
                let stay = before * had.min(chunks) / had.max(chunks);
                assert!(
                    known(copies.table(&guard)) + 25 >= stay,
                    "{had} to {chunks}"
                );
            }
        }

        #[test]
        fn a_large_table_has_larger_chunks_and_none_has_much_more_to_do() {
            let copies = copies(1);
            let guard = epoch::pin();
            assert!(copies.suit(16 << 20, &guard));
            copies.fit(16 << 20, &guard);
            assert!(!copies.suit(16 << 20, &guard) && !copies.suit(24 << 20, &guard));
            let table = copies.table(&guard);
            assert!((15 << 20..=16 << 20).contains(&table.bytes()));
            assert!(table.chunks.len() <= CHUNKS && table.sets > LEAST_SETS);
            let mut slots = vec![0; table.chunks.len()];
            table
                .slots
                .iter()
                .for_each(|slot| slots[usize::from(*slot)] += 1);
            let (least, most) = (slots.iter().min().unwrap(), slots.iter().max().unwrap());
            assert!(*most <= least + 1 && *least >= 8, "{least} {most}");
            copies.fit(0, &guard);
            assert_eq!(copies.table(&guard).bytes(), 0);
            assert!(!copies.table(&guard).note(&[1], 5, 7, &[1]));
        }

        #[test]
        fn chunks_lie_in_their_memory_and_count_as_long_as_they_are_seen() {
            let store = Store::open(&terrace_place::Memory::Heap).unwrap();
            let copies = Copies::new(1, 1, Some(store.clone())).unwrap();
            let live = || copies.live().load(Ordering::Relaxed);
            for round in 1..4u64 {
                {
                    let guard = epoch::pin();
                    for n in 1..=round {
                        assert!(copies.grow(1 << 20, &guard));
                        let table = copies.table(&guard).bytes() as u64;
                        assert!(store.live() >= n << 13 && live() >= table);
                    }
                    assert!(!copies.grow(copies.table(&guard).bytes() as u64 + 9, &guard));
                    let before = live();
                    put(copies.table(&guard), 1, 7, 10);
                    assert_eq!(get(copies.table(&guard), 1, 7), Some(10));
                    // Somebody may still read it.
                    copies.fit(0, &guard);
                    assert_eq!(copies.table(&guard).bytes(), 0);
                    assert!(live() >= before && store.live() > 0);
                }
                let gone = || {
                    crate::concurrent::cell::free();
                    std::thread::yield_now();
                    live() == 0 && store.live() == 0
                };
                assert!((0..100_000).any(|_| gone()));
            }
        }

        #[test]
        fn ids_of_another_era_have_no_copies_until_the_table_is_theirs() {
            let copies = copies(2);
            let guard = epoch::pin();
            put(copies.table(&guard), 1, 7, 10);
            let id = 7 + (3 << ID_BITS);
            assert!(!copies.knows(id, &guard) && copies.knows(7, &guard));
            assert!(!copies.table(&guard).note(&[1], hash(1), id, &[5]));
            assert!(copies.renew(id, &guard) && !copies.renew(id, &guard));
            assert_eq!(copies.table(&guard).bytes(), 0);
            copies.fit(50_000, &guard);
            let table = copies.table(&guard);
            // The lower bits are those of before, the copy of then is gone.
            assert_eq!((get(table, 1, id), get(table, 1, 7)), (None, None));
            put(table, 1, id, 11);
            assert_eq!(get(table, 1, id), Some(11));
        }

        #[test]
        fn records_of_all_widths_are_whole() {
            for (key, val) in [(1, 0), (1, 1), (1, 2), (5, 0), (5, 1), (5, 2)] {
                let copies = Copies::new(key, val, None).unwrap();
                let guard = epoch::pin();
                copies.fit(100_000, &guard);
                let table = copies.table(&guard);
                for i in 0..100u64 {
                    let words: Vec<u64> = (0..key as u64).map(|w| i * 10 + w).collect();
                    let vals = [i * 7 + 1, i * 7 + 2];
                    (0..2).for_each(|_| {
                        table.note(&words, hash(i), 3, &vals[..val]);
                    });
                    let hit = table.find(&words, hash(i), 3).unwrap();
                    assert_eq!(hit.val[..val], vals[..val]);
                }
            }
            assert!(Copies::new(12, 1, None).is_none());
        }
    }

    /// Two threads write two keys of one set while a third reads: what it finds is whole.
    #[cfg(feature = "shuttle")]
    #[test]
    fn no_copy_is_torn() {
        let scene = || {
            let copies = Copies::new(1, 1, None).unwrap();
            let guard = epoch::pin();
            copies.fit(10_000 + SLOTS * 2, &guard);
            let shape = Shape {
                key: 1,
                record: 2,
                per_set: 1,
            };
            let table = Table {
                shape,
                ..copies.table(&guard).resized(1, &copies.home)
            };
            let table = shuttle::sync::Arc::new(table);
            let write = |key: u64| {
                let table = shuttle::sync::Arc::clone(&table);
                shuttle::thread::spawn(move || {
                    let (set, _) = table.place(hash(1)).unwrap();
                    for _ in 0..2 {
                        set.put(shape, (&[key], &[key * 10]), 7);
                    }
                })
            };
            let writers = [write(1), write(2)];
            for key in [1, 2, 1] {
                // Both keys are looked for where the first one lies.
                if let Some(hit) = table.find(&[key], hash(1), 7) {
                    assert_eq!(hit.val[0], key * 10, "a copy is torn");
                }
            }
            writers.into_iter().for_each(|t| t.join().unwrap());
        };
        let check = || {
            shuttle::check_random(scene, 2000);
            shuttle::check_pct(scene, 2000, 3);
        };
        check();
        #[cfg(feature = "planted-faults")]
        {
            crate::plant(Some(Fault::TornCopy));
            let failed = std::panic::catch_unwind(check).is_err();
            crate::plant(None);
            assert!(failed, "what was read of two keys was not seen");
        }
    }
}
