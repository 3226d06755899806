//! Front-coded blocks from keys that come in order, each with what it shares with the last one.

use super::table::{Filling, MOST_BLOCKS};
use super::{BLOCK, Block, FrontCoded, GROUP, MOST_SHARED, TOP, head, long_head, padded};
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
    table: Filling,
    /// Where each block starts.
    starts: Vec<u32>,
    prefix: usize,
    /// Keys of a block, groups, and all keys.
    span: usize,
    groups: usize,
    n: usize,
    /// Keys that came.
    came: usize,
    /// Where the counts of shared bytes of the last block begin, and how many keys it will have.
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
        let blocks = n.div_ceil(span);
        let mut data = Vec::with_capacity(bytes + prefix.len());
        data.extend_from_slice(prefix);
        Builder {
            data,
            index: vec![0; groups * TOP + blocks],
            table: Filling::new(n, blocks),
            starts: Vec::with_capacity(blocks),
            prefix: prefix.len(),
            span,
            groups,
            n,
            came: 0,
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
            .add(ByteFamily::hash(&key[..len]), (self.starts.len() - 1) as u8);
        self.came += 1;
    }

    /// Ends the last block, if there is one, and begins the next, whose first key shares so much
    /// with the last one.
    fn begin(&mut self, shared: usize) {
        self.close();
        self.least = if self.starts.len().is_multiple_of(GROUP) {
            self.close_group();
            usize::MAX
        } else {
            self.least.min(shared)
        };
        self.starts.push(self.data.len() as u32);
        self.room = (self.n - self.came).min(self.span);
        self.data.push(1);
        self.at = self.data.len();
        self.data.resize(self.at + 2 * self.room, 0);
        self.ends.clear();
        self.end = 0;
    }

    /// Gives the ends of the block more bytes each where one does not do.
    fn close(&mut self) {
        let width = match self.end {
            0..=0xFF => return,
            0x100..=0xFFFF => 2,
            _ => 4,
        };
        self.data[self.at - 1] = width;
        let from = self.at + self.room;
        let all = self.ends.iter().map(|end| end.to_le_bytes());
        let wide = all.flat_map(|end| end.into_iter().take(usize::from(width)));
        self.data.splice(from..from + self.room, wide);
    }

    /// Writes the heads of the last group, if there is one.
    fn close_group(&mut self) {
        let Some(last) = self.starts.len().checked_sub(1) else {
            return;
        };
        let g = last / GROUP;
        let mut skip = 0;
        for b in g * GROUP..=last {
            let n = (self.n - b * self.span).min(self.span);
            let first = Block::new(&self.data[self.starts[b] as usize..], n).first();
            if b == g * GROUP {
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
            self.index[self.groups * TOP + b] = head(&first[skip..]);
        }
    }

    /// The segment; all keys must have come.
    pub fn finish(mut self) -> FrontCoded {
        debug_assert_eq!(self.came, self.n);
        self.close();
        self.close_group();
        let mean = self.data.len() / self.starts.len().max(1);
        FrontCoded {
            mean: mean as u32,
            near: padded(&self.data[..self.prefix]),
            data: self.data.into(),
            index: self.index.into(),
            table: self.table.finish(&self.starts),
            prefix: self.prefix as u32,
            n: self.n as u32,
            span: self.span as u32,
        }
    }
}
