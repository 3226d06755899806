//! Merging in the background: build beside, publish, then remove what was merged.

use super::cell;
use super::part::{Directory, Fixed, Part, Slot};
use super::shared::{MergeNeed, Shared};
use super::signal::Signal;
use crate::dynamic::Any;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::pair::Pair;
use crate::plan::Stage;
use crate::slots::{Slots, Vals};
use crate::stage::KeyRun;
use crate::two_stage::{
    Bounds, DynamicCursor, DynamicStage, StaticStage, build, low_between, merge,
};
use crate::usage::MemoryUsage;
use crossbeam_epoch::{self as epoch, Guard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError};

/// Most key bytes that are copied at a time: a run of keys has its ends in 32 bits, and keys may be
/// long and a dynamic stage of any length where nothing is merged by itself. The segment that they
/// are merged with has 800 MB at most. Tests have little, to come by it.
pub const PIECE: usize = if cfg!(test) { 1 << 10 } else { 256 << 20 };

/// Most key bytes of a part, and half as many: one merge copies all of them. Far more than the keys
/// of most parts have, since with many parts each new directory takes longer.
pub const PART_BYTES: usize = 1 << 20;

/// The background thread.
pub fn work<F: Family, V: Clone + Send + Sync + 'static>(shared: &Shared<F, V>) {
    // A `clone` or `drop` of a user's value that panics ends one merge, which leaves the part
    // whole, and not all merging; the next change of the part tells of it again. The panic was
    // reported by its hook.
    fn caught(act: impl FnOnce()) {
        drop(catch_unwind(AssertUnwindSafe(act)));
    }
    while let Some(part) = shared.signal.next(|| caught(cell::free)) {
        // In here also for its drop: it may have left the directory, and be the last of its kind.
        caught(|| {
            let Some(mut part) = Signal::begin(&part) else {
                return;
            };
            while shared.merge_part(&part, true) {
                part = shared.part_of(&part.low).0;
            }
        });
    }
}

/// What a merge takes from the dynamic stage: keys, and their slots.
type Snapshot<F, V> = (<F as Family>::Run, Vec<Slot<V>>);

/// Stages, each with its values.
type Rows<F, V> = Vec<(<F as Family>::Stage, Vec<V>)>;

