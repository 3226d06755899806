//! The values of a segment, one for each key.
//!
//! One of the files with `unsafe`. What always holds: slot `i` is initialised exactly when bit
//! `i` of the dead set is clear, and the set is there when any bit is set. Each unsafe block names the
//! check of that bit that makes it right.

use super::vals::Vals;
use crate::home::Block;
#[cfg(feature = "place")]
use crate::home::Home;
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use core::mem::{ManuallyDrop, MaybeUninit};
use core::ops::Range;

/// A fixed number of values, some of which may be gone.
pub struct Slots<V> {
    vals: Block<MaybeUninit<V>>,
    dead: Option<Box<Dead>>,
}

/// Which slots are dead, and how many.
pub(super) struct Dead {
    words: Box<[u64]>,
    pub(super) count: usize,
}

impl Dead {
    /// A set for this many slots, of none.
    pub(super) fn none(n: usize) -> Box<Self> {
        Box::new(Dead {
            words: vec![0; n.div_ceil(64)].into(),
            count: 0,
        })
    }

    #[inline]
    pub(super) fn has(&self, i: usize) -> bool {
        self.words[i / 64] >> (i % 64) & 1 == 1
    }

    pub(super) fn add(&mut self, i: usize) {
        self.words[i / 64] |= 1 << (i % 64);
        self.count += 1;
    }

    /// The first slot from `i` on that is not in the set, which may be behind the last.
    pub(super) fn next_live(&self, i: usize) -> Option<usize> {
        let (word, low) = (i / 64, !0 << (i % 64));
        let first = !*self.words.get(word)? & low;
        let behind = self.words[word + 1..].iter().map(|&word| !word);
        let mut words = core::iter::once(first).chain(behind).enumerate();
        let (n, bits) = words.find(|(_, bits)| *bits != 0)?;
        Some((word + n) * 64 + bits.trailing_zeros() as usize)
    }

    /// The first slot from `i` on that is in the set.
    fn next_dead(&self, i: usize) -> Option<usize> {
        let (word, low) = (i / 64, !0 << (i % 64));
        let first = *self.words.get(word)? & low;
        let behind = self.words[word + 1..].iter().copied();
        let mut words = core::iter::once(first).chain(behind).enumerate();
        let (n, bits) = words.find(|(_, bits)| *bits != 0)?;
        Some((word + n) * 64 + bits.trailing_zeros() as usize)
    }

    /// The last slot before `i` that is not in the set.
    pub(super) fn last_live(&self, i: usize) -> Option<usize> {
        let last = i.checked_sub(1)?;
        let (word, high) = (last / 64, !0 >> (63 - last % 64));
        let first = !self.words[word] & high;
        let before = self.words[..word].iter().rev().map(|&word| !word);
        let mut words = core::iter::once(first).chain(before).enumerate();
        let (n, bits) = words.find(|(_, bits)| *bits != 0)?;
        Some((word - n) * 64 + 63 - bits.leading_zeros() as usize)
    }

    pub(super) fn bytes(&self) -> usize {
        size_of::<Self>() + self.words.len() * 8
    }
}

/// Values as slots that are all live, where they lie.
fn to_slots<V>(vals: Vec<V>) -> Vec<MaybeUninit<V>> {
    let mut vals = ManuallyDrop::new(vals);
    let (at, len, room) = (vals.as_mut_ptr(), vals.len(), vals.capacity());
    // SAFETY: the parts of a vector that no other code has; `MaybeUninit<V>` lies as `V` does, and of the slots
    // no more is asked than of values.
    unsafe { Vec::from_raw_parts(at.cast(), len, room) }
}

