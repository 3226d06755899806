//! Walking a heap and checking every invariant: the index, every row that it names, every page that
//! the directory lists.
//!
//! Each index record has a row with its key, and keys differ, so no two have the same row; and there
//! are as many rows as index records with one. So each row is named by exactly one.

use terrace_access::{AccessMethod, Flags, Retry, Value};
use terrace_base::{Error, PageId, Result};
use terrace_pages::View;

use super::Heap;
use super::directory::{Directory, LONGEST_CHAIN};
use super::layout::{Location, Rows, SLOTS, slot_at};
use crate::btree::verify::copy_of;

/// A page that contradicts what it should be.
fn wrong(pid: PageId, what: impl std::fmt::Display) -> Error {
    Error::corrupt("data", None, format!("{pid}, of a heap: {what}"))
}

/// Checks the bytes of a heap page on their own. Returns the number of rows.
pub(crate) fn check_rows(view: View<'_>, pid: PageId) -> Result<usize> {
    let rows = Rows::open(view).map_err(|_| wrong(pid, "its header is not that of a heap page"))?;
    let (mut spans, mut used, mut count) = (Vec::new(), 0, 0);
    for i in 0..rows.slots() {
        let Ok(slot) = rows.slot(i) else {
            return Err(wrong(pid, format!("slot {i} reaches past the heap")));
        };
        if !slot.free {
            let Ok(row) = rows.row(i) else {
                return Err(wrong(pid, format!("row {i} is shorter than its key")));
            };
            (used, count) = (used + row.len, count + 1);
        }
        if slot.len > 0 {
            spans.push((slot.at, slot.at + slot.len));
        }
    }
    spans.sort_unstable();
    if spans.windows(2).any(|pair| pair[0].1 > pair[1].0) {
        return Err(wrong(pid, "two rows, or what rows have left, overlap"));
    }
    if spans
        .first()
        .is_some_and(|span| span.0 < slot_at(rows.slots()))
        || view.len() < SLOTS
    {
        return Err(wrong(pid, "a row overlaps the slots"));
    }
    if count != rows.rows || used + rows.numbers.garbage != rows.numbers.heap {
        return Err(wrong(
            pid,
            format!(
                "{count} rows take {used} bytes, but it counts {} and {} bytes of {}",
                rows.rows, rows.numbers.garbage, rows.numbers.heap
            ),
        ));
    }
    Ok(count)
}

/// Checks the bytes of a page of the directory on their own.
pub(crate) fn check_entries(list: &Directory<'_>, pid: PageId) -> Result<()> {
    let mut used = 0;
    for i in 0..list.entries() {
        let Ok((heap, _)) = list.entry(i) else {
            return Err(wrong(pid, "an entry reaches past the page"));
        };
        used += usize::from(!heap.is_none());
    }
    // Finds one or none, as whoever looks for room does, also where what is counted is wrong.
    let found = [0, list.entries() / 2, usize::MAX / 2].map(|from| list.free_entry(from));
    if used != list.used || found.iter().any(|found| found.is_err()) {
        return Err(wrong(pid, format!("it counts {} entries", list.used)));
    }
    Ok(())
}

impl Heap {
    /// See [`terrace_access::AccessMethod::verify`]. O(records), reads all pages.
    pub(crate) fn check(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        let index = loop {
            match self.index() {
                Ok(index) => break index,
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        };
        let (mut value, mut named) = (Vec::new(), 0);
        index.verify(
            &mut |key, flags, stored| {
                let Value::Inline(location) = stored else {
                    return each(key, flags, stored);
                };
                value.clear();
                match Location::of(location) {
                    Ok(None) => {}
                    Ok(Some(at)) => {
                        self.row_for_check(at, key, &mut value)?;
                        named += 1;
                    }
                    Err(_) => return Err(wrong(self.root, "the index has no location")),
                }
                each(key, flags, Value::Inline(&value))
            },
            page,
        )?;
        let (rows, clearing) = self.check_pages(page)?;
        if rows == named || clearing && rows > named {
            return Ok(());
        }
        Err(wrong(
            self.root,
            format!("its pages have {rows} rows, but its index names {named}"),
        ))
    }

    fn row_for_check(&self, at: Location, key: &[u8], value: &mut Vec<u8>) -> Result<()> {
        loop {
            match self.read_row(at, key, value, true) {
                Ok(()) => return Ok(()),
                Err(Retry::Fail(e)) => return Err(e),
                Err(other) => self.store.settle(other)?,
            }
        }
    }

    /// Checks the directory and the pages that it lists. Returns the number of rows, and whether they
    /// are being cleared.
    fn check_pages(&self, page: &mut dyn FnMut(PageId) -> Result<()>) -> Result<(u64, bool)> {
        let (mut at, mut rows, mut clearing) = (self.root, 0, false);
        for _ in 0..LONGEST_CHAIN {
            page(at)?;
            let copy = copy_of(&self.store, at)?;
            let Some(list) = self.directory_in(View::of(&copy), at) else {
                return Err(wrong(at, "it is not a page of the directory"));
            };
            clearing |= list.clearing;
            let used = self.check_list(&list, at, &mut rows, page)?;
            if used != list.used || list.clearing && !list.is_root {
                return Err(wrong(at, format!("it counts {} entries", list.used)));
            }
            if list.next.is_none() {
                return Ok((rows, clearing));
            }
            at = list.next;
        }
        Err(wrong(at, "the directory goes round in circles"))
    }

    /// Checks the heap pages that a page of the directory lists. Returns how many there are.
    fn check_list(
        &self,
        list: &Directory<'_>,
        at: PageId,
        rows: &mut u64,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<usize> {
        let mut used = 0;
        for i in 0..list.entries() {
            let Ok((pid, class)) = list.entry(i) else {
                return Err(wrong(at, "an entry reaches past the page"));
            };
            if pid.is_none() {
                continue;
            }
            used += 1;
            page(pid)?;
            let on = (i..list.entries()).map_while(|i| list.entry(i).ok());
            let on = on.map(|(pid, _)| pid).filter(|pid| !pid.is_none());
            self.store.read_ahead(on);
            let copy = copy_of(&self.store, pid)?;
            let count = check_rows(View::of(&copy), pid)?;
            let seen = Rows::open(View::of(&copy)).map_err(|_| wrong(pid, "its header"))?;
            if seen.owner() != Ok(self.root) || seen.listed() != Ok((at, i, class)) {
                return Err(wrong(pid, "it does not say where it is listed"));
            }
            *rows += count as u64;
        }
        Ok(used)
    }
}

/// Checks the bytes of one page, of rows or of the directory, on their own, whatever they are, without a
/// store: for fuzzing. Never panics. O(rows log rows).
///
/// # Errors
/// What is wrong with them.
pub fn verify_page(page: &[u8]) -> Result<()> {
    match Directory::open(View::of(page)) {
        Ok(directory) => check_entries(&directory, PageId::NONE),
        Err(_) => check_rows(View::of(page), PageId::NONE).map(|_| ()),
    }
}
