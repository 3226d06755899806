//! Which pages a backup has to read, and what becomes of each.
//!
//! Invariant: what is not read has not been written since the point before, which this process made.

use std::cell::RefCell;

use terrace_base::{Error, Result};
use terrace_pages::map::SlotSet;
use terrace_pages::{ImagePage, PageStore, PinnedImage};

use crate::backup_set::manifest::FileInfo;
use crate::backup_set::maps::{Entry, MapReader, MapWriter, PACKED_BYTES, Packed};
use crate::planted::{Fault, planted};

/// What the set has of the point before.
pub struct Before {
    map: MapReader,
    /// The next one of its entries, if it was read already.
    ahead: Option<Entry>,
    /// Slots written since, if that is known.
    written: Option<SlotSet>,
}

impl Before {
    /// The map of a point, and what was written since, if that is known.
    pub fn new(map: MapReader, written: Option<SlotSet>) -> Before {
        Before {
            map,
            ahead: None,
            written,
        }
    }

    /// Begins with the first page again.
    fn rewind(&mut self) {
        self.map.rewind();
        self.ahead = None;
    }

    /// What it has of a page; to be asked in ascending order.
    fn entry(&mut self, page: u64) -> Result<Option<Entry>> {
        self.map.seek(page, &mut self.ahead)
    }

    /// Whether a page is known to be the same without reading it.
    fn is_unchanged(&self, entry: &Entry, page: &ImagePage) -> bool {
        let is_known = |written: &SlotSet| {
            entry.slot == page.slot
                && (!written.has(page.slot) || planted(Fault::EqualPlaceIsEqual))
        };
        self.written.as_ref().is_some_and(is_known)
    }
}

/// The pages that are to be read, in the order of their numbers, each with what the set has of it so far: an
/// entry of file [`NOT_THERE`] if that is nothing. Counted as memory of the database.
pub struct ToRead<'s> {
    entries: RefCell<Vec<Packed>>,
    store: &'s PageStore,
    bytes: u64,
}

/// No point has this number.
const NOT_THERE: u64 = 0;

impl Drop for ToRead<'_> {
    fn drop(&mut self) {
        self.store.give_extra_bytes(self.bytes);
    }
}

impl<'s> ToRead<'s> {
    /// For an image, and what the set has of the point before.
    ///
    /// # Errors
    /// Those of the set.
    pub fn of(
        store: &'s PageStore,
        pin: &PinnedImage,
        before: &mut Option<Before>,
    ) -> Result<ToRead<'s>> {
        let mut work = ToRead {
            entries: RefCell::default(),
            store,
            bytes: 0,
        };
        for page in image_pages(pin) {
            let nothing = Entry {
                page: page.page.0,
                slot: page.slot,
                file: NOT_THERE,
                index: 0,
                hash: 0,
            };
            let mut entry = nothing;
            if let Some(before) = before
                && let Some(there) = before.entry(page.page.0)?
            {
                if before.is_unchanged(&there, &page) {
                    continue;
                }
                entry = there;
            }
            let entries = work.entries.get_mut();
            if entries.len() == entries.capacity() {
                // As the list would grow by itself, but no further than there can be pages.
                let left = (pin.live_pages() as usize).saturating_sub(entries.len());
                entries.reserve_exact(entries.len().max(MORE).min(left.max(1)));
                let bytes = entries.capacity() as u64 * PACKED_BYTES;
                store.take_extra_bytes(bytes - work.bytes);
                work.bytes = bytes;
            }
            entries.push(packed(&entry)?);
        }
        if work.bytes > 0 {
            store.make_room_for_extra()?;
        }
        Ok(work)
    }

    /// Pages that are to be read.
    pub fn pages(&self) -> u64 {
        self.entries.borrow().len() as u64
    }

    fn place(&self, page: &ImagePage) -> Option<usize> {
        let entries = self.entries.borrow();
        entries
            .binary_search_by_key(&page.page.0, Packed::page)
            .ok()
    }

    /// Whether this page is to be read.
    pub fn has(&self, page: &ImagePage) -> bool {
        self.place(page).is_some()
    }

    /// A page was read and has this hash: notes where the set has it, or where `store` says that it is stored
    /// now.
    ///
    /// # Errors
    /// Those of `store`.
    pub fn is_read(
        &self,
        page: &ImagePage,
        hash: u128,
        store: impl FnOnce() -> Result<(u64, u64)>,
    ) -> Result<()> {
        let Some(place) = self.place(page) else {
            return Ok(());
        };
        let there = self.entries.borrow()[place].entry();
        let (file, index) = match there.file != NOT_THERE && there.hash == hash {
            true => (there.file, there.index),
            false => store()?,
        };
        self.entries.borrow_mut()[place] = packed(&Entry {
            page: page.page.0,
            slot: page.slot,
            file,
            index,
            hash,
        })?;
        Ok(())
    }

    /// Writes the map of the new point: what was read, and what is as it was before.
    ///
    /// # Errors
    /// Those of the set.
    pub fn write(
        &self,
        pin: &PinnedImage,
        before: &mut Option<Before>,
        mut map: MapWriter,
    ) -> Result<FileInfo> {
        let entries = self.entries.borrow();
        let mut read = entries.iter().peekable();
        if let Some(before) = before {
            before.rewind();
        }
        for page in image_pages(pin) {
            let number = page.page.0;
            if let Some(entry) = read.next_if(|entry| entry.page() == number) {
                map.push(&entry.entry())?;
                continue;
            }
            let there = match before {
                Some(before) => before.entry(number)?,
                None => None,
            };
            let there = there.ok_or_else(|| {
                Error::invalid(format!("{} was neither read nor there before", page.page))
            })?;
            map.push(&there)?;
        }
        map.finish()
    }
}

/// Entries by which the list of work grows at first.
const MORE: usize = 1024;

fn packed(entry: &Entry) -> Result<Packed> {
    Packed::of(entry).ok_or_else(|| {
        Error::invalid(format!(
            "a backup set has room for numbers of five bytes, and {entry:?} has a longer one"
        ))
    })
}

/// All pages of an image in the order of their numbers.
fn image_pages(pin: &PinnedImage) -> impl Iterator<Item = ImagePage> + '_ {
    let pages = 0..pin.superblock().pages;
    pages.filter_map(|at| pin.page(terrace_base::PageId(at)))
}