/// Slots as the values that they have.
///
/// # Safety
/// All slots are initialised.
unsafe fn to_vals<V>(slots: Vec<MaybeUninit<V>>) -> Vec<V> {
    let mut slots = ManuallyDrop::new(slots);
    let (at, len, room) = (slots.as_mut_ptr(), slots.len(), slots.capacity());
    // SAFETY: the parts of a vector that no other code has; `V` lies as `MaybeUninit<V>` does, and the caller
    // says that each slot has its value.
    unsafe { Vec::from_raw_parts(at.cast(), len, room) }
}

impl<V> From<Vec<V>> for Slots<V> {
    fn from(vals: Vec<V>) -> Self {
        let vals = to_slots(vals).into();
        Slots { vals, dead: None }
    }
}

impl<V> Default for Slots<V> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<V> Slots<V> {
    /// The value of slot `i`, to change.
    #[inline]
    pub fn get_mut(&mut self, i: usize) -> Option<&mut V> {
        // SAFETY: a live slot, checked here, is initialised.
        self.is_live(i)
            .then(|| unsafe { self.vals[i].assume_init_mut() })
    }

    /// The live slots of a range, in order, with their values to change.
    pub fn iter_mut(&mut self, range: Range<usize>) -> impl Iterator<Item = (usize, &mut V)> {
        let dead = self.dead.as_deref();
        let vals = self.vals[range.clone()].iter_mut();
        let live = range
            .zip(vals)
            .filter(move |(i, _)| !dead.is_some_and(|dead| dead.has(*i)));
        // SAFETY: the filter lets only slots through whose dead bit is clear; each is initialised.
        live.map(|(i, val)| (i, unsafe { val.assume_init_mut() }))
    }

    /// Whether all slots of a range are live.
    #[inline]
    pub(super) fn all_live(&self, mut range: Range<usize>) -> bool {
        let dead = self.dead.as_ref();
        range.end <= self.vals.len() && dead.is_none_or(|dead| !range.any(|i| dead.has(i)))
    }

    /// The values of a range; none where one is dead.
    #[inline]
    pub(super) fn slice(&self, range: Range<usize>) -> Option<&[V]> {
        if !self.all_live(range.clone()) {
            return None;
        }
        let vals: *const [MaybeUninit<V>] = &raw const self.vals[range];
        // SAFETY: all slots of the range are live, checked above, so each is initialised;
        // `MaybeUninit<V>` lies as `V` does, and the borrow of `self` keeps them.
        Some(unsafe { &*(vals as *const [V]) })
    }

    /// The values of a range, to change; none where one is dead.
    pub(super) fn slice_mut(&mut self, range: Range<usize>) -> Option<&mut [V]> {
        if !self.all_live(range.clone()) {
            return None;
        }
        let vals: *mut [MaybeUninit<V>] = &raw mut self.vals[range];
        // SAFETY: all slots of the range are live, checked above, so each is initialised;
        // `MaybeUninit<V>` lies as `V` does, and nothing else is borrowed of `self` meanwhile.
        Some(unsafe { &mut *(vals as *mut [V]) })
    }

    /// The values that are there, in order.
    pub fn into_live(mut self) -> Vec<V> {
        let mut vals = Vec::from(core::mem::take(&mut self.vals));
        // Nothing is left in `self` for its drop to look at.
        if let Some(dead) = self.dead.take() {
            let (n, mut kept, mut at) = (vals.len(), 0, 0);
            while let Some(from) = dead.next_live(at).filter(|&from| from < n) {
                let to = dead.next_dead(from).unwrap_or(n).min(n);
                let slots: *mut MaybeUninit<V> = vals.as_mut_ptr();
                // SAFETY: `kept <= from <= to <= n`, so both stretches are of the vector's own slots, which may
                // overlap; what is written over was dead, or has been moved down already.
                unsafe { slots.add(from).copy_to(slots.add(kept), to - from) };
                (kept, at) = (kept + to - from, to);
            }
            vals.truncate(kept);
        }
        // SAFETY: without a dead set every slot is initialised; with one those that are left were not in it, and
        // each is there once.
        unsafe { to_vals(vals) }
    }
}

