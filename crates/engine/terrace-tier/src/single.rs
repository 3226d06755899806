//! A structure with one tier: the plain access method under record locks.
//!
//! For comparison, for data without skew, and for the catalog.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use terrace_access::{
    Attempt, DroppedBy, Edge, Expiry, Flags, Found, MergeFigures, Merging, NoRoom, Plan,
    StoragePlace, StoredScan, Tier, Touch, Value, Waits, Window, WriteGuard,
};
use terrace_base::{PageId, Result, StructureId};
use terrace_pages::{Class, Retry, Space};

use crate::Version;
use crate::context::{TierContext, check_limits};
use crate::counter::{Count, Sets};
use crate::events::TierStats;
use crate::expires::Expires;
use crate::fault::{Point, reached};
use crate::hot_tiers::MergingStructure;
use crate::merging::{catch_up, catch_up_for_many, note_put, note_written};
use crate::method::{
    bytes_of, clear_step, compact_step, compact_stored_step, position_of, random_position,
    reach_edges,
};
use crate::one_record::{self, Changed};
use crate::runs::{most_misses, put_all, reach};
use crate::severed::Severed;
use crate::structure::{Change, Estimate, Expect, Missing, Roots, Structure, Written};
use crate::value::{free_inside, lacks_value, prepare_inside};
use crate::watch::Watches;

/// A structure with one tier.
pub struct Single<M> {
    context: Arc<TierContext>,
    id: StructureId,
    method: M,
    events: Sets<Events>,
    watches: Watches,
    expires: Expires,
    /// See [`Structure::retire`].
    retired: AtomicBool,
}

/// Reads and changes since the structure was opened.
#[derive(Default)]
struct Events {
    hits: Count,
    misses: Count,
    writes: Count,
}

impl<M: Tier> Single<M> {
    /// Makes an empty structure.
    pub fn create(
        context: &Arc<TierContext>,
        id: StructureId,
        door: &WriteGuard<'_>,
    ) -> Attempt<Arc<Self>> {
        let method = M::create(&context.store, door, Class::Cold, context.new_order::<M>())?;
        Ok(Single::with(context, id, method))
    }

    /// The structure with these roots. Reads nothing.
    pub fn open(context: &Arc<TierContext>, id: StructureId, roots: Roots) -> Arc<Self> {
        Single::with(
            context,
            id,
            M::open(&context.store, roots.cold, Class::Cold),
        )
    }

    fn with(context: &Arc<TierContext>, id: StructureId, method: M) -> Arc<Self> {
        let single = Arc::new(Single {
            context: context.clone(),
            id,
            method: method.into_only_tier(),
            events: Sets::new(&context.wide),
            watches: Watches::default(),
            expires: Expires::default(),
            retired: AtomicBool::new(false),
        });
        if single.method.merging().is_some() {
            let weak: Weak<Self> = Arc::downgrade(&single);
            context.register_merging(weak);
        }
        single
    }

    /// The access method.
    pub fn method(&self) -> &M {
        &self.method
    }

    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<Found>> {
        loop {
            match self.method.try_get(key, Touch::No, value) {
                Ok(found) => return Ok(found),
                Err(i) => self.context.settle_for_pages(i)?,
            }
        }
    }

    fn counted(&self, found: bool) -> bool {
        if found {
            self.events.hits.add(1)
        } else {
            self.events.misses.add(1)
        }
        found
    }

    /// Settles the retry of a change.
    fn settle(&self, interrupt: Retry) -> Result<()> {
        let settle = |interrupt| self.context.settle_for_pages(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.method.do_without(page))
    }

    fn apply(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<Changed> {
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if matches!(before, Some((_, Value::Large(_)))) && !may_unlink() {
                return Err(Retry::Conflict);
            }
            Ok(value.map_or(Plan::Erase, |value| Plan::Put(value, Flags::NONE)))
        };
        let mut commit = || {
            log();
            Ok(())
        };
        let done = self
            .method
            .try_edit(door, key, &mut plan, &mut NoRoom, &mut commit)?;
        Ok(Changed {
            changed: done.changed,
            chains: [done.before.and_then(|(_, large)| large), None],
        })
    }
}

impl<M: Tier> MergingStructure for Single<M> {
    fn merging(&self) -> Option<&dyn Merging> {
        let retired = self.retired.load(Ordering::SeqCst);
        self.method.merging().filter(|_| !retired)
    }
}

impl<M: Tier> Structure for Single<M> {
    fn id(&self) -> StructureId {
        self.id
    }

