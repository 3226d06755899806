//! The sweep over a hot tier: a hand that moves in the order of positions, counts uses down, lets unused records
//! go when room is needed, and packs the leaves behind it.
//!
//! In that order, so that the dirty records it writes fall on few neighbouring cold leaves. One step
//! is one leaf; no operation waits for a whole sweep.

use terrace_access::{Door, Edge, Flags, Ordered, Sweep};
use terrace_base::Result;
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_pages::{Interrupt, Space};

use crate::context::Rooted;
use crate::fault::{Fault, planted};
use crate::migrate::Entry;
use crate::tiered::Tiered;

/// Leaves that one call of the ageing looks at, at most: a millisecond or so.
const AGE_LEAVES: u64 = 256;
/// Fill of cold leaves that is assumed when the number of records is estimated: that of leaves which
/// were filled in random order.
const COLD_FILL: f64 = 0.7;

/// A leaf gives its unused records up when the ageing comes by and this share of all of them (one in
/// so many) is unused. Leaf-local replacement keeps room where it once was; this moves it to where it
/// is wanted, because full leaves that are busy split into the pages that it frees.
const IDLE_SHARE: usize = 2;

/// Accesses per record, since the structure was opened, after which it is known what is used. Use
/// counts are lost at closing: a hot tier that was warm then would be thrown out before that.
/// Simulated, 18 % more page reads in the time after opening without this; with three times as many
/// none, but a hot tier full of what was just loaded takes longer to become a good one.
const KNOWN_ACCESSES: f64 = 1.0;

/// What a step of the sweep is for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Task {
    /// Count uses down and let the unused records go: room is needed.
    Evict,
    /// Count uses down; and, if it is known by now what is used, let the unused clean records go if
    /// they are many.
    Age { known: bool },
}

/// Where the sweep of a hot tier stands. A hint: lost at a crash without harm.
#[derive(Default)]
pub(crate) struct Hand {
    position: Vec<u8>,
    /// Reads up to which ageing has been done.
    aged_reads: AtomicU64,
    /// Records per hot leaf, averaged over the leaves looked at.
    records: f64,
}

/// About how many records per hot leaf are dirty and unused: leaf-local replacement passes by them,
/// so that something else must get them clean. A running mean over the leaves that the hand sees,
/// in 64ths, and one more so that 0 means that it has not seen any.
#[derive(Default)]
pub(crate) struct Stale(AtomicU64);

impl Stale {
    /// Leaves over which the mean runs.
    const LEAVES: u64 = 64;

    fn note(&self, records: u64) {
        // Counts of threads that come at the same instant may get lost.
        let sum = match self.0.load(Ordering::Relaxed) {
            0 => records * Self::LEAVES,
            n => (n - 1) - (n - 1).div_ceil(Self::LEAVES) + records,
        };
        self.0.store(sum + 1, Ordering::Relaxed);
    }

    /// Whether it is worth while to look for them.
    pub fn is_likely(&self) -> bool {
        let n = self.0.load(Ordering::Relaxed);
        n == 0 || n > Self::LEAVES / 2
    }
}

