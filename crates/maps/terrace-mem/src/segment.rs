//! The static stage of a map: segments in key order, each a run of keys and their values.
//!
//! What always holds: there is a lower bound for each segment; the keys of segment `i` are at
//! least bound `i` and less than bound `i + 1`; the first bound is the least key of all.

use crate::family::Family;
use crate::family::{Fences, Shortcuts, Spot};
use crate::faults::{Fault, planted};
#[cfg(feature = "place")]
use crate::place::one::{One, Row};
use crate::plan::Plan;
use crate::slots::{Packed, Slots, Vals};
use crate::stage::KeyRun;
use crate::two_stage::{self, Bounds, StaticStage};
use alloc::vec::Vec;
use core::mem::MaybeUninit;
use core::ops::Range;

/// Segments from which on the list grows into memory that is made ready before: to copy fewer is no pause.
const LEAST_LARGE: usize = 1024;

/// Headers that are made ready by a step, at most three kilobytes: a page of memory that is
/// touched for the first time may take 10 µs in a virtual machine.
const READIED: usize = 16;

/// A run of keys and their values, in whole cache lines.
#[repr(C, align(64))]
pub struct Segment<F: Family, S> {
    pub keys: F::Stage,
    pub vals: S,
}

impl<F: Family, S: Vals> Segment<F, S> {
    /// A segment of the keys `from..to` of a run.
    fn build(run: &F::Run, from: usize, to: usize, vals: S::Row, plan: &Plan<F::Run>) -> Self {
        debug_assert_eq!(to - from, S::row_len(&vals));
        Segment {
            keys: F::Stage::build(run, from, to, plan),
            vals: S::of(vals),
        }
    }

    /// The rank of `key`, whose hash `hash` gives, and its live value, with the line of that asked for
    /// before the key is compared.
    #[inline]
    fn find(&self, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> Option<(usize, S::Ref<'_>)> {
        let rank = self.keys.find(key, hash, |near| self.vals.prefetch(near))?;
        Some((rank, self.vals.get(rank)?))
    }

    /// Takes the live values out, and adds them and their keys.
    pub fn unpack(&mut self, keys: &mut F::Run, vals: &mut S::Row) {
        let old = core::mem::take(&mut self.vals);
        two_stage::decode_live::<F>(&self.keys, |i| old.is_live(i), old.live(), keys);
        if S::row_len(vals) == 0 {
            *vals = old.into_row();
        } else {
            S::append_row(vals, old.into_row());
        }
    }

    /// About how many bytes the keys of live entries have. O(blocks).
    pub fn live_key_bytes(&self) -> usize {
        self.keys.key_bytes() * self.vals.live() / self.keys.len().max(1)
    }

    fn bytes(&self) -> (usize, usize) {
        (self.keys.bytes(), self.vals.bytes())
    }
}

/// All segments of a map.
pub struct SegmentList<F: Family, S: Vals> {
    fences: F::Fences,
    shortcuts: F::Shortcuts,
    segs: Vec<Segment<F, S>>,
    /// What `segs` moves to when it is full: empty, and of this many elements the memory has been written
    /// to.
    next: Vec<Segment<F, S>>,
    readied: usize,
    live: usize,
    gone: usize,
    key_bytes: usize,
    val_bytes: usize,
    /// Where they lie, where there are two kinds of memory.
    #[cfg(feature = "place")]
    pub one: Option<alloc::boxed::Box<One<F, S::Own>>>,
}

impl<F: Family, S: Vals> Default for SegmentList<F, S> {
    fn default() -> Self {
        SegmentList {
            fences: F::Fences::default(),
            shortcuts: F::Shortcuts::default(),
            segs: Vec::new(),
            next: Vec::new(),
            readied: 0,
            live: 0,
            gone: 0,
            key_bytes: 0,
            val_bytes: 0,
            #[cfg(feature = "place")]
            one: None,
        }
    }
}

impl<F: Family, S: Vals> SegmentList<F, S> {
    /// The segments.
    #[inline]
    pub fn segs(&self) -> &[Segment<F, S>] {
        &self.segs
    }

