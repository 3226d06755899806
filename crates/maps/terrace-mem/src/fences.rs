//! Where the ranges of the segments begin, and which segment a key belongs to.

use crate::dynamic::{ByteKeys, FANOUT};
use crate::family::{ByteFamily, Fences, IntFamily, NodeKeys};
use alloc::vec::Vec;
use core::ops::Range;

/// Bounds of integer segments, and how many lie before each of some slots of equal width: where
/// bounds lie evenly, a search is two loads and a few compares.
#[derive(Default)]
pub struct IntFences {
    /// The bounds, and `PAD` greatest numbers behind them.
    all: Vec<u64>,
    /// How many bounds lie in slots before this one; one more than there are slots.
    before: Vec<u32>,
    /// Where the second bound lies: the first is the least key of all, wherever the others are.
    base: u64,
    /// The width of a slot, as a power of two.
    width: u32,
}

/// Bounds that are looked at without a branch.
const PAD: usize = 4;

impl IntFences {
    fn len(&self) -> usize {
        self.all.len().saturating_sub(PAD)
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        (key.saturating_sub(self.base) >> self.width) as usize
    }

    /// Makes the slots anew: one to two for each bound. O(segments).
    fn refresh(&mut self) {
        let fences = &self.all[..self.len()];
        self.base = fences.get(1).copied().unwrap_or(0);
        let range = fences.last().map_or(0, |last| last - self.base.min(*last));
        let slots = (fences.len() * 2) as u64;
        self.width = (0..64).find(|&w| range >> w < slots).unwrap_or(63);
        let mut before = core::mem::take(&mut self.before);
        before.clear();
        for (i, &low) in fences.iter().enumerate() {
            before.resize((self.slot(low) + 1).max(before.len()), i as u32);
        }
        before.push(fences.len() as u32);
        self.before = before;
    }
}

impl Fences<IntFamily> for IntFences {
    #[inline]
    fn find(&self, key: u64) -> usize {
        if self.before.len() < 2 {
            return 0;
        }
        let slot = self.slot(key).min(self.before.len() - 2);
        let (from, to) = (self.before[slot] as usize, self.before[slot + 1] as usize);
        if to - from > PAD {
            let at_most = self.all[from..to].partition_point(|&low| low <= key);
            return (from + at_most).max(1) - 1;
        }
        let near = self.all[from..].first_chunk::<PAD>();
        let at_most = near.map_or(0, |near| {
            near.iter().map(|&low| usize::from(low <= key)).sum()
        });
        (from + at_most).clamp(1, self.len()) - 1
    }
    fn get(&self, i: usize) -> Option<u64> {
        self.all[..self.len()].get(i).copied()
    }
    fn insert(&mut self, i: usize, key: u64) {
        if self.all.is_empty() {
            self.all.extend([u64::MAX; PAD]);
        }
        self.all.insert(i, key);
        let slots = self.before.len().saturating_sub(1);
        let slot = self.slot(key);
        if i < 2 || slot >= 4 * self.len() || slots * 2 < self.len() {
            self.refresh();
        } else if i + 1 == self.len() && slot >= slots {
            // Behind all others: the slots go on.
            self.before.resize(slot + 1, i as u32);
            self.before.push(i as u32 + 1);
        } else {
            self.before[slot + 1..].iter_mut().for_each(|n| *n += 1);
        }
    }
    fn remove(&mut self, which: Range<usize>) {
        self.all.drain(which);
        self.refresh();
    }
    fn heap(&self) -> usize {
        self.all.capacity() * 8 + self.before.capacity() * 4
    }
}

/// Bounds of byte-string segments, cut to what tells neighbours apart, in nodes like those of the
/// dynamic stage: behind what all bounds of a node share, eight bytes of each are compared at
/// once. Above them are the first 16 bytes of each node's first bound.
#[derive(Default)]
pub struct ByteFences {
    nodes: Vec<ByteKeys<FANOUT>>,
    /// How many bounds lie before each node.
    before: Vec<u32>,
    /// The first 16 bytes of each node, as numbers.
    heads: Vec<u128>,
}

#[inline]
fn head(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(head) => u128::from_be_bytes(*head),
        None => {
            let mut head = [0; 16];
            head[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(head)
        }
    }
}

/// How many of the numbers are less than `h`, without a branch that depends on them: where a lookup
/// goes is as good as random.
#[inline]
fn rank(sorted: &[u128], h: u128) -> usize {
    let (mut from, mut n) = (0, sorted.len());
    while n > 1 {
        let half = n / 2;
        // The last of the first half; the first number that is not less is not among those.
        from = if sorted[from + half - 1] < h {
            from + half
        } else {
            from
        };
        n -= half;
    }
    from + usize::from(n == 1 && sorted[from] < h)
}

impl ByteFences {
    fn len(&self) -> usize {
        match (self.before.last(), self.nodes.last()) {
            (Some(&before), Some(node)) => before as usize + node.len(),
            _ => 0,
        }
    }

    /// The last node that begins at bound `i` or before it.
    fn node_of(&self, i: usize) -> usize {
        let at_most = self.before.partition_point(|&before| before as usize <= i);
        at_most.max(1) - 1
    }

    /// Notes the first bound of node `b`.
    fn note(&mut self, b: usize) {
        self.heads[b] = head(self.nodes[b].get(0));
    }

    fn put_node(&mut self, b: usize, node: ByteKeys<FANOUT>, before: usize) {
        self.nodes.insert(b, node);
        self.before.insert(b, before as u32);
        self.heads.insert(b, 0);
        self.note(b);
    }
}

