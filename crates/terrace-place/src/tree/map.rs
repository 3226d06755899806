//! A concurrent ordered map whose nodes move between two memories.
//!
//! Kept true: the directory is locked before a part; a part that has left the directory has no
//! root; user code (`Ord`, `Clone`, `Drop`) runs under the latch of one part at most and the read
//! lock of the directory.

use super::nodes::Nodes;
use super::part::{Inserted, Tree};
use super::range::Range;
use super::seat::{Held, Shown};
use crate::budget::{Budget, Limit};
use crate::engine::{Engine, Stepped, Steps, World};
use crate::error::PlacementError;
use crate::heat::{Heat, Noting, Sampling};
use crate::id::{CLASSES, Tier};
use crate::model::{Model, Plain};
use crate::placed::{Parts, Placed};
use crate::placement::{Opened, Placement};
use crate::stats::{Counters, PlacementStats};
use crate::sync::{Arc, Mutex, RwLock, whole};
use std::borrow::Borrow;
use std::ops::{Bound, RangeBounds};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// A part and its latch.
#[derive(Debug)]
pub(super) struct Part(pub(super) RwLock<Tree>);

/// Which part has which keys.
#[derive(Debug)]
pub(super) struct Directory<K> {
    /// The least key of each part but the first.
    pub(super) lows: Vec<K>,
    pub(super) parts: Vec<Arc<Part>>,
}

impl<K: Ord> Directory<K> {
    #[inline(always)]
    pub(super) fn find<Q: Ord + ?Sized>(&self, key: &Q) -> usize
    where
        K: Borrow<Q>,
    {
        self.lows.partition_point(|low| low.borrow() <= key)
    }
}

/// What map, iterators and engine share.
#[derive(Debug)]
pub(super) struct Core<K, V, M: Model> {
    pub(super) nodes: Nodes<K, V, M>,
    pub(super) dir: RwLock<Directory<K>>,
    pub(super) len: AtomicUsize,
    sampling: Option<Sampling>,
    counters: Counters,
    memories: Vec<String>,
    notes: Vec<String>,
    limit: Limit,
}

/// A concurrent ordered map over fast and slow memory: a B+tree in parts, each under a latch,
/// whose nodes lie where they are used most.
///
/// Values are returned as copies, since nodes move. `M` sees every node that is touched; with
/// [`Plain`] that is compiled away.
///
/// ```
/// use terrace_place::{Memory, Placement, PlacedTree, Steps};
///
/// let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.2).manual();
/// let tree = PlacedTree::<u64, u64>::new(placement)?;
/// for i in 0..10_000 {
///     tree.insert(i, i * i)?;
/// }
/// assert_eq!(tree.get(&12), Some(144));
/// while tree.place_step(Steps::nodes(256)) {}
/// let stats = tree.placement();
/// assert!(stats.fast_bytes <= stats.limit.unwrap());
/// # Ok::<(), terrace_place::PlacementError>(())
/// ```
#[derive(Debug)]
pub struct PlacedTree<K, V, M = Plain>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    core: Arc<Core<K, V, M>>,
    engine: Arc<Mutex<Engine<Core<K, V, M>>>>,
    #[cfg(not(feature = "shuttle"))]
    thread: Option<super::thread::Worker>,
}

impl<K, V> PlacedTree<K, V>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
{
    /// An empty map.
    ///
    /// # Errors
    /// A memory cannot be had; the error says why and what to do.
    pub fn new(placement: Placement) -> Result<Self, PlacementError> {
        Self::with_model(placement, Plain)
    }
}

