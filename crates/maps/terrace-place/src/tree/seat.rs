//! A part as the engine sees it: its nodes listed, and one of them moved. The same for all kinds of
//! trees.

use super::common::OwnedNode;
use super::kind::{Nodes, Rooted};
use crate::faults::{Fault, planted};
use crate::id::{NodeId, Tier};
use crate::placed::{Outcome, Path, Placed, Seen};

/// A part under its read latch.
pub(super) struct Shown<'a, T, N>(pub(super) &'a T, pub(super) &'a N);

/// A part under its write latch.
pub(super) struct Held<'a, T, N>(pub(super) &'a mut T, pub(super) &'a N);

impl<T: Rooted, N: Nodes> Placed for Shown<'_, T, N> {
    fn version(&self) -> u64 {
        self.0.version()
    }

    fn list(&self, see: &mut dyn FnMut(&Seen)) {
        list(self.0, self.1, see);
    }

    fn above(&self, id: NodeId, path: Path) -> Option<NodeId> {
        above(self.0, self.1, id, path)
    }

    /// A part that is only read moves nothing.
    fn relocate(&mut self, _: NodeId, _: Path, _: Tier, _: u64) -> Outcome {
        Outcome::Gone
    }
}

impl<T: Rooted, N: Nodes> Placed for Held<'_, T, N> {
    fn version(&self) -> u64 {
        self.0.version()
    }

    fn list(&self, see: &mut dyn FnMut(&Seen)) {
        list(self.0, self.1, see);
    }

    fn above(&self, id: NodeId, path: Path) -> Option<NodeId> {
        above(self.0, self.1, id, path)
    }

    fn relocate(&mut self, id: NodeId, path: Path, to: Tier, bound: u64) -> Outcome {
        let Some(root) = self.0.root_mut() else {
            return Outcome::Gone;
        };
        let Some(way) = way(self.1, root, id, path) else {
            return Outcome::Gone;
        };
        if find(self.1, root, &way).map(OwnedNode::id) != Some(id) && !planted(Fault::StaleList) {
            return Outcome::Gone;
        }
        match to {
            Tier::Fast => promote(self.1, root, &way, bound),
            Tier::Slow => demote(self.1, root, &way),
        }
    }
}

fn list<T: Rooted, N: Nodes>(tree: &T, nodes: &N, see: &mut dyn FnMut(&Seen)) {
    if let Some(root) = tree.root() {
        list_below(nodes, root, Path::ROOT, 0, see);
    }
}

fn list_below<N: Nodes>(
    nodes: &N,
    kid: &OwnedNode,
    path: Path,
    slow_above: u32,
    see: &mut dyn FnMut(&Seen),
) {
    see(&Seen {
        id: kid.id(),
        path,
        leaf: kid.is_leaf(),
        slow_above,
    });
    // A leaf is not touched: all there is to know is in its handle.
    if kid.is_leaf() {
        return;
    }
    let own = match kid.tier() {
        Tier::Fast => 0,
        Tier::Slow => N::bytes(kid.id()) as u32,
    };
    nodes.each_kid(kid, &mut |place, kid| {
        if let Some(path) = path.child(place) {
            list_below(nodes, kid, path, slow_above + own, see);
        }
    });
}

/// The places that lead to a node. What lies deeper than a path names is looked for: O(inner nodes
/// below), so that paths stay short.
fn way<N: Nodes>(nodes: &N, root: &OwnedNode, id: NodeId, path: Path) -> Option<Vec<u8>> {
    let mut way: Vec<u8> = (0..path.named()).map(|i| path.place(i) as u8).collect();
    if path.len() > path.named() {
        let last = find(nodes, root, &way)?;
        let rest = path.len() - path.named();
        if !seek(nodes, last, id, rest, &mut way) {
            return None;
        }
    }
    Some(way)
}

/// Looks for a node this many steps below another; the way to it is added to the one to that.
fn seek<N: Nodes>(
    nodes: &N,
    from: &OwnedNode,
    id: NodeId,
    steps: usize,
    way: &mut Vec<u8>,
) -> bool {
    let mut found = false;
    nodes.each_kid(from, &mut |place, kid| {
        if found {
            return;
        }
        way.push(place as u8);
        found = match steps {
            1 => kid.id() == id,
            steps => !kid.is_leaf() && seek(nodes, kid, id, steps - 1, way),
        };
        if !found {
            way.pop();
        }
    });
    found
}

/// The parent of a node.
fn above<T: Rooted, N: Nodes>(tree: &T, nodes: &N, id: NodeId, path: Path) -> Option<NodeId> {
    let root = tree.root()?;
    let way = way(nodes, root, id, path)?;
    let (_, above) = way.split_last()?;
    find(nodes, root, above).map(OwnedNode::id)
}

fn find<'a, N: Nodes>(nodes: &'a N, root: &'a OwnedNode, way: &[u8]) -> Option<&'a OwnedNode> {
    let mut kid = root;
    for place in way {
        kid = nodes.kid_at(kid, usize::from(*place))?;
    }
    Some(kid)
}

/// Moves the slow nodes of a path to fast memory, from the root down.
fn promote<N: Nodes>(nodes: &N, root: &mut OwnedNode, path: &[u8], bound: u64) -> Outcome {
    let mut moved = 0;
    let mut kid = root;
    for step in 0..=path.len() {
        let skipped = planted(Fault::BottomUp) && step < path.len();
        if kid.tier() == Tier::Slow && !skipped {
            match nodes.shift(kid, Tier::Fast, bound) {
                Outcome::Moved(n) => moved += n,
                _ => return Outcome::NoRoom(moved),
            }
        }
        if step == path.len() {
            break;
        }
        let place = usize::from(path[step]);
        if planted(Fault::WrongPlace) && step + 1 == path.len() {
            nodes.mix_up(kid, place);
        }
        let Some(next) = nodes.kid_at_mut(kid, place) else {
            return Outcome::Gone;
        };
        kid = next;
    }
    if moved == 0 {
        Outcome::There
    } else {
        Outcome::Moved(moved)
    }
}

/// Moves one node to slow memory, if it has no fast child.
fn demote<N: Nodes>(nodes: &N, root: &mut OwnedNode, path: &[u8]) -> Outcome {
    let mut kid = root;
    for place in path {
        let Some(next) = nodes.kid_at_mut(kid, usize::from(*place)) else {
            return Outcome::Gone;
        };
        kid = next;
    }
    if nodes.common().bounded() && !planted(Fault::BlindDemotion) && nodes.has_fast_kid(kid) {
        return Outcome::Bound;
    }
    nodes.shift(kid, Tier::Slow, 0)
}
