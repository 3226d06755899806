//! The static stage of a map: segments in key order, each a run of keys and their values.
//!
//! What always holds: there is a lower bound for each segment; the keys of segment `i` are at
//! least bound `i` and less than bound `i + 1`; the first bound is the least key of all.

use crate::family::{ByteFamily, Family, IntFamily};
use crate::slots::Slots;
use crate::stage::{ByteRun, KeyRun, Plan, StaticStage};
use std::hint;
use std::ops::Range;

/// The lower bounds of the segments.
pub trait Lows<F: Family>: Default + Send + Sync {
    /// The last segment whose bound is at most `key`.
    fn find(&self, key: F::Ref<'_>) -> usize;
    /// The bound of segment `i`; none behind the last.
    fn get(&self, i: usize) -> Option<F::Ref<'_>>;
    /// Puts a bound in at `i`. O(segments), as a move of memory.
    fn insert(&mut self, i: usize, key: F::Ref<'_>);
    /// Takes bounds out.
    fn remove(&mut self, which: Range<usize>);
    /// Bytes on the heap.
    fn heap(&self) -> usize;
}

/// Bounds of integer segments, and how many lie before each of some slots of equal width: where
/// bounds lie evenly, a search is two loads and a few compares.
#[derive(Default)]
pub struct IntLows {
    /// The bounds, and `PAD` greatest numbers behind them.
    all: Vec<u64>,
    /// How many bounds lie in slots before this one; one more than there are slots.
    before: Vec<u32>,
    /// Where the second bound lies: the first is the least key of all, wherever the others are.
    base: u64,
    /// The width of a slot, as a power of two.
    width: u32,
}

/// Bounds that are looked at without a branch.
const PAD: usize = 4;

impl IntLows {
    fn len(&self) -> usize {
        self.all.len().saturating_sub(PAD)
    }

    #[inline]
    fn slot(&self, key: u64) -> usize {
        (key.saturating_sub(self.base) >> self.width) as usize
    }

    /// Makes the slots anew: one to two for each bound. O(segments).
    fn refresh(&mut self) {
        let lows = &self.all[..self.len()];
        self.base = lows.get(1).copied().unwrap_or(0);
        let range = lows.last().map_or(0, |last| last - self.base.min(*last));
        let slots = (lows.len() * 2) as u64;
        self.width = (0..64).find(|&w| range >> w < slots).unwrap_or(63);
        let mut before = std::mem::take(&mut self.before);
        before.clear();
        for (i, &low) in lows.iter().enumerate() {
            before.resize((self.slot(low) + 1).max(before.len()), i as u32);
        }
        before.push(lows.len() as u32);
        self.before = before;
    }
}

impl Lows<IntFamily> for IntLows {
    #[inline]
    fn find(&self, key: u64) -> usize {
        if self.before.len() < 2 {
            return 0;
        }
        let slot = self.slot(key).min(self.before.len() - 2);
        let (from, to) = (self.before[slot] as usize, self.before[slot + 1] as usize);
        if to - from > PAD {
            let at_most = self.all[from..to].partition_point(|&low| low <= key);
            return (from + at_most).max(1) - 1;
        }
        let near = self.all[from..].first_chunk::<PAD>();
        let at_most = near.map_or(0, |near| {
            near.iter().map(|&low| usize::from(low <= key)).sum()
        });
        (from + at_most).clamp(1, self.len()) - 1
    }
    fn get(&self, i: usize) -> Option<u64> {
        self.all[..self.len()].get(i).copied()
    }
    fn insert(&mut self, i: usize, key: u64) {
        if self.all.is_empty() {
            self.all.extend([u64::MAX; PAD]);
        }
        self.all.insert(i, key);
        let slots = self.before.len().saturating_sub(1);
        let slot = self.slot(key);
        if i < 2 || slot >= 4 * self.len() || slots * 2 < self.len() {
            self.refresh();
        } else if i + 1 == self.len() && slot >= slots {
            // Behind all others: the slots go on.
            self.before.resize(slot + 1, i as u32);
            self.before.push(i as u32 + 1);
        } else {
            self.before[slot + 1..].iter_mut().for_each(|n| *n += 1);
        }
    }
    fn remove(&mut self, which: Range<usize>) {
        self.all.drain(which);
        self.refresh();
    }
    fn heap(&self) -> usize {
        self.all.capacity() * 8 + self.before.capacity() * 4
    }
}

/// Bounds of byte-string segments, cut to what tells neighbours apart, the first 16 bytes of each
/// as a number, and every 32nd of these in an array of its own, which stays in the first cache.
#[derive(Default)]
pub struct ByteLows {
    run: ByteRun,
    heads: Vec<u128>,
    top: Vec<u128>,
}

const GROUP: usize = 32;

impl ByteLows {
    fn refresh(&mut self, from: usize) {
        self.top.truncate(from / GROUP);
        let at = self.top.len() * GROUP;
        self.top
            .extend(self.heads[at.min(self.heads.len())..].iter().step_by(GROUP));
    }
}

/// How many of the sorted `heads` are less than `h`, without a branch that depends on the data.
#[inline]
fn count_less(heads: &[u128], h: u128) -> usize {
    let (mut lo, mut n) = (0, heads.len());
    while n > 0 {
        let half = n.div_ceil(2);
        lo += hint::select_unpredictable(heads[lo + half - 1] < h, half, 0);
        n -= half;
    }
    lo
}

#[inline]
fn head(key: &[u8]) -> u128 {
    match key.first_chunk::<16>() {
        Some(head) => u128::from_be_bytes(*head),
        None => {
            let mut head = [0; 16];
            head[..key.len()].copy_from_slice(key);
            u128::from_be_bytes(head)
        }
    }
}

impl Lows<ByteFamily> for ByteLows {
    #[inline]
    fn find(&self, key: &[u8]) -> usize {
        let h = head(key);
        let lo = match count_less(&self.top, h) {
            0 => 0,
            groups => {
                let from = (groups - 1) * GROUP;
                let to = (from + GROUP).min(self.heads.len());
                from + count_less(&self.heads[from..to], h)
            }
        };
        // Whole bounds are looked at only among those with the same head.
        let (mut hi, mut step) = (lo, 1);
        while hi < self.heads.len() && self.heads[hi] == h {
            hi += step;
            step *= 2;
        }
        let hi = hi.min(self.heads.len());
        self.run.upper_bound(lo, hi, key).max(1) - 1
    }
    fn get(&self, i: usize) -> Option<&[u8]> {
        (i < self.run.len()).then(|| self.run.get(i))
    }
    fn insert(&mut self, i: usize, key: &[u8]) {
        self.run.insert(i, key);
        self.heads.insert(i, head(key));
        self.refresh(i);
    }
    fn remove(&mut self, which: Range<usize>) {
        self.run.remove(which.start, which.end);
        let from = which.start;
        self.heads.drain(which);
        self.refresh(from);
    }
    fn heap(&self) -> usize {
        self.run.heap() + (self.heads.capacity() + self.top.capacity()) * 16
    }
}

/// A run of keys and their values, in whole cache lines.
#[repr(align(64))]
pub struct Segment<F: Family, V> {
    pub keys: F::Stage,
    pub vals: Slots<V>,
}

impl<F: Family, V> Segment<F, V> {
    /// A segment of the keys `from..to` of a run.
    pub fn build(run: &F::Run, from: usize, to: usize, vals: Vec<V>, plan: &Plan<F>) -> Self {
        debug_assert_eq!(to - from, vals.len());
        Segment {
            keys: F::Stage::build(run, from, to, plan),
            vals: vals.into(),
        }
    }

    /// The live value of `key`, with its line asked for before the key is compared.
    #[inline]
    pub fn get(&self, key: F::Ref<'_>) -> Option<&V> {
        let hash = || F::hash(key);
        let rank = self.keys.find(key, hash, |near| self.vals.prefetch(near))?;
        self.vals.get(rank)
    }

    /// The live entries and new ones, whose keys are others, in order. O(n).
    pub fn merge(self, keys: &F::Run, vals: Vec<V>) -> (F::Run, Vec<V>) {
        let mut before = Vec::with_capacity(keys.len());
        let (live, n) = (|rank| self.vals.is_live(rank), self.vals.live());
        if let Some(run) = self.keys.merge_run(live, n, keys, &mut before) {
            return (run, merge_vals(self.vals, vals, &before));
        }
        let (mut old_keys, mut old_vals) = (F::Run::default(), Vec::new());
        self.unpack(&mut old_keys, &mut old_vals);
        merge_runs::<F, V>(&old_keys, old_vals, keys, vals)
    }

    /// The live values and their keys.
    pub fn unpack(self, keys: &mut F::Run, vals: &mut Vec<V>) {
        if self.vals.gone() == 0 {
            self.keys.decode(keys);
        } else {
            let mut all = F::Run::default();
            self.keys.decode(&mut all);
            let mut i = 0;
            while i < all.len() {
                let from = i;
                while self.vals.is_live(i) {
                    i += 1;
                }
                keys.append(&all, from, i);
                while i < all.len() && !self.vals.is_live(i) {
                    i += 1;
                }
            }
        }
        if vals.is_empty() {
            *vals = self.vals.into_live();
        } else {
            vals.extend(self.vals.into_live());
        }
    }

    fn bytes(&self) -> (usize, usize) {
        (self.keys.bytes(), self.vals.bytes())
    }
}

/// All segments of a map.
pub struct SegmentList<F: Family, V> {
    lows: F::Lows,
    segs: Vec<Segment<F, V>>,
    live: usize,
    gone: usize,
    key_bytes: usize,
    val_bytes: usize,
}

impl<F: Family, V> Default for SegmentList<F, V> {
    fn default() -> Self {
        SegmentList {
            lows: F::Lows::default(),
            segs: Vec::new(),
            live: 0,
            gone: 0,
            key_bytes: 0,
            val_bytes: 0,
        }
    }
}

impl<F: Family, V> SegmentList<F, V> {
    /// The segments.
    #[inline]
    pub fn segs(&self) -> &[Segment<F, V>] {
        &self.segs
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
        self.lows.heap() + self.segs.capacity() * size_of::<Segment<F, V>>()
    }

    /// The segment whose range `key` is in; 0 where there is none.
    #[inline]
    pub fn locate(&self, key: F::Ref<'_>) -> usize {
        self.lows.find(key)
    }

    /// The least key that may be in segment `i`; none behind the last.
    pub fn low(&self, i: usize) -> Option<F::Ref<'_>> {
        self.lows.get(i)
    }

    /// The live value of `key`. O(log n).
    #[inline]
    pub fn get(&self, key: F::Ref<'_>) -> Option<&V> {
        self.segs.get(self.lows.find(key))?.get(key)
    }

    /// The live value of `key`, to change. O(log n).
    pub fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let seg = self.segs.get_mut(self.lows.find(key))?;
        seg.vals
            .get_mut(seg.keys.find(key, || F::hash(key), |_| {})?)
    }

