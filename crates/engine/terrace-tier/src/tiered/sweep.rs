//! The sweep over a hot tier: a hand that moves in the order of positions, counts uses down, lets idle
//! records go when room is needed, and packs the leaves behind it.
//!
//! In that order, so that the dirty records it writes fall on few neighbouring cold leaves. One step
//! is one leaf; no operation waits for a whole sweep. A step: the leaf is taken from the hand; it is visited under
//! its latch, where clean records that are idle go and uses are counted down; what was found is noted; dirty ones
//! that are idle are written down; and the leaf is closed up with its neighbours.

use terrace_access::{
    AccessMethod, Attempt, DroppedBy, Flags, RecordPage, Sweep, Window, WriteGuard,
};
use terrace_base::{PageId, Result};
use terrace_pages::Retry;

use super::entry::Entry;
use super::faults;
use super::hand::{Rounds, Task};
use super::leaves::{gather, pack};
use super::levels::COUNTS;
use super::migrate::{Down, Drops, Selected};
use super::tiers::{Pair, Tiers};
use crate::fault::Fault;
use crate::locks::RecordLock;

/// A leaf gives its idle records up, dirty ones too, when the ageing comes by and they are this share of
/// all of them. Leaf-local replacement keeps room where it once was; this moves it to where it is
/// wanted, because leaves in which nothing is idle split into the pages that it frees. Simulated: 0.3 and
/// 0.5 are no better at any size of memory.
const IDLE_SHARE: f64 = 0.4;

impl Rounds {
    /// Sweeps the leaf at the hand, or a page of storage, letting unused records go. Returns how many went, `None`
    /// when there is no hot tier. Blocking.
    pub fn evict<P: Pair>(&self, tiers: &Tiers<P>, entry: Entry<'_>) -> Result<Option<u64>> {
        if tiers.context().sweeps_stored() {
            let gone = self.evict_stored(tiers, entry)?;
            if gone > 0 {
                return Ok(Some(gone));
            }
        }
        match tiers.policy().flushes() {
            Some(most) => self.flush_leaf(tiers, entry, most),
            None => self.sweep_leaf(tiers, entry, Task::Evict),
        }
    }

    /// The same for a batch that found the tier full while it was inside the gate.
    pub fn evict_inside<P: Pair>(&self, tiers: &Tiers<P>, door: &WriteGuard<'_>) -> Result<()> {
        if !tiers.store().has_slack() {
            // What a batch was promised is for its own changes.
            return Ok(());
        }
        self.evict(tiers, Entry::Inside(door)).map(|_| ())
    }

    /// Looking and ageing that have become due by the accesses and misses since the last call.
    pub fn age_due<P: Pair>(&self, tiers: &Tiers<P>) -> Result<()> {
        if tiers.hot().is_none() || tiers.policy().accesses_per_look().is_infinite() {
            return Ok(());
        }
        let Some(due) = self.due(tiers) else {
            return Ok(());
        };
        // Frames make room for what it grows by, and it never shrinks while the database is open.
        let grown = tiers.context().sketch.halve(due.halves);
        if grown > 0 {
            tiers.store().take_extra_bytes(grown as u64);
        }
        for i in 0..due.looks.max(due.ages) {
            let (known, age) = (due.known, i < due.ages);
            self.sweep_leaf(tiers, Entry::Try, Task::Look { known, age })?;
        }
        Ok(())
    }

