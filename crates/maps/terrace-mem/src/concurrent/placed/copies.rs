//! Copies of hot entries in fast memory: a table of keys and values that are words.
//!
//! What always holds: a copy has the value that its key has in the published segment, unless the key is
//! in the dynamic stage. For a copy is put in while the latch of the part of its key is held for reading,
//! and by who has the published segment then; and a merge changes the copies of what it changed while it
//! holds that latch for writing, when its segment is published and before it takes them out of the
//! dynamic stage. So who has seen there that a key is not in the dynamic stage may use any copy that it
//! finds behind that. In both cases the table is looked for under the latch: who comes later sees no
//! older one.
//!
//! A set is written by who has set the lock in its head, and what was read from it counts only if that
//! word, but for the counts in it, is the same before and behind.
//!
//! Chunks are as large as the map wants them, so that a table grows by one at a time: that takes no
//! more than it adds, and loses nothing. They are counted for as long as a reader can see them.
//!
//! A key comes in at once where its set has room. Else it comes in when it is missed for the second time
//! while its print is there, and takes the place of the one in its set that was found least. What is
//! found often stays: counts age by one whenever a copy needs a place and all are used.

use super::chunk::Home;
use super::set::{MOST, Shape, WORDS};
use super::table::{LAST, SLOTS, Table, chunk_bytes};
use crate::concurrent::cell::EpochCell;
use crate::home::Store;
use crate::sync::Mutex;
use crossbeam_epoch::Guard;
use std::sync::atomic::{AtomicU64 as Sum, AtomicUsize as Number, Ordering};
use std::sync::{Arc, PoisonError};

/// Chunks at most: each has 8 slots or more, so that none has much more to do than another.
const CHUNKS: usize = SLOTS / 8;
/// Sets of the smallest chunks, 8 KiB.
const LEAST_SETS: usize = 64;
/// Bytes of chunks that are looked through at once, but for larger ones.
const AT_ONCE: usize = 32 << 10;
/// Chunks that are this many times as large as they need be are made anew.
const FAR: usize = 8;

/// The copies of a map.
pub struct Copies {
    table: EpochCell<Table>,
    /// Held while the table is made another one.
    turn: Mutex<()>,
    pub(super) shape: Shape,
    /// The hash of a key that has been packed.
    hash: fn(&[u64]) -> u64,
    pub(super) home: Home,
    /// How often slots came to have no chunk, and of these how often no reader is left that saw them have one.
    left: Number,
    unseen: Arc<Number>,
}

impl Copies {
    /// No copies of keys and values of this many words; none ever, where they are too long. Chunks lie
    /// in the store, or on the heap.
    pub fn new(
        (key, hash): (usize, fn(&[u64]) -> u64),
        val: usize,
        store: Option<Store>,
    ) -> Option<Self> {
        let record = key + val;
        let per_set = (WORDS / record.max(1)).min(MOST);
        let shape = Shape {
            key,
            record,
            per_set,
        };
        let live = Arc::default();
        (per_set > 0).then(|| Copies {
            table: EpochCell::new(Table::empty(shape, LEAST_SETS)),
            turn: Mutex::new(()),
            shape,
            hash,
            home: Home { store, live },
            left: Number::new(0),
            unseen: Arc::default(),
        })
    }

    /// Bytes of all that a reader can see.
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

    /// Bytes of the smallest table that can learn, and of what the next larger one has more.
    pub fn least(&self, guard: &Guard) -> usize {
        chunk_bytes(self.table(guard).sets)
    }

    /// Bytes that one more chunk takes: its own, and those of the list of slots, which is made anew while a reader
    /// still sees the one before.
    pub fn next(&self, guard: &Guard) -> usize {
        self.least(guard) + SLOTS * 2
    }

