//! What a map over two memories asks of its trees: the border between directory, engine and a kind
//! of tree. Each kind has its nodes, of up to eight classes, and a tree for each part.

use super::common::{Common, OwnedNode};
use super::keys::KeyBytes;
use crate::budget::Budget;
use crate::error::PlacementError;
use crate::heat::Noting;
use crate::id::{CLASSES, NodeId, Tier};
use crate::memory::Source;
use crate::model::Model;
use crate::placed::Outcome;
use crate::policy::Births;
use std::collections::HashSet;
use std::fmt::Debug;
use std::ops::Bound;

/// How to make the nodes of a map.
#[derive(Debug)]
pub struct Making<M> {
    pub(crate) slots: u64,
    pub(crate) sources: [Source; 2],
    pub(crate) budget: Budget,
    pub(crate) births: Births,
    pub(crate) heat: bool,
    pub(crate) model: M,
}

/// The nodes of a map, of all classes.
pub trait Nodes: Send + Sync {
    /// Sees what is touched.
    type Model: Model;

    /// What nodes of all kinds share.
    fn common(&self) -> &Common<Self::Model>;

    /// The child at a place, of which a node has up to 256.
    fn kid_at<'a>(&'a self, kid: &'a OwnedNode, place: usize) -> Option<&'a OwnedNode>;

    /// The same, to be moved.
    fn kid_at_mut<'a>(&'a self, kid: &'a mut OwnedNode, place: usize) -> Option<&'a mut OwnedNode>;

    /// Shows all children with their places, in order. A leaf is not read.
    fn each_kid(&self, kid: &OwnedNode, see: &mut dyn FnMut(usize, &OwnedNode));

    /// Moves a node to the other memory, if its bytes stay below `bound` there.
    fn shift(&self, kid: &mut OwnedNode, to: Tier, bound: u64) -> Outcome;

    /// Exchanges two neighbouring children, as a mistake would: planted.
    fn mix_up(&self, kid: &mut OwnedNode, place: usize);

    /// Bytes of a node, by class; 0 for classes that are not used.
    fn sizes() -> [u64; CLASSES];

    /// Nodes that there are, by class and tier.
    fn live(&self) -> [[u64; 2]; CLASSES];

    /// Bytes of slabs by tier.
    fn committed(&self) -> [u64; 2];

    /// Pages looked up, and those on a wrong node.
    fn residence(&self) -> (u64, u64);

    /// Frees a node; its children are added to others that are to go. What it has of keys and values
    /// is dropped last.
    fn free(&self, kid: OwnedNode, kids: &mut Vec<OwnedNode>);

    /// Frees nodes and all below them. Where a key or value panics when it is dropped, the rest goes
    /// all the same.
    fn free_all(&self, kids: Vec<OwnedNode>)
    where
        Self: Sized,
    {
        let mut freeing = Freeing { nodes: self, kids };
        freeing.run();
    }

    /// Whether a node has a fast child.
    fn has_fast_kid(&self, kid: &OwnedNode) -> bool {
        let mut fast = false;
        self.each_kid(kid, &mut |_, kid| fast |= kid.tier() == Tier::Fast);
        fast
    }

    /// Bytes of a node.
    fn bytes(id: NodeId) -> u64 {
        Self::sizes()[id.class() as usize]
    }
}

/// Nodes on their way out.
struct Freeing<'a, N: Nodes> {
    nodes: &'a N,
    kids: Vec<OwnedNode>,
}

impl<N: Nodes> Freeing<'_, N> {
    fn run(&mut self) {
        while let Some(kid) = self.kids.pop() {
            self.nodes.free(kid, &mut self.kids);
        }
    }
}

impl<N: Nodes> Drop for Freeing<'_, N> {
    fn drop(&mut self) {
        self.run();
    }
}

/// The tree of a part, as the engine and the directory see it.
pub trait Rooted: Debug + Send + Sync {
    /// The uppermost node; none where the tree is empty, or the part has left.
    fn root(&self) -> Option<&OwnedNode>;
    /// The same, to be moved.
    fn root_mut(&mut self) -> Option<&mut OwnedNode>;
    /// Takes all nodes away: the part leaves the directory.
    fn retire(&mut self) -> Option<OwnedNode>;
    /// Entries.
    fn len(&self) -> usize;
    /// A number that changes with every change of paths.
    fn version(&self) -> u64;
    /// Paths have changed.
    fn changed(&mut self);
}

