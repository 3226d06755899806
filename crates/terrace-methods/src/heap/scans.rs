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

use std::collections::VecDeque;

use terrace_access::{AccessMethod, Attempt, Edge, Flags, Interrupt, StoredScan, Touch, Window};
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_base::{Error, PageId};

use super::Heap;
use super::directory::NO_DIRECTORY;
use super::layout::Rows;
use super::page::NO_ROWS;
use crate::fault::{Fault, planted};

/// Scans at work at the same time, at most: each doubles the number of sides, and a side may have a
/// page that is not full.
const MOST: usize = 4;
/// How many sides there are.
pub(crate) const SIDES: usize = 1 << MOST;
/// Bytes of keys that a scan notes between two of its steps. Each is that of a row that became a
/// value of several kilobytes.
const NOTED_BYTES: usize = 1 << 20;
/// What a noted key takes beside its bytes.
const NOTE_BYTES: usize = 32;
/// What is wrong with a page that is to come and is none of the heap's.
const NOT_THERE: &str = "the directory of this heap lists a page that is free";

/// Which scans a page is to come for: a bit for each.
pub(crate) type Side = u8;

/// See the module's text.
#[derive(Default)]
pub(crate) struct Scans {
    /// How many there are: mostly none, and then nobody looks further.
    count: AtomicUsize,
    all: Mutex<[Option<Scan>; MOST]>,
    begun: AtomicUsize,
}

struct Scan {
    id: usize,
    /// The next page of the directory whose pages are to be taken in. Until all are, every page is
    /// to come.
    listing: Option<PageId>,
    /// Pages of the directory so far.
    lists: u64,
    /// The pages that are to come, a bit for each page number.
    pages: Vec<u64>,
    /// Bytes of the budget that they take.
    taken: u64,
    /// No word of these before this one has a bit.
    first: usize,
    /// Large values with keys from here on are to come; `None` once all have come.
    large: Option<Vec<u8>>,
    /// Keys of rows that became large before they had come.
    noted: VecDeque<Vec<u8>>,
    noted_bytes: usize,
}

/// What a scan has to do next.
enum Next {
    /// Take in the heap pages that this page of the directory lists.
    List(PageId),
    /// Look up what became large meanwhile.
    Noted(Vec<u8>),
    /// Look for large values from here on.
    Large(Vec<u8>),
    /// Copy this page.
    Page(PageId),
    /// Nothing.
    Done,
}

fn bytes_of(pages: &[u64]) -> u64 {
    size_of_val(pages) as u64
}

impl Scan {
    fn set(&mut self, pid: PageId, to_come: bool) {
        let (word, bit) = (pid.0 as usize / 64, pid.0 % 64);
        if to_come && word >= self.pages.len() {
            self.pages.resize(word + 1, 0);
        }
        if to_come {
            self.first = self.first.min(word);
        }
        if let Some(word) = self.pages.get_mut(word) {
            *word = *word & !(1 << bit) | u64::from(to_come) << bit;
        }
    }

    fn is_to_come(&self, pid: PageId) -> bool {
        let word = self.pages.get(pid.0 as usize / 64);
        self.listing.is_some() || word.is_some_and(|word| word >> (pid.0 % 64) & 1 == 1)
    }

    /// Whether a large value of this key is to come.
    fn is_large_to_come(&self, key: &[u8]) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| key >= large.as_slice())
    }

    fn next(&mut self) -> Attempt<Next> {
        if let Some(at) = self.listing {
            return Ok(Next::List(at));
        }
        if self.noted_bytes > NOTED_BYTES {
            let what = "too many rows became large values between two steps of this scan; begin it again, or \
                        scan the table in the order of its keys";
            return Err(Error::invalid(what).into());
        }
        if let Some(key) = self.noted.front() {
            return Ok(Next::Noted(key.clone()));
        }
        if let Some(from) = &self.large {
            return Ok(Next::Large(from.clone()));
        }
        while let Some(0) = self.pages.get(self.first) {
            self.first += 1;
        }
        Ok(self.pages.get(self.first).map_or(Next::Done, |word| {
            let bit = u64::from(word.trailing_zeros());
            Next::Page(PageId(self.first as u64 * 64 + bit))
        }))
    }
}

impl Scans {
    fn any(&self) -> bool {
        // Who has latched a page after a scan has sees that there is one; to who was earlier it
        // makes no difference.
        self.count.load(Ordering::Relaxed) > 0
    }

