//! What the concurrent map asks of placement: where a new segment goes, and what a lookup finds.

use super::copies::Copies;
use super::ledger::{Ledger, Seat};
use super::pass::Engine;
use crate::concurrent::part::{Dynamic, Fixed, Part};
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::home::Home;
use crate::options::Options;
use crate::place::two::Two;
use crate::place::{Touch, words};
use crate::plan::Plan;
use crate::stage::KeyRun;
use crate::sync::Mutex;
use crate::two_stage::StaticStage;
use crossbeam_epoch::{self as epoch, Guard};
use std::sync::atomic::Ordering::Relaxed;
use terrace_place::{Sampling, Ticker};

/// Where the segments of a map lie, nothing where there is one kind of memory; beside it which lookups
/// are noted, so that they ask for it at once. One that is watched has each go the long way.
pub(crate) struct Placing<F: Family, V>(pub(super) Option<Box<On<F, V>>>, Ticker);

/// Two kinds of memory.
pub(super) struct On<F: Family, V> {
    pub(super) two: Two,
    pub(super) ledger: std::sync::Arc<Ledger>,
    pub(super) copies: Option<Copies>,
    pub(super) engine: Mutex<Engine<F, V>>,
    #[cfg(not(feature = "shuttle"))]
    pub(super) worker: std::sync::Mutex<Option<terrace_place::Worker>>,
}

impl<F: Family, V: Clone + Send + Sync + 'static> Placing<F, V> {
    pub(crate) fn new(options: &Options) -> Self {
        let two = options.memories.two();
        let ticker = match &two {
            None => Ticker::never(),
            Some(two) if two.watch.is_none() => Ticker::new(Sampling::default()),
            Some(_) => Ticker::new(Sampling { leaf: 1, path: 0 }),
        };
        let on = two.map(|two| {
            let val = words::width::<V>();
            let key = (F::KEY_WORDS, F::packed_hash as fn(&[u64]) -> u64);
            let copies = val.and_then(|val| Copies::new(key, val, two.fast.clone()));
            let counted = copies.as_ref().map(|copies| copies.live().clone());
            Box::new(On {
                two,
                ledger: std::sync::Arc::new(Ledger {
                    copies: counted.unwrap_or_default(),
                    ..Ledger::default()
                }),
                copies,
                engine: Mutex::new(Engine::default()),
                #[cfg(not(feature = "shuttle"))]
                worker: std::sync::Mutex::default(),
            })
        });
        Placing(on, ticker)
    }

    /// Ends it, and waits for that.
    pub(crate) fn stop(&self) {
        #[cfg(not(feature = "shuttle"))]
        if let Some(on) = &self.0 {
            let mut worker = on
                .worker
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if let Some(worker) = worker.take() {
                worker.stop();
            }
        }
    }

    /// A new segment, in the memory in which the one lies whose entries it has.
    pub(crate) fn fix(
        &self,
        keys: Option<F::Stage>,
        vals: Vec<V>,
        old: Option<&Fixed<F, V>>,
    ) -> Fixed<F, V> {
        match &self.0 {
            None => Fixed {
                keys,
                vals: vals.into(),
                seat: Seat::default(),
            },
            Some(on) => on.fix(keys, vals, old),
        }
    }

    /// Gives the value of `key`, which is in the range of a segment, to `see`.
    #[inline(always)]
    pub(crate) fn look<R>(
        &self,
        part: &std::sync::Arc<Part<F, V>>,
        fixed: &Fixed<F, V>,
        key: F::Ref<'_>,
        guard: &Guard,
        see: impl FnOnce(Option<&V>) -> R,
    ) -> R {
        match self.1.is_due() {
            Some(true) => apart::<true, F, V, R, _>(part, key, self, guard, see),
            Some(false) if fixed.seat.is_slow() => {
                apart::<false, F, V, R, _>(part, key, self, guard, see)
            }
            // The same code as without placement, once for all.
            _ => see(fixed.get(key)),
        }
    }

    /// Entries of a segment are read in another way than by [`Placing::look`]: in order, at an end,
    /// or to be written over.
    #[inline]
    pub(crate) fn touched(&self, fixed: &Fixed<F, V>) {
        if let Some(on) = &self.0
            && fixed.len() > 0
            && Sampling::default().tick().is_some()
        {
            fixed.seat.warm();
            on.ledger.noted[usize::from(fixed.seat.slow)].fetch_add(1, Relaxed);
        }
    }

    /// The dynamic stage of a part was written to.
    #[inline]
    pub(crate) fn wrote(&self, fixed: &Fixed<F, V>, dynamic: &Dynamic<F, V>) {
        if let Some(on) = &self.0 {
            on.ledger.resized(&fixed.seat, dynamic.bytes() as u64);
        }
    }

    /// The dynamic stage of a part was merged.
    pub(crate) fn merged(&self, part: &Part<F, V>, guard: &Guard) {
        if self.0.is_some()
            && let Some(dynamic) = part.try_read()
        {
            self.wrote(part.segment.load(guard), &dynamic);
        }
    }

    /// Entries which a segment had are others in the one that replaced it, or are gone: so are their
    /// copies. Who calls has the latch of the part alone, and they are in the dynamic stage still.
    pub(crate) fn changed<'a>(
        &self,
        entries: impl Iterator<Item = (F::Ref<'a>, Option<&'a V>)>,
        guard: &Guard,
    ) {
        let copies = self.0.as_ref().and_then(|on| on.copies.as_ref());
        let Some(copies) = copies.filter(|_| !planted(Fault::StaleCopy)) else {
            return;
        };
        let table = copies.table(guard);
        let width = words::width::<V>().unwrap_or(0);
        let mut room = [0; MOST_KEY];
        for (key, val) in entries {
            let words = &mut room[..F::KEY_WORDS];
            if F::pack(key, words) {
                let val = val.and_then(words::pack);
                let val = val.as_ref().map(|val| &val[..width]);
                table.change(words, F::hash(key), val);
            }
        }
    }

    /// All entries are gone. Who calls has the latches of all parts alone, and the directory is the old one.
    pub(crate) fn cleared(&self, guard: &Guard) {
        let copies = self.0.as_ref().and_then(|on| on.copies.as_ref());
        if let Some(copies) = copies.filter(|_| !planted(Fault::KeptTable)) {
            copies.clear(guard);
        }
    }

    /// Entries with which a dynamic stage is to be merged.
    #[inline]
    pub(crate) fn most(&self) -> usize {
        let most = self.0.as_ref().map(|on| on.ledger.most.load(Relaxed));
        most.filter(|most| *most > 0).unwrap_or(usize::MAX)
    }

    /// Bytes of copies.
    pub(crate) fn copy_bytes(&self) -> usize {
        let copies = self.0.as_ref().and_then(|on| on.copies.as_ref());
        copies.map_or(0, |copies| copies.table(&epoch::pin()).bytes())
    }
}

