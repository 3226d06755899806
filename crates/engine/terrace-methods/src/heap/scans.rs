//! Scans of all rows, heap page after heap page, while rows move between pages.
//!
//! For each scan a page of rows is *to come* or not. Which of its scans a page is to come for is its
//! *side*, and a row moves only between pages of the same side: so what has come out is on pages
//! that will not be looked at again, and what has not is on pages that will, and nothing has to be
//! remembered of the rows that move. A newcomer goes where nothing is to come: its key may have come
//! out before. New pages are on the side of the row that they are made for.
//!
//! Large values lie on no heap page. A scan takes them first, by the index; from then on it hears of
//! rows that become large, for these leave their page.
//!
//! Invariants:
//! * The side of a page changes only under its latch, or when no row of the scan has come out yet.
//! * A page that is to come is a page of rows of this structure: who frees one says so first.
//! * What lies in the index up to where a scan is with the large values changes hands under the latch
//!   of the index leaf.

use terrace_access::{AccessMethod, Attempt, Edge, Flags, Retry, StoredScan, Touch, Window};
use terrace_base::{Error, PageId};

use super::Heap;
use super::directory::NO_DIRECTORY;
use super::layout::Rows;
use super::page::NO_ROWS;
use super::sides::{NOTE_BYTES, NOTED_BYTES, Next, Side, bytes_of};
use crate::fault::{Fault, planted};

/// What is wrong with a page that is to come and is none of the heap's.
const NOT_THERE: &str = "the directory of this heap lists a page that is free";

impl Heap {
    /// See [`terrace_access::Ordered::begin_stored`].
    pub(crate) fn begin_scan(&self) -> Option<StoredScan> {
        let pages = vec![0; (self.store.page_numbers() / 64 + 1) as usize];
        let taken = bytes_of(&pages);
        let scan = self.scans.begin(self.root, pages)?;
        self.store.take_extra_bytes(taken);
        Some(scan)
    }

    /// See [`terrace_access::Ordered::end_stored`].
    pub(crate) fn end_scan(&self, scan: &StoredScan) {
        if let Some((bit, taken)) = self.scans.end(scan) {
            self.store.give_extra_bytes(taken);
            self.space.merge_sides(bit, self.store.page_bytes());
        }
    }

    /// See [`terrace_access::Ordered::try_stored`]. O(rows of a page), or of an index leaf.
    pub(crate) fn scan_step(&self, scan: &StoredScan, window: &mut Window) -> Attempt<bool> {
        window.clear();
        match self.scans.with(scan, |scan| scan.next())?? {
            Next::List(at) => self.scan_list(scan, at)?,
            Next::Noted(key) => self.scan_noted(scan, &key, window)?,
            Next::Large(from) => self.scan_large(scan, &from, window)?,
            Next::Page(pid) => self.scan_page(scan, pid, window)?,
            Next::Done => return Ok(false),
        }
        Ok(true)
    }

    fn scan_list(&self, scan: &StoredScan, at: PageId) -> Attempt<()> {
        let list = match self.store.shared(at) {
            Err(Retry::Conflict) if !self.store.exists(at) => {
                let what = format!(
                    "{at} was to list the pages of a heap, and there is none: all rows were removed meanwhile, or it is damaged"
                );
                return Err(Error::corrupt("data", None, what).into());
            }
            other => other?,
        };
        let seen = self.directory_in(list.view(), at);
        let seen = seen.ok_or_else(|| list.torn(NO_DIRECTORY))?;
        let mut pages = Vec::new();
        for i in 0..seen.entries() {
            let (pid, _) = seen.entry(i).map_err(|_| list.torn(NO_DIRECTORY))?;
            if !pid.is_none() {
                // Page numbers that there are none of take no memory.
                let there = self.store.exists(pid).then_some(pid);
                pages.push(there.ok_or_else(|| list.torn(NOT_THERE))?);
            }
        }
        let next = (!seen.next.is_none()).then_some(seen.next);
        let lists = self.scans.with(scan, |scan| {
            pages.iter().for_each(|pid| scan.set(*pid, true));
            scan.listing = next;
            scan.lists += 1;
            scan.lists
        })?;
        match lists > self.store.live_pages() {
            true => Err(list.torn("this directory goes round in circles")),
            false => Ok(()),
        }
    }

