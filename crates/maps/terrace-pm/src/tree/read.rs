//! Gets: the buffer of the key's node, then its leaf, under the node's latch held shared (rule 14).

use std::cmp::Ordering;
use terrace_base::Result;

use super::core::Tree;
use crate::arena::BlobRef;
use crate::faults::{Planted, planted};
use crate::key::{Own, ValueOut, fingerprint};
use crate::last::Body;
use crate::leaf::{Leaf, compare};

/// Lines of the pairs of a leaf.
const PAIR_LINES: u64 = 7;

impl<O: Own> Tree<O> {
    /// The value of a key.
    pub fn get(&self, key: &O) -> Result<Option<ValueOut>> {
        loop {
            let node = self.node(key)?;
            let body = node.body.read();
            if !body.covers(key) {
                continue;
            }
            if planted(Planted::ReadWithoutLatch)
                && self.find_buffered(&body, key, key.hash())?.is_none()
            {
                let number = body.leaves[body.leaf_of(key)];
                drop(body);
                let found = self.find_in_leaf(number, key, key.hash())?;
                return found.map(|value| self.value_of(key, value)).transpose();
            }
            return self.look(&body, key);
        }
    }

    /// Whether a key is there.
    pub fn contains(&self, key: &O) -> Result<bool> {
        loop {
            let node = self.node(key)?;
            let body = node.body.read();
            if body.covers(key) {
                return Ok(self.find_value(&body, key)?.is_some());
            }
        }
    }

    /// The value of a key of this node.
    pub(crate) fn look(&self, body: &Body<O>, key: &O) -> Result<Option<ValueOut>> {
        let found = self.find_value(body, key)?;
        found.map(|value| self.value_of(key, value)).transpose()
    }

    fn find_value(&self, body: &Body<O>, key: &O) -> Result<Option<u64>> {
        let hash = key.hash();
        body.read_ahead();
        let number = body.leaves[body.leaf_of(key)];
        // It comes from the medium while the buffer is searched: most keys are not there.
        if let Some(leaf) = Leaf::new(&self.arena, number) {
            leaf.read_ahead();
        }
        if let Some(i) = self.find_buffered(body, key, hash)? {
            self.arena.pm().has_read(1);
            let entry = body.buffer.get(i);
            return Ok((!entry.is_delete).then_some(entry.value));
        }
        self.find_in_leaf(number, key, hash)
    }

    fn find_in_leaf(&self, number: u32, key: &O, hash: u64) -> Result<Option<u64>> {
        let pm = self.arena.pm();
        pm.has_read(1);
        let Some(leaf) = Leaf::new(&self.arena, number) else {
            return Ok(None);
        };
        leaf.check_header(&self.arena)?;
        let mut read = 0;
        let mut not_whole = None;
        let slot = leaf.find(fingerprint(hash), |k, v| {
            read += 1;
            let is_it = compare(&self.arena, (k, v), key) == Ordering::Equal;
            if O::BYTES && !is_it && k == key.word() {
                // Another key with the same beginning, or this one, damaged.
                not_whole = not_whole.take().or(self.arena.whole_blob(BlobRef(v)).err());
            }
            is_it
        });
        pm.has_read(read);
        if let Some(slot) = slot {
            return Ok(Some(leaf.pair(slot).1));
        }
        if let Some(damage) = not_whole {
            return Err(damage);
        }
        // That a key is not there is said only of a leaf whose keys are what was written.
        pm.has_read(PAIR_LINES - read.min(PAIR_LINES));
        leaf.check_keys(&self.arena)?;
        Ok(None)
    }

    /// The number of a key's pair in the buffer; `hash` is that of the key.
    pub(crate) fn find_buffered(
        &self,
        body: &Body<O>,
        key: &O,
        hash: u64,
    ) -> Result<Option<usize>> {
        let mut not_whole = None;
        let found = body.buffer.find(key.word(), fingerprint(hash), |entry| {
            let is_it = compare(&self.arena, (entry.key, entry.value), key) == Ordering::Equal;
            if O::BYTES && !is_it && BlobRef(entry.value).hash() == hash >> 40 << 40 {
                // Its blob is all that tells it from an older pair in the leaf.
                not_whole = not_whole
                    .take()
                    .or(self.arena.whole_blob(BlobRef(entry.value)).err());
            }
            is_it
        });
        match (found, not_whole) {
            (None, Some(damage)) => Err(damage),
            (found, _) => Ok(found),
        }
    }
}
