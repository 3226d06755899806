//! The sweep over a hot tier: a hand that moves in the order of positions, counts uses down, lets idle
//! records go when room is needed, and packs the leaves behind it.
//!
//! In that order, so that the dirty records it writes fall on few neighbouring cold leaves. One step
//! is one leaf; no operation waits for a whole sweep.

use terrace_access::{Door, DroppedBy, Edge, Flags, Sweep, Tier, Waits};
use terrace_base::Result;
use terrace_base::sync::atomic::Ordering;
use terrace_pages::{Interrupt, Space};

use super::Tiered;
use super::hand::{AGE_LEAVES, Hand, Task};
use super::migrate::Entry;
use super::phase::Seen;
use crate::fault::{Fault, planted};
use crate::hot_tiers::HotTier;
use crate::locks::{RecordLock, hash_of};

/// Writes of new keys that age as much as one miss does: a load would make everything forgotten.
const NEWCOMERS_PER_MISS: u64 = 4;
/// Pages that may have to be read before others can be freed, for one leaf.
const GATHER_READS: usize = 8;
/// Random positions of which the nearest one behind a leaf that cannot be read is taken: with so many about
/// a ninth of the leaves is passed over with it.
const POSITIONS_TRIED: usize = 8;
/// Fill of cold leaves that is assumed when the number of records is estimated: they are full where the
/// sweep has filled them, and less so where records came in random order.
const COLD_FILL: f64 = 0.8;

/// A leaf gives its idle records up, dirty ones too, when the ageing comes by and they are this share of
/// all of them. Leaf-local replacement keeps room where it once was; this moves it to where it is
/// wanted, because leaves in which nothing is idle split into the pages that it frees. Simulated: 0.3 and
/// 0.5 are no better at any size of memory.
const IDLE_SHARE: f64 = 0.4;

/// Accesses per record, since the structure was opened, after which it is known what is used. Use
/// counts come back from disk as they were when their page was last written, which may have been
/// before most of its records were used.
const KNOWN_ACCESSES: f64 = 1.0;

impl<H: Sweep + Tier, C: Tier<Order = H::Order>> Tiered<H, C> {
    /// Sweeps the leaf at the hand, letting unused records go. Returns how many went, `None` when there
    /// is no hot tier. Blocking; the caller holds nothing.
    pub(crate) fn sweep_step(&self, space: Space) -> Result<Option<u64>> {
        self.evict(Entry::Wait(space))
    }

    /// Makes room at the hand, in the order that is wanted.
    fn evict(&self, entry: Entry<'_>) -> Result<Option<u64>> {
        if self.context.sweeps_stored() {
            let gone = self.evict_stored(entry)?;
            if gone > 0 {
                return Ok(Some(gone));
            }
        }
        match self.options.policy.flushes() {
            Some(most) => self.flush_leaf(entry, most),
            None => self.sweep_leaf(entry, Task::Evict),
        }
    }