    /// Takes the value of `key`, whose hash `hash` gives, out of segment `i`, whose range it is
    /// in. O(log n).
    #[inline]
    pub fn take(&mut self, i: usize, key: F::Ref<'_>, hash: impl FnOnce() -> u64) -> Option<V> {
        let seg = self.segs.get_mut(i)?;
        // Most often the key is not there, so the value's line is not asked for in advance.
        let rank = seg.keys.find(key, hash, |_| {})?;
        let before = seg.vals.bytes();
        let val = seg.vals.take(rank)?;
        self.val_bytes += seg.vals.bytes() - before;
        self.live -= 1;
        self.gone += 1;
        Some(val)
    }

    fn join(&mut self, i: usize, seg: Segment<F, V>) {
        let (keys, vals) = seg.bytes();
        self.key_bytes += keys;
        self.val_bytes += vals;
        self.live += seg.vals.live();
        self.gone += seg.vals.gone();
        self.segs.insert(i, seg);
    }

    /// Merges new entries, whose keys are others, into segment `i`, which stays one; gives them
    /// back where its keys would have more than `most` bytes or its stage has no way to. O(n).
    pub fn merge(&mut self, i: usize, keys: &F::Run, vals: Vec<V>, most: usize) -> Option<Vec<V>> {
        let Some(seg) = self.segs.get_mut(i) else {
            return Some(vals);
        };
        let mut before = Vec::with_capacity(keys.len());
        let (live, n) = (|rank| seg.vals.is_live(rank), seg.vals.live());
        if n + keys.len() == 0 {
            return Some(vals);
        }
        let Some(stage) = seg.keys.merge(live, n, keys, most, &mut before) else {
            return Some(vals);
        };
        let (old_keys, old_vals) = seg.bytes();
        self.live += vals.len();
        self.gone -= seg.vals.gone();
        seg.keys = stage;
        seg.vals = merge_vals(std::mem::take(&mut seg.vals), vals, &before).into();
        let (new_keys, new_vals) = seg.bytes();
        self.key_bytes = self.key_bytes - old_keys + new_keys;
        self.val_bytes = self.val_bytes - old_vals + new_vals;
        None
    }

