//! The merge: moves entries from the dynamic into the static stage, a bounded run at a time.
//!
//! A step takes the entries of one segment's range out of the dynamic stage and builds the
//! segment anew with them, as several where it grew too long, together with its neighbours where
//! it shrank. Ranges are taken in turn by a hand that goes round the key space, so the temporary
//! memory is one segment and no step takes longer than one (section 5 merges all at once).

use super::core::Core;
use crate::family::Family;
use crate::options::{Merging, What};
use crate::segment::Segment;
use crate::segments::Parts;
use crate::slots::Vals;
use crate::stage::KeyRun;
use crate::two_stage::{Bounds, DynamicCursor, DynamicStage, StaticStage, interleave, is_due};
use alloc::vec::Vec;
use core::ops::Range;

/// Ranges with few entries that a step passes by before it takes one nevertheless.
const PATIENCE: usize = 8;

/// Segments that one search for dead slots looks at.
const GLANCE: usize = 64;

/// The part of a segment that a step moves into one at most.
const STEP: usize = 4;

/// Most key bytes of a segment; longer ones are cut as if they had too many entries.
const SEGMENT_BYTES: usize = 64 << 10;

/// The same of a compact trie, which has what many keys begin with once, and is merged as the bytes that it is.
const TRIE_BYTES: usize = 2 * SEGMENT_BYTES;

/// The same of one segment for all: every place in it has 31 bits then, whatever its form.
const WHOLE_BYTES: usize = 1 << 29;

/// Key bytes that a step moves at most, and a key more: four segments of long keys. Those of most
/// keys are less than that.
const STEP_BYTES: usize = 4 * SEGMENT_BYTES;

impl<F: Family, V, S: Vals<Own = V>> Core<F, V, S> {
    /// Whether the dynamic stage is due beside a static one of `live` entries.
    #[inline]
    fn due(&self, live: usize) -> bool {
        // In steps the ranges are merged in turn: when one is, it holds twice what all do on
        // average. So a range is merged when it holds a share of one in `ratio`, as all of
        // them are where they are merged at once.
        let twice = u32::from(self.options.merging == Merging::Incremental);
        let (len, fixed) = (self.dynamic.len(), live >> twice);
        is_due(self.options.trigger, len, fixed, self.options.floor) || self.is_crowded()
    }

    /// Merges what is due.
    #[inline]
    pub(super) fn maintain(&mut self) {
        let (live, gone) = self.segments.counts();
        if self.due(live) {
            match self.options.merging {
                Merging::Incremental => {
                    self.merge_step();
                }
                Merging::Blocking => self.merge_pass(),
                Merging::Manual => {}
            }
        } else if gone * 8 > live {
            self.collect();
        }
        self.placed();
    }

    /// Rebuilds the next segment with many dead slots.
    fn collect(&mut self) {
        if self.options.merging == Merging::Manual {
            return;
        }
        for _ in 0..GLANCE.min(self.segments.segs().len()) {
            let Some(parts) = self.segments.parts_mut() else {
                return;
            };
            let i = parts.dead_hand;
            parts.dead_hand += 1;
            match parts.list.segs().get(i) {
                None => parts.dead_hand = 0,
                Some(seg) if seg.vals.gone() * 16 > seg.vals.live() => {
                    self.rebuild(i);
                    return;
                }
                Some(_) => {}
            }
        }
    }

    /// Moves one bounded run; false where the dynamic stage is empty.
    pub fn merge_step(&mut self) -> bool {
        let cold = self.options.what == What::Cold;
        let fair = self.dynamic.len() / (self.segments.segs().len() + 1) / 4;
        for round in 0..=PATIENCE {
            let Some(i) = self.next_range() else {
                return false;
            };
            let (low, high) = (self.segments.low(i), self.segments.low(i + 1));
            if round < PATIENCE && fair > 1 && self.dynamic.count(low, high, fair) < fair {
                self.segments.pass(i + 1);
                continue;
            }
            if self.merge_range(i, self.limit(i), cold, true) > 0 {
                return true;
            }
        }
        // All that was met is hot: nothing moves now, and all of it is cold from here on.
        self.dynamic.len() > 0
    }

    /// The segment of the first entry of the dynamic stage from the hand on, or of the first.
    fn next_range(&mut self) -> Option<usize> {
        self.range_behind_hand().or_else(|| {
            self.segments.take_hand();
            self.range_behind_hand()
        })
    }