impl<K, V, M> PlacedTree<K, V, M>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    /// An empty map whose touches a model sees.
    ///
    /// # Errors
    /// As [`PlacedTree::new`].
    pub fn with_model(placement: Placement, model: M) -> Result<Self, PlacementError> {
        let Opened {
            sources,
            memories,
            limit,
            policy,
            notes,
            slots,
            background,
        } = placement.open()?;
        let two = memories.len() == 2;
        let heat = two && policy.moves();
        let births = if two {
            policy.births()
        } else {
            crate::policy::Births::Always(Tier::Fast)
        };
        let budget = Budget::new(limit);
        let nodes = Nodes::new(slots, sources, budget, births, heat, model)?;
        let first = Part(RwLock::new(Tree::new(&nodes)?));
        let core = Arc::new(Core {
            nodes,
            dir: RwLock::new(Directory {
                lows: vec![],
                parts: vec![Arc::new(first)],
            }),
            len: AtomicUsize::new(0),
            sampling: heat.then(|| policy.sampling()),
            counters: Counters::default(),
            memories,
            notes,
            limit,
        });
        let engine = Arc::new(Mutex::new(Engine::new(policy)));
        #[cfg(not(feature = "shuttle"))]
        let thread = (heat && background).then(|| {
            let (core, engine) = (Arc::clone(&core), Arc::clone(&engine));
            super::thread::Worker::start(move |steps, hurry| {
                let mut engine = whole(engine.lock());
                if hurry {
                    engine.hurry();
                }
                core.step(&mut engine, steps) == Stepped::Busy
            })
        });
        #[cfg(feature = "shuttle")]
        let _ = background;
        Ok(PlacedTree {
            core,
            engine,
            #[cfg(not(feature = "shuttle"))]
            thread,
        })
    }

    /// The value of a key. O(log n).
    #[inline]
    pub fn get<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        let noting = core.tick();
        let dir = whole(core.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        match noting {
            None => tree.get(&core.nodes, key).cloned(),
            Some(noting) => tree.get_noted(&core.nodes, key, noting).cloned(),
        }
    }

    /// Whether there is an entry. O(log n).
    pub fn contains_key<Q: Ord + ?Sized>(&self, key: &Q) -> bool
    where
        K: Borrow<Q>,
    {
        let dir = whole(self.core.dir.read());
        let tree = whole(dir.parts[dir.find(key)].0.read());
        tree.get(&self.core.nodes, key).is_some()
    }

    /// Puts an entry in; the old value of the key, if there was one. O(log n).
    ///
    /// # Errors
    /// No memory for a node: the entries are as they were, but for the lost one.
    pub fn insert(&self, key: K, val: V) -> Result<Option<V>, PlacementError> {
        let core = &*self.core;
        let noting = core.tick();
        let (mut key, mut val) = (key, val);
        loop {
            {
                let dir = whole(core.dir.read());
                let mut tree = whole(dir.parts[dir.find(&key)].0.write());
                match tree.insert(&core.nodes, key, val, noting)? {
                    Inserted::New => {
                        core.len.fetch_add(1, Relaxed);
                        return Ok(None);
                    }
                    Inserted::Replaced(old) => return Ok(Some(old)),
                    Inserted::Full(k, v) => (key, val) = (k, v),
                }
            }
            core.split_part(&key)?;
        }
    }

    /// Takes an entry out. O(log n).
    pub fn remove<Q: Ord + ?Sized>(&self, key: &Q) -> Option<V>
    where
        K: Borrow<Q>,
    {
        let core = &*self.core;
        let (val, empty) = {
            let dir = whole(core.dir.read());
            let mut tree = whole(dir.parts[dir.find(key)].0.write());
            let val = tree.remove(&core.nodes, key);
            if val.is_some() {
                core.len.fetch_sub(1, Relaxed);
            }
            (val, tree.len == 0 && dir.parts.len() > 1)
        };
        if empty {
            core.drop_part(key);
        }
        val
    }

    /// Entries of a range, in the order of their keys, each a copy.
    pub fn range<R: RangeBounds<K>>(&self, range: R) -> Range<K, V, M> {
        let (from, to) = (range.start_bound().cloned(), range.end_bound().cloned());
        Range::new(Arc::clone(&self.core), from, to)
    }

    /// All entries, in the order of their keys.
    pub fn iter(&self) -> Range<K, V, M> {
        self.range::<(Bound<K>, Bound<K>)>((Bound::Unbounded, Bound::Unbounded))
    }

    /// Entries that there are.
    pub fn len(&self) -> usize {
        self.core.len.load(Relaxed)
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Does a bounded piece of placing: whether there is more to do now. A thread does this unless
    /// the placement is [`Placement::manual`].
    pub fn place_step(&self, steps: Steps) -> bool {
        let mut engine = whole(self.engine.lock());
        self.core.step(&mut engine, steps) == Stepped::Busy
    }

    /// Lets the next period begin with few noted lookups, as when much time has passed.
    pub fn hurry(&self) {
        whole(self.engine.lock()).hurry();
    }

    /// Where the nodes lie, and what was done about it.
    pub fn placement(&self) -> PlacementStats {
        self.core.stats()
    }

    /// Nodes that there are: leaves and inner nodes, each fast and slow.
    pub fn nodes(&self) -> [[u64; 2]; 2] {
        self.core.nodes.live()
    }

    /// Bytes of a leaf and of an inner node.
    pub fn node_bytes() -> [usize; 2] {
        [Nodes::<K, V, M>::LEAF_BYTES, Nodes::<K, V, M>::INNER_BYTES]
    }

    /// The model.
    pub fn model(&self) -> &M {
        &self.core.nodes.model
    }

    /// Walks all nodes: whether order, tiers and counted bytes are as they should be. O(n).
    ///
    /// # Errors
    /// What is wrong, in words.
    pub fn check(&self) -> Result<(), String> {
        self.core.check()
    }
}