    /// Takes segments out; their ranges go to the segment before, or the one behind for the first.
    pub fn remove(&mut self, which: Range<usize>) -> Vec<Segment<F, V>> {
        let out: Vec<_> = self.segs.drain(which.clone()).collect();
        for seg in &out {
            let (keys, vals) = seg.bytes();
            self.key_bytes -= keys;
            self.val_bytes -= vals;
            self.live -= seg.vals.live();
            self.gone -= seg.vals.gone();
        }
        // The first bound stays the least key of all.
        let keep_first = usize::from(which.start == 0 && !self.segs.is_empty());
        self.lows
            .remove(which.start + keep_first..which.end + keep_first);
        out
    }

    /// Puts sorted entries in at `i` as `pieces` segments of about equal length. All of them
    /// must lie between the entries of the neighbours. O(n + segments).
    pub fn insert(&mut self, i: usize, run: &F::Run, vals: Vec<V>, pieces: usize, plan: &Plan<F>) {
        let n = run.len();
        let mut low = F::Buf::default();
        let mut last = F::Buf::default();
        let mut rest = vals;
        for p in 0..pieces {
            let (from, to) = (n * p / pieces, n * (p + 1) / pieces);
            let behind = rest.split_off(to - from);
            let mut part = std::mem::replace(&mut rest, behind);
            part.shrink_to_fit();
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
                self.lows.remove(0..1);
                self.lows.insert(0, F::load(&first));
            }
            self.lows.insert(i + p, F::load(&low));
            self.join(i + p, Segment::build(run, from, to, part, plan));
        }
    }
}