    fn range_behind_hand(&self) -> Option<usize> {
        let at = self.dynamic.seek(self.segments.hand(), || {})?;
        Some(self.segments.locate(at.key()))
    }

    /// Rebuilds segment `i` with those entries of its range that the options let move.
    pub(super) fn rebuild(&mut self, i: usize) {
        match self.options.merging {
            Merging::Manual => self.sweep(i),
            _ => {
                let cold = self.options.what == What::Cold;
                self.merge_range(i, self.limit(i), cold, false);
            }
        }
    }

    /// Takes the dead slots out of segment `i`, which is gone where it has no others. Moves no
    /// entries.
    pub(crate) fn sweep(&mut self, i: usize) {
        self.place(i, &F::Run::default(), Vec::new());
    }

    /// How many entries a step moves into segment `i` at most. Behind the last segment they most
    /// often make segments of their own; elsewhere it is a share of one, or a step would take as
    /// long as three.
    fn limit(&self, i: usize) -> usize {
        let len = self.options.segment_len();
        if i + 1 >= self.segments.segs().len() {
            len
        } else {
            len.div_ceil(STEP)
        }
    }

    /// Moves up to `limit` entries of the range of segment `i`, from the hand on where that is to
    /// be; returns how many. Leaves the hand behind the last that was met, or at the least key.
    fn merge_range(&mut self, i: usize, limit: usize, keep_hot: bool, from_hand: bool) -> usize {
        let hand = self.segments.take_hand();
        let before = self.dynamic.len();
        let (mut low, high) = (self.segments.low(i), self.segments.low(i + 1));
        // What is hot is passed once: it would be cold when it is met again.
        if from_hand && low.is_none_or(|low| F::cmp(low, F::load(&hand)).is_lt()) {
            low = Some(F::load(&hand));
        }
        let n = self.dynamic.room(low, high, limit);
        let (mut keys, mut vals) = (F::Run::default(), Vec::with_capacity(n));
        keys.reserve(n, 0);
        let mut last = None;
        let (_, more) = self.dynamic.drain(
            (low, high),
            (limit, self.step_bytes()),
            keep_hot,
            |key, val| {
                keys.push(key);
                vals.push(val);
            },
            |key| last = Some(F::owned(key)),
        );
        let moved = vals.len();
        if more {
            // There may be more in the range: go on behind the last that was met.
            if moved > 0 {
                let end = keys.get(moved - 1);
                if last
                    .as_ref()
                    .is_none_or(|last| F::cmp(F::load(last), end).is_lt())
                {
                    last = Some(F::owned(end));
                }
            }
            if let Some(mut last) = last
                && F::successor(&mut last)
            {
                self.segments.open(|| self.options.plan()).set_hand(last);
            }
        } else {
            self.segments.pass(i + 1);
        }
        if moved > 0
            || self
                .segments
                .segs()
                .get(i)
                .is_some_and(|seg| seg.vals.gone() > 0)
        {
            self.place(i, &keys, vals);
        }
        self.shrink(before);
        moved
    }

    /// A step towards as many shortcuts as there are to be.
    pub(super) fn fit_shortcuts(&mut self) {
        if let Some(parts) = self.segments.parts_mut()
            && self.options.shortcuts > 0
        {
            parts.list.fit_shortcuts(self.options.shortcuts);
        }
    }

    /// Puts sorted entries of the range of segment `i` where they belong.
    fn place(&mut self, i: usize, keys: &F::Run, vals: Vec<V>) {
        self.put_in_place(i, keys, vals);
        self.fit_shortcuts();
        if let Some(parts) = self.segments.parts_mut() {
            parts.list.make_ready();
            if self.options.symbols {
                parts.learn(i);
            }
        }
    }

    fn put_in_place(&mut self, i: usize, keys: &F::Run, vals: Vec<V>) {
        self.tell_always();
        let n = keys.len();
        let bounds = self.bounds();
        let appends = self.appends(i, keys);
        let which = self.span(i, keys);
        let Parts { list, plan, .. } = self.segments.open(|| self.options.plan());
        #[cfg(feature = "place")]
        if let Some(one) = &mut list.one {
            one.returned(keys, &vals);
        }
        if appends {
            // All lie behind a last segment that is long enough: it stays as it is.
            let pieces = bounds.pieces(n, keys.key_bytes(0, n));
            list.insert(list.segs().len(), keys, S::row(vals), pieces, plan);
            return;
        }
        if which.len() == 1 {
            return list.merge(i, keys, vals, (&bounds, plan));
        }
        let (mut old_keys, mut old_vals) = (F::Run::default(), S::Row::default());
        for mut seg in list.remove(which.clone()) {
            seg.unpack(&mut old_keys, &mut old_vals);
        }
        let mut before = Vec::with_capacity(n);
        let run = interleave::<F>(&old_keys, keys, &mut before);
        let vals = S::merge_rows(old_vals, vals, &before);
        if run.len() > 0 {
            let pieces = bounds.pieces(run.len(), run.key_bytes(0, run.len()));
            // Where keys came, more will come.
            list.insert(which.start, &run, vals, pieces, &plan.growing());
        }
    }