/// A lookup that is due to be noted, or in slow memory. Apart, so that others keep nothing for it, with
/// what they need anyway before the rest.
#[inline(never)]
fn apart<const DUE: bool, F: Family, V: Clone + Send + Sync + 'static, R, S>(
    part: &std::sync::Arc<Part<F, V>>,
    key: F::Ref<'_>,
    place: &Placing<F, V>,
    guard: &Guard,
    see: S,
) -> R
where
    S: FnOnce(Option<&V>) -> R,
{
    let fixed = part.segment.load(guard);
    let Placing(Some(on), ticker) = place else {
        return see(fixed.get(key));
    };
    if DUE {
        let _ = ticker.again();
    }
    if on.two.watch.is_some() {
        let noted = Sampling::default().tick().is_some();
        return on.look(part, fixed, key, guard, noted, see);
    }
    if DUE {
        ticker.calm(on.ledger.bytes[1].load(Relaxed) == 0);
    }
    on.look(part, fixed, key, guard, DUE, see)
}

/// Why a segment stays where it is.
pub(super) enum Stays {
    /// Fast memory has no room for it.
    NoRoom,
    /// Slow memory is refused, or full.
    Refused,
}

/// Bytes of the keys and of the values of a segment.
fn bytes_of<F: Family, V>(keys: &Option<F::Stage>, vals: &[V]) -> [u64; 2] {
    let keys = keys.as_ref().map_or(0, StaticStage::bytes);
    [keys as u64, size_of_val(vals) as u64]
}