    fn turn(&self) -> impl Drop {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has chunks be of a size for a table of this many bytes at most; where they are far from that the
    /// table begins anew, without any. Returns whether it does.
    pub fn suit(&self, bytes: u64, guard: &Guard) -> bool {
        let _turn = self.turn();
        let table = self.table(guard);
        let mut sets = LEAST_SETS;
        while (CHUNKS * chunk_bytes(sets)) as u64 <= bytes {
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
        self.table.store(Table::empty(self.shape, sets), guard);
        true
    }

    /// Has the table take up to this many bytes. O(slots + bytes that come).
    pub fn fit(&self, bytes: usize, guard: &Guard) {
        let _turn = self.turn();
        let table = self.table(guard);
        let n = bytes.saturating_sub(SLOTS * 2) / chunk_bytes(table.sets);
        let (n, had) = (n.min(CHUNKS), table.chunks.len());
        if n != had {
            self.table.store(table.resized(n, &self.home), guard);
        }
        if n < had {
            let left = self.left.fetch_add(1, Ordering::Relaxed) + 1;
            let unseen = Arc::clone(&self.unseen);
            guard.defer(move || unseen.fetch_max(left, Ordering::Release));
        }
    }

    /// Adds a chunk, if the table takes no more than this many bytes with it; whether it did.
    pub fn grow(&self, most: u64, guard: &Guard) -> bool {
        let _turn = self.turn();
        let table = self.table(guard);
        let n = table.chunks.len() + 1;
        let bytes = n * chunk_bytes(table.sets) + SLOTS * 2;
        if bytes as u64 > most || n > CHUNKS {
            return false;
        }
        self.table.store(table.resized(n, &self.home), guard);
        self.table(guard).chunks.len() == n
    }

    /// Has a few chunks lose the copies of slots that they gave away, or get slots of chunks that were given up,
    /// once no reader sees those any more; until then keys of these slots have no copies. Returns the bytes that were
    /// looked through, none where there is nothing to do.
    pub fn settle(&self, guard: &Guard) -> Option<usize> {
        let _turn = self.turn();
        let table = self.table(guard);
        let bytes = chunk_bytes(table.sets);
        let most = (AT_ONCE / bytes).max(1);
        let mut settled = table.clean(self.hash, most);
        let unseen = self.unseen.load(Ordering::Acquire) == self.left.load(Ordering::Relaxed);
        if settled == 0 && unseen && table.void.load(Ordering::Relaxed) > 0 {
            settled = table.settle(self.hash, most);
        }
        (settled > 0).then_some(settled * bytes)
    }

    /// Has no copies, and no chunks. To be called while no thread has the latch of a part.
    pub fn clear(&self, guard: &Guard) {
        let _turn = self.turn();
        let sets = self.table(guard).sets;
        self.table.store(Table::empty(self.shape, sets), guard);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crossbeam_epoch as epoch;

    pub fn hash(key: u64) -> u64 {
        <crate::family::IntFamily as crate::family::Family>::hash(key)
    }

    pub fn of_words(key: &[u64]) -> u64 {
        hash(key[0])
    }

    #[cfg(not(feature = "shuttle"))]
    mod alone {
        use super::super::super::set::Set;
        use super::*;

        fn copies(chunks: usize) -> Copies {
            let copies = Copies::new((1, of_words), 1, None).unwrap();
            let guard = epoch::pin();
            let bytes = chunks * copies.least(&guard) + SLOTS * 2;
            copies.fit(bytes, &guard);
            assert_eq!(copies.table(&guard).bytes(), bytes);
            copies
        }

        fn put(table: &Table, key: u64, val: u64) {
            table.put(&[key], hash(key), &[val]);
        }

        fn change(table: &Table, key: u64, val: Option<u64>) {
            table.change(&[key], hash(key), val.as_ref().map(std::slice::from_ref));
        }

        fn get(table: &Table, key: u64) -> Option<u64> {
            table.find(&[key], hash(key)).map(|hit| hit.val[0])
        }

        #[test]
        fn a_copy_is_that_of_its_key_as_it_was_changed_last() {
            let copies = copies(3);
            let guard = epoch::pin();
            let table = copies.table(&guard);
            for key in 0..300 {
                assert_eq!(get(table, key), None);
                put(table, key, key * 3);
            }
            let count = |of: &dyn Fn(u64) -> u64| {
                let known = (0..300).filter(|&key| get(table, key) == Some(of(key)));
                known.count()
            };
            let known = count(&|key| key * 3);
            assert!(known > 250, "{known}");
            assert!((1000..2000).all(|key| get(table, key).is_none()));
            for key in 0..300 {
                change(table, key, (key % 3 > 0).then_some(key * 5));
                change(table, key + 1000, Some(1));
            }
            for key in 0..300 {
                let now = get(table, key);
                assert!(now.is_none_or(|val| key % 3 > 0 && val == key * 5));
                assert_eq!(get(table, key + 1000), None);
            }
            assert!(count(&|key| key * 5) > known * 6 / 10);
        }

        #[test]
        fn what_is_missed_is_wanted_where_there_is_room_and_else_when_it_is_missed_twice() {
            let none = Table::empty(copies(1).shape, LEAST_SETS);
            assert!(!none.missed(5) && !none.missed(5));
            let copies = copies(1);
            let guard = epoch::pin();
            let table = copies.table(&guard);
            for key in 0..7 {
                assert!(table.missed(5) && table.missed(5));
                table.put(&[key], 5, &[1]);
            }
            let thrice = [(); 3].map(|()| table.missed(5));
            assert_eq!(thrice, [false, true, false]);
            table.change(&[3], 5, None);
            assert!(table.missed(5));
        }

        #[test]
        fn copies_of_slots_that_went_to_other_chunks_make_room() {
            let copies = copies(1);
            let records = || {
                let guard = epoch::pin();
                let table = copies.table(&guard);
                let sets = table.chunks.iter().flat_map(|chunk| chunk.sets.iter());
                let used = sets.map(|set| set.used(table.shape)).sum::<usize>();
                let found = (0..300).filter(|&key| get(table, key) == Some(key));
                (used, found.count())
            };
            {
                let guard = epoch::pin();
                (0..300).for_each(|key| put(copies.table(&guard), key, key));
            }
            fit(&copies, 4);
            let (used, found) = records();
            assert_eq!(used, found);
            assert!((40..120).contains(&found), "{found}");
        }

        #[test]
        fn what_is_found_often_stays_and_what_is_not_makes_way() {
            let copies = copies(1);
            let guard = epoch::pin();
            let table = copies.table(&guard);
            put(table, 1, 10);
            (0..10).for_each(|_| assert_eq!(get(table, 1), Some(10)));
            for key in 100..20_000 {
                put(table, key, key);
                // Less than one new key a set meanwhile.
                if key % 50 == 0 {
                    assert_eq!(get(table, 1), Some(10), "{key}");
                }
            }
            let before = get(table, 1);
            (20_000..60_000).for_each(|key| put(table, key, key));
            assert_eq!((before, get(table, 1)), (Some(10), None));
        }

        #[test]
        fn most_copies_stay_where_the_table_grows_and_shrinks() {
            let copies = copies(4);
            for chunks in [5usize, 6, 9, 8, 5, 1, 40] {
                let keys = 0..200;
                let known = || {
                    let guard = epoch::pin();
                    let table = copies.table(&guard);
                    let known = keys.clone().filter(|&key| get(table, key) == Some(key));
                    (known.count(), table.chunks.len())
                };
                {
                    let guard = epoch::pin();
                    keys.clone()
                        .for_each(|key| put(copies.table(&guard), key, key));
                }
                let (before, had) = known();
                fit(&copies, chunks);
                let stay = before * had.min(chunks) / had.max(chunks);
                assert!(known().0 + 25 >= stay, "{had} to {chunks}");
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
            for slot in &table.slots {
                slots[usize::from(slot.load(Ordering::Relaxed))] += 1;
            }
            assert_eq!(slots, table.has());
            let (least, most) = (slots.iter().min().unwrap(), slots.iter().max().unwrap());
            assert!(*most <= least + 1 && *least >= 8, "{least} {most}");
            copies.fit(0, &guard);
            assert_eq!(copies.table(&guard).bytes(), 0);
            put(copies.table(&guard), 1, 1);
            assert_eq!(get(copies.table(&guard), 1), None);
        }

        #[test]
        fn chunks_lie_in_their_memory_and_count_as_long_as_they_are_seen() {
            let store = Store::open(&terrace_place::Memory::Heap).unwrap();
            let copies = Copies::new((1, of_words), 1, Some(store.clone())).unwrap();
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
                    put(copies.table(&guard), 1, 10);
                    assert_eq!(get(copies.table(&guard), 1), Some(10));
                    // A reader may still read it.
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
        fn records_of_all_widths_are_whole() {
            for (key, val, most) in [
                (1, 0, 7),
                (1, 1, 7),
                (1, 2, 4),
                (5, 0, 2),
                (5, 1, 2),
                (5, 2, 2),
            ] {
                let copies = Copies::new((key, of_words), val, None).unwrap();
                assert_eq!(copies.shape.per_set, most);
                let guard = epoch::pin();
                copies.fit(100_000, &guard);
                let table = copies.table(&guard);
                for i in 0..100u64 {
                    let words: Vec<u64> = (0..key as u64).map(|w| i * 10 + w).collect();
                    let vals = [i * 7 + 1, i * 7 + 2];
                    table.put(&words, hash(i), &vals[..val]);
                    let hit = table.find(&words, hash(i)).unwrap();
                    assert_eq!(hit.val[..val], vals[..val]);
                    table.change(&words, hash(i), Some(&[5, 6][..val]));
                    let hit = table.find(&words, hash(i)).unwrap();
                    assert_eq!(hit.val[..val], [5, 6][..val]);
                }
            }
            assert!(Copies::new((15, of_words), 0, None).is_none());
        }

        #[test]
        fn sets_are_two_lines() {
            assert_eq!(size_of::<Set>(), 128);
        }

        #[test]
        fn slots_of_chunks_that_were_given_up_come_to_others() {
            slots_come_back();
        }
    }

    /// A table of this many chunks, each of which has its slots.
    fn fit(copies: &Copies, chunks: usize) {
        let guard = epoch::pin();
        copies.fit(chunks * copies.least(&guard) + SLOTS * 2, &guard);
        drop(guard);
        let settled = || {
            crate::concurrent::cell::free();
            std::thread::yield_now();
            let guard = epoch::pin();
            while copies.settle(&guard).is_some() {}
            copies.table(&guard).void.load(Ordering::Relaxed) == 0
        };
        assert!((0..1_000_000).any(|_| settled()));
        let guard = epoch::pin();
        assert_eq!(copies.table(&guard).has().iter().sum::<usize>(), SLOTS);
    }

    /// Chunks get slots that they had before: what was put in then does not count any more.
    pub fn slots_come_back() {
        let copies = Copies::new((1, of_words), 1, None).unwrap();
        let each = |act: &dyn Fn(&Table, u64, u64)| {
            let guard = epoch::pin();
            let table = copies.table(&guard);
            (0..250).for_each(|key| act(table, key, hash(key)));
        };
        fit(&copies, 1);
        {
            // A thread saw the one chunk that there was, and makes copies late.
            let guard = epoch::pin();
            let old = copies.table(&guard);
            copies.fit(3 * copies.least(&guard) + SLOTS * 2, &guard);
            while copies.settle(&guard).is_some() {}
            (0..250).for_each(|key| old.put(&[key], hash(key), &[1]));
        }
        each(&|table, key, hash| table.change(&[key], hash, Some(&[2])));
        each(&|table, key, hash| {
            let val = table.find(&[key], hash).map(|hit| hit.val[0]);
            assert!(val.is_none_or(|val| val == 2));
        });
        {
            // A reader still sees the chunks that are given up: no other one gets their slots.
            let guard = epoch::pin();
            copies.fit(copies.least(&guard) + SLOTS * 2, &guard);
            let void = || copies.table(&guard).void.load(Ordering::Relaxed);
            crate::concurrent::cell::free();
            assert!(copies.settle(&guard).is_none() && void() > SLOTS / 2);
        }
        fit(&copies, 1);
        each(&|table, key, hash| {
            let val = table.find(&[key], hash).map(|hit| hit.val[0]);
            assert!(val.is_none_or(|val| val == 2), "{key} is as it was before");
        });
    }
}