    /// Returns how many records went, `None` when there is no hot tier.
    fn sweep_leaf<P: Pair>(
        &self,
        tiers: &Tiers<P>,
        entry: Entry<'_>,
        task: Task,
    ) -> Result<Option<u64>> {
        let Some(hot) = tiers.hot() else {
            return Ok(None);
        };
        tiers.context().with_windows(|unused, span| {
            unused.set_keys_only(true);
            let levels = tiers.levels();
            let mut select = |flags: Flags| flags.is_dirty() && levels.is_idle(flags.use_count());
            let position = self.take_leaf(tiers, hot, task, &mut select, unused)?;
            let mut visit = Visit::of(tiers, task);
            let visited = entry.attempt(tiers.store(), |door| {
                hot.try_visit(door, &position, &mut |page| visit.sweep(page))
            })?;
            if visited.is_none() {
                // The next round finds it.
                return Ok(Some(0));
            }
            if let Some(pid) = visit.found.missing
                && !entry.is_inside()
            {
                tiers.store().settle(Retry::Miss(pid))?;
            }
            visit.note();
            self.note_visit(task, visit.found.records, tiers.context());
            let mut gone = visit.found.dropped;
            // Where that reads no page, idle records become clean at each look, so that others may displace them.
            if visit.evicts || (P::Cold::CAPABILITIES.blind && task != Task::Evict) {
                gone += write_idle(tiers, entry, visit.down(), unused, span)?;
            }
            if !lacks_slack(tiers, entry) {
                close_up_behind(tiers, hot, (task, entry), &position, unused)?;
            }
            Ok(Some(gone))
        })
    }
}

/// Whether what is left of the free space is for the changes of a batch that is inside the gate.
fn lacks_slack<P: Pair>(tiers: &Tiers<P>, entry: Entry<'_>) -> bool {
    entry.is_inside() && !tiers.store().has_slack()
}

/// What a step finds on a leaf, and does to it.
struct Visit<'t, P: Pair> {
    tiers: &'t Tiers<P>,
    task: Task,
    /// Whether idle records go.
    evicts: bool,
    found: Found,
    key: Vec<u8>,
    value: Vec<u8>,
}

#[derive(Default)]
struct Found {
    records: usize,
    fill: f64,
    /// Records by use count.
    spread: [u32; COUNTS],
    /// Records that are dirty and idle.
    stale: u64,
    /// Records that went; those of them that had expired.
    dropped: u64,
    expired: u64,
    /// A page that one would have to be read for to go.
    missing: Option<PageId>,
}

impl<'t, P: Pair> Visit<'t, P> {
    fn of(tiers: &'t Tiers<P>, task: Task) -> Self {
        Visit {
            tiers,
            task,
            evicts: task == Task::Evict,
            found: Found::default(),
            key: Vec::new(),
            value: Vec::new(),
        }
    }

    /// Goes through the leaf, which is latched.
    fn sweep(&mut self, page: &mut dyn RecordPage) -> Attempt<()> {
        let idle = self.survey(page)?;
        if matches!(self.task, Task::Look { known: true, .. }) {
            self.evicts = idle > 0.0
                && idle >= IDLE_SHARE * self.found.records as f64
                && self.tiers.context().is_full();
        }
        let mut i = 0;
        while i < page.count() {
            if !self.drop_idle(page, i)? {
                i += 1;
            }
        }
        Ok(())
    }

    /// Counts the records; about how many of them are idle.
    fn survey(&mut self, page: &dyn RecordPage) -> Attempt<f64> {
        self.found.fill = page.fill();
        self.found.records = page.count();
        self.found.spread.fill(0);
        let mut idle = 0.0;
        for i in 0..self.found.records {
            let uses = self.uses(page.flags(i)?);
            self.found.spread[usize::from(uses)] += 1;
            idle += self.tiers.levels().idle(uses);
        }
        Ok(idle)
    }

    fn uses(&self, flags: Flags) -> u8 {
        flags.use_count().min(self.tiers.policy().most_uses())
    }

    /// Drops record `i` if it is idle, or counts its uses down. Returns whether it went.
    fn drop_idle(&mut self, page: &mut dyn RecordPage, i: usize) -> Attempt<bool> {
        let levels = self.tiers.levels();
        let flags = page.flags(i)?;
        let uses = self.uses(flags);
        self.found.stale += u64::from(flags.is_dirty() && levels.is_idle(uses));
        // Before all use counts, or the dead would hold the memory.
        let expires = self.tiers.expires();
        let is_expired = expires.is_over_on(page, i, &mut self.value)?;
        let goes = match self.task {
            _ if is_expired => true,
            // When room is needed, a part of those at the bound would be some of the best
            // where nearly all have the highest count; they have time to come down.
            Task::Evict => levels.idle(uses) >= 1.0,
            Task::Look { .. } => self.evicts && levels.draw_idle(uses),
        };
        if goes
            && faults::may_go(flags, Fault::SweepDropsDirty)
            && self.drop_clean(page, i, uses, is_expired)?
        {
            return Ok(true);
        }
        let ages = !matches!(self.task, Task::Look { age: false, .. });
        if is_expired && uses > 0 {
            // A dirty one: it goes down with the next look.
            page.set_flags(i, flags.with_use_count(0))?;
        } else if ages && uses > 0 {
            page.set_flags(i, flags.with_use_count(uses - 1))?;
        }
        Ok(false)
    }

