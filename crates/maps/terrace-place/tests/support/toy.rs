//! A structure of a few nodes whose heat and tiers are set by hand: for the engine and policies
//! alone.

use std::cell::RefCell;
use terrace_place::{
    Budget, CLASSES, Counters, Heat, Limit, NodeId, Outcome, Parts, Path, Placed, Seen, Tier, World,
};

/// A node of the toy: its parent, and where it lies.
#[derive(Debug, Clone)]
struct Node {
    parent: Option<usize>,
    id: NodeId,
}

/// Bytes of each node.
pub const BYTES: u64 = 100;

/// A tree of one part. Node 0 is the root; a parent comes before its children.
#[derive(Debug)]
pub struct Toy {
    nodes: RefCell<Vec<Node>>,
    pub heat: Heat,
    pub budget: Budget,
    pub counters: Counters,
    /// The engine finds the part busy at this many of the next tries.
    pub busy: RefCell<u32>,
}

impl Toy {
    /// A tree of these parents; all nodes are slow but those in `fast`.
    pub fn new(parents: &[Option<usize>], heat: &[u8], fast: &[bool], room: u64) -> Toy {
        let toy = Toy {
            nodes: RefCell::new(vec![]),
            heat: Heat::new([64; CLASSES]),
            // Moves fill 98 % of a limit: nodes are what fits, not bytes.
            budget: Budget::new(Limit::Bytes(room * BYTES * 100 / 98 + 1)),
            counters: Counters::default(),
            busy: RefCell::new(0),
        };
        for (i, parent) in parents.iter().enumerate() {
            let tier = if fast[i] { Tier::Fast } else { Tier::Slow };
            let leaf = !parents.contains(&Some(i));
            let id = NodeId::new(tier, u8::from(!leaf), i as u32);
            toy.budget.take(tier, BYTES);
            toy.heat.set(id, heat[i]);
            toy.nodes.borrow_mut().push(Node {
                parent: *parent,
                id,
            });
        }
        toy
    }

    /// What the engine works on.
    pub fn world(&self) -> World<'_, Toy> {
        World {
            structure: self,
            heat: &self.heat,
            budget: &self.budget,
            counters: &self.counters,
        }
    }

    /// Which nodes are fast.
    pub fn fast(&self) -> Vec<bool> {
        let nodes = self.nodes.borrow();
        nodes.iter().map(|n| n.id.tier() == Tier::Fast).collect()
    }

    /// The single boundary, and the bytes.
    pub fn check(&self) {
        let nodes = self.nodes.borrow();
        for node in nodes.iter().filter(|n| n.id.tier() == Tier::Fast) {
            if let Some(parent) = node.parent {
                assert_eq!(
                    nodes[parent].id.tier(),
                    Tier::Fast,
                    "a fast node lies below a slow one"
                );
            }
        }
        let fast = nodes.iter().filter(|n| n.id.tier() == Tier::Fast).count() as u64;
        assert_eq!(self.budget.bytes(Tier::Fast), fast * BYTES);
    }

    fn path(nodes: &[Node], mut at: usize) -> Vec<usize> {
        let mut path = vec![at];
        while let Some(parent) = nodes[at].parent {
            path.insert(0, parent);
            at = parent;
        }
        path
    }

    fn shift(&self, nodes: &mut [Node], at: usize, to: Tier, bound: u64) -> bool {
        let old = nodes[at].id;
        if to == Tier::Fast {
            if !self.budget.try_take(BYTES, bound) {
                return false;
            }
        } else {
            self.budget.take(to, BYTES);
        }
        self.budget.give(old.tier(), BYTES);
        nodes[at].id = NodeId::new(to, old.class(), old.index());
        self.heat.moved(old, nodes[at].id);
        true
    }
}

struct Part<'a>(&'a Toy);

impl Placed for Part<'_> {
    fn version(&self) -> u64 {
        0
    }

    fn list(&self, see: &mut dyn FnMut(&Seen)) {
        let nodes = self.0.nodes.borrow();
        for (i, node) in nodes.iter().enumerate() {
            let way = Toy::path(&nodes, i);
            let slow = |n: &&usize| nodes[**n].id.tier() == Tier::Slow;
            let above = way[..way.len() - 1].iter().filter(slow).count() as u64;
            // A node's number serves as its place, so that paths are those of a tree.
            let path = way[1..]
                .iter()
                .fold(Path::ROOT, |path, n| path.child(*n).unwrap());
            see(&Seen {
                id: node.id,
                path,
                leaf: node.id.class() == 0,
                slow_above: (above * BYTES) as u32,
            });
        }
    }

    fn above(&self, id: NodeId, path: Path) -> Option<NodeId> {
        let nodes = self.0.nodes.borrow();
        let at = path.len().checked_sub(1).map_or(0, |last| path.place(last));
        (nodes[at].id == id).then(|| nodes[at].parent.map(|parent| nodes[parent].id))?
    }

    fn relocate(&mut self, id: NodeId, path: Path, to: Tier, bound: u64) -> Outcome {
        let toy = self.0;
        let mut nodes = toy.nodes.borrow_mut();
        let at = path.len().checked_sub(1).map_or(0, |last| path.place(last));
        if nodes[at].id != id {
            return Outcome::Gone;
        }
        if to == Tier::Slow {
            let fast_kid = nodes
                .iter()
                .any(|n| n.parent == Some(at) && n.id.tier() == Tier::Fast);
            return match (fast_kid, id.tier()) {
                (true, _) => Outcome::Bound,
                (_, Tier::Slow) => Outcome::There,
                _ => {
                    toy.shift(&mut nodes, at, Tier::Slow, 0);
                    Outcome::Moved(1)
                }
            };
        }
        let mut moved = 0;
        for node in Toy::path(&nodes, at) {
            if nodes[node].id.tier() == Tier::Slow {
                if !toy.shift(&mut nodes, node, Tier::Fast, bound) {
                    return Outcome::NoRoom(moved);
                }
                moved += 1;
            }
        }
        Outcome::Moved(moved)
    }
}

impl Parts for Toy {
    type Part = ();

    fn parts(&self) -> Vec<()> {
        vec![()]
    }

    fn read(&self, _: &(), see: &mut dyn FnMut(&dyn Placed)) -> bool {
        see(&Part(self));
        true
    }

    fn write(&self, _: &(), change: &mut dyn FnMut(&mut dyn Placed)) -> bool {
        let mut busy = self.busy.borrow_mut();
        if *busy > 0 {
            *busy -= 1;
            return false;
        }
        change(&mut Part(self));
        true
    }

    fn sizes(&self) -> [u64; CLASSES] {
        let mut sizes = [0; CLASSES];
        (sizes[0], sizes[1]) = (BYTES, BYTES);
        sizes
    }

    fn live(&self) -> [u64; CLASSES] {
        let mut live = [0; CLASSES];
        for node in self.nodes.borrow().iter() {
            live[node.id.class() as usize] += 1;
        }
        live
    }

    fn is_leaf(&self, class: u8) -> bool {
        class == 0
    }
}
