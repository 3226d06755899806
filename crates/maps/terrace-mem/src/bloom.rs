//! The Bloom filter over the dynamic stage (section 3), in two generations.
//!
//! What always holds: every key of the dynamic stage is in the serving generation, and so is
//! every one that came since the filling generation was begun in that one. When the serving
//! generation has taken in more keys than it was made for, a new one is begun, and a hand moves
//! over the dynamic stage and adds its keys to it, a few at each insert. The new generation
//! serves only when the hand has passed the last key, so no operation waits for a rebuild.
//!
//! There is no generation before the dynamic stage has [`SMALL`] keys, and nothing at all before the last
//! [`ROW`] of these: a small map allocates none.
//!
//! Keys that come in order behind all others need no filter: from some of them on, every key
//! may be in the dynamic stage, and is in no generation that serves.

use crate::dynamic::Any;
use crate::family::Family;
use crate::two_stage::{DynamicCursor, DynamicStage};
use alloc::boxed::Box;
use alloc::vec;

/// Bits for each key that a generation is made for.
const BITS: usize = 8;

/// A dynamic stage with fewer keys has no filter: a look at it is as short as one at the filter.
const SMALL: usize = 256;

/// Keys that a generation is made for at least.
const LEAST: usize = 1024;

/// Keys that the hand passes at each insert.
const STRIDE: usize = 16;

struct Generation {
    words: Box<[u64]>,
    added: usize,
    room: usize,
}

impl Generation {
    fn new(room: usize) -> Self {
        Generation {
            words: vec![0; (room * BITS).div_ceil(64)].into(),
            added: 0,
            room,
        }
    }

    /// All bits of a key are in one word: one cache line a look.
    #[inline]
    fn place(&self, hash: u64) -> (usize, u64) {
        let i = ((hash >> 32) * self.words.len() as u64) >> 32;
        let bit = |shift: u32| 1u64 << (hash >> shift & 63);
        (i as usize, bit(0) | bit(6) | bit(12) | bit(18))
    }

    #[inline]
    fn add(&mut self, hash: u64) {
        let (i, bits) = self.place(hash);
        self.words[i] |= bits;
        self.added += 1;
    }
}

/// Keys in order, one after the other, that are the beginning of a long row of them.
const ROW: u32 = 64;

/// A filter over the keys of a [`DynamicStage`]; of few keys there is none.
pub struct Filter<F: Family>(Option<Box<Whole<F>>>);

/// What a filter is.
struct Whole<F: Family> {
    serving: Generation,
    filling: Option<Box<(Generation, F::Buf)>>,
    /// The greatest key that was ever added, and how many came in order up to it.
    greatest: F::Buf,
    row: u32,
    /// Keys from here on are taken to be there, and are added to the filling generation only.
    tail: Option<F::Buf>,
}

impl<F: Family> Default for Filter<F> {
    fn default() -> Self {
        Filter(None)
    }
}

impl<F: Family> Filter<F> {
    /// Whether the key, whose hash `hash` gives, may be in the dynamic stage.
    #[inline]
    pub fn may_have(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> bool {
        self.0
            .as_ref()
            .is_none_or(|whole| whole.may_have(key, hash))
    }

    /// Bytes that it takes more soon, for a tree with this many keys: those of a new generation.
    #[cfg(feature = "place")]
    pub fn soon(&self, len: usize) -> usize {
        let full = |whole: &Whole<F>| {
            let Generation { added, room, .. } = whole.serving;
            whole.filling.is_none() && added * 8 >= room * 7
        };
        let next = (len * 3).max(LEAST) * BITS / 8;
        self.0
            .as_deref()
            .filter(|whole| full(whole))
            .map_or(0, |_| next)
    }

    /// Asks for the cache line of the hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        if let Some(Whole { serving, .. }) = self.0.as_deref() {
            crate::simd::prefetch(&serving.words, serving.place(hash).0);
        }
    }

    /// Adds the key that was just put into `tree`, and moves the hand on. O(1).
    #[inline]
    pub fn add<V>(&mut self, key: F::Ref<'_>, hash: u64, tree: &Any<F, V>) {
        if let Some(whole) = &mut self.0 {
            whole.add(key, hash, tree);
        } else if tree.len() >= SMALL - ROW as usize {
            self.0 = Some(Whole::of(tree));
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        self.0.as_deref().map_or(0, Whole::bytes)
    }
}

impl<F: Family> Whole<F> {
    /// One without a generation, for the keys that come.
    #[cold]
    fn of<V>(tree: &Any<F, V>) -> Box<Self> {
        let last = tree.seek_before(None);
        Box::new(Whole {
            serving: Generation::new(0),
            filling: None,
            greatest: last.map_or_else(F::Buf::default, |last| F::owned(last.key())),
            row: 0,
            tail: None,
        })
    }