    fn watches(&self) -> &Watches {
        &self.watches
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        if self.context.locks_for_reads() {
            return self.get_versioned(key, value).map(|(found, _)| found);
        }
        match self.look(key, value)? {
            // Only a large value needs the lock's version: its chain could be freed meanwhile.
            Some(Found { large: Some(_), .. }) => {
                self.get_versioned(key, value).map(|(found, _)| found)
            }
            found => Ok(self.counted(found.is_some())),
        }
    }

    fn get_or_miss(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        _: u32,
    ) -> Result<std::result::Result<bool, Missing>> {
        match self.method.try_get(key, Touch::No, value) {
            Err(Retry::Miss(page)) => Ok(Err(Missing::Page(page))),
            Ok(Some(Found { large: None, .. })) => Ok(Ok(self.counted(true))),
            // A large value, nothing, or another thread in the way.
            looked => {
                let large = looked.ok().flatten();
                match large.is_some_and(|found| lacks_value(&self.context.store, found)) {
                    true => Ok(Err(Missing::Many)),
                    false => self.get(key, value).map(Ok),
                }
            }
        }
    }

    fn get_locked(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
        one_record::without_waiting(self.method.try_get(key, Touch::No, value))
    }

    fn get_while(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(bool, Version)>> {
        let context = &self.context;
        let slot = context.locks.slot(self.id, key);
        let look = |value: &mut Vec<u8>| {
            let found = self.method.try_get(key, Touch::No, value)?;
            Ok(found.map(|found| (found, ())))
        };
        let settle = |interrupt| context.settle_for_pages(interrupt);
        let answer = one_record::read(context, slot, value, holds, look, settle)?;
        Ok(answer.map(|(found, version)| (self.counted(found.is_some()), version)))
    }

    fn try_write(
        &self,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        log: &mut dyn FnMut(),
    ) -> Result<Written> {
        let context = &self.context;
        if let Change::Put(value) = change {
            check_limits(context.store.page_bytes(), key, value)?;
        }
        self.events.writes.add(1);
        if let Some(merging) = self.method.merging() {
            merging.slow_down(change.bytes(key));
            catch_up(context, merging, change.space(), &mut Waits::of_a_change())?;
        }
        let slot = context.locks.slot(self.id, key);
        let max_inline = M::max_inline(context.store.page_bytes());
        let done = one_record::write(
            context,
            (slot, &self.watches, key),
            (change, max_inline, &self.expires),
            expect,
            |door, value, may_unlink| self.apply(door, key, value, may_unlink, log),
            |interrupt| self.settle(interrupt),
        )?;
        if done.is_done() {
            note_written(&self.method, change.bytes(key));
        }
        Ok(done)
    }

    fn prefault(&self, key: &[u8], _: Change<'_>) -> Result<()> {
        catch_up_for_many(&self.context, &self.method, 0, &mut Waits::of_a_change())?;
        let mut place = Vec::new();
        loop {
            let reached = self
                .method
                .try_position(key, &mut place)
                .and_then(|position| self.method.try_reach_to_put(position));
            match reached {
                Ok(()) => return Ok(()),
                Err(i) => self.context.settle_for_pages(i)?,
            }
        }
    }

    fn apply_locked(&self, door: &WriteGuard<'_>, key: &[u8], change: Change<'_>) -> Result<()> {
        let store = &self.context.store;
        self.events.writes.add(1);
        note_written(&self.method, change.bytes(key));
        let inline = M::max_inline(store.page_bytes());
        let value = prepare_inside(store, door, change, inline, &self.expires)?;
        loop {
            match self.apply(door, key, value, &|| true, &mut || ()) {
                Ok(Changed {
                    chains: [old, _], ..
                }) => {
                    free_inside(store, door, old)?;
                    reached(Point::Applied);
                    return Ok(());
                }
                Err(interrupt) => self.settle(interrupt)?,
            }
        }
    }

    fn prefault_run(&self, run: &Window) -> Result<usize> {
        let mut waits = Waits::of_a_change();
        catch_up_for_many(&self.context, &self.method, bytes_of(run), &mut waits)?;
        let mut misses = most_misses(run);
        reach(&self.method, run, run.len(), &mut misses, |interrupt| {
            self.settle(interrupt)
        })
    }

    fn apply_run_locked(&self, door: &WriteGuard<'_>, run: &Window) -> Result<()> {
        let inline = M::max_inline(self.context.store.page_bytes());
        put_all(
            run.len(),
            |i| run.value(i).len() <= inline,
            |which| {
                let put = self.method.put_run(door, run, which);
                note_put(&self.method, run, &which[..put]);
                self.events.writes.add(put as u64);
                put
            },
            |i| self.apply_locked(door, M::key_at(run.key(i)), Change::Put(run.value(i))),
        )
    }

    fn scan_up(&self, from: &[u8], window: &mut Window) -> Result<()> {
        let mut misses = 0;
        while let Err(i) = self.method.try_window(Edge::From(from), window) {
            if let Retry::Miss(_) = i {
                window.shrink_after(&mut misses);
            }
            self.context.settle_for_scan(i)?;
        }
        let start = window.lower_bound(from);
        window.cut(start, window.len());
        Ok(())
    }

    fn scan_down(&self, below: Option<&[u8]>, window: &mut Window) -> Result<()> {
        let edge = below.map_or(Edge::End, Edge::Below);
        let mut misses = 0;
        while let Err(i) = self.method.try_window(edge, window) {
            if let Retry::Miss(_) = i {
                window.shrink_after(&mut misses);
            }
            self.context.settle_for_scan(i)?;
        }
        let end = below.map_or(window.len(), |below| window.lower_bound(below));
        window.cut(0, end);
        Ok(())
    }

    fn begin_stored(&self) -> Option<StoredScan> {
        self.method.begin_stored()
    }

    fn scan_stored(&self, scan: &StoredScan, window: &mut Window) -> Result<bool> {
        loop {
            match self.method.try_stored(scan, window) {
                Ok(more) => return Ok(more),
                Err(i) => self.context.settle_for_scan(i)?,
            }
        }
    }

    fn end_stored(&self, scan: &StoredScan) {
        self.method.end_stored(scan);
    }

    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        position_of(&self.context, &self.method, key)
    }

