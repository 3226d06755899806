//! Windows of ranges: the pairs of one leaf with what is buffered for it, as they were at one instant.
//!
//! They are copied with the node's latch held, checked, and put in order. The room of a window is used again by
//! the next one of its range.

use std::ops::Bound;
use terrace_base::{Error, Result};

use super::core::Tree;
use crate::arena::BlobRef;
use crate::key::{Own, ValueOut};
use crate::last::Body;
use crate::leaf::{Few, Leaf};

/// A window ends with the value that makes it longer than this many bytes.
const WINDOW_BYTES: usize = 256 << 10;

/// Both ends.
pub type Bounds<O> = (Bound<O>, Bound<O>);

/// Whether a key lies between these.
fn within<O: Ord>(bounds: &Bounds<O>, key: &O) -> bool {
    let low = match &bounds.0 {
        Bound::Included(low) => low <= key,
        Bound::Excluded(low) => low < key,
        Bound::Unbounded => true,
    };
    low && match &bounds.1 {
        Bound::Included(high) => key <= high,
        Bound::Excluded(high) => key < high,
        Bound::Unbounded => true,
    }
}

/// Pairs that are still to be given, from either end.
pub struct Window<O> {
    /// Words of keys and values, by the keys, with room for more.
    pairs: Vec<(u64, u64)>,
    /// Of these the ones that are to be given, from `next` up to `end`.
    next: usize,
    end: usize,
    /// As `end`, where all pairs are two numbers and no more; else 0.
    plain: usize,
    /// Where they are put in order, if they are numbers.
    few: Option<Box<Few>>,
    /// Their keys, where these are byte strings.
    keys: Vec<O>,
    /// Their values, where these lie in blobs.
    values: Vec<ValueOut>,
}

impl<O: Own> Default for Window<O> {
    fn default() -> Self {
        Window {
            pairs: Vec::new(),
            next: 0,
            end: 0,
            plain: 0,
            few: None,
            keys: Vec::new(),
            values: Vec::new(),
        }
    }
}

/// The least and the greatest word of a key between these; none where there is none.
fn words<O: Own>(bounds: &Bounds<O>) -> Option<(u64, u64)> {
    let low = match &bounds.0 {
        Bound::Included(low) => low.word(),
        Bound::Excluded(low) => low.word().checked_add(1)?,
        Bound::Unbounded => 0,
    };
    let high = match &bounds.1 {
        Bound::Included(high) => high.word(),
        Bound::Excluded(high) => high.word().checked_sub(1)?,
        Bound::Unbounded => u64::MAX,
    };
    Some((low, high))
}

