//! All nodes in a table, and what a rival is told of them.

use terrace_place::{CLASSES, NodeId, Tier};

/// A placement that only counts.
pub trait Rival: Send {
    /// All nodes of the tree so far are in the table; this many bytes may be fast.
    fn settle(&mut self, table: &Table, fast_bytes: u64);

    /// A node has been touched; `missing` if a cache of the processor would not have it.
    fn touch(&mut self, table: &Table, node: u32, missing: bool);

    /// An operation has ended.
    fn tick(&mut self, table: &Table);

    /// Where a node lies.
    fn tier(&self, table: &Table, node: u32) -> Tier;

    /// Nodes that have moved.
    fn moves(&self) -> u64;
}

/// All nodes in the order in which they were made.
#[derive(Debug, Default)]
pub struct Table {
    /// By class and index: the number of the node.
    numbers: [Vec<u32>; CLASSES],
    nodes: Vec<Entry>,
    next: u64,
    /// Bytes of nodes that are there.
    live: u64,
    /// By class, addresses of nodes that were freed: the next ones of that class come there, as an
    /// allocator has it.
    free: [Vec<u64>; CLASSES],
}

/// A node of the table.
#[derive(Debug, Clone, Copy)]
pub struct Entry {
    /// The first address.
    pub address: u64,
    /// Its bytes.
    pub bytes: u32,
    /// Whether it has no children.
    pub leaf: bool,
    /// It was freed.
    pub gone: bool,
}

impl Table {
    /// A node was made.
    pub fn born(&mut self, id: NodeId, bytes: usize) {
        let numbers = &mut self.numbers[id.class() as usize];
        let at = id.index() as usize;
        if numbers.len() <= at {
            numbers.resize(at + 1, u32::MAX);
        }
        numbers[at] = self.nodes.len() as u32;
        let address = self.free[id.class() as usize].pop().unwrap_or(self.next);
        self.nodes.push(Entry {
            address,
            bytes: bytes as u32,
            leaf: id.class() == 0,
            gone: false,
        });
        if address == self.next {
            self.next += bytes as u64;
        }
        self.live += bytes as u64;
    }

    /// A node was freed.
    pub fn gone(&mut self, id: NodeId) {
        let numbers = &mut self.numbers[id.class() as usize];
        let Some(number) = numbers.get_mut(id.index() as usize) else {
            return;
        };
        let number = std::mem::replace(number, u32::MAX);
        if let Some(entry) = self.nodes.get_mut(number as usize) {
            entry.gone = true;
            self.live -= u64::from(entry.bytes);
            self.free[id.class() as usize].push(entry.address);
        }
    }

    /// The number of a node.
    pub fn number(&self, id: NodeId) -> Option<u32> {
        let number = *self.numbers[id.class() as usize].get(id.index() as usize)?;
        (number != u32::MAX).then_some(number)
    }

    /// A node by its number.
    pub fn node(&self, number: u32) -> Option<&Entry> {
        self.nodes.get(number as usize)
    }

    /// Nodes that were made.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Addresses up to this one have been used.
    pub fn reach(&self) -> u64 {
        self.next
    }

    /// Bytes of all that are there.
    pub fn bytes(&self) -> u64 {
        self.live
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_freed_is_not_counted_and_its_address_comes_again() {
        let mut table = Table::default();
        let id = |class, index| NodeId::new(Tier::Fast, class, index);
        table.born(id(0, 0), 40);
        table.born(id(1, 0), 100);
        table.gone(id(0, 0));
        assert_eq!((table.number(id(0, 0)), table.bytes()), (None, 100));
        assert!(table.node(0).unwrap().gone);
        // The same slot is another node; one of another class goes elsewhere.
        table.born(id(1, 1), 100);
        table.born(id(0, 0), 40);
        assert_eq!(table.number(id(0, 0)), Some(3));
        let address = |number| table.node(number).unwrap().address;
        assert_eq!([0, 1, 2, 3].map(address), [0, 40, 140, 0]);
        assert_eq!((table.bytes(), table.reach(), table.len()), (240, 240, 4));
        table.gone(id(2, 7));
    }
}
