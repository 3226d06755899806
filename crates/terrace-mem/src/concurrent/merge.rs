//! Merging in the background: build beside, publish, then remove what was merged.

use super::cell;
use super::part::{Directory, Fixed, Part, Slot};
use super::shared::{Due, Shared};
use super::signal::Signal;
use crate::dynamic::{Any, DynamicCursor, DynamicStage};
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::pair::Pair;
use crate::stage::{KeyRun, Stage, StaticStage};
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
            let idle = only_due && self.due(part, dynamic.weight(), &guard) == Due::Not;
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
        let (run, vals) = combine(old, seen);
        let pieces = self.pieces(run.len(), run.key_bytes(0, run.len()));
        if pieces > 1 {
            self.split(part, (&run, pieces), vals, seen, guard);
            return Vec::new();
        }
        let new = self.fix(&run, 0, run.len(), vals, Some(old));
        let gone = if planted(Fault::EarlyRemove) {
            let gone = remove_merged(part, seen);
            part.segment.store(new, guard);
            gone
        } else {
            part.segment.store(new, guard);
            remove_merged(part, seen)
        };
        self.place.merged(part, guard);
        if run.len() == 0 {
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

    /// The keys `from..to` of a run and their values, as a segment; in the memory in which the one
    /// lies whose entries they were.
    pub fn fix(
        &self,
        run: &F::Run,
        from: usize,
        to: usize,
        vals: Vec<V>,
        old: Option<&Fixed<F, V>>,
    ) -> Fixed<F, V> {
        let keys = (from < to).then(|| F::Stage::build(run, from, to, &self.plan));
        self.place.fix(keys, vals, old)
    }

    /// How many parts so many entries of so many key bytes make.
    fn pieces(&self, n: usize, bytes: usize) -> usize {
        let len = self.options.segment_len;
        let of = |n: usize, most: usize| match n > most + most / 2 {
            true => n.div_ceil(most),
            false => 1,
        };
        of(n, len).max(of(bytes, PART_BYTES)).min(n)
    }

    /// Replaces a part by several. What changed since the snapshot moves along.
    fn split(
        &self,
        part: &Arc<Part<F, V>>,
        (run, pieces): (&F::Run, usize),
        vals: Vec<V>,
        seen: &Snapshot<F, V>,
        guard: &Guard,
    ) {
        let n = run.len();
        let mut rest = vals.into_iter();
        let mut fixed = Vec::with_capacity(pieces);
        for p in 0..pieces {
            let (from, to) = (n * p / pieces, n * (p + 1) / pieces);
            let vals: Vec<V> = rest.by_ref().take(to - from).collect();
            let mut low = part.low.clone();
            if p > 0 {
                F::store(run.get(from), &mut low);
                F::shorten(run.get(from - 1), &mut low);
            }
            let old = part.segment.load(guard);
            fixed.push((low, self.fix(run, from, to, vals, Some(old))));
        }
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
        usage.cache = self.plan.cache.as_ref().map_or(0, |cache| cache.bytes());
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

/// The entries of a segment with those of the snapshot put over them.
fn combine<F: Family, V: Clone>(old: &Fixed<F, V>, seen: &Snapshot<F, V>) -> (F::Run, Vec<V>) {
    let mut keys = F::Run::default();
    if let Some(stage) = &old.keys {
        stage.decode(&mut keys);
    }
    let n = keys.len();
    let mut run = F::Run::default();
    run.reserve(
        n + seen.1.len(),
        keys.key_bytes(0, n) + seen.0.key_bytes(0, seen.1.len()),
    );
    let mut vals = Vec::with_capacity(n + seen.1.len());
    let mut from = 0;
    for (i, slot) in seen.1.iter().enumerate() {
        let key = seen.0.get(i);
        let to = keys.gallop(from, n, key);
        run.append(&keys, from, to);
        vals.extend_from_slice(&old.vals[from..to]);
        let same = to < n && F::cmp(keys.get(to), key).is_eq();
        match &slot.val {
            Some(val) => {
                run.push(key);
                vals.push(val.clone());
            }
            None if same && planted(Fault::DroppedTombstone) => {
                run.push(key);
                vals.push(old.vals[to].clone());
            }
            None => {}
        }
        from = to + usize::from(same);
    }
    run.append(&keys, from, n);
    vals.extend_from_slice(&old.vals[from..n]);
    (run, vals)
}

/// Whether the snapshot has the key in this version.
fn was_merged<F: Family, V>(seen: &Snapshot<F, V>, key: F::Ref<'_>, version: u64) -> bool {
    let i = seen.0.gallop(0, seen.1.len(), key);
    i < seen.1.len()
        && F::cmp(seen.0.get(i), key).is_eq()
        && (seen.1[i].version == version || planted(Fault::BlindRemove))
}

/// Removes what was merged and has not changed since from the dynamic stage, and returns it: the
/// drops of users' values run without a lock.
fn remove_merged<F: Family, V: Send + Sync + 'static>(
    part: &Part<F, V>,
    seen: &Snapshot<F, V>,
) -> Vec<Slot<V>> {
    let mut gone = Vec::with_capacity(seen.1.len());
    let mut dynamic = part.write();
    for i in 0..seen.1.len() {
        let key = seen.0.get(i);
        let version = dynamic.tree.get(key, false).map(|slot| slot.version);
        if version.is_some_and(|version| was_merged::<F, V>(seen, key, version)) {
            gone.extend(dynamic.take(key));
        }
    }
    gone
}
