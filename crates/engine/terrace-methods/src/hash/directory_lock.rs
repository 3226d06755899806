//! The directory under latches, to give partitions to another bucket.
//!
//! Invariant: from the moment that a claim is had until it is dropped nothing has to be waited for,
//! so buckets and directory change as one, inside one entry of the gate.

use terrace_access::{Attempt, Retry, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::HashTable;
use super::directory::{Entries, HashPartitions, Root, entry_bits, set_buckets, set_entry};
use super::find::{Held, root_of, sound};
use super::layout::Span;

const CUT_GRAIN: &str = "this bucket does not begin and end where grains do";
pub(crate) const MANY_BUCKETS: &str = "this root of a hash table counts more buckets than grains";

/// The root, and those pages of the directory that have the entries of some partitions, latched.
pub(crate) struct DirectoryLock<'d> {
    pub root: Exclusive<'d>,
    pub grains: HashPartitions,
    bits: u32,
    /// Pages at the bottom of the directory, by their number; none when the root has the entries.
    pages: Vec<(u64, Exclusive<'d>)>,
}

impl HashTable {
    /// Partitions that may change hands at once: as many as a page of the directory has entries. Those of a span
    /// are as many again in some twelve places, so about as many pages come to be dirty under one write guard, not
    /// hundreds, which there would be no space for.
    pub(crate) fn most_moved(&self) -> u64 {
        1 << entry_bits(self.store.page_bytes())
    }

    /// Number of buckets and of partitions. For statistics: they may change at any time.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory.
    pub fn try_size(&self) -> Attempt<(u64, u64)> {
        let (grains, buckets) = self.size()?;
        Ok((buckets, grains.count()))
    }

    /// Which partitions there are, and how many buckets.
    pub(crate) fn size(&self) -> Attempt<(HashPartitions, u64)> {
        let page = self.store.shared(self.root)?;
        let root = root_of!(page)?;
        let buckets = sound!(page, root.buckets())?;
        // The partitions that buckets call for are reckoned from this.
        if buckets > root.grains.count() {
            return Err(page.torn(MANY_BUCKETS));
        }
        Ok((root.grains, buckets))
    }

    /// Latches what is needed to give all partitions of `span` away, while these buckets are held.
    /// `Conflict` when it does not begin and end with partitions any more: those inside of a bucket may be
    /// united at any time, but where a bucket that is held begins or ends a partition does. Also when it has more
    /// than [`HashTable::most_moved`].
    pub(crate) fn claim<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        span: Span,
        held: &[&Held<'_>],
    ) -> Attempt<DirectoryLock<'d>> {
        let root = self.store.exclusive(self.root, door)?;
        let seen = root_of!(root)?;
        let (grains, height) = (seen.grains, seen.height);
        let (begins, ends) = (
            grains.begins_at(span.low),
            grains.span(span.last).last == span.last,
        );
        if !begins || !ends {
            let cut = held.iter().find(|bucket| {
                !begins && bucket.span.low == span.low || !ends && bucket.span.last == span.last
            });
            return Err(match cut {
                Some(bucket) => bucket.pages[0].torn(CUT_GRAIN),
                None => Retry::Conflict,
            });
        }
        if grains.count_in(span) > self.most_moved() {
            return Err(Retry::Conflict);
        }
        let bits = entry_bits(self.store.page_bytes());
        let mut numbers = Vec::new();
        if height > 0 {
            grains.each_in(span, |index| {
                let number = index >> bits;
                if numbers.last() != Some(&number) {
                    numbers.push(number);
                }
            });
            numbers.sort_unstable();
            numbers.dedup();
        }
        let mut pages = Vec::with_capacity(numbers.len());
        for number in numbers {
            let pid = self.page_above(&root, number << bits, held, &pages)?;
            for bucket in held {
                self.not_held(root.pid(), pid, &bucket.pages)?;
            }
            self.not_held(root.pid(), pid, pages.iter().map(|page: &(u64, _)| &page.1))?;
            let page = self.below(root.pid(), pid, || self.store.exclusive(pid, door))?;
            if Entries::open(page.view(), 0).is_err() {
                return Err(page.torn("this is not the page of the directory that it should be"));
            }
            pages.push((number, page));
        }
        Ok(DirectoryLock {
            root,
            grains,
            bits,
            pages,
        })
    }

    /// The page at the bottom of the directory that has this entry, below a latched root of some
    /// height, while these buckets and pages of the directory are held.
    fn page_above(
        &self,
        root: &Exclusive<'_>,
        index: u64,
        held: &[&Held<'_>],
        pages: &[(u64, Exclusive<'_>)],
    ) -> Attempt<PageId> {
        let bits = entry_bits(self.store.page_bytes());
        let mask = (1 << bits) - 1;
        let seen = root_of!(root)?;
        let mut height = seen.height;
        let mut next = sound!(
            root,
            seen.entries.get((index >> (bits * height)) as usize & mask)
        )?;
        while height > 1 {
            height -= 1;
            for bucket in held {
                self.not_held(root.pid(), next, &bucket.pages)?;
            }
            self.not_held(root.pid(), next, pages.iter().map(|page| &page.1))?;
            let page = self.below(root.pid(), next, || self.store.shared(next))?;
            let entry = Entries::open(page.view(), height)
                .and_then(|entries| entries.get((index >> (bits * height)) as usize & mask));
            next = sound!(page, entry)?;
        }
        Ok(next)
    }

    /// One entry of the directory below a latched root, nothing of which is latched, while these
    /// buckets are.
    pub(crate) fn entry_below(
        &self,
        root: &Exclusive<'_>,
        index: u64,
        held: &[&Held<'_>],
    ) -> Attempt<PageId> {
        let mask = (1 << entry_bits(self.store.page_bytes())) - 1;
        let seen: Root<'_> = root_of!(root)?;
        let at = index as usize & mask;
        if seen.height == 0 {
            return sound!(root, seen.entries.get(at));
        }
        let pid = self.page_above(root, index, held, &[])?;
        for bucket in held {
            self.not_held(root.pid(), pid, &bucket.pages)?;
        }
        let page = self.below(root.pid(), pid, || self.store.shared(pid))?;
        let entry = Entries::open(page.view(), 0).and_then(|entries| entries.get(at));
        sound!(page, entry)
    }
}

impl DirectoryLock<'_> {
    /// Gives all partitions of a claimed span to the bucket that begins at this page.
    pub fn assign(&mut self, span: Span, to: PageId) -> Attempt<()> {
        let mut done = Ok(());
        let (grains, bits) = (self.grains, self.bits);
        grains.each_in(span, |index| {
            if done.is_ok() {
                done = self.set(index, bits, to);
            }
        });
        done
    }

    fn set(&mut self, index: u64, bits: u32, to: PageId) -> Attempt<()> {
        let at = index as usize & ((1 << bits) - 1);
        if self.pages.is_empty() {
            return set_entry(&mut self.root, true, at, to);
        }
        let number = index >> bits;
        match self.pages.binary_search_by_key(&number, |page| page.0) {
            Ok(i) => set_entry(&mut self.pages[i].1, false, at, to),
            Err(_) => Err(Retry::Conflict),
        }
    }

    /// Counts buckets that came or went.
    pub fn count(&mut self, change: i64) -> Attempt<()> {
        let buckets = sound!(self.root, root_of!(self.root)?.buckets())?;
        set_buckets(&mut self.root, buckets.wrapping_add_signed(change))
    }
}
