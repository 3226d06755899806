//! Finding a key's place inside a node.
//!
//! All of it works on bytes that may change while they are read: whatever it finds is bounded by
//! the page, and every loop ends after as many steps as the node claims to have records.

use std::cmp::Ordering;

use terrace_access::Edge;
use terrace_base::PageId;
use terrace_pages::Torn;

use super::layout::{Node, Seen, head_of};

impl Node<'_> {
    /// First index whose key is at least `key` (`above`: greater than it), and whether one equals
    /// it. O(log records).
    #[inline]
    fn bound(&self, key: &[u8], above: bool) -> Seen<(usize, bool)> {
        if self.is_loose() && !self.has_prefix(key)? {
            return Ok((if self.unbounded { self.count } else { 0 }, false));
        }
        let suffix = key.get(self.prefix_len..).ok_or(Torn)?;
        let head = head_of(suffix);
        let (mut low, mut high) = (0, self.count);
        let mut found = false;
        while low < high {
            let middle = (low + high) / 2;
            let slot = self.slot(middle)?;
            let order = match slot.head().cmp(&head) {
                Ordering::Equal => {
                    let (at, len) = self.suffix_of(slot)?;
                    self.view.compare(at, len, suffix)?
                }
                order => order,
            };
            match order {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal if above => return Ok((middle + 1, true)),
                Ordering::Equal => {
                    found = true;
                    high = middle;
                    low = middle;
                }
            }
        }
        Ok((low, found))
    }

    /// Index of the record with this key (which the node covers), or where it would have to go.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Seen<Result<usize, usize>> {
        let (i, found) = self.bound(key, false)?;
        Ok(if found { Ok(i) } else { Err(i) })
    }

    /// Number of the child that covers this key (which the node covers).
    #[inline]
    pub fn child_for(&self, key: &[u8]) -> Seen<usize> {
        Ok(self.bound(key, true)?.0)
    }

    /// Number of the child on the way to this edge.
    #[inline]
    pub fn child_towards(&self, edge: Edge<'_>) -> Seen<usize> {
        match edge {
            Edge::From(key) => self.child_for(key),
            // Every separator below the key has smaller keys on its right.
            Edge::Below(key) => Ok(self.bound(key, false)?.0),
            Edge::End => Ok(self.count),
        }
    }

    /// The child on the way to this edge, and its number.
    #[inline]
    pub fn step(&self, edge: Edge<'_>) -> Seen<(usize, PageId)> {
        let i = self.child_towards(edge)?;
        Ok((i, self.child(i)?))
    }
}