impl<F: Family, V: Clone + Send + Sync + 'static> Shared<F, V> {
    /// The part that a key is in, and where the next one begins.
    fn part_of(&self, key: &F::Buf) -> (Arc<Part<F, V>>, Option<F::Buf>) {
        let guard = epoch::pin();
        let directory = self.directory.load(&guard);
        let i = directory.index(F::load(key));
        let next = directory.parts.get(i + 1).map(|part| part.low.clone());
        (Arc::clone(&directory.parts[i]), next)
    }

    /// Merges the dynamic stage of one part into its segment, splits the part if it is long, and
    /// gives it up if it has no entries. Returns whether there is more to do in its range: a piece
    /// was merged and there are others, or other parts have the range by now.
    pub fn merge_part(&self, part: &Arc<Part<F, V>>, only_due: bool) -> bool {
        // To pin may free what other threads replaced, and with it users' values. They are dropped
        // where no lock is held: what they do then may use the map.
        let guard = epoch::pin();
        let one = part.merging.lock().unwrap_or_else(PoisonError::into_inner);
        let (seen, more) = {
            let dynamic = part.read();
            if dynamic.retired {
                return true;
            }
            // While this merge waited for its turn another one may have done its work.
            let idle = only_due && self.due(part, dynamic.weight(), &guard) == MergeNeed::Not;
            if idle || dynamic.tree.len() == 0 {
                return false;
            }
            snapshot(&dynamic.tree)
        };
        let gone = self.merge_seen(part, &seen, &guard);
        drop(one);
        // Users' values. What was replaced goes to where any thread can free it: this one may not
        // come back for long.
        drop((seen, gone));
        guard.flush();
        more
    }

    /// Merges a snapshot of the dynamic stage; returns what it took out of that.
    fn merge_seen(
        &self,
        part: &Arc<Part<F, V>>,
        seen: &Snapshot<F, V>,
        guard: &Guard,
    ) -> Vec<Slot<V>> {
        // Only merges replace the segment, and this is the only merge of the part.
        let old = part.segment.load(guard);
        let (mut parts, changed) = self.combine(old, seen);
        if parts.len() > 1 {
            self.split(part, parts, (seen, &changed), guard);
            return Vec::new();
        }
        let changes = || self.place.changed(values::<F, V>(seen, &changed), guard);
        let (keys, vals) = parts.pop().unzip();
        let drained = keys.is_none();
        let new = self.place.fix(keys, vals.unwrap_or_default(), Some(old));
        let gone = if planted(Fault::EarlyRemove) {
            let gone = remove_merged(part, seen, changes);
            part.segment.store(new, guard);
            gone
        } else {
            part.segment.store(new, guard);
            remove_merged(part, seen, changes)
        };
        self.place.merged(part, guard);
        if drained {
            self.leave(part, guard);
        }
        gone
    }

    /// Takes a part without entries out of the directory, unless it is the only one. Its range
    /// goes to the part before it, or to the next one if it is the first: neither has an entry in
    /// it, so nothing else changes.
    fn leave(&self, part: &Arc<Part<F, V>>, guard: &Guard) {
        // From here on no writer gets in until the new directory is published, and no reader
        // until the part is marked.
        let mut dynamic = part.write();
        if dynamic.tree.len() > 0 {
            return;
        }
        let _turn = self.turn();
        let directory = self.directory.load(guard);
        if directory.parts.len() == 1 {
            return;
        }
        let mut parts = directory.parts.clone();
        parts.retain(|other| !Arc::ptr_eq(other, part));
        self.directory.store(Directory::of(parts), guard);
        dynamic.retired = !planted(Fault::UnmarkedLeave);
    }

    /// How long a segment gets.
    fn bounds(&self) -> Bounds {
        Bounds {
            len: self.options.segment_len,
            bytes: PART_BYTES,
            most_bytes: PART_BYTES + PART_BYTES / 2,
        }
    }

    /// The entries of a segment with those of the snapshot put over them, as segments; and which of the
    /// snapshot the segment had already. Users' clones run here, and nothing has changed yet.
    fn combine(&self, old: &Fixed<F, V>, seen: &Snapshot<F, V>) -> (Rows<F, V>, Vec<usize>) {
        let (mut keys, mut new) = (F::Run::default(), Vec::with_capacity(seen.1.len()));
        // Entries of the segment that were changed or deleted.
        let (mut gone, mut live, mut changed) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(stage) = &old.keys {
            live.resize(stage.len(), true);
        }
        for (i, slot) in seen.1.iter().enumerate() {
            let key = seen.0.get(i);
            if slot.val.is_none() && planted(Fault::DroppedTombstone) {
                continue;
            }
            let rank = old.keys.as_ref();
            let rank = rank.and_then(|keys| keys.find(key, || F::hash(key), |_| {}));
            if let Some(rank) = rank {
                live[rank] = false;
                gone.push(rank);
                changed.push(i);
            }
            if let Some(val) = &slot.val {
                keys.push(key);
                new.push(val.clone());
            }
        }
        let bounds = self.bounds();
        let Some(stage) = &old.keys else {
            let pieces = bounds.pieces(keys.len(), keys.key_bytes(0, keys.len()));
            return (rows(build::<F>(&keys, pieces, &self.plan), new), changed);
        };
        let (n, mut before) = (stage.len() - gone.len(), Vec::with_capacity(new.len()));
        let how = (&bounds, &self.plan);
        let stages = merge::<F>(stage, |rank| live[rank], n, &keys, how, &mut before);
        let (mut vals, mut from) = (Vec::with_capacity(n), 0);
        for rank in gone.into_iter().chain([stage.len()]) {
            vals.extend_from_slice(&old.vals[from..rank]);
            from = rank + 1;
        }
        let vals = Slots::merge_rows(vals, new, &before);
        (rows(stages, vals), changed)
    }

    /// Replaces a part by several. What changed since the snapshot moves along.
    fn split(
        &self,
        part: &Arc<Part<F, V>>,
        pieces: Rows<F, V>,
        (seen, changed): (&Snapshot<F, V>, &[usize]),
        guard: &Guard,
    ) {
        let old = part.segment.load(guard);
        let mut fences = vec![part.low.clone()];
        let between = |two: &[(F::Stage, Vec<V>)]| low_between::<F>(&two[0].0, &two[1].0);
        fences.extend(pieces.windows(2).map(between));
        let fix = |(keys, vals)| self.place.fix(Some(keys), vals, Some(old));
        let fixed: Vec<_> = fences
            .into_iter()
            .zip(pieces.into_iter().map(fix))
            .collect();
        // From here on no writer gets in until the new directory is published.
        let mut dynamic = part.write();
        let late = what_is_late(&dynamic.tree, &fixed, seen, self.options.pair);
        let mut new: Vec<_> = fixed
            .into_iter()
            .zip(late)
            .map(|((low, segment), tree)| Part::new(low, tree, dynamic.version, segment))
            .collect();
        let _turn = self.turn();
        let directory = self.directory.load(guard);
        // By itself, not by its bound: the first part may have got the range of one before it that
        // left, so that its bound lies among its keys.
        let at = directory.parts.iter().position(|p| Arc::ptr_eq(p, part));
        let at = at.expect("only a merge of the part takes it out of the directory");
        if at == 0 {
            // The piece that is first now may lie before that bound as a whole.
            new[0].low = F::Buf::default();
        }
        let mut parts = directory.parts.clone();
        parts.splice(at..at + 1, new.into_iter().map(Arc::new));
        // The new parts have latches of their own, and what was merged is not in their dynamic stages.
        self.place.changed(values::<F, V>(seen, changed), guard);
        self.directory.store(Directory::of(parts), guard);
        dynamic.retired = true;
    }

    pub fn merge_all(&self) {
        let mut from = F::Buf::default();
        loop {
            let (part, next) = self.part_of(&from);
            if self.merge_part(&part, false) {
                continue;
            }
            match next {
                Some(next) => from = next,
                None => break,
            }
        }
        cell::free();
    }

    pub fn stage_lens(&self) -> (usize, usize) {
        let guard = epoch::pin();
        let parts = &self.directory.load(&guard).parts;
        parts.iter().fold((0, 0), |(dynamic, fixed), part| {
            (
                dynamic + part.read().tree.len(),
                fixed + part.segment.load(&guard).len(),
            )
        })
    }

    pub fn stages(&self) -> Vec<(Stage, usize)> {
        let guard = epoch::pin();
        let mut found: Vec<(Stage, usize)> = Vec::new();
        for part in &self.directory.load(&guard).parts {
            let fixed = part.segment.load(&guard);
            let Some(stage) = fixed.keys.as_ref().map(StaticStage::stage) else {
                continue;
            };
            match found.iter_mut().find(|f| f.0 == stage) {
                Some(f) => f.1 += fixed.len(),
                None => found.push((stage, fixed.len())),
            }
        }
        found
    }

    pub fn usage(&self) -> MemoryUsage {
        let guard = epoch::pin();
        let directory = self.directory.load(&guard);
        let mut usage = MemoryUsage {
            directory: directory.bytes(),
            ..MemoryUsage::default()
        };
        for part in &directory.parts {
            let fixed = part.segment.load(&guard);
            usage.dynamic += part.read().tree.bytes();
            usage.static_keys += fixed.keys.as_ref().map_or(0, |keys| keys.bytes());
            usage.static_values += size_of_val(&*fixed.vals);
            usage.directory += size_of::<Part<F, V>>() + size_of::<Fixed<F, V>>();
            usage.directory += F::heap(&part.low);
        }
        usage.directory += self.signal.heap();
        usage.copies = self.place.copy_bytes();
        usage.cache = self.plan.cache_bytes(KeyRun::<F>::heap);
        usage
    }
}