impl Fences<ByteFamily> for ByteFences {
    #[inline]
    fn find(&self, key: &[u8]) -> usize {
        let h = head(key);
        let mut to = rank(&self.heads, h);
        // Whole bounds are looked at only among those with the same head.
        if self.heads.get(to) == Some(&h) {
            let alike = self.heads[to..].partition_point(|&x| x == h);
            to += self.nodes[to..to + alike].partition_point(|node| node.get(0) <= key);
        }
        let b = to.max(1) - 1;
        let Some(node) = self.nodes.get(b) else {
            return 0;
        };
        (self.before[b] as usize + node.upper_bound(key)).max(1) - 1
    }
    fn get(&self, i: usize) -> Option<&[u8]> {
        let b = self.node_of(i);
        let (node, i) = (self.nodes.get(b)?, i - self.before[b] as usize);
        (i < node.len()).then(|| node.get(i))
    }
    fn insert(&mut self, i: usize, key: &[u8]) {
        let mut b = self.node_of(i);
        if self.nodes.is_empty() {
            self.put_node(0, one(key), 0);
            return;
        }
        if self.nodes[b].is_full() {
            let (at, all) = (i - self.before[b] as usize, self.nodes[b].len());
            // Where bounds come in order, nodes stay full.
            let cut = if at == all && i == self.len() {
                all
            } else {
                all / 2
            };
            if cut == all {
                self.put_node(b + 1, one(key), i);
                return;
            }
            let (right, before) = (self.nodes[b].split_off(cut), self.before[b] as usize);
            self.put_node(b + 1, right, before + cut);
            b += usize::from(at > cut);
        }
        self.nodes[b].insert(i - self.before[b] as usize, key);
        self.before[b + 1..].iter_mut().for_each(|n| *n += 1);
        self.note(b);
    }
    fn remove(&mut self, which: Range<usize>) {
        let mut left = which.len();
        while left > 0 {
            let b = self.node_of(which.start);
            let from = which.start - self.before[b] as usize;
            let to = self.nodes[b].len().min(from + left);
            self.nodes[b].remove(from, to);
            self.before[b + 1..]
                .iter_mut()
                .for_each(|n| *n -= (to - from) as u32);
            left -= to - from;
            if self.nodes[b].len() == 0 {
                self.nodes.remove(b);
                self.before.remove(b);
                self.heads.remove(b);
            } else {
                self.note(b);
            }
        }
    }
    fn heap(&self) -> usize {
        let keys: usize = self.nodes.iter().map(NodeKeys::heap).sum();
        keys + self.nodes.capacity() * size_of::<ByteKeys<FANOUT>>()
            + self.before.capacity() * 4
            + self.heads.capacity() * size_of::<u128>()
    }
}

/// A node of one bound.
fn one(key: &[u8]) -> ByteKeys<FANOUT> {
    let mut node = ByteKeys::default();
    node.insert(0, key);
    node
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::Family;

    #[test]
    fn a_rank_is_right_however_many_numbers_there_are() {
        for n in 0..70u128 {
            let sorted: Vec<u128> = (0..n).map(|i| i / 3 * 10 + 5).collect();
            for h in (0..300).chain([u128::MAX]) {
                assert_eq!(rank(&sorted, h), sorted.partition_point(|&x| x < h));
            }
        }
    }

    /// Bounds that come in any order, in order behind the others, and that go again; evenly
    /// spread and crowded ones.
    fn drive<F: Family>(seed: u64, shift: u32, make: impl Fn(u64) -> F::Buf) {
        let mut fences = F::Fences::default();
        let mut model: Vec<F::Buf> = Vec::new();
        let mut x = seed;
        let mut next = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x >> 16
        };
        let below = |model: &[F::Buf], key: F::Ref<'_>| {
            model.partition_point(|low| F::cmp(F::load(low), key).is_le())
        };
        for round in 0..1500 {
            let key = make(match round % 300 {
                0..100 => next() >> shift,
                100..200 => (1 << 50) + round,
                _ => next() % 300 + (1 << 40),
            });
            let at = below(&model, F::load(&key));
            if at == 0 && !model.is_empty() {
                continue;
            }
            if at == 0 {
                // The first bound is the least key of all.
                fences.insert(0, F::load(&F::Buf::default()));
                model.push(F::Buf::default());
            } else if F::cmp(F::load(&model[at - 1]), F::load(&key)).is_lt() {
                fences.insert(at, F::load(&key));
                model.insert(at, key.clone());
            }
            if round % 70 == 69 && model.len() > 8 {
                let from = 1 + next() as usize % (model.len() - 4);
                fences.remove(from..from + 3);
                model.drain(from..from + 3);
            }
            for probe in [make(next() >> shift), make(u64::MAX), make(0), key] {
                let want = below(&model, F::load(&probe)).max(1) - 1;
                assert_eq!(fences.find(F::load(&probe)), want, "{probe:?}");
            }
        }
        for (i, low) in model.iter().enumerate() {
            let found = fences.get(i).expect("a bound is missing");
            assert!(F::cmp(found, F::load(low)).is_eq());
            assert_eq!(fences.find(F::load(low)), i);
        }
        assert!(fences.get(model.len()).is_none() && fences.heap() > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn the_segment_of_a_key_is_found_whatever_the_bounds() {
        for (seed, shift) in [(1, 0), (2, 20), (3, 40), (4, 47)] {
            drive::<IntFamily>(seed, shift, |x| x);
            drive::<ByteFamily>(seed, shift, |x| x.to_be_bytes().to_vec());
            let long = |x: u64| format!("a beginning of many keys {x:020}").into_bytes();
            drive::<ByteFamily>(seed, shift, long);
            // Heads that are the greatest number.
            let last = |x: u64| [&[0xFF; 16][..], &x.to_be_bytes()].concat();
            drive::<ByteFamily>(seed, shift, last);
        }
    }
}