    /// The segments that keys of a span may be in, values to change.
    pub fn segs_mut(
        &mut self,
        from: Option<F::Ref<'_>>,
        to: Option<F::Ref<'_>>,
    ) -> &mut [Segment<F, S>] {
        let n = self.segs.len();
        let a = from.map_or(0, |from| self.fences.find(from));
        let b = to.map_or(n, |to| self.fences.find(to) + 1).min(n);
        if let (Some(from), Some(to)) = (from, to)
            && F::cmp(from, to).is_ge()
        {
            return &mut [];
        }
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one
            && a < b
        {
            one.erase_many(&mut self.segs, a..b);
        }
        self.segs.get_mut(a..b).unwrap_or_default()
    }

    /// How many entries are there.
    #[inline]
    pub fn live(&self) -> usize {
        self.live
    }

    /// How many slots are dead.
    #[inline]
    pub fn gone(&self) -> usize {
        self.gone
    }

    /// Bytes of keys and of values.
    #[inline]
    pub fn bytes(&self) -> (usize, usize) {
        (self.key_bytes, self.val_bytes)
    }

    /// Bytes of the list itself.
    pub fn directory_bytes(&self) -> usize {
        let headers = self.segs.capacity() + self.next.capacity();
        #[cfg(feature = "place")]
        let seats = self.one.as_ref().map_or(0, |one| one.directory_bytes());
        #[cfg(not(feature = "place"))]
        let seats = 0;
        self.fences.heap() + headers * size_of::<Segment<F, S>>() + seats
    }

    /// For how many segments there is room, and whether that for more has been made ready.
    #[cfg(test)]
    pub fn room(&self) -> (usize, bool) {
        let ready = self.readied == self.next.capacity();
        (self.segs.capacity(), ready && self.next.capacity() > 0)
    }

    /// A step towards room for more segments: the headers of 50 million entries are copied in a third of
    /// a millisecond, to memory that was written to before, and in five to fresh memory. O(1).
    pub fn make_ready(&mut self) {
        let full = self.segs.capacity();
        if full < LEAST_LARGE || self.segs.len() < full - full / 8 {
            return;
        }
        if self.next.capacity() == 0 {
            (self.next, self.readied) = (Vec::with_capacity(full * 2), 0);
        }
        let unready = self.next.spare_capacity_mut().get_mut(self.readied..);
        for header in unready.into_iter().flatten().take(READIED) {
            *header = MaybeUninit::zeroed();
            self.readied += 1;
        }
    }

    /// The segment whose range `key` is in; 0 where there is none.
    #[inline]
    pub fn locate(&self, key: F::Ref<'_>) -> usize {
        self.fences.find(key)
    }

    /// The least key that may be in segment `i`; none behind the last.
    pub fn low(&self, i: usize) -> Option<F::Ref<'_>> {
        self.fences.get(i)
    }

