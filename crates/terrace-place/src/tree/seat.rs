//! A part as the engine sees it: its nodes listed, and one of them moved.

use super::nodes::{Kid, Node, NodeMut, Nodes};
use super::part::Tree;
use crate::faults::{Fault, planted};
use crate::id::{NodeId, Tier};
use crate::model::Model;
use crate::placed::{Outcome, Path, Placed, Seen};

/// A part under its read latch.
pub(super) struct Shown<'a, K, V, M>(pub(super) &'a Tree, pub(super) &'a Nodes<K, V, M>);

/// A part under its write latch.
pub(super) struct Held<'a, K, V, M>(pub(super) &'a mut Tree, pub(super) &'a Nodes<K, V, M>);

impl<K, V, M: Model> Placed for Shown<'_, K, V, M> {
    fn version(&self) -> u64 {
        self.0.version
    }

    fn list(&self, see: &mut dyn FnMut(&Seen)) {
        list(self.0, self.1, see);
    }

    /// A part that is only read moves nothing.
    fn relocate(&mut self, _: NodeId, _: Path, _: Tier, _: u64) -> Outcome {
        Outcome::Gone
    }
}

impl<K, V, M: Model> Placed for Held<'_, K, V, M> {
    fn version(&self) -> u64 {
        self.0.version
    }

    fn list(&self, see: &mut dyn FnMut(&Seen)) {
        list(self.0, self.1, see);
    }

    fn relocate(&mut self, id: NodeId, path: Path, to: Tier, bound: u64) -> Outcome {
        let Some(root) = &mut self.0.root else {
            return Outcome::Gone;
        };
        if find(self.1, root, path).map(Kid::id) != Some(id) && !planted(Fault::StaleList) {
            return Outcome::Gone;
        }
        match to {
            Tier::Fast => promote(self.1, root, path, bound),
            Tier::Slow => demote(self.1, root, path),
        }
    }
}

fn list<K, V, M: Model>(tree: &Tree, nodes: &Nodes<K, V, M>, see: &mut dyn FnMut(&Seen)) {
    if let Some(root) = &tree.root {
        list_below(nodes, root, Path::ROOT, 0, see);
    }
}

fn list_below<K, V, M: Model>(
    nodes: &Nodes<K, V, M>,
    kid: &Kid,
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
        Tier::Slow => Nodes::<K, V, M>::INNER_BYTES as u32,
    };
    if let Node::Inner(inner) = nodes.node(kid) {
        for (place, kid) in inner.kids.iter().enumerate() {
            if let Some(path) = path.child(place) {
                list_below(nodes, kid, path, slow_above + own, see);
            }
        }
    }
}

fn find<'a, K, V, M: Model>(
    nodes: &'a Nodes<K, V, M>,
    root: &'a Kid,
    path: Path,
) -> Option<&'a Kid> {
    let mut kid = root;
    for step in 0..path.len() {
        let Node::Inner(inner) = nodes.node(kid) else {
            return None;
        };
        kid = inner.kids.get(path.place(step))?;
    }
    Some(kid)
}

/// Moves the slow nodes of a path to fast memory, from the root down.
fn promote<K, V, M: Model>(
    nodes: &Nodes<K, V, M>,
    root: &mut Kid,
    path: Path,
    bound: u64,
) -> Outcome {
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
        let NodeMut::Inner(inner) = nodes.node_mut(kid) else {
            return Outcome::Gone;
        };
        let place = path.place(step);
        if planted(Fault::WrongPlace) && step + 1 == path.len() && place + 1 < inner.kids.len() {
            inner.kids.swap(place, place + 1);
        }
        let Some(next) = inner.kids.get_mut(place) else {
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
fn demote<K, V, M: Model>(nodes: &Nodes<K, V, M>, root: &mut Kid, path: Path) -> Outcome {
    let mut kid = root;
    for step in 0..path.len() {
        let NodeMut::Inner(inner) = nodes.node_mut(kid) else {
            return Outcome::Gone;
        };
        let Some(next) = inner.kids.get_mut(path.place(step)) else {
            return Outcome::Gone;
        };
        kid = next;
    }
    if let Node::Inner(inner) = nodes.node(kid)
        && inner.has_fast_kid()
        && nodes.bounded()
        && !planted(Fault::BlindDemotion)
    {
        return Outcome::Bound;
    }
    nodes.shift(kid, Tier::Slow, 0)
}
