//! The records of one part of a record cache, and which of them goes next.
//!
//! Invariant: `find` names exactly the places of `places` that hold a record.

use std::collections::HashMap;

use lru::LruCache;

use crate::records::KEY_BYTES;

/// The most that a use count rises to: three bits.
const MOST_USES: u8 = 7;
/// What a record begins with.
const FIRST_USES: u8 = 4;
/// How far the hand looks for a clean record, if the first one that can go is dirty.
const LOOKAHEAD: usize = 32;

/// Which record goes when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Eviction {
    /// The one used least recently.
    Lru,
    /// One that a hand finds unused, a clean one if there is one near, as in TreeLine.
    Clock,
}

pub(super) type Key = [u8; KEY_BYTES as usize];

pub(super) struct Record {
    pub value: Box<[u8]>,
    pub dirty: bool,
}

/// Records in the order in which they go.
pub(super) enum Shelf {
    /// The one used least recently first.
    Lru(LruCache<Key, Record>),
    /// Use counts and a hand.
    Clock(Clock),
}

/// Use counts and a hand that lowers them: a record goes at zero, a clean one rather than a dirty one.
#[derive(Default)]
pub(super) struct Clock {
    find: HashMap<Key, usize>,
    places: Vec<Option<(Key, u8, Record)>>,
    free: Vec<usize>,
    hand: usize,
}

impl Clock {
    fn at(&mut self, key: &Key) -> Option<&mut (Key, u8, Record)> {
        let place = *self.find.get(key)?;
        self.places.get_mut(place)?.as_mut()
    }

    fn put(&mut self, key: Key, record: Record) -> Option<Record> {
        if let Some((_, uses, old)) = self.at(&key) {
            *uses = (*uses + 1).min(MOST_USES);
            return Some(std::mem::replace(old, record));
        }
        let entry = Some((key, FIRST_USES, record));
        let place = match self.free.pop() {
            Some(place) => {
                self.places[place] = entry;
                place
            }
            None => {
                self.places.push(entry);
                self.places.len() - 1
            }
        };
        self.find.insert(key, place);
        None
    }

    fn victim(&mut self, keep: &Key) -> Option<Key> {
        if self.find.keys().all(|key| key == keep) {
            return None;
        }
        let (mut dirty, mut left) = (None, LOOKAHEAD);
        // Ends: every round lowers all counts, and one beside `keep` is there.
        loop {
            if dirty.is_some() {
                if left == 0 {
                    return dirty;
                }
                left -= 1;
            }
            self.hand = (self.hand + 1) % self.places.len();
            let Some((key, uses, record)) = &mut self.places[self.hand] else {
                continue;
            };
            if *uses > 0 {
                *uses -= 1;
            } else if &*key != keep {
                if !record.dirty {
                    return Some(*key);
                }
                dirty.get_or_insert(*key);
            }
        }
    }

    fn remove(&mut self, key: &Key) -> Option<Record> {
        let place = self.find.remove(key)?;
        self.free.push(place);
        self.places[place].take().map(|(_, _, record)| record)
    }
}

impl Shelf {
    pub(super) fn new(eviction: Eviction) -> Shelf {
        match eviction {
            // Bounded by bytes, not by records.
            Eviction::Lru => Shelf::Lru(LruCache::unbounded()),
            Eviction::Clock => Shelf::Clock(Clock::default()),
        }
    }

    /// The record of a key, which counts as used.
    pub(super) fn get(&mut self, key: &Key) -> Option<&Record> {
        match self {
            Shelf::Lru(records) => records.get(key),
            Shelf::Clock(clock) => {
                let (_, uses, record) = clock.at(key)?;
                *uses = (*uses + 1).min(MOST_USES);
                Some(record)
            }
        }
    }

    /// The record of a key, without counting this as a use.
    pub(super) fn peek(&self, key: &Key) -> Option<&Record> {
        match self {
            Shelf::Lru(records) => records.peek(key),
            Shelf::Clock(clock) => {
                let place = *clock.find.get(key)?;
                let entry = clock.places.get(place)?.as_ref();
                entry.map(|(_, _, record)| record)
            }
        }
    }

    /// Puts a record in; the one that it replaces.
    pub(super) fn put(&mut self, key: Key, record: Record) -> Option<Record> {
        match self {
            Shelf::Lru(records) => records.put(key, record),
            Shelf::Clock(clock) => clock.put(key, record),
        }
    }

    /// Which one is to go next; never `keep`.
    pub(super) fn victim(&mut self, keep: &Key) -> Option<Key> {
        match self {
            Shelf::Lru(records) => {
                let (key, _) = records.peek_lru()?;
                (key != keep).then_some(*key)
            }
            Shelf::Clock(clock) => clock.victim(keep),
        }
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, key: &Key) -> Option<Record> {
        match self {
            Shelf::Lru(records) => records.pop(key),
            Shelf::Clock(clock) => clock.remove(key),
        }
    }

    /// All records, to be marked clean.
    pub(super) fn each(
        &mut self,
        mut visit: impl FnMut(&Key, &mut Record) -> Result<(), crate::TargetError>,
    ) -> Result<(), crate::TargetError> {
        match self {
            Shelf::Lru(records) => records
                .iter_mut()
                .try_for_each(|(key, record)| visit(key, record)),
            Shelf::Clock(clock) => {
                let mut entries = clock.places.iter_mut().flatten();
                entries.try_for_each(|(key, _, record)| visit(key, record))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(dirty: bool) -> Record {
        Record {
            value: Box::new([1]),
            dirty,
        }
    }

    fn key(n: u64) -> Key {
        n.to_be_bytes()
    }

    #[test]
    fn the_clock_lets_a_clean_record_go_that_was_not_used() {
        let mut shelf = Shelf::new(Eviction::Clock);
        for n in 0..8 {
            assert!(shelf.put(key(n), record(n != 5)).is_none());
        }
        // All begin alike; the only clean one is within the lookahead.
        assert_eq!(shelf.victim(&key(7)), Some(key(5)));
        assert!(shelf.remove(&key(5)).is_some() && shelf.get(&key(5)).is_none());
        // Dirty ones alone are left: one that was not used goes.
        for _ in 0..4 {
            for n in (0..8).filter(|n| ![3, 5].contains(n)) {
                assert!(shelf.get(&key(n)).is_some());
            }
        }
        assert_eq!(shelf.victim(&key(7)), Some(key(3)));
        // The place of the one that went is taken again.
        assert!(shelf.put(key(9), record(true)).is_none());
        assert!(shelf.put(key(9), record(true)).is_some());
        for n in [0, 1, 2, 3, 4, 6, 7] {
            assert!(shelf.remove(&key(n)).is_some());
        }
        assert_eq!(shelf.victim(&key(9)), None, "the one that is kept");
        assert_eq!(shelf.victim(&key(0)), Some(key(9)));
    }
}
