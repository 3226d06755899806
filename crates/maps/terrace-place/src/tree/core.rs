//! What map, ranges and engine share: the directory of parts, the nodes, and what is counted.
//!
//! Kept true: the directory is locked before a part; a part that has left the directory has no
//! root.

use super::common::LEAF_CLASS;
use super::kind::{Inserted, Kind, Nodes, Rooted, Sought};
use super::seat::{Held, Shown};
use crate::budget::Limit;
use crate::engine::{Engine, Stepped, Steps, World};
use crate::error::PlacementError;
use crate::heat::{Heat, Noting, Ticker};
use crate::id::{CLASSES, Tier};
use crate::model::Model;
use crate::placed::{Parts, Placed};
use crate::stats::{Counters, PlacementStats};
use crate::sync::{Arc, RwLock, whole};
use std::borrow::Borrow;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A part and its latch.
#[derive(Debug)]
pub(super) struct Part<R>(pub(super) RwLock<R>);

/// Which part has which keys.
#[derive(Debug)]
pub(super) struct Directory<K, R> {
    /// The least key of each part but the first.
    pub(super) lows: Vec<K>,
    pub(super) parts: Vec<Arc<Part<R>>>,
}

impl<K: Ord, R> Directory<K, R> {
    #[inline(always)]
    pub(super) fn find<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.lows.partition_point(|low| low.borrow() <= key)
    }
}

/// What map, iterators and engine share.
pub(super) struct Core<K, V, M: Model, T: Kind<K, V, M>> {
    pub(super) nodes: T::Nodes,
    pub(super) dir: RwLock<Directory<K, T::Tree>>,
    pub(super) len: AtomicUsize,
    ticker: Ticker,
    /// Whether lookups are noted more seldom as long as all nodes are fast.
    calms: bool,
    counters: Counters,
    memories: Vec<String>,
    notes: Vec<String>,
    limit: Limit,
    values: PhantomData<fn() -> (V, M)>,
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Core<K, V, M, T> {
    /// Over these nodes, with one part; of its memories the names, and what is to be said of them.
    pub(super) fn new(
        nodes: T::Nodes,
        (ticker, calms): (Ticker, bool),
        (memories, notes): (Vec<String>, Vec<String>),
        limit: Limit,
    ) -> Result<Self, PlacementError> {
        let first = Part(RwLock::new(T::tree(&nodes)?));
        Ok(Core {
            nodes,
            dir: RwLock::new(Directory {
                lows: vec![],
                parts: vec![Arc::new(first)],
            }),
            len: AtomicUsize::new(0),
            ticker,
            calms,
            counters: Counters::default(),
            memories,
            notes,
            limit,
            values: PhantomData,
        })
    }

    /// What this operation should note.
    #[inline(always)]
    pub(super) fn tick(&self) -> Option<Noting> {
        self.is_due().then(|| self.noting_apart())
    }

    /// How an operation that is due is to be noted; whether the next ones are noted as often.
    #[inline]
    fn noting(&self) -> Noting {
        if self.calms {
            let budget = &self.nodes.common().budget;
            // Of a tree without nodes nothing is known yet.
            let calm = budget.bytes(Tier::Slow) == 0 && budget.bytes(Tier::Fast) > 0;
            self.ticker.calm(calm);
        }
        self.ticker.again()
    }

    /// The same, kept out of the way of others.
    #[cold]
    #[inline(never)]
    fn noting_apart(&self) -> Noting {
        self.noting()
    }

    /// Whether this operation is to be noted; a lookup then is one for [`Core::get_noted`].
    #[inline(always)]
    pub(super) fn is_due(&self) -> bool {
        self.ticker.is_due() == Some(true)
    }

    /// Gives the value of a key to `see`; the way to it is noted. Apart, so that others keep nothing
    /// for it.
    #[cold]
    #[inline(never)]
    pub(super) fn get_noted<Q: Sought<T> + ?Sized, R>(
        &self,
        key: &Q,
        see: impl FnOnce(Option<&V>) -> R,
    ) -> R
    where
        K: Borrow<Q>,
    {
        let noting = self.noting();
        let dir = whole(self.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        see(T::get(&tree, &self.nodes, key, Some(noting)))
    }

    fn world<'a>(&'a self, heat: &'a Heat) -> World<'a, Self> {
        World {
            structure: self,
            heat,
            budget: &self.nodes.common().budget,
            counters: &self.counters,
        }
    }

    pub(super) fn step(&self, engine: &mut Engine<Self>, steps: Steps) -> Stepped {
        let Some(heat) = &self.nodes.common().heat else {
            return Stepped::Idle;
        };
        let parts = whole(self.dir.read()).parts.len();
        let directory = parts * (size_of::<Part<T::Tree>>() + size_of::<K>() + size_of::<usize>());
        let fixed = heat.bytes() + directory as u64 + T::keys(&self.nodes).bytes();
        self.nodes.common().budget.set_fixed(fixed);
        engine.step(&self.world(heat), steps)
    }

    /// The value of a key; if there is none, that which `make` makes and which is put in. Where the part
    /// must be split first key and value come back.
    pub(super) fn get_or_insert(
        &self,
        key: K,
        make: impl FnOnce() -> V,
    ) -> Result<Result<V, (K, V)>, PlacementError>
    where
        K: Sought<T>,
    {
        let noting = self.tick();
        let (copy, spare) = {
            let dir = whole(self.dir.read());
            let mut tree = whole(dir.parts[dir.find(&key)].0.write());
            let found = T::get(&tree, &self.nodes, &key, noting).cloned();
            match found {
                Some(val) => (val, Some(key)),
                None => {
                    let val = make();
                    let copy = val.clone();
                    match T::insert(&mut tree, &self.nodes, (key, val), None)? {
                        Inserted::Full(key, val) => return Ok(Err((key, val))),
                        Inserted::New => self.len.fetch_add(1, Relaxed),
                        Inserted::Replaced(..) => 0,
                    };
                    (copy, None)
                }
            }
        };
        drop(spare);
        Ok(Ok(copy))
    }

    /// Splits the part of a key, if it is still full.
    pub(super) fn split_part(&self, key: &K) -> Result<(), PlacementError> {
        let mut dir = whole(self.dir.write());
        let at = dir.find(key);
        let split = T::split(&mut *whole(dir.parts[at].0.write()), &self.nodes)?;
        if let Some((low, tree)) = split {
            dir.lows.insert(at, low);
            dir.parts.insert(at + 1, Arc::new(Part(RwLock::new(tree))));
        }
        Ok(())
    }

    /// Takes the part of a key out of the directory, if it is still empty and not the only one.
    pub(super) fn drop_part<Q: Ord + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let (root, _low) = {
            let mut dir = whole(self.dir.write());
            let at = dir.find(key);
            if dir.parts.len() < 2 || whole(dir.parts[at].0.read()).len() > 0 {
                return;
            }
            let low = dir.lows.remove(at.saturating_sub(1));
            T::keys(&self.nodes).goes(&low);
            let part = dir.parts.remove(at);
            let mut tree = whole(part.0.write());
            tree.changed();
            (tree.retire(), low)
        };
        self.nodes.free_all(root.into_iter().collect());
    }

    pub(super) fn stats(&self) -> PlacementStats {
        let (budget, counters) = (&self.nodes.common().budget, &self.counters);
        let heat = self.nodes.common().heat.as_ref();
        PlacementStats {
            memories: self.memories.clone(),
            notes: self.notes.clone(),
            fast_bytes: budget.bytes(Tier::Fast),
            slow_bytes: budget.bytes(Tier::Slow),
            limit: (self.limit != Limit::All).then(|| budget.limit()),
            peak_fast_bytes: budget.peak(),
            heat_bytes: heat.map_or(0, Heat::bytes),
            key_bytes: T::keys(&self.nodes).bytes(),
            committed: self.nodes.committed(),
            samples: heat.map_or([0; 2], Heat::samples),
            promoted: counters.promoted.load(Relaxed),
            demoted: counters.demoted.load(Relaxed),
            busy: counters.busy.load(Relaxed),
            stale: counters.stale.load(Relaxed),
            no_room: counters.no_room.load(Relaxed),
            bound: counters.bound.load(Relaxed),
            over_budget: budget.over(),
            periods: counters.periods.load(Relaxed),
            coolings: counters.coolings.load(Relaxed),
            shifts: counters.shifts.load(Relaxed),
            threshold: counters.threshold.load(Relaxed),
            residence: self.nodes.residence(),
        }
    }
}

impl<K: Ord + Clone, V: Clone, M: Model, T: Kind<K, V, M>> Parts for Core<K, V, M, T> {
    type Part = Arc<Part<T::Tree>>;

