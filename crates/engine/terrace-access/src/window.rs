//! A copy of one leaf's records with the leaf's fences: the unit in which scans and sweeps read.

use terrace_base::PageId;
use terrace_pages::Ticket;

use crate::{Flags, LargeRef};

/// Pages that were missing before a window is made smaller: more than any but those of rows that lie each on
/// a page of its own.
const PATIENCE: u32 = 32;
/// About the records of a full leaf.
const LARGEST: usize = 1024;

/// Where a window is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge<'a> {
    /// Going up: the leaf that covers this position (the empty one is the very first).
    From(&'a [u8]),
    /// Going down: the leaf that covers the positions just below this one.
    Below(&'a [u8]),
    /// Going down from the very end.
    End,
}

/// One record of a [`Window`].
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    key: (u32, u32),
    value: (u32, u32),
    /// Its flags.
    pub flags: Flags,
    /// Set when the value is a chain of pages (then the inline value is empty).
    pub large: Option<LargeRef>,
}

/// The records of one leaf in order, and the range of positions it covers: `low <= position < high`.
/// With a limit, only those next to the edge that was asked for, and their range. Kept and refilled
/// to spare allocations. What is called a key here is a position: in a tree the key itself (see
/// [`crate::Ordered`]).
#[derive(Debug)]
pub struct Window {
    /// Lowest position covered.
    pub low: Vec<u8>,
    /// First position no longer covered; `None` at the end.
    pub high: Option<Vec<u8>>,
    /// The page's membership counter when it was copied.
    pub membership: u32,
    /// Where to look at the counter again.
    pub ticket: Option<Ticket>,
    /// The page it was copied from.
    pub page: Option<PageId>,
    bytes: Vec<u8>,
    entries: Vec<Entry>,
    limit: usize,
    keys_only: bool,
    most_of_values: usize,
}

impl Default for Window {
    fn default() -> Window {
        Window {
            low: Vec::new(),
            high: None,
            membership: 0,
            ticket: None,
            page: None,
            bytes: Vec::new(),
            entries: Vec::new(),
            limit: usize::MAX,
            keys_only: false,
            most_of_values: usize::MAX,
        }
    }
}

impl Window {
    /// An empty window.
    pub fn new() -> Window {
        Window::default()
    }

    /// Most records that it is to hold: a scan of a few records need not copy a whole leaf.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Makes it smaller when its pages were not in memory all at once, time after time: others who read
    /// take them away from each other otherwise, and no reader gets on. Counts in `misses`.
    pub fn shrink_after(&mut self, misses: &mut u32) {
        *misses += 1;
        if misses.is_multiple_of(PATIENCE) {
            self.set_limit(self.limit.min(LARGEST) / 2);
        }
    }

    /// Sets the limit, at least 1; stays until it is set again.
    pub fn set_limit(&mut self, limit: usize) {
        self.limit = limit.max(1);
    }

    /// Whether no reader will look at inline values: a method for which they are far from the keys may
    /// leave them empty.
    pub fn keys_only(&self) -> bool {
        self.keys_only
    }

    /// Sets that; stays until it is set again.
    pub fn set_keys_only(&mut self, keys_only: bool) {
        self.keys_only = keys_only;
    }

    /// How many first bytes of inline values are looked at: a method may leave out what is behind them.
    pub fn most_of_values(&self) -> usize {
        self.most_of_values
    }

    /// Sets that; stays until it is set again.
    pub fn set_most_of_values(&mut self, bytes: usize) {
        self.most_of_values = bytes;
    }

    /// Forgets all content, keeps the buffers, the limit and whether values are wanted.
    pub fn clear(&mut self) {
        self.low.clear();
        self.high = None;
        self.bytes.clear();
        self.entries.clear();
        self.ticket = None;
        self.page = None;
    }