    /// One step of what the background demotion does, for those who do without its thread: sweeps
    /// the leaf at the hand, letting unused records go. Returns false when there is no hot tier.
    /// Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sweep_once(&self) -> Result<bool> {
        let space = Space::Reserve;
        HotTier::catch_up(self, space, &mut Waits::in_background())?;
        Ok(self.sweep_step(space)?.is_some())
    }

    /// The same for a batch that found the tier full while it was inside the gate.
    pub(crate) fn evict_inside(&self, door: &Door<'_>) -> Result<()> {
        if !self.context.store.has_slack() {
            // What a batch was promised is for its own changes.
            return Ok(());
        }
        self.evict(Entry::Inside(door)).map(|_| ())
    }

    /// Looking and ageing that have become due by the accesses and misses since the last call.
    pub(crate) fn age_due(&self) -> Result<()> {
        let policy = &self.options.policy;
        if self.hot().is_none() || policy.accesses_per_look().is_infinite() {
            return Ok(());
        }
        let store = &self.context.store;
        let e = &self.events;
        let cold_hits = e.sum(|e| &e.cold_hits);
        let reads = e.sum(|e| &e.hot_hits) + cold_hits + e.sum(|e| &e.misses);
        let accesses = reads + e.sum(|e| &e.writes);
        let seen = Seen {
            reads: e.sum(|e| &e.hot_hits) + cold_hits,
            misses: cold_hits,
            wanted: e.sum(|e| &e.wanted),
        };
        // Lookups that find nothing are none: no hot record would have spared them.
        let misses = cold_hits + e.sum(|e| &e.newcomers) / NEWCOMERS_PER_MISS;
        let hot_pages = store.hot_frames().max(1) as f64;
        let cold_pages = store.live_pages().saturating_sub(store.hot_frames()).max(1) as f64;
        let (looks, ages, known, halves) = {
            let hand = &mut *self.hand.lock();
            let per_leaf = if hand.records > 0.0 {
                hand.records
            } else {
                64.0
            };
            // In a heap a leaf is one of the index, and many pages are none. As many records are taken to
            // lie on a page below as above.
            let hot_leaves = if hand.leaves > 0 {
                hand.leaves as f64
            } else {
                hot_pages
            };
            let records = hot_leaves * per_leaf * cold_pages / hot_pages * COLD_FILL;
            let interval = |per_record: f64| (per_record * records / hot_leaves).max(1.0);
            let per_look = interval(policy.accesses_per_look());
            let per_age = interval(policy.misses_per_ageing());
            if !self.context.is_full() {
                Hand::pass_over(accesses, &mut hand.looked, per_look);
                Hand::pass_over(misses, &mut hand.aged, per_age);
                hand.phase.pass_over(seen);
                return Ok(());
            }
            let looks = Hand::due(accesses, &mut hand.looked, per_look);
            let rounds = hand.phase.rounds_due(seen, records);
            hand.forgetting = hand
                .forgetting
                .saturating_add((rounds as f64 * hot_leaves) as u32);
            let due = Hand::due(misses, &mut hand.aged, per_age);
            let ages = (due + u64::from(hand.forgetting)).min(AGE_LEAVES);
            hand.forgetting -= (ages - due) as u32;
            // The counters outside, of all structures, fade as fast as those inside.
            let all_leaves =
                (self.context.hot_leaves.load(Ordering::Relaxed) as f64).max(hot_leaves);
            hand.halves += ages as f64 * self.context.sketch.lines() as f64 / all_leaves;
            let halves = hand.halves as usize;
            hand.halves = hand.halves.fract();
            let known = accesses as f64 >= records * KNOWN_ACCESSES;
            (looks, ages, known, halves)
        };
        // Frames make room for what it grows by, and it never shrinks while the database is open.
        let grown = self.context.sketch.halve(halves);
        if grown > 0 {
            store.take_extra_bytes(grown as u64);
        }
        for i in 0..looks.max(ages) {
            let age = i < ages;
            self.sweep_leaf(Entry::Try, Task::Look { known, age })?;
        }
        Ok(())
    }

    fn is_retired(&self) -> bool {
        self.retired.load(Ordering::SeqCst)
    }

    /// The leaves of this structure, which is no more, count no longer.
    pub(crate) fn forget_leaves(&self) {
        let leaves = std::mem::take(&mut self.hand.lock().leaves);
        self.context.hot_leaves.fetch_sub(leaves, Ordering::Relaxed);
    }

    /// Draws whether a record with this use count is idle: of those at the bound, a part is.
    pub(crate) fn is_idle_now(&self, uses: u8) -> bool {
        let idle = self.levels.idle(uses);
        idle >= 1.0 || (idle > 0.0 && f64::from(crate::random::next()) < idle * 4294967296.0)
    }

    /// Frees pages by filling the holes that records have left in others.
    pub(crate) fn room_for_pages(&self, hot: &H, entry: Entry<'_>) -> Result<()> {
        for _ in 0..GATHER_READS {
            match self.inside(entry, |door| hot.try_gather(door))? {
                Some(Err(Interrupt::Fail(e))) => return Err(e),
                // Hot pages are not in memory after opening with less of it, say.
                Some(Err(miss @ Interrupt::Miss(_))) if !matches!(entry, Entry::Inside(_)) => {
                    self.context.store.settle(miss)?;
                }
                _ => break,
            }
        }
        Ok(())
    }

    /// A position behind the leaf at this one, which cannot be read; `None` where none was found. What
    /// lies between is passed over this time: where the leaf ends only its own page says.
    pub(crate) fn behind(&self, hot: &H, at: &[u8]) -> Option<Vec<u8>> {
        let mut nearest: Option<Vec<u8>> = None;
        for _ in 0..POSITIONS_TRIED {
            let position = match hot.try_random(&mut crate::random::next) {
                Ok((_, position)) => position,
                Err(interrupt) => {
                    // If it is that leaf again, the next one is another.
                    let _ = self.context.store.settle(interrupt);
                    continue;
                }
            };
            if position.as_slice() > at && nearest.as_ref().is_none_or(|n| position < *n) {
                nearest = Some(position);
            }
        }
        nearest
    }

    /// Returns how many records went, `None` when there is no hot tier.
    fn sweep_leaf(&self, entry: Entry<'_>, task: Task) -> Result<Option<u64>> {
        let Some(hot) = self.hot() else {
            return Ok(None);
        };
        let locks = &self.context.locks;
        let policy = &self.options.policy;
        self.context.with_windows(|unused, span| {
            unused.set_keys_only(true);
            // The leaf is this call's alone: the hand moves on at once.
            let position = loop {
                let mut hand = self.hand.lock();
                let mut select =
                    |flags: Flags| flags.is_dirty() && self.levels.is_idle(flags.use_count());
                let place = hand.place(task);
                let at = place.clone();
                match hot.try_window_if(Edge::From(&at), &mut select, unused) {
                    Ok(()) => {
                        place.clear();
                        place.extend_from_slice(unused.high.as_deref().unwrap_or_default());
                        let ended = place.is_empty();
                        if task == Task::Evict {
                            let one_leaf = ended && at.is_empty();
                            if self.one_leaf.load(Ordering::Relaxed) != one_leaf {
                                self.one_leaf.store(one_leaf, Ordering::Relaxed);
                            }
                        }
                        if task != Task::Evict {
                            hand.since_first += 1;
                            // One that is no more counts no longer, whoever is still at work here.
                            if ended && !self.is_retired() {
                                let counted = std::mem::take(&mut hand.since_first);
                                let all = &self.context.hot_leaves;
                                all.fetch_add(counted.wrapping_sub(hand.leaves), Ordering::Relaxed);
                                hand.leaves = counted;
                            }
                        }
                        break at;
                    }
                    Err(interrupt) => {
                        drop(hand);
                        let Err(e) = self.context.store.settle(interrupt) else {
                            continue;
                        };
                        // The hand goes past a leaf that cannot be read, or it would stand there for good.
                        if e.is_unreadable() {
                            let behind = self.behind(hot, &at).unwrap_or_default();
                            let mut hand = self.hand.lock();
                            let place = hand.place(task);
                            if *place == at {
                                *place = behind;
                            }
                        }
                        return Err(e);
                    }
                }
            };
            let (mut key, mut value, mut expired) = (Vec::new(), Vec::new(), 0);
            let (mut dropped, mut records, mut fill, mut stale) = (0, 0, 0.0, 0);
            let mut missing = None;
            let mut evict = task == Task::Evict;
            let age = evict || matches!(task, Task::Look { age: true, .. });
            let mut spread = [0; Flags::MAX_USE as usize + 1];
            let visited = self.inside(entry, |door| {
                hot.try_visit(door, &position, &mut |page| {
                    fill = page.fill();
                    records = page.count();
                    spread.fill(0);
                    let mut idle = 0.0;
                    for i in 0..records {
                        let flags = page.flags(i)?;
                        let uses = flags.use_count().min(policy.most_uses());
                        spread[usize::from(uses)] += 1;
                        idle += self.levels.idle(uses);
                    }
                    if matches!(task, Task::Look { known: true, .. }) {
                        evict = idle > 0.0
                            && idle >= IDLE_SHARE * records as f64
                            && self.context.is_full();
                    }
                    let mut i = 0;
                    while i < page.count() {
                        let flags = page.flags(i)?;
                        let uses = flags.use_count().min(policy.most_uses());
                        stale += u64::from(flags.is_dirty() && self.levels.is_idle(uses));
                        // When room is needed, a part of those at the bound would be some of the best
                        // where nearly all have the highest count; they have time to come down.
                        // Before all use counts, or the dead would hold the memory.
                        let is_expired = self.is_expired_on(page, i, &mut value)?;
                        let idle = match task {
                            _ if is_expired => true,
                            Task::Evict => self.levels.idle(uses) >= 1.0,
                            Task::Look { .. } => evict && self.is_idle_now(uses),
                        };
                        if idle && (!flags.is_dirty() || planted(Fault::SweepDropsDirty)) {
                            page.key(i, &mut key)?;
                            // The cold tier has it; under its lock it can just go.
                            let hash = hash_of(self.id, &key);
                            let lock = locks.try_lock(locks.slot_of(hash));
                            if lock.is_some() || planted(Fault::SweepWithoutLock) {
                                match page.erase(i) {
                                    Ok(_) => {
                                        lock.map(RecordLock::release_moved);
                                        if is_expired {
                                            expired += 1;
                                        } else {
                                            self.context.sketch.keep(hash, uses);
                                        }
                                        dropped += 1;
                                        continue;
                                    }
                                    // Its row is on a page that is not in memory, or in use. The
                                    // others of the leaf need not wait for it.
                                    Err(Interrupt::Miss(pid)) => missing = Some(pid),
                                    Err(Interrupt::Conflict) => {}
                                    Err(other) => return Err(other),
                                }
                            }
                        }
                        if is_expired && uses > 0 {
                            // A dirty one: it goes down with the next look.
                            page.set_flags(i, flags.with_use_count(0))?;
                        } else if age && uses > 0 {
                            page.set_flags(i, flags.with_use_count(uses - 1))?;
                        }
                        i += 1;
                    }
                    Ok(())
                })
            })?;
            match visited {
                Some(Ok(())) => {}
                Some(Err(Interrupt::Fail(e))) => return Err(e),
                // Somebody is working on the leaf, or the gate is closed: the next round finds it.
                Some(Err(_)) | None => return Ok(Some(0)),
            }
            if let Some(pid) = missing
                && !matches!(entry, Entry::Inside(_))
            {
                self.context.store.settle(Interrupt::Miss(pid))?;
            }
            self.events.demotions.add(dropped);
            self.expires.note_dropped(DroppedBy::Demotion, expired);
            self.stale.note(stale);
            self.levels.note(&spread, policy.idle_share());
            if task != Task::Evict {
                self.events.swept.add(1);
                self.events.fill.add((fill * 1000.0) as u64);
            }
            {
                let mut hand = self.hand.lock();
                if task != Task::Evict {
                    let leaves = hand.leaves.max(hand.since_first);
                    self.context.index_share.note_look(leaves);
                }
                hand.records = if hand.records > 0.0 {
                    hand.records * 0.95 + records as f64 * 0.05
                } else {
                    records as f64
                };
            }
            let mut gone = dropped;
            let inside = matches!(entry, Entry::Inside(_));
            let lacks_slack = || inside && !self.context.store.has_slack();
            // Where that reads no page, idle records become clean at each look, so that others may displace them.
            if evict || (C::BLIND && task != Task::Evict) {
                let mut next = 0;
                // While new keys come faster than cold ones are read, it is a load that goes on.
                let (new, cold) = (
                    self.events.sum(|e| &e.newcomers),
                    self.events.sum(|e| &e.cold_hits),
                );
                let how = (evict, task == Task::Evict || new > cold);
                while next < unused.len() {
                    if lacks_slack() {
                        break;
                    }
                    self.cold_span(unused.key(next), span)?;
                    // What is below this leaf was written when the hand came by there.
                    let low = span.low.as_slice().max(&unused.low);
                    gone += self.write_back(low, span.high.as_deref(), how, entry)? as u64;
                    next = match &span.high {
                        Some(high) => unused.lower_bound(high).max(next + 1),
                        None => unused.len(),
                    };
                }
            }
            if lacks_slack() {
                return Ok(Some(gone));
            }
            if task == Task::Evict && H::SHARES_ROOM {
                self.room_for_pages(hot, entry)?;
            } else if task != Task::Evict && C::INDEXED {
                // The leaves that lead to cold records are in memory, as many as there is room for.
                self.close_up(&unused.low, unused.high.as_deref(), entry)?;
            }
            self.pack_leaf(hot, &position, entry)?;
            Ok(Some(gone))
        })
    }

    /// Packs a hot leaf into the one before it, if it can be had and the policy packs.
    pub(crate) fn pack_leaf(&self, hot: &H, position: &[u8], entry: Entry<'_>) -> Result<()> {
        let fill = self.options.policy.pack_fill();
        if fill > 0.0
            && let Some(Ok(true)) = self.inside(entry, |door| hot.try_pack(door, position, fill))?
        {
            self.events.packed.add(1);
        }
        Ok(())
    }
}
