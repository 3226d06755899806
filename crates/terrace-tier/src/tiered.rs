//! A structure with two tiers: reads, writes, promotion.
//!
//! Rule 1: every live key is in at least one tier at every instant, and where it is in both, the hot
//! one (a tombstone too) is right. Rule 2: only the holder of a record's lock changes or moves it.
//! Rule 10: a blind put touches no cold page.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use terrace_access::{
    Attempt, Door, Edge, Flags, Found, LargeRef, MergeFigures, NoRoom, Plan, Rooted, Sweep, Tier,
    Touch, Value, Waits, Window,
};
use terrace_base::sync::Mutex;
use terrace_base::{Error, PageId, Result, StructureId};
use terrace_pages::{Class, Interrupt};

use crate::Version;
use crate::context::{TierContext, check_limits};
use crate::counter::Sets;
use crate::estimate::Estimate;
use crate::events::{Events, TierStats};
use crate::fault::{Fault, planted};
use crate::hot_tiers::Registered;
use crate::locks::hash_of;
use crate::one_record::{self, Changed};
use crate::policy::Policy;
use crate::room::LeafRoom;
use crate::structure::{Change, Expect, Roots, Structure};
use crate::value::{free_inside, prepare_inside};
use crate::watch::Watches;

/// Hot leaves that a write which finds the tier full lets records go of, before it goes straight to
/// the cold one.
const HELP_ENOUGH: u64 = 160;
/// The same inside the gate, where others wait for it.
const HELP_ENOUGH_INSIDE: u64 = 3;