/// Appends the bits of some slots to others, which have them from now on: who had them must not use them again.
fn move_all<V>(from: &[MaybeUninit<V>], into: &mut Vec<MaybeUninit<V>>) {
    into.reserve(from.len());
    let len = into.len();
    // SAFETY: there is room for that many behind the last, just made; the two do not overlap, since `into` is
    // borrowed alone; slots may be uninitialised, so any bits will do.
    unsafe {
        let behind = into.as_mut_ptr().add(len);
        behind.copy_from_nonoverlapping(from.as_ptr(), from.len());
        into.set_len(len + from.len());
    }
}

impl<V> Vals for Slots<V> {
    type Own = V;
    type Ref<'a>
        = &'a V
    where
        V: 'a;
    type Row = Vec<V>;

    #[inline]
    fn lend<'a>(val: &'a V) -> &'a V
    where
        Self: 'a,
    {
        val
    }
    fn row(vals: Vec<V>) -> Vec<V> {
        vals
    }
    fn row_len(row: &Vec<V>) -> usize {
        row.len()
    }
    fn split_row(row: &mut Vec<V>, at: usize) -> Vec<V> {
        let behind = row.split_off(at);
        row.shrink_to_fit();
        behind
    }
    fn append_row(row: &mut Vec<V>, more: Vec<V>) {
        row.extend(more);
    }
    fn merge_rows(old: Vec<V>, new: Vec<V>, before: &[u32]) -> Vec<V> {
        let old = to_slots(old);
        let mut all = Vec::with_capacity(old.len() + new.len());
        let mut passed = 0;
        for (val, &before) in new.into_iter().zip(before) {
            move_all(&old[passed..before as usize], &mut all);
            all.push(MaybeUninit::new(val));
            passed = before as usize;
        }
        move_all(&old[passed..], &mut all);
        // SAFETY: each slot of `old`, all of them initialised, was moved here once, since the ranges follow each
        // other up to the end, and those between are new; `old` drops none.
        unsafe { to_vals(all) }
    }
    fn of(row: Vec<V>) -> Self {
        row.into()
    }
    fn into_row(self) -> Vec<V> {
        self.into_live()
    }

    #[inline]
    fn gone(&self) -> usize {
        self.dead.as_ref().map_or(0, |dead| dead.count)
    }
    #[inline]
    fn live(&self) -> usize {
        self.vals.len() - self.gone()
    }
    #[inline]
    fn is_live(&self, i: usize) -> bool {
        i < self.vals.len()
            && match &self.dead {
                None => true,
                Some(dead) => !dead.has(i),
            }
    }
    fn next_live(&self, i: usize) -> Option<usize> {
        let at = self
            .dead
            .as_ref()
            .map_or(Some(i), |dead| dead.next_live(i))?;
        // The bits behind the last slot are not of dead ones.
        (at < self.vals.len()).then_some(at)
    }
    fn last_live(&self, i: usize) -> Option<usize> {
        match &self.dead {
            None => i.checked_sub(1),
            Some(dead) => dead.last_live(i),
        }
    }
    #[inline]
    fn get(&self, i: usize) -> Option<&V> {
        // SAFETY: a live slot, checked here, is initialised.
        self.is_live(i)
            .then(|| unsafe { self.vals[i].assume_init_ref() })
    }
    fn take(&mut self, i: usize) -> Option<V> {
        if !self.is_live(i) {
            return None;
        }
        let n = self.vals.len();
        self.dead.get_or_insert_with(|| Dead::none(n)).add(i);
        // SAFETY: the slot was live, checked above, and is marked dead before the value leaves,
        // so nothing reads or drops it again.
        Some(unsafe { self.vals[i].assume_init_read() })
    }
    #[inline]
    fn prefetch(&self, i: usize) {
        crate::simd::prefetch(&self.vals, i);
    }
    fn bytes(&self) -> usize {
        size_of_val(&*self.vals) + self.dead.as_ref().map_or(0, |dead| dead.bytes())
    }
    #[cfg(feature = "place")]
    fn place(&mut self, home: Home<'_>) -> bool {
        let vals = Vec::from(core::mem::take(&mut self.vals));
        let kept = match home {
            None => Ok(vals.into()),
            Some(store) => store.keep(vals),
        };
        let moved = kept.is_ok();
        self.vals = kept.unwrap_or_else(|(vals, _)| vals.into());
        moved
    }
    #[cfg(feature = "place")]
    fn beside(&self) -> usize {
        self.dead.as_ref().map_or(0, |dead| dead.bytes())
    }
    #[cfg(feature = "place")]
    fn whole(&self, i: usize) -> Option<&V> {
        self.get(i)
    }
}

