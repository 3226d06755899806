//! The paged, deterministic skip list (section 4.1): levels of linked pages.
//!
//! What always holds: the pages of a level are linked in the order of their keys; each page but the
//! first of a level has a tower, an entry of the level above with a key that is not greater than its
//! own and greater than all before it; a page of towers has no keys below its first one but on the left
//! edge; the highest level is one page; no page is empty. A page that is full is split, and the first key
//! of its new half becomes a tower. So a search goes right in a page, then down, and a walk along the lowest
//! level needs no level above. Links are numbers of slabs.

use super::slab::Slab;
use crate::dynamic::NodeKeys;
use crate::dynamic::node::{CAP, DrainRange, FANOUT, Leaf, drain_leaf};
use crate::family::Family;
use crate::simd;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::boxed::Box;
use arrayvec::ArrayVec;
use core::mem;

/// No page.
const NONE: u32 = u32::MAX;

/// The most levels of towers: as of the B+tree, whose nodes split as these pages do.
const LEVELS: usize = 16;

/// A page of the lowest level.
struct Page<F: Family, V> {
    leaf: Leaf<F, V>,
    next: u32,
    before: u32,
}

/// A page of a higher level: keys, and the page below that each leads to.
struct Towers<F: Family> {
    keys: F::InnerKeys,
    below: ArrayVec<u32, FANOUT>,
    next: u32,
    before: u32,
}

/// The pages of towers on the way to a key, the highest first, and which tower in each.
type Way = ArrayVec<(u32, usize), LEVELS>;

/// An ordered map from encoded keys to values. Every operation on a key is O(log n).
pub struct SkipList<F: Family, V> {
    pages: Slab<Box<Page<F, V>>>,
    towers: Slab<Box<Towers<F>>>,
    /// The page that a search begins in, of towers if there are levels of them.
    top: u32,
    levels: usize,
    first: u32,
    last: u32,
    len: usize,
    /// Pages, pages of towers, and bytes of keys beside them.
    census: (usize, usize, usize),
}

impl<F: Family, V> Default for SkipList<F, V> {
    fn default() -> Self {
        SkipList {
            pages: Slab::default(),
            towers: Slab::default(),
            top: NONE,
            levels: 0,
            first: NONE,
            last: NONE,
            len: 0,
            census: (0, 0, 0),
        }
    }
}

impl<F: Family, V> SkipList<F, V> {
    /// The page of a key; there must be one.
    #[inline]
    fn page(&self, key: Option<F::Ref<'_>>) -> u32 {
        let mut at = self.top;
        for _ in 0..self.levels {
            let towers = self.towers.get(at);
            at = match key {
                Some(key) => towers.below[towers.keys.upper_bound(key).max(1) - 1],
                None => towers.below[0],
            };
        }
        at
    }

    fn way(&self, key: F::Ref<'_>, mut last: impl FnMut()) -> (Way, u32) {
        let (mut way, mut at) = (Way::new(), self.top);
        for level in 0..self.levels {
            let towers = self.towers.get(at);
            if level + 1 == self.levels {
                simd::prefetch_whole(&towers.keys);
                last();
            }
            let i = towers.keys.upper_bound(key).max(1) - 1;
            way.push((at, i));
            at = towers.below[i];
        }
        (way, at)
    }

    /// Changes a page and keeps count of the bytes of its keys.
    fn change<R>(&mut self, page: u32, act: impl FnOnce(&mut Leaf<F, V>) -> R) -> R {
        let leaf = &mut self.pages.get_mut(page).leaf;
        let before = leaf.keys.heap();
        let done = act(leaf);
        self.census.2 = self.census.2 + leaf.keys.heap() - before;
        done
    }

    fn change_towers<R>(&mut self, page: u32, act: impl FnOnce(&mut Towers<F>) -> R) -> R {
        let towers = self.towers.get_mut(page);
        let before = towers.keys.heap();
        let done = act(towers);
        self.census.2 = self.census.2 + towers.keys.heap() - before;
        done
    }

    /// Links a new page behind one; returns it and the key that tells them apart.
    fn link(&mut self, page: u32, right: Leaf<F, V>) -> (u32, F::Buf) {
        self.census.0 += 1;
        self.census.2 += right.keys.heap();
        let left = self.pages.get(page);
        let mut sep = F::owned(right.keys.get(0));
        F::shorten(left.leaf.keys.get(left.leaf.keys.len() - 1), &mut sep);
        let next = left.next;
        let new = self.pages.put(Box::new(Page {
            leaf: right,
            next,
            before: page,
        }));
        self.pages.get_mut(page).next = new;
        match next {
            NONE => self.last = new,
            next => self.pages.get_mut(next).before = new,
        }
        (new, sep)
    }

