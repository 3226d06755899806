//! Putting a record into a bucket: decided first, then done without any way to fail.

use terrace_access::{Attempt, Flags, Interrupt, Value};
use terrace_pages::Exclusive;

use super::Secret;
use super::bucket::{Counts, Hole, Place, add_slot, set_flags};
use super::find::{Held, page_of, sound};
use super::image::{Item, build, bytes_of, install, take_apart};
use super::layout::{
    Page, SLOT_BYTES, Shape, Stored, capacity, encode_record, encode_slot, key_bytes, value_bytes,
};
use crate::fault::{self, Fault};

/// How a record will be put.
pub(crate) enum How {
    /// Over the bytes of a value of the same length.
    Over { at: usize, len: usize },
    /// Over a longer record.
    Shorter,
    /// Into the free space of this page, in front of this slot, the old record, if there is one, going
    /// from its own.
    Fresh(usize, usize),
    /// Into the first bytes of a record that has just been erased, in front of this slot.
    Hole(Hole, usize),
    /// With this whole page, built anew; an old record in another page goes from there.
    Rewrite(usize, Vec<u8>),
    /// Not at all: this many bytes more would have to be free.
    NoRoom(usize),
}

/// A record to be put and the place that was found for it.
pub(crate) struct Put<'a> {
    pub secret: &'a Secret,
    pub hash: u64,
    pub key: &'a [u8],
    pub value: Value<'a>,
    pub flags: Flags,
    /// The record with this key.
    pub old: Option<Place>,
    /// Where a record lay that was erased under these latches.
    pub hole: Option<Hole>,
}

