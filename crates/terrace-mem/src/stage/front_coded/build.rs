//! Front-coded blocks from keys that come in order, each with what it shares with the last one.

use super::table::{MOST_BLOCKS, Table};
use super::{BLOCK, FrontCoded, GROUP, MOST_SHARED, SPAN, TOP, head, long_head};
use crate::family::{ByteFamily, Family};

/// Bytes that are copied at once where more than are needed may be read: a copy of few bytes
/// whose number is known takes no call.
pub const CHUNK: usize = 16;

/// Appends the first `n` bytes of `from`.
#[inline]
fn append(data: &mut Vec<u8>, from: &[u8], n: usize) {
    match from.first_chunk::<CHUNK>() {
        Some(chunk) if n <= CHUNK => {
            let end = data.len() + n;
            data.extend_from_slice(chunk);
            data.truncate(end);
        }
        _ => data.extend_from_slice(&from[..n]),
    }
}

/// A segment that is being built.
pub struct Builder {
    data: Vec<u8>,
    index: Vec<u64>,
    table: Table,
    prefix: usize,
    /// Keys of a block, groups, and all keys.
    span: usize,
    groups: usize,
    n: usize,
    /// Keys that came.
    came: usize,
    /// The block that is being built, where its counts of shared bytes begin, and how many keys
    /// it will have.
    b: usize,
    at: usize,
    room: usize,
    /// Where each rest of it ends so far.
    ends: Vec<u32>,
    /// Bytes of its rests.
    end: usize,
    /// The least that a key of the group shares with the one before.
    least: usize,
}

impl Builder {
    /// For `n` keys that all begin with `prefix`, of about so many bytes when they are coded.
    pub fn new(prefix: &[u8], n: usize, bytes: usize) -> Self {
        let span = n.div_ceil(MOST_BLOCKS).max(BLOCK);
        let groups = n.div_ceil(span * GROUP);
        let spare = groups * GROUP - n.div_ceil(span);
        let mut data = Vec::with_capacity(bytes + prefix.len());
        data.extend_from_slice(prefix);
        Builder {
            data,
            index: vec![0; groups * (TOP + SPAN) - spare / 2],
            table: Table::new(n),
            prefix: prefix.len(),
            span,
            groups,
            n,
            came: 0,
            b: 0,
            at: 0,
            room: 0,
            ends: Vec::with_capacity(span),
            end: 0,
            least: 0,
        }
    }

    /// Appends the key of `len` bytes that `key` begins with, which shares `shared` bytes with
    /// the last one. Bytes behind the key may be read, and make it faster.
    #[inline]
    pub fn push(&mut self, shared: usize, key: &[u8], len: usize) {
        let mut from = shared.min(self.prefix + MOST_SHARED);
        if self.ends.len() == self.room {
            self.begin(shared);
            from = self.prefix;
        } else {
            self.least = self.least.min(shared);
        }
        let i = self.ends.len();
        self.data[self.at + i] = (from - self.prefix) as u8;
        self.end += len - from;
        self.data[self.at + self.room + i] = self.end as u8;
        self.ends.push(self.end as u32);
        append(&mut self.data, &key[from..], len - from);
        self.table
            .add(ByteFamily::hash(&key[..len]), (self.b - 1) as u8);
        self.came += 1;
    }

    /// Ends the last block, if there is one, and begins the next, whose first key shares so much
    /// with the last one.
    fn begin(&mut self, shared: usize) {
        self.close();
        self.least = if self.b.is_multiple_of(GROUP) {
            self.close_group();
            usize::MAX
        } else {
            self.least.min(shared)
        };
        let (g, b) = (self.b / GROUP, self.b % GROUP);
        let start = self.data.len() as u64;
        self.index[self.groups * TOP + g * SPAN + GROUP + b / 2] |= start << (b % 2 * 32);
        self.room = (self.n - self.came).min(self.span);
        self.data.push(0);
        self.at = self.data.len();
        self.data.resize(self.at + 2 * self.room, 0);
        self.ends.clear();
        self.end = 0;
        self.b += 1;
    }

    /// Gives the ends of the block four bytes each where one does not do.
    fn close(&mut self) {
        if self.end <= 255 {
            return;
        }
        self.data[self.at - 1] = 1;
        let from = self.at + self.room;
        let wide = self.ends.iter().flat_map(|end| end.to_le_bytes());
        self.data.splice(from..from + self.room, wide);
    }

    /// Writes the heads of the last group, if there is one.
    fn close_group(&mut self) {
        let Some(last) = self.b.checked_sub(1) else {
            return;
        };
        let g = last / GROUP;
        let group = self.groups * TOP + g * SPAN;
        let mut skip = 0;
        for b in 0..=last % GROUP {
            let start = (self.index[group + GROUP + b / 2] >> (b % 2 * 32)) as u32 as usize;
            let n = (self.n - (g * GROUP + b) * self.span).min(self.span);
            let first = super::Block::new(&self.data[start..], n).first();
            if b == 0 {
                // A group of one key shares all of it.
                skip = self.least.saturating_sub(self.prefix).min(first.len());
                let top = long_head(first);
                for (i, word) in [(top >> 64) as u64, top as u64, skip as u64]
                    .into_iter()
                    .enumerate()
                {
                    self.index[i * self.groups + g] = word;
                }
            }
            self.index[group + b] = head(&first[skip..]);
        }
    }

    /// The segment; all keys must have come.
    pub fn finish(mut self) -> FrontCoded {
        debug_assert_eq!(self.came, self.n);
        self.close();
        self.close_group();
        FrontCoded {
            data: self.data.into(),
            index: self.index.into(),
            table: self.table,
            prefix: self.prefix as u32,
            n: self.n as u32,
            span: self.span as u32,
        }
    }
}