    fn scan_noted(&self, scan: &StoredScan, key: &[u8], window: &mut Window) -> Attempt<()> {
        let mut value = Vec::new();
        if let Some(found) = self.try_get(key, Touch::No, &mut value)? {
            push(window, found.flags, found.large, key, &value);
        }
        self.scans.with(scan, |scan| {
            if let Some(noted) = scan.noted.pop_front()
                // Past the limit some were not noted, and that must not be forgotten.
                && scan.noted_bytes <= NOTED_BYTES
            {
                scan.noted_bytes -= noted.len() + NOTE_BYTES;
            }
        })
    }

    fn scan_large(&self, scan: &StoredScan, from: &[u8], window: &mut Window) -> Attempt<()> {
        let index = self.index()?;
        self.with_scratch(|records| {
            index.descent().window_if_held(
                Edge::From(from),
                &mut |_| true,
                records,
                &mut |records| {
                    for i in records.lower_bound(from)..records.len() {
                        if records.entry(i).large.is_some() {
                            window.push_from(records, i);
                        }
                    }
                    // While the leaf is latched: from now on whoever becomes large here is noted.
                    let next = records.high.clone();
                    if next.as_ref().is_some_and(|next| next.as_slice() <= from) {
                        let what = "a leaf of the index of this heap ends where it begins";
                        return Err(
                            Error::corrupt("data", None, format!("{}: {what}", self.root)).into(),
                        );
                    }
                    self.scans.with(scan, |scan| scan.large = next)
                },
            )
        })
    }

    fn scan_page(&self, scan: &StoredScan, pid: PageId, window: &mut Window) -> Attempt<()> {
        let to_come = || self.scans.with(scan, |scan| scan.is_to_come(pid));
        let page = match self.store.shared(pid) {
            Err(Retry::Conflict) if !self.store.exists(pid) => {
                // Who frees a page says so before.
                return match to_come()? {
                    false => Ok(()),
                    true => Err(Error::corrupt("data", None, format!("{pid}: {NOT_THERE}")).into()),
                };
            }
            other => other?,
        };
        if !to_come()? {
            return Ok(());
        }
        let rows = Rows::open(page.view()).map_err(|_| page.torn(NO_ROWS))?;
        if rows.owner() != Ok(self.root) {
            return Err(page.torn(NO_ROWS));
        }
        for i in 0..rows.slots() {
            if rows.slot(i).map_err(|_| page.torn(NO_ROWS))?.free {
                continue;
            }
            let copied = rows.row(i).and_then(|row| {
                window.push(
                    Flags::NONE,
                    None,
                    |out| rows.view.append_to(row.key_at, row.key_len, out),
                    |out| rows.view.append_to(row.value_at(), row.value_len(), out),
                )
            });
            copied.map_err(|_| page.torn(NO_ROWS))?;
        }
        self.scans.with(scan, |scan| scan.set(pid, false))
    }

    /// Whether a row of this side may go to a page, which is latched.
    pub(crate) fn is_on_side(&self, pid: PageId, side: Side) -> bool {
        self.scans.side_of(pid) == side || planted(Fault::SidesMixed)
    }
}

fn push(
    window: &mut Window,
    flags: Flags,
    large: Option<terrace_access::LargeRef>,
    key: &[u8],
    value: &[u8],
) {
    let copy = |bytes: &[u8], out: &mut Vec<u8>| {
        out.extend_from_slice(bytes);
        Ok::<_, std::convert::Infallible>(())
    };
    let Ok(()) = window.push(flags, large, |out| copy(key, out), |out| copy(value, out));
}