    /// Drops record `i`, which the cold tier has: under its lock it can just go. Returns whether it did.
    fn drop_clean(
        &mut self,
        page: &mut dyn RecordPage,
        i: usize,
        uses: u8,
        is_expired: bool,
    ) -> Attempt<bool> {
        page.key(i, &mut self.key)?;
        let hash = self.tiers.hash(&self.key);
        let Some(lock) = faults::lock_unless(Fault::SweepWithoutLock, self.tiers.try_lock(hash))
        else {
            return Ok(false);
        };
        match page.erase(i) {
            Ok(_) => {}
            // Its row is on a page that is not in memory, or in use. The
            // others of the leaf need not wait for it.
            Err(Retry::Miss(pid)) => {
                self.found.missing = Some(pid);
                return Ok(false);
            }
            Err(Retry::Conflict) => return Ok(false),
            Err(other) => return Err(other),
        }
        lock.map(RecordLock::release_moved);
        match is_expired {
            true => self.found.expired += 1,
            false => self.tiers.context().sketch.keep(hash, uses),
        }
        self.found.dropped += 1;
        Ok(true)
    }

    /// Has others know what was found and done.
    fn note(&self) {
        let (tiers, events) = (self.tiers, self.tiers.events());
        events.demotions.add(self.found.dropped);
        tiers
            .expires()
            .note_dropped(DroppedBy::Demotion, self.found.expired);
        tiers.levels().note_stale(self.found.stale);
        tiers
            .levels()
            .note(&self.found.spread, tiers.policy().idle_share());
        if self.task != Task::Evict {
            events.swept.add(1);
            events.fill.add((self.found.fill * 1000.0) as u64);
        }
    }

    /// How dirty records that are idle are written.
    fn down(&self) -> Down {
        // While new keys come faster than cold ones are read, it is a load that goes on.
        let events = self.tiers.events();
        let loads = || events.sum(|e| &e.newcomers) > events.sum(|e| &e.cold_hits);
        Down {
            selected: Selected::Dirty,
            drops: match self.evicts {
                true => Drops::Unused,
                false => Drops::Tombstones,
            },
            rises: self.task == Task::Evict || loads(),
        }
    }
}

/// Writes what was dirty and idle on a leaf, cold leaf by cold leaf. Returns how many records.
fn write_idle<P: Pair>(
    tiers: &Tiers<P>,
    entry: Entry<'_>,
    down: Down,
    idle: &Window,
    span: &mut Window,
) -> Result<u64> {
    let (mut next, mut written) = (0, 0);
    while next < idle.len() && !lacks_slack(tiers, entry) {
        tiers.cold_span(idle.key(next), span)?;
        // What is below this leaf was written when the hand came by there.
        let low = span.low.as_slice().max(&idle.low);
        written += tiers.write_back(low, span.high.as_deref(), down, entry)? as u64;
        next = match &span.high {
            Some(high) => idle.lower_bound(high).max(next + 1),
            None => idle.len(),
        };
    }
    Ok(written)
}

/// Frees the room that what went has left, around this leaf and below it.
fn close_up_behind<P: Pair>(
    tiers: &Tiers<P>,
    hot: &P::Hot,
    (task, entry): (Task, Entry<'_>),
    position: &[u8],
    leaf: &Window,
) -> Result<()> {
    match task {
        Task::Evict if P::Hot::CAPABILITIES.shares_room => gather(tiers, hot, entry)?,
        // The leaves that lead to cold records are in memory, as many as there is room for.
        Task::Look { .. } if P::Cold::CAPABILITIES.indexed => {
            tiers.close_up(&leaf.low, leaf.high.as_deref(), entry)?;
        }
        _ => {}
    }
    pack(tiers, hot, position, entry)
}
