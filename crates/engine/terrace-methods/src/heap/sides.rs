//! What is known of scans of all rows: which pages are to come for which of them. See [`super::scans`].

use std::collections::VecDeque;

use terrace_access::{Attempt, StoredScan};
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_base::{Error, PageId};

/// Scans at work at the same time, at most: each doubles the number of sides, and a side may have a
/// page that is not full.
const MOST: usize = 4;
/// How many sides there are.
pub(crate) const SIDES: usize = 1 << MOST;
/// Bytes of keys that a scan notes between two of its steps. Each is that of a row that became a
/// value of several kilobytes.
pub(super) const NOTED_BYTES: usize = 1 << 20;
/// What a noted key takes beside its bytes.
pub(super) const NOTE_BYTES: usize = 32;

/// Which scans a page is to come for: a bit for each.
pub(crate) type Side = u8;

/// The scans of all rows that are under way.
#[derive(Default)]
pub(crate) struct Scans {
    /// How many there are: mostly none, and then no caller looks further.
    count: AtomicUsize,
    all: Mutex<[Option<Scan>; MOST]>,
    begun: AtomicUsize,
}

pub(super) struct Scan {
    id: usize,
    /// The next page of the directory whose pages are to be taken in. Until all are, every page is
    /// to come.
    pub(super) listing: Option<PageId>,
    /// Pages of the directory so far.
    pub(super) lists: u64,
    /// The pages that are to come, a bit for each page number.
    pages: Vec<u64>,
    /// Bytes of the budget that they take.
    taken: u64,
    /// No word of these before this one has a bit.
    first: usize,
    /// Large values with keys from here on are to come; `None` once all have come.
    pub(super) large: Option<Vec<u8>>,
    /// Keys of rows that became large before they had come.
    pub(super) noted: VecDeque<Vec<u8>>,
    pub(super) noted_bytes: usize,
}

/// What a scan has to do next.
pub(super) enum Next {
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

pub(super) fn bytes_of(pages: &[u64]) -> u64 {
    size_of_val(pages) as u64
}

impl Scan {
    pub(super) fn set(&mut self, pid: PageId, to_come: bool) {
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

    pub(super) fn is_to_come(&self, pid: PageId) -> bool {
        let word = self.pages.get(pid.0 as usize / 64);
        self.listing.is_some() || word.is_some_and(|word| word >> (pid.0 % 64) & 1 == 1)
    }

    /// Whether a large value of this key is to come.
    fn is_large_to_come(&self, key: &[u8]) -> bool {
        self.large
            .as_ref()
            .is_some_and(|large| key >= large.as_slice())
    }

    pub(super) fn next(&mut self) -> Attempt<Next> {
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

    /// A page was made, which no other thread knows yet; the page of the directory that is going to list
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
    pub(super) fn begin(&self, root: PageId, pages: Vec<u64>) -> Option<StoredScan> {
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
    pub(super) fn end(&self, scan: &StoredScan) -> Option<(Side, u64)> {
        let mut all = self.all.lock();
        let is_it = |slot: &Option<Scan>| slot.as_ref().is_some_and(|one| one.id == scan.0);
        let at = all.iter().position(is_it)?;
        let taken = all[at].take()?.taken;
        self.count.fetch_sub(1, Ordering::Relaxed);
        Some((1 << at, taken))
    }

    pub(super) fn with<T>(&self, scan: &StoredScan, f: impl FnOnce(&mut Scan) -> T) -> Attempt<T> {
        let mut all = self.all.lock();
        let mut scans = all.iter_mut().flatten();
        let found = scans.find(|one| one.id == scan.0);
        let found = found.ok_or_else(|| Error::invalid("this scan has ended"))?;
        Ok(f(found))
    }
}