impl<K, V, M> Drop for PlacedTree<K, V, M>
where
    K: Ord + Clone + Send + Sync + 'static,
    V: Clone + Send + Sync + 'static,
    M: Model,
{
    fn drop(&mut self) {
        #[cfg(not(feature = "shuttle"))]
        if let Some(thread) = self.thread.take() {
            thread.stop();
        }
    }
}

impl<K: Ord + Clone, V: Clone, M: Model> Core<K, V, M> {
    /// What this operation should note.
    #[inline(always)]
    pub(super) fn tick(&self) -> Option<Noting> {
        self.sampling.and_then(Sampling::tick)
    }

    fn world<'a>(&'a self, heat: &'a Heat) -> World<'a, Self> {
        World {
            structure: self,
            heat,
            budget: &self.nodes.budget,
            counters: &self.counters,
        }
    }

    fn step(&self, engine: &mut Engine<Self>, steps: Steps) -> Stepped {
        let Some(heat) = &self.nodes.heat else {
            return Stepped::Idle;
        };
        let parts = whole(self.dir.read()).parts.len();
        let directory = parts * (size_of::<Part>() + size_of::<K>() + size_of::<Arc<Part>>());
        self.nodes.budget.set_fixed(heat.bytes() + directory as u64);
        engine.step(&self.world(heat), steps)
    }

    /// Splits the part of a key, if it is still full.
    fn split_part(&self, key: &K) -> Result<(), PlacementError> {
        let mut dir = whole(self.dir.write());
        let at = dir.find(key);
        let split = whole(dir.parts[at].0.write()).split(&self.nodes)?;
        if let Some((low, tree)) = split {
            dir.lows.insert(at, low);
            dir.parts.insert(at + 1, Arc::new(Part(RwLock::new(tree))));
        }
        Ok(())
    }

    /// Takes the part of a key out of the directory, if it is still empty and not the only one.
    fn drop_part<Q: Ord + ?Sized>(&self, key: &Q)
    where
        K: Borrow<Q>,
    {
        let mut dir = whole(self.dir.write());
        let at = dir.find(key);
        if dir.parts.len() < 2 {
            return;
        }
        {
            let mut tree = whole(dir.parts[at].0.write());
            if tree.len > 0 {
                return;
            }
            if let Some(root) = tree.root.take() {
                self.nodes.free_all(root);
            }
            tree.version += 1;
        }
        dir.parts.remove(at);
        dir.lows.remove(at.saturating_sub(1));
    }

    fn stats(&self) -> PlacementStats {
        let (budget, counters) = (&self.nodes.budget, &self.counters);
        let heat = self.nodes.heat.as_ref();
        PlacementStats {
            memories: self.memories.clone(),
            notes: self.notes.clone(),
            fast_bytes: budget.bytes(Tier::Fast),
            slow_bytes: budget.bytes(Tier::Slow),
            limit: (self.limit != Limit::All).then(|| budget.limit()),
            peak_fast_bytes: budget.peak(),
            heat_bytes: heat.map_or(0, Heat::bytes),
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

impl<K: Ord + Clone, V: Clone, M: Model> Parts for Core<K, V, M> {
    type Part = Arc<Part>;

    fn parts(&self) -> Vec<Arc<Part>> {
        whole(self.dir.read()).parts.clone()
    }

    fn read(&self, part: &Arc<Part>, see: &mut dyn FnMut(&dyn Placed)) -> bool {
        let Ok(tree) = part.0.try_read() else {
            return false;
        };
        see(&Shown(&tree, &self.nodes));
        true
    }

    fn write(&self, part: &Arc<Part>, change: &mut dyn FnMut(&mut dyn Placed)) -> bool {
        let Ok(mut tree) = part.0.try_write() else {
            return false;
        };
        change(&mut Held(&mut tree, &self.nodes));
        true
    }

    fn sizes(&self) -> [u64; CLASSES] {
        let mut sizes = [0; CLASSES];
        sizes[0] = Nodes::<K, V, M>::LEAF_BYTES as u64;
        sizes[1] = Nodes::<K, V, M>::INNER_BYTES as u64;
        sizes
    }

    fn live(&self) -> [u64; CLASSES] {
        let mut live = [0; CLASSES];
        for (class, [fast, slow]) in self.nodes.live().into_iter().enumerate() {
            live[class] = fast + slow;
        }
        live
    }

    fn is_leaf(&self, class: u8) -> bool {
        class == 0
    }
}

impl<K, V, M: Model> Drop for Core<K, V, M> {
    fn drop(&mut self) {
        // Values that own memory are dropped with their nodes.
        let parts = match self.dir.get_mut() {
            Ok(dir) => std::mem::take(&mut dir.parts),
            Err(poisoned) => std::mem::take(&mut poisoned.into_inner().parts),
        };
        for part in parts {
            let root = whole(part.0.write()).root.take();
            if let Some(root) = root {
                self.nodes.free_all(root);
            }
        }
    }
}
