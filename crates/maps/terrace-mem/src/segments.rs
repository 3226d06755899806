//! The static stage of a map and what belongs to it, in a box: a map without segments has none of it.

use crate::family::Family;
#[cfg(feature = "place")]
use crate::place::one::One;
use crate::plan::{Plan, Training};
use crate::segment::{Segment, SegmentList};
use crate::slots::{Packed, Slots, Vals};
use crate::stage::KeyRun;
use crate::two_stage::StaticStage;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::mem;

/// Bytes of keys that symbols are looked for in: a step takes a tenth of a millisecond.
const SAMPLE: usize = 8 << 10;

/// Symbols are looked for where there are this many entries.
const ENOUGH: usize = 512;

/// What there is of a static stage.
pub struct Parts<F: Family, S: Vals> {
    pub list: SegmentList<F, S>,
    pub plan: Plan<F::Run>,
    /// Where the next merge step begins.
    hand: F::Buf,
    /// Symbols that are being looked for, and how many segments there were when that was begun.
    training: Option<Box<Training>>,
    learned: usize,
    /// The segment where the search for dead slots goes on.
    pub dead_hand: usize,
}

impl<F: Family, S: Vals> Parts<F, S> {
    /// Puts the hand there.
    pub fn set_hand(&mut self, hand: F::Buf) {
        self.hand = hand;
    }

    /// A step towards symbols for the segments to come, out of a sample of segment `i`; begins when there
    /// are twice as many segments as when it was begun last. O(sample).
    pub fn learn(&mut self, i: usize) {
        if let Some(training) = &mut self.training {
            if let Some(symbols) = training.step() {
                self.training = None;
                self.plan.symbols = symbols.map(Arc::new);
            }
            return;
        }
        let segs = self.list.segs();
        if segs.len() < 2 * self.learned || self.list.live() < ENOUGH {
            return;
        }
        if let Some(seg) = segs.get(i).or(segs.last()) {
            self.learned = segs.len();
            self.training = seg.keys.sample(SAMPLE).map(Box::new);
        }
    }
}

/// The segments of a map.
pub struct Segments<F: Family, S: Vals>(Option<Box<Parts<F, S>>>);

impl<F: Family, S: Vals> Default for Segments<F, S> {
    fn default() -> Self {
        Segments(None)
    }
}

impl<F: Family, S: Vals> Segments<F, S> {
    /// The list of them, where there are any.
    #[inline]
    pub fn list(&self) -> Option<&SegmentList<F, S>> {
        self.0.as_ref().map(|parts| &parts.list)
    }

    #[inline]
    fn list_mut(&mut self) -> Option<&mut SegmentList<F, S>> {
        self.0.as_mut().map(|parts| &mut parts.list)
    }

    /// All of it, to be changed; made where there is none.
    pub fn open(&mut self, plan: impl FnOnce() -> Plan<F::Run>) -> &mut Parts<F, S> {
        self.0.get_or_insert_with(|| {
            Box::new(Parts {
                list: SegmentList::default(),
                plan: plan(),
                hand: F::Buf::default(),
                training: None,
                learned: 0,
                dead_hand: 0,
            })
        })
    }

    /// All of it, to be changed, where there is any.
    pub fn parts_mut(&mut self) -> Option<&mut Parts<F, S>> {
        self.0.as_deref_mut()
    }