    /// The live value of `key`, whose hash this is, where a shortcut leads to it. O(1).
    #[inline]
    pub fn get_near(&self, key: F::Ref<'_>, hash: u64) -> Option<S::Ref<'_>> {
        let spot = self.shortcuts.find(key, hash)?;
        if let Some(seg) = self.segs.get(spot.segment)
            && (seg.keys.id() == spot.id || planted(Fault::StaleShortcut))
            && let Some(val) = seg.vals.get(spot.rank)
        {
            return Some(val);
        }
        self.shortcuts.leave(hash);
        None
    }

    /// The live value of `key` by the long way, for which there may be a shortcut from now on.
    /// O(log n).
    #[inline]
    pub fn get(&self, key: F::Ref<'_>, hash: impl Fn() -> u64) -> Option<S::Ref<'_>> {
        let segment = self.fences.find(key);
        let seg = self.segs.get(segment)?;
        crate::simd::prefetch_whole(seg);
        #[cfg(feature = "place")]
        if let Some(one) = &self.one {
            return one.look(segment, (&seg.keys, &seg.vals), key, hash);
        }
        let (rank, val) = seg.find(key, &hash)?;
        if F::Shortcuts::ANY {
            let id = seg.keys.id();
            let spot = Spot { segment, id, rank };
            self.shortcuts.note(key, hash(), spot);
        }
        Some(val)
    }

    /// A step towards one shortcut for this many entries. O(1).
    pub fn fit_shortcuts(&mut self, entries: usize) {
        self.shortcuts.fit(self.live / entries);
    }

    /// Bytes of the shortcuts.
    pub fn shortcut_bytes(&self) -> usize {
        self.shortcuts.bytes()
    }

    /// The segment and the rank of `key`, which may be dead. O(log n).
    pub fn find(&self, key: F::Ref<'_>) -> Option<(usize, usize)> {
        let i = self.fences.find(key);
        let rank = self.segs.get(i)?.keys.find(key, || F::hash(key), |_| {})?;
        Some((i, rank))
    }

    /// Changes the values of segment `i`, none of which comes to be dead.
    pub fn change<R>(&mut self, i: usize, act: impl FnOnce(&mut S) -> R) -> R {
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one {
            one.erase_many(&mut self.segs, i..i + 1);
        }
        let vals = &mut self.segs[i].vals;
        let before = vals.bytes();
        let done = act(vals);
        self.val_bytes = self.val_bytes + vals.bytes() - before;
        done
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
        let seg = self.segs.get_mut(i)?;
        // Most often the key is not there, so the value's line is not asked for in advance.
        let rank = seg.keys.find(key, hash, |_| {})?;
        let before = seg.vals.bytes();
        let val = seg.vals.take(rank)?;
        // A list that lay apart takes its bytes along.
        self.val_bytes = self.val_bytes + seg.vals.bytes() - before;
        self.live -= 1;
        self.gone += 1;
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one {
            one.touched(i);
            one.erase(key);
        }
        Some(val)
    }

    /// Counts what segment `i` has.
    fn count(&mut self, i: usize) {
        let seg = &self.segs[i];
        let (keys, vals) = seg.bytes();
        self.key_bytes += keys;
        self.val_bytes += vals;
        self.live += seg.vals.live();
        self.gone += seg.vals.gone();
    }

    /// Counts no more what segment `i` has.
    fn discount(&mut self, i: usize) {
        let seg = &self.segs[i];
        let (keys, vals) = seg.bytes();
        self.key_bytes -= keys;
        self.val_bytes -= vals;
        self.live -= seg.vals.live();
        self.gone -= seg.vals.gone();
    }

    /// Puts a segment in at `i`, which lies where the one at `like` does, or in slow memory.
    #[cfg_attr(
        not(feature = "place"),
        allow(unused_variables, reason = "there is one kind")
    )]
    fn join(&mut self, i: usize, seg: Segment<F, S>, like: Option<usize>) {
        if self.segs.len() == self.segs.capacity() && self.next.capacity() > self.segs.len() {
            self.next.append(&mut self.segs);
            self.segs = core::mem::take(&mut self.next);
        }
        self.segs.insert(i, seg);
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one {
            one.join(i, like, self.segs.at(i));
        }
        self.count(i);
    }

    /// Merges new entries, whose keys are others, into segment `i`, without its dead slots. It keeps its
    /// place and its bound, has others behind it where it grew too long, and is gone where none is left.
    /// O(n).
    pub fn merge(
        &mut self,
        i: usize,
        keys: &F::Run,
        vals: Vec<S::Own>,
        how: (&Bounds, &Plan<F::Run>),
    ) {
        self.discount(i);
        let seg = &mut self.segs[i];
        let mut before = Vec::with_capacity(keys.len());
        let (live, n) = (|rank| seg.vals.is_live(rank), seg.vals.live());
        let stages = two_stage::merge::<F>(&seg.keys, live, n, keys, how, &mut before);
        let old = core::mem::take(&mut seg.vals).into_row();
        self.put(i, stages, S::merge_rows(old, vals, &before));
    }

    /// Puts entries in the place of segment `i`, which has no values and is not counted.
    fn put(&mut self, i: usize, stages: Vec<F::Stage>, mut rest: S::Row) {
        let pieces = stages.len();
        for (p, keys) in stages.into_iter().enumerate() {
            let behind = match p + 1 < pieces {
                true => S::split_row(&mut rest, keys.len()),
                false => S::Row::default(),
            };
            let vals = S::of(core::mem::replace(&mut rest, behind));
            if p == 0 {
                self.segs[i] = Segment { keys, vals };
                #[cfg(feature = "place")]
                if let Some(one) = &mut self.one {
                    one.replaced(i, self.segs.at(i));
                }
                self.count(i);
                continue;
            }
            let low = two_stage::low_between::<F>(&self.segs[i + p - 1].keys, &keys);
            self.fences.insert(i + p, F::load(&low));
            self.join(i + p, Segment { keys, vals }, Some(i));
        }
        if pieces == 0 {
            self.count(i);
            self.remove(i..i + 1);
        }
    }

