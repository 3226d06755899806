//! The nodes of a Masstree in their slots, in three classes: leaves of entries, borders of entries
//! and layers, and inner nodes. The only file of this tree that deals with slots as such.

use crate::arena::Pool;
use crate::error::PlacementError;
use crate::heat::Heat;
use crate::id::{CLASSES, NodeId, Tier};
use crate::model::Model;
use crate::placed::Outcome;
use crate::tree::common::{Common, LEAF_CLASS, Origin, OwnedNode, Reserved};
use crate::tree::keys::KeyBytes;
use crate::tree::kind::{Making, Nodes};
use crate::tree::nodes::{INNER, LEAF};
use arrayvec::ArrayVec;

const BORDER_CLASS: u8 = 1;
const INNER_CLASS: u8 = 2;

/// Entries in the order of their words, none of which goes on below.
#[derive(Debug)]
pub struct Leaf<K, V> {
    pub words: ArrayVec<u64, LEAF>,
    pub keys: ArrayVec<K, LEAF>,
    pub vals: ArrayVec<V, LEAF>,
}

/// What a word of a border leads to.
#[derive(Debug)]
pub enum Below<K, V> {
    /// The only entry with this word.
    Entry(K, V),
    /// The layer of all entries with it.
    Layer(OwnedNode),
}

/// A leaf that has layers below it, or had.
#[derive(Debug)]
pub struct Border<K, V> {
    pub words: ArrayVec<u64, LEAF>,
    pub slots: ArrayVec<Below<K, V>, LEAF>,
}

/// Children, and between them the first word of the right one.
#[derive(Debug)]
pub struct Inner {
    pub words: ArrayVec<u64, { INNER - 1 }>,
    pub kids: ArrayVec<OwnedNode, INNER>,
}

impl<K, V> Leaf<K, V> {
    pub fn new() -> Self {
        Leaf {
            words: ArrayVec::new(),
            keys: ArrayVec::new(),
            vals: ArrayVec::new(),
        }
    }

    /// The same as a border.
    pub fn into_border(self) -> Border<K, V> {
        let entries = self.keys.into_iter().zip(self.vals);
        Border {
            words: self.words,
            slots: entries.map(|(key, val)| Below::Entry(key, val)).collect(),
        }
    }
}

impl<K, V> Below<K, V> {
    /// The layer.
    pub fn layer(&self) -> Option<&OwnedNode> {
        match self {
            Below::Layer(kid) => Some(kid),
            Below::Entry(..) => None,
        }
    }

    /// Whether it is a fast layer.
    pub fn is_fast(&self) -> bool {
        self.layer().is_some_and(|kid| kid.tier() == Tier::Fast)
    }
}

impl<K, V> Border<K, V> {
    pub fn new() -> Self {
        Border {
            words: ArrayVec::new(),
            slots: ArrayVec::new(),
        }
    }

    /// Whether it has a layer below it.
    pub fn has_layers(&self) -> bool {
        self.slots.iter().any(|slot| slot.layer().is_some())
    }
}

impl Inner {
    /// The place of the child that has a word.
    #[inline(always)]
    pub fn place(&self, word: u64) -> usize {
        self.words.partition_point(|w| *w <= word)
    }
}

/// Where a word is, or would be.
#[inline(always)]
pub fn search(words: &[u64], word: u64) -> Result<usize, usize> {
    let at = words.partition_point(|w| *w < word);
    match words.get(at) {
        Some(found) if *found == word => Ok(at),
        _ => Err(at),
    }
}

