//! Growth of the directory: the first bucket, more partitions, more levels of pages.
//!
//! Partitions are divided a few at a time, in the order of linear hashing, and dividing one moves no
//! record: both halves belong to the bucket that the whole belonged to.

use terrace_access::{Attempt, WriteGuard};
use terrace_base::PageId;
use terrace_pages::{Class, Exclusive};

use super::HashTable;
use super::directory::{
    Entries, MAX_LEVEL, bump_root, check_height, copy_entries, entry_bits, set_buckets, set_entry,
    set_grains, set_height, write_page,
};
use super::find::{root_of, sound};
use super::image::{build_bucket, install_new};
use super::layout::{Shape, Span};

/// Partitions for each bucket that the directory of a cold table grows to. A bucket is split between
/// partitions, so this many steps is how finely, and it is rare that a bucket has one partition alone and more
/// records than a page. Each costs 7 bytes, and what the directory of a cold table takes of the memory
/// is lost for hot records.
const COLD_GRAINS: u64 = 4;
/// The same of a hot table, whose buckets are fewer, and move partitions between each other to be full.
const HOT_GRAINS: u64 = 16;

/// The same of a table that is compacted: a bucket is left so full that the next partition does not fit, so half a
/// partition is lost in each. Fewer than at which the directory gives partitions up again.
const COMPACT_GRAINS: u64 = 12;

/// Part of the memory that a directory may take for the sake of uneven records.
const DIRECTORY_PART: u64 = 64;

impl HashTable {
    /// Partitions that this many buckets should have.
    pub(crate) fn grains_for(&self, buckets: u64) -> u64 {
        let each = if self.tier.is_hot() {
            HOT_GRAINS
        } else {
            COLD_GRAINS
        };
        each * buckets
    }

    /// Makes partitions finer, so that buckets can be filled better; whether they were too coarse. Bounded.
    pub(crate) fn refine(&self, door: &WriteGuard<'_>) -> Attempt<bool> {
        let (grains, buckets) = self.size()?;
        let wanted = COMPACT_GRAINS * buckets;
        if grains.count() >= wanted {
            return Ok(false);
        }
        self.grow(door, wanted)?;
        Ok(true)
    }

    /// Partitions that the directory may have where records are so uneven that buckets could not be split
    /// otherwise. The cold tier of a store that is being loaded needs about as many as the hot tier has
    /// buckets before it has many buckets itself.
    pub(crate) fn most_grains(&self, buckets: u64) -> u64 {
        let bytes = self.store.frames() * self.store.page_bytes() as u64 / DIRECTORY_PART;
        (bytes / 8).max(self.grains_for(2 * buckets))
    }

    /// Class of the pages of buckets.
    pub(crate) fn bucket_class(&self) -> Class {
        if self.tier.is_hot() {
            self.tier
        } else {
            Class::Cold
        }
    }

