//! The Bloom filter over the dynamic stage (section 3), in two generations.
//!
//! What always holds: every key of the dynamic stage is in the serving generation, and so is
//! every one that came since the filling generation was begun in that one. When the serving
//! generation has taken in more keys than it was made for, a new one is begun, and a hand moves
//! over the dynamic stage and adds its keys to it, a few at each insert. The new generation
//! serves only when the hand has passed the last key, so no operation waits for a rebuild.

use crate::dynamic::{Pos, Tree};
use crate::family::Family;

/// Bits for each key that a generation is made for.
const BITS: usize = 8;

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

/// A filter over the keys of a [`Tree`].
pub struct Filter<F: Family> {
    serving: Generation,
    filling: Option<(Generation, F::Buf)>,
}

impl<F: Family> Default for Filter<F> {
    fn default() -> Self {
        Filter {
            serving: Generation::new(LEAST),
            filling: None,
        }
    }
}

impl<F: Family> Filter<F> {
    /// Whether a key with this hash may be in the dynamic stage.
    #[inline]
    pub fn may_have(&self, hash: u64) -> bool {
        let (i, bits) = self.serving.place(hash);
        self.serving.words[i] & bits == bits
    }

    /// Asks for the cache line of the hash.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        crate::simd::prefetch(&self.serving.words, self.serving.place(hash).0);
    }

    /// Adds the key that was just put into `tree`, and moves the hand on. O(1).
    pub fn add<V>(&mut self, hash: u64, tree: &Tree<F, V>) {
        self.serving.add(hash);
        match &mut self.filling {
            Some((next, _)) => next.add(hash),
            None if self.serving.added < self.serving.room => return,
            None => {
                // Room for twice as many again: the hand is then seldom on its way.
                let next = Generation::new((tree.len() * 3).max(LEAST));
                // The least key of all is the default one.
                self.filling = Some((next, F::Buf::default()));
            }
        }
        self.move_hand(tree);
    }

    fn move_hand<V>(&mut self, tree: &Tree<F, V>) {
        let Some((next, hand)) = &mut self.filling else {
            return;
        };
        let mut pos = Pos::at_or_after(tree, Some(F::load(hand)));
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
                if let Some((next, _)) = self.filling.take() {
                    self.serving = next;
                }
            }
        }
    }

    /// Bytes on the heap.
    pub fn bytes(&self) -> usize {
        let filling = self.filling.as_ref().map_or(0, |f| f.0.words.len());
        (self.serving.words.len() + filling) * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::IntFamily;

    #[test]
    fn no_key_is_ever_missed_and_most_strangers_are_told() {
        let mut tree = Tree::<IntFamily, ()>::default();
        let mut filter = Filter::<IntFamily>::default();
        let key = |i: u64| i.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for i in 0..60_000u64 {
            tree.insert(key(i), ());
            filter.add(IntFamily::hash(key(i)), &tree);
            if i >= 20_000 {
                tree.remove(key(i - 20_000));
            }
            if i.is_multiple_of(500) {
                for j in i.saturating_sub(19_999)..=i {
                    assert!(filter.may_have(IntFamily::hash(key(j))), "{j} at {i}");
                }
            }
        }
        let wrong = (1_000_000..1_010_000)
            .filter(|&i| filter.may_have(IntFamily::hash(key(i))))
            .count();
        assert!(
            wrong < 1000,
            "{wrong} of 10000 strangers were taken for keys"
        );
        assert!(filter.bytes() < 20_000 * 8);
    }
}
