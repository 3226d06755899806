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
//! more than it adds, and loses nothing. They are counted for as long as somebody can see them. A chunk
//! gets its slots when it is new. It gets others, those of a chunk that was given up, only when nobody
//! is left who saw them belong anywhere, and it has been cleared of copies of theirs.
//!
//! A key comes in at once where its set has room. Else it comes in when it is missed for the second time
//! while its print is there, and takes the place of the one in its set that was found least. What is
//! found often stays: counts age by one whenever somebody wants a place and all are used.

use super::chunk::{Chunk, Counted, Home};
use super::set::{COUNT, FULL, LOCK, MOST, PRINTS, Set, Shape, WORDS, count_of};
use super::words;
use crate::concurrent::cell::EpochCell;
use crate::faults::{Fault, planted};
use crate::home::Store;
use crate::sync::Mutex;
use crate::sync::atomic::{AtomicU8, Ordering, fence};
use crossbeam_epoch::Guard;
use std::sync::atomic::{AtomicU16 as Slot, AtomicU64 as Sum, AtomicUsize as Number};
use std::sync::{Arc, PoisonError};

/// Records of a set by which the worth of the last bytes is judged: the very last one is often new.
pub const LAST: usize = 2;

/// Parts of the hashes, each of which belongs to one chunk.
const SLOTS: usize = 4096;
/// The chunk of slots that have none.
const NONE: u16 = u16::MAX;
/// Chunks at most: each has 8 slots or more, so that none has much more to do than another.
const CHUNKS: usize = SLOTS / 8;
/// Sets of the smallest chunks, 8 KiB.
const LEAST_SETS: usize = 64;
/// Chunks that are so many times as large as they need be are made anew.
const FAR: usize = 8;

/// A table of one size.
pub struct Table {
    shape: Shape,
    /// The chunk of each slot.
    slots: Box<[Slot]>,
    /// How many slots have none.
    void: Number,
    /// How many of the first chunks may have copies of slots that went to others.
    littered: Number,
    _counted: Option<Counted>,
    chunks: Vec<Arc<Chunk>>,
    /// Sets of a chunk.
    sets: usize,
}

/// What a lookup found.
#[derive(Debug, PartialEq, Eq)]
pub struct Hit {
    pub val: [u64; words::MOST],
    /// Of the records of its set it is one of the [two](LAST) that are found least.
    pub least: bool,
}

fn chunk_bytes(sets: usize) -> usize {
    sets * size_of::<Set>()
}

/// How many slots a chunk is to have, of so many.
fn share(chunk: usize, n: usize) -> usize {
    SLOTS / n + usize::from(chunk < SLOTS % n)
}