    /// Allocates some pages for buckets; all or none.
    pub(crate) fn allocate<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        count: usize,
    ) -> Attempt<Vec<Exclusive<'d>>> {
        let mut pages = Vec::with_capacity(count);
        for _ in 0..count {
            match self.store.allocate(door, self.bucket_class()) {
                Ok(page) => pages.push(page),
                Err(interrupt) => {
                    pages.into_iter().for_each(Exclusive::free);
                    return Err(interrupt);
                }
            }
        }
        Ok(pages)
    }

    /// Makes the first bucket of an empty table, unless another thread has.
    pub(crate) fn make_first(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let mut root = self.store.exclusive(self.root, door)?;
        let seen = root_of!(root)?;
        if seen.grains.count() > 1 || !sound!(root, seen.entries.get(0))?.is_none() {
            return Ok(());
        }
        let shape = Shape {
            table: self.table(),
            overflow: false,
            span: Span::ALL,
            members: self.birth(),
            next: PageId::NONE,
        };
        let mut page = self.store.allocate(door, self.bucket_class())?;
        if let Some(images) = build_bucket(&[], &shape, &[], self.store.page_bytes()) {
            install_new(&mut page, &images[0])?;
        }
        set_entry(&mut root, true, 0, page.pid())?;
        set_buckets(&mut root, 1)?;
        bump_root(&mut root)
    }

    /// Divides partitions until there are as many as wanted, or a page of the directory is full.
    /// O(partitions divided).
    pub(crate) fn grow(&self, door: &WriteGuard<'_>, wanted: u64) -> Attempt<()> {
        let root = self.store.exclusive(self.root, door)?;
        let page_bytes = self.store.page_bytes();
        let bits = entry_bits(page_bytes);
        let mask = (1 << bits) - 1;
        let seen = root_of!(root)?;
        let (mut grains, mut height) = (seen.grains, seen.height);
        let first = grains.count();
        if first >= wanted.min(1 << MAX_LEVEL) {
            return Ok(());
        }
        // A full root passes its entries on to a page below it.
        let full = first == 1 << (bits * (height + 1));
        if full {
            check_height(height)?;
        }
        let end = wanted.min(((first >> bits) + 1) << bits);
        let mut entries = Vec::with_capacity((end - first) as usize);
        for _ in first..end {
            let (divided, _) = grains.next();
            entries.push(match divided.checked_sub(first) {
                // One of those that are just being added.
                Some(i) => entries[i as usize],
                None => self.entry_below(&root, divided, &[])?,
            });
            grains = grains.grown();
        }
        // The way to the page of the first new entry, as far as there is one.
        let mut path = vec![root];
        while height > 0 && !full {
            let above = &path[path.len() - 1];
            let at = (first >> (bits * height)) as usize & mask;
            let entry = if path.len() == 1 {
                root_of!(above)?.entries.get(at)
            } else {
                Entries::open(above.view(), height).and_then(|entries| entries.get(at))
            };
            let next = sound!(above, entry)?;
            if next.is_none() {
                break;
            }
            self.not_held(above.pid(), next, &path)?;
            let page = self.below(above.pid(), next, || self.store.exclusive(next, door))?;
            height -= 1;
            path.push(page);
        }
        // What is missing of it, below the page that the root's entries go to.
        let mut fresh = Vec::new();
        for height in (0..height + u32::from(full))
            .rev()
            .chain(full.then_some(height))
        {
            match self.store.allocate(door, self.directory_class()) {
                Ok(mut page) => {
                    write_page(&mut page, page_bytes, height)?;
                    fresh.push(page);
                }
                Err(interrupt) => {
                    fresh.into_iter().for_each(Exclusive::free);
                    return Err(interrupt);
                }
            }
        }
        // From here on nothing can fail.
        if full && let Some(page) = fresh.pop() {
            self.raise(&mut path[0], height, page)?;
            height += 1;
        }
        for page in fresh {
            let at = (first >> (bits * height)) as usize & mask;
            height -= 1;
            let is_root = path.len() == 1;
            if let Some(above) = path.last_mut() {
                set_entry(above, is_root, at, page.pid())?;
            }
            path.push(page);
        }
        let is_root = path.len() == 1;
        if let Some(bottom) = path.last_mut() {
            for (index, entry) in (first..).zip(entries) {
                set_entry(bottom, is_root, index as usize & mask, entry)?;
            }
        }
        set_grains(&mut path[0], grains)
    }

    /// Puts an empty page between the full root and its entries.
    fn raise(&self, root: &mut Exclusive<'_>, height: u32, mut page: Exclusive<'_>) -> Attempt<()> {
        copy_entries(root.bytes(), true, &mut page, false)?;
        for i in 1..1 << entry_bits(self.store.page_bytes()) {
            set_entry(root, true, i, PageId::NONE)?;
        }
        set_entry(root, true, 0, page.pid())?;
        set_height(root, height + 1)
    }
}