impl<F: Family, V: Clone + Send + Sync + 'static> On<F, V> {
    /// Fast bytes that are allowed.
    pub(super) fn limit(&self) -> u64 {
        let slow = self.ledger.bytes[1].load(Relaxed);
        self.two.limit(self.ledger.used(), slow)
    }

    /// A segment, if its arrays are as they were said to be. Those of a fast one are counted
    /// already; others are counted here.
    fn seat(&self, slow: bool, bytes: [u64; 2], counted: [bool; 2], old: Option<&Seat>) -> Seat {
        for (i, sum) in self.ledger.bytes.iter().enumerate() {
            if !counted[i] {
                sum.fetch_add(bytes[i], Relaxed);
            }
        }
        Seat {
            ledger: Some(std::sync::Arc::clone(&self.ledger)),
            id: self.ledger.id(),
            heat: old.map_or(0, |old| old.heat.load(Relaxed)).into(),
            dynamic: old.map_or(0, |old| old.dynamic.load(Relaxed)).into(),
            slow,
            bytes,
        }
    }

    fn fix(&self, keys: Option<F::Stage>, vals: Vec<V>, old: Option<&Fixed<F, V>>) -> Fixed<F, V> {
        let seat = old.map(|old| &old.seat);
        let [key_bytes, val_bytes] = bytes_of::<F, V>(&keys, &vals);
        let all = key_bytes + val_bytes;
        let fast = old.is_some_and(|old| !old.seat.slow && old.len() > 0);
        if fast && self.ledger.try_take(all, self.edge()) {
            return Fixed {
                keys: self.fast_keys(keys),
                vals: self.fast_vals(vals),
                seat: self.seat(false, [all, 0], [true; 2], seat),
            };
        }
        match self.two.slow.keep(vals) {
            Ok(vals) => {
                // A stage that cannot say where its keys lie keeps them in fast memory.
                let home = Some(&self.two.slow);
                let placed = keys.as_ref().and_then(|keys| keys.placed(home));
                let bytes = match placed.is_some() {
                    true => [0, all],
                    false => [key_bytes, val_bytes],
                };
                Fixed {
                    seat: self.seat(!vals.is_empty(), bytes, [false; 2], seat),
                    keys: placed.or(keys),
                    vals,
                }
            }
            Err((vals, _)) => {
                self.ledger.refused.fetch_add(1, Relaxed);
                Fixed {
                    keys,
                    vals: vals.into(),
                    seat: self.seat(false, [all, 0], [false; 2], seat),
                }
            }
        }
    }

    fn fast_keys(&self, keys: Option<F::Stage>) -> Option<F::Stage> {
        let Some(fast) = &self.two.fast else {
            return keys;
        };
        let placed = keys.as_ref().and_then(|keys| keys.placed(Some(fast)));
        placed.or(keys)
    }

    fn fast_vals(&self, vals: Vec<V>) -> terrace_place::Block<V> {
        match &self.two.fast {
            None => vals.into(),
            Some(fast) => fast.keep(vals).unwrap_or_else(|(vals, _)| vals.into()),
        }
    }

    /// A copy of a segment in the other memory.
    pub(super) fn moved(
        &self,
        old: &Fixed<F, V>,
        plan: &Plan<F::Run>,
    ) -> Result<Fixed<F, V>, Stays> {
        let all = old.seat.all_bytes();
        let (to_fast, seat) = (old.seat.slow, Some(&old.seat));
        // Users' code: nothing has changed yet.
        let mut vals = old.vals.to_vec();
        if planted(Fault::ShortMove)
            && let Some(first) = vals.first().cloned()
            && let Some(last) = vals.last_mut()
        {
            *last = first;
        }
        let rebuilt = |home: Home<'_>| {
            let keys = old.keys.as_ref()?;
            keys.placed(home).or_else(|| {
                let mut run = F::Run::default();
                keys.decode(&mut run);
                Some(F::Stage::build(&run, 0, run.len(), plan))
            })
        };
        if to_fast {
            if !self.ledger.try_take(all, self.bound()) {
                return Err(Stays::NoRoom);
            }
            // From here on who is dropped gives the bytes back.
            let seat = self.seat(false, [all, 0], [true; 2], seat);
            let keys = rebuilt(self.two.fast.as_ref());
            let vals = self.fast_vals(vals);
            return Ok(Fixed { keys, vals, seat });
        }
        let Ok(vals) = self.two.slow.keep(vals) else {
            self.ledger.refused.fetch_add(1, Relaxed);
            return Err(Stays::Refused);
        };
        let home = Some(&self.two.slow);
        let placed = old.keys.as_ref().and_then(|keys| keys.placed(home));
        let [key_bytes, val_bytes] = bytes_of::<F, V>(&old.keys, &vals);
        let bytes = match placed.is_some() {
            true => [0, all],
            false => [key_bytes, val_bytes],
        };
        let seat = self.seat(true, bytes, [false; 2], seat);
        let keys = placed.or_else(|| rebuilt(None));
        Ok(Fixed { keys, vals, seat })
    }

    /// From here on others make room for what is written.
    pub(super) fn edge(&self) -> u64 {
        self.two.edge(self.limit())
    }

    /// What moves may fill.
    pub(super) fn bound(&self) -> u64 {
        self.two.bound(self.limit())
    }

    #[inline]
    fn look<R>(
        &self,
        part: &Part<F, V>,
        fixed: &Fixed<F, V>,
        key: F::Ref<'_>,
        guard: &Guard,
        noted: bool,
        see: impl FnOnce(Option<&V>) -> R,
    ) -> R {
        let seat = &fixed.seat;
        self.watch(|| Touch::Header(std::ptr::from_ref(fixed) as u64 / 64));
        if !seat.slow {
            if noted {
                seat.warm();
                self.ledger.noted[0].fetch_add(1, Relaxed);
            }
            self.watch(|| touch_of(fixed, key));
            return see(fixed.get(key));
        }
        let mut room = [0; MOST_KEY];
        let words = &mut room[..F::KEY_WORDS];
        let table = match &self.copies {
            Some(copies) if F::pack(key, words) => Some(copies.table(guard)),
            _ => None,
        };
        let hash = F::hash(key);
        if let Some(table) = table {
            if self.two.watch.is_some()
                && let Some(line) = table.line(hash)
            {
                self.watch(|| Touch::Copies(line));
            }
            if let Some(hit) = table.find(words, hash)
                && let Some(val) = words::unpack::<V>(hit.val)
            {
                if noted {
                    self.ledger.noted[2].fetch_add(1, Relaxed);
                    self.ledger.least.fetch_add(hit.least.into(), Relaxed);
                }
                return see(Some(&val));
            }
        }
        self.watch(|| touch_of(fixed, key));
        if noted {
            seat.warm();
            self.ledger.noted[1].fetch_add(1, Relaxed);
        }
        let found = fixed.get(key);
        if let Some(table) = table
            && let Some(val) = found
            && table.missed(hash)
        {
            self.copy(part, fixed, (words, hash, val), guard);
        }
        see(found)
    }

    /// Makes a copy of an entry of a segment, if that is still the published one of a part that has its
    /// range. Nothing where a thread writes to the part.
    fn copy(
        &self,
        part: &Part<F, V>,
        fixed: &Fixed<F, V>,
        (key, hash, val): (&[u64], u64, &V),
        guard: &Guard,
    ) {
        // From here on no merge changes copies of what is in the range.
        let Some(latch) = part.try_read() else {
            return;
        };
        let is_it = !latch.retired && std::ptr::eq(part.segment.load(guard), fixed);
        if let Some(copies) = &self.copies
            && (is_it || planted(Fault::LateCopy))
            && let (Some(val), Some(width)) = (words::pack(val), words::width::<V>())
        {
            copies.table(guard).put(key, hash, &val[..width]);
            self.ledger.copied.fetch_add(1, Relaxed);
        }
    }

    #[inline]
    fn watch(&self, touch: impl FnOnce() -> Touch) {
        if let Some(watch) = &self.two.watch {
            watch.touch(touch());
        }
    }
}

/// Words of the longest key that has a copy.
const MOST_KEY: usize = 8;

/// The lines of the keys and of the value that a lookup waits for.
fn touch_of<F: Family, V>(fixed: &Fixed<F, V>, key: F::Ref<'_>) -> Touch {
    let rank = fixed.keys.as_ref().map_or(0, |keys| keys.seek(key)) as u64;
    let [keys, _] = bytes_of::<F, V>(&fixed.keys, &fixed.vals);
    let id = fixed.seat.id << 24;
    Touch::Segment {
        key: id + rank * (keys / fixed.len().max(1) as u64) / 64,
        val: id + (1 << 23) + rank * size_of::<V>() as u64 / 64,
        slow: fixed.seat.slow,
    }
}