    /// Builds a tower for a new page, and for pages that are split on the way up.
    fn raise(&mut self, mut way: Way, mut sep: F::Buf, mut new: u32) {
        while let Some((page, i)) = way.pop() {
            let towers = self.towers.get(page);
            if !towers.keys.is_full() && !towers.below.is_full() {
                self.change_towers(page, |towers| {
                    towers.keys.insert(i + 1, F::load(&sep));
                    towers.below.insert(i + 1, new);
                });
                return;
            }
            // In the middle, but at the end while keys arrive in order.
            let n = towers.below.len();
            let mid = if towers.next == NONE && i + 1 == n {
                n
            } else {
                n / 2
            };
            let mut right: Towers<F> = self.change_towers(page, |towers| Towers {
                keys: towers.keys.split_off(mid),
                below: towers.below.drain(mid..).collect(),
                next: towers.next,
                before: page,
            });
            if i + 1 >= mid {
                right.keys.insert(i + 1 - mid, F::load(&sep));
                right.below.insert(i + 1 - mid, new);
            } else {
                self.change_towers(page, |towers| {
                    towers.keys.insert(i + 1, F::load(&sep));
                    towers.below.insert(i + 1, new);
                });
            }
            self.census.1 += 1;
            self.census.2 += right.keys.heap();
            sep = F::owned(right.keys.get(0));
            let next = right.next;
            new = self.towers.put(Box::new(right));
            self.towers.get_mut(page).next = new;
            if next != NONE {
                self.towers.get_mut(next).before = new;
            }
        }
        // The highest page was split: a level more.
        let mut towers = Towers::<F> {
            keys: F::InnerKeys::default(),
            below: ArrayVec::new(),
            next: NONE,
            before: NONE,
        };
        towers.keys.insert(0, F::load(&F::Buf::default()));
        towers.keys.insert(1, F::load(&sep));
        towers.below.extend([self.top, new]);
        self.census.1 += 1;
        self.census.2 += towers.keys.heap();
        self.top = self.towers.put(Box::new(towers));
        self.levels += 1;
    }

    /// Pages of towers take the range of those before them: their first keys become those that the others had.
    fn begin_earlier(&mut self, pages: &[(u32, F::Buf)]) {
        for (page, begin) in pages {
            self.change_towers(*page, |towers| {
                towers.keys.remove(0, 1);
                towers.keys.insert(0, F::load(begin));
            });
        }
    }

    /// Takes an empty page out of its level, and its tower, and pages of towers that are empty then.
    fn unlink(&mut self, mut way: Way, page: u32) {
        let Some(gone) = self.pages.take(page) else {
            return;
        };
        self.census.0 -= 1;
        self.census.2 -= gone.leaf.keys.heap();
        match gone.before {
            NONE => self.first = gone.next,
            before => self.pages.get_mut(before).next = gone.next,
        }
        match gone.next {
            NONE => self.last = gone.before,
            next => self.pages.get_mut(next).before = gone.before,
        }
        // The pages of towers behind those that are empty, and the keys that these began with.
        let mut behind = ArrayVec::<(u32, F::Buf), LEVELS>::new();
        while let Some((page, i)) = way.pop() {
            let begin = F::owned(self.towers.get(page).keys.get(0));
            let empty = self.change_towers(page, |towers| {
                // The range of a first one goes to the next, which has its key from now on.
                let key = if i == 0 {
                    1.min(towers.keys.len() - 1)
                } else {
                    i
                };
                towers.keys.remove(key, key + 1);
                towers.below.remove(i);
                towers.below.is_empty()
            });
            if !empty {
                if i == 0 {
                    self.begin_earlier(&behind);
                }
                break;
            }
            let Some(gone) = self.towers.take(page) else {
                return;
            };
            self.census.1 -= 1;
            self.census.2 -= gone.keys.heap();
            if gone.before != NONE {
                self.towers.get_mut(gone.before).next = gone.next;
            }
            if gone.next != NONE {
                self.towers.get_mut(gone.next).before = gone.before;
                behind.push((gone.next, begin));
            }
        }
        if self.first == NONE {
            *self = Self::default();
            return;
        }
        // A level of one tower leads nowhere else.
        while self.levels > 0 && self.towers.get(self.top).below.len() == 1 {
            let Some(gone) = self.towers.take(self.top) else {
                return;
            };
            self.census.1 -= 1;
            self.census.2 -= gone.keys.heap();
            self.top = gone.below[0];
            self.levels -= 1;
        }
    }
}