    /// Whether the entries go behind the last segment and need not be merged with it.
    fn appends(&self, i: usize, keys: &F::Run) -> bool {
        let segs = self.segments.segs();
        let half = self.options.segment_len() / 2;
        let enough = |n, bytes: &dyn Fn() -> usize| n >= half || bytes() >= self.enough_bytes();
        if i + 1 < segs.len() || !enough(keys.len(), &|| keys.key_bytes(0, keys.len())) {
            return false;
        }
        let Some(seg) = segs.get(i) else { return true };
        let mut last = F::Buf::default();
        seg.keys.last_key(&mut last);
        enough(seg.vals.live(), &|| seg.live_key_bytes())
            && seg.vals.gone() == 0
            && F::cmp(F::load(&last), keys.get(0)).is_lt()
    }

    /// Segment `i` and the short ones behind it that fit in with it.
    fn span(&self, i: usize, added: &F::Run) -> Range<usize> {
        let segs = self.segments.segs();
        let mut end = (i + 1).min(segs.len());
        let half = self.options.segment_len() / 2;
        let mut n = added.len() + segs.get(i).map_or(0, |seg| seg.vals.live());
        let mut bytes = None;
        while let Some(seg) = segs.get(end)
            && n + seg.vals.live() <= half
        {
            // Where keys are long, segments with few entries are not short. Most have many, so it
            // is asked only now.
            let sum = bytes.unwrap_or_else(|| {
                added.key_bytes(0, added.len()) + segs.get(i).map_or(0, Segment::live_key_bytes)
            }) + seg.live_key_bytes();
            if sum > self.enough_bytes() {
                break;
            }
            bytes = Some(sum);
            n += seg.vals.live();
            end += 1;
        }
        i.min(end)..end
    }

    /// How many segments `n` entries with `bytes` bytes of keys make.
    pub(super) fn pieces(&self, n: usize, bytes: usize) -> usize {
        self.bounds().pieces(n, bytes)
    }

    /// Key bytes that a step moves at most, and a key more.
    pub(super) fn step_bytes(&self) -> usize {
        match self.options.is_whole() {
            true => WHOLE_BYTES,
            false => STEP_BYTES,
        }
    }

    /// Key bytes with which a segment is long enough to have others beside it.
    fn enough_bytes(&self) -> usize {
        match self.options.is_whole() {
            true => WHOLE_BYTES / 2,
            false => SEGMENT_BYTES / 2,
        }
    }

    fn bounds(&self) -> Bounds {
        let bytes = match (self.options.is_whole(), self.options.stage().is_trie()) {
            (true, _) => WHOLE_BYTES,
            (false, true) => TRIE_BYTES,
            (false, false) => SEGMENT_BYTES,
        };
        Bounds {
            len: self.options.segment_len(),
            bytes,
            most_bytes: bytes,
        }
    }

    /// Moves everything; the dynamic stage is empty afterwards. O(n).
    pub fn merge_all(&mut self) {
        while let Some(i) = self.next_range() {
            self.merge_range(i, self.options.segment_len(), false, true);
        }
        self.sweep_all();
    }

    /// Moves what the options let move, in one pass over all ranges. O(n).
    fn merge_pass(&mut self) {
        if self.options.what == What::All {
            return self.merge_all();
        }
        self.segments.take_hand();
        while let Some(i) = self.range_behind_hand() {
            self.merge_range(i, self.options.segment_len(), true, true);
            // It is at the least key again.
            let least = F::Buf::default();
            let hand = self.segments.hand();
            if hand.is_none_or(|hand| F::cmp(hand, F::load(&least)).is_eq()) {
                break;
            }
        }
        self.sweep_all();
    }

