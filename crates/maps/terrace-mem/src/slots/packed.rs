//! Several values for each key of a segment: those of all its keys in one array, in order.
//!
//! What always holds: key `i` has `counts[i]` slots of the array from `start(i)` on; where it has
//! slots, all of them are live or all are dead. A key whose slots are live has its values there; one
//! without live slots has a list apart or is dead. Lists of more than [`MOST`] values are always apart;
//! one that grew or shrank is until the segment is merged or packed again.

use super::list::List;
use super::vals::Vals;
use super::values::{Dead, Slots};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Values of a key that are packed at most: what a longer list has beside its values is little.
const MOST: usize = 32;

/// A place in the array is stored for every `STRIDE` keys.
const STRIDE: usize = 16;

/// Lists of several values by rank.
pub struct Packed<V> {
    vals: Slots<V>,
    counts: Box<[u8]>,
    starts: Box<[u32]>,
    /// Lists apart, by rank.
    apart: Vec<(u32, List<V>)>,
    /// Bytes on the heap of the lists apart.
    heap: usize,
    /// At least the number of lists apart that could be packed.
    loose: usize,
    dead: Option<Box<Dead>>,
}

/// The values of a run of keys.
pub struct Row<V> {
    vals: Vec<V>,
    /// How many of them a key has; 0 where its list is apart.
    counts: Vec<u8>,
    apart: Vec<(u32, List<V>)>,
}

impl<V> Default for Row<V> {
    fn default() -> Self {
        Row {
            vals: Vec::new(),
            counts: Vec::new(),
            apart: Vec::new(),
        }
    }
}

fn sum(counts: &[u8]) -> usize {
    counts.iter().map(|&n| usize::from(n)).sum()
}

impl<V> Row<V> {
    fn with_capacity(keys: usize, vals: usize) -> Self {
        Row {
            vals: Vec::with_capacity(vals),
            counts: Vec::with_capacity(keys),
            apart: Vec::new(),
        }
    }

    fn push(&mut self, mut list: List<V>) {
        let n = list.as_slice().len();
        if n <= MOST {
            list.move_to(&mut self.vals);
            self.counts.push(n as u8);
        } else {
            list.shrink();
            self.apart.push((self.counts.len() as u32, list));
            self.counts.push(0);
        }
    }
}

/// What is left of a row that is moved into another.
struct Rest<V> {
    vals: alloc::vec::IntoIter<V>,
    counts: Vec<u8>,
    apart: core::iter::Peekable<alloc::vec::IntoIter<(u32, List<V>)>>,
    at: usize,
}

impl<V> Rest<V> {
    fn of(row: Row<V>) -> Self {
        Rest {
            vals: row.vals.into_iter(),
            counts: row.counts,
            apart: row.apart.into_iter().peekable(),
            at: 0,
        }
    }

    /// Moves the values of all keys before `to`.
    fn pass(&mut self, to: usize, all: &mut Row<V>) {
        let (from, base) = (self.at, all.counts.len());
        let counts = &self.counts[from..to];
        all.vals.extend(self.vals.by_ref().take(sum(counts)));
        all.counts.extend_from_slice(counts);
        let mut apart = || self.apart.next_if(|(i, _)| (*i as usize) < to);
        while let Some((i, list)) = apart() {
            all.apart.push(((i as usize - from + base) as u32, list));
        }
        self.at = to;
    }
}

impl<V> Default for Packed<V> {
    fn default() -> Self {
        Self::of(Row::default())
    }
}

impl<V> Packed<V> {
    /// The first slot of key `i`.
    #[inline]
    fn start(&self, i: usize) -> usize {
        let from = i / STRIDE * STRIDE;
        self.starts[i / STRIDE] as usize + sum(&self.counts[from..i])
    }

    /// The slots of key `i`, where its values are in them.
    #[inline]
    fn slots(&self, i: usize) -> Option<core::ops::Range<usize>> {
        let n = usize::from(self.counts[i]);
        let at = self.start(i);
        (n > 0 && self.vals.is_live(at)).then_some(at..at + n)
    }

    fn find_apart(&self, i: usize) -> Result<usize, usize> {
        self.apart
            .binary_search_by_key(&(i as u32), |entry| entry.0)
    }