/// The first entries of a tree, as many as make a piece, and whether there are others.
fn snapshot<F: Family, V: Clone>(tree: &Any<F, Slot<V>>) -> (Snapshot<F, V>, bool) {
    let (mut keys, mut slots) = (F::Run::default(), Vec::new());
    let mut at = tree.seek(None, || {});
    while let Some(pos) = &mut at {
        if keys.key_bytes(0, slots.len()) >= PIECE {
            break;
        }
        keys.push(pos.key());
        slots.push(pos.val().clone());
        if !pos.next() {
            at = None;
        }
    }
    ((keys, slots), at.is_some())
}

/// What changed since the snapshot, by the new part that it belongs to.
fn what_is_late<F: Family, V: Clone>(
    tree: &Any<F, Slot<V>>,
    fixed: &[(F::Buf, Fixed<F, V>)],
    seen: &Snapshot<F, V>,
    pair: Pair,
) -> Vec<Any<F, Slot<V>>> {
    let mut late: Vec<Any<F, Slot<V>>> = fixed.iter().map(|_| Any::new(pair)).collect();
    let (mut at, mut i) = (tree.seek(None, || {}), 0);
    while let Some(pos) = &mut at {
        let (key, slot) = (pos.key(), pos.val());
        while i + 1 < fixed.len() && F::cmp(F::load(&fixed[i + 1].0), key).is_le() {
            i += 1;
        }
        if !was_merged::<F, V>(seen, key, slot.version) {
            late[i].insert(key, slot.clone());
        }
        if !pos.next() {
            at = None;
        }
    }
    late
}