impl<F: Family, V> DynamicStage<F, V> for SkipList<F, V> {
    type Cursor<'a>
        = SkipPos<'a, F, V>
    where
        V: 'a;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        let (pages, towers, keys) = self.census;
        let nodes = pages * size_of::<Page<F, V>>() + towers * size_of::<Towers<F>>();
        nodes + keys + self.pages.bytes() + self.towers.bytes() + size_of::<Self>()
    }

    #[inline]
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        if self.len == 0 {
            return None;
        }
        let leaf = &self.pages.get(self.page(Some(key))).leaf;
        let i = leaf.find(key).ok()?;
        if touch {
            leaf.touch(i);
        }
        Some(&leaf.vals[i])
    }

    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        if self.len == 0 {
            return None;
        }
        let page = self.page(Some(key));
        let leaf = &mut self.pages.get_mut(page).leaf;
        let i = leaf.find(key).ok()?;
        leaf.touch(i);
        Some(&mut leaf.vals[i])
    }

    fn insert_and(
        &mut self,
        key: F::Ref<'_>,
        val: V,
        mut meanwhile: impl FnMut(Near),
    ) -> Option<V> {
        if self.len == 0 {
            let page = Page {
                leaf: Leaf::default(),
                next: NONE,
                before: NONE,
            };
            self.first = self.pages.put(Box::new(page));
            (self.top, self.last, self.census.0) = (self.first, self.first, 1);
        }
        if self.levels == 0 {
            meanwhile(Near::Inner);
        }
        let (way, page) = self.way(key, || meanwhile(Near::Inner));
        let leaf = &mut self.pages.get_mut(page).leaf;
        simd::prefetch_whole(leaf);
        meanwhile(Near::Leaf);
        leaf.keys.warm();
        let i = match leaf.find(key) {
            Ok(i) => return Some(mem::replace(&mut leaf.vals[i], val)),
            Err(i) => i,
        };
        self.len += 1;
        if !leaf.keys.is_full() {
            self.change(page, |leaf| leaf.put(i, key, val));
            return None;
        }
        let n = leaf.vals.len();
        let at = if page == self.last && i == n {
            n
        } else {
            n / 2
        };
        let mut right: Leaf<F, V> = self.change(page, |leaf| leaf.split(at));
        if i <= at && !right.vals.is_empty() {
            self.change(page, |leaf| leaf.put(i, key, val));
        } else {
            right.put(i - at, key, val);
        }
        let (new, sep) = self.link(page, right);
        self.raise(way, sep, new);
        None
    }

    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        if self.len == 0 {
            return None;
        }
        let (way, page) = self.way(key, || {});
        let i = self.pages.get(page).leaf.find(key).ok()?;
        let val = self.change(page, |leaf| leaf.take(i));
        self.len -= 1;
        if self.pages.get(page).leaf.vals.is_empty() {
            self.unlink(way, page);
        }
        Some(val)
    }

    /// Page by page; those that are empty then are unlinked.
    fn drain(
        &mut self,
        (from, to): Span<'_, F>,
        (limit, bytes): (usize, usize),
        keep_hot: bool,
        mut sink: impl FnMut(F::Ref<'_>, V),
        mut kept: impl FnMut(F::Ref<'_>),
    ) -> (usize, bool) {
        let mut cut = DrainRange {
            from,
            to,
            limit,
            bytes,
            keep_hot,
        };
        let mut at = match self.len {
            0 => NONE,
            _ => self.page(from),
        };
        while at != NONE && cut.limit > 0 && cut.bytes > 0 {
            let Page { leaf, next, .. } = &**self.pages.get(at);
            if to.is_some_and(|to| F::cmp(leaf.keys.get(0), to).is_ge()) {
                break;
            }
            let (first, n, next) = (F::owned(leaf.keys.get(0)), leaf.vals.len(), *next);
            self.change(at, |leaf| drain_leaf(leaf, &mut cut, &mut sink, &mut kept));
            let left = self.pages.get(at).leaf.vals.len();
            self.len -= n - left;
            if left == 0 {
                let (way, page) = self.way(F::load(&first), || {});
                debug_assert_eq!(page, at, "its first key leads to a page");
                self.unlink(way, at);
            }
            at = next;
        }
        (limit - cut.limit, cut.limit == 0 || cut.bytes == 0)
    }

    fn seek(
        &self,
        from: Option<F::Ref<'_>>,
        meanwhile: impl FnOnce(),
    ) -> Option<SkipPos<'_, F, V>> {
        if self.len == 0 {
            return None;
        }
        let page = self.pages.get(self.page(from));
        simd::prefetch_whole(&page.leaf);
        meanwhile();
        let mut pos = SkipPos {
            list: self,
            page,
            i: from.map_or(0, |from| page.leaf.keys.lower_bound(from)),
        };
        (pos.i < page.leaf.vals.len() || pos.right()).then_some(pos)
    }

    fn visit_mut<'a>(
        &'a mut self,
        (from, to): Span<'_, F>,
        mut see: impl FnMut(F::Ref<'_>, &'a mut V),
    ) where
        V: 'a,
    {
        if self.len == 0 {
            return;
        }
        let mut at = self.page(from);
        let mut all = self.pages.all_mut();
        while at != NONE
            && let Some(page) = all[at as usize].take()
        {
            let Page { leaf, next, .. } = &mut **page;
            let a = from.map_or(0, |from| leaf.keys.lower_bound(from));
            let b = to.map_or(leaf.vals.len(), |to| leaf.keys.lower_bound(to));
            at = if b < leaf.vals.len() { NONE } else { *next };
            for (i, val) in leaf.vals.iter_mut().enumerate().take(b).skip(a) {
                see(leaf.keys.get(i), val);
            }
        }
    }

    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<SkipPos<'_, F, V>> {
        if self.len == 0 {
            return None;
        }
        let page = match to {
            Some(_) => self.page(to),
            None => self.last,
        };
        let page = self.pages.get(page);
        let past = to.map_or(page.leaf.vals.len(), |to| page.leaf.keys.lower_bound(to));
        let mut pos = SkipPos {
            list: self,
            page,
            i: past.wrapping_sub(1),
        };
        (past > 0 || pos.left()).then_some(pos)
    }
}