impl<O: Own> Window<O> {
    /// Whether all were given.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.next >= self.end
    }

    /// The first one, where it is no more than two numbers.
    #[inline]
    pub fn first_plain(&mut self) -> Option<(u64, u64)> {
        if self.next >= self.plain {
            return None;
        }
        let pair = self.pairs.get(self.next)?;
        self.next += 1;
        Some(*pair)
    }

    /// The first one.
    pub fn first(&mut self, tree: &Tree<O>) -> Option<(O, ValueOut)> {
        if self.is_empty() {
            return None;
        }
        self.next += 1;
        Some(self.take(tree, self.next - 1))
    }

    /// The last one.
    pub fn last(&mut self, tree: &Tree<O>) -> Option<(O, ValueOut)> {
        if self.is_empty() {
            return None;
        }
        self.end -= 1;
        self.plain = self.plain.min(self.end);
        Some(self.take(tree, self.end))
    }

    fn take(&mut self, tree: &Tree<O>, i: usize) -> (O, ValueOut) {
        let (word, value) = self.pairs[i];
        let key = match self.keys.get_mut(i) {
            Some(key) => std::mem::replace(key, O::least()),
            None => O::of_pair(&tree.arena, word, value),
        };
        let read = self.values.get_mut(i);
        let read = read.map(|read| std::mem::replace(read, ValueOut::Int(0)));
        (key, read.unwrap_or(ValueOut::Int(value)))
    }

    fn clear(&mut self) {
        (self.next, self.end, self.plain) = (0, 0, 0);
        self.keys.clear();
        self.values.clear();
    }

    /// Takes the pairs of a leaf of a node, and what is buffered for it, between these bounds. Keys and blobs
    /// are checked: a damaged one is an error, not another key or none. Where there is more than a window
    /// has room for, the key behind which, or before which, it is.
    pub fn fill(
        &mut self,
        tree: &Tree<O>,
        body: &Body<O>,
        leaf: usize,
        bounds: &Bounds<O>,
        is_back: bool,
    ) -> Result<Option<O>> {
        self.clear();
        let stored = Leaf::new(&tree.arena, body.leaves[leaf]);
        if let Some(stored) = &stored {
            stored.check_header(&tree.arena)?;
            let pm = tree.arena.pm();
            pm.has_read(1 + u64::from(stored.len()).div_ceil(4));
        }
        let filled = match O::BYTES {
            true => self.fill_bytes(tree, body, leaf, stored, bounds, is_back),
            false => self
                .fill_words(tree, body, leaf, stored, bounds)
                .and_then(|()| match tree.settings.blobs {
                    true => self.read_values(tree, is_back),
                    false => {
                        self.plain = self.end;
                        Ok(None)
                    }
                }),
        };
        if filled.is_err() {
            self.clear();
        }
        filled
    }

    /// The pairs, where keys are numbers.
    fn fill_words(
        &mut self,
        tree: &Tree<O>,
        body: &Body<O>,
        leaf: usize,
        stored: Option<Leaf<'_>>,
        bounds: &Bounds<O>,
    ) -> Result<()> {
        let (fence, next) = (&body.lows[leaf], body.lows.get(leaf + 1));
        let next = next.or(body.high.as_ref());
        let last = next.map_or(u64::MAX, |next| next.word().wrapping_sub(1));
        let Some((low, high)) = words(bounds) else {
            return Ok(());
        };
        let (low, high) = (low.max(fence.word()), high.min(last));
        if low > high {
            return Ok(());
        }
        let few = self.few.get_or_insert_default();
        few.begin(low, high);
        if let Some(stored) = stored {
            stored.copy(&tree.arena, few)?;
        }
        let mut gone = Vec::new();
        body.buffer.each_of_leaf(leaf, |entry| {
            few.add((entry.key, entry.value));
            if entry.is_delete {
                gone.push(entry.key);
            }
        });
        let (count, are_different) = few.sort(&mut self.pairs);
        self.end = count;
        if are_different && gone.is_empty() {
            return Ok(());
        }
        // Of two of one key the one that is buffered came later, and counts.
        self.end = 0;
        for i in 0..count {
            let pair = self.pairs[i];
            let is_replaced = i + 1 < count && self.pairs[i + 1].0 == pair.0;
            if !is_replaced && !gone.contains(&pair.0) {
                self.pairs[self.end] = pair;
                self.end += 1;
            }
        }
        Ok(())
    }

    /// Reads values from the end from which they are asked for, until there is no room. What does not fit is
    /// left out; the key behind which, or before which, that is.
    fn read_values(&mut self, tree: &Tree<O>, is_back: bool) -> Result<Option<O>> {
        let (mut room, count) = (WINDOW_BYTES, self.end);
        let mut cut = None;
        for k in 0..count {
            let (word, value) = self.pairs[if is_back { count - 1 - k } else { k }];
            let key = O::of_pair(&tree.arena, word, value);
            let read = tree.value_of(&key, value)?;
            room = room.saturating_sub(len(&read));
            self.values.push(read);
            if room == 0 && k + 1 < count {
                cut = Some(key);
                break;
            }
        }
        // What has no value is left out.
        let read = self.values.len();
        if is_back {
            self.values.reverse();
            self.pairs.copy_within(count - read..count, 0);
        }
        self.end = read;
        Ok(cut)
    }

    /// The pairs, where keys are byte strings.
    fn fill_bytes(
        &mut self,
        tree: &Tree<O>,
        body: &Body<O>,
        leaf: usize,
        stored: Option<Leaf<'_>>,
        bounds: &Bounds<O>,
        is_back: bool,
    ) -> Result<Option<O>> {
        let mut found: Vec<Found<O>> = Vec::new();
        let mut kept = 0;
        // Of two of one key the buffered one comes first, and counts.
        let mut buffered = Vec::new();
        body.buffer.each_of_leaf(leaf, |entry| buffered.push(entry));
        for entry in buffered {
            let pair = (entry.key, entry.value);
            found.push(tree.found(pair, entry.is_delete, &mut kept)?);
        }
        if let Some(stored) = stored {
            stored.check_keys(&tree.arena)?;
            for (_, pair) in stored.pairs() {
                found.push(tree.found(pair, false, &mut kept)?);
            }
        }
        found.sort_by(|a, b| a.key.cmp(&b.key));
        found.dedup_by(|later, first| later.key == first.key);
        found.retain(|pair| !pair.is_gone && within(bounds, &pair.key));
        if is_back {
            found.reverse();
        }
        let (mut room, count) = (WINDOW_BYTES, found.len());
        let mut cut = None;
        self.pairs.clear();
        for (k, pair) in found.into_iter().enumerate() {
            let read = match pair.read {
                Some(read) => read,
                None => tree.value_of(&pair.key, pair.pair.1)?,
            };
            room = room.saturating_sub(len(&read));
            let is_last = room == 0 && k + 1 < count;
            cut = is_last.then(|| pair.key.clone());
            self.pairs.push(pair.pair);
            self.keys.push(pair.key);
            self.values.push(read);
            if is_last {
                break;
            }
        }
        if is_back {
            self.pairs.reverse();
            self.keys.reverse();
            self.values.reverse();
        }
        self.end = self.pairs.len();
        Ok(cut)
    }
}

/// Bytes of a value that it has beside itself.
fn len(value: &ValueOut) -> usize {
    match value {
        ValueOut::Bytes(bytes) => bytes.len(),
        ValueOut::Int(_) => 0,
    }
}

/// A pair whose key is a byte string.
struct Found<O> {
    key: O,
    pair: (u64, u64),
    is_gone: bool,
    /// The value, where there was room to keep it.
    read: Option<ValueOut>,
}

impl<O: Own> Tree<O> {
    /// A pair with its key, and with its value if there is room to keep that.
    fn found(&self, pair: (u64, u64), is_gone: bool, kept: &mut usize) -> Result<Found<O>> {
        let blob = self.arena.whole_blob(BlobRef(pair.1))?;
        let key = O::of_bytes(blob.key);
        if key.word() != pair.0 || key.hash() >> 40 << 40 != BlobRef(pair.1).hash() {
            return Err(Error::corrupt(
                self.arena.pm().name(),
                BlobRef(pair.1).byte(),
                "a pair refers to the blob of another key",
            ));
        }
        let mut read = None;
        if *kept < WINDOW_BYTES && !is_gone {
            *kept += blob.value.len();
            read = Some(self.value_in(blob.value));
        }
        Ok(Found {
            key,
            pair,
            is_gone,
            read,
        })
    }
}