    /// Whether the key, whose hash `hash` gives, may be in the dynamic stage.
    #[inline]
    fn may_have(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> bool {
        if self.serving.words.is_empty() || self.is_tail(key) {
            return true;
        }
        let (i, bits) = self.serving.place(hash());
        self.serving.words[i] & bits == bits
    }

    #[inline]
    fn is_tail(&self, key: F::Ref<'_>) -> bool {
        self.tail
            .as_ref()
            .is_some_and(|tail| F::cmp(key, F::load(tail)).is_ge())
    }

    /// Notes whether the key comes in order.
    #[inline]
    fn note(&mut self, key: F::Ref<'_>) {
        if F::cmp(key, F::load(&self.greatest)).is_gt() {
            F::store(key, &mut self.greatest);
            self.row = self.row.saturating_add(1);
            if self.row >= ROW && self.tail.is_none() && self.filling.is_none() {
                self.tail = Some(F::owned(key));
            }
        } else {
            self.row = 0;
        }
    }

    /// Adds the key that was just put into `tree`, and moves the hand on. O(1).
    #[inline]
    fn add<V>(&mut self, key: F::Ref<'_>, hash: u64, tree: &Any<F, V>) {
        self.note(key);
        if self.serving.words.is_empty() {
            if tree.len() >= SMALL {
                self.begin(tree);
            }
            return;
        }
        if !self.is_tail(key) {
            self.serving.add(hash);
        } else if self.row == 0 {
            // Out of order in the tail: when there are many of these, a new generation takes
            // all keys of the tail in.
            self.serving.added += 1;
        }
        if self.filling.is_some() || self.serving.added >= self.serving.room {
            self.fill(hash, tree);
        }
    }

    /// The first generation: with all keys that there are, which are few.
    fn begin<V>(&mut self, tree: &Any<F, V>) {
        self.serving = Generation::new(tree.len().max(LEAST));
        let mut at = tree.seek(None, || {});
        while let Some(pos) = &mut at {
            self.serving.add(F::hash(pos.key()));
            if !pos.next() {
                at = None;
            }
        }
    }

    /// Adds the key to the filling generation, which is begun where there is none.
    fn fill<V>(&mut self, hash: u64, tree: &Any<F, V>) {
        match &mut self.filling {
            Some(filling) => filling.0.add(hash),
            None => {
                // Room for twice as many again: the hand is then seldom on its way.
                let next = Generation::new((tree.len() * 3).max(LEAST));
                // The least key of all is the default one.
                self.filling = Some(Box::new((next, F::Buf::default())));
            }
        }
        self.move_hand(tree);
    }

    fn move_hand<V>(&mut self, tree: &Any<F, V>) {
        let Some(filling) = &mut self.filling else {
            return;
        };
        let (next, hand) = &mut **filling;
        let mut pos = tree.seek(Some(F::load(hand)), || {});
        for _ in 0..STRIDE {
            let Some(at) = &mut pos else { break };
            next.add(F::hash(at.key()));
            if !at.next() {
                pos = None;
            }
        }
        let early = crate::faults::planted(crate::faults::Fault::EarlySwap);
        match pos {
            Some(at) if !early => F::store(at.key(), hand),
            _ => {
                if let Some(filling) = self.filling.take() {
                    self.serving = filling.0;
                    // It has the keys of the tail as well.
                    self.tail = None;
                }
            }
        }
    }

    /// Bytes on the heap.
    fn bytes(&self) -> usize {
        let beside = |f: &(Generation, F::Buf)| size_of_val(f) + f.0.words.len() * 8;
        let filling = self.filling.as_deref().map_or(0, beside);
        let hand = self.filling.as_ref().map(|f| &f.1);
        let keys = [Some(&self.greatest), self.tail.as_ref(), hand];
        let keys: usize = keys.into_iter().flatten().map(F::heap).sum();
        size_of_val(self) + self.serving.words.len() * 8 + filling + keys
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::IntFamily;

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn no_key_is_ever_missed_and_most_strangers_are_told() {
        let mut tree = Any::<IntFamily, ()>::default();
        let mut filter = Filter::<IntFamily>::default();
        let key = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for i in 0..60_000u64 {
            tree.insert(key(i), ());
            filter.add(key(i), IntFamily::hash(key(i)), &tree);
            if i >= 20_000 {
                tree.remove(key(i - 20_000));
            }
            if i.is_multiple_of(500) {
                for j in i.saturating_sub(19_999)..=i {
                    assert!(
                        filter.may_have(key(j), || IntFamily::hash(key(j))),
                        "{j} at {i}"
                    );
                }
            }
        }
        let wrong = (1_000_000..1_010_000)
            .filter(|&i| filter.may_have(key(i), || IntFamily::hash(key(i))))
            .count();
        assert!(
            wrong < 1000,
            "{wrong} of 10000 strangers were taken for keys"
        );
        assert!(filter.bytes() < 20_000 * 8);
    }

    /// Rows in order, and keys out of order among them, before them and behind.
    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn keys_in_order_are_no_work_and_none_is_missed() {
        let mut tree = Any::<IntFamily, ()>::default();
        let mut filter = Filter::<IntFamily>::default();
        let mut all = Vec::new();
        let mut add = |filter: &mut Filter<IntFamily>, key: u64| {
            tree.insert(key, ());
            filter.add(key, IntFamily::hash(key), &tree);
            all.push(key);
            if all.len().is_multiple_of(500) {
                let has = |key| filter.may_have(key, || IntFamily::hash(key));
                assert!(all.iter().all(|&key| has(key)));
            }
        };
        (0..20_000).for_each(|i| add(&mut filter, i << 20));
        assert_eq!(filter.0.as_ref().unwrap().serving.added, SMALL);
        assert!(filter.0.as_ref().unwrap().filling.is_none());
        // Few strays leave the tail, many end it.
        let stray = |i: u64| (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 30) | 1;
        (0..500).for_each(|i| add(&mut filter, stray(i)));
        assert!(filter.0.as_ref().unwrap().tail.is_some());
        (500..20_000).for_each(|i| add(&mut filter, stray(i)));
        assert!(filter.0.as_ref().unwrap().tail.is_none());
        (20_001..30_000).for_each(|i| add(&mut filter, i << 20));
        assert!(filter.0.as_ref().unwrap().tail.is_some());
        let wrong = (0..1000u64)
            .map(|i| (i << 20) + 2)
            .filter(|&key| filter.may_have(key, || IntFamily::hash(key)))
            .count();
        assert!(wrong < 100, "{wrong} of 1000 strangers were taken for keys");
    }
}
