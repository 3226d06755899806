//! Putting a record into a leaf: decided first, then done without any way to fail.

use terrace_access::{Attempt, Flags, Retry, Value};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::descend::{node_of, sound};
use super::image::{Item, Sizes, build, capacity, install, parts};
use super::layout::{
    CHILD_BYTES, COUNT, Extra, HEADER, LeafRecord, Node, Numbers, SLOT_BYTES, SLOTS, Seen, Shape,
    encode_inner, encode_leaf, encode_slot, head_of, key_bytes, max_inline, value_bytes,
};
use super::leaf::{Counts, set_flags};
use crate::fault::{self, Fault};
use crate::slotted::fit::{Fit, Hole, Stretch};
use crate::slotted::pack::Packer;
use crate::slotted::record::encode_value;

/// How a record will be put.
pub(crate) enum How {
    /// Over the bytes of a value of the same length.
    Over { at: usize, len: usize },
    /// Into these bytes.
    Into(Stretch),
    /// With the whole page, built anew.
    Rewrite(Vec<u8>),
    /// Not at all: this many bytes more would have to be free.
    NoRoom(usize),
}

/// A record to be put and the place that was found for it.
pub(crate) struct Put<'a> {
    pub key: &'a [u8],
    pub value: Value<'a>,
    pub flags: Flags,
    /// Index of the record with this key, or where it would go.
    pub place: Result<usize, usize>,
    /// The record with this key.
    pub old: Option<LeafRecord>,
    /// Where a record lay that was erased under this latch, and its length.
    pub hole: Option<Hole>,
}

