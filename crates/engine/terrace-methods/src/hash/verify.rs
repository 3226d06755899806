//! Walking a table and checking every invariant of directory and buckets.

use terrace_access::{Flags, Value};
use terrace_base::{PageId, Result};
use terrace_pages::{PAGE_HEADER_BYTES, View};

use super::HashTable;
use super::directory::{Entries, HashPartitions, Root, entry_bits};
use super::find::{Chain, TOO_HIGH, wrong};
use super::image::{Item, take_apart};
use super::layout::{Page, SLOTS, Span};
use crate::btree::verify::copy_of;
use crate::overflow;

/// Whom to tell what was found.
type Each<'e> = &'e mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>;
type EachPage<'e> = &'e mut dyn FnMut(PageId) -> Result<()>;

impl HashTable {
    /// See [`terrace_access::AccessMethod::verify`]. O(pages), reads all of them.
    pub(crate) fn check(&self, each: Each<'_>, page: EachPage<'_>) -> Result<()> {
        page(self.root)?;
        let copy = copy_of(&self.store, self.root)?;
        let torn = |_| wrong(self.root, "its header is not that of a root");
        let root = Root::open(View::of(&copy)).map_err(torn)?;
        let (grains, height) = (root.grains, root.height);
        let bits = entry_bits(copy.len());
        if height > 0 && grains.count() <= 1 << (bits * height) {
            return Err(wrong(self.root, TOO_HIGH));
        }
        let mut directory = Vec::new();
        self.collect(root.entries, height, &mut directory, page)?;
        if directory.len() as u64 != grains.count() {
            return Err(wrong(
                self.root,
                format!(
                    "its directory has {} entries for {} grains",
                    directory.len(),
                    grains.count()
                ),
            ));
        }
        let mut buckets = 0;
        let mut hash = 0;
        loop {
            // A run of partitions with one entry is a bucket.
            let pid = directory[grains.index(hash) as usize];
            if pid.is_none() {
                let empty = directory.len() == 1;
                let checked = root.buckets().map_err(torn)? == 0 && empty;
                return if checked {
                    Ok(())
                } else {
                    Err(wrong(self.root, "a grain belongs to no bucket"))
                };
            }
            let span = run(&grains, &directory, hash);
            let mut at = Some(hash);
            let on = std::iter::from_fn(|| {
                let first = at?;
                at = run(&grains, &directory, first).last.checked_add(1);
                Some(directory[grains.index(first) as usize])
            });
            self.store.read_ahead(on.filter(|pid| !pid.is_none()));
            self.check_bucket(pid, span, each, page)?;
            buckets += 1;
            match span.last.checked_add(1) {
                Some(next) => hash = next,
                None => break,
            }
        }
        if root.buckets().map_err(torn)? != buckets {
            return Err(wrong(
                self.root,
                format!("it does not count the {buckets} buckets that there are"),
            ));
        }
        Ok(())
    }

    /// See [`terrace_access::AccessMethod::each_page`]. Buckets are found as far as the directory can be read.
    pub(crate) fn each_readable(&self, page: &mut dyn FnMut(PageId)) {
        page(self.root);
        let Ok(copy) = copy_of(&self.store, self.root) else {
            return;
        };
        let Ok(root) = Root::open(View::of(&copy)) else {
            return;
        };
        let mut directory = Vec::new();
        let mut each = |pid| {
            page(pid);
            Ok(())
        };
        let _ = self.collect(root.entries, root.height, &mut directory, &mut each);
        // A bucket may have many entries.
        directory.sort_unstable();
        directory.dedup();
        for first in directory {
            let (mut pid, mut chain) = (first, Chain::new(PageId::NONE));
            while !pid.is_none() && chain.goes_on(pid) {
                page(pid);
                let copy = copy_of(&self.store, pid);
                let next = copy.ok().and_then(|copy| {
                    let seen = Page::open(View::of(&copy)).ok();
                    seen.map(|seen| seen.next)
                });
                pid = next.unwrap_or(PageId::NONE);
            }
        }
    }

    /// All entries of the directory by their number.
    fn collect(
        &self,
        entries: Entries<'_>,
        height: u32,
        out: &mut Vec<PageId>,
        page: EachPage<'_>,
    ) -> Result<()> {
        let mut ended = false;
        for i in 0..1 << entry_bits(self.store.page_bytes()) {
            let torn = |_| wrong(self.root, "an entry of the directory reaches past its page");
            let entry = entries.get(i).map_err(torn)?;
            if entry.is_none() {
                if height == 0 && i == 0 && out.is_empty() {
                    // An empty table has one partition, of no bucket.
                    out.push(entry);
                }
                ended = true;
                continue;
            }
            if ended {
                return Err(wrong(self.root, "its directory has a gap"));
            }
            if height == 0 {
                out.push(entry);
                continue;
            }
            page(entry)?;
            let copy = copy_of(&self.store, entry)?;
            let below = Entries::open(View::of(&copy), height - 1)
                .map_err(|_| wrong(entry, "it is not the page of the directory it should be"))?;
            self.collect(below, height - 1, out, page)?;
        }
        Ok(())
    }