    /// The values of key `i`, to change.
    pub fn get_mut(&mut self, i: usize) -> Option<&mut [V]> {
        if !self.is_live(i) {
            return None;
        }
        if let Some(slots) = self.slots(i) {
            return self.vals.slice_mut(slots);
        }
        let at = self.find_apart(i).ok()?;
        Some(self.apart[at].1.as_mut_slice())
    }

    /// The values of key `i`, out of their slots.
    fn unpack(&mut self, i: usize) -> Option<List<V>> {
        let slots = self.slots(i)?;
        let vals: Vec<V> = slots.filter_map(|slot| self.vals.take(slot)).collect();
        Some(vals.into())
    }

    /// Changes the list of key `i`, which is apart from then on.
    fn change<R>(&mut self, i: usize, act: impl FnOnce(&mut List<V>) -> R) -> Option<R> {
        if !self.is_live(i) {
            return None;
        }
        let at = match self.find_apart(i) {
            Ok(at) => at,
            Err(at) => {
                let list = self.unpack(i)?;
                self.heap += list.heap();
                self.loose += 1;
                if self.apart.len() == self.apart.capacity() {
                    self.apart.reserve_exact(self.apart.len() / 2 + 4);
                }
                self.apart.insert(at, (i as u32, list));
                at
            }
        };
        let list = &mut self.apart[at].1;
        let (n, heap) = (list.as_slice().len(), list.heap());
        let done = act(list);
        self.heap = self.heap + list.heap() - heap;
        // One that had to be apart and need not any more.
        self.loose += usize::from(n > MOST && list.as_slice().len() <= MOST);
        Some(done)
    }

    /// Adds a value behind those of key `i`; gives it back where the key is dead.
    pub fn push(&mut self, i: usize, val: V) -> Option<V> {
        let mut val = Some(val);
        self.change(i, |list| {
            val.take().into_iter().for_each(|val| list.push(val))
        });
        val
    }

    /// Takes value `at` of key `i` out, which has more than one.
    pub fn remove(&mut self, i: usize, at: usize) -> Option<V> {
        self.change(i, |list| list.remove(at)).flatten()
    }
}

impl<V> Vals for Packed<V> {
    type Own = List<V>;
    type Ref<'a>
        = &'a [V]
    where
        V: 'a;
    type Row = Row<V>;