    /// Appends a record by letting `fill_key` and `fill_value` append its bytes.
    pub fn push<E>(
        &mut self,
        flags: Flags,
        large: Option<LargeRef>,
        fill_key: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
        fill_value: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        let a = self.bytes.len();
        fill_key(&mut self.bytes)?;
        let b = self.bytes.len();
        fill_value(&mut self.bytes)?;
        let c = self.bytes.len();
        self.entries.push(Entry {
            key: (a as u32, b as u32),
            value: (b as u32, c as u32),
            flags,
            large,
        });
        Ok(())
    }

    /// Keeps the records with index in `start..end`.
    pub fn cut(&mut self, start: usize, end: usize) {
        self.entries.truncate(end);
        self.entries.drain(..start.min(self.entries.len()));
    }

    /// Keeps what lies from `low` up to `high`, and says so.
    pub fn restrict(&mut self, low: &[u8], high: Option<&[u8]>) {
        let end = high.map_or(self.len(), |high| self.lower_bound(high));
        self.cut(self.lower_bound(low).min(end), end);
        if self.low.as_slice() < low {
            self.low.clear();
            self.low.extend_from_slice(low);
        }
        if let Some(high) = high
            && self.high.as_deref().is_none_or(|h| high < h)
        {
            self.high = Some(high.to_vec());
        }
    }

    /// Whether who goes on at the end of this window, which was wanted at `edge`, gets any further. If
    /// not, it is a copy of something damaged.
    pub fn advances(&self, edge: Edge<'_>) -> bool {
        match edge {
            Edge::From(from) => self.high.as_deref().is_none_or(|high| from < high),
            // Nothing lies below the empty position.
            Edge::Below(below) => self.low.as_slice() < below || below.is_empty(),
            Edge::End => self.high.is_none(),
        }
    }

    /// Brings the records in order.
    pub fn sort(&mut self) {
        let Window { bytes, entries, .. } = self;
        let key = |entry: &Entry| &bytes[entry.key.0 as usize..entry.key.1 as usize];
        entries.sort_unstable_by(|a, b| key(a).cmp(key(b)));
    }

    /// Appends record `i` of another window.
    pub fn push_from(&mut self, other: &Window, i: usize) {
        let entry = other.entries[i];
        let key = self.bytes.len() as u32;
        self.bytes.extend_from_slice(other.key(i));
        let value = self.bytes.len() as u32;
        self.bytes.extend_from_slice(other.value(i));
        let end = self.bytes.len() as u32;
        self.entries.push(Entry {
            key: (key, value),
            value: (value, end),
            ..entry
        });
    }

    /// Number of records.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Record `i`.
    pub fn entry(&self, i: usize) -> Entry {
        self.entries[i]
    }

    /// Key of record `i`.
    pub fn key(&self, i: usize) -> &[u8] {
        let (a, b) = self.entries[i].key;
        &self.bytes[a as usize..b as usize]
    }

    /// Inline value of record `i` (empty when it is large).
    pub fn value(&self, i: usize) -> &[u8] {
        let (a, b) = self.entries[i].value;
        &self.bytes[a as usize..b as usize]
    }

    /// Sets the flags of record `i`, here alone.
    pub fn set_flags(&mut self, i: usize, flags: Flags) {
        self.entries[i].flags = flags;
    }

    /// Forgets the inline value of record `i`.
    pub fn clear_value(&mut self, i: usize) {
        let (a, _) = self.entries[i].value;
        self.entries[i].value = (a, a);
    }

    /// Index of the first record whose key is at least `key`.
    pub fn lower_bound(&self, key: &[u8]) -> usize {
        self.entries
            .partition_point(|e| &self.bytes[e.key.0 as usize..e.key.1 as usize] < key)
    }

    /// Bytes that the buffers occupy, for the memory budget.
    pub fn memory_bytes(&self) -> usize {
        self.bytes.capacity()
            + self.entries.capacity() * size_of::<Entry>()
            + self.low.capacity()
            + self.high.as_ref().map_or(0, Vec::capacity)
    }
}
