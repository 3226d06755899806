//! A segment of coded blocks: what it consists of, and how a key is found in it.

use super::block::Block;
use super::heads::{append, equal, head, long_head};
use super::table::Table;
use crate::family::{ByteFamily, KeyCursor, KeyRun};
use crate::home::{Block as Placed, Home, copied};
use crate::plan::{Symbols, Training};
use crate::prefix::common_prefix;
use crate::simd;
use crate::stage::ByteRun;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::cmp::Ordering;
use core::ops::Range;

/// Keys of a block; more where there would be more blocks than a table can name.
pub const BLOCK: usize = 20;

/// Blocks of a group.
pub const GROUP: usize = 16;

/// Words of a group above the groups: the two of the head, and how much its keys share.
pub const TOP: usize = 3;

#[repr(C)]
pub struct FrontCoded {
    /// The shared prefix, then the blocks.
    pub(super) data: Placed<u8>,
    pub(super) table: Table,
    pub(super) prefix: u32,
    pub(super) n: u32,
    pub(super) blocks: u32,
    /// Bytes of a block on average.
    pub(super) mean: u32,
    /// The tops of all groups, as an array for each of their words; then the heads of all blocks.
    pub(super) index: Placed<u64>,
    /// The beginning of the prefix: `data` begins in a page of its own, which a lookup would have
    /// to find for nothing else.
    pub(super) near: [u8; NEAR],
    /// What the codes of rests stand for, where they are codes.
    pub(super) symbols: Option<Arc<Symbols>>,
}

/// Bytes of the prefix beside the rest of the segment's header: as many as its lines have room for.
pub(super) const NEAR: usize = 16;

impl FrontCoded {
    /// A sample of the rests, of about this many bytes, from all over, to find symbols in.
    pub fn sample(&self, bytes: usize) -> Training {
        let (mut texts, mut ends, mut room) = (Vec::new(), Vec::new(), Vec::new());
        let step = (self.data.len() / bytes).max(1);
        for b in (0..self.blocks()).step_by(step) {
            let block = self.block(b);
            let n = block.shared.len();
            let text = block.spell(n, &mut room);
            let mut from = 0;
            for i in 0..n {
                texts.extend_from_slice(block.rest(text, i, from));
                from += block.len_of(i);
                ends.push(texts.len() as u32);
            }
            if texts.len() >= 2 * bytes {
                break;
            }
        }
        Training::new(texts, ends)
    }

    /// A copy whose bytes lie there.
    pub fn placed(&self, home: Home<'_>) -> Option<Self> {
        Some(FrontCoded {
            data: copied(home, &self.data)?,
            table: self.table.placed(home)?,
            index: copied(home, &self.index)?,
            symbols: self.symbols.clone(),
            ..*self
        })
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.n as usize
    }

    pub fn bytes(&self) -> usize {
        self.data.len() + self.index.len() * 8 + self.table.bytes()
    }

    #[inline]
    pub(super) fn prefix(&self) -> &[u8] {
        &self.data[..self.prefix as usize]
    }

    #[inline]
    pub(super) fn blocks(&self) -> usize {
        self.blocks as usize
    }

    #[inline]
    pub(super) fn groups(&self) -> usize {
        self.blocks().div_ceil(GROUP)
    }

    /// The heads of the blocks from `b` on.
    #[inline]
    pub(super) fn heads(&self, b: usize) -> &[u64] {
        &self.index[self.groups() * TOP + b..]
    }

    /// The blocks of group `g`.
    #[inline]
    pub(super) fn group(&self, g: usize) -> Range<usize> {
        g * GROUP..(g * GROUP + GROUP).min(self.blocks())
    }

    /// Writes the heads of group `g`, all keys of which share `skip` bytes at least.
    pub(super) fn set_group(&mut self, g: usize, skip: usize) {
        let (groups, mut room) = (self.groups(), Vec::new());
        let first = self.block(g * GROUP).first(&mut room);
        // A group of one key shares all of it.
        let skip = skip.min(first.len());
        let top = long_head(first);
        for (i, word) in [(top >> 64) as u64, top as u64, skip as u64]
            .into_iter()
            .enumerate()
        {
            self.index[i * groups + g] = word;
        }
        for b in self.group(g) {
            let head = head(&self.block(b).first(&mut room)[skip..]);
            self.index[groups * TOP + b] = head;
        }
    }

    /// The rank of the first key of block `b`; of none behind the last.
    #[inline]
    pub(super) fn rank(&self, b: usize) -> usize {
        self.table.at(b).rank as usize
    }

