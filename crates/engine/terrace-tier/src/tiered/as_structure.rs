//! The two tiers as one structure.

use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use terrace_access::{
    Attempt, Door, Edge, Expiry, Flags, MergeFigures, Rooted, StoragePlace, Sweep, Tier, Value,
    Waits, Window,
};
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_pages::{Interrupt, Space};

use super::Tiered;
use super::verify::verify;
use crate::Version;
use crate::context::{TierContext, check_limits};
use crate::estimate::estimate;
use crate::events::{Events, TierStats};
use crate::locks::hash_of;
use crate::method::{
    catch_up_for_many, clear_step, compact_step, compact_stored_step, position_of, random_position,
    reach_edges,
};
use crate::one_record::{self, Changed};
use crate::severed::Severed;
use crate::structure::{Change, Estimate, Expect, Roots, Structure, Written};
use crate::value::{free_inside, prepare_inside};
use crate::watch::Watches;

/// Hot leaves that a write which finds the tier full lets records go of, before it goes straight to
/// the cold one.
const HELP_ENOUGH: u64 = 160;
/// The same inside the gate, where others wait for it.
const HELP_ENOUGH_INSIDE: u64 = 3;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Structure for Tiered<H, C> {
    fn id(&self) -> StructureId {
        self.id
    }

    fn watches(&self) -> &Watches {
        &self.watches
    }

    fn get_or_miss(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Result<std::result::Result<bool, PageId>> {
        if let Some(there) = self.get_hot(key, value) {
            return Ok(Ok(there));
        }
        if let Err(Interrupt::Miss(page)) = self.look(key, value) {
            return Ok(Err(page));
        }
        self.get_versioned(key, value).map(|(found, _)| Ok(found))
    }

    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        match self.get_hot(key, value) {
            Some(there) => Ok(there),
            None => self.get_versioned(key, value).map(|(found, _)| found),
        }
    }

    fn get_locked(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>> {
        let found = self
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
        let slot = self.context.locks.slot(self.id, key);
        let Some((found, version, missed)) = self.read(slot, key, value, holds)? else {
            return Ok(None);
        };
        Ok(Some(match found {
            None => {
                self.events.misses.add(1);
                self.observe(key, 0, missed > 0);
                (false, version)
            }
            Some((found, true)) => {
                self.note_hot_hit(key, found.flags);
                (!found.flags.is_deleted(), version)
            }
            Some((found, false)) => {
                self.events.cold_hits.add(1);
                self.observe(key, found.depth, missed > 0);
                // As long as nobody has looked at the hot records, the two cannot be compared.
                if C::INDEXED && missed < 2 && self.levels.idle_part() > 0.0 {
                    self.context.index_share.note_way();
                }
                let now = self.after_cold_read(slot, version, key, value, found, missed > 0);
                (true, now)
            }
        }))
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
        let hash = hash_of(self.id, key);
        let slot = context.locks.slot_of(hash);
        if context.is_full() {
            // It comes while the gate and the lock are taken.
            context.sketch.prefetch(hash);
        }
        self.events.writes.add(1);
        let max_inline = C::max_inline(context.store.page_bytes());
        let helped = Cell::new(0);
        let mut waits = Waits::of_a_change();
        if C::BLIND && context.is_full() {
            // For what comes in here something else goes down there: hundreds of records at once now and then,
            // which those that come after them make up for.
            self.cold.slow_down(change.bytes(key));
            if self.cold.catch_up(change.space(), &mut waits)? {
                context.merger.notify();
            }
        }
        self.purge_for_change(hash, change.space(), &mut waits)?;
        let done = one_record::write(
            context,
            (slot, &self.watches, key),
            (change, max_inline, &self.expires),
            expect,
            |door, value, may_unlink| {
                let chains = if helped.get() < HELP_ENOUGH && self.may_be_hot()? {
                    [self.apply(door, (key, hash), value, may_unlink, log)?, None]
                } else {
                    self.apply_cold(door, key, value, may_unlink, log)?
                };
                Ok(Changed {
                    changed: true,
                    chains,
                })
            },
            |interrupt| {
                let full = matches!(interrupt, Interrupt::HotFull);
                if full {
                    helped.set(helped.get() + context.hot.leaves_of_help());
                    if C::BLIND && helped.get() >= HELP_ENOUGH {
                        self.cold.catch_up(change.space(), &mut waits)?;
                    }
                }
                let waits = &mut waits;
                let settle = |interrupt| context.settle_for(interrupt, change.space(), waits);
                match TierContext::settle_or(interrupt, settle, |page| self.does_without(page)) {
                    // A page that this change has nothing to do with, perhaps of another structure.
                    Err(e) if full && e.is_unreadable() => {
                        helped.set(HELP_ENOUGH);
                        Ok(())
                    }
                    settled => settled,
                }
            },
        )?;
        if C::BLIND && done.is_done() {
            self.cold.note_written(change.bytes(key));
        }
        Ok(done)
    }

    fn prefault(&self, key: &[u8]) -> Result<()> {
        // One step for both.
        let mut waits = Waits::of_a_change();
        catch_up_for_many(&self.context, &self.cold, 0, &mut waits)?;
        if C::BLIND {
            let hash = hash_of(self.id, key);
            self.purge_for_change(hash, Space::Ordinary, &mut waits)?;
        }
        // A change touches no cold page, but for the root that says how a hot tier is to be made; the
        // hot tier's pages may still be out after opening.
        let mut place = Vec::new();
        loop {
            let reached = match self.hot.get() {
                Some(hot) => hot
                    .try_position(key, &mut place)
                    .and_then(|position| hot.try_reach(Edge::From(position))),
                None => self.may_be_hot().and_then(|hot| match hot {
                    true => self.cold.try_order().map(|_| ()),
                    false => {
                        let position = self.cold.try_position(key, &mut place)?;
                        self.cold.try_reach(Edge::From(position))
                    }
                }),
            };
            match reached {
                Ok(()) => return Ok(()),
                Err(interrupt) => self.context.settle(interrupt)?,
            }
        }
    }

    fn apply_locked(&self, door: &Door<'_>, key: &[u8], change: Change<'_>) -> Result<()> {
        let store = &self.context.store;
        self.events.writes.add(1);
        if C::BLIND {
            self.cold.note_written(change.bytes(key));
        }
        let inline = C::max_inline(store.page_bytes());
        let value = prepare_inside(store, door, change, inline, &self.expires)?;
        let hash = hash_of(self.id, key);
        let mut helped = 0;
        loop {
            let applied = self.may_be_hot().and_then(|hot| {
                if hot && helped < HELP_ENOUGH_INSIDE {
                    let done = self.apply(door, (key, hash), value, &|| true, &mut || ());
                    done.map(|old| [old, None])
                } else {
                    self.apply_cold(door, key, value, &|| true, &mut || ())
                }
            });
            match applied {
                Ok(old) => {
                    return free_inside(store, door, old.into_iter().flatten());
                }
                Err(Interrupt::HotFull) => {
                    helped += 1;
                    if let Err(e) = self.evict_inside(door) {
                        if matches!(e, Error::Poisoned { .. }) {
                            return Err(e);
                        }
                        // A page that this change has nothing to do with. It is logged already.
                        helped = HELP_ENOUGH_INSIDE;
                    }
                }
                Err(interrupt) => self.settle_inside(interrupt)?,
            }
        }
    }

    fn prefault_run(&self, run: &Window) -> Result<usize> {
        self.prefault_run_cold(run)
    }

    fn apply_run_locked(&self, door: &Door<'_>, run: &Window) -> Result<()> {
        self.put_run_cold(door, run)
    }

    fn scan_up(&self, from: &[u8], window: &mut Window) -> Result<()> {
        self.scan(Edge::From(from), window)
    }

    fn scan_down(&self, below: Option<&[u8]>, window: &mut Window) -> Result<()> {
        self.scan(below.map_or(Edge::End, Edge::Below), window)
    }

    fn position(&self, key: &[u8]) -> Result<Vec<u8>> {
        position_of(&self.context, &self.cold, key)
    }

    /// What goes straight to the cold tier leaves the hot one, if it was there.
    fn dirty_each(&self, through: bool) -> u64 {
        H::DIRTY_EACH + if through { C::DIRTY_EACH } else { 1 }
    }

    fn position_prefix(&self) -> usize {
        C::POSITION_PREFIX
    }

    fn estimate(&self) -> Result<Estimate> {
        let mut estimate = estimate(&self.context, &self.cold, self.hot())?;
        // While one leaf above and one below are all, a scan sees every record once; who looks at one
        // after the other misses what moves down in between.
        if C::SCANS {
            let mut window = Window::new();
            self.scan_up(b"", &mut window)?;
            if window.high.is_none() {
                estimate.records = window.len() as u64;
            }
        }
        Ok(estimate)
    }

    fn memory_bytes(&self) -> usize {
        size_of_val(self) + self.events.memory_bytes()
    }

    fn cuts(&self) -> bool {
        H::CUTS && C::CUTS
    }

    fn try_cut<'d>(
        &'d self,
        door: &'d Door<'_>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Severed<'d>> {
        Severed::of(door, (self.hot(), &self.cold), low, high)
    }

    fn prefault_cut(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        if let Some(hot) = self.hot() {
            reach_edges(&self.context, hot, low, high)?;
        }
        reach_edges(&self.context, &self.cold, low, high)
    }

    fn close_cut(&self, door: &Door<'_>, low: &[u8], high: Option<&[u8]>) {
        if let Some(hot) = self.hot() {
            hot.close_cut(door, low, high);
        }
        self.cold.close_cut(door, low, high);
    }

    fn roots(&self) -> Roots {
        Roots {
            hot: self.hot.get().map(Rooted::root),
            cold: self.cold.root(),
        }
    }

    fn stats(&self) -> TierStats {
        Events::stats(&self.events)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        verify(self, each, page)
    }

    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        self.expires.set(expiry.clone());
        self.cold.expire_by(expiry);
    }

    fn drop_expired(&self, key: &[u8]) -> Result<bool> {
        self.drop_if_expired(key)
    }

    fn random_position(&self) -> Result<Vec<u8>> {
        random_position(&self.context, &self.cold)
    }

    fn compress(&self, levels: u8) {
        self.cold.compress(levels);
    }

    fn merge_figures(&self) -> Option<MergeFigures> {
        self.cold.merge_figures()
    }

    fn compact_step(&self, from: &[u8], fill: f64) -> Result<Option<Vec<u8>>> {
        compact_step(&self.context, &self.cold, from, fill)
    }

    fn compact_stored_step(&self, place: &mut StoragePlace) -> Result<()> {
        compact_stored_step(&self.context, &self.cold, place)
    }

    fn retire(&self) {
        // In this order: who ends a round now sees it.
        if !self.retired.swap(true, Ordering::SeqCst) {
            self.forget_leaves();
        }
    }

    fn clear_step(&self) -> Result<bool> {
        if let Some(hot) = self.hot.get()
            && self.context.store.exists(hot.root())
            && clear_step(&self.context, hot)?
        {
            return Ok(true);
        }
        clear_step(&self.context, &self.cold)
    }
}
