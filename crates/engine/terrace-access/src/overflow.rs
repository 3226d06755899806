//! Large values: chains of pages of their own.
//!
//! ```text
//!   0  16 bytes of the page store
//!  16  u8   tag 0xB2, 3 bytes 0       20  u32  bytes of the value in this page
//!  24  u64  next page, or none        32  u64  stamp of the chain
//!  40  u32  number of the page in the chain, from 0
//!  44  u32  length of the whole value
//!  48  the bytes
//! ```
//!
//! Invariants: all pages of a chain but the last are full; all carry the same stamp, so a reader
//! that wanders into another chain (its own was freed under it and the page numbers were used
//! again) finds out. A chain has one owner, the record that refers to it. A chain is written from
//! its end, so that every page is complete, with the number of the next one, when it is first
//! unlatched. From before its first page is allocated until it is linked the writer holds the
//! store's guard for large values, and so does whoever frees a chain, from before it is unlinked
//! until the last page is free: so a checkpoint never sees a chain that nothing owns.

use terrace_base::{Error, MAX_VALUE_BYTES, PageId, Result};
use terrace_pages::{Class, PAGE_HEADER_BYTES, PageStore, View};

use crate::{Attempt, LargeRef, Retry, WriteGuard};

const TAG: u8 = 0xB2;
const USED: usize = 20;
const NEXT: usize = 24;
const STAMP: usize = 32;
const NUMBER: usize = 40;
const TOTAL: usize = 44;
const DATA: usize = 48;

/// Pages written or freed in one entry of the gate: well below a millisecond.
const PAGES_AT_ONCE: usize = 8;

/// Bytes of a value that a page of a chain holds.
pub const fn bytes_per_page(page_bytes: usize) -> usize {
    page_bytes - DATA
}

/// What a page of a chain says of itself.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Link {
    used: usize,
    next: PageId,
    stamp: u64,
    number: u32,
    total: u32,
}

fn link_of(view: View<'_>) -> Option<Link> {
    let link = Link {
        used: view.u32(USED).ok()? as usize,
        next: PageId(view.u64(NEXT).ok()?),
        stamp: view.u64(STAMP).ok()?,
        number: view.u32(NUMBER).ok()?,
        total: view.u32(TOTAL).ok()?,
    };
    let tagged = view.u8(PAGE_HEADER_BYTES).ok()? == TAG;
    (tagged && link.used <= view.len().checked_sub(DATA)?).then_some(link)
}

fn broken(pid: PageId, what: &str) -> Error {
    Error::corrupt("data", None, format!("{pid}, of a large value: {what}"))
}

/// Writes a value as a chain. Blocking: waits for frames between entries of the gate, so the caller
/// holds nothing but [`PageStore::large_guard`], until the reference is stored in a record.
/// O(bytes).
///
/// # Errors
/// `ValueTooLong`, and those of the store; then nothing is left behind.
pub fn write(store: &PageStore, value: &[u8]) -> Result<LargeRef> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong {
            len: value.len(),
            limit: MAX_VALUE_BYTES,
        });
    }
    let mut chain = Writing {
        store,
        total: value.len() as u32,
        next: PageId::NONE,
        stamp: 0,
    };
    let per_page = bytes_per_page(store.page_bytes());
    let mut pieces: Vec<(u32, &[u8])> = (0..).zip(value.chunks(per_page)).collect();
    if pieces.is_empty() {
        pieces.push((0, value));
    }
    if chains_are_crossed() && pieces.len() > 2 {
        pieces.swap(0, 1);
    }
    while !pieces.is_empty() {
        if let Err(e) = chain.write_some(&mut pieces) {
            if !chain.next.is_none() {
                // What was written is freed again; if that fails too, the pages are lost until
                // the next verification, but the first error is the one to tell.
                let _ = free(
                    store,
                    LargeRef {
                        head: chain.next,
                        len: chain.total,
                        gone: 0,
                    },
                );
            }
            return Err(e);
        }
    }
    Ok(LargeRef {
        head: chain.next,
        len: chain.total,
        gone: 0,
    })
}

