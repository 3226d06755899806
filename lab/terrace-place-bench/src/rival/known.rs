//! Placements by one who knows what will be touched: bounds, no rivals.

use super::{Rival, Table};
use terrace_place::{NodeId, Tier};

/// The most nodes of a path.
const DEPTH: usize = 8;

/// How often each node was touched in a run, and the paths to leaves.
#[derive(Debug, Default, Clone)]
pub struct Training {
    touches: Vec<u64>,
    parents: Vec<u32>,
    last: Option<u32>,
}

impl Training {
    /// A node was touched; `root` if an operation begins with it. Ids are numbers of the table.
    pub fn touch(&mut self, table: &Table, id: NodeId, root: bool, weight: u64) {
        let Some(number) = table.number(id) else {
            return;
        };
        if root {
            self.last = None;
        }
        let at = number as usize;
        if self.touches.len() <= at {
            self.touches.resize(at + 1, 0);
            self.parents.resize(at + 1, u32::MAX);
        }
        self.touches[at] += weight;
        if let Some(last) = self.last.filter(|_| !root && self.parents[at] == u32::MAX) {
            self.parents[at] = last;
        }
        // A range goes on from leaf to leaf: these are no parents.
        if table.node(number).is_some_and(|node| !node.leaf) {
            self.last = Some(number);
        }
    }

    /// Touches of a node.
    pub fn touches(&self, number: u32) -> u64 {
        self.touches.get(number as usize).copied().unwrap_or(0)
    }
}

/// A placement that is known from the beginning and does not change.
#[derive(Debug)]
pub struct Known {
    training: Training,
    by_leaf: bool,
    fast: Vec<bool>,
}

impl Known {
    /// The best placement of nodes: by touches for each byte, whatever kind they are. Where nodes
    /// are about equally large it keeps fast nodes above each other by itself; in general it is
    /// an upper bound.
    pub fn optimum(training: Training) -> Known {
        Known {
            training,
            by_leaf: false,
            fast: vec![],
        }
    }

    /// The hottest leaves, each with all nodes above it: what one reaches who knows all hot paths.
    pub fn prophet(training: Training) -> Known {
        Known {
            training,
            by_leaf: true,
            fast: vec![],
        }
    }
}

impl Rival for Known {
    fn settle(&mut self, table: &Table, fast_bytes: u64) {
        self.fast = vec![false; table.len()];
        let touches = |n: &u32| self.training.touches(*n);
        let bytes = |n: u32| table.node(n).map_or(0, |e| u64::from(e.bytes));
        let mut order: Vec<u32> = (0..table.len() as u32).collect();
        order.retain(|n| table.node(*n).is_some_and(|node| !node.gone));
        if self.by_leaf {
            order.retain(|n| table.node(*n).is_some_and(|e| e.leaf));
            order.sort_by_key(|n| std::cmp::Reverse(touches(n)));
        } else {
            let density = |n: &u32| touches(n) * 1024 / bytes(*n).max(1);
            order.sort_by_key(|n| std::cmp::Reverse(density(n)));
        }
        let mut used = 0;
        for node in order {
            let mut path = vec![node];
            if self.by_leaf {
                let mut at = node;
                // No tree is deeper; nodes that were made later are not there yet.
                while path.len() < DEPTH
                    && let Some(&parent) = self.training.parents.get(at as usize)
                    && (parent as usize) < table.len()
                {
                    path.push(parent);
                    at = parent;
                }
            }
            path.retain(|n| !self.fast[*n as usize]);
            let needed: u64 = path.iter().map(|n| bytes(*n)).sum();
            if used + needed > fast_bytes {
                break;
            }
            used += needed;
            for n in path {
                self.fast[n as usize] = true;
            }
        }
    }

    fn touch(&mut self, _: &Table, _: u32, _: bool) {}

    fn tick(&mut self, _: &Table) {}

    fn tier(&self, _: &Table, node: u32) -> Tier {
        match self.fast.get(node as usize) {
            Some(true) => Tier::Fast,
            _ => Tier::Slow,
        }
    }

    fn moves(&self) -> u64 {
        0
    }
}
