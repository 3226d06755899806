//! The two tiers as one structure.

use std::cell::Cell;
use std::sync::Arc;

use terrace_access::{
    Attempt, Edge, Expiry, Flags, MergeFigures, Merging, Rooted, StoragePlace, Sweep, Tier, Value,
    Waits, Window, WriteGuard,
};
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_pages::{Retry, Space};

use super::Tiered;
use crate::Version;
use crate::context::{TierContext, check_limits};
use crate::estimate::estimate;
use crate::events::{Events, TierStats};
use crate::fault::{Fault, planted};
use crate::fault::{Point, reached};
use crate::merging::{catch_up, catch_up_for_many, note_written};
use crate::method::{
    clear_step, compact_step, compact_stored_step, position_of, random_position, reach_edges,
};
use crate::one_record::{self, Changed};
use crate::severed::Severed;
use crate::structure::{Change, Estimate, Expect, Missing, Roots, Saving, Structure, Written};
use crate::tiered::promote::ColdRead;
use crate::tiered::verify::verify;
use crate::value::{free_inside, lacks_value, prepare_inside};
use crate::watch::Watches;

/// Hot leaves that a write which finds the tier full lets records go of, before it goes straight to
/// the cold one.
const HELP_ENOUGH: u64 = 160;
/// The same inside the gate, where others wait for it.
const HELP_ENOUGH_INSIDE: u64 = 3;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// What [`Structure::get_while`] answers, of a call that waits, or of one for which these pages were brought in
    /// before and which does not.
    fn get_after(
        &self,
        brought_in: Option<u32>,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(bool, Version)>> {
        let tiers = &self.tiers;
        self.saved.load_key(tiers, key)?;
        let slot = tiers.context().locks.slot(tiers.id(), key);
        let Some((found, version, now_missed)) = tiers.read(slot, key, value, holds)? else {
            return Ok(None);
        };
        let missed = brought_in.unwrap_or(0) + now_missed;
        Ok(Some(match found {
            None => {
                tiers.events().misses.add(1);
                tiers.observe(key, 0, missed > 0);
                (false, version)
            }
            Some((found, true)) => {
                tiers.note_hot_hit(key, found.flags);
                (!found.flags.is_deleted(), version)
            }
            Some((found, false)) => {
                tiers.events().cold_hits.add(1);
                tiers.observe(key, found.depth, missed > 0);
                // As long as no thread has looked at the hot records, the two cannot be compared.
                if C::CAPABILITIES.indexed && missed < 2 && tiers.levels().idle_part() > 0.0 {
                    tiers.context().index_share.note_way();
                }
                let read = ColdRead {
                    slot,
                    version,
                    key,
                    value,
                    found,
                    missed: missed > 0,
                    may_wait: brought_in.is_none(),
                };
                (true, self.promotions.after_cold_read(tiers, read))
            }
        }))
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// The live records next to this edge, as far as what was saved there is loaded.
    fn scan(&self, edge: Edge<'_>, window: &mut Window) -> Result<()> {
        let loaded = match self.saved.loads(&self.tiers) {
            Some(loads) => loads.load_at(edge)?,
            None => None,
        };
        self.purges.scan(&self.tiers, edge, window)?;
        if let Some((low, high)) = loaded
            && !planted(Fault::ScanPastLoaded)
        {
            window.restrict(&low, high.as_deref());
        }
        Ok(())
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Structure for Tiered<H, C> {
    fn id(&self) -> StructureId {
        self.tiers.id()
    }

    fn watches(&self) -> &Watches {
        &self.watches
    }

    fn get_or_miss(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        missed: u32,
    ) -> Result<std::result::Result<bool, Missing>> {
        if let Some(there) = self.tiers.get_hot(key, value) {
            return Ok(Ok(there));
        }
        if let Some(loads) = self.saved.loads(&self.tiers) {
            match loads.try_has(key) {
                Ok(true) => {}
                Err(Retry::Miss(page)) => return Ok(Err(Missing::Page(page))),
                // Its range is to be loaded first, which may take reads.
                Ok(false) | Err(_) => return Ok(Err(Missing::Many)),
            }
        }
        match self.tiers.look(key, value) {
            Err(Retry::Miss(page)) => return Ok(Err(Missing::Page(page))),
            Ok(Some((found, _))) if lacks_value(self.tiers.store(), found) => {
                return Ok(Err(Missing::Many));
            }
            // It is there, or nothing is, or another thread is in the way.
            Ok(_) | Err(_) => {}
        }
        loop {
            if let Some((found, _)) = self.get_after(Some(missed), key, value, &|| true)? {
                return Ok(Ok(found));
            }
        }
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.tiers.get_hot(key, value) {
            Some(there) => Ok(there),
            None => self.get_versioned(key, value).map(|(found, _)| found),
        }
    }

    fn get_locked(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
        if let Some(loads) = self.saved.loads(&self.tiers)
            && !matches!(loads.try_has(key), Ok(true))
        {
            return Ok(None);
        }
        let found = self
            .tiers
            .look(key, value)
            .map(|seen| seen.map(|(found, _)| found));
        one_record::without_waiting(found)
    }

    fn get_while(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(bool, Version)>> {
        self.get_after(None, key, value, holds)
    }

    fn try_write(
        &self,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        log: &mut dyn FnMut(),
    ) -> Result<Written> {
        let tiers = &self.tiers;
        let context = tiers.context();
        if let Change::Put(value) = change {
            check_limits(context.store.page_bytes(), key, value)?;
        }
        self.saved.load_key(tiers, key)?;
        let hash = tiers.hash(key);
        let slot = context.locks.slot_of(hash);
        if context.is_full() {
            // It comes while the gate and the lock are taken.
            context.sketch.prefetch(hash);
        }
        tiers.events().writes.add(1);
        let max_inline = C::max_inline(context.store.page_bytes());
        let helped = Cell::new(0);
        let mut waits = Waits::of_a_change();
        if let Some(merging) = tiers.cold().merging()
            && context.is_full()
        {
            // For what comes in here something else goes down there: hundreds of records at once now and then,
            // which those that come after them make up for.
            merging.slow_down(change.bytes(key));
            catch_up(context, merging, change.space(), &mut waits)?;
        }
        self.purges
            .for_change(tiers, hash, change.space(), &mut waits)?;
        let done = one_record::write(
            context,
            (slot, &self.watches, key),
            (change, max_inline, tiers.expires()),
            expect,
            |door, value, may_unlink| {
                let is_large = tiers.is_in_memory() && matches!(value, Some(Value::Large(_)));
                let chains = if !is_large && helped.get() < HELP_ENOUGH && tiers.may_be_hot()? {
                    [
                        tiers.apply(door, (key, hash), value, may_unlink, log)?,
                        None,
                    ]
                } else {
                    let chains = tiers.apply_cold(door, key, value, may_unlink, log)?;
                    tiers.count_large(value);
                    chains
                };
                Ok(Changed {
                    changed: true,
                    chains,
                })
            },
            |interrupt| {
                let full = matches!(interrupt, Retry::HotFull);
                if full {
                    helped.set(helped.get() + context.hot.leaves_of_help());
                    if let Some(merging) = tiers.cold().merging()
                        && helped.get() >= HELP_ENOUGH
                    {
                        merging.catch_up(change.space(), &mut waits)?;
                    }
                }
                let waits = &mut waits;
                let settle = |interrupt| context.settle_for(interrupt, change.space(), waits);
                match TierContext::settle_or(interrupt, settle, |page| tiers.does_without(page)) {
                    // A page that this change has nothing to do with, perhaps of another structure.
                    Err(e) if full && e.is_unreadable() => {
                        helped.set(HELP_ENOUGH);
                        Ok(())
                    }
                    settled => settled,
                }
            },
        )?;
        if done.is_done() {
            note_written(tiers.cold(), change.bytes(key));
        }
        Ok(done)
    }

    fn prefault(&self, key: &[u8], change: Change<'_>) -> Result<()> {
        let tiers = &self.tiers;
        self.saved.load_key(tiers, key)?;
        let cold = tiers.cold();
        // One step for both.
        let mut waits = Waits::of_a_change();
        catch_up_for_many(tiers.context(), cold, 0, &mut waits)?;
        if cold.merging().is_some() {
            self.purges
                .for_change(tiers, tiers.hash(key), Space::Ordinary, &mut waits)?;
        }
        let inline = C::max_inline(tiers.store().page_bytes());
        let is_large = matches!(change, Change::Put(value) if value.len() > inline);
        let goes_below = tiers.is_in_memory() && is_large;
        // Others touch no cold page, but for the root that says how a hot tier is to be made; the
        // hot tier's pages may still be out after opening.
        let mut place = Vec::new();
        loop {
            let mut below = || {
                let position = cold.try_position(key, &mut place)?;
                cold.try_reach_to_put(position)
            };
            let reached = match tiers.hot() {
                _ if goes_below => below(),
                Some(hot) => hot
                    .try_position(key, &mut place)
                    .and_then(|position| hot.try_reach(Edge::From(position))),
                None => tiers.may_be_hot().and_then(|hot| match hot {
                    true => cold.try_order().map(|_| ()),
                    false => {
                        let position = cold.try_position(key, &mut place)?;
                        cold.try_reach(Edge::From(position))
                    }
                }),
            };
            match reached {
                Ok(()) => return Ok(()),
                Err(interrupt) => tiers.context().settle(interrupt)?,
            }
        }
    }

    fn apply_locked(&self, door: &WriteGuard<'_>, key: &[u8], change: Change<'_>) -> Result<()> {
        let tiers = &self.tiers;
        debug_assert!(
            !self
                .saved
                .loads(tiers)
                .is_some_and(|loads| loads.lacks(key)),
            "it was made ready"
        );
        let store = tiers.store();
        tiers.events().writes.add(1);
        note_written(tiers.cold(), change.bytes(key));
        let inline = C::max_inline(store.page_bytes());
        let value = prepare_inside(store, door, change, inline, tiers.expires())?;
        let hash = tiers.hash(key);
        let is_large = tiers.is_in_memory() && matches!(value, Some(Value::Large(_)));
        let mut helped = 0;
        loop {
            let applied = tiers.may_be_hot().and_then(|hot| {
                if hot && !is_large && helped < HELP_ENOUGH_INSIDE {
                    let done = tiers.apply(door, (key, hash), value, &|| true, &mut || ());
                    done.map(|old| [old, None])
                } else {
                    tiers.apply_cold(door, key, value, &|| true, &mut || ())
                }
            });
            match applied {
                Ok(old) => {
                    tiers.count_large(value);
                    return free_inside(store, door, old.into_iter().flatten());
                }
                Err(Retry::HotFull) => {
                    helped += 1;
                    if let Err(e) = self.rounds.evict_inside(tiers, door) {
                        if matches!(e, Error::Poisoned { .. }) {
                            return Err(e);
                        }
                        // A page that this change has nothing to do with. It is logged already.
                        helped = HELP_ENOUGH_INSIDE;
                    }
                }
                Err(interrupt) => tiers.settle_inside(interrupt)?,
            }
        }
    }

    fn prefault_run(&self, run: &Window) -> Result<usize> {
        let reached = self.tiers.prefault_run_cold(run)?;
        if let Some(loads) = self.saved.loads(&self.tiers) {
            for i in 0..reached {
                loads.load_at(Edge::From(run.key(i)))?;
            }
        }
        Ok(reached)
    }

    fn apply_run_locked(&self, door: &WriteGuard<'_>, run: &Window) -> Result<()> {
        self.tiers.put_run_cold(door, run)
    }

    fn scan_up(&self, from: &[u8], window: &mut Window) -> Result<()> {
        self.scan(Edge::From(from), window)
    }

    fn scan_down(&self, below: Option<&[u8]>, window: &mut Window) -> Result<()> {
        self.scan(below.map_or(Edge::End, Edge::Below), window)
    }

    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        position_of(self.tiers.context(), self.cold(), key)
    }

    /// What goes straight to the cold tier leaves the hot one, if it was there.
    fn dirty_each(&self, through: bool) -> u64 {
        let below = if through {
            C::CAPABILITIES.dirty_each
        } else {
            1
        };
        match self.tiers.is_in_memory() {
            // Those above take no slots; large values go straight below.
            true => C::CAPABILITIES.dirty_each,
            false => H::CAPABILITIES.dirty_each + below,
        }
    }

    fn position_prefix(&self) -> usize {
        C::CAPABILITIES.position_prefix
    }

    fn estimate(&self) -> Result<Estimate> {
        if let Some(loads) = self.saved.loads(&self.tiers) {
            loads.load_all()?;
        }
        let mut estimate = estimate(self.tiers.context(), self.cold(), self.hot())?;
        // While one leaf above and one below are all, a scan sees every record once; who looks at one
        // after the other misses what moves down in between.
        if C::CAPABILITIES.scans {
            let mut window = Window::new();
            self.scan_up(b"", &mut window)?;
            if window.high.is_none() {
                estimate.records = window.len() as u64;
            }
        }
        Ok(estimate)
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(self) + self.tiers.events().memory_bytes()
    }

    fn cuts(&self) -> bool {
        H::CAPABILITIES.cuts && C::CAPABILITIES.cuts
    }

    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Severed<'d>> {
        Severed::of(door, (self.hot(), self.cold()), low, high)
    }

    fn prefault_cut(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        if let Some(loads) = self.saved.loads(&self.tiers) {
            loads.load_range(low, high)?;
        }
        if let Some(hot) = self.hot() {
            reach_edges(self.tiers.context(), hot, low, high)?;
        }
        reach_edges(self.tiers.context(), self.cold(), low, high)
    }

    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        if let Some(hot) = self.hot() {
            hot.close_cut(door, low, high);
        }
        self.cold().close_cut(door, low, high);
    }

    fn roots(&self) -> Roots {
        let named = match self.tiers.is_in_memory() {
            true => self.saved.tree().map(|saved| saved.root()),
            false => self.hot().map(Rooted::root),
        };
        Roots {
            hot: named,
            cold: self.cold().root(),
        }
    }

    fn is_saved(&self) -> bool {
        self.tiers.is_in_memory()
    }

    fn save_step(&self, from: &[u8], saving: Saving) -> Result<Option<Vec<u8>>> {
        let next = self.saved.save_leaf(&self.tiers, from, saving);
        reached(Point::Saved);
        next
    }

    fn save_record(&self, key: &[u8]) -> Result<()> {
        self.saved.save_one(&self.tiers, key)
    }

    fn save_anew(&self) -> Result<()> {
        self.saved.save_anew(&self.tiers)
    }

    fn saved_up(&self, from: &[u8], clean: bool, window: &mut Window) -> Result<bool> {
        self.saved.saved_window(&self.tiers, (from, clean), window)
    }

    fn write_long_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.tiers.write_long_down(from)
    }

    fn hot_up(&self, from: &[u8], least: u8, window: &mut Window) -> Result<bool> {
        self.tiers.hot_window(from, least, window)
    }

    fn warm_up(&self, records: &[(Vec<u8>, u8)]) -> Result<usize> {
        self.promotions.warm_up(&self.tiers, &self.saved, records)
    }

    fn load_saved(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        self.saved.load_next(&self.tiers, from)
    }

    fn saved_slots(&self) -> Result<u64> {
        self.saved.slots(&self.tiers)
    }

    fn close_up_hot(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        self.tiers.close_up_hot(low, high)
    }

    fn clear_memory_step(&self) -> Result<bool> {
        self.tiers.clear_memory()
    }

    fn each_memory_page(&self, page: &mut dyn FnMut(PageId)) {
        self.tiers.each_memory_page(page);
    }

    fn stats(&self) -> TierStats {
        Events::stats(self.tiers.events())
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        verify(&self.tiers, &self.saved, each, page)
    }

    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        self.tiers.expires().set(expiry.clone());
        if let Some(merging) = self.cold().merging() {
            merging.expire_by(expiry);
        }
    }

    fn drop_expired(&self, key: &[u8]) -> Result<bool> {
        self.saved.load_key(&self.tiers, key)?;
        self.tiers.drop_if_expired(key)
    }

    fn random_position(&self) -> Result<Vec<u8>> {
        random_position(self.tiers.context(), self.cold())
    }

    fn compress(&self, levels: u8) {
        if let Some(merging) = self.cold().merging() {
            merging.compress(levels);
        }
    }

    fn merge_figures(&self) -> Option<MergeFigures> {
        self.cold().merging().map(Merging::merge_figures)
    }

    fn compact_step(&self, from: &[u8], fill: f64) -> Result<Option<Vec<u8>>> {
        compact_step(self.tiers.context(), self.cold(), from, fill)
    }

    fn compact_stored_step(&self, place: &mut StoragePlace) -> Result<()> {
        compact_stored_step(self.tiers.context(), self.cold(), place)
    }

    fn retire(&self) {
        // In this order: who ends a round now sees it.
        if self.tiers.retire() {
            self.rounds.forget_leaves(self.tiers.context());
        }
    }

    fn clear_step(&self) -> Result<bool> {
        if self.tiers.clear_memory()? {
            return Ok(true);
        }
        let (context, store) = (self.tiers.context(), self.tiers.store());
        if let Some(saved) = self.saved.tree()
            && store.exists(saved.root())
            && clear_step(context, &*saved)?
        {
            return Ok(true);
        }
        if let Some(hot) = self.hot().filter(|_| !self.tiers.is_in_memory())
            && store.exists(hot.root())
            && clear_step(context, hot)?
        {
            return Ok(true);
        }
        clear_step(context, self.cold())
    }
}