    #[inline(always)]
    pub(super) fn block(&self, b: usize) -> Block<'_> {
        let at = self.table.at(b);
        let n = self.rank(b + 1) - at.rank as usize;
        Block::new(&self.data[at.start as usize..], n, self.symbols.as_deref())
    }

    /// The block that the key of a rank is in. O(log blocks).
    fn block_of(&self, rank: usize) -> usize {
        let (mut lo, mut hi) = (0, self.blocks());
        while lo + 1 < hi {
            let mid = (lo + hi) / 2;
            if self.rank(mid) <= rank {
                lo = mid;
            } else {
                hi = mid;
            }
        }
        lo
    }

    /// The first of the blocks `lo..hi`, one in `step`, whose first key is greater than `key`.
    fn among(&self, mut lo: usize, mut hi: usize, step: usize, key: &[u8]) -> usize {
        let mut room = Vec::new();
        while lo < hi {
            let mid = (lo + hi) / 2;
            if self.block(mid * step).first(&mut room) <= key {
                lo = mid + 1;
            } else {
                hi = mid;
            }
        }
        lo
    }

    /// The last block whose first key is at most `key`; the first where there is none.
    #[inline]
    pub(super) fn locate(&self, key: &[u8]) -> usize {
        let (h, groups) = (long_head(key), self.groups());
        // The words of a group's top lie in three arrays, which would be waited for in turn.
        self.prefetch_heads();
        let (lo, hi) = equal(&self.index[..groups], (h >> 64) as u64);
        let (less, among) = equal(&self.index[groups + lo..groups + hi], h as u64);
        let g = self.among(lo + less, lo + among, GROUP, key).max(1) - 1;
        let Range {
            start: from,
            end: to,
        } = self.group(g);
        simd::prefetch(self.heads(from), 0);
        simd::prefetch(self.heads(from), GROUP / 2);
        let skip = self.index[2 * groups + g] as usize;
        let cut = skip.min(key.len());
        let mut room = Vec::new();
        match self.block(from).first(&mut room)[..skip].cmp(&key[..cut]) {
            Ordering::Less => return to - 1,
            Ordering::Greater => return from,
            Ordering::Equal => {}
        }
        let (lo, hi) = equal(&self.heads(from)[..to - from], head(&key[cut..]));
        self.among(from + lo, from + hi, 1, key).max(from + 1) - 1
    }

    /// What of `key` is behind the prefix.
    #[inline]
    pub(super) fn strip<'k>(&self, key: &'k [u8]) -> Option<&'k [u8]> {
        let n = self.prefix as usize;
        let (prefix, rest) = key.split_at_checked(n)?;
        let near = &self.near[..n.min(NEAR)];
        let same = common_prefix(prefix, near) == near.len();
        (same && (n <= NEAR || prefix == self.prefix())).then_some(rest)
    }

    /// The rank of `key`, whose hash is `hash`.
    #[inline]
    pub fn find(&self, key: &[u8], hash: u64, mut likely: impl FnMut(usize)) -> Option<usize> {
        self.table.prefetch(hash);
        self.table.prefetch_places();
        self.strip(key)?;
        self.table.find(hash, |b| {
            let at = self.table.at(b);
            let (start, rank) = (at.start as usize, at.rank as usize);
            let n = self.rank(b + 1) - rank;
            // Most often in the page that the block is in, whose address is then looked up while
            // the lookup waits for the place.
            simd::prefetch(&self.data, b * self.mean as usize);
            let mut i = 4;
            while i < n {
                likely(rank + i);
                i += 8;
            }
            simd::prefetch_lines(&self.data, start, 4);
            let block = Block::new(&self.data[start..], n, self.symbols.as_deref());
            Some(rank + block.find(key, self.prefix as usize)?)
        })
    }

    /// How many keys are less than `key`.
    pub fn seek(&self, key: &[u8]) -> usize {
        let Some(rest) = self.strip(key) else {
            return if key < self.prefix() { 0 } else { self.len() };
        };
        let b = self.locate(rest);
        self.rank(b) + self.search_in(b, rest)
    }

    /// How many keys of block `b` are less than `key`, which is without the prefix.
    fn search_in(&self, b: usize, key: &[u8]) -> usize {
        let (block, mut room) = (self.block(b), Vec::new());
        let text = block.spell(block.shared.len(), &mut room);
        block.search(text, key).i
    }

    /// A cursor at the key of a rank.
    pub fn cursor(&self, rank: usize) -> FrontCursor<'_> {
        let b = self.block_of(rank);
        self.cursor_in(b, rank - self.rank(b))
    }

    /// A cursor at the first key that is not less than `key`.
    pub fn seek_cursor(&self, key: &[u8]) -> Option<FrontCursor<'_>> {
        let Some(rest) = self.strip(key) else {
            return (key < self.prefix() && self.n > 0).then(|| self.cursor(0));
        };
        let b = self.locate(rest);
        let i = self.search_in(b, rest);
        if i < self.block(b).shared.len() {
            return Some(self.cursor_in(b, i));
        }
        (b + 1 < self.blocks()).then(|| self.cursor_in(b + 1, 0))
    }

    /// A cursor at key `i` of block `b`.
    fn cursor_in(&self, b: usize, i: usize) -> FrontCursor<'_> {
        let (block, mut room) = (self.block(b), Vec::new());
        block.spell(block.shared.len(), &mut room);
        let mut cursor = FrontCursor {
            stage: self,
            block,
            room,
            key: self.prefix().to_vec(),
            b,
            first: self.rank(b),
            i,
            from: 0,
        };
        (0..=i).for_each(|i| cursor.turn(i));
        cursor
    }

    /// Bytes of all keys.
    pub fn key_bytes(&self) -> usize {
        let rests = (0..self.blocks()).map(|b| {
            let block = self.block(b);
            let shared: u32 = block.shared.iter().map(|&s| u32::from(s)).sum();
            shared as usize + block.span(0, block.shared.len())
        });
        rests.sum::<usize>() + self.len() * self.prefix as usize
    }

    pub fn decode(&self, into: &mut ByteRun) {
        into.reserve(self.len(), self.key_bytes());
        let (prefix, mut room) = (self.prefix(), Vec::new());
        for b in 0..self.blocks() {
            let block = self.block(b);
            let text = block.spell(block.shared.len(), &mut room);
            let mut from = block.len_of(0);
            into.push_pieces(prefix, &text[..from]);
            for i in 1..block.shared.len() {
                let rest = block.rest(text, i, from);
                from += rest.len();
                into.push_after(prefix.len() + usize::from(block.shared[i]), rest);
            }
        }
    }

    /// Asks for the lines that a search for the place of a key begins with.
    pub fn prefetch_heads(&self) {
        simd::prefetch_lines(&self.index, 0, (self.groups() * TOP).div_ceil(8));
    }

    /// Asks for the lines of the block that a search for the place of `key` ends in.
    pub fn approach_place(&self, key: &[u8]) {
        if let Some(rest) = key.get(self.prefix as usize..) {
            // A scan goes on behind the block.
            self.ask_for_block(self.locate(rest), 8);
        }
    }

    /// Asks for the lines that a lookup of one key begins with.
    #[inline]
    pub fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Asks for the lines of the block that the key is most likely in; a rank in it.
    #[inline]
    pub fn approach(&self, hash: u64) -> Option<usize> {
        let b = self.table.first(hash)?;
        self.ask_for_block(b, 4);
        Some(self.rank(b) + BLOCK / 2)
    }

    #[inline]
    fn ask_for_block(&self, b: usize, lines: usize) {
        let start = self.table.at(b).start as usize;
        simd::prefetch_lines(&self.data, start, lines);
    }
}