    fn parts(&self) -> Vec<Self::Part> {
        whole(self.dir.read()).parts.clone()
    }

    fn read(&self, part: &Self::Part, see: &mut dyn FnMut(&dyn Placed)) -> bool {
        let Ok(tree) = part.0.try_read() else {
            return false;
        };
        see(&Shown(&*tree, &self.nodes));
        true
    }

    fn write(&self, part: &Self::Part, change: &mut dyn FnMut(&mut dyn Placed)) -> bool {
        let Ok(mut tree) = part.0.try_write() else {
            return false;
        };
        change(&mut Held(&mut *tree, &self.nodes));
        true
    }

    fn sizes(&self) -> [u64; CLASSES] {
        T::Nodes::sizes()
    }

    fn live(&self) -> [u64; CLASSES] {
        self.nodes.live().map(|[fast, slow]| fast + slow)
    }

    fn is_leaf(&self, class: u8) -> bool {
        class == LEAF_CLASS
    }
}

impl<K, V, M: Model, T: Kind<K, V, M>> Drop for Core<K, V, M, T> {
    fn drop(&mut self) {
        // Values that own memory are dropped with their nodes.
        let parts = match self.dir.get_mut() {
            Ok(dir) => std::mem::take(&mut dir.parts),
            Err(poisoned) => std::mem::take(&mut poisoned.into_inner().parts),
        };
        let roots = parts.iter().filter_map(|p| whole(p.0.write()).retire());
        self.nodes.free_all(roots.collect());
    }
}
