//! What a structure shows of its nodes, and how one of them is moved: the border between the
//! engine and trees.

use crate::id::{CLASSES, NodeId, Tier};

/// The way from the root of a part to a node: its length, and the number of the child at each of
/// the first steps. B+trees and trees over numbers have no longer ones; what lies deeper is looked
/// for below the last node that is named.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Path(u128);

/// Bits of the length, before the steps.
const LEN_BITS: usize = 16;

impl Path {
    /// Steps that are named.
    pub const MOST: usize = 14;

    /// The root.
    pub const ROOT: Path = Path(0);

    /// The steps, also those that are not named.
    pub fn len(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    /// The steps that are named.
    pub fn named(self) -> usize {
        self.len().min(Self::MOST)
    }

    /// Whether it is the root.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// The number of the child at a step that is named.
    pub fn place(self, step: usize) -> usize {
        (self.0 >> (LEN_BITS + 8 * step) & 0xFF) as usize
    }

    /// The path of a child. With a place above 255, or below 65,535 steps, there is none.
    pub fn child(self, place: usize) -> Option<Path> {
        let len = self.len();
        if place > 255 || len == 0xFFFF {
            return None;
        }
        let step = match len < Self::MOST {
            true => (place as u128) << (LEN_BITS + 8 * len),
            false => 0,
        };
        Some(Path((self.0 | step) + 1))
    }

    /// The path of the parent.
    pub fn parent(self) -> Option<Path> {
        let last = self.len().checked_sub(1)?;
        let step = match last < Self::MOST {
            true => 0xFF << (LEN_BITS + 8 * last),
            false => 0,
        };
        Some(Path((self.0 & !step) - 1))
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
    /// This many nodes were moved.
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

    /// The parent of the node; none where it is the root, or is not there.
    fn above(&self, id: NodeId, path: Path) -> Option<NodeId>;

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
        let down = |p: Path, i| p.child(i);
        let named = (0..Path::MOST).try_fold(Path::ROOT, down).unwrap();
        let deep = (20..320).map(|i| i % 256).try_fold(named, down).unwrap();
        assert_eq!((deep.len(), deep.named()), (Path::MOST + 300, Path::MOST));
        let up = (0..300).try_fold(deep, |p, _| p.parent());
        assert_eq!(up, Some(named));
        assert!((0..Path::MOST).all(|i| deep.place(i) == i));
        assert_eq!(
            named.parent(),
            (0..Path::MOST - 1).try_fold(Path::ROOT, down)
        );
        assert_eq!(
            (named.child(256), deep.child(255).map(Path::len)),
            (None, Some(315))
        );
    }
}