    /// Where the next merge step begins; none is the least key.
    pub fn hand(&self) -> Option<F::Ref<'_>> {
        self.0.as_ref().map(|parts| F::load(&parts.hand))
    }

    /// Puts the hand at the least key; where it was.
    pub fn take_hand(&mut self) -> F::Buf {
        let parts = self.parts_mut();
        parts.map_or_else(F::Buf::default, |parts| mem::take(&mut parts.hand))
    }

    /// Puts the hand at the range of segment `i`, or at the first behind the last.
    pub fn pass(&mut self, i: usize) {
        if let Some(Parts { list, hand, .. }) = self.parts_mut() {
            match list.low(i) {
                Some(low) => F::store(low, hand),
                None => *hand = F::Buf::default(),
            }
        }
    }

    /// The segments.
    #[inline]
    pub fn segs(&self) -> &[Segment<F, S>] {
        self.list().map_or(&[], SegmentList::segs)
    }

    /// The segments that keys of a span may be in, values to change.
    pub fn segs_mut(
        &mut self,
        from: Option<F::Ref<'_>>,
        to: Option<F::Ref<'_>>,
    ) -> &mut [Segment<F, S>] {
        let list = self.list_mut();
        list.map_or(&mut [], |list| list.segs_mut(from, to))
    }

    /// How many entries are there.
    #[inline]
    pub fn live(&self) -> usize {
        self.list().map_or(0, SegmentList::live)
    }

    /// How many entries are there, and how many slots are dead.
    #[inline]
    pub fn counts(&self) -> (usize, usize) {
        let of = |list: &SegmentList<F, S>| (list.live(), list.gone());
        self.list().map_or((0, 0), of)
    }

    /// Bytes of keys and of values.
    pub fn bytes(&self) -> (usize, usize) {
        self.list().map_or((0, 0), SegmentList::bytes)
    }

    /// Bytes of all that is neither a key nor a value, a shortcut or a cached node.
    pub fn directory_bytes(&self) -> usize {
        let of = |parts: &Parts<F, S>| {
            size_of_val(parts)
                + parts.list.directory_bytes()
                + F::heap(&parts.hand)
                + parts
                    .training
                    .as_ref()
                    .map_or(0, |training| training.bytes())
                + parts
                    .plan
                    .symbols
                    .as_ref()
                    .map_or(0, |all| size_of_val(&**all) + 16)
        };
        self.0.as_deref().map_or(0, of)
    }

    /// Bytes of the shortcuts.
    pub fn shortcut_bytes(&self) -> usize {
        self.list().map_or(0, SegmentList::shortcut_bytes)
    }

    /// Bytes of cached nodes.
    pub fn cache_bytes(&self) -> usize {
        let plan = self.0.as_ref().map(|parts| &parts.plan);
        plan.map_or(0, |plan| plan.cache_bytes(KeyRun::<F>::heap))
    }

    /// Bytes of copies of hot entries.
    pub fn copy_bytes(&self) -> usize {
        #[cfg(feature = "place")]
        let copies = self.one().map_or(0, |one| one.copy_bytes() as usize);
        #[cfg(not(feature = "place"))]
        let copies = 0;
        copies
    }

    /// For how many segments there is room, and whether that for more has been made ready.
    #[cfg(test)]
    pub fn room(&self) -> (usize, bool) {
        self.list().map_or((0, false), SegmentList::room)
    }

    /// The segment whose range `key` is in; 0 where there is none.
    #[inline]
    pub fn locate(&self, key: F::Ref<'_>) -> usize {
        self.list().map_or(0, |list| list.locate(key))
    }

    /// The least key that may be in segment `i`; none behind the last.
    pub fn low(&self, i: usize) -> Option<F::Ref<'_>> {
        self.list()?.low(i)
    }

    /// The live value of `key`, whose hash this is, where a shortcut leads to it. O(1).
    #[inline]
    pub fn get_near(&self, key: F::Ref<'_>, hash: u64) -> Option<S::Ref<'_>> {
        self.list()?.get_near(key, hash)
    }

    /// The live value of `key` by the long way. O(log n).
    #[inline]
    pub fn get(&self, key: F::Ref<'_>, hash: impl Fn() -> u64) -> Option<S::Ref<'_>> {
        self.list()?.get(key, hash)
    }

    /// The segment and the rank of `key`, which may be dead. O(log n).
    pub fn find(&self, key: F::Ref<'_>) -> Option<(usize, usize)> {
        self.list()?.find(key)
    }

    /// Changes the values of segment `i`, which is there.
    pub fn change<R>(&mut self, i: usize, act: impl FnOnce(&mut S) -> R) -> R {
        let list = self.list_mut();
        list.expect("there is a segment").change(i, act)
    }

    /// Takes the value of `key`, whose hash `hash` gives, out of segment `i`, whose range it is
    /// in. O(log n).
    #[inline]
    pub fn take(
        &mut self,
        i: usize,
        key: F::Ref<'_>,
        hash: impl FnOnce() -> u64,
    ) -> Option<S::Own> {
        self.list_mut()?.take(i, key, hash)
    }

    /// Where the segments lie, where there are two kinds of memory.
    #[cfg(feature = "place")]
    #[inline]
    pub fn one(&self) -> Option<&One<F, S::Own>> {
        self.list()?.one.as_deref()
    }

    /// No segments, over the same memories.
    #[cfg(feature = "place")]
    pub fn again(&self, plan: impl FnOnce() -> Plan<F::Run>) -> Self {
        let mut empty = Segments::default();
        if let Some(one) = self.one() {
            empty.open(plan).list.one = Some(Box::new(one.again()));
        }
        empty
    }

    /// No segments.
    #[cfg(not(feature = "place"))]
    pub fn again(&self, _: impl FnOnce() -> Plan<F::Run>) -> Self {
        Segments::default()
    }

    /// The segment of a range's beginning is read.
    #[inline]
    pub fn touched(&self, _from: Option<F::Ref<'_>>) {
        #[cfg(feature = "place")]
        if let Some(one) = self.one() {
            one.touched(_from.map_or(0, |from| self.locate(from)));
        }
    }

    /// Takes all segments out.
    pub fn take_all(&mut self) -> alloc::vec::Vec<Segment<F, S>> {
        let Some(list) = self.list_mut() else {
            return Default::default();
        };
        #[cfg(feature = "place")]
        list.erase_copies();
        list.remove(0..list.segs().len())
    }
}

impl<F: Family, V> Segments<F, Slots<V>> {
    /// The live value of `key`, to change. O(log n).
    pub fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        self.list_mut()?.get_mut(key)
    }
}

impl<F: Family, V> Segments<F, Packed<V>> {
    /// The live values of `key`, to change. O(log n).
    pub fn get_all_mut(&mut self, key: F::Ref<'_>) -> Option<&mut [V]> {
        self.list_mut()?.get_all_mut(key)
    }
}