    /// The scans for which `is_to_come` holds.
    fn side(&self, is_to_come: impl Fn(&Scan) -> bool) -> Side {
        if !self.any() {
            return 0;
        }
        let all = self.all.lock();
        let bits = all.iter().enumerate();
        bits.fold(0, |side, (i, scan)| {
            side | Side::from(scan.as_ref().is_some_and(&is_to_come)) << i
        })
    }

    /// The side of a page; the caller has it latched, or takes the answer for a hint.
    pub fn side_of(&self, pid: PageId) -> Side {
        self.side(|scan| scan.is_to_come(pid))
    }

    /// The side of a row that comes new.
    pub fn side_of_newcomer(&self) -> Side {
        self.side(|scan| scan.listing.is_some())
    }

    /// The side of a row that was a large value; the caller has its index leaf latched.
    pub fn side_of_large(&self, key: &[u8]) -> Side {
        self.side(|scan| scan.listing.is_some() || scan.is_large_to_come(key))
    }

    fn change(&self, mut change: impl FnMut(usize, &mut Scan)) {
        if self.any() {
            let mut all = self.all.lock();
            let scans = all.iter_mut().enumerate();
            scans.for_each(|(i, scan)| scan.iter_mut().for_each(|scan| change(i, scan)));
        }
    }

    /// A page was made, which nobody else knows yet; the page of the directory that is going to list
    /// it is latched.
    pub fn made(&self, pid: PageId, side: Side) {
        self.change(|i, scan| scan.set(pid, scan.listing.is_some() || side >> i & 1 == 1));
    }

    /// A page is about to be freed; the caller has it latched.
    pub fn gone(&self, pid: PageId) {
        self.change(|_, scan| scan.set(pid, false));
    }

    /// A row leaves this page, because it becomes a large value. The caller has the page latched, and
    /// its index leaf.
    pub fn became_large(&self, pid: PageId, key: &[u8]) {
        self.change(|_, scan| {
            let listed = scan.listing.is_none();
            if listed && scan.is_to_come(pid) && !scan.is_large_to_come(key) {
                // Past the limit it is known that something is missing, and need not be what.
                if scan.noted_bytes <= NOTED_BYTES {
                    scan.noted.push_back(key.to_vec());
                }
                scan.noted_bytes += key.len() + NOTE_BYTES;
            }
        });
    }

    /// `pages` has a bit for each page number that there is.
    fn begin(&self, root: PageId, pages: Vec<u64>) -> Option<StoredScan> {
        let mut all = self.all.lock();
        let free = all.iter_mut().find(|scan| scan.is_none())?;
        let id = self.begun.fetch_add(1, Ordering::Relaxed);
        *free = Some(Scan {
            id,
            listing: Some(root),
            lists: 0,
            taken: bytes_of(&pages),
            first: pages.len(),
            pages,
            large: Some(Vec::new()),
            noted: VecDeque::new(),
            noted_bytes: 0,
        });
        self.count.fetch_add(1, Ordering::Relaxed);
        Some(StoredScan(id))
    }

    /// Returns the bit of its side, and the bytes that it took.
    fn end(&self, scan: &StoredScan) -> Option<(Side, u64)> {
        let mut all = self.all.lock();
        let is_it = |slot: &Option<Scan>| slot.as_ref().is_some_and(|one| one.id == scan.0);
        let at = all.iter().position(is_it)?;
        let taken = all[at].take()?.taken;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((1 << at, taken))
    }

    fn with<T>(&self, scan: &StoredScan, f: impl FnOnce(&mut Scan) -> T) -> Attempt<T> {
        let mut all = self.all.lock();
        let mut scans = all.iter_mut().flatten();
        let found = scans.find(|one| one.id == scan.0);
        let found = found.ok_or_else(|| Error::invalid("this scan has ended"))?;
        Ok(f(found))
    }
}

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
            Err(Interrupt::Conflict) if !self.store.exists(at) => {
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
            index.window_if_held(Edge::From(from), &mut |_| true, records, &mut |records| {
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
            })
        })
    }

    fn scan_page(&self, scan: &StoredScan, pid: PageId, window: &mut Window) -> Attempt<()> {
        let to_come = || self.scans.with(scan, |scan| scan.is_to_come(pid));
        let page = match self.store.shared(pid) {
            Err(Interrupt::Conflict) if !self.store.exists(pid) => {
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