/// A node to be read.
pub enum Node<'a, K, V> {
    Leaf(&'a Leaf<K, V>),
    Border(&'a Border<K, V>),
    Inner(&'a Inner),
}

/// A node to be changed.
pub enum NodeMut<'a, K, V> {
    Leaf(&'a mut Leaf<K, V>),
    Border(&'a mut Border<K, V>),
    Inner(&'a mut Inner),
}

/// What a node was, out of its slot.
#[allow(clippy::large_enum_variant, reason = "it lives for one call")]
pub enum Taken<K, V> {
    Leaf(Leaf<K, V>),
    Border(Border<K, V>),
    Inner(Inner),
}

/// Room for a node of some class.
pub enum Room<'a, K, V> {
    Leaf(Reserved<'a, Leaf<K, V>>),
    Border(Reserved<'a, Border<K, V>>),
    Inner(Reserved<'a, Inner>),
}

impl<K, V> Room<'_, K, V> {
    /// The memory in which it is.
    pub fn tier(&self) -> Tier {
        match self {
            Room::Leaf(room) => room.tier(),
            Room::Border(room) => room.tier(),
            Room::Inner(room) => room.tier(),
        }
    }
}

/// All nodes of a map.
#[derive(Debug)]
pub struct MassNodes<K, V, M> {
    pub common: Common<M>,
    pub(super) keys: KeyBytes<K>,
    leaves: Pool<Leaf<K, V>>,
    borders: Pool<Border<K, V>>,
    inners: Pool<Inner>,
}

/// Does the same with the pool of a class.
macro_rules! each_pool {
    ($self:expr, $class:expr, $pool:ident => $act:expr) => {
        match $class {
            LEAF_CLASS => {
                let $pool = &$self.leaves;
                $act
            }
            BORDER_CLASS => {
                let $pool = &$self.borders;
                $act
            }
            _ => {
                let $pool = &$self.inners;
                $act
            }
        }
    };
}

impl<K, V, M: Model> MassNodes<K, V, M> {
    pub fn new(making: Making<M>) -> Result<Self, PlacementError>
    where
        K: 'static,
    {
        let (slots, sources) = (making.slots, making.sources);
        let rooms = [slots, slots, slots.div_ceil(8)];
        let heat = making.heat.then(|| {
            let mut classes = [0; CLASSES];
            classes[..rooms.len()].copy_from_slice(&rooms);
            Heat::new(classes)
        });
        Ok(MassNodes {
            common: Common::new(making.budget, making.births, heat, making.model),
            keys: KeyBytes::new(),
            leaves: Pool::new(LEAF_CLASS, rooms[0], sources.clone())?,
            borders: Pool::new(BORDER_CLASS, rooms[1], sources.clone())?,
            inners: Pool::new(INNER_CLASS, rooms[2], sources)?,
        })
    }

    fn bytes_of(id: NodeId) -> u64 {
        let bytes = match id.class() {
            LEAF_CLASS => Pool::<Leaf<K, V>>::STRIDE,
            BORDER_CLASS => Pool::<Border<K, V>>::STRIDE,
            _ => Pool::<Inner>::STRIDE,
        };
        bytes as u64
    }

    /// The node, without telling the model.
    #[inline(always)]
    pub fn node<'a>(&'a self, kid: &'a OwnedNode) -> Node<'a, K, V> {
        // SAFETY: the class says which pool made the slot; a child is the only owner, and who has
        // `&OwnedNode` excludes everyone with `&mut OwnedNode`.
        unsafe {
            match kid.id().class() {
                LEAF_CLASS => Node::Leaf(&*std::ptr::from_ref(self.leaves.get(&kid.slot()))),
                BORDER_CLASS => Node::Border(&*std::ptr::from_ref(self.borders.get(&kid.slot()))),
                _ => Node::Inner(&*std::ptr::from_ref(self.inners.get(&kid.slot()))),
            }
        }
    }

    /// The node, and the model hears of it.
    #[inline(always)]
    pub fn touch<'a>(&'a self, kid: &'a OwnedNode) -> Node<'a, K, V> {
        let id = kid.id();
        let at = each_pool!(self, id.class(), pool => pool.address(id));
        self.common.model.touch(id, at);
        self.node(kid)
    }

    /// The node, to be changed.
    #[inline(always)]
    pub fn node_mut<'a>(&'a self, kid: &'a mut OwnedNode) -> NodeMut<'a, K, V> {
        // SAFETY: as in `node`; `&mut OwnedNode` excludes all others for as long as the result
        // lives.
        unsafe {
            match kid.id().class() {
                LEAF_CLASS => NodeMut::Leaf(&mut *std::ptr::from_mut(
                    self.leaves.get_mut(&mut kid.slot()),
                )),
                BORDER_CLASS => NodeMut::Border(&mut *std::ptr::from_mut(
                    self.borders.get_mut(&mut kid.slot()),
                )),
                _ => NodeMut::Inner(&mut *std::ptr::from_mut(
                    self.inners.get_mut(&mut kid.slot()),
                )),
            }
        }
    }

    /// Takes room for a leaf.
    pub fn leaf_room(&self, origin: Origin) -> Result<Room<'_, K, V>, PlacementError> {
        let vacant = self.common.vacant(&self.leaves, true, origin)?;
        Ok(Room::Leaf(vacant))
    }

    /// Takes room for a border.
    pub fn border_room(&self, origin: Origin) -> Result<Room<'_, K, V>, PlacementError> {
        let vacant = self.common.vacant(&self.borders, false, origin)?;
        Ok(Room::Border(vacant))
    }

    /// Takes room for an inner node.
    pub fn inner_room(&self, origin: Origin) -> Result<Room<'_, K, V>, PlacementError> {
        let vacant = self.common.vacant(&self.inners, false, origin)?;
        Ok(Room::Inner(vacant))
    }

    /// The room becomes an empty node.
    pub fn fill(&self, room: Room<'_, K, V>) -> OwnedNode {
        match room {
            Room::Leaf(vacant) => self.common.fill(vacant, Leaf::new()),
            Room::Border(vacant) => self.common.fill(vacant, Border::new()),
            Room::Inner(vacant) => {
                let (words, kids) = (ArrayVec::new(), ArrayVec::new());
                self.common.fill(vacant, Inner { words, kids })
            }
        }
    }

    /// Takes a node out of its slot.
    pub fn take(&self, kid: OwnedNode) -> Taken<K, V> {
        let id = kid.id();
        self.common.gone(id, Self::bytes_of(id));
        self.take_slot(kid)
    }

    /// Takes a node out of its slot, whose heat another one gets that has its entries.
    pub fn take_for(&self, kid: OwnedNode, stays: NodeId) -> Taken<K, V> {
        let id = kid.id();
        self.common.replaced(id, stays, Self::bytes_of(id));
        self.take_slot(kid)
    }

    fn take_slot(&self, kid: OwnedNode) -> Taken<K, V> {
        // SAFETY: the class says which pool made the slot; a child is the only owner, and it ends
        // here.
        unsafe {
            match kid.id().class() {
                LEAF_CLASS => Taken::Leaf(self.leaves.take(kid.slot())),
                BORDER_CLASS => Taken::Border(self.borders.take(kid.slot())),
                _ => Taken::Inner(self.inners.take(kid.slot())),
            }
        }
    }
}

impl<K: Send + Sync, V: Send + Sync, M: Model> Nodes for MassNodes<K, V, M> {
    type Model = M;

    fn common(&self) -> &Common<M> {
        &self.common
    }

    fn kid_at<'a>(&'a self, kid: &'a OwnedNode, place: usize) -> Option<&'a OwnedNode> {
        match self.node(kid) {
            Node::Leaf(_) => None,
            Node::Border(border) => border.slots.get(place)?.layer(),
            Node::Inner(inner) => inner.kids.get(place),
        }
    }

    fn kid_at_mut<'a>(&'a self, kid: &'a mut OwnedNode, place: usize) -> Option<&'a mut OwnedNode> {
        match self.node_mut(kid) {
            NodeMut::Leaf(_) => None,
            NodeMut::Border(border) => match border.slots.get_mut(place)? {
                Below::Layer(kid) => Some(kid),
                Below::Entry(..) => None,
            },
            NodeMut::Inner(inner) => inner.kids.get_mut(place),
        }
    }

    fn each_kid(&self, kid: &OwnedNode, see: &mut dyn FnMut(usize, &OwnedNode)) {
        if kid.is_leaf() {
            return;
        }
        match self.node(kid) {
            Node::Leaf(_) => {}
            Node::Border(border) => {
                for (place, slot) in border.slots.iter().enumerate() {
                    if let Below::Layer(kid) = slot {
                        see(place, kid);
                    }
                }
            }
            Node::Inner(inner) => {
                for (place, kid) in inner.kids.iter().enumerate() {
                    see(place, kid);
                }
            }
        }
    }

    fn shift(&self, kid: &mut OwnedNode, to: Tier, bound: u64) -> Outcome {
        each_pool!(self, kid.id().class(), pool => {
            // SAFETY: the class says which pool made the slot.
            unsafe { self.common.shift(pool, kid, to, bound) }
        })
    }

    fn mix_up(&self, kid: &mut OwnedNode, place: usize) {
        match self.node_mut(kid) {
            NodeMut::Border(border) if place + 1 < border.slots.len() => {
                border.slots.swap(place, place + 1);
            }
            NodeMut::Inner(inner) if place + 1 < inner.kids.len() => {
                inner.kids.swap(place, place + 1);
            }
            _ => {}
        }
    }

    fn sizes() -> [u64; CLASSES] {
        let mut sizes = [0; CLASSES];
        for class in [LEAF_CLASS, BORDER_CLASS, INNER_CLASS] {
            sizes[class as usize] = Self::bytes_of(NodeId::new(Tier::Fast, class, 0));
        }
        sizes
    }

    fn live(&self) -> [[u64; 2]; CLASSES] {
        let mut live = [[0; 2]; CLASSES];
        for class in [LEAF_CLASS, BORDER_CLASS, INNER_CLASS] {
            live[class as usize] = each_pool!(self, class, pool => {
                [Tier::Fast, Tier::Slow].map(|tier| pool.live(tier))
            });
        }
        live
    }

    fn committed(&self) -> [u64; 2] {
        [Tier::Fast, Tier::Slow].map(|tier| {
            let of = |class| each_pool!(self, class, pool => pool.committed(tier));
            [LEAF_CLASS, BORDER_CLASS, INNER_CLASS].map(of).iter().sum()
        })
    }

    fn residence(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for tier in [Tier::Fast, Tier::Slow] {
            for class in [LEAF_CLASS, BORDER_CLASS, INNER_CLASS] {
                let (asked, wrong) = each_pool!(self, class, pool => pool.residence(tier));
                sum = (sum.0 + asked, sum.1 + wrong);
            }
        }
        sum
    }

    fn free(&self, kid: OwnedNode, kids: &mut Vec<OwnedNode>) {
        match self.take(kid) {
            Taken::Leaf(leaf) => leaf.keys.iter().for_each(|key| self.keys.goes(key)),
            Taken::Border(border) => {
                for slot in &border.slots {
                    match slot {
                        Below::Entry(key, _) => self.keys.goes(key),
                        // The border goes, and with it the other owner.
                        Below::Layer(kid) => kids.push(OwnedNode(kid.id())),
                    }
                }
            }
            Taken::Inner(inner) => kids.extend(inner.kids),
        }
    }
}