    #[inline]
    fn lend<'a>(list: &'a List<V>) -> &'a [V]
    where
        Self: 'a,
    {
        list.as_slice()
    }

    fn row(lists: Vec<List<V>>) -> Row<V> {
        let short = lists.iter().map(|list| list.as_slice().len());
        let n = short.filter(|&n| n <= MOST).sum();
        let mut row = Row::with_capacity(lists.len(), n);
        lists.into_iter().for_each(|list| row.push(list));
        row
    }

    fn row_len(row: &Row<V>) -> usize {
        row.counts.len()
    }

    fn split_row(row: &mut Row<V>, at: usize) -> Row<V> {
        let counts = row.counts.split_off(at);
        let vals = row.vals.split_off(sum(&row.counts));
        let cut = row.apart.partition_point(|(i, _)| (*i as usize) < at);
        let mut apart = row.apart.split_off(cut);
        apart.iter_mut().for_each(|(i, _)| *i -= at as u32);
        Row {
            vals,
            counts,
            apart,
        }
    }

    fn append_row(row: &mut Row<V>, more: Row<V>) {
        let n = more.counts.len();
        Rest::of(more).pass(n, row);
    }

    fn merge_rows(old: Row<V>, new: Vec<List<V>>, before: &[u32]) -> Row<V> {
        let n = old.counts.len();
        let short = new.iter().map(|list| list.as_slice().len());
        let short: usize = short.filter(|&n| n <= MOST).sum();
        let mut all = Row::with_capacity(n + new.len(), old.vals.len() + short);
        let mut rest = Rest::of(old);
        for (list, &before) in new.into_iter().zip(before) {
            rest.pass(before as usize, &mut all);
            all.push(list);
        }
        rest.pass(n, &mut all);
        all
    }

    fn of(mut row: Row<V>) -> Self {
        row.vals.shrink_to_fit();
        row.apart.shrink_to_fit();
        let mut at = 0;
        let starts = row.counts.chunks(STRIDE).map(|counts| {
            let start = at;
            at += sum(counts) as u32;
            start
        });
        Packed {
            starts: starts.collect(),
            vals: row.vals.into(),
            counts: row.counts.into(),
            heap: row.apart.iter().map(|(_, list)| list.heap()).sum(),
            apart: row.apart,
            loose: 0,
            dead: None,
        }
    }

    fn into_row(self) -> Row<V> {
        let vals = self.vals.into_live();
        if self.loose == 0 && self.dead.is_none() {
            return Row {
                vals,
                counts: self.counts.into(),
                apart: self.apart,
            };
        }
        let lists = self.apart.iter().map(|(_, list)| list.as_slice().len());
        let short: usize = lists.filter(|&n| n <= MOST).sum();
        let mut row = Row::with_capacity(self.counts.len(), vals.len() + short);
        let (mut rest, mut apart) = (vals.into_iter(), self.apart.into_iter().peekable());
        for (i, &n) in self.counts.iter().enumerate() {
            if let Some((_, list)) = apart.next_if(|(at, _)| *at as usize == i) {
                row.push(list);
            } else if !self.dead.as_ref().is_some_and(|dead| dead.has(i)) {
                row.vals.extend(rest.by_ref().take(usize::from(n)));
                row.counts.push(n);
            }
        }
        row
    }

    #[inline]
    fn gone(&self) -> usize {
        self.dead.as_ref().map_or(0, |dead| dead.count)
    }
    #[inline]
    fn live(&self) -> usize {
        self.counts.len() - self.gone()
    }
    #[inline]
    fn is_live(&self, i: usize) -> bool {
        i < self.counts.len() && self.dead.as_ref().is_none_or(|dead| !dead.has(i))
    }
    fn next_live(&self, i: usize) -> Option<usize> {
        let at = self
            .dead
            .as_ref()
            .map_or(Some(i), |dead| dead.next_live(i))?;
        (at < self.counts.len()).then_some(at)
    }
    fn last_live(&self, i: usize) -> Option<usize> {
        match &self.dead {
            None => i.checked_sub(1),
            Some(dead) => dead.last_live(i),
        }
    }

    #[inline]
    fn get(&self, i: usize) -> Option<&[V]> {
        if !self.is_live(i) {
            return None;
        }
        if let Some(slots) = self.slots(i) {
            return self.vals.slice(slots);
        }
        let at = self.find_apart(i).ok()?;
        Some(self.apart[at].1.as_slice())
    }

    fn take(&mut self, i: usize) -> Option<List<V>> {
        if !self.is_live(i) {
            return None;
        }
        let list = match self.find_apart(i) {
            Ok(at) => {
                let list = self.apart.remove(at).1;
                self.heap -= list.heap();
                list
            }
            Err(_) => self.unpack(i)?,
        };
        let n = self.counts.len();
        self.dead.get_or_insert_with(|| Dead::none(n)).add(i);
        Some(list)
    }

    #[inline]
    fn prefetch(&self, i: usize) {
        crate::simd::prefetch(&self.counts, i);
        crate::simd::prefetch(&self.starts, i / STRIDE);
    }

    fn apart(&self) -> usize {
        self.loose
    }

    fn bytes(&self) -> usize {
        self.vals.bytes()
            + self.counts.len()
            + size_of_val(&*self.starts)
            + self.apart.capacity() * size_of::<(u32, List<V>)>()
            + self.heap
            + self.dead.as_ref().map_or(0, |dead| dead.bytes())
    }

    /// Lists that lie apart stay where they are, as do the counts.
    #[cfg(feature = "place")]
    fn place(&mut self, home: crate::home::Home<'_>) -> bool {
        self.vals.place(home)
    }
    #[cfg(feature = "place")]
    fn beside(&self) -> usize {
        self.bytes() - self.vals.bytes() + self.vals.beside()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    type Model = Vec<Option<Vec<Rc<u32>>>>;

    fn check(packed: &Packed<Rc<u32>>, model: &Model) {
        for (i, vals) in model.iter().enumerate() {
            assert_eq!(packed.get(i), vals.as_deref(), "key {i}");
            assert_eq!(packed.is_live(i), vals.is_some());
            let live = |i: &usize| model[*i].is_some();
            assert_eq!(packed.next_live(i), (i..model.len()).find(live));
            assert_eq!(packed.last_live(i), (0..i).rfind(live));
        }
        assert_eq!(packed.get(model.len()), None);
        let dead = model.iter().filter(|vals| vals.is_none()).count();
        assert_eq!((packed.gone(), packed.live()), (dead, model.len() - dead));
        let heap = packed.apart.iter().map(|(_, list)| list.heap());
        assert_eq!(packed.heap, heap.sum::<usize>());
    }

    #[test]
    fn behaves_like_a_vector_of_vectors() {
        let mut x = 7u64;
        let mut random = |n: usize| {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (x >> 33) as usize % n
        };
        let rounds = if cfg!(miri) { 30 } else { 600 };
        let lists = |random: &mut dyn FnMut(usize) -> usize, n: usize| -> Vec<Vec<Rc<u32>>> {
            let len = |n: usize| if n < 2 { MOST - 1 + n * 2 } else { n };
            (0..n)
                .map(|_| {
                    let n = len(random(14)).max(1);
                    (0..n).map(|i| Rc::new(i as u32)).collect()
                })
                .collect()
        };
        let own = |lists: &[Vec<Rc<u32>>]| lists.iter().cloned().map(List::from).collect();
        for round in 0..rounds {
            let first = lists(&mut random, round % 70);
            let mut model: Model = first.iter().cloned().map(Some).collect();
            let mut packed = Packed::of(Packed::row(own(&first)));
            check(&packed, &model);
            for step in 0..random(60) {
                let i = random(model.len().max(1));
                let Some(vals) = model.get_mut(i) else { break };
                let (val, n) = (Rc::new(step as u32), vals.as_ref().map_or(0, Vec::len));
                match random(4) {
                    0 => {
                        let gone = packed.take(i).map(List::into_vec);
                        assert_eq!(gone, vals.take());
                    }
                    1 if n > 1 => {
                        let at = random(n);
                        let gone = vals.as_mut().map(|vals| vals.remove(at));
                        assert_eq!(packed.remove(i, at), gone);
                    }
                    2 => {
                        let all = packed.get_mut(i).into_iter().flatten();
                        all.for_each(|val| *val = Rc::new(**val + 1));
                        let all = vals.iter_mut().flatten();
                        all.for_each(|val| *val = Rc::new(**val + 1));
                    }
                    _ => match (packed.push(i, val.clone()), vals) {
                        (None, Some(vals)) => vals.push(val),
                        (back, None) => assert_eq!(back, Some(val)),
                        (Some(_), Some(_)) => panic!("key {i} is there"),
                    },
                }
            }
            check(&packed, &model);
            // As a merge does it: new lists between those that are left, then cut in two.
            let live: Vec<_> = model.iter().flatten().cloned().collect();
            let new = lists(&mut random, round % 9);
            let mut before: Vec<u32> = new.iter().map(|_| random(live.len() + 1) as u32).collect();
            before.sort_unstable();
            let mut all: Vec<_> = live.iter().cloned().map(Some).collect();
            for (list, &at) in new.iter().zip(&before).rev() {
                all.insert(at as usize, Some(list.clone()));
            }
            let mut row = Packed::merge_rows(packed.into_row(), own(&new), &before);
            assert_eq!(Packed::row_len(&row), all.len());
            let at = random(all.len() + 1);
            let mut behind = Packed::split_row(&mut row, at);
            let (left, right) = all.split_at(at);
            let rest = std::mem::take(&mut behind);
            check(&Packed::of(rest), &right.to_vec());
            Packed::append_row(&mut row, Packed::row(own(&new)));
            let both = left.iter().cloned().chain(new.iter().cloned().map(Some));
            let mut packed = Packed::of(row);
            check(&packed, &both.collect());
            packed.pack();
            assert!(
                packed
                    .apart
                    .iter()
                    .all(|(_, list)| list.as_slice().len() > MOST)
            );
            // What the map has of a value is all that is left of it.
            drop(packed);
            drop((first, model));
            drop(new);
            let each = all.iter().flatten().flatten();
            assert!(each.clone().all(|val| Rc::strong_count(val) <= 2));
        }
    }
}