impl Put<'_> {
    /// Bytes of the record without its slot.
    fn bytes(&self) -> usize {
        key_bytes(self.key.len()) + value_bytes(self.value)
    }

    /// Decides how. Changes nothing. O(1), or O(records) for a rewrite.
    pub fn plan(&self, held: &Held<'_>) -> Attempt<How> {
        let needed = self.bytes();
        if let Some(Place { record, .. }) = self.old {
            match (record.value, self.value) {
                (Stored::Inline { at, len }, Value::Inline(new)) if len == new.len() => {
                    return Ok(How::Over { at, len });
                }
                (Stored::Large { at, .. }, Value::Large(_)) => {
                    let len = record.end - at;
                    return Ok(How::Over { at, len });
                }
                _ if needed <= record.end - record.start => return Ok(How::Shorter),
                _ => {}
            }
        }
        // It may have to go from its page.
        if let Some(old) = self.old {
            held.check_erasable(old.page, old.slot)?;
        }
        let place = |page: usize| {
            let guard = &held.pages[page];
            let place = page_of!(guard)?.place(self.secret, self.hash, self.key);
            sound!(guard, place)
        };
        // The page that the record is in first; without one, the first with room.
        let here = self.old.map(|old| old.page);
        let order = || here.into_iter().chain(0..held.pages.len());
        let slot_in = |page: usize| if here == Some(page) { 0 } else { SLOT_BYTES };
        for page in order() {
            if needed + slot_in(page) <= page_of!(held.pages[page])?.free() {
                return Ok(How::Fresh(page, place(page)?));
            }
        }
        if let Some(hole) = self.hole
            && needed <= hole.len
            && slot_in(hole.page) <= page_of!(held.pages[hole.page])?.free()
        {
            return Ok(How::Hole(hole, place(hole.page)?));
        }
        let mut missing = usize::MAX;
        for page in order() {
            let held_here = match self.old {
                Some(old) if here == Some(page) => old.record.end - old.record.start,
                _ => 0,
            };
            let room = page_of!(held.pages[page])?.reclaimable() + held_here;
            match (needed + slot_in(page)).checked_sub(room) {
                None | Some(0) => {
                    let image = self.rewritten(&held.pages[page], page)?;
                    return Ok(How::Rewrite(page, image));
                }
                Some(more) => missing = missing.min(more),
            }
        }
        Ok(How::NoRoom(missing))
    }

    /// The page without garbage and with this record.
    fn rewritten(&self, guard: &Exclusive<'_>, page: usize) -> Attempt<Vec<u8>> {
        let seen = page_of!(guard)?;
        let mut items = Vec::new();
        sound!(guard, take_apart(guard.bytes(), self.secret, &mut items))?;
        let new = Item {
            hash: self.hash,
            key: self.key,
            value: self.value,
            flags: self.flags,
        };
        let old = self.old.filter(|old| old.page == page);
        let mut members = sound!(guard, seen.members())?;
        match old.and_then(|old| items.get_mut(old.slot)) {
            Some(item) => *item = new,
            None => {
                let at = items.partition_point(|item| item.order() < new.order());
                items.insert(at, new);
                members = members.wrapping_add(1);
            }
        }
        let shape = Shape {
            table: seen.table,
            overflow: seen.overflow,
            span: seen.span,
            members,
            next: seen.next,
        };
        let mut image = vec![0; guard.bytes().len()];
        let fits = bytes_of(&items) <= capacity(image.len()) && build(&mut image, &shape, &items);
        if fits {
            Ok(image)
        } else {
            Err(guard.torn("this bucket counts more room than it has"))
        }
    }

    /// Does it. Cannot fail after [`Put::plan`] of the same bucket answered `how`.
    pub fn apply(&self, held: &mut Held<'_>, how: How) -> Attempt<()> {
        match (how, self.old) {
            (How::Over { at, len }, Some(old)) => self.over(&mut held.pages[old.page], at, len),
            (How::Shorter, Some(old)) => self.shorter(&mut held.pages[old.page], &old),
            (How::Fresh(page, place), old) => self.fresh(held, (page, place), None, old),
            (How::Hole(hole, place), old) => {
                self.fresh(held, (hole.page, place), Some(hole.at), old)
            }
            (How::Rewrite(page, image), old) => {
                install(&mut held.pages[page], &image)?;
                self.leave(held, page, old)
            }
            _ => Err(Interrupt::Conflict),
        }
    }

    /// An old record that was in another page than the new one goes; and who is in the bucket has
    /// changed, if it was not there before.
    fn leave(&self, held: &mut Held<'_>, page: usize, old: Option<Place>) -> Attempt<()> {
        match old {
            Some(old) if old.page != page => held.erase(old.page, old.slot).map(|_| ()),
            // The counter of the first page was moved on with its rewriting.
            None if page > 0 => held.bump(),
            _ => Ok(()),
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
        match self.old {
            Some(old) if !fault::planted(Fault::LostFlags) => set_flags(page, old.slot, self.flags),
            _ => Ok(()),
        }
    }

    fn shorter(&self, page: &mut Exclusive<'_>, old: &Place) -> Attempt<()> {
        let (start, len) = (old.record.start, self.bytes());
        encode_record(page.change(start, len)?, (self.key, &[]), self.value);
        let mut counts = Counts::of(page)?;
        counts.garbage += old.record.end - start - len;
        counts.write(page)?;
        self.mark(page)
    }

    /// Puts the record where no other is: into the free space of a page, or into a hole.
    fn fresh(
        &self,
        held: &mut Held<'_>,
        (number, place): (usize, usize),
        hole: Option<usize>,
        old: Option<Place>,
    ) -> Attempt<()> {
        let page = &mut held.pages[number];
        let len = self.bytes();
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
        encode_record(out, (self.key, &[]), self.value);
        let mut flags = self.flags;
        if old.is_some() && fault::planted(Fault::LostFlags) {
            flags = Flags::NONE;
        }
        let slot = encode_slot(offset, held.span.tag(self.hash), flags);
        match old.filter(|old| old.page == number) {
            Some(old) => {
                if !fault::planted(Fault::LostGarbage) {
                    counts.garbage += old.record.end - old.record.start;
                }
                page.change(Page::slot_at(old.slot), SLOT_BYTES)?
                    .copy_from_slice(&slot);
                counts.write(page)
            }
            None => {
                add_slot(page, &mut counts, place, slot)?;
                counts.write(page)?;
                match old {
                    Some(old) => held.erase(old.page, old.slot).map(|_| ()),
                    None if fault::planted(Fault::QuietInsert) => Ok(()),
                    None => held.bump(),
                }
            }
        }
    }
}
