//! What touches cost: counted by memory, or made to wait.

use crate::random::mix;
use crate::rival::{Rival, Table, Training};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use terrace_place::{Model, NodeId, Tier};

/// The nodes that a processor's cache would have: the last ones touched, sets of 16.
#[derive(Debug)]
pub struct Cache {
    sets: Vec<[u32; 16]>,
}

impl Cache {
    /// For this many nodes.
    pub fn new(nodes: u64) -> Cache {
        let sets = (nodes / 16).max(1).next_power_of_two();
        Cache {
            sets: vec![[u32::MAX; 16]; sets as usize],
        }
    }

    /// Touches a node: whether it was there.
    pub fn hit(&mut self, node: u32) -> bool {
        let at = mix(u64::from(node)) as usize & (self.sets.len() - 1);
        let set = &mut self.sets[at];
        let found = set.iter().position(|n| *n == node);
        set[..=found.unwrap_or(15)].rotate_right(1);
        set[0] = node;
        found.is_some()
    }
}

/// Touches by memory.
#[derive(Debug, Default, Clone, Copy)]
pub struct Touches {
    pub all: [u64; 2],
    pub missing: [u64; 2],
}

/// What the model of a run holds.
#[derive(Default)]
pub struct State {
    pub cache: Option<Cache>,
    pub touches: Touches,
    /// Missing touches of the operation that runs.
    pub operation: [u32; 2],
    /// Nodes as a table, where a rival places them or a training counts them.
    pub table: Option<Table>,
    pub rival: Option<Box<dyn Rival>>,
    pub training: Option<Training>,
    /// Touches of the training count where they are missing only.
    pub train_missing: bool,
    pub root: bool,
    /// Nanoseconds that a missing touch of slow memory waits for.
    pub delay: Option<Duration>,
}

/// A model that counts touches, and makes those of slow memory wait if it is told to.
#[derive(Clone, Default)]
pub struct Count(Arc<Mutex<State>>);

impl Count {
    pub fn with(state: State) -> Count {
        Count(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A cache of this many nodes begins, empty; an operation begins.
    pub fn begin(&self, nodes: u64, delay: Option<Duration>) {
        let mut state = self.state();
        state.cache = Some(Cache::new(nodes));
        state.delay = delay;
    }
}

impl State {
    /// An operation begins.
    pub fn start(&mut self) {
        self.root = true;
        self.operation = [0; 2];
    }

    /// An operation has ended.
    pub fn end(&mut self) {
        if let (Some(rival), Some(table)) = (&mut self.rival, &self.table) {
            rival.tick(table);
        }
    }
}

impl Model for Count {
    fn touch(&self, id: NodeId, _: *const u8) {
        let mut state = self.state();
        let state = &mut *state;
        let Some(cache) = &mut state.cache else {
            return;
        };
        // A name of 32 bits: tier, class and index.
        let name = (id.tier() as u32) << 31 | u32::from(id.class()) << 28 | id.index();
        let missing = !cache.hit(name);
        let mut tier = id.tier();
        if let Some(table) = &state.table {
            let number = table.number(id);
            if let (Some(rival), Some(number)) = (&mut state.rival, number) {
                tier = rival.tier(table, number);
                rival.touch(table, number, missing);
            }
            if let Some(training) = &mut state.training {
                let weight = u64::from(missing || !state.train_missing);
                training.touch(table, id, state.root, weight);
            }
        }
        state.root = false;
        state.touches.all[tier as usize] += 1;
        if missing {
            state.touches.missing[tier as usize] += 1;
            state.operation[tier as usize] += 1;
            if let Some(delay) = state.delay.filter(|_| tier == Tier::Slow) {
                wait(delay);
            }
        }
    }

    fn born(&self, id: NodeId, bytes: usize) {
        if let Some(table) = &mut self.state().table {
            table.born(id, bytes);
        }
    }

    fn gone(&self, id: NodeId) {
        if let Some(table) = &mut self.state().table {
            table.gone(id);
        }
    }
}

/// Spins. The clock orders what was read before.
fn wait(delay: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < delay {
        std::hint::spin_loop();
    }
}