    fn check_bucket(
        &self,
        first: PageId,
        span: Span,
        each: Each<'_>,
        page: EachPage<'_>,
    ) -> Result<()> {
        let secret = self.try_secret_blocking()?;
        let mut copies = Vec::new();
        let mut pid = first;
        let mut chain = Chain::new(PageId::NONE);
        while !pid.is_none() {
            if !chain.goes_on(pid) {
                return Err(wrong(first, "its overflow pages do not end"));
            }
            page(pid)?;
            let copy = copy_of(&self.store, pid)?;
            let Ok(seen) = Page::open(View::of(&copy)) else {
                return Err(wrong(pid, "it is not a page of a bucket"));
            };
            if seen.overflow == copies.is_empty() {
                return Err(wrong(
                    pid,
                    "the first page of a bucket, or an overflow page, is no such",
                ));
            }
            if seen.table != self.table() {
                return Err(wrong(
                    pid,
                    format!("it says that it is of table {}", seen.table),
                ));
            }
            if seen.span != span {
                return Err(wrong(
                    pid,
                    format!(
                        "it holds {:016x?}, but the directory says {span:016x?}",
                        seen.span
                    ),
                ));
            }
            check_heap(&seen, pid)?;
            let next = seen.next;
            let mut items = Vec::new();
            if take_apart(&copy, &secret, &mut items).is_err() {
                return Err(wrong(pid, "a record reaches past the page"));
            }
            for (i, item) in items.iter().enumerate() {
                let above = i > 0 && items[i - 1].order() >= item.order();
                if above || !span.covers(item.hash) {
                    return Err(wrong(
                        pid,
                        format!("record {i} is out of order or belongs to another bucket"),
                    ));
                }
                if seen.slot(i).map(|slot| slot.head()) != Ok(span.tag(item.hash)) {
                    return Err(wrong(
                        pid,
                        format!("the tag in slot {i} is not that of its key"),
                    ));
                }
            }
            copies.push(copy);
            pid = next;
        }
        let mut items: Vec<Item<'_>> = Vec::new();
        for copy in &copies {
            if take_apart(copy, &secret, &mut items).is_err() {
                return Err(wrong(first, "a record reaches past the page"));
            }
        }
        items.sort_unstable_by(|a, b| a.order().cmp(&b.order()));
        if items.windows(2).any(|pair| pair[0].key == pair[1].key) {
            return Err(wrong(first, "a key is in two pages of it"));
        }
        for item in items {
            if let Value::Large(large) = item.value
                && self.owns_chain(item.flags)
            {
                overflow::verify(&self.store, large, page)?;
            }
            each(item.key, item.flags, item.value)?;
        }
        Ok(())
    }

    fn try_secret_blocking(&self) -> Result<super::Secret> {
        loop {
            match self.try_secret() {
                Ok(secret) => return Ok(secret),
                Err(interrupt) => self.store.settle(interrupt)?,
            }
        }
    }
}

/// The span of the neighbouring partitions, from that of `hash` on, that have the same entry.
fn run(grains: &HashPartitions, directory: &[PageId], hash: u64) -> Span {
    let mut span = grains.span(hash);
    let pid = directory[grains.index(hash) as usize];
    while let Some(next) = span.last.checked_add(1)
        && directory[grains.index(next) as usize] == pid
    {
        span.last = grains.span(next).last;
    }
    span
}

/// Records do not overlap, and the header counts them and the garbage right.
fn check_heap(page: &Page<'_>, pid: PageId) -> Result<()> {
    let len = page.view.len();
    let mut ranges = Vec::with_capacity(page.count());
    for i in 0..page.count() {
        let record = page.slot(i).and_then(|slot| page.record(slot));
        let Ok(record) = record else {
            return Err(wrong(pid, format!("record {i} reaches past the page")));
        };
        ranges.push((record.start, record.end));
    }
    ranges.sort_unstable();
    let (mut end, mut used) = (len - page.numbers.heap, 0);
    for (from, to) in ranges {
        if from < end {
            return Err(wrong(
                pid,
                format!("the record at byte {from} overlaps what is before it"),
            ));
        }
        used += to - from;
        end = to;
    }
    if end > len || end < SLOTS || used + page.numbers.garbage != page.numbers.heap {
        return Err(wrong(
            pid,
            format!(
                "records take {used} bytes, garbage {}, but the heap has {}",
                page.numbers.garbage, page.numbers.heap
            ),
        ));
    }
    Ok(())
}

/// Checks the bytes of one page, of a bucket or of the directory, on their own, whatever they are, without
/// a store: for fuzzing. Never panics. O(records log records).
///
/// # Errors
/// What is wrong with them.
pub fn verify_page(page: &[u8]) -> Result<()> {
    let pid = PageId::NONE;
    let view = View::of(page);
    if let Ok(root) = Root::open(view) {
        let entries = 0..1 << entry_bits(page.len().max(16));
        let mut directory = entries.map(|i| root.entries.get(i));
        return match directory.all(|entry| entry.is_ok()) {
            true => Ok(()),
            false => Err(wrong(pid, "its entries reach past the page")),
        };
    }
    if let Ok(height) = view.u8(PAGE_HEADER_BYTES + 1)
        && let Ok(entries) = Entries::open(view, height.into())
    {
        let mut all = (0..1 << entry_bits(page.len().max(16))).map(|i| entries.get(i));
        return match all.all(|entry| entry.is_ok()) {
            true => Ok(()),
            false => Err(wrong(pid, "its entries reach past the page")),
        };
    }
    let seen = Page::open(view).map_err(|_| wrong(pid, "its header is no bucket's"))?;
    check_heap(&seen, pid)?;
    let mut items = Vec::new();
    let secret = super::Secret([0, 0]);
    take_apart(page, &secret, &mut items)
        .map_err(|_| wrong(pid, "a record reaches past the page"))?;
    let (mut last, mut key) = (0, Vec::new());
    for i in 0..seen.count() {
        let tag = seen.slot(i).map_or(0, |slot| slot.head());
        if tag < last {
            return Err(wrong(pid, "its tags are out of order"));
        }
        last = tag;
        // Reads the key as every search does; whatever it finds is an answer.
        let _ = seen.key(i, &mut key);
        let _ = seen.find(&secret, seen.span.low, &key);
    }
    Ok(())
}