    /// Takes all dead slots out.
    fn sweep_all(&mut self) {
        let mut i = 0;
        while i < self.segments.segs().len() {
            let vals = &self.segments.segs()[i].vals;
            if vals.gone() > 0 {
                self.sweep(i);
            } else if vals.apart() > 0 {
                self.segments.change(i, S::pack);
            }
            i += usize::from(
                self.segments
                    .segs()
                    .get(i)
                    .is_some_and(|s| s.vals.gone() == 0),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::family::{ByteFamily, IntFamily};
    use crate::options::Options;
    use crate::pair::Pair;
    use crate::plan::Stage;
    use crate::stage::ByteRun;

    fn manual() -> Options {
        Options {
            merging: Merging::Manual,
            ..Options::default()
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn many_segments_grow_into_memory_that_was_written_to_before() {
        for in_order in [false, true] {
            let options = Options {
                segment_len: 16,
                ..Options::default()
            };
            let mut map = crate::HybridMap::<u64, u64>::with_options(options).unwrap();
            let (mut room, mut ready, mut grown) = (0, false, 0);
            for i in 0..120_000u64 {
                let key = match in_order {
                    true => i,
                    false => i.wrapping_mul(0x9E37_79B9_7F4A_7C15),
                };
                map.insert(key, i);
                let now = map.core.segments.room();
                if now.0 > room && room >= 1024 {
                    assert!(ready, "from {room} to {} segments at {i}", now.0);
                    grown += 1;
                }
                (room, ready) = now;
            }
            assert!(grown >= 2, "it grew {grown} times");
            assert!((0..120_000).all(|i| match in_order {
                true => map.get(&i) == Some(&i),
                false => map.get(&i.wrapping_mul(0x9E37_79B9_7F4A_7C15)) == Some(&i),
            }));
        }
    }

    #[test]
    fn segments_with_few_long_keys_are_not_taken_for_short_ones() {
        for stage in [
            Stage::FrontCoded,
            Stage::CompactBTree,
            #[cfg(feature = "compressed")]
            Stage::Compressed,
        ] {
            let options = Options { stage, ..manual() };
            let mut core = Core::<ByteFamily, u64>::new(options).expect("good options");
            let key = |i: u64| format!("{i:03}{}", "x".repeat(4000)).into_bytes();
            (0..400).for_each(|i| assert_eq!(core.insert(&key(i), i), None));
            core.merge_all();
            let n = core.segments.segs().len();
            assert!(n > 20, "{n} segments");
            // Neither a delete nor a short key that comes has others rebuilt.
            let (none, mut short) = (ByteRun::default(), ByteRun::default());
            short.push(b"1");
            assert!((0..n).all(|i| core.span(i, &none) == (i..i + 1)));
            assert!((0..n).all(|i| core.span(i, &short) == (i..i + 1)));
            // But where most is deleted they become fewer.
            (0..400)
                .rev()
                .filter(|i| i % 20 > 0)
                .for_each(|i| assert_eq!(core.remove(&key(i)), Some(i)));
            core.merge_all();
            let few = core.segments.segs().len();
            assert!(few * 2 < n, "{few} segments of {n}");
            assert!((0..400).all(|i| core.get(&key(i)).is_some() == (i % 20 == 0)));
        }
    }

    /// Loads a map as the paper has it in no order, then some in order, and looks at all of it.
    fn is_one_segment<K: crate::IndexKey>(pair: Pair, n: u64, key: impl Fn(u64) -> K) {
        let options = Options::paper(pair);
        let mut map = crate::HybridMap::<K, u64>::with_options(options).expect("good options");
        let any = |i: u64| i * 7919 % n;
        for i in 0..n {
            assert_eq!(map.insert(key(any(i)), i), None);
            assert!(map.core.segments.segs().len() <= 1);
        }
        map.extend((n..n + n / 8).map(|i| (key(i), i)));
        assert!((0..n / 16).all(|i| map.remove(&key(any(i))) == Some(i)));
        map.merge_all();
        assert_eq!(map.core.segments.segs().len(), 1, "{pair:?}");
        assert!((n / 16..n).all(|i| map.get(&key(any(i))) == Some(&i)));
        assert!((0..n / 16).all(|i| map.get(&key(any(i))).is_none()));
        let sorted: Vec<u64> = map.iter().map(|(_, val)| *val).collect();
        assert_eq!(sorted.len() as u64, n - n / 16 + n / 8);
        assert!(
            sorted[sorted.len() - (n / 8) as usize..]
                .iter()
                .copied()
                .eq(n..n + n / 8)
        );
        assert!(
            map.iter()
                .rev()
                .map(|(_, val)| *val)
                .eq(sorted.into_iter().rev())
        );
    }

    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn the_papers_compact_form_is_one_segment_however_many_entries_there_are() {
        for &pair in Pair::ALL.iter().filter(|pair| **pair != Pair::Auto) {
            is_one_segment(pair, 20_000, |i| i << 20);
            is_one_segment(pair, 20_000, |i| format!("{i:09}{}", i % 7));
        }
    }

    /// A layer of a trie of words with more of them than two bytes count, and with as many.
    #[cfg(feature = "pairs")]
    #[test]
    #[cfg_attr(miri, ignore = "long, and nothing unsafe is in it")]
    fn a_layer_of_words_has_as_many_as_there_are() {
        for n in [65_535, 65_536, 65_537, 80_000u32] {
            let options = Options {
                merging: Merging::Manual,
                ..Options::paper(Pair::Masstree)
            };
            let mut map = crate::HybridMap::<[u8; 3], u32>::with_options(options).unwrap();
            let key = |i: u32| [(i >> 16) as u8, (i >> 8) as u8, i as u8];
            (0..n).for_each(|i| assert_eq!(map.insert(key(i * 2), i), None));
            map.merge_all();
            assert_eq!(map.core.segments.segs().len(), 1);
            assert!((0..n).all(|i| map.get(&key(i * 2)) == Some(&i)));
            assert!((0..n).all(|i| map.get(&key(i * 2 + 1)).is_none()));
            // Some more, and one fewer.
            assert_eq!(map.insert(key(77), 77), None);
            assert_eq!(map.remove(&key(2)), Some(1));
            map.merge_all();
            let keys = map.iter().map(|(key, _)| key);
            let wanted = (0..n).map(|i| i * 2).filter(|&i| i != 2);
            let mut wanted: Vec<u32> = wanted.chain([77]).collect();
            wanted.sort_unstable();
            assert!(keys.eq(wanted.into_iter().map(key)));
        }
    }

    #[test]
    fn one_segment_for_all_is_refused_where_it_cannot_be() {
        let whole = |stage, pair| Options {
            segment_len: Options::WHOLE,
            stage,
            pair,
            ..Options::default()
        };
        let refused = |options: &Options| options.plan::<Vec<u64>>().is_err();
        assert!(!refused(&whole(Stage::CompactBTree, Pair::Auto)));
        assert!(!refused(&whole(Stage::Auto, Pair::BTree)));
        assert!(refused(&whole(Stage::Auto, Pair::Auto)));
        assert!(refused(&whole(Stage::Buckets, Pair::BTree)));
        let other = Options {
            segment_len: 8193,
            ..Options::paper(Pair::BTree)
        };
        assert!(refused(&other));
        #[cfg(feature = "concurrent")]
        assert!(whole(Stage::Auto, Pair::BTree).check_concurrent().is_err());
    }

    #[test]
    fn a_segment_that_is_rebuilt_as_one_keeps_its_place_and_bound() {
        let options = Options {
            segment_len: 16,
            merging: Merging::Manual,
            ..Options::default()
        };
        let mut core = Core::<IntFamily, u64>::new(options).expect("good options");
        (0..48).for_each(|i| assert_eq!(core.insert(i * 10, i), None));
        core.merge_all();
        let n = core.segments.segs().len();
        let fences: Vec<u64> = (0..n).filter_map(|i| core.segments.low(i)).collect();
        assert!(n > 2 && fences.len() == n);
        for &low in &fences {
            assert_eq!(core.remove(low), Some(low / 10));
            assert_eq!(core.insert(low + 5, low), None);
        }
        core.merge_all();
        assert_eq!(
            (core.stage_lens(), core.segments.counts()),
            ((0, 48), (48, 0))
        );
        assert!(
            (0..n)
                .filter_map(|i| core.segments.low(i))
                .eq(fences.iter().copied())
        );
        for (key, val) in (0..48).map(|i| (i * 10, i)) {
            let there = !fences.contains(&key);
            assert_eq!(core.get(key).copied(), there.then_some(val));
            assert_eq!(core.get(key + 5).is_some(), !there);
        }
        let (keys, vals) = core.segments.bytes();
        let sum = |of: fn(&Segment<IntFamily, crate::slots::Slots<u64>>) -> usize| {
            core.segments.segs().iter().map(of).sum::<usize>()
        };
        assert_eq!(
            (keys, vals),
            (sum(|s| s.keys.bytes()), sum(|s| s.vals.bytes()))
        );
    }
}
