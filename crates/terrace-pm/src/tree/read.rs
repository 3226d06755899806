//! Gets: the buffer of the key's node, then its leaf, under the node's latch held shared (rule 14).

use std::cmp::Ordering;
use terrace_base::Result;

use super::Tree;
use crate::key::{Own, ValueOut, fingerprint};
use crate::last::Body;
use crate::leaf::{Leaf, compare};

impl<O: Own> Tree<O> {
    /// The value of a key.
    pub fn get(&self, key: &O) -> Result<Option<ValueOut>> {
        loop {
            let node = self.node(key)?;
            let body = node.body.read();
            if body.covers(key) {
                return Ok(self.look(&body, key));
            }
        }
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &O) -> Result<bool> {
        loop {
            let node = self.node(key)?;
            let body = node.body.read();
            if body.covers(key) {
                return Ok(self.find_value(&body, key).is_some());
            }
        }
    }

    /// The value of a key of this node.
    pub(crate) fn look(&self, body: &Body<O>, key: &O) -> Option<ValueOut> {
        self.find_value(body, key).map(|value| self.value_of(value))
    }

    fn find_value(&self, body: &Body<O>, key: &O) -> Option<u64> {
        if let Some(i) = self.find_buffered(body, key) {
            let entry = body.buffer.get(i);
            return (!entry.is_delete).then_some(entry.value);
        }
        let leaf = Leaf::new(&self.arena, body.leaves[body.leaf_of(key)])?;
        let mut read = 1;
        let slot = leaf.find(fingerprint(key.hash()), |k, v| {
            read += 1;
            compare(&self.arena, (k, v), key) == Ordering::Equal
        });
        self.arena.pm().has_read(read);
        Some(leaf.pair(slot?).1)
    }
}