/// Stages, each with its values.
fn rows<S: StaticStage<F>, F: Family, V>(stages: Vec<S>, vals: Vec<V>) -> Vec<(S, Vec<V>)> {
    let mut rest = vals.into_iter();
    let row = |keys: S| {
        let vals = rest.by_ref().take(keys.len()).collect();
        (keys, vals)
    };
    stages.into_iter().map(row).collect()
}

/// Whether the snapshot has the key in this version.
fn was_merged<F: Family, V>(seen: &Snapshot<F, V>, key: F::Ref<'_>, version: u64) -> bool {
    let i = seen.0.gallop(0, seen.1.len(), key);
    i < seen.1.len()
        && F::cmp(seen.0.get(i), key).is_eq()
        && (seen.1[i].version == version || planted(Fault::BlindRemove))
}

/// Some entries of a snapshot.
fn values<'a, F: Family, V>(
    seen: &'a Snapshot<F, V>,
    which: &'a [usize],
) -> impl Iterator<Item = (F::Ref<'a>, Option<&'a V>)> {
    let entry = |&i: &usize| (seen.0.get(i), seen.1[i].val.as_ref());
    which.iter().map(entry)
}

/// Removes what was merged and has not changed since from the dynamic stage, and returns it: the
/// drops of users' values run without a lock. Under the latch something else is done `before`.
fn remove_merged<F: Family, V: Send + Sync + 'static>(
    part: &Part<F, V>,
    seen: &Snapshot<F, V>,
    before: impl FnOnce(),
) -> Vec<Slot<V>> {
    let mut gone = Vec::with_capacity(seen.1.len());
    let mut dynamic = part.write();
    before();
    for i in 0..seen.1.len() {
        let key = seen.0.get(i);
        let version = dynamic.tree.get(key, false).map(|slot| slot.version);
        if version.is_some_and(|version| was_merged::<F, V>(seen, key, version)) {
            gone.extend(dynamic.take(key));
        }
    }
    gone
}
