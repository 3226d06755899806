//! Putting a record into a leaf: decided first, then done without any way to fail.

use terrace_access::{Attempt, Flags, Interrupt, Value};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::BTree;
use super::descend::{node_of, sound};
use super::image::{Item, Packer, Payload, Sizes, build, capacity, install, parts};
use super::layout::{
    CHILD_BYTES, Extra, LeafRecord, Node, SLOT_BYTES, Seen, Shape, Stored, encode_inner,
    encode_leaf, encode_slot, head_of, key_bytes, value_bytes,
};
use super::leaf::{Counts, add_slot, set_flags};
use crate::fault::{self, Fault};

/// How a record will be put.
pub(crate) enum How {
    /// Over the bytes of a value of the same length.
    Over { at: usize, len: usize },
    /// Over a longer record.
    Shorter,
    /// Into the free space.
    Fresh,
    /// Into the bytes from here on of a record that has just been erased.
    Hole(usize),
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

/// Bytes of a page that a record held until just now.
#[derive(Clone, Copy)]
pub(crate) struct Hole {
    pub at: usize,
    pub len: usize,
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
        let mut held = 0;
        if let Some(old) = self.old {
            held = old.end - old.start;
            match (old.value, self.value) {
                (Stored::Inline { at, len }, Value::Inline(new)) if len == new.len() => {
                    return Ok(How::Over { at, len });
                }
                (Stored::Large { at, .. }, Value::Large(_)) => {
                    return Ok(How::Over {
                        at,
                        len: old.end - at,
                    });
                }
                _ if needed <= held => return Ok(How::Shorter),
                _ => {}
            }
        }
        let slot = if self.old.is_some() { 0 } else { SLOT_BYTES };
        if needed + slot <= node.free() {
            return Ok(How::Fresh);
        }
        if let Some(hole) = self.hole
            && needed <= hole.len
            && slot <= node.free()
        {
            return Ok(How::Hole(hole.at));
        }
        // At the edge of the tree the prefix may have become longer than what is left out so far.
        let edge = node.unbounded || node.low_len == 0;
        if needed + slot > node.reclaimable() + held && !edge {
            return Ok(How::NoRoom(needed + slot - node.reclaimable() - held));
        }
        let missing = (needed + slot).saturating_sub(node.reclaimable() + held);
        if !edge && missing == 0 {
            return Ok(How::Rewrite(sound!(
                page,
                self.compacted(&node, page.bytes())
            )?));
        }
        Ok(self
            .rewritten(page)?
            .map_or(How::NoRoom(missing.max(1)), How::Rewrite))
    }

    /// The page without garbage and with this record, for which there is room; the prefix stays, so
    /// the other records move as they are. O(records).
    fn compacted(&self, node: &Node<'_>, page: &[u8]) -> Seen<Vec<u8>> {
        let mut out = Packer::new(node, page);
        let suffix = &self.key[node.prefix_len..];
        let mine = |out: &mut Packer| {
            let len = key_bytes(suffix.len()) + value_bytes(self.value);
            let record = out.add(len, head_of(suffix, node.shift), self.flags)?;
            encode_leaf(record, (suffix, &[]), self.value);
            Seen::Ok(())
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
            out.add(record.end - record.start, slot.head(), slot.flags())?
                .copy_from_slice(&page[record.start..record.end]);
        }
        if place >= node.count {
            mine(&mut out)?;
        }
        let mut counts = Counts::in_header(page);
        if self.place.is_err() {
            counts.members = counts.members.wrapping_add(1);
        }
        Ok(out.finish(counts))
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
        let shape = Shape {
            level: 0,
            low: now.low,
            high: now.high,
            extra: Extra::Members(counts.members),
        };
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
            How::Shorter => self.shorter(page),
            How::Fresh => self.fresh(page, None),
            How::Hole(at) => self.fresh(page, Some(at)),
            How::Rewrite(image) => {
                install(page.change_all()?, &image);
                Ok(())
            }
            How::NoRoom(_) => Err(Interrupt::Conflict),
        }
    }

    fn over(&self, page: &mut Exclusive<'_>, at: usize, len: usize) -> Attempt<()> {
        let out = page.change(at, len)?;
        match self.value {
            Value::Inline(value) => out.copy_from_slice(value),
            Value::Large(large) => {
                out[..8].copy_from_slice(&large.head.0.to_le_bytes());
                out[8..12].copy_from_slice(&large.len.to_le_bytes());
            }
        }
        self.mark(page)
    }

    /// Sets the flags of the replaced record.
    fn mark(&self, page: &mut Exclusive<'_>) -> Attempt<()> {
        let Ok(i) = self.place else { return Ok(()) };
        if fault::planted(Fault::LostFlags) {
            return Ok(());
        }
        set_flags(page, i, self.flags)
    }

    fn shorter(&self, page: &mut Exclusive<'_>) -> Attempt<()> {
        let Some(old) = self.old else { return Ok(()) };
        let prefix_len = node_of!(page)?.prefix_len;
        let suffix = &self.key[prefix_len..];
        let len = key_bytes(suffix.len()) + value_bytes(self.value);
        encode_leaf(page.change(old.start, len)?, (suffix, &[]), self.value);
        let mut counts = Counts::of(page)?;
        counts.garbage += old.end - old.start - len;
        counts.write(page, true)?;
        self.mark(page)
    }

    /// Puts the record where no other is: into the free space, or into a hole.
    fn fresh(&self, page: &mut Exclusive<'_>, hole: Option<usize>) -> Attempt<()> {
        let node = node_of!(page)?;
        let shift = node.shift;
        let suffix = &self.key[node.prefix_len..];
        let len = key_bytes(suffix.len()) + value_bytes(self.value);
        let mut counts = Counts::of(page)?;
        let (offset, out) = match hole {
            // A state that a checkpoint keeps may still need these bytes.
            Some(at) => {
                counts.garbage = counts.garbage.saturating_sub(len);
                (at, page.change(at, len)?)
            }
            None => {
                counts.heap += len;
                let at = page.bytes().len() - counts.heap;
                (at, page.fill(at, len)?)
            }
        };
        encode_leaf(out, (suffix, &[]), self.value);
        let slot = encode_slot(offset, head_of(suffix, shift), self.flags);
        match self.place {
            Ok(i) => {
                if let Some(old) = self.old
                    && !fault::planted(Fault::LostGarbage)
                {
                    counts.garbage += old.end - old.start;
                }
                let mut slot = slot;
                if fault::planted(Fault::LostFlags) {
                    slot[2] &= !Flags::MASK;
                }
                page.change(Node::slot_at(i), SLOT_BYTES)?
                    .copy_from_slice(&slot);
            }
            Err(i) => {
                add_slot(page, &mut counts, i, slot)?;
                counts.inserted(i);
            }
        }
        counts.write(page, true)
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
            let mut counts = Counts::of(page)?;
            counts.heap += len;
            let offset = page.bytes().len() - counts.heap;
            encode_inner(page.fill(offset, len)?, (suffix, &[]), child);
            add_slot(
                page,
                &mut counts,
                at,
                encode_slot(offset, head_of(suffix, shift), Flags::NONE),
            )?;
            counts.write(page, false)
        }
    }
}

impl BTree {
    /// Whether this value may lie beside its key.
    pub(crate) fn fits_inline(&self, value: Value<'_>) -> Attempt<()> {
        let limit = super::max_inline(self.store.page_bytes());
        match value {
            Value::Inline(v) if v.len() > limit => Err(terrace_base::Error::ValueTooLong {
                len: v.len(),
                limit,
            }
            .into()),
            _ => Ok(()),
        }
    }
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
