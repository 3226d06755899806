//! Ways to a bucket: optimistic first, with latches when that fails too often.
//!
//! Invariants: what the directory says of a hash is believed once every page on the way has been
//! validated after the version of the next one was taken, so a bucket that was reached is the one
//! that holds the hash; if its span says otherwise, it is damaged. Who waits for latches takes them
//! in this order: the pages of a bucket from the first on, the root, pages of the directory downwards
//! and to the right. A second bucket is only tried. A reader who waits holds no page of the directory
//! while it waits for a bucket, and looks again afterwards whether it is the right one.

use terrace_access::{Attempt, Retry, WriteGuard};
use terrace_base::sync::spin_loop;
use terrace_base::{Error, PageId};
use terrace_pages::{Exclusive, Optimistic, Shared};

use super::HashTable;
use super::directory::{Entries, NO_ROOT, Root, entry_at, entry_bits};
use super::layout::{Page, Span};

/// Optimistic attempts before latches are taken, so that no caller starves.
pub(crate) const PATIENCE: u32 = 8;
/// Times that a bucket which was waited for may turn out to be the wrong one by then.
const ROUNDS: u32 = 1000;
/// Most overflow pages of a bucket. Only keys of equal hashes, or records of nearly a page, need
/// more than one or two.
const MOST_OVERFLOW: usize = 1 << 16;

const NO_DIRECTORY: &str = "this is not the page of the directory that it should be";
pub(crate) const NO_BUCKET: &str =
    "this is not a page of a bucket, or its header contradicts itself";
pub(crate) const BAD_RECORD: &str =
    "a slot or record of this bucket reaches past the page or belongs elsewhere";
const OTHER_SPAN: &str =
    "this bucket is of another table, or does not hold the hashes that the directory says";
const NO_ENTRY: &str = "an entry of the directory names no page although it should";
pub(crate) const TOO_HIGH: &str =
    "the directory of this hash table is higher than its grains call for";
const BAD_CHAIN: &str = "the overflow pages of this bucket are not a chain of such pages";

/// A page that contradicts what it should be.
pub(crate) fn wrong(pid: PageId, what: impl std::fmt::Display) -> Error {
    Error::corrupt("data", None, format!("{pid}, of a hash table: {what}"))
}

/// Opens a latched page as one of a bucket: bytes that make no sense are damage.
macro_rules! page_of {
    ($guard:expr) => {
        $crate::hash::layout::Page::open($guard.view())
            .map_err(|_| $guard.torn($crate::hash::find::NO_BUCKET))
    };
}
pub(crate) use page_of;

/// Opens a latched page as a root.
macro_rules! root_of {
    ($guard:expr) => {
        $crate::hash::directory::Root::open($guard.view())
            .map_err(|_| $guard.torn($crate::hash::directory::NO_ROOT))
    };
}
pub(crate) use root_of;

/// Turns bytes that make no sense into what they mean under this guard.
macro_rules! sound {
    ($guard:expr, $seen:expr) => {
        $seen.map_err(|_| $guard.torn($crate::hash::find::BAD_RECORD))
    };
}
pub(crate) use sound;

/// Tells when a chain of pages comes back to one that it has been to: the page that it was at after
/// as many steps as the last power of two is remembered.
pub(crate) struct Chain {
    steps: usize,
    mark: PageId,
}

impl Chain {
    pub fn new(first: PageId) -> Chain {
        Chain {
            steps: 0,
            mark: first,
        }
    }

    /// Goes on to the next page; returns whether that can be right.
    pub fn goes_on(&mut self, next: PageId) -> bool {
        if next == self.mark || self.steps == MOST_OVERFLOW {
            return false;
        }
        self.steps += 1;
        if self.steps.is_power_of_two() {
            self.mark = next;
        }
        true
    }
}

/// A bucket with its overflow pages, all under exclusive latches.
pub(crate) struct Held<'d> {
    /// The first page, then the overflow pages in the order of their chain; never empty.
    pub pages: Vec<Exclusive<'d>>,
    pub span: Span,
}

/// A way that ended at the first page of a bucket, or at the root of a table that has none.
pub(crate) enum Way<'a> {
    Bucket(Optimistic<'a>, Page<'a>),
    Empty(Optimistic<'a>),
}

