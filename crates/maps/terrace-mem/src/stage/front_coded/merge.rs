//! The keys of a segment and new ones as one run, without comparing what is known to be equal.
//!
//! Of the next key of either side it is known how much it shares with the last key that was
//! appended. The one that shares more is the smaller one; only where both share as much are they
//! compared, from there on. What each key shares with the one before comes out as well, so that
//! the blocks of the next segment are built without a look at it.

use super::block::Block;
use super::build::{Builder, room_for};
use super::coded::FrontCoded;
use super::heads::{CHUNK, MOST_SHARED};
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::stage::{ByteRun, KeyRun};
use alloc::vec::Vec;

/// The live keys of a segment, one after the other.
struct Walk<'a, L> {
    stage: &'a FrontCoded,
    live: L,
    block: Block<'a>,
    /// The rests of the block, where they are codes there.
    room: Vec<u8>,
    /// The block and the place in it of the next key, dead or live.
    b: usize,
    i: usize,
    /// Where the rest of the next key begins.
    from: usize,
    rank: usize,
    /// The key that the walk stands at, put together, with room behind it.
    key: Vec<u8>,
    len: usize,
}

impl<'a, L: Fn(usize) -> bool> Walk<'a, L> {
    fn new(stage: &'a FrontCoded, live: L) -> Self {
        let (block, mut room) = (stage.block(0), Vec::new());
        block.spell(block.shared.len(), &mut room);
        Walk {
            stage,
            live,
            block,
            room,
            b: 0,
            i: 0,
            from: 0,
            rank: 0,
            key: stage.prefix().to_vec(),
            len: stage.prefix as usize,
        }
    }

    /// Goes to the next key, dead or live; how much it shares with the one before.
    #[inline]
    fn step(&mut self) -> usize {
        if self.i == self.block.shared.len() {
            self.b += 1;
            self.block = self.stage.block(self.b);
            (self.i, self.from) = (0, 0);
            self.block.spell(self.block.shared.len(), &mut self.room);
        }
        let text = match self.block.symbols {
            None => self.block.rests,
            Some(_) => &self.room,
        };
        let rest = self.block.rest(text, self.i, self.from);
        let end = self.from + rest.len();
        let shared = usize::from(self.block.shared[self.i]);
        let known = self.stage.prefix as usize + shared;
        // The first key of a block and one at the bound may share more than is said.
        let more = if self.i == 0 || shared == MOST_SHARED {
            common_prefix(&self.key[known..self.len.max(known)], rest)
        } else {
            0
        };
        self.len = known + rest.len();
        if self.key.len() < self.len + CHUNK {
            self.key.resize(self.len + CHUNK, 0);
        }
        match text[self.from..].first_chunk::<CHUNK>() {
            Some(chunk) if rest.len() <= CHUNK => {
                self.key[known..known + CHUNK].copy_from_slice(chunk);
            }
            _ => self.key[known..self.len].copy_from_slice(rest),
        }
        self.i += 1;
        self.from = end;
        self.rank += 1;
        known + more
    }

    /// Goes to the next live key; how much it shares with the last one. None at the end.
    #[inline]
    fn next(&mut self) -> Option<usize> {
        let mut shared = usize::MAX;
        while self.rank < self.stage.len() {
            shared = shared.min(self.step());
            if (self.live)(self.rank - 1) {
                return Some(shared);
            }
        }
        None
    }
}

/// Where merged keys go.
pub trait Sink {
    /// Takes the key of `len` bytes that `key` begins with, which shares `shared` bytes with the
    /// last one.
    fn push(&mut self, shared: usize, key: &[u8], len: usize);
}

impl Sink for Builder {
    #[inline]
    fn push(&mut self, shared: usize, key: &[u8], len: usize) {
        Builder::push(self, shared, key, len);
    }
}

impl Sink for ByteRun {
    #[inline]
    fn push(&mut self, shared: usize, key: &[u8], len: usize) {
        self.push_sharing(shared, &key[..len]);
    }
}

impl FrontCoded {
    /// Appends the keys whose rank is `live`, `n` of them, and those of `new`, which are others,
    /// to a run, in order; and to `before`, for each of `new`, how many live ones are less.
    /// O(bytes).
    pub fn merge_run(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &ByteRun,
        before: &mut Vec<u32>,
    ) -> ByteRun {
        let mut run = ByteRun::default();
        run.reserve_sharing(
            n + new.len(),
            self.key_bytes() + new.key_bytes(0, new.len()),
        );
        self.merge_into(live, new, &mut run, before);
        run
    }

    /// [`FrontCoded::merge_run`] that makes a segment: with what is new [put in](Self::patched)
    /// where that goes, else built anew.
    pub fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &ByteRun,
        before: &mut Vec<u32>,
    ) -> Self {
        self.patched(n, new, before)
            .unwrap_or_else(|| self.rebuilt(live, n, new, before))
    }

    /// [`FrontCoded::merge`] that decodes and codes all keys.
    pub(super) fn rebuilt(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        new: &ByteRun,
        before: &mut Vec<u32>,
    ) -> Self {
        let mut prefix = self.prefix();
        if let Some(last) = new.len().checked_sub(1) {
            for key in [new.get(0), new.get(last)] {
                prefix = &prefix[..common_prefix(prefix, key)];
            }
        }
        // About what the old keys take, and half of what the new ones are.
        let bytes = self.data.len() + new.key_bytes(0, new.len()) / 2;
        let all = n + new.len();
        let symbols = self.symbols.clone();
        let mut builder = Builder::new(prefix, all, bytes, room_for(all), symbols);
        self.merge_into(live, new, &mut builder, before);
        builder.finish()
    }

    #[inline]
    fn merge_into(
        &self,
        live: impl Fn(usize) -> bool,
        new: &ByteRun,
        into: &mut impl Sink,
        before: &mut Vec<u32>,
    ) {
        let mut walk = Walk::new(self, live);
        let (mut passed, mut j) = (0, 0);
        // How much the next keys share with the last one that was appended; none where there are
        // no more.
        let mut of_old = walk.next().map(|_| 0);
        let mut of_new = (new.len() > 0).then_some(0);
        loop {
            let (old_first, both) = match (of_old, of_new) {
                (None, None) => return,
                (Some(a), Some(b)) if a == b => {
                    let (old, key) = (&walk.key[a..walk.len], &new.get(j)[a..]);
                    let k = common_prefix(old, key);
                    // One of them goes on, as they are not equal.
                    (old.get(k) < key.get(k), Some(a + k))
                }
                (a, b) => (a > b, None),
            };
            if old_first {
                into.push(of_old.unwrap_or(0), &walk.key, walk.len);
                passed += 1;
                of_new = both.or(of_new);
                of_old = walk.next();
            } else {
                let (key, len) = new.tail(j);
                into.push(of_new.unwrap_or(0), key, len);
                before.push(passed);
                if !planted(Fault::StaleShare) {
                    of_old = both.or(of_old);
                }
                j += 1;
                of_new = (j < new.len()).then(|| common_prefix(&key[..len], new.get(j)));
            }
        }
    }
}
