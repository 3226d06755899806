//! The nodes of a radix tree in their slots, in five classes: leaves of one entry, and inner nodes
//! with room for 4, 16, 48 and 256 children. The only file of this tree that deals with slots as
//! such.

use crate::arena::Pool;
use crate::error::PlacementError;
use crate::heat::Heat;
use crate::id::{CLASSES, NodeId, Tier};
use crate::model::Model;
use crate::placed::Outcome;
use crate::tree::common::{Common, LEAF_CLASS, Origin, OwnedNode, Reserved};
use crate::tree::keys::KeyBytes;
use crate::tree::kind::{Making, Nodes};
use arrayvec::ArrayVec;

/// Bytes of a prefix that a node holds; the rest of a longer one is in any key below.
pub const HELD: usize = 8;

/// Classes of inner nodes, by their room.
pub const ROOMS: [usize; 4] = [4, 16, 48, 256];

/// What all keys below a node share, behind what its place says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Head {
    /// How many bytes.
    pub len: u32,
    /// The first of them.
    pub bytes: [u8; HELD],
}

impl Head {
    /// A head of these bytes.
    pub fn of(bytes: &[u8]) -> Head {
        let mut head = Head {
            len: bytes.len() as u32,
            bytes: [0; HELD],
        };
        for (held, byte) in head.bytes.iter_mut().zip(bytes) {
            *held = *byte;
        }
        head
    }

    /// The bytes that are held.
    #[inline]
    pub fn held(&self) -> &[u8] {
        &self.bytes[..HELD.min(self.len as usize)]
    }

    /// This head, a byte, and the one behind it.
    pub fn join(&self, byte: u8, behind: &Head) -> Head {
        let mut all = ArrayVec::<u8, { 2 * HELD + 1 }>::new();
        all.extend(self.held().iter().copied());
        // A head that is longer than what it holds hides what comes behind.
        if self.len as usize <= HELD {
            all.push(byte);
            all.extend(behind.held().iter().copied());
        }
        Head {
            len: self.len + 1 + behind.len,
            ..Head::of(&all)
        }
    }
}

/// One entry.
#[derive(Debug)]
pub struct Leaf<K, V> {
    pub key: K,
    pub val: V,
}

/// Few children, in order.
#[derive(Debug)]
pub struct Small<const N: usize> {
    head: Head,
    bytes: ArrayVec<u8, N>,
    kids: ArrayVec<OwnedNode, N>,
}

/// Children in any order, and where that of each byte is.
#[derive(Debug)]
pub struct Middle {
    head: Head,
    /// One more than the place; 0: none.
    places: [u8; 256],
    kids: ArrayVec<OwnedNode, 48>,
}

/// A child for each byte.
#[derive(Debug)]
pub struct Large {
    head: Head,
    len: u16,
    kids: [OwnedNode; 256],
}

/// The name of no node: class 7 is not used.
const NONE: OwnedNode = OwnedNode(NodeId(u32::MAX));

impl OwnedNode {
    fn there(&self) -> Option<&OwnedNode> {
        (*self != NONE).then_some(self)
    }
}

/// An inner node, whatever its room.
pub trait Inner {
    /// What keys below share.
    fn head(&self) -> &Head;
    /// The same, to be changed.
    fn head_mut(&mut self) -> &mut Head;
    /// Children.
    fn len(&self) -> usize;
    /// Whether it has no room for another one.
    fn is_full(&self) -> bool;
    /// The child of a byte.
    fn find(&self, byte: u8) -> Option<&OwnedNode>;
    /// The same, to be changed.
    fn find_mut(&mut self, byte: u8) -> Option<&mut OwnedNode>;
    /// Adds a child; there is room, and none of this byte.
    fn add(&mut self, byte: u8, kid: OwnedNode);
    /// Takes a child out.
    fn take(&mut self, byte: u8) -> Option<OwnedNode>;
    /// Shows all children in order.
    fn each(&self, see: &mut dyn FnMut(u8, &OwnedNode));

    /// The first child and its byte.
    fn first(&self) -> Option<(u8, &OwnedNode)> {
        (0..=255).find_map(|byte| Some((byte, self.find(byte)?)))
    }

