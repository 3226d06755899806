//! Whole nodes as lists of records: what compaction, split, merge, packing and loading share.
//!
//! Whoever rewrites a page works on a private copy of it, builds the new content in a private
//! buffer, and installs it only when everything has turned out possible. So no page is ever left
//! half changed.

use terrace_access::{Flags, Value};
use terrace_base::PageId;
use terrace_pages::{Torn, View};

use super::layout::{
    CHILD_BYTES, HEADER, Node, SLOT_BYTES, SLOTS, Seen, Shape, Stored, common_prefix, encode_inner,
    encode_leaf, encode_slot, head_of, key_bytes, prefix_of_fences, shift_of_fences, value_bytes,
    write_header,
};
use crate::slotted::pack::Packer;

/// What belongs to a key.
#[derive(Clone, Copy)]
pub(crate) enum Payload<'a> {
    Value(Value<'a>),
    Child(PageId),
}

impl Payload<'_> {
    /// The child of an inner record.
    pub fn child(&self) -> Option<PageId> {
        match self {
            Payload::Child(child) => Some(*child),
            Payload::Value(_) => None,
        }
    }
}

/// One record; its key is `head` and `tail` together.
#[derive(Clone, Copy)]
pub(crate) struct Item<'a> {
    pub head: &'a [u8],
    pub tail: &'a [u8],
    pub payload: Payload<'a>,
    pub flags: Flags,
    /// The record of a leaf as it lies there, without what `head` has of the key; or nothing.
    raw: &'a [u8],
}

impl<'a> Item<'a> {
    /// A record of a leaf.
    pub fn leaf(key: &'a [u8], value: Value<'a>, flags: Flags) -> Item<'a> {
        Item {
            head: key,
            tail: &[],
            payload: Payload::Value(value),
            flags,
            raw: &[],
        }
    }

    /// A record of an inner node.
    pub fn inner(key: &'a [u8], child: PageId) -> Item<'a> {
        Item {
            head: key,
            tail: &[],
            payload: Payload::Child(child),
            flags: Flags::NONE,
            raw: &[],
        }
    }

    /// Length of the key.
    pub fn key_len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// Length of what the key has in common with this string.
    fn common_with(&self, other: &[u8]) -> usize {
        let n = common_prefix(self.head, other);
        if n < self.head.len() {
            n
        } else {
            n + common_prefix(self.tail, &other[n..])
        }
    }

    /// Copies the key.
    pub fn key(&self) -> Vec<u8> {
        [self.head, self.tail].concat()
    }

    /// What is left of the key after the first `skip` bytes.
    fn after(&self, skip: usize) -> (&'a [u8], &'a [u8]) {
        match self.head.get(skip..) {
            Some(head) => (head, self.tail),
            None => (
                &[],
                self.tail.get(skip - self.head.len()..).unwrap_or_default(),
            ),
        }
    }

    /// Bytes in a node with this prefix, slot included; never less than it really takes.
    fn bytes(&self, prefix_len: usize) -> usize {
        if let Some(raw) = self.as_it_was(prefix_len) {
            return SLOT_BYTES + raw.len();
        }
        SLOT_BYTES
            + key_bytes(self.key_len().saturating_sub(prefix_len))
            + match self.payload {
                Payload::Value(v) => value_bytes(v),
                Payload::Child(_) => CHILD_BYTES,
            }
    }

    /// The record as it lies in its leaf, if it would be the same in one with a prefix of this length. To copy
    /// a record takes a fifth of what it takes to encode it.
    #[inline]
    fn as_it_was(&self, prefix_len: usize) -> Option<&'a [u8]> {
        (!self.raw.is_empty() && self.head.len() == prefix_len).then_some(self.raw)
    }

    /// Length of what this key has in common with another.
    fn common(&self, other: &Item<'_>) -> usize {
        if self.head.len() == other.head.len() && self.head == other.head {
            return self.head.len() + common_prefix(self.tail, other.tail);
        }
        common_prefix(&self.key(), &other.key())
    }

    /// Shortest string that separates this key from the next greater one.
    pub fn separator(&self, next: &Item<'_>) -> Vec<u8> {
        let mut key = next.key();
        key.truncate(self.common(next) + 1);
        key
    }

    /// Length of [`Item::separator`].
    pub fn separator_len(&self, next: &Item<'_>) -> usize {
        self.common(next) + 1
    }
}

/// A private copy of a node, taken apart.
pub(crate) struct Parts<'a> {
    pub node: Node<'a>,
    pub low: &'a [u8],
    pub high: Option<&'a [u8]>,
    pub items: Vec<Item<'a>>,
}

fn slice(page: &[u8], at: usize, len: usize) -> Seen<&[u8]> {
    at.checked_add(len)
        .and_then(|end| page.get(at..end))
        .ok_or(Torn)
}

/// The value of a leaf record.
pub(crate) fn value_in(page: &[u8], value: Stored) -> Seen<Value<'_>> {
    Ok(match value {
        Stored::Inline { at, len } => Value::Inline(slice(page, at, len)?),
        Stored::Large { large, .. } => Value::Large(large),
    })
}

