//! S+ tree: integers in blocks of two cache lines, the blocks of each level found by arithmetic.
//!
//! The lowest level is the sorted keys. A block of a level above holds 16 separators, the first
//! keys of its children but the first; child `c` of block `b` is block `17 b + c` of the level
//! below. A search is a vector count in one block per level.

use crate::home::{Block, Home, copied};
use crate::simd;
use alloc::boxed::Box;
use alloc::vec::Vec;

const BLOCK: usize = 16;
const FANOUT: usize = BLOCK + 1;

pub struct STree {
    keys: Block<u64>,
    /// The separators of all levels above, the root first.
    inner: Block<u64>,
    /// Blocks of each level above, the root first.
    levels: Box<[u32]>,
}

impl STree {
    /// Bytes on the heap that `n` keys take, but for a few words.
    pub fn estimate(n: usize) -> usize {
        let inner = if n <= BLOCK {
            0
        } else {
            n.div_ceil(BLOCK * FANOUT) * BLOCK * 8
        };
        n * 8 + inner
    }

    pub fn build(keys: &[u64]) -> Self {
        let mut firsts: Vec<u64> = keys.iter().step_by(BLOCK).copied().collect();
        let mut levels: Vec<Vec<u64>> = Vec::new();
        while firsts.len() > 1 {
            let mut level = Vec::new();
            for children in firsts.chunks(FANOUT) {
                let end = level.len() + BLOCK;
                level.extend_from_slice(&children[1..]);
                level.resize(end, u64::MAX);
            }
            firsts = firsts.into_iter().step_by(FANOUT).collect();
            levels.push(level);
        }
        levels.reverse();
        STree {
            keys: keys.to_vec().into(),
            levels: levels
                .iter()
                .map(|level| (level.len() / BLOCK) as u32)
                .collect(),
            inner: levels.concat().into(),
        }
    }

    /// A copy whose keys lie there; where to look for them is near the header.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        Some(STree {
            keys: copied(home, &self.keys)?,
            inner: copied(home, &self.inner)?,
            levels: self.levels.clone(),
        })
    }

    pub fn keys(&self) -> &[u64] {
        &self.keys
    }

    pub fn bytes(&self) -> usize {
        (self.keys.len() + self.inner.len()) * 8 + self.levels.len() * 4
    }

    /// The lowest block that `key` would be in.
    #[inline]
    fn block(&self, key: u64) -> usize {
        let (mut at, mut block) = (0, 0);
        let lowest = self.keys.len().div_ceil(BLOCK);
        for (i, &blocks) in self.levels.iter().enumerate() {
            let seps = &self.inner[(at + block) * BLOCK..][..BLOCK];
            // Separators at most `key` lie left of it. The padding counts for the greatest key
            // only, and then the bound below brings it back.
            let child = key
                .checked_add(1)
                .map_or(BLOCK, |next| simd::count_less(seps, next));
            at += blocks as usize;
            let below = self.levels.get(i + 1).map_or(lowest, |&n| n as usize);
            block = (block * FANOUT + child).min(below - 1);
        }
        block
    }

    #[inline]
    pub fn seek(&self, key: u64) -> usize {
        let from = self.block(key) * BLOCK;
        let to = (from + BLOCK).min(self.keys.len());
        from + simd::count_less(&self.keys[from..to], key)
    }

    #[inline]
    pub fn find(&self, key: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        let from = self.block(key) * BLOCK;
        likely(from + BLOCK / 2);
        let to = (from + BLOCK).min(self.keys.len());
        let i = from + simd::count_less(&self.keys[from..to], key);
        (self.keys.get(i) == Some(&key)).then_some(i)
    }

    pub fn prefetch(&self) {
        simd::prefetch(&self.inner, 0);
        simd::prefetch(&self.inner, BLOCK / 2);
    }
}