impl HashTable {
    /// Whether this is the first page of the bucket of this hash.
    #[inline]
    fn is_bucket_of(&self, page: &Page<'_>, hash: u64) -> bool {
        !page.overflow && page.span.covers(hash) && page.table == self.table()
    }

    /// Whether this is an overflow page of the bucket of these hashes.
    fn is_overflow_of(&self, page: &Page<'_>, span: Span) -> bool {
        page.overflow && page.span == span && page.table == self.table()
    }

    /// The same as [`HashTable::way`] where the bucket is where it was lately; see [`super::known`]. O(1).
    #[inline]
    pub(crate) fn known_way(&self, hash: u64) -> Option<(Optimistic<'_>, Page<'_>)> {
        let (frame, pid) = self.known.get(hash)?;
        let bucket = self.store.optimistic_in(frame, pid)?;
        let page = Page::open(bucket.view()).ok()?;
        // Buckets of tables whose roots have larger numbers name them all alike.
        let is_ours = self.is_bucket_of(&page, hash) && page.table != u32::MAX;
        is_ours.then_some((bucket, page))
    }

    /// Goes to the first page of the bucket that holds `hash`, without latches. It was right when
    /// its version was taken; what is read of it, its header among it, is still to be validated.
    /// O(height).
    #[inline]
    pub(crate) fn way(&self, hash: u64) -> Attempt<Way<'_>> {
        let mut above = self.store.optimistic_at(self.root, 0)?;
        let Ok(root) = Root::open(above.view()) else {
            return Err(above.torn(NO_ROOT));
        };
        let bits = entry_bits(self.store.page_bytes());
        let mask = (1 << bits) - 1;
        let index = root.grains.index(hash);
        // Says only how many places are worth while; a root that is torn is found out below.
        let buckets = root.buckets().unwrap_or(0);
        let mut height = root.height;
        let Ok(mut next) = root.entries.get((index >> (bits * height)) as usize & mask) else {
            return Err(above.torn(NO_ROOT));
        };
        while height > 0 {
            height -= 1;
            let i = (index >> (bits * height)) as usize & mask;
            let page = self.store.optimistic_at(next, entry_at(false, i));
            above.validate()?;
            above = page?;
            let seen = Entries::open(above.view(), height).and_then(|entries| entries.get(i));
            next = match seen {
                Ok(next) => next,
                Err(_) => return Err(above.torn(NO_DIRECTORY)),
            };
        }
        if next.is_none() {
            above.validate()?;
            // With more partitions than one there is a bucket for each.
            return if above.pid() == self.root && root.grains.count() == 1 {
                Ok(Way::Empty(above))
            } else {
                Err(above.torn(NO_ENTRY))
            };
        }
        let bucket = self.store.optimistic(next);
        above.validate()?;
        let bucket = bucket?;
        match Page::open(bucket.view()) {
            Ok(page) if self.is_bucket_of(&page, hash) => {
                self.known.note(hash, bucket.frame(), next, buckets);
                Ok(Way::Bucket(bucket, page))
            }
            Ok(_) => Err(bucket.torn(OTHER_SPAN)),
            Err(_) => Err(bucket.torn(NO_BUCKET)),
        }
    }

    /// What the directory says of a hash, by shared latches from page to page, all of which are held to
    /// the end: so an entry that names a page on the way to itself is damage, and is not waited for.
    /// `held` is latched by the caller, who took it for a bucket.
    fn entry(&self, hash: u64, held: Option<PageId>) -> Attempt<PageId> {
        let mut above = self.store.shared(self.root)?;
        let root = root_of!(above)?;
        let bits = entry_bits(self.store.page_bytes());
        let mask = (1 << bits) - 1;
        let index = root.grains.index(hash);
        let is_empty = root.height == 0 && root.grains.count() == 1;
        let mut height = root.height;
        let mut next = sound!(
            above,
            root.entries.get((index >> (bits * height)) as usize & mask)
        )?;
        let mut way = Vec::new();
        while height > 0 {
            height -= 1;
            if held == Some(next) {
                // It has become a page of the directory before the caller had it.
                return Err(Retry::Conflict);
            }
            if way.iter().any(|page: &Shared<'_>| page.pid() == next) {
                return Err(above.torn(NO_ENTRY));
            }
            let page = self.below(above.pid(), next, || self.store.shared(next))?;
            let seen = Entries::open(page.view(), height)
                .and_then(|entries| entries.get((index >> (bits * height)) as usize & mask));
            next = seen.map_err(|_| page.torn(NO_DIRECTORY))?;
            way.push(std::mem::replace(&mut above, page));
        }
        let circular = above.pid() == next || way.iter().any(|page| page.pid() == next);
        if circular || next.is_none() && !is_empty {
            return Err(above.torn(NO_ENTRY));
        }
        Ok(next)
    }

    /// Gets a page that a latched one names: it exists, so a conflict passes. A page that names
    /// itself would be waited for without end, and is damaged.
    pub(crate) fn below<T>(
        &self,
        above: PageId,
        pid: PageId,
        get: impl Fn() -> Attempt<T>,
    ) -> Attempt<T> {
        if pid != above {
            loop {
                match get() {
                    Err(Retry::Conflict) if self.store.exists(pid) => self.store.back_off()?,
                    Err(Retry::Conflict) => break,
                    other => return other,
                }
            }
        }
        Err(self.damaged(above, NO_ENTRY))
    }

    /// Refuses to wait for a page that is held already, which only damage can ask for.
    pub(crate) fn not_held<'p, 'd: 'p>(
        &self,
        above: PageId,
        pid: PageId,
        held: impl IntoIterator<Item = &'p Exclusive<'d>>,
    ) -> Attempt<()> {
        match held.into_iter().any(|page| page.pid() == pid) {
            true => Err(self.damaged(above, NO_ENTRY)),
            false => Ok(()),
        }
    }

    /// The first page of the bucket that holds `hash`, under its shared latch; the root's page if
    /// there is no bucket yet.
    pub(crate) fn bucket_shared(&self, hash: u64) -> Attempt<(Shared<'_>, bool)> {
        for _ in 0..PATIENCE {
            let way = self.way(hash).and_then(|way| match way {
                Way::Bucket(page, _) => Ok((page.upgrade_shared()?, true)),
                Way::Empty(root) => Ok((root.upgrade_shared()?, false)),
            });
            match way {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        self.waited(hash, |pid| self.store.shared(pid))
            .and_then(|page| match page {
                Some(page) => Ok((page, true)),
                None => Ok((self.store.shared(self.root)?, false)),
            })
            .and_then(|(page, is_bucket)| {
                if is_bucket {
                    let seen = page_of!(page)?;
                    // What the directory says of it does not change while it is latched.
                    return match self.is_bucket_of(&seen, hash) {
                        true => Ok((page, true)),
                        false => Err(page.torn(OTHER_SPAN)),
                    };
                }
                // Another thread may have made the first bucket since.
                match self.is_empty(&page)? {
                    true => Ok((page, false)),
                    false => Err(Retry::Conflict),
                }
            })
    }

    fn is_empty(&self, root: &Shared<'_>) -> Attempt<bool> {
        let seen = root_of!(root)?;
        let first = sound!(root, seen.entries.get(0))?;
        Ok(seen.grains.count() == 1 && first.is_none())
    }

    /// Waits for the latch of the bucket that holds `hash`, until it is the right one.
    fn waited<T>(&self, hash: u64, latch: impl Fn(PageId) -> Attempt<T>) -> Attempt<Option<T>> {
        for _ in 0..ROUNDS {
            let pid = self.entry(hash, None)?;
            if pid.is_none() {
                return Ok(None);
            }
            let page = match latch(pid) {
                Err(Retry::Conflict) => {
                    // An entry changes before its bucket is freed.
                    if !self.store.exists(pid)
                        && self.entry(hash, None)? == pid
                        && !self.store.exists(pid)
                    {
                        return Err(self.damaged(pid, NO_ENTRY));
                    }
                    self.store.back_off()?;
                    continue;
                }
                other => other?,
            };
            if self.entry(hash, Some(pid))? == pid {
                return Ok(Some(page));
            }
        }
        Err(Retry::Conflict)
    }

    /// The bucket that holds `hash`, under exclusive latches; `None` when there is no bucket yet.
    /// `patient`: waits for the first page's latch instead of giving up on a conflict.
    pub(crate) fn latch<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        hash: u64,
        patient: bool,
    ) -> Attempt<Option<Held<'d>>> {
        self.latch_beside(door, hash, patient, &[])
    }

    /// The same while the pages of another bucket are held, which are not to be waited for.
    pub(crate) fn latch_beside<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        hash: u64,
        patient: bool,
        beside: &[Exclusive<'_>],
    ) -> Attempt<Option<Held<'d>>> {
        let first = if patient {
            self.waited(hash, |pid| self.store.exclusive(pid, door))?
        } else {
            match self.way(hash)? {
                Way::Bucket(page, _) => Some(page.upgrade_exclusive(door)?),
                Way::Empty(_) => None,
            }
        };
        let Some(first) = first else { return Ok(None) };
        let (span, mut next) = {
            let page = page_of!(first)?;
            if !self.is_bucket_of(&page, hash) {
                return Err(first.torn(OTHER_SPAN));
            }
            (page.span, page.next)
        };
        let mut pages = vec![first];
        while !next.is_none() {
            // A chain that comes back to itself would be waited for without end.
            if pages.len() > MOST_OVERFLOW
                || next == self.root
                || pages.iter().chain(beside).any(|page| page.pid() == next)
            {
                return Err(self.damaged(pages[0].pid(), BAD_CHAIN));
            }
            // Whoever else latches this page holds the first one, too.
            let page = match self.store.exclusive(next, door) {
                Err(Retry::Conflict) if !self.store.exists(next) => {
                    return Err(self.damaged(pages[0].pid(), BAD_CHAIN));
                }
                other => other?,
            };
            next = {
                let seen = page_of!(page)?;
                if !self.is_overflow_of(&seen, span) {
                    return Err(page.torn(BAD_CHAIN));
                }
                seen.next
            };
            pages.push(page);
        }
        Ok(Some(Held { pages, span }))
    }

    /// Calls `each` with the overflow pages of a bucket whose first page is latched.
    pub(crate) fn overflow_shared(
        &self,
        first: &Shared<'_>,
        each: &mut dyn FnMut(&Shared<'_>) -> Attempt<()>,
    ) -> Attempt<()> {
        let seen = page_of!(first)?;
        let (span, mut next) = (seen.span, seen.next);
        let mut chain = Chain::new(first.pid());
        while !next.is_none() {
            if !chain.goes_on(next) {
                return Err(first.torn(BAD_CHAIN));
            }
            let page = self.below(first.pid(), next, || self.store.shared(next))?;
            let seen = page_of!(page)?;
            if !self.is_overflow_of(&seen, span) {
                return Err(page.torn(BAD_CHAIN));
            }
            each(&page)?;
            next = seen.next;
        }
        Ok(())
    }

    /// Calls `each` with the overflow pages of a bucket that is being read without latches, each
    /// validated after, until it answers; the first page is validated with every one.
    #[cold]
    pub(crate) fn overflow_optimistic<T>(
        &self,
        first: &Optimistic<'_>,
        (mut next, span): (PageId, Span),
        each: &mut dyn FnMut(&Optimistic<'_>, Page<'_>) -> Attempt<Option<T>>,
    ) -> Attempt<Option<T>> {
        let mut chain = Chain::new(first.pid());
        while !next.is_none() {
            if !chain.goes_on(next) {
                return Err(first.torn(BAD_CHAIN));
            }
            let page = self.store.optimistic(next);
            first.validate()?;
            let page = page?;
            let seen = match Page::open(page.view()) {
                Ok(seen) if self.is_overflow_of(&seen, span) => seen,
                _ => return Err(page.torn(BAD_CHAIN)),
            };
            if let Some(answer) = each(&page, seen)? {
                return Ok(Some(answer));
            }
            next = seen.next;
            page.validate()?;
            first.validate()?;
        }
        Ok(None)
    }

    /// A page that contradicts what it should be.
    #[cold]
    pub(crate) fn damaged(&self, pid: PageId, what: &str) -> Retry {
        Retry::Fail(wrong(pid, what))
    }
}
