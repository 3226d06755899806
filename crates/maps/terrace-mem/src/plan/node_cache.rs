//! The cache of decompressed nodes: CLOCK, an approximation of LRU (section 4.4).

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// A segment and a node of it.
type Name = (u64, u32);

/// Decompressed nodes, each a run of keys, at most a fixed number of them.
pub struct NodeCache<R> {
    clock: Mutex<Clock<R>>,
    capacity: usize,
    next_id: AtomicU64,
}

struct Frame<R> {
    name: Name,
    used: bool,
    node: Arc<R>,
}

struct Clock<R> {
    frames: Vec<Frame<R>>,
    index: HashMap<Name, usize, foldhash::fast::FixedState>,
    hand: usize,
}

impl<R> NodeCache<R> {
    /// A cache of at most `capacity` nodes; none are kept for 0.
    pub fn new(capacity: usize) -> Self {
        let index = HashMap::with_hasher(foldhash::fast::FixedState::with_seed(1));
        NodeCache {
            clock: Mutex::new(Clock {
                frames: Vec::new(),
                index,
                hand: 0,
            }),
            capacity,
            next_id: AtomicU64::new(0),
        }
    }

    /// A number for a new segment.
    pub fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Ordering::Relaxed)
    }

    /// The node of that name, loaded where it is not cached. O(1) but for the load.
    pub fn get(&self, name: Name, load: impl FnOnce() -> R) -> Arc<R> {
        if self.capacity == 0 {
            return Arc::new(load());
        }
        let mut clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(&i) = clock.index.get(&name) {
            let frame = &mut clock.frames[i];
            frame.used = true;
            return Arc::clone(&frame.node);
        }
        let node = Arc::new(load());
        let frame = Frame {
            name,
            used: false,
            node: Arc::clone(&node),
        };
        let i = if clock.frames.len() < self.capacity {
            clock.frames.push(frame);
            clock.frames.len() - 1
        } else {
            clock.evict(frame)
        };
        clock.index.insert(name, i);
        node
    }

    /// Bytes of the cached nodes, each with this many on the heap, and of the cache itself.
    pub fn bytes(&self, heap: impl Fn(&R) -> usize) -> usize {
        let clock = self.clock.lock().unwrap_or_else(PoisonError::into_inner);
        let nodes: usize = clock
            .frames
            .iter()
            .map(|f| heap(&f.node) + size_of::<R>())
            .sum();
        nodes
            + clock.frames.capacity() * size_of::<Frame<R>>()
            + clock.index.capacity() * (size_of::<(Name, usize)>() + 1)
    }
}

impl<R> Clock<R> {
    /// Puts `frame` in the place of one that was not used since the hand passed it last.
    fn evict(&mut self, frame: Frame<R>) -> usize {
        loop {
            let i = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            if std::mem::take(&mut self.frames[i].used) {
                continue;
            }
            let old = std::mem::replace(&mut self.frames[i], frame);
            self.index.remove(&old.name);
            return i;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn used_nodes_stay_and_unused_ones_go() {
        let cache = NodeCache::<Vec<u64>>::new(3);
        let loads = Cell::new(0);
        let get = |n: u32| {
            let node = cache.get((0, n), || {
                loads.set(loads.get() + 1);
                vec![u64::from(n)]
            });
            assert_eq!(*node, vec![u64::from(n)]);
        };
        (0..3).for_each(get);
        get(0);
        assert_eq!(loads.get(), 3);
        get(3);
        get(0);
        assert_eq!(loads.get(), 4, "the hand passed the used node by");
        get(1);
        assert_eq!(loads.get(), 5, "the unused one had to go");
        for n in 0..1000 {
            get(n % 7);
        }
        assert_eq!(cache.clock.lock().unwrap().frames.len(), 3);
        assert_eq!(cache.clock.lock().unwrap().index.len(), 3);
    }
}