    /// Takes segments out; their ranges go to the segment before, or the one behind for the first.
    pub fn remove(&mut self, which: Range<usize>) -> Vec<Segment<F, S>> {
        let out: Vec<_> = self.segs.drain(which.clone()).collect();
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one {
            one.leave(which.clone());
        }
        for seg in &out {
            let (keys, vals) = seg.bytes();
            self.key_bytes -= keys;
            self.val_bytes -= vals;
            self.live -= seg.vals.live();
            self.gone -= seg.vals.gone();
        }
        // The first bound stays the least key of all.
        let keep_first = usize::from(which.start == 0 && !self.segs.is_empty());
        self.fences
            .remove(which.start + keep_first..which.end + keep_first);
        out
    }

    /// Puts sorted entries in at `i` as `pieces` segments of about equal length. All of them
    /// must lie between the entries of the neighbours. O(n + segments).
    pub fn insert(
        &mut self,
        i: usize,
        run: &F::Run,
        vals: S::Row,
        pieces: usize,
        plan: &Plan<F::Run>,
    ) {
        let n = run.len();
        let mut low = F::Buf::default();
        let mut last = F::Buf::default();
        let mut rest = vals;
        for p in 0..pieces {
            let (from, to) = (n * p / pieces, n * (p + 1) / pieces);
            let behind = S::split_row(&mut rest, to - from);
            let part = core::mem::replace(&mut rest, behind);
            if i + p == 0 {
                low = F::Buf::default();
            } else {
                if p > 0 {
                    F::store(run.get(from - 1), &mut last);
                } else {
                    let before = &self.segs[i - 1].keys;
                    before.last_key(&mut last);
                }
                F::store(run.get(from), &mut low);
                F::shorten(F::load(&last), &mut low);
            }
            if i + p == 0 && !self.segs.is_empty() {
                // What was first gets a bound of its own.
                let mut first = F::Buf::default();
                self.segs[0].keys.first_key(&mut first);
                F::shorten(run.get(n - 1), &mut first);
                self.fences.remove(0..1);
                self.fences.insert(0, F::load(&first));
            }
            self.fences.insert(i + p, F::load(&low));
            self.join(
                i + p,
                Segment::<F, S>::build(run, from, to, part, plan),
                None,
            );
        }
    }
}

impl<F: Family, V> SegmentList<F, Slots<V>> {
    /// The live value of `key`, to change. O(log n).
    pub fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let (i, rank) = self.find(key)?;
        #[cfg(feature = "place")]
        if let Some(one) = &mut self.one {
            one.touched(i);
            one.erase(key);
        }
        self.segs[i].vals.get_mut(rank)
    }
}

#[cfg(feature = "place")]
impl<F: Family, S> Row<F, S> for Vec<Segment<F, S>> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&mut self, i: usize) -> (&mut F::Stage, &mut S) {
        let Segment { keys, vals } = &mut self[i];
        (keys, vals)
    }
}

#[cfg(feature = "place")]
impl<F: Family, S: Vals> SegmentList<F, S> {
    /// A bounded piece of placing, where this many bytes are always fast; whether there is more to do.
    pub fn place_step(&mut self, steps: usize, always: usize) -> bool {
        let Some(one) = &mut self.one else {
            return false;
        };
        one.step(&mut self.segs, steps, always as u64)
    }

    /// Copies of what leaves all at once leave with it.
    pub fn erase_copies(&mut self) {
        let all = 0..self.segs.len();
        if let Some(one) = &mut self.one {
            one.erase_many(&mut self.segs, all);
        }
    }
}

impl<F: Family, V> SegmentList<F, Packed<V>> {
    /// The live values of `key`, to change. O(log n).
    pub fn get_all_mut(&mut self, key: F::Ref<'_>) -> Option<&mut [V]> {
        let (i, rank) = self.find(key)?;
        self.segs[i].vals.get_mut(rank)
    }
}