/// Tells the database, inside the gate, that the hot tier has been made, so that the catalog says
/// so in the same cut.
pub type OnHotRoot = Arc<dyn Fn(&Door<'_>, Roots) -> Attempt<()> + Send + Sync>;

/// How a two-tier structure is to work.
#[derive(Clone)]
pub struct TierOptions {
    /// Which records come and go.
    pub policy: Arc<dyn Policy>,
    /// Whether a promoted record stays in the cold tier as well. Exclusive tiers hold a little more,
    /// and write every promoted record back.
    pub inclusive: bool,
    /// See [`OnHotRoot`].
    pub on_hot_root: OnHotRoot,
}

impl Default for TierOptions {
    fn default() -> Self {
        TierOptions {
            policy: Arc::new(crate::policy::LeafLocal),
            inclusive: true,
            on_hot_root: Arc::new(|_, _| Ok(())),
        }
    }
}

/// A record that was found, and whether in the hot tier.
type Seen = (Found, bool);

/// See the module's text. `H` is the access method of the hot tier, `C` that of the cold one.
pub struct Tiered<H, C> {
    pub(crate) context: Arc<TierContext>,
    pub(crate) id: StructureId,
    pub(crate) cold: C,
    hot: OnceLock<H>,
    making: Mutex<()>,
    pub(crate) options: TierOptions,
    pub(crate) events: Sets<Events>,
    pub(crate) me: Weak<Self>,
    /// Among the hot tiers of the context, once there is one.
    pub(crate) registered: OnceLock<Registered>,
    /// Whether the hot tier was one leaf when room was last made there: no page can be freed then.
    pub(crate) one_leaf: AtomicBool,
    pub(crate) hand: Mutex<crate::sweep::Hand>,
    pub(crate) burying: Mutex<crate::bury::Burying>,
    /// Scans that leave tombstones alone; see [`crate::bury`].
    pub(crate) walked_put_off: AtomicU32,
    pub(crate) stale: crate::sweep::Stale,
    pub(crate) levels: crate::levels::Levels,
    /// Promotions that missed a page, since one was brought in for them.
    pub(crate) in_vain: AtomicU32,
    watches: Watches,
    /// Whether the policy wants to know of lookups, which costs a little.
    #[cfg(feature = "paper")]
    pub(crate) observed: bool,
    /// See [`Structure::retire`].
    pub(crate) retired: AtomicBool,
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Makes an empty structure. Its hot tier comes with the first put.
    pub fn create(
        context: &Arc<TierContext>,
        id: StructureId,
        door: &Door<'_>,
        options: TierOptions,
    ) -> Attempt<Arc<Self>> {
        let cold = C::create(&context.store, door, Class::Cold, context.new_order::<C>())?;
        Ok(Tiered::with(context, id, OnceLock::new(), cold, options))
    }

    /// The structure with these roots. Reads nothing.
    pub fn open(
        context: &Arc<TierContext>,
        id: StructureId,
        roots: Roots,
        options: TierOptions,
    ) -> Arc<Self> {
        let hot = OnceLock::new();
        if let Some(root) = roots.hot {
            let opened = H::open(&context.store, root, Class::Hot);
            let _ = hot.set(Self::above(opened));
        }
        let cold = C::open(&context.store, roots.cold, Class::Cold);
        Tiered::with(context, id, hot, cold, options)
    }

    fn with(
        context: &Arc<TierContext>,
        id: StructureId,
        hot: OnceLock<H>,
        cold: C,
        options: TierOptions,
    ) -> Arc<Self> {
        let tiered = Arc::new_cyclic(|me| Tiered {
            me: me.clone(),
            registered: OnceLock::new(),
            one_leaf: AtomicBool::new(false),
            context: context.clone(),
            id,
            cold,
            hot,
            making: Mutex::new(()),
            #[cfg(feature = "paper")]
            observed: options.policy.observes(),
            options,
            events: Sets::new(&context.wide),
            hand: Mutex::default(),
            burying: Mutex::default(),
            walked_put_off: AtomicU32::new(0),
            stale: Default::default(),
            levels: Default::default(),
            in_vain: AtomicU32::new(0),
            watches: Watches::default(),
            retired: AtomicBool::new(false),
        });
        if let Some(share) = tiered.options.policy.hot_share() {
            context.share.fix(&context.store, share);
        }
        if C::BLIND {
            let weak: Weak<Self> = Arc::downgrade(&tiered);
            context.register_merging(weak);
        }
        if tiered.hot.get().is_some() {
            tiered.register();
        }
        tiered
    }

    /// A hot tier above a cold one of this kind.
    fn above(hot: H) -> H {
        match C::INDEXED {
            true => hot.above_an_index(),
            false => hot,
        }
    }

    /// The hot tier, if there is one yet.
    pub fn hot(&self) -> Option<&H> {
        self.hot.get()
    }

    /// The cold tier.
    pub fn cold(&self) -> &C {
        &self.cold
    }

    /// The hot tier, made now if need be.
    pub(crate) fn hot_or_made(&self, door: &Door<'_>) -> Attempt<&H> {
        if let Some(hot) = self.hot.get() {
            return Ok(hot);
        }
        let _making = self.making.lock();
        if let Some(hot) = self.hot.get() {
            return Ok(hot);
        }
        let order = self.cold.try_order()?;
        let hot = Self::above(H::create(&self.context.store, door, Class::Hot, order)?);
        let roots = Roots {
            hot: Some(hot.root()),
            cold: self.cold.root(),
        };
        if let Err(interrupt) = (self.options.on_hot_root)(door, roots) {
            // Hot pages do not leave memory, so this does not fail. If it does nevertheless: a page without
            // owner may not get into a checkpoint.
            return Err(match hot.free_root(door) {
                Ok(()) => interrupt,
                Err(Interrupt::Fail(e)) => self.context.store.poison(&e).into(),
                Err(_) => {
                    let e = Error::invalid("the root of a new hot tier could not be freed again");
                    self.context.store.poison(&e).into()
                }
            });
        }
        let hot = self.hot.get_or_init(|| hot);
        self.register();
        Ok(hot)
    }

    // ---------------------------------------------------------------- reading

    /// One look into both tiers; hot first.
    fn look(&self, key: &[u8], value: &mut Vec<u8>) -> Attempt<Option<Seen>> {
        if planted(Fault::HotAskedLast)
            && let Some(found) = self.cold.try_get(key, Touch::No, value)?
        {
            return Ok(Some((found, false)));
        }
        if let Some(hot) = self.hot.get()
            && let Some(found) = hot.try_get(key, Touch::Raise, value)?
        {
            return Ok(Some((found, true)));
        }
        Ok(self
            .cold
            .try_get(key, Touch::No, value)?
            .map(|found| (found, false)))
    }

    /// The record as of `version` of its lock; the number tells how often a page had to be read.
    fn read(
        &self,
        slot: usize,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(Option<Seen>, Version, u32)>> {
        let mut missed = 0;
        let answer = one_record::read(
            &self.context,
            slot,
            value,
            holds,
            |value| self.look(key, value),
            |interrupt| {
                missed += u32::from(matches!(interrupt, Interrupt::Miss(_)));
                self.context.settle(interrupt)
            },
        )?;
        Ok(answer.map(|(seen, version)| (seen, version, missed)))
    }

    /// A record that the hot tier answers for, and whether it is there. That is right whatever its lock says: the
    /// leaf's latch validated it.
    #[inline(always)]
    fn get_hot(&self, key: &[u8], value: &mut Vec<u8>) -> Option<bool> {
        if let Some(hot) = self.hot.get()
            && !self.context.locks_for_reads()
            && let Ok(Some(found)) = hot.try_get(key, Touch::Raise, value)
            && found.large.is_none()
            && !planted(Fault::HotAskedLast)
        {
            if planted(Fault::HintDirties)
                && let Ok(door) = self.context.store.enter()
            {
                let mut plan = |_: Option<(Flags, Value<'_>)>| {
                    Ok(Plan::Put(Value::Inline(value), found.flags))
                };
                let _ = hot.try_edit(&door, key, &mut plan, &mut NoRoom, &mut || Ok(()));
            }
            self.note_hot_hit(key, found.flags);
            return Some(!found.flags.is_deleted());
        }
        None
    }

    /// A read was answered by a hot record that had these flags.
    #[inline]
    fn note_hot_hit(&self, key: &[u8], flags: Flags) {
        self.observe(key, 0, false);
        self.events.hot_hits.add(1);
        let share = &self.context.index_share;
        if C::INDEXED {
            share.note_hot_hit();
        }
        let idle = self.levels.idle(flags.use_count());
        if idle > 0.0 {
            share.note_idle_hit(idle, self.levels.idle_part());
        }
    }

    // ---------------------------------------------------------------- writing

    /// The hot tier takes the change, dirty; the caller holds the record's lock. `hash` is that of the key.
    fn apply(
        &self,
        door: &Door<'_>,
        (key, hash): (&[u8], u64),
        value: Option<Value<'_>>,
        may_unlink: &dyn Fn() -> bool,
        log: &mut dyn FnMut(),
    ) -> Attempt<Option<LargeRef>> {
        let policy = &self.options.policy;
        let asked = if self.context.is_full() {
            self.context.sketch.count(hash)
        } else {
            0
        };
        let mut plan = |before: Option<(Flags, Value<'_>)>| {
            if let Some((flags, Value::Large(_))) = before
                && flags.is_dirty()
                && !may_unlink()
            {
                return Err(Interrupt::Conflict);
            }
            let uses = match before {
                Some((flags, _)) => (flags.use_count() + 1).min(policy.most_uses()),
                None => policy.newcomer(asked),
            };
            let flags = Flags::DIRTY.with_use_count(uses);
            Ok(match value {
                Some(value) => Plan::Put(value, flags),
                // A tombstone that nobody reads need not stay longer than any other record.
                None => Plan::Put(Value::Inline(b""), flags.with(Flags::DELETED)),
            })
        };
        let mut commit = || {
            log();
            Ok(())
        };
        if planted(Fault::PutReadsCold) {
            self.cold.try_get(key, Touch::No, &mut Vec::new())?;
        }
        let hot = self.hot_or_made(door)?;
        let mut room = LeafRoom::for_write(self);
        let done = hot.try_edit(door, key, &mut plan, &mut room, &mut commit)?;
        if done.before.is_none() {
            self.events.newcomers.add(1);
        }
        if value.is_none() {
            self.events.deletes.add(1);
        }
        // Only a dirty hot record owns its chain; that of a clean one belongs to the cold record.
        Ok(done
            .before
            .filter(|(flags, _)| flags.is_dirty() || planted(Fault::ChainFreedByClean))
            .and_then(|(_, large)| large))
    }
}

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// A page cannot be read that an attempt at a change has missed. Whether the next one does without.
    pub(crate) fn does_without(&self, page: PageId) -> bool {
        self.cold.do_without(page) || self.hot().is_some_and(|hot| hot.do_without(page))
    }

    /// Settles an interrupt of a change for a caller inside the gate, who waits there if he must.
    pub(crate) fn settle_inside(&self, interrupt: Interrupt) -> Result<()> {
        let settle = |interrupt| self.context.store.settle(interrupt);
        TierContext::settle_or(interrupt, settle, |page| self.does_without(page))
    }
}

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

    fn write(
        &self,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        log: &mut dyn FnMut(),
    ) -> Result<bool> {
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
        let done = one_record::write(
            context,
            (slot, &self.watches, key),
            (change, max_inline),
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
                    helped.set(helped.get() + context.leaves_of_help());
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
        if C::BLIND && done {
            self.cold.note_written(change.bytes(key));
        }
        Ok(done)
    }

    fn prefault(&self, key: &[u8]) -> Result<()> {
        crate::single::catch_up_for_many(&self.context, &self.cold, 0)?;
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
        let value = prepare_inside(store, door, change, C::max_inline(store.page_bytes()))?;
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
        crate::single::position_of(&self.context, &self.cold, key)
    }

    /// What goes straight to the cold tier leaves the hot one, if it was there.
    fn dirty_each(&self, straight: bool) -> u64 {
        H::DIRTY_EACH + if straight { C::DIRTY_EACH } else { 1 }
    }

    fn position_prefix(&self) -> usize {
        C::POSITION_PREFIX
    }

    fn estimate(&self) -> Result<Estimate> {
        let mut estimate = crate::estimate::estimate(&self.context, &self.cold, self.hot())?;
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
        crate::verify::verify(self, each, page)
    }

    fn compress(&self, levels: u8) {
        self.cold.compress(levels);
    }

    fn merge_figures(&self) -> Option<MergeFigures> {
        self.cold.merge_figures()
    }

    fn compact_step(&self, from: &[u8], fill: f64) -> Result<Option<Vec<u8>>> {
        crate::single::compact_step(&self.context, &self.cold, from, fill)
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
            && crate::single::clear_step(&self.context, hot)?
        {
            return Ok(true);
        }
        crate::single::clear_step(&self.context, &self.cold)
    }
}