/// What came of an insertion.
#[derive(Debug)]
pub enum Inserted<K, V> {
    /// There was none with this key.
    New,
    /// The value that there was.
    /// That was its value; the key that came was not needed.
    Replaced(V, K),
    /// The part must be split first; nothing has changed.
    Full(K, V),
}

/// What came out with an entry: to be dropped when the tree is whole and no thread waits for it.
#[derive(Debug)]
pub struct Removed<K, V> {
    pub(super) val: V,
    pub(super) key: K,
    /// A key that stood between two nodes, which are one now.
    pub(super) between: Option<K>,
}

/// What was taken out of a tree that is empty now, to be freed when no thread is kept from working.
#[derive(Debug)]
pub struct Cleared<K, V> {
    pub(super) kid: Option<OwnedNode>,
    pub(super) entries: Vec<(K, V)>,
}

/// A key that can be looked for in trees of a kind.
pub trait Sought<T>: Ord {
    /// Writes it as bytes in the same order, of which none begins another; nothing where the kind
    /// compares keys as they are.
    fn encode(&self, into: &mut Vec<u8>);
}

/// What a walk over all nodes has found.
#[derive(Debug, Default)]
pub struct Walk {
    pub(super) ids: HashSet<NodeId>,
    pub(super) bytes: [u64; 2],
    pub(super) entries: usize,
    /// Bytes that keys own.
    pub(super) keys: u64,
}

/// A kind of tree.
pub trait Kind<K, V, M: Model>: Debug + Send + Sync + Sized + 'static {
    /// Its nodes.
    type Nodes: Nodes<Model = M>;
    /// The tree of a part.
    type Tree: Rooted;

    /// The nodes of a new map.
    fn nodes(making: Making<M>) -> Result<Self::Nodes, PlacementError>;

    /// What keys own, of all nodes and of the directory.
    fn keys(nodes: &Self::Nodes) -> &KeyBytes<K>;

    /// An empty tree.
    fn tree(nodes: &Self::Nodes) -> Result<Self::Tree, PlacementError>;

    /// The value of a key.
    fn get<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a Self::Tree,
        nodes: &'a Self::Nodes,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a V>
    where
        K: std::borrow::Borrow<Q>;

    /// The value of a key, to be changed.
    fn get_mut<'a, Q: Sought<Self> + ?Sized>(
        tree: &'a mut Self::Tree,
        nodes: &'a Self::Nodes,
        key: &Q,
        noting: Option<Noting>,
    ) -> Option<&'a mut V>
    where
        K: std::borrow::Borrow<Q>;

    /// Puts an entry in.
    fn insert(
        tree: &mut Self::Tree,
        nodes: &Self::Nodes,
        entry: (K, V),
        noting: Option<Noting>,
    ) -> Result<Inserted<K, V>, PlacementError>;

    /// Takes an entry out. Nothing of it is dropped here.
    fn remove<Q: Sought<Self> + ?Sized>(
        tree: &mut Self::Tree,
        nodes: &Self::Nodes,
        key: &Q,
    ) -> Option<Removed<K, V>>
    where
        K: std::borrow::Borrow<Q>;

    /// Makes a tree empty. It takes no room to do so.
    fn clear(tree: &mut Self::Tree, nodes: &Self::Nodes) -> Cleared<K, V>;

    /// Takes the upper entries off, with the least key of them; nothing if the part can still grow.
    fn split(
        tree: &mut Self::Tree,
        nodes: &Self::Nodes,
    ) -> Result<Option<(K, Self::Tree)>, PlacementError>;

    /// Copies entries from `from` on, in order, up to `most` of them. Each leaf that is read may
    /// be noted.
    fn collect(
        tree: &Self::Tree,
        nodes: &Self::Nodes,
        from: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    );

    /// The same down from `to`, against the order.
    fn collect_back(
        tree: &Self::Tree,
        nodes: &Self::Nodes,
        to: Bound<&K>,
        most: usize,
        note: &mut dyn FnMut() -> Option<Noting>,
        out: &mut Vec<(K, V)>,
    );

    /// Walks all nodes of a part, whose keys lie in these bounds: whether they are in order, in the
    /// memories that the rules allow, and reached once.
    fn check(
        tree: &Self::Tree,
        nodes: &Self::Nodes,
        bounds: (Option<&K>, Option<&K>),
        walk: &mut Walk,
    ) -> Result<(), String>;
}