    /// Whether a child is fast.
    fn has_fast_kid(&self) -> bool {
        let mut fast = false;
        self.each(&mut |_, kid| fast |= kid.tier() == Tier::Fast);
        fast
    }
}

impl<const N: usize> Inner for Small<N> {
    fn head(&self) -> &Head {
        &self.head
    }
    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }
    fn len(&self) -> usize {
        self.kids.len()
    }
    fn is_full(&self) -> bool {
        self.kids.is_full()
    }
    #[inline]
    fn find(&self, byte: u8) -> Option<&OwnedNode> {
        let at = self.bytes.iter().position(|b| *b == byte)?;
        self.kids.get(at)
    }
    fn find_mut(&mut self, byte: u8) -> Option<&mut OwnedNode> {
        let at = self.bytes.iter().position(|b| *b == byte)?;
        self.kids.get_mut(at)
    }
    fn add(&mut self, byte: u8, kid: OwnedNode) {
        let at = self.bytes.partition_point(|b| *b < byte);
        self.bytes.insert(at, byte);
        self.kids.insert(at, kid);
    }
    fn take(&mut self, byte: u8) -> Option<OwnedNode> {
        let at = self.bytes.iter().position(|b| *b == byte)?;
        self.bytes.remove(at);
        Some(self.kids.remove(at))
    }
    fn each(&self, see: &mut dyn FnMut(u8, &OwnedNode)) {
        for (byte, kid) in self.bytes.iter().zip(&self.kids) {
            see(*byte, kid);
        }
    }
    fn first(&self) -> Option<(u8, &OwnedNode)> {
        Some((*self.bytes.first()?, self.kids.first()?))
    }
}

impl Inner for Middle {
    fn head(&self) -> &Head {
        &self.head
    }
    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }
    fn len(&self) -> usize {
        self.kids.len()
    }
    fn is_full(&self) -> bool {
        self.kids.is_full()
    }
    #[inline]
    fn find(&self, byte: u8) -> Option<&OwnedNode> {
        let place = usize::from(self.places[usize::from(byte)]);
        self.kids.get(place.checked_sub(1)?)
    }
    fn find_mut(&mut self, byte: u8) -> Option<&mut OwnedNode> {
        let place = usize::from(self.places[usize::from(byte)]);
        self.kids.get_mut(place.checked_sub(1)?)
    }
    fn add(&mut self, byte: u8, kid: OwnedNode) {
        self.kids.push(kid);
        self.places[usize::from(byte)] = self.kids.len() as u8;
    }
    fn take(&mut self, byte: u8) -> Option<OwnedNode> {
        let place = self.places[usize::from(byte)].checked_sub(1)?;
        self.places[usize::from(byte)] = 0;
        // The last one goes to its place.
        let last = self.kids.len() as u8;
        for other in &mut self.places {
            if *other == last {
                *other = place + 1;
            }
        }
        Some(self.kids.swap_remove(usize::from(place)))
    }
    fn each(&self, see: &mut dyn FnMut(u8, &OwnedNode)) {
        for byte in 0..=255 {
            if let Some(kid) = self.find(byte) {
                see(byte, kid);
            }
        }
    }
}

impl Inner for Large {
    fn head(&self) -> &Head {
        &self.head
    }
    fn head_mut(&mut self) -> &mut Head {
        &mut self.head
    }
    fn len(&self) -> usize {
        usize::from(self.len)
    }
    fn is_full(&self) -> bool {
        false
    }
    #[inline]
    fn find(&self, byte: u8) -> Option<&OwnedNode> {
        self.kids[usize::from(byte)].there()
    }
    fn find_mut(&mut self, byte: u8) -> Option<&mut OwnedNode> {
        let kid = &mut self.kids[usize::from(byte)];
        (*kid != NONE).then_some(kid)
    }
    fn add(&mut self, byte: u8, kid: OwnedNode) {
        self.kids[usize::from(byte)] = kid;
        self.len += 1;
    }
    fn take(&mut self, byte: u8) -> Option<OwnedNode> {
        let kid = std::mem::replace(&mut self.kids[usize::from(byte)], NONE);
        let there = kid != NONE;
        self.len -= u16::from(there);
        there.then_some(kid)
    }
    fn each(&self, see: &mut dyn FnMut(u8, &OwnedNode)) {
        for (byte, kid) in (0..=255).zip(&self.kids) {
            if let Some(kid) = kid.there() {
                see(byte, kid);
            }
        }
    }
}