/// A place in front-coded blocks.
pub struct FrontCursor<'a> {
    stage: &'a FrontCoded,
    block: Block<'a>,
    /// The rests of the block, where they are codes there.
    room: Vec<u8>,
    /// The key, put together.
    key: Vec<u8>,
    /// The block, the rank of its first key, and the place in it.
    b: usize,
    first: usize,
    i: usize,
    /// Where the rest of the next key of the block begins.
    from: usize,
}

impl FrontCursor<'_> {
    /// Turns the key before key `i` of the block into that.
    #[inline]
    fn turn(&mut self, i: usize) {
        if i == 0 {
            self.from = 0;
        }
        let (shared, len) = (usize::from(self.block.shared[i]), self.block.len_of(i));
        self.key.truncate(self.stage.prefix as usize + shared);
        let text = match self.block.symbols {
            None => self.block.rests,
            Some(_) => &self.room,
        };
        append(&mut self.key, &text[self.from..], len);
        self.from += len;
        self.i = i;
    }

    #[inline]
    fn enter(&mut self, b: usize) {
        self.b = b;
        self.first = self.stage.rank(b);
        self.block = self.stage.block(b);
        self.block.spell(self.block.shared.len(), &mut self.room);
    }
}

impl KeyCursor<ByteFamily> for FrontCursor<'_> {
    #[inline]
    fn key(&self) -> &[u8] {
        &self.key
    }
    #[inline]
    fn rank(&self) -> usize {
        self.first + self.i
    }
    #[inline]
    fn next(&mut self) -> bool {
        if self.i + 1 < self.block.shared.len() {
            self.turn(self.i + 1);
        } else if self.b + 1 < self.stage.blocks() {
            self.enter(self.b + 1);
            self.turn(0);
        } else {
            return false;
        }
        true
    }
    fn prev(&mut self) -> bool {
        let to = match self.i {
            0 if self.b == 0 => return false,
            0 => {
                self.enter(self.b - 1);
                self.block.shared.len()
            }
            i => i,
        };
        (0..to).for_each(|i| self.turn(i));
        true
    }
}
