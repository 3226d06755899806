//! Putting a record into a bucket: decided first, then done without any way to fail.

use terrace_access::{Attempt, Flags, Retry, Value};
use terrace_pages::Exclusive;

use super::Secret;
use super::bucket::{Hole, Place, set_flags};
use super::find::{Held, page_of, sound};
use super::image::{Item, build, bytes_of, install, take_apart};
use super::layout::{
    Numbers, SLOT_BYTES, Shape, capacity, encode_record, encode_slot, key_bytes, value_bytes,
};
use crate::fault::{self, Fault};
use crate::slotted::fit::{Fit, Stretch};
use crate::slotted::record::encode_value;

/// How a record will be put.
pub(crate) enum How {
    /// Over the bytes of a value of the same length.
    Over { at: usize, len: usize },
    /// Into these bytes of this page, in front of this slot, the old record, if there is one, going from its own.
    Into(usize, Stretch, usize),
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
        if let Some(Place {
            page, slot, record, ..
        }) = self.old
        {
            if let Some((at, len)) = record.same_bytes(self.value) {
                return Ok(How::Over { at, len });
            }
            // It may have to go from its page.
            held.check_erasable(page, slot)?;
            if needed <= record.hole().len {
                return Ok(How::Into(page, Stretch::Within(record.start), slot));
            }
        }
        // The page that the record is in first.
        let here = self.old.map(|old| old.page);
        let mut best = (Fit::Missing(usize::MAX), 0);
        for number in here.into_iter().chain(0..held.pages.len()) {
            let seen = page_of!(held.pages[number])?;
            let (slot, old) = match self.old {
                Some(old) if old.page == number => (0, old.record.hole().len),
                _ => (SLOT_BYTES, 0),
            };
            let hole = self
                .hole
                .filter(|hole| hole.page == number)
                .map(|hole| hole.hole);
            let fit = seen.numbers.fit(seen.view.len(), (needed, slot), old, hole);
            if fit < best.0 {
                best = (fit, number);
            }
            if fit == Fit::Free {
                break;
            }
        }
        let (fit, number) = best;
        let guard = &held.pages[number];
        let place = || {
            sound!(
                guard,
                page_of!(guard)?.place(self.secret, self.hash, self.key)
            )
        };
        Ok(match fit {
            Fit::Free => How::Into(number, Stretch::Free, place()?),
            Fit::Hole(at) => How::Into(number, Stretch::Within(at), place()?),
            Fit::Rewrite => How::Rewrite(number, self.rewritten(guard, number)?),
            Fit::Missing(missing) => How::NoRoom(missing),
        })
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
            (How::Over { at, len }, Some(old)) => {
                let page = &mut held.pages[old.page];
                encode_value(page.change(at, len)?, self.value);
                match fault::planted(Fault::LostFlags) {
                    false => set_flags(page, old.slot, self.flags),
                    true => Ok(()),
                }
            }
            (How::Into(page, stretch, place), old) => self.put(held, (page, place), stretch, old),
            (How::Rewrite(page, image), old) => {
                install(&mut held.pages[page], &image)?;
                self.leave(held, page, old)
            }
            _ => Err(Retry::Conflict),
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

    /// Puts the record where no other is, or over the one that it replaces.
    fn put(
        &self,
        held: &mut Held<'_>,
        (number, place): (usize, usize),
        stretch: Stretch,
        old: Option<Place>,
    ) -> Attempt<()> {
        let page = &mut held.pages[number];
        let here = old.filter(|old| old.page == number);
        let garbage = match here {
            Some(old) if !fault::planted(Fault::LostGarbage) => old.record.hole().len,
            _ => 0,
        };
        let mut numbers = page_of!(page)?.numbers;
        let (offset, out) = numbers.take(page, stretch, garbage, self.bytes())?;
        encode_record(out, (self.key, &[]), self.value);
        let mut flags = self.flags;
        if old.is_some() && fault::planted(Fault::LostFlags) {
            flags = Flags::NONE;
        }
        let slot = encode_slot(offset, held.span.tag(self.hash), flags);
        let Some(here) = here else {
            numbers.add_slot(page, place, slot)?;
            numbers.write(page)?;
            return match old {
                Some(old) => held.erase(old.page, old.slot).map(|_| ()),
                None if fault::planted(Fault::QuietInsert) => Ok(()),
                None => held.bump(),
            };
        };
        Numbers::set_slot(page, here.slot, slot)?;
        numbers.write(page)
    }
}