/// As [`write()`], for a caller who is inside the gate already: no cut can begin meanwhile, so no
/// guard is needed. Waits inside for frames if it must.
///
/// # Errors
/// As [`write()`].
pub fn write_inside(store: &PageStore, door: &WriteGuard<'_>, value: &[u8]) -> Result<LargeRef> {
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong {
            len: value.len(),
            limit: MAX_VALUE_BYTES,
        });
    }
    let mut chain = Writing {
        store,
        total: value.len() as u32,
        next: PageId::NONE,
        stamp: 0,
    };
    let per_page = bytes_per_page(store.page_bytes());
    let pieces = value.len().div_ceil(per_page).max(1);
    for number in (0..pieces).rev() {
        let piece = &value[number * per_page..value.len().min((number + 1) * per_page)];
        while let Err(interrupt) = chain.write_one(door, number as u32, piece) {
            if let Err(e) = store.settle(interrupt) {
                if !chain.next.is_none() {
                    let large = LargeRef {
                        head: chain.next,
                        len: chain.total,
                        gone: 0,
                    };
                    // The first error is the one to tell.
                    let _ = free_inside(store, door, large);
                }
                return Err(e);
            }
        }
    }
    Ok(LargeRef {
        head: chain.next,
        len: chain.total,
        gone: 0,
    })
}

/// A chain that is being written, from its end.
struct Writing<'s> {
    store: &'s PageStore,
    total: u32,
    next: PageId,
    stamp: u64,
}

impl Writing<'_> {
    /// Writes a few of the pieces, from the last, in one entry of the gate.
    fn write_some(&mut self, pieces: &mut Vec<(u32, &[u8])>) -> Result<()> {
        let door = self.store.enter()?;
        for _ in 0..PAGES_AT_ONCE {
            let Some(&(number, piece)) = pieces.last() else {
                break;
            };
            if let Err(interrupt) = self.write_one(&door, number, piece) {
                drop(door);
                return self.store.settle(interrupt);
            }
            pieces.pop();
        }
        Ok(())
    }

    fn write_one(&mut self, door: &WriteGuard<'_>, number: u32, piece: &[u8]) -> Attempt<()> {
        let mut page = self.store.allocate(door, Class::Cold)?;
        let pid = page.pid();
        if self.next.is_none() {
            // No other chain has it, neither now nor later: epochs rise, also over openings.
            let number = self.store.number_large_value() & (u64::MAX >> 24);
            self.stamp = number | u64::from(door.epoch()) << 40;
        }
        let end = DATA + piece.len();
        let out = page.fill(PAGE_HEADER_BYTES, end - PAGE_HEADER_BYTES)?;
        let mut put = |at: usize, bytes: &[u8]| {
            let at = at - PAGE_HEADER_BYTES;
            out[at..at + bytes.len()].copy_from_slice(bytes);
        };
        put(PAGE_HEADER_BYTES, &[TAG, 0, 0, 0]);
        put(USED, &(piece.len() as u32).to_le_bytes());
        put(NEXT, &self.next.0.to_le_bytes());
        put(STAMP, &self.stamp.to_le_bytes());
        put(NUMBER, &number.to_le_bytes());
        put(TOTAL, &self.total.to_le_bytes());
        put(DATA, piece);
        self.next = pid;
        Ok(())
    }
}

/// Where a chain may begin.
#[derive(Clone, Copy, PartialEq, Eq)]
enum From {
    First,
    /// Pages may have been freed in front: a structure that is being cleared gives up a long value over
    /// several steps.
    Any,
}

