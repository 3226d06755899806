//! Contraction: thin buckets are merged, and the directory gives up partitions it has too many of.
//!
//! All of it is tidying: it is done when the latches can be had at once and the pages are in memory,
//! and skipped otherwise, for no record depends on it.

use terrace_access::{Attempt, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::HashTable;
use super::directory::{Entries, copy_entries, entry_bits, set_entry, set_grains, set_height};
use super::find::{Held, root_of, sound};
use super::layout::Span;
use super::split::{Pair, copies};

/// Load above which two buckets are not merged, so that the next few inserts do not split them again.
const MERGED_LOAD: f64 = 0.85;
/// The directory shrinks when it has this many times the partitions that it needs; far from the number at
/// which it grows, so that it does not do both in turn.
const TOO_MANY: u64 = 4;
/// Partitions united in one call. They are neighbours in the directory, so they take few pages of it.
const STEPS: usize = 64;
/// Buckets that one call moves records between for that: what is done inside one entry of the gate
/// must not make more pages dirty than there is space kept free for.
const JOINS: usize = 4;

const NOT_ALONE: &str = "this bucket holds all hashes, and the directory names others";

/// What came of uniting two partitions.
pub(crate) enum United {
    Done,
    /// They belong to two buckets; the lower half begins and the upper one ends like this, and the
    /// upper one begins here.
    Apart(Span, u64),
}

impl HashTable {
    /// Merges the bucket that holds `hash` with neighbours as far as it is thin, and the directory
    /// with it. Best effort.
    pub(crate) fn tidy(&self, door: &WriteGuard<'_>, hash: u64) {
        // Damage shows itself again to whoever needs the page.
        if let Ok(true) = self.merge(door, hash) {
            let _ = self.contract(door);
        }
    }

    /// Merges a thin bucket with a neighbour. Returns whether a bucket went. O(records).
    fn merge(&self, door: &WriteGuard<'_>, hash: u64) -> Attempt<bool> {
        let Some(mut held) = self.latch(door, hash, false)? else {
            return Ok(false);
        };
        if held.pages.len() > 1 {
            return match self.shorten(held)? {
                Some(_) => Ok(false),
                None => self.merge(door, hash),
            };
        }
        for on_the_left in [true, false] {
            held = match self.neighbour(door, held, on_the_left)? {
                Err(held) => held,
                Ok(pair) => {
                    let (a, b) = (pair.left.load(), pair.right.load());
                    // An empty bucket always goes: a page with nothing in it has no reason to be.
                    let empty = pair.left.count() == 0 || pair.right.count() == 0;
                    if a + b > MERGED_LOAD && !(empty && a + b <= 1.0) {
                        pair.one(hash)
                    } else {
                        match self.merge_pair(door, pair)? {
                            None => return Ok(true),
                            Some(pair) => pair.one(hash),
                        }
                    }
                }
            };
        }
        Ok(false)
    }

    /// Moves everything of the right bucket into the left one.
    pub(crate) fn merge_pair<'d>(
        &self,
        door: &'d WriteGuard<'_>,
        pair: Pair<'d>,
    ) -> Attempt<Option<Pair<'d>>> {
        let copies = copies(&[&pair.left, &pair.right]);
        let items = self.records(&[&pair.left, &pair.right], &copies)?;
        self.divide(door, pair, &items, None)
    }

    /// Unites partitions while there are far too many. Bounded.
    pub(crate) fn contract(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let (grains, buckets) = self.size()?;
        let needed = self.grains_for(buckets.max(1));
        if grains.count() <= TOO_MANY * needed {
            return Ok(());
        }
        let mut joins = 0;
        for _ in 0..STEPS {
            match self.unite(door, &[])? {
                None => return Ok(()),
                Some(United::Done) => {}
                Some(United::Apart(both, upper)) => {
                    if joins == JOINS || !self.join(door, both, upper)? {
                        return Ok(());
                    }
                    joins += 1;
                }
            }
        }
        Ok(())
    }

    /// Unites all partitions of a table that has one bucket, which is held, a bounded number in one call.
    /// Returns whether more are left to be united.
    pub(crate) fn unite_some(&self, door: &WriteGuard<'_>, only: &Held<'_>) -> Attempt<bool> {
        for _ in 0..STEPS * 8 {
            match self.unite(door, &[only])? {
                None => return Ok(false),
                Some(United::Done) => {}
                Some(United::Apart(..)) => return Err(only.pages[0].torn(NOT_ALONE)),
            }
        }
        Ok(true)
    }

    /// Takes back the partition that was divided last, while these buckets are held; `None` when there is
    /// but one. O(height).
    pub(crate) fn unite(
        &self,
        door: &WriteGuard<'_>,
        held: &[&Held<'_>],
    ) -> Attempt<Option<United>> {
        let root = self.store.exclusive(self.root, door)?;
        let bits = entry_bits(self.store.page_bytes());
        let mask = (1 << bits) - 1;
        let seen = root_of!(root)?;
        let mut height = seen.height;
        if seen.grains.count() < 2 {
            return Ok(None);
        }
        let grains = seen.grains.shrunk();
        let (lower, upper) = grains.next();
        let last = grains.count();
        if self.entry_below(&root, lower, held)? != self.entry_below(&root, last, held)? {
            return Ok(Some(United::Apart(grains.span(upper), upper)));
        }
        let mut path = vec![root];
        while height > 0 {
            let above = &path[path.len() - 1];
            let at = (last >> (bits * height)) as usize & mask;
            let entry = if path.len() == 1 {
                root_of!(above)?.entries.get(at)
            } else {
                Entries::open(above.view(), height).and_then(|entries| entries.get(at))
            };
            let next = sound!(above, entry)?;
            let buckets = held.iter().flat_map(|bucket| &bucket.pages);
            self.not_held(above.pid(), next, path.iter().chain(buckets))?;
            let page = self.below(above.pid(), next, || self.store.exclusive(next, door))?;
            height -= 1;
            path.push(page);
        }
        let lowered = self.lowered(door, &path, last, held)?;
        // From here on nothing can fail.
        let mut index = last;
        while let Some(mut page) = path.pop() {
            let is_root = path.is_empty();
            set_entry(&mut page, is_root, index as usize & mask, PageId::NONE)?;
            if is_root {
                set_grains(&mut page, grains)?;
                if let Some(only) = lowered {
                    let height = root_of!(page)?.height;
                    copy_entries(only.bytes(), false, &mut page, true)?;
                    set_height(&mut page, height - 1)?;
                    only.free();
                }
                break;
            }
            // A page goes with its first entry, and its entry above with it.
            if index & mask as u64 > 0 {
                if let Some(root) = path.first_mut() {
                    set_grains(root, grains)?;
                }
                break;
            }
            page.free();
            index >>= bits;
        }
        Ok(Some(United::Done))
    }

    /// The root's first page below, latched, if it will be the only one, so that the root can have
    /// its entries again.
    fn lowered<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        path: &[Exclusive<'d>],
        count: u64,
        held: &[&Held<'_>],
    ) -> Attempt<Option<Exclusive<'d>>> {
        let bits = entry_bits(self.store.page_bytes());
        let root = &path[0];
        let seen = root_of!(root)?;
        // The page of the last entry goes in this very step, so it is another one than the first.
        if seen.height == 0 || count != 1 << (bits * seen.height) {
            return Ok(None);
        }
        let first = sound!(root, seen.entries.get(0))?;
        let buckets = held.iter().flat_map(|bucket| &bucket.pages);
        self.not_held(root.pid(), first, path.iter().chain(buckets))?;
        self.below(root.pid(), first, || self.store.exclusive(first, door))
            .map(Some)
    }

    /// Brings both halves of a partition, in two neighbouring buckets, into one of them. Returns whether
    /// it did. O(records).
    fn join(&self, door: &WriteGuard<'_>, both: Span, upper: u64) -> Attempt<bool> {
        let Some(right) = self.latch(door, upper, false)? else {
            return Ok(false);
        };
        let Ok(mut pair) = self.neighbour(door, right, true)? else {
            return Ok(false);
        };
        if pair.right.span.low != upper {
            return Ok(false);
        }
        // The upper half to the left, or the lower half to the right; all of it when that is all.
        let after = both.last.checked_add(1);
        let up = after.filter(|&after| after <= pair.right.span.last);
        let down = Some(both.low).filter(|&low| low > pair.left.span.low);
        for boundary in [up, down] {
            let copies = copies(&[&pair.left, &pair.right]);
            let items = self.records(&[&pair.left, &pair.right], &copies)?;
            pair = match self.divide(door, pair, &items, boundary)? {
                None => return Ok(true),
                Some(pair) => pair,
            };
        }
        Ok(false)
    }
}
