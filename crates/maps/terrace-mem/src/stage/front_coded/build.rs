//! Front-coded blocks from keys that come in order, each with what it shares with the last one.

use super::block::width_for;
use super::coded::{BLOCK, FrontCoded, GROUP, TOP};
use super::heads::{MOST_SHARED, append, padded};
use super::table::{At, Filling, MOST_BLOCKS};
use crate::family::{ByteFamily, Family, KeyRun};
use crate::plan::Symbols;
use crate::prefix::common_prefix;
use crate::stage::ByteRun;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;

/// A segment that is being built.
pub struct Builder {
    data: Vec<u8>,
    symbols: Option<Arc<Symbols>>,
    table: Filling,
    /// Where each block is.
    places: Vec<At>,
    prefix: usize,
    /// Keys of a block, and all keys.
    span: usize,
    n: usize,
    /// Keys that came.
    came: usize,
    /// Where the counts of shared bytes of the last block begin, and how many keys it will have.
    at: usize,
    room: usize,
    /// How long each rest of it is.
    lens: Vec<u16>,
    /// For each group the least that one of its keys shares with the one before.
    least: Vec<usize>,
}

impl Builder {
    /// For `n` keys that all begin with `prefix`, of about this many bytes when they are coded; with
    /// room for as many in all as `room` says; with rests in these symbols.
    pub fn new(
        prefix: &[u8],
        n: usize,
        bytes: usize,
        room: usize,
        symbols: Option<Arc<Symbols>>,
    ) -> Self {
        let span = n.div_ceil(MOST_BLOCKS).max(BLOCK);
        let blocks = n.div_ceil(span);
        let mut data = Vec::with_capacity(bytes + prefix.len());
        data.extend_from_slice(prefix);
        Builder {
            data,
            symbols,
            table: Filling::new(n.max(room), blocks),
            places: Vec::with_capacity(blocks + 1),
            prefix: prefix.len(),
            span,
            n,
            came: 0,
            at: 0,
            room: 0,
            lens: Vec::with_capacity(span),
            least: Vec::with_capacity(blocks.div_ceil(GROUP)),
        }
    }

    /// Appends the key of `len` bytes that `key` begins with, which shares `shared` bytes with
    /// the last one. Bytes behind the key may be read, and make it faster.
    #[inline]
    pub fn push(&mut self, shared: usize, key: &[u8], len: usize) {
        let mut from = shared.min(self.prefix + MOST_SHARED);
        if self.lens.len() == self.room {
            self.begin(shared);
            from = self.prefix;
        } else if let Some(least) = self.least.last_mut() {
            *least = shared.min(*least);
        }
        let i = self.lens.len();
        self.data[self.at + i] = (from - self.prefix) as u8;
        // What does not fit is put right when the block is closed.
        self.data[self.at + self.room + i] = (len - from) as u8;
        self.lens.push((len - from) as u16);
        match &self.symbols {
            None => append(&mut self.data, &key[from..], len - from),
            Some(symbols) => symbols.encode(&key[from..len], &mut self.data),
        }
        self.table
            .add(ByteFamily::hash(&key[..len]), (self.places.len() - 1) as u8);
        self.came += 1;
    }

    /// Ends the last block, if there is one, and begins the next, whose first key shares `shared` bytes
    /// with the last one.
    fn begin(&mut self, shared: usize) {
        self.close();
        match self.least.last_mut() {
            Some(least) if !self.places.len().is_multiple_of(GROUP) => *least = shared.min(*least),
            _ => self.least.push(usize::MAX),
        }
        self.places.push(self.here());
        self.room = (self.n - self.came).min(self.span);
        self.data.push(1);
        self.at = self.data.len();
        self.data.resize(self.at + 2 * self.room, 0);
        self.lens.clear();
    }

    fn here(&self) -> At {
        At {
            start: self.data.len() as u32,
            rank: self.came as u32,
        }
    }

    /// Gives the lengths of the block's rests two bytes each where one does not do.
    fn close(&mut self) {
        let longest = self.lens.iter().max().map_or(0, |&len| usize::from(len));
        let width = width_for(longest);
        if width == 1 {
            return;
        }
        self.data[self.at - 1] = width;
        let from = self.at + self.room;
        let wide = self.lens.iter().flat_map(|len| len.to_le_bytes());
        self.data.splice(from..from + self.room, wide);
    }

    /// The segment; all keys must have come.
    pub fn finish(mut self) -> FrontCoded {
        debug_assert_eq!(self.came, self.n);
        self.close();
        let blocks = self.places.len();
        self.places.push(self.here());
        let mut stage = FrontCoded {
            mean: (self.data.len() / blocks.max(1)) as u32,
            near: padded(&self.data[..self.prefix]),
            data: self.data.into(),
            index: vec![0; self.least.len() * TOP + blocks].into(),
            table: self.table.finish(&self.places),
            prefix: self.prefix as u32,
            n: self.n as u32,
            blocks: blocks as u32,
            symbols: self.symbols,
        };
        for (g, least) in self.least.into_iter().enumerate() {
            stage.set_group(g, least.saturating_sub(self.prefix));
        }
        stage
    }
}

/// For how many keys a segment that is expected to grow has room, by those that it has: with less
/// it is built anew more often, with more each key takes more of the table.
const ROOM: (usize, usize) = (3, 2);

/// Keys for which a segment of `n` has room that is expected to grow.
pub fn room_for(n: usize) -> usize {
    n * ROOM.0 / ROOM.1
}

impl FrontCoded {
    /// Bytes that the keys `from..to` take but for those of the segment, as one block.
    pub fn estimate(run: &ByteRun, from: usize, to: usize, prefix: usize) -> usize {
        let n = to - from;
        let rests: usize = (from + 1..to)
            .map(|i| {
                let shared = common_prefix(run.get(i - 1), run.get(i));
                run.get(i).len() - shared.min(prefix + MOST_SHARED)
            })
            .sum();
        // Two bytes and a place in the table for each, a head and a start for all.
        run.get(from).len() - prefix + rests + 4 * n + n / 8 + 13
    }

    /// A segment of the keys `from..to`, to which as many can be added as `room` says in all; with rests in
    /// these symbols.
    pub fn build(
        run: &ByteRun,
        from: usize,
        to: usize,
        room: usize,
        symbols: Option<Arc<Symbols>>,
    ) -> Self {
        let first = run.get(from);
        let prefix = common_prefix(first, run.get(to - 1));
        let bytes = run.key_bytes(from, to) / 2;
        let mut builder = Builder::new(&first[..prefix], to - from, bytes, room, symbols);
        for i in from..to {
            let shared = if i > from { run.share(i) } else { 0 };
            let (key, len) = run.tail(i);
            builder.push(shared, key, len);
        }
        builder.finish()
    }
}