impl<H, C> Tiered<H, C>
where
    H: Sweep + Rooted + 'static,
    C: Ordered + Rooted<Order = H::Order> + 'static,
{
    /// Sweeps the leaf at the hand, letting unused records go. Returns false when there is no hot
    /// tier. Blocking; the caller holds nothing.
    pub(crate) fn sweep_step(&self, space: Space) -> Result<bool> {
        self.sweep_leaf(Entry::Wait(space), Task::Evict)
    }

    /// One step of what the background demotion does, for those who do without its thread: sweeps
    /// the leaf at the hand, letting unused records go. Returns false when there is no hot tier.
    /// Blocking; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn sweep_once(&self) -> Result<bool> {
        self.sweep_step(Space::Reserve)
    }

    /// The same for a batch that found the tier full while it was inside the gate.
    pub(crate) fn evict_inside(&self, door: &Door<'_>) -> Result<()> {
        self.sweep_leaf(Entry::Inside(door), Task::Evict)
            .map(|_| ())
    }

    /// Ageing that has become due by the reads since the last call, without letting records go.
    pub(crate) fn age_due(&self) -> Result<()> {
        let per_record = self.options.policy.ageing_reads_per_record();
        if self.hot().is_none() || !self.context.is_full() || per_record.is_infinite() {
            return Ok(());
        }
        let store = &self.context.store;
        let e = &self.events;
        let reads = e.hot_hits.get() + e.cold_hits.get() + e.misses.get() + e.writes.get();
        let hot_leaves = store.hot_frames().max(1) as f64;
        let cold_leaves = store.live_pages().saturating_sub(store.hot_frames()).max(1) as f64;
        let (due, known) = {
            let hand = self.hand.lock();
            let per_leaf = if hand.records > 0.0 {
                hand.records
            } else {
                64.0
            };
            let records = cold_leaves * per_leaf * COLD_FILL;
            let interval = (per_record * records / hot_leaves).max(1.0);
            let since = reads.saturating_sub(hand.aged_reads.load(Ordering::Relaxed));
            let due = (since as f64 / interval) as u64;
            // What is not done now is not made up for later: ageing late is ageing little.
            let done = if due > AGE_LEAVES {
                since
            } else {
                (due as f64 * interval) as u64
            };
            hand.aged_reads.fetch_add(done, Ordering::Relaxed);
            (
                due.min(AGE_LEAVES),
                reads as f64 >= records * KNOWN_ACCESSES,
            )
        };
        for _ in 0..due {
            self.sweep_leaf(Entry::Try, Task::Age { known })?;
        }
        Ok(())
    }

    fn sweep_leaf(&self, entry: Entry<'_>, task: Task) -> Result<bool> {
        let Some(hot) = self.hot() else {
            return Ok(false);
        };
        let locks = &self.context.locks;
        let policy = &self.options.policy;
        self.context.with_windows(|unused, span| {
            unused.set_keys_only(true);
            // The leaf is this call's alone: the hand moves on at once.
            let position = loop {
                let mut hand = self.hand.lock();
                let mut select = |flags: Flags| flags.is_dirty() && flags.use_count() == 0;
                let at = hand.position.clone();
                match hot.try_window_if(Edge::From(&at), &mut select, unused) {
                    Ok(()) => {
                        hand.position.clear();
                        let next = unused.high.as_deref().unwrap_or_default();
                        hand.position.extend(next);
                        break at;
                    }
                    Err(interrupt) => {
                        drop(hand);
                        self.context.store.settle(interrupt)?;
                    }
                }
            };
            let mut key = Vec::new();
            let (mut dropped, mut records, mut fill, mut stale) = (0, 0, 0.0, 0);
            let mut evict = task == Task::Evict;
            let visited = self.inside(entry, |door| {
                hot.try_visit(door, &position, &mut |page| {
                    fill = page.fill();
                    records = page.count();
                    if task == (Task::Age { known: true }) {
                        let mut idle = 0;
                        for i in 0..records {
                            let flags = page.flags(i)?;
                            idle += usize::from(!flags.is_dirty() && flags.use_count() == 0);
                        }
                        evict = records > 0 && idle * IDLE_SHARE >= records;
                    }
                    let mut i = 0;
                    while i < page.count() {
                        let flags = page.flags(i)?;
                        stale += u64::from(flags.is_dirty() && flags.use_count() == 0);
                        if flags.use_count() > 0 {
                            page.set_flags(i, flags.with_use_count(flags.use_count() - 1))?;
                        } else if evict && (!flags.is_dirty() || planted(Fault::SweepDropsDirty)) {
                            page.key(i, &mut key)?;
                            // The cold tier has it; under its lock it can just go.
                            let lock = locks.try_lock(locks.slot(self.id, &key));
                            if lock.is_some() || planted(Fault::SweepWithoutLock) {
                                page.erase(i)?;
                                dropped += 1;
                                continue;
                            }
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
                Some(Err(_)) | None => return Ok(true),
            }
            self.events.demotions.add(dropped);
            self.stale.note(stale);
            if task != Task::Evict {
                self.events.swept.add(1);
                self.events.fill.add((fill * 1000.0) as u64);
            }
            {
                let mut hand = self.hand.lock();
                hand.records = if hand.records > 0.0 {
                    hand.records * 0.95 + records as f64 * 0.05
                } else {
                    records as f64
                };
            }
            if task == Task::Evict {
                let mut next = 0;
                while next < unused.len() {
                    self.cold_span(unused.key(next), span)?;
                    // What is below this leaf was written when the hand came by there.
                    let low = span.low.as_slice().max(&unused.low);
                    self.write_back(low, span.high.as_deref(), true, entry)?;
                    next = match &span.high {
                        Some(high) => unused.lower_bound(high).max(next + 1),
                        None => unused.len(),
                    };
                }
            }
            if policy.pack_fill() > 0.0 {
                let packed = self.inside(entry, |door| {
                    hot.try_pack(door, &position, policy.pack_fill())
                })?;
                if let Some(Ok(true)) = packed {
                    self.events.packed.add(1);
                }
            }
            Ok(true)
        })
    }
}
