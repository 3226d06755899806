//! Opening: from the recorded changes to the place of every page and the free slots.

use super::page_map::PageMap;
use super::place::{Place, Words};
use super::slots::Slots;
use terrace_base::{Error, PageId, Result};

/// The words while a database is opened: no other thread looks at them yet.
pub trait PlaceTable: Words {
    /// Stores the place of a page whose number is below the bound given to [`Rebuild::new`].
    fn set(&mut self, pid: PageId, place: Place);
}

/// Takes what a [`MapReader`](super::MapReader) reads, later records replacing earlier ones, and
/// makes a [`PageMap`] of it.
pub struct Rebuild<'a, T: PlaceTable> {
    table: &'a mut T,
    file: String,
    pages: u64,
    slots: u64,
}

impl<'a, T: PlaceTable> Rebuild<'a, T> {
    /// Starts with every page of `table` free: `pages` page numbers, `slots` slots, both from the
    /// superblock. `file` names the map file in errors.
    pub fn new(
        table: &'a mut T,
        file: impl Into<String>,
        pages: u64,
        slots: u64,
    ) -> Rebuild<'a, T> {
        Rebuild {
            table,
            file: file.into(),
            pages,
            slots,
        }
    }

    /// One record of the base table or the journal.
    pub fn apply(&mut self, pid: PageId, place: Place) -> Result<()> {
        if pid.0 >= self.pages {
            return Err(self.damaged(format!(
                "{pid} is recorded, but there are only {} pages",
                self.pages
            )));
        }
        self.table.set(pid, place.recorded());
        Ok(())
    }

    /// Everything is read: finds the free slots and calls `on_free` for every free page number,
    /// the highest first (so that a chain built of them gives out low numbers first).
    pub fn finish(self, mut on_free: impl FnMut(&mut T, PageId)) -> Result<PageMap> {
        let mut used = Slots::new(self.slots, true);
        for pid in (0..self.pages).rev().map(PageId) {
            match self.table.place(pid).slot() {
                None => on_free(self.table, pid),
                Some(slot) if used.take_one(slot) => {}
                Some(slot) if slot >= self.slots => {
                    return Err(self.damaged(format!(
                        "{pid} is recorded at slot {slot} of {}",
                        self.slots
                    )));
                }
                Some(slot) => {
                    let others = (pid.0 + 1..self.pages).map(PageId);
                    let other = others
                        .into_iter()
                        .find(|other| self.table.place(*other).slot() == Some(slot));
                    let other =
                        other.map_or_else(|| "another page".to_string(), |other| other.to_string());
                    return Err(
                        self.damaged(format!("slot {slot} is recorded for {pid} and for {other}"))
                    );
                }
            }
        }
        // What the older superblock names is not known, so it may be anything.
        Ok(PageMap::with_slots(used, self.slots))
    }

    fn damaged(&self, what: String) -> Error {
        Error::corrupt(self.file.clone(), None, what)
    }
}
