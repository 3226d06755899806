//! A leaf at random, from which the number of records is estimated (Knuth's estimator: the product
//! of the numbers of children on a random way down is, on average, the number of leaves).

use terrace_access::Attempt;

use super::descend::{Descent, node_of, sound};

impl Descent {
    /// Goes down to a leaf, at every node to one of its children as `random` has it. Returns the
    /// product of the numbers of children on the way, and a key that the leaf covers. O(height).
    ///
    /// # Errors
    /// `Miss` when a page is not in memory.
    pub(crate) fn random_leaf(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.random_way(random, 0)
    }

    /// The same, but only down to this level: the product with the number of children there, and a key that
    /// the last node covers.
    pub(crate) fn random_way(
        &self,
        random: &mut dyn FnMut() -> u32,
        last: u8,
    ) -> Attempt<(f64, Vec<u8>)> {
        let mut node = self.root_shared()?;
        let mut leaves = 1.0;
        loop {
            let now = node_of!(node)?;
            if now.is_leaf() {
                return Ok((leaves, sound!(node, now.low())?));
            }
            let (level, children) = (now.level, now.children());
            if level <= last {
                return Ok((leaves * children as f64, sound!(node, now.low())?));
            }
            let child = sound!(node, now.child(random() as usize % children))?;
            leaves *= children as f64;
            node = self.shared_below(&node, child)?;
        }
    }
}