/// An entry of a [`SkipList`].
pub struct SkipPos<'a, F: Family, V> {
    list: &'a SkipList<F, V>,
    page: &'a Page<F, V>,
    i: usize,
}

impl<F: Family, V> SkipPos<'_, F, V> {
    fn right(&mut self) -> bool {
        if self.page.next == NONE {
            return false;
        }
        self.page = self.list.pages.get(self.page.next);
        self.i = 0;
        true
    }

    fn left(&mut self) -> bool {
        if self.page.before == NONE {
            return false;
        }
        self.page = self.list.pages.get(self.page.before);
        self.i = self.page.leaf.vals.len() - 1;
        true
    }
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for SkipPos<'a, F, V> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        self.page.leaf.keys.get(self.i)
    }
    #[inline]
    fn val(&self) -> &'a V {
        &self.page.leaf.vals[self.i]
    }
    #[inline]
    fn next(&mut self) -> bool {
        self.i += 1;
        self.i < self.page.leaf.vals.len() || self.right()
    }
    #[inline]
    fn prev(&mut self) -> bool {
        self.i = self.i.wrapping_sub(1);
        self.i != usize::MAX || self.left()
    }
    fn same(&self, other: &Self) -> bool {
        self.i == other.i && core::ptr::eq(self.page, other.page)
    }
    fn cool(&self) -> bool {
        self.page.leaf.cool(self.i)
    }
}

/// A page holds as much as a leaf of the B+tree.
const _: () = assert!(CAP <= 64);

#[cfg(test)]
mod tests {
    use super::*;

    /// What always holds; see above.
    pub fn whole<F: Family, V>(list: &SkipList<F, V>) {
        let (mut level, mut below) = (list.top, Vec::new());
        let (mut towers, mut heap) = (0, 0);
        for depth in 0..list.levels {
            let (mut page, mut before, mut all) = (level, NONE, Vec::new());
            level = list.towers.get(level).below[0];
            let mut pages = Vec::new();
            while page != NONE {
                let at = list.towers.get(page);
                assert!(!at.below.is_empty() && at.below.len() == at.keys.len());
                assert_eq!(at.before, before);
                for i in 1..at.keys.len() {
                    assert!(F::cmp(at.keys.get(i - 1), at.keys.get(i)).is_lt());
                }
                all.extend(at.below.iter().copied());
                pages.push(page);
                (towers, heap) = (towers + 1, heap + at.keys.heap());
                (before, page) = (page, at.next);
            }
            assert!(depth > 0 || (pages.len() == 1 && all.len() > 1));
            assert!(depth == 0 || pages == below);
            below = all;
        }
        let (mut page, mut before, mut n, mut pages) = (list.first, NONE, 0, Vec::new());
        while page != NONE {
            let at = list.pages.get(page);
            assert!(!at.leaf.vals.is_empty() && at.before == before);
            (n, heap) = (n + at.leaf.vals.len(), heap + at.leaf.keys.heap());
            pages.push(page);
            (before, page) = (page, at.next);
        }
        assert!(list.levels == 0 || pages == below);
        assert_eq!((list.last, list.len), (before, n));
        assert_eq!(list.census, (pages.len(), towers, heap));
    }

    #[test]
    fn skip_lists() {
        crate::dynamic::conformance::ints::<SkipList<_, _>>(whole);
        crate::dynamic::conformance::bytes::<SkipList<_, _>>(whole);
        crate::dynamic::conformance::refilled::<SkipList<_, _>>(whole);
    }
}