impl Table {
    fn empty(shape: Shape, sets: usize) -> Self {
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
    fn has(&self) -> Vec<usize> {
        let mut has = vec![0; self.chunks.len()];
        for slot in &self.slots {
            if let Some(had) = has.get_mut(usize::from(slot.load(Ordering::Relaxed))) {
                *had += 1;
            }
        }
        has
    }

    /// The table with so many chunks, fewer where memory is refused. Most slots stay with theirs, new chunks
    /// get the others, and where there are none they have no chunk.
    fn resized(&self, n: usize, home: &Home) -> Self {
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

    /// Takes copies of slots that have other chunks out of one; false where none has any.
    fn clean(&self, hash: fn(&[u64]) -> u64) -> bool {
        let last = self.littered.load(Ordering::Relaxed).checked_sub(1);
        if let Some(i) = last {
            self.keep_own(i, hash);
            self.littered.store(i, Ordering::Relaxed);
        }
        last.is_some()
    }

    fn keep_own(&self, i: usize, hash: fn(&[u64]) -> u64) {
        let slot = |key: &[u64]| self.slots[hash(key) as usize % SLOTS].load(Ordering::Relaxed);
        for set in self.chunks[i].sets.iter() {
            set.keep(self.shape, |key| usize::from(slot(key)) == i);
        }
    }

    /// Has a chunk get the slots that it lacks; false where none has to.
    fn settle(&self, hash: fn(&[u64]) -> u64) -> bool {
        let (n, has) = (self.chunks.len(), self.has());
        let Some(i) = (0..n).find(|&i| has[i] < share(i, n)) else {
            return false;
        };
        if !planted(Fault::OldSlot) {
            self.keep_own(i, hash);
        }
        let void = self.slots.iter();
        let void = void.filter(|slot| slot.load(Ordering::Relaxed) == NONE);
        for slot in void.take(share(i, n) - has[i]) {
            slot.store(i as u16, Ordering::Release);
            self.void.fetch_sub(1, Ordering::Relaxed);
        }
        true
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
    /// nobody else has. O(1).
    pub fn change(&self, key: &[u64], hash: u64, val: Option<&[u64]>) {
        if let Some(set) = self.set(hash) {
            set.change(self.shape, key, val);
        }
    }
}

/// The copies of a map.
pub struct Copies {
    table: EpochCell<Table>,
    /// Held while the table is made another one.
    turn: Mutex<()>,
    shape: Shape,
    /// The hash of a key that has been packed.
    hash: fn(&[u64]) -> u64,
    home: Home,
    /// How often slots came to have no chunk, and of these how often nobody is left who saw them have one.
    left: Number,
    unseen: Arc<Number>,
}

impl Copies {
    /// No copies of keys and values of so many words; none ever, where they are too long. Chunks lie
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
        chunk_bytes(self.table(guard).sets)
    }

    /// Bytes that one more chunk takes: its own, and those of the list of slots, which is made anew while somebody
    /// still sees the one before.
    pub fn next(&self, guard: &Guard) -> usize {
        self.least(guard) + SLOTS * 2
    }

    fn turn(&self) -> impl Drop {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has chunks be of a size for a table of so many bytes at most; where they are far from that the
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

    /// Has the table take up to so many bytes. O(slots + bytes that come).
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

    /// Adds a chunk, if the table takes no more than so many bytes with it; whether it did.
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

    /// Has one chunk lose the copies of slots that it gave away, or get slots of one that was given up, once
    /// nobody sees that any more: whether it did. Until then their keys have no copies. O(bytes of a chunk).
    pub fn settle(&self, guard: &Guard) -> bool {
        let _turn = self.turn();
        let table = self.table(guard);
        if table.clean(self.hash) {
            return true;
        }
        let unseen = self.unseen.load(Ordering::Acquire);
        table.void.load(Ordering::Relaxed) > 0
            && unseen == self.left.load(Ordering::Relaxed)
            && table.settle(self.hash)
    }

    /// Has no copies, and no chunks. While nobody has the latch of a part.
    pub fn clear(&self, guard: &Guard) {
        let _turn = self.turn();
        let sets = self.table(guard).sets;
        self.table.store(Table::empty(self.shape, sets), guard);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crossbeam_epoch as epoch;

    fn hash(key: u64) -> u64 {
        <crate::family::IntFamily as crate::family::Family>::hash(key)
    }

    fn of_words(key: &[u64]) -> u64 {
        hash(key[0])
    }

    #[cfg(not(feature = "shuttle"))]
    mod alone {
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
            assert!(!table.missed(5) && table.missed(5) && !table.missed(5));
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

    /// A table of so many chunks, each of which has its slots.
    fn fit(copies: &Copies, chunks: usize) {
        let guard = epoch::pin();
        copies.fit(chunks * copies.least(&guard) + SLOTS * 2, &guard);
        drop(guard);
        let settled = || {
            crate::concurrent::cell::free();
            std::thread::yield_now();
            let guard = epoch::pin();
            while copies.settle(&guard) {}
            copies.table(&guard).void.load(Ordering::Relaxed) == 0
        };
        assert!((0..1_000_000).any(|_| settled()));
        let guard = epoch::pin();
        assert_eq!(copies.table(&guard).has().iter().sum::<usize>(), SLOTS);
    }

    /// Chunks get slots that they had before: what was put in then does not count any more.
    fn slots_come_back() {
        let copies = Copies::new((1, of_words), 1, None).unwrap();
        let each = |act: &dyn Fn(&Table, u64, u64)| {
            let guard = epoch::pin();
            let table = copies.table(&guard);
            (0..250).for_each(|key| act(table, key, hash(key)));
        };
        fit(&copies, 1);
        {
            // Somebody saw the one chunk that there was, and makes copies late.
            let guard = epoch::pin();
            let old = copies.table(&guard);
            copies.fit(3 * copies.least(&guard) + SLOTS * 2, &guard);
            while copies.settle(&guard) {}
            (0..250).for_each(|key| old.put(&[key], hash(key), &[1]));
        }
        each(&|table, key, hash| table.change(&[key], hash, Some(&[2])));
        each(&|table, key, hash| {
            let val = table.find(&[key], hash).map(|hit| hit.val[0]);
            assert!(val.is_none_or(|val| val == 2));
        });
        {
            // Somebody still sees the chunks that are given up: no other one gets their slots.
            let guard = epoch::pin();
            copies.fit(copies.least(&guard) + SLOTS * 2, &guard);
            let void = || copies.table(&guard).void.load(Ordering::Relaxed);
            crate::concurrent::cell::free();
            assert!(!copies.settle(&guard) && void() > SLOTS / 2);
        }
        fit(&copies, 1);
        each(&|table, key, hash| {
            let val = table.find(&[key], hash).map(|hit| hit.val[0]);
            assert!(val.is_none_or(|val| val == 2), "{key} is as it was before");
        });
    }

    #[cfg(feature = "shuttle")]
    #[test]
    fn slots_of_chunks_that_were_given_up_come_to_others() {
        checked(Fault::OldSlot, || shuttle::check_random(slots_come_back, 1));
    }

    /// A check passes, and does not with a fault.
    #[cfg(feature = "shuttle")]
    fn checked(fault: Fault, check: impl Fn() + std::panic::UnwindSafe) {
        check();
        #[cfg(feature = "planted-faults")]
        {
            crate::plant(Some(fault));
            let failed = std::panic::catch_unwind(check).is_err();
            crate::plant(None);
            assert!(failed, "{fault:?} was not seen");
        }
        #[cfg(not(feature = "planted-faults"))]
        let _ = fault;
    }

    /// A table of sets of one record, in which all is written where key 1 lies.
    #[cfg(feature = "shuttle")]
    fn narrow() -> shuttle::sync::Arc<Table> {
        let copies = Copies::new((1, of_words), 1, None).unwrap();
        let guard = epoch::pin();
        copies.fit(10_000 + SLOTS * 2, &guard);
        let shape = Shape {
            per_set: 1,
            ..copies.shape
        };
        shuttle::sync::Arc::new(Table {
            shape,
            ..copies.table(&guard).resized(1, &copies.home)
        })
    }

    /// Two threads write two keys of one set while a third reads: what it finds is whole.
    #[cfg(feature = "shuttle")]
    #[test]
    fn no_copy_is_torn() {
        let scene = || {
            let table = narrow();
            let write = |key: u64| {
                let table = shuttle::sync::Arc::clone(&table);
                shuttle::thread::spawn(move || {
                    (0..2).for_each(|_| table.put(&[key], hash(1), &[key * 10]));
                })
            };
            let writers = [write(1), write(2)];
            for key in [1, 2, 1] {
                if let Some(hit) = table.find(&[key], hash(1)) {
                    assert_eq!(hit.val[0], key * 10, "a copy is torn");
                }
            }
            writers.into_iter().for_each(|t| t.join().unwrap());
        };
        checked(Fault::TornCopy, move || {
            shuttle::check_random(scene, 2000);
            shuttle::check_pct(scene, 2000, 3);
        });
    }

    /// A thread takes a copy out, or changes it, while another one writes in the same set: it stays so.
    #[cfg(feature = "shuttle")]
    #[test]
    fn what_is_taken_out_does_not_come_back() {
        let scene = || {
            let mut table = narrow();
            shuttle::sync::Arc::get_mut(&mut table)
                .unwrap()
                .shape
                .per_set = 2;
            let other = shuttle::sync::Arc::clone(&table);
            let writer = shuttle::thread::spawn(move || {
                for val in 0..3 {
                    other.put(&[2], hash(1), &[val]);
                }
            });
            let get = || table.find(&[1], hash(1)).map(|hit| hit.val[0]);
            for round in [10, 20] {
                table.put(&[1], hash(1), &[round]);
                table.change(&[1], hash(1), Some(&[round + 1]));
                assert!(get().is_none_or(|val| val == round + 1), "as it was before");
                table.change(&[1], hash(1), None);
                assert_eq!(get(), None, "came back");
            }
            writer.join().unwrap();
        };
        checked(Fault::BlindUnlock, move || {
            shuttle::check_random(scene, 2000);
            shuttle::check_pct(scene, 2000, 3);
        });
    }
}