/// The live values, and before each new one so many of them as `before` says.
fn merge_vals<V>(old: Slots<V>, new: Vec<V>, before: &[u32]) -> Vec<V> {
    let mut all = Vec::with_capacity(old.live() + new.len());
    let (mut passed, mut rest) = (0, old.into_live().into_iter());
    for (val, &before) in new.into_iter().zip(before) {
        all.extend(rest.by_ref().take((before - passed) as usize));
        all.push(val);
        passed = before;
    }
    all.extend(rest);
    all
}

/// Merges two sorted runs of distinct keys: long stretches of the old one move as blocks.
pub fn merge_runs<F: Family, V>(
    old: &F::Run,
    old_vals: Vec<V>,
    new: &F::Run,
    new_vals: Vec<V>,
) -> (F::Run, Vec<V>) {
    let (n, m) = (old.len(), new.len());
    let mut run = F::Run::default();
    run.reserve(n + m, old.key_bytes(0, n) + new.key_bytes(0, m));
    let mut vals = Vec::with_capacity(n + m);
    let (mut from, mut rest) = (0, old_vals.into_iter());
    for (i, val) in new_vals.into_iter().enumerate() {
        let key = new.get(i);
        let to = old.gallop(from, n, key);
        run.append(old, from, to);
        vals.extend(rest.by_ref().take(to - from));
        run.push(key);
        vals.push(val);
        from = to;
    }
    run.append(old, from, n);
    vals.extend(rest);
    (run, vals)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bounds that come in any order, in order behind the others, and that go again; evenly
    /// spread and crowded ones.
    fn drive<F: Family>(seed: u64, shift: u32, make: impl Fn(u64) -> F::Buf) {
        let mut lows = F::Lows::default();
        let mut model: Vec<F::Buf> = Vec::new();
        let mut x = seed;
        let mut next = || {
            x = x
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            x >> 16
        };
        let below = |model: &[F::Buf], key: F::Ref<'_>| {
            model.partition_point(|low| F::cmp(F::load(low), key).is_le())
        };
        for round in 0..1500 {
            let key = make(match round % 300 {
                0..100 => next() >> shift,
                100..200 => (1 << 50) + round,
                _ => next() % 300 + (1 << 40),
            });
            let at = below(&model, F::load(&key));
            if at == 0 && !model.is_empty() {
                continue;
            }
            if at == 0 {
                // The first bound is the least key of all.
                lows.insert(0, F::load(&F::Buf::default()));
                model.push(F::Buf::default());
            } else if F::cmp(F::load(&model[at - 1]), F::load(&key)).is_lt() {
                lows.insert(at, F::load(&key));
                model.insert(at, key.clone());
            }
            if round % 70 == 69 && model.len() > 8 {
                let from = 1 + next() as usize % (model.len() - 4);
                lows.remove(from..from + 3);
                model.drain(from..from + 3);
            }
            for probe in [make(next() >> shift), make(u64::MAX), make(0), key] {
                let want = below(&model, F::load(&probe)).max(1) - 1;
                assert_eq!(lows.find(F::load(&probe)), want, "{probe:?}");
            }
        }
        for (i, low) in model.iter().enumerate() {
            let found = lows.get(i).expect("a bound is missing");
            assert!(F::cmp(found, F::load(low)).is_eq());
            assert_eq!(lows.find(F::load(low)), i);
        }
        assert!(lows.get(model.len()).is_none() && lows.heap() > 0);
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn the_segment_of_a_key_is_found_whatever_the_bounds() {
        for (seed, shift) in [(1, 0), (2, 20), (3, 40), (4, 47)] {
            drive::<IntFamily>(seed, shift, |x| x);
            drive::<ByteFamily>(seed, shift, |x| x.to_be_bytes().to_vec());
            let long = |x: u64| format!("a beginning of many keys {x:020}").into_bytes();
            drive::<ByteFamily>(seed, shift, long);
        }
    }
}