impl Put<'_> {
    /// Decides how. Changes nothing. O(1), or O(records) for a rewrite.
    pub fn plan(&self, page: &Exclusive<'_>) -> Attempt<How> {
        let node = node_of!(page)?;
        if node.is_loose() && !sound!(page, node.has_prefix(self.key))? {
            // The prefix must get shorter, and all records with it longer.
            let most = key_bytes(self.key.len()) + value_bytes(self.value) + SLOT_BYTES;
            return Ok(self
                .rewritten(page)?
                .map_or(How::NoRoom(most), How::Rewrite));
        }
        let suffix_len = self.key.len() - node.prefix_len;
        let needed = key_bytes(suffix_len) + value_bytes(self.value);
        let (mut held, mut slot) = (0, SLOT_BYTES);
        if let Some(old) = self.old {
            if let Some((at, len)) = old.same_bytes(self.value) {
                return Ok(How::Over { at, len });
            }
            (held, slot) = (old.hole().len, 0);
            if needed <= held {
                return Ok(How::Into(Stretch::Within(old.start)));
            }
        }
        // At the edge of the tree the prefix may have become longer than what is left out so far.
        let edge = node.unbounded || node.low_len == 0;
        let page_bytes = node.view.len();
        let missing = match node
            .numbers()
            .fit(page_bytes, (needed, slot), held, self.hole)
        {
            Fit::Free => return Ok(How::Into(Stretch::Free)),
            Fit::Hole(at) => return Ok(How::Into(Stretch::Within(at))),
            Fit::Rewrite if !edge => {
                let image = sound!(page, self.compacted(&node, page.bytes()))?;
                return Ok(How::Rewrite(image));
            }
            Fit::Missing(missing) if !edge => return Ok(How::NoRoom(missing)),
            Fit::Rewrite => 1,
            Fit::Missing(missing) => missing,
        };
        Ok(self
            .rewritten(page)?
            .map_or(How::NoRoom(missing), How::Rewrite))
    }

    /// The page without garbage and with this record, for which there is room; the prefix stays, so
    /// the other records move as they are. O(records).
    fn compacted(&self, node: &Node<'_>, page: &[u8]) -> Seen<Vec<u8>> {
        let fences = page.len() - node.low_len - node.high_len;
        let mut image = vec![0; page.len()];
        image[HEADER..SLOTS].copy_from_slice(&page[HEADER..SLOTS]);
        image[fences..].copy_from_slice(&page[fences..]);
        let mut out = Packer::<SLOTS>::new(&mut image, fences);
        let suffix = &self.key[node.prefix_len..];
        let mine = |out: &mut Packer<'_, SLOTS>| {
            let len = key_bytes(suffix.len()) + value_bytes(self.value);
            out.add(len, |at, record| {
                encode_leaf(record, (suffix, &[]), self.value);
                encode_slot(at, head_of(suffix, node.shift), self.flags)
            })
        };
        let (Ok(place) | Err(place)) = self.place;
        for i in 0..node.count {
            if i == place {
                mine(&mut out)?;
                if self.place.is_ok() {
                    continue;
                }
            }
            let slot = node.slot(i)?;
            let record = node.leaf_record(slot)?;
            out.add(record.end - record.start, |at, to| {
                to.copy_from_slice(&page[record.start..record.end]);
                encode_slot(at, slot.head(), slot.flags())
            })?;
        }
        if place >= node.count {
            mine(&mut out)?;
        }
        let mut counts = Counts::in_header(page);
        (counts.numbers, counts.last) = (out.counts(), u16::MAX);
        if self.place.is_err() {
            counts.members = counts.members.wrapping_add(1);
        }
        counts.put(&mut image[COUNT..]);
        Ok(image)
    }

    /// The page without garbage and with this record; `None` if it does not fit after all.
    fn rewritten(&self, page: &Exclusive<'_>) -> Attempt<Option<Vec<u8>>> {
        let copy = page.bytes();
        let mut now = sound!(page, parts(copy))?;
        let mut counts = Counts::of(page)?;
        let item = Item::leaf(self.key, self.value, self.flags);
        match self.place {
            Ok(i) => match now.items.get_mut(i) {
                Some(old) => *old = item,
                None => return Err(page.torn("a record vanished under the latch")),
            },
            Err(i) => {
                now.items.insert(i.min(now.items.len()), item);
                counts.members = counts.members.wrapping_add(1);
            }
        }
        let shape = Shape::leaf(now.low, now.high, counts.members);
        let bytes = Sizes::of(&now.items).node(0, now.items.len(), now.low, now.high);
        if bytes > capacity(copy.len()) {
            return Ok(None);
        }
        let mut image = vec![0; copy.len()];
        Ok(build(&mut image, &shape, &now.items, counts.runs).then_some(image))
    }

    /// Does it. Cannot fail after [`Put::plan`] of the same page answered `how`.
    pub fn apply(&self, page: &mut Exclusive<'_>, how: How) -> Attempt<()> {
        match how {
            How::Over { at, len } => self.over(page, at, len),
            How::Into(stretch) => self.put(page, stretch),
            How::Rewrite(image) => {
                install(page.change_all()?, &image);
                Ok(())
            }
            How::NoRoom(_) => Err(Retry::Conflict),
        }
    }

    fn over(&self, page: &mut Exclusive<'_>, at: usize, len: usize) -> Attempt<()> {
        encode_value(page.change(at, len)?, self.value);
        match self.place {
            Ok(i) if !fault::planted(Fault::LostFlags) => set_flags(page, i, self.flags),
            _ => Ok(()),
        }
    }

    /// Puts the record where no other is, or over the one that it replaces.
    fn put(&self, page: &mut Exclusive<'_>, stretch: Stretch) -> Attempt<()> {
        let node = node_of!(page)?;
        let shift = node.shift;
        let suffix = &self.key[node.prefix_len..];
        let len = key_bytes(suffix.len()) + value_bytes(self.value);
        let held = match self.old {
            Some(old) if !fault::planted(Fault::LostGarbage) => old.hole().len,
            _ => 0,
        };
        let mut counts = Counts::of(page)?;
        let (offset, out) = counts.numbers.take(page, stretch, held, len)?;
        encode_leaf(out, (suffix, &[]), self.value);
        let mut slot = encode_slot(offset, head_of(suffix, shift), self.flags);
        match self.place {
            Ok(i) => {
                if fault::planted(Fault::LostFlags) {
                    slot[2] &= !Flags::MASK;
                }
                Numbers::set_slot(page, i, slot)?;
            }
            Err(i) => {
                counts.numbers.add_slot(page, i, slot)?;
                counts.inserted(i);
            }
        }
        counts.write(page)
    }
}