    fn dirty_each(&self, _: bool) -> u64 {
        M::CAPABILITIES.dirty_each + 1
    }

    fn position_prefix(&self) -> usize {
        M::CAPABILITIES.position_prefix
    }

    fn estimate(&self) -> Result<Estimate> {
        crate::estimate::estimate(&self.context, &self.method, None::<&M>)
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(self) + self.events.memory_bytes()
    }

    fn cuts(&self) -> bool {
        M::CAPABILITIES.cuts
    }

    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Severed<'d>> {
        Severed::of(door, (None::<&M>, &self.method), low, high)
    }

    fn prefault_cut(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        reach_edges(&self.context, &self.method, low, high)
    }

    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        self.method.close_cut(door, low, high);
    }

    fn roots(&self) -> Roots {
        Roots {
            hot: None,
            cold: self.method.root(),
        }
    }

    fn stats(&self) -> TierStats {
        TierStats {
            cold_hits: self.events.sum(|e| &e.hits),
            misses: self.events.sum(|e| &e.misses),
            writes: self.events.sum(|e| &e.writes),
            ..TierStats::default()
        }
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        self.method.verify(each, page)
    }

    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        self.expires.set(expiry.clone());
        if let Some(merging) = self.method.merging() {
            merging.expire_by(expiry);
        }
    }

    fn drop_expired(&self, key: &[u8]) -> Result<bool> {
        if let Some(merging) = self.method.merging() {
            merging.catch_up(Space::Reserve, &mut Waits::in_background())?;
        }
        let slot = self.context.locks.slot(self.id, key);
        let mut value = Vec::new();
        let dropped = one_record::drop_expired(
            &self.context,
            slot,
            |door, may_unlink| {
                let Some(found) = self.method.try_get(key, Touch::No, &mut value)? else {
                    return Ok(None);
                };
                let stored = found.large.map_or(Value::Inline(&value), Value::Large);
                if !self.expires.is_over(stored) {
                    return Ok(None);
                }
                let done = self.apply(door, key, None, may_unlink, &mut || ())?;
                Ok(Some(done.chains))
            },
            |interrupt| self.settle(interrupt),
        )?;
        self.expires
            .note_dropped(DroppedBy::Round, u64::from(dropped));
        Ok(dropped)
    }

    fn random_position(&self) -> Result<Vec<u8>> {
        random_position(&self.context, &self.method)
    }

    fn compress(&self, levels: u8) {
        if let Some(merging) = self.method.merging() {
            merging.compress(levels);
        }
    }

    fn merge_figures(&self) -> Option<MergeFigures> {
        self.method.merging().map(Merging::merge_figures)
    }

    fn compact_step(&self, from: &[u8], fill: f64) -> Result<Option<Vec<u8>>> {
        compact_step(&self.context, &self.method, from, fill)
    }

    fn compact_stored_step(&self, place: &mut StoragePlace) -> Result<()> {
        compact_stored_step(&self.context, &self.method, place)
    }

    fn retire(&self) {
        self.retired.store(true, Ordering::SeqCst);
    }

    fn clear_step(&self) -> Result<bool> {
        clear_step(&self.context, &self.method)
    }
}
