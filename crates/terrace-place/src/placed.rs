//! What a structure shows of its nodes, and how one of them is moved: the border between the
//! engine and trees.

use crate::id::{CLASSES, NodeId, Tier};

/// The way from the root of a part to a node: the number of the child at each step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path(u128);

impl Path {
    /// The most steps that a path can have.
    pub const MOST: usize = 15;

    /// The root.
    pub const ROOT: Path = Path(0);

    /// The steps.
    pub fn len(self) -> usize {
        (self.0 & 0xFF) as usize
    }

    /// Whether it is the root.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number of the child at a step.
    pub fn place(self, step: usize) -> usize {
        (self.0 >> (8 * (step + 1)) & 0xFF) as usize
    }

    /// The path of a child. Longer than [`Path::MOST`] or with a place above 255 there is none.
    pub fn child(self, place: usize) -> Option<Path> {
        let len = self.len();
        (len < Self::MOST && place < 256)
            .then(|| Path((self.0 | (place as u128) << (8 * (len + 1))) + 1))
    }

    /// The path of the parent.
    pub fn parent(self) -> Option<Path> {
        let len = self.len();
        (len > 0).then(|| Path((self.0 & !(0xFF << (8 * len))) - 1))
    }
}

/// A node as a structure shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// Where it lies.
    pub id: NodeId,
    /// The way to it.
    pub path: Path,
    /// Whether it has no children.
    pub leaf: bool,
    /// Bytes of the slow nodes above it: what must be promoted before it.
    pub slow_above: u32,
}

/// What came of a move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// So many nodes were moved.
    Moved(u32),
    /// The node is in that memory already.
    There,
    /// There is another node at that place.
    Gone,
    /// No bytes, or no slot: some nodes above it may have been promoted.
    NoRoom(u32),
    /// It has fast children, which must leave first.
    Bound,
}

/// A part of a structure: nodes under one latch.
pub trait Placed {
    /// A number that changes when nodes come, go, or change their places.
    fn version(&self) -> u64;

    /// Shows every node once, in the order of keys, parents before children. Reads inner nodes
    /// only: the tier of a child is in its id.
    fn list(&self, see: &mut dyn FnMut(&Seen));

    /// Moves the node. To fast memory: with all slow nodes above it, these first, as long as the
    /// fast bytes stay below `bound`. To slow memory: if it has no fast children. What it leaves
    /// behind is true at every point: no fast node below a slow one.
    fn relocate(&mut self, id: NodeId, path: Path, to: Tier, bound: u64) -> Outcome;
}

/// A structure of many parts, each under a latch that the engine only tries.
pub trait Parts {
    /// What holds a part, also when it has left the structure.
    type Part;

    /// All parts, as they are now.
    fn parts(&self) -> Vec<Self::Part>;

    /// Reads a part, unless it is busy: whether it was not.
    fn read(&self, part: &Self::Part, see: &mut dyn FnMut(&dyn Placed)) -> bool;

    /// Changes a part, unless it is busy: whether it was not.
    fn write(&self, part: &Self::Part, change: &mut dyn FnMut(&mut dyn Placed)) -> bool;

    /// Bytes of a node, by class; 0 for classes that are not used.
    fn sizes(&self) -> [u64; CLASSES];

    /// Nodes that there are, by class.
    fn live(&self) -> [u64; CLASSES];

    /// Whether nodes of this class are leaves.
    fn is_leaf(&self, class: u8) -> bool;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_goes_down_and_up() {
        let path = Path::ROOT.child(3).unwrap().child(255).unwrap();
        assert_eq!((path.len(), path.place(0), path.place(1)), (2, 3, 255));
        assert_eq!(path.parent(), Path::ROOT.child(3));
        assert_eq!(path.parent().unwrap().parent(), Some(Path::ROOT));
        assert_eq!(Path::ROOT.parent(), None);
        let deep = (0..Path::MOST)
            .try_fold(Path::ROOT, |p, i| p.child(i))
            .unwrap();
        assert_eq!(deep.child(0), None);
    }
}