/// Whether an inner node has room for one more separator of this length; `Some(image)` when only
/// with its garbage cleared away, which the image is the result of.
pub(crate) enum InnerRoom {
    Free,
    Rewrite(Vec<u8>),
    None,
}

/// Finds out whether (and how) `separator` with `child` can go in front of entry `at`. Changes
/// nothing.
pub(crate) fn inner_room(
    page: &Exclusive<'_>,
    at: usize,
    separator: &[u8],
    child: PageId,
) -> Attempt<InnerRoom> {
    let node = node_of!(page)?;
    let Some(suffix_len) = separator.len().checked_sub(node.prefix_len) else {
        return Err(page.torn("a separator below this node lies outside its fences"));
    };
    let needed = SLOT_BYTES + CHILD_BYTES + key_bytes(suffix_len);
    if needed <= node.free() {
        return Ok(InnerRoom::Free);
    }
    if needed > node.reclaimable() {
        return Ok(InnerRoom::None);
    }
    let mut now = sound!(page, parts(page.bytes()))?;
    now.items
        .insert(at.min(now.items.len()), Item::inner(separator, child));
    let image = rebuilt_inner(page, now.low, now.high, &now.items)?;
    Ok(image.map_or(InnerRoom::None, InnerRoom::Rewrite))
}

/// The image of an inner node with these records.
pub(crate) fn rebuilt_inner(
    page: &Exclusive<'_>,
    low: &[u8],
    high: Option<&[u8]>,
    items: &[Item<'_>],
) -> Attempt<Option<Vec<u8>>> {
    let node = node_of!(page)?;
    let extra = Extra::FirstChild(sound!(page, node.child(0))?);
    let mut image = vec![0; page.bytes().len()];
    let shape = Shape {
        level: node.level,
        low,
        high,
        extra,
    };
    Ok(build(&mut image, &shape, items, (0, 0)).then_some(image))
}

/// Puts a separator with the child above it in front of entry `at`, as [`inner_room`] found out.
pub(crate) fn insert_inner(
    page: &mut Exclusive<'_>,
    at: usize,
    separator: &[u8],
    child: PageId,
    room: InnerRoom,
) -> Attempt<()> {
    match room {
        InnerRoom::Rewrite(mut image) => {
            // The child may not have had its number when the image was built.
            let slot = sound!(
                page,
                Node::open(terrace_pages::View::of(&image)).and_then(|node| node.slot(at))
            )?;
            image[slot.offset()..slot.offset() + CHILD_BYTES]
                .copy_from_slice(&child.0.to_le_bytes()[..CHILD_BYTES]);
            install(page.change_all()?, &image);
            Ok(())
        }
        _ => {
            let node = node_of!(page)?;
            let shift = node.shift;
            let suffix = &separator[node.prefix_len..];
            let len = CHILD_BYTES + key_bytes(suffix.len());
            let mut numbers = node.numbers();
            let (offset, out) = numbers.take(page, Stretch::Free, 0, len)?;
            encode_inner(out, (suffix, &[]), child);
            let slot = encode_slot(offset, head_of(suffix, shift), Flags::NONE);
            numbers.add_slot(page, at, slot)?;
            numbers.write(page)
        }
    }
}

/// Whether this value may lie beside its key.
pub(crate) fn check_inline(value: Value<'_>, page_bytes: usize) -> Attempt<()> {
    let limit = max_inline(page_bytes);
    match value {
        Value::Inline(v) if v.len() > limit => Err(terrace_base::Error::ValueTooLong {
            len: v.len(),
            limit,
        }
        .into()),
        _ => Ok(()),
    }
}