impl<V> Drop for Slots<V> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<V>() {
            return;
        }
        for i in 0..self.vals.len() {
            // A value whose drop panics leaves the ones behind it undropped: a leak, not more.
            drop(self.take(i));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::rc::Rc;

    #[test]
    fn each_value_is_dropped_exactly_once() {
        let token = Rc::new(());
        for take in [&[][..], &[0, 3, 64, 129], &[5; 1]] {
            for unpack in [false, true] {
                let mut slots = Slots::from(vec![Rc::clone(&token); 130]);
                let taken: Vec<_> = take.iter().map(|&i| slots.take(i)).collect();
                assert!(taken.iter().all(Option::is_some));
                assert!(
                    take.iter()
                        .all(|&i| slots.take(i).is_none() && slots.get(i).is_none())
                );
                assert!(slots.get(130).is_none() && slots.get_mut(131).is_none());
                assert_eq!(slots.live(), 130 - take.len());
                assert_eq!(slots.gone(), take.len());
                assert_eq!(Rc::strong_count(&token), 131);
                if unpack {
                    let live = slots.into_live();
                    assert_eq!(live.len(), 130 - take.len());
                    drop(live);
                } else {
                    drop(slots);
                }
                assert_eq!(Rc::strong_count(&token), 1 + take.len());
                drop(taken);
                assert_eq!(Rc::strong_count(&token), 1);
            }
        }
    }

    #[test]
    fn live_slots_are_found_over_dead_ones_in_both_directions() {
        for n in [1, 63, 64, 65, 200] {
            for (from, to) in [(0, 0), (0, n), (0, n / 2), (n / 3, n), (n / 3, n / 2)] {
                let mut slots = Slots::from((0..n).collect::<Vec<_>>());
                (from..to).for_each(|i| assert_eq!(slots.take(i), Some(i)));
                for i in 0..=n {
                    assert_eq!(slots.next_live(i), (i..n).find(|&i| slots.is_live(i)));
                    assert_eq!(slots.last_live(i), (0..i).rfind(|&i| slots.is_live(i)));
                }
            }
        }
    }

    #[test]
    fn live_values_of_a_range_can_be_changed() {
        let mut slots = Slots::from((0..100).collect::<Vec<_>>());
        (10..90).for_each(|i| assert_eq!(slots.take(i), Some(i)));
        slots.iter_mut(5..95).for_each(|(i, val)| *val = i + 1000);
        for i in 0..100 {
            let val = if (5..95).contains(&i) { i + 1000 } else { i };
            assert_eq!(slots.get(i), (!(10..90).contains(&i)).then_some(&val));
        }
    }

    #[test]
    fn values_keep_their_order() {
        let mut slots = Slots::from((0..200).map(|i| i.to_string()).collect::<Vec<_>>());
        slots.get_mut(7).unwrap().push('!');
        assert_eq!(slots.take(8).as_deref(), Some("8"));
        let live = slots.into_live();
        assert_eq!(live[7], "7!");
        assert_eq!(live[8], "9");
        assert_eq!(live.len(), 199);
    }
}