/// Takes a node apart.
pub(crate) fn parts(page: &[u8]) -> Seen<Parts<'_>> {
    let node = Node::open(View::of(page))?;
    let low = slice(page, page.len() - node.low_len, node.low_len)?;
    let high = slice(
        page,
        page.len() - node.low_len - node.high_len,
        node.high_len,
    )?;
    let head = slice(page, node.prefix_at(), node.prefix_len)?;
    // Or the keys would become others where they are built into a node with other fences.
    let prefix_len = prefix_of_fences(low, (!node.unbounded).then_some(high));
    if !node.is_loose() && node.prefix_len != prefix_len {
        return Err(Torn);
    }
    let mut items = Vec::with_capacity(node.count);
    for i in 0..node.count {
        let slot = node.slot(i)?;
        items.push(if node.is_leaf() {
            let r = node.leaf_record(slot)?;
            Item {
                head,
                tail: slice(page, r.key_at, r.key_len)?,
                payload: Payload::Value(value_in(page, r.value)?),
                flags: slot.flags(),
                raw: slice(page, r.start, r.end - r.start)?,
            }
        } else {
            let r = node.inner_record(slot)?;
            Item {
                head,
                tail: slice(page, r.key_at, r.key_len)?,
                payload: Payload::Child(r.child),
                flags: Flags::NONE,
                raw: &[],
            }
        });
    }
    Ok(Parts {
        node,
        low,
        high: (!node.unbounded).then_some(high),
        items,
    })
}

/// Length of the prefix of a node with these fences and records.
fn prefix_of(low: &[u8], high: Option<&[u8]>, items: &[Item<'_>]) -> usize {
    match (high, items) {
        (Some(high), _) if !low.is_empty() => prefix_of_fences(low, Some(high)),
        // The edges of the tree: a loose prefix, in leaves only.
        (None, [.., last]) if last.payload.child().is_none() => last.common_with(low),
        (Some(high), [first, ..]) if first.payload.child().is_none() => first.common_with(high),
        _ => 0,
    }
}

/// Bytes that any stretch of a list of records takes, by prefix sums.
pub(crate) struct Sizes<'i> {
    items: &'i [Item<'i>],
    sums: Vec<usize>,
}

impl<'i> Sizes<'i> {
    /// Sums up `items`. O(items).
    pub fn of(items: &'i [Item<'i>]) -> Sizes<'i> {
        let mut sums = Vec::with_capacity(items.len() + 1);
        let mut sum = 0;
        sums.push(0);
        for item in items {
            sum += item.bytes(0);
            sums.push(sum);
        }
        Sizes { items, sums }
    }

    /// Bytes of the records `from..to` with a prefix of this length; may be a few too many when
    /// the prefix makes long keys short.
    pub fn records(&self, from: usize, to: usize, prefix_len: usize) -> usize {
        // Keys of a damaged node may lack the prefix that its fences have.
        (self.sums[to] - self.sums[from]).saturating_sub((to - from) * prefix_len)
    }

    /// Bytes of records and fences in a node of these records.
    pub fn node(&self, from: usize, to: usize, low: &[u8], high: Option<&[u8]>) -> usize {
        self.records(from, to, prefix_of(low, high, &self.items[from..to]))
            + low.len()
            + high.map_or(0, <[u8]>::len)
    }

    /// The boundary that is nearest to the middle of all bytes.
    pub fn middle(&self) -> usize {
        let half = self.sums[self.sums.len() - 1] / 2;
        let i = self.sums.partition_point(|&s| s < half);
        i.clamp(1, self.sums.len().saturating_sub(2).max(1))
    }
}

/// Bytes of a page that records, slots and fences can take.
pub(crate) fn capacity(page_bytes: usize) -> usize {
    page_bytes - SLOTS
}

/// Writes a record into exactly the bytes that it takes in a node with this prefix; returns its head.
fn encode(item: &Item<'_>, prefix_len: usize, shift: u32, out: &mut [u8]) -> u32 {
    let suffix = item.after(prefix_len);
    match item.payload {
        Payload::Value(value) => encode_leaf(out, suffix, value),
        Payload::Child(child) => encode_inner(out, suffix, child),
    }
    match suffix {
        ([], tail) => head_of(tail, shift),
        (front @ ([_] | [_, _]), tail) => {
            let mut first = [0; 3];
            let bytes = front.iter().chain(tail);
            first
                .iter_mut()
                .zip(bytes)
                .for_each(|(to, from)| *to = *from);
            head_of(&first, shift)
        }
        (front, _) => head_of(front, shift),
    }
}

/// Writes a node with these records (sorted, inside the fences) into `page`, whose first 16 bytes
/// stay. Returns whether they fit; if not, the page is spoiled.
pub(crate) fn build(
    page: &mut [u8],
    shape: &Shape<'_>,
    items: &[Item<'_>],
    runs: (u8, u8),
) -> bool {
    let prefix_len = prefix_of(shape.low, shape.high, items);
    let shift = shift_of_fences(shape.low, shape.high);
    let high = shape.high.unwrap_or_default();
    let mut heap_at = page.len();
    if shape.low.len() + high.len() > capacity(page.len()) {
        return false;
    }
    for fence in [shape.low, high] {
        heap_at -= fence.len();
        page[heap_at..heap_at + fence.len()].copy_from_slice(fence);
    }
    let mut out = Packer::<SLOTS>::new(page, heap_at);
    for item in items {
        let raw = item.as_it_was(prefix_len);
        let len = item.bytes(prefix_len) - SLOT_BYTES;
        let added = out.add(len, |at, out| {
            let head = match raw {
                Some(raw) => {
                    out.copy_from_slice(raw);
                    head_of(item.tail, shift)
                }
                None => encode(item, prefix_len, shift, out),
            };
            encode_slot(at, head, item.flags)
        });
        if added.is_err() {
            return false;
        }
    }
    let (count, heap) = (out.counts().count, out.counts().heap);
    write_header(page, shape, (count, heap, prefix_len, shift), runs);
    true
}

/// Copies a built node over the content of a page, leaving the bytes of the page store.
pub(crate) fn install(page: &mut [u8], image: &[u8]) {
    page[HEADER..].copy_from_slice(&image[HEADER..]);
}