/// Calls `each` with the number and bytes of every page of a chain, in order; `begun` is asked while
/// the first page cannot change. `Conflict` when that says no, or when the pages are not those of one
/// complete chain of this length, or of what is left of it.
fn walk(
    store: &PageStore,
    large: LargeRef,
    from: From,
    begun: &mut dyn FnMut() -> Attempt<bool>,
    each: &mut dyn FnMut(PageId, View<'_>, usize) -> Attempt<()>,
) -> Attempt<()> {
    let (mut pid, mut left) = (large.head, large.len as usize);
    let (mut stamp, mut freed) = (None, 0);
    let mut before = None;
    // An empty value has a page, too. The numbers in the pages rise, so this ends.
    for number in 0.. {
        let page = loop {
            match store.shared(pid) {
                Ok(page) => break page,
                Err(Retry::Miss(_)) => {
                    let pages = left.div_ceil(bytes_per_page(store.page_bytes()));
                    store.fault_in_chain(pid, before, pages)?;
                }
                // It left memory before its latch was taken.
                Err(Retry::Conflict) if store.exists(pid) => store.back_off()?,
                Err(other) => return Err(other),
            }
        };
        let link = link_of(page.view());
        if let Some(link) = link
            && number == 0
            && from == From::Any
            && let Some(rest) = left_behind(link.number, left, page.view().len())
        {
            (freed, left) = (link.number, rest);
        }
        let link = link.filter(|link| {
            link.number == freed + number
                && link.total == large.len
                && link.used <= left
                && (link.used == left) == link.next.is_none()
                && stamp.is_none_or(|stamp| stamp == link.stamp)
        });
        let Some(link) = link else {
            return Err(Retry::Conflict);
        };
        if number == 0 && !begun()? {
            return Err(Retry::Conflict);
        }
        each(pid, page.view(), link.used)?;
        left -= link.used;
        if link.next.is_none() {
            return Ok(());
        }
        stamp = Some(link.stamp);
        before = Some(pid);
        pid = link.next;
    }
    Err(Retry::Conflict)
}

/// Of a value of `bytes` bytes, how many lie in the page of this number and behind it, if it has that page.
fn left_behind(number: u32, bytes: usize, page_bytes: usize) -> Option<usize> {
    let before = bytes_per_page(page_bytes).checked_mul(number as usize)?;
    (number == 0 || before < bytes).then_some(bytes.saturating_sub(before))
}

/// Reads a value into `out`, replacing what is there. Blocking (it reads pages from disk); the
/// caller holds nothing. O(bytes).
///
/// `begun` is asked once, while the first page cannot change: if the record refers to the chain then,
/// the value is that of the record at that moment, whatever becomes of both while the rest is read. All
/// pages carry the stamp of the first, which no other chain ever has. So a reader of a long value does
/// not start over because of changes that have nothing to do with it.
///
/// # Errors
/// `Conflict` when this is not the chain any more: read the record again. If `still` says that the
/// record refers to the very same chain even so, it is damage.
pub fn read(
    store: &PageStore,
    large: LargeRef,
    out: &mut Vec<u8>,
    begun: &mut dyn FnMut() -> Attempt<bool>,
    still: &mut dyn FnMut() -> Attempt<bool>,
) -> Attempt<()> {
    out.clear();
    // Whoever held the record then may have changed nothing after all: no damage, even if the record
    // still refers to the chain.
    let mut refused = false;
    let mut begun = || {
        let right = begun()?;
        refused |= !right;
        Ok(right)
    };
    let done = walk(
        store,
        large,
        From::First,
        &mut begun,
        &mut |_, view, used| {
            view.append_to(DATA, used, out)?;
            Ok(())
        },
    );
    match done {
        Err(Retry::Conflict) if !refused && still()? => Err(Retry::Fail(broken(
            large.head,
            "its pages are not a complete chain of the length that its record says",
        ))),
        other => other,
    }
}

/// Whether a page of a chain is not in memory. A hint: the chain may be another's by now, and pages may come and go.
/// Waits for nothing.
pub fn lacks_a_page(store: &PageStore, large: LargeRef) -> bool {
    let mut pid = large.head;
    for _ in 0..=large.len as usize / bytes_per_page(store.page_bytes()) {
        pid = match store.shared(pid).map(|page| link_of(page.view())) {
            Ok(Some(link)) if !link.next.is_none() => link.next,
            Err(Retry::Miss(_)) => return true,
            // Its end; or the call that reads it is told.
            Ok(_) | Err(_) => return false,
        };
    }
    false
}

/// Frees a chain that no record refers to any more. Blocking; the caller holds nothing but
/// [`PageStore::large_guard`], since before it unlinked the chain. O(pages), reads them.
///
/// A page that the disk does not give is asked for again a few times. Behind one that cannot be read even so,
/// or is none of this chain, the rest stays: space that nothing owns, which `verify` reports and gets back. An
/// error would be worse: the record is gone already, and the log says so again at every opening.
///
/// # Errors
/// Those of the store otherwise; the rest of the chain is then not freed.
pub fn free(store: &PageStore, large: LargeRef) -> Result<()> {
    let mut left = Left::of(large, store.page_bytes());
    let mut patience = Patience::default();
    while !left.head.is_none() {
        let door = store.enter_to_free()?;
        for _ in 0..PAGES_AT_ONCE {
            if left.head.is_none() {
                break;
            }
            match left.free_first(store, &door) {
                Ok(()) => patience = Patience::default(),
                Err(interrupt) => {
                    drop(door);
                    match left.settle(store, interrupt) {
                        Err(e) if patience.has_some(&e) => std::thread::sleep(patience.pause()),
                        Err(e) if e.is_unreadable() => return Ok(()),
                        other => other?,
                    }
                    break;
                }
            }
        }
    }
    Ok(())
}

/// As [`free`], for a caller who has been inside the gate since before the chain was unlinked.
///
/// # Errors
/// As [`free`].
pub fn free_inside(store: &PageStore, door: &WriteGuard<'_>, large: LargeRef) -> Result<()> {
    let mut left = Left::of(large, store.page_bytes());
    let (mut freed, mut patience) = (0, Patience::default());
    while !left.head.is_none() {
        // A checkpoint that still owes these pages is handed whole copies of them.
        if freed % PAGES_AT_ONCE == 0 {
            store.wait_for_saved();
        }
        freed += 1;
        match left.free_first(store, door) {
            Ok(()) => patience = Patience::default(),
            Err(interrupt) => match left.settle(store, interrupt) {
                // At once: who is inside keeps others waiting.
                Err(e) if patience.has_some(&e) => {}
                Err(e) if e.is_unreadable() => return Ok(()),
                other => other?,
            },
        }
    }
    Ok(())
}

/// What is left of a chain that is being freed.
struct Left {
    head: PageId,
    after: After,
    /// The page that was freed last, and how many there may be yet.
    before: Option<PageId>,
    pages: usize,
}

impl Left {
    fn of(large: LargeRef, page_bytes: usize) -> Left {
        Left {
            head: large.head,
            after: None,
            before: None,
            pages: (large.len as usize).div_ceil(bytes_per_page(page_bytes)),
        }
    }

    fn free_first(&mut self, store: &PageStore, door: &WriteGuard<'_>) -> Attempt<()> {
        let next = free_first(store, door, self.head, &mut self.after)?;
        self.before = Some(std::mem::replace(&mut self.head, next));
        self.pages = self.pages.saturating_sub(1);
        Ok(())
    }

    /// Settles what freeing the first page has met. All pages behind it are needed, too, so several are read
    /// with one request.
    fn settle(&self, store: &PageStore, interrupt: Retry) -> Result<()> {
        match interrupt {
            Retry::Miss(pid) => store.fault_in_chain(pid, self.before, self.pages),
            other => store.settle(other),
        }
    }
}

/// Times that reads of a page of a chain which is given up may fail before the rest of it is left behind: a device that
/// was away for a moment, a path to it that changed. Each page has as many: of a long chain more fail in all.
const MOST_FAILED_READS: u32 = 5;

/// Failed reads of one page so far.
#[derive(Default)]
struct Patience(u32);

impl Patience {
    /// Whether to try again after this error. Damage stays, however often one looks. A full disk may be in the
    /// way of the page that gives up its frame; others free space all the time.
    fn has_some(&mut self, error: &Error) -> bool {
        self.0 += 1;
        let may_pass = matches!(error, Error::Io { .. } | Error::DiskFull { .. });
        may_pass && self.0 <= MOST_FAILED_READS
    }

    /// How long to wait before: 1, 4, 16, 64 and 256 ms, a third of a second in all.
    fn pause(&self) -> std::time::Duration {
        std::time::Duration::from_millis(1 << (2 * self.0.clamp(1, MOST_FAILED_READS) - 2))
    }
}

/// The stamp and the number that the next page of a chain must have, once one of it was seen.
pub type After = Option<(u64, u32)>;

/// Frees the first page of what is left of a chain and returns the next one (or none). `after` goes on
/// from page to page: another value's page must stay, whatever names it. O(1).
///
/// # Errors
/// `Miss` when the page is not in memory; damage when it is not the one of a chain.
pub fn free_first(
    store: &PageStore,
    door: &WriteGuard<'_>,
    head: PageId,
    after: &mut After,
) -> Attempt<PageId> {
    let page = match store.exclusive(head, door) {
        // Only the owner frees it, so it cannot have become free.
        Err(Retry::Conflict) if !store.exists(head) => {
            return Err(broken(head, "it is referred to, but free").into());
        }
        other => other?,
    };
    let Some(link) = link_of(page.view()) else {
        return Err(page.torn("this is not a page of a large value"));
    };
    if after.is_some_and(|after| after != (link.stamp, link.number)) {
        return Err(page.torn("this is a page of another large value than the one that names it"));
    }
    *after = Some((link.stamp, link.number.wrapping_add(1)));
    page.free();
    Ok(link.next)
}

/// Checks the bytes of one page on their own, whatever they are, without a store: for fuzzing. Never
/// panics. O(bytes).
///
/// # Errors
/// What is wrong with them.
pub fn verify_page(page: &[u8]) -> Result<()> {
    let view = View::of(page);
    let link =
        link_of(view).ok_or_else(|| broken(PageId::NONE, "its header contradicts itself"))?;
    let mut bytes = Vec::new();
    view.append_to(DATA, link.used, &mut bytes)
        .map_err(|_| broken(PageId::NONE, "its bytes reach past the page"))
}

/// Checks a chain and calls `page` with every page of it. Blocking. Its first pages may have gone, as they
/// have where clearing has only begun with it: should they be there after all, nothing owns them, and who
/// counts pages finds out.
///
/// # Errors
/// Damage, with the page where the chain begins; what `page` returns.
pub fn verify(
    store: &PageStore,
    large: LargeRef,
    page: &mut dyn FnMut(PageId) -> Result<()>,
) -> Result<()> {
    let mut each = |pid, _: View<'_>, _| Ok(page(pid)?);
    match walk(store, large, From::Any, &mut || Ok(true), &mut each) {
        Ok(()) => Ok(()),
        Err(Retry::Fail(e)) => Err(e),
        Err(_) => Err(broken(
            large.head,
            "its pages are not a complete chain of the length that its record says",
        )),
    }
}

#[cfg(feature = "conformance")]
thread_local! {
    static CROSSED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// A fault for tests: what this thread writes is linked in the wrong order, or not any more.
#[cfg(feature = "conformance")]
pub fn cross_chains(crossed: bool) {
    CROSSED.set(crossed);
}

#[inline(always)]
fn chains_are_crossed() -> bool {
    #[cfg(feature = "conformance")]
    return CROSSED.get();
    #[cfg(not(feature = "conformance"))]
    false
}