/// A node to be read.
pub enum Node<'a, K, V> {
    Leaf(&'a Leaf<K, V>),
    Inner(&'a dyn Inner),
}

/// A node to be changed.
pub enum NodeMut<'a, K, V> {
    Leaf(&'a mut Leaf<K, V>),
    Inner(&'a mut dyn Inner),
}

/// Room for an inner node of some class.
pub enum Room<'a> {
    Small(Reserved<'a, Small<4>>),
    Large(Reserved<'a, Small<16>>),
    Middle(Reserved<'a, Middle>),
    All(Reserved<'a, Large>),
}

impl Room<'_> {
    /// The memory in which it is.
    pub fn tier(&self) -> Tier {
        match self {
            Room::Small(room) => room.tier(),
            Room::Large(room) => room.tier(),
            Room::Middle(room) => room.tier(),
            Room::All(room) => room.tier(),
        }
    }
}

/// All nodes of a map.
#[derive(Debug)]
pub struct ArtNodes<K, V, M> {
    pub common: Common<M>,
    pub(super) keys: KeyBytes<K>,
    leaves: Pool<Leaf<K, V>>,
    n4: Pool<Small<4>>,
    n16: Pool<Small<16>>,
    n48: Pool<Middle>,
    n256: Pool<Large>,
}

/// Does the same with the pool of a class.
macro_rules! each_pool {
    ($self:expr, $class:expr, $pool:ident => $act:expr) => {
        match $class {
            LEAF_CLASS => {
                let $pool = &$self.leaves;
                $act
            }
            1 => {
                let $pool = &$self.n4;
                $act
            }
            2 => {
                let $pool = &$self.n16;
                $act
            }
            3 => {
                let $pool = &$self.n48;
                $act
            }
            _ => {
                let $pool = &$self.n256;
                $act
            }
        }
    };
}

impl<K, V, M: Model> ArtNodes<K, V, M> {
    pub fn new(making: Making<M>) -> Result<Self, PlacementError>
    where
        K: 'static,
    {
        let Making {
            slots,
            sources,
            budget,
            births,
            heat,
            model,
        } = making;
        // A leaf has one entry here.
        let leaves = slots.saturating_mul(8);
        let rooms = [leaves, leaves / 2, leaves / 8, leaves / 16, leaves / 32];
        let heat = heat.then(|| {
            let mut classes = [0; CLASSES];
            classes[..rooms.len()].copy_from_slice(&rooms);
            Heat::new(classes)
        });
        Ok(ArtNodes {
            common: Common::new(budget, births, heat, model),
            keys: KeyBytes::new(),
            leaves: Pool::new(LEAF_CLASS, rooms[0], sources.clone())?,
            n4: Pool::new(1, rooms[1], sources.clone())?,
            n16: Pool::new(2, rooms[2], sources.clone())?,
            n48: Pool::new(3, rooms[3], sources.clone())?,
            n256: Pool::new(4, rooms[4], sources)?,
        })
    }

    fn sizes_of() -> [u64; CLASSES] {
        let sizes = [
            Pool::<Leaf<K, V>>::STRIDE,
            Pool::<Small<4>>::STRIDE,
            Pool::<Small<16>>::STRIDE,
            Pool::<Middle>::STRIDE,
            Pool::<Large>::STRIDE,
        ];
        std::array::from_fn(|class| sizes.get(class).map_or(0, |size| *size as u64))
    }

    /// The node, without telling the model.
    #[inline(always)]
    pub fn node<'a>(&'a self, kid: &'a OwnedNode) -> Node<'a, K, V> {
        // SAFETY: the class says which pool made the slot; a child is the only owner, and who has
        // `&OwnedNode` excludes everyone with `&mut OwnedNode`.
        unsafe {
            match kid.id().class() {
                LEAF_CLASS => Node::Leaf(&*std::ptr::from_ref(self.leaves.get(&kid.slot()))),
                1 => Node::Inner(&*std::ptr::from_ref(self.n4.get(&kid.slot()))),
                2 => Node::Inner(&*std::ptr::from_ref(self.n16.get(&kid.slot()))),
                3 => Node::Inner(&*std::ptr::from_ref(self.n48.get(&kid.slot()))),
                _ => Node::Inner(&*std::ptr::from_ref(self.n256.get(&kid.slot()))),
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
    pub fn node_mut<'a>(&'a self, kid: &'a mut OwnedNode) -> NodeMut<'a, K, V> {
        // SAFETY: as in `node`; `&mut OwnedNode` excludes all others for as long as the result
        // lives.
        unsafe {
            match kid.id().class() {
                LEAF_CLASS => NodeMut::Leaf(&mut *std::ptr::from_mut(
                    self.leaves.get_mut(&mut kid.slot()),
                )),
                1 => NodeMut::Inner(&mut *std::ptr::from_mut(self.n4.get_mut(&mut kid.slot()))),
                2 => NodeMut::Inner(&mut *std::ptr::from_mut(self.n16.get_mut(&mut kid.slot()))),
                3 => NodeMut::Inner(&mut *std::ptr::from_mut(self.n48.get_mut(&mut kid.slot()))),
                _ => NodeMut::Inner(&mut *std::ptr::from_mut(self.n256.get_mut(&mut kid.slot()))),
            }
        }
    }

    /// Takes room for a leaf.
    pub fn leaf_room(&self, origin: Origin) -> Result<Reserved<'_, Leaf<K, V>>, PlacementError> {
        self.common.vacant(&self.leaves, true, origin)
    }

    /// The room becomes a leaf.
    pub fn new_leaf(&self, room: Reserved<'_, Leaf<K, V>>, key: K, val: V) -> OwnedNode {
        self.common.fill(room, Leaf { key, val })
    }

    /// Takes room for an inner node with this many children.
    pub fn room(&self, kids: usize, origin: Origin) -> Result<Room<'_>, PlacementError> {
        let common = &self.common;
        Ok(match kids {
            ..=4 => Room::Small(common.vacant(&self.n4, false, origin)?),
            5..=16 => Room::Large(common.vacant(&self.n16, false, origin)?),
            17..=48 => Room::Middle(common.vacant(&self.n48, false, origin)?),
            _ => Room::All(common.vacant(&self.n256, false, origin)?),
        })
    }

    /// The room becomes an inner node without children.
    pub fn new_inner(&self, room: Room<'_>, head: Head) -> OwnedNode {
        let common = &self.common;
        match room {
            Room::Small(vacant) => common.fill(vacant, empty(head)),
            Room::Large(vacant) => common.fill(vacant, empty(head)),
            Room::Middle(vacant) => {
                let (places, kids) = ([0; 256], ArrayVec::new());
                common.fill(vacant, Middle { head, places, kids })
            }
            Room::All(vacant) => {
                let kids = [const { NONE }; 256];
                common.fill(vacant, Large { head, len: 0, kids })
            }
        }
    }

    /// Takes a leaf out of its slot.
    pub fn take_leaf(&self, kid: OwnedNode) -> Option<Leaf<K, V>> {
        if !kid.is_leaf() {
            return None;
        }
        self.common.gone(kid.id(), Self::sizes_of()[0]);
        // SAFETY: a child is the only owner of its slot, and it ends here.
        let leaf = unsafe { self.leaves.take(kid.slot()) };
        self.keys.goes(&leaf.key);
        Some(leaf)
    }

    /// Frees an inner node, whose children have been taken out.
    pub fn free_inner(&self, kid: OwnedNode) {
        let id = kid.id();
        if kid.is_leaf() {
            return;
        }
        self.common.gone(id, Self::sizes_of()[id.class() as usize]);
        // SAFETY: as above; an inner node without children owns nothing.
        unsafe {
            match id.class() {
                1 => drop(self.n4.take(kid.slot())),
                2 => drop(self.n16.take(kid.slot())),
                3 => drop(self.n48.take(kid.slot())),
                _ => drop(self.n256.take(kid.slot())),
            }
        }
    }

    /// Any leaf below a node.
    pub fn any_leaf<'a>(&'a self, kid: &'a OwnedNode) -> Option<&'a Leaf<K, V>> {
        let mut kid = kid;
        loop {
            match self.node(kid) {
                Node::Leaf(leaf) => return Some(leaf),
                Node::Inner(inner) => kid = inner.first()?.1,
            }
        }
    }
}

fn empty<const N: usize>(head: Head) -> Small<N> {
    Small {
        head,
        bytes: ArrayVec::new(),
        kids: ArrayVec::new(),
    }
}

impl<K: Send + Sync, V: Send + Sync, M: Model> Nodes for ArtNodes<K, V, M> {
    type Model = M;

    fn common(&self) -> &Common<M> {
        &self.common
    }

    fn kid_at<'a>(&'a self, kid: &'a OwnedNode, place: usize) -> Option<&'a OwnedNode> {
        match self.node(kid) {
            Node::Inner(inner) => inner.find(place as u8),
            Node::Leaf(_) => None,
        }
    }

    fn kid_at_mut<'a>(&'a self, kid: &'a mut OwnedNode, place: usize) -> Option<&'a mut OwnedNode> {
        match self.node_mut(kid) {
            NodeMut::Inner(inner) => inner.find_mut(place as u8),
            NodeMut::Leaf(_) => None,
        }
    }

    fn each_kid(&self, kid: &OwnedNode, see: &mut dyn FnMut(usize, &OwnedNode)) {
        if !kid.is_leaf()
            && let Node::Inner(inner) = self.node(kid)
        {
            inner.each(&mut |byte, kid| see(usize::from(byte), kid));
        }
    }

    fn shift(&self, kid: &mut OwnedNode, to: Tier, bound: u64) -> Outcome {
        each_pool!(self, kid.id().class(), pool => {
            // SAFETY: the class says which pool made the slot.
            unsafe { self.common.shift(pool, kid, to, bound) }
        })
    }

    fn mix_up(&self, kid: &mut OwnedNode, place: usize) {
        if let NodeMut::Inner(inner) = self.node_mut(kid) {
            let next = (place as u8..=255)
                .skip(1)
                .find(|b| inner.find(*b).is_some());
            if let Some(next) = next
                && let (Some(a), Some(b)) = (inner.take(place as u8), inner.take(next))
            {
                inner.add(place as u8, b);
                inner.add(next, a);
            }
        }
    }

    fn sizes() -> [u64; CLASSES] {
        Self::sizes_of()
    }

    fn live(&self) -> [[u64; 2]; CLASSES] {
        let mut live = [[0; 2]; CLASSES];
        for class in 0..=ROOMS.len() as u8 {
            live[class as usize] = each_pool!(self, class, pool => {
                [Tier::Fast, Tier::Slow].map(|tier| pool.live(tier))
            });
        }
        live
    }

    fn committed(&self) -> [u64; 2] {
        [Tier::Fast, Tier::Slow].map(|tier| {
            let of = |class| each_pool!(self, class, pool => pool.committed(tier));
            (0..=ROOMS.len() as u8).map(of).sum()
        })
    }

    fn residence(&self) -> (u64, u64) {
        let mut sum = (0, 0);
        for tier in [Tier::Fast, Tier::Slow] {
            for class in 0..=ROOMS.len() as u8 {
                let (asked, wrong) = each_pool!(self, class, pool => pool.residence(tier));
                sum = (sum.0 + asked, sum.1 + wrong);
            }
        }
        sum
    }

    fn free(&self, mut kid: OwnedNode, kids: &mut Vec<OwnedNode>) {
        if kid.is_leaf() {
            drop(self.take_leaf(kid));
            return;
        }
        if let NodeMut::Inner(inner) = self.node_mut(&mut kid) {
            kids.extend((0..=255).filter_map(|byte| inner.take(byte)));
        }
        self.free_inner(kid);
    }
}
