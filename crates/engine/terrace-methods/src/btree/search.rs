//! Finding a key's place inside a node.
//!
//! All of it works on bytes that may change while they are read: whatever it finds is bounded by
//! the page, and every loop ends after as many steps as the node claims to have records.

use std::cmp::Ordering;

use terrace_access::Edge;
use terrace_base::PageId;
use terrace_pages::Torn;

use super::layout::{Node, Seen, head_of};
use crate::slotted::layout::RECORD_PREFETCHED;

/// Slots that are searched by parts: about the number in a leaf.
const FEW: usize = 160;
/// Parts of these.
const PARTS: usize = 8;
/// Slots on each side of the one where a head is guessed to be: of a thousand random ones it is that
/// close in 99 of 100 cases.
const AROUND: usize = 40;
/// Slots from one that is looked at to the next, there.
const STRIDE: usize = 2 * AROUND / PARTS;
/// Equal heads that are counted one by one.
const FEW_EQUAL: usize = 4;
/// Slots that are looked at one by one behind a place that is near, until the key is searched for.
const NEAR: usize = 6;

impl Node<'_> {
    /// First index whose key is at least `key` (`above`: greater than it), and whether one equals
    /// it. O(log records).
    #[inline]
    fn bound(&self, key: &[u8], above: bool) -> Seen<(usize, bool)> {
        if self.is_loose() && !self.has_prefix(key)? {
            return Ok((if self.unbounded { self.count } else { 0 }, false));
        }
        let suffix = key.get(self.prefix_len..).ok_or(Torn)?;
        let (mut low, mut high) = self.heads_equal_to(head_of(suffix, self.shift))?;
        let mut found = false;
        while low < high {
            let middle = (low + high) / 2;
            let slot = self.slot(middle)?;
            if self.is_leaf() {
                self.view.prefetch_behind(slot.offset(), RECORD_PREFETCHED);
            }
            let (at, len) = self.suffix_of(slot)?;
            match self.view.compare(at, len, suffix)? {
                Ordering::Less => low = middle + 1,
                Ordering::Greater => high = middle,
                Ordering::Equal if above => return Ok((middle + 1, true)),
                Ordering::Equal => {
                    found = true;
                    (low, high) = (middle, middle);
                }
            }
        }
        Ok((low, found))
    }

    /// The range of slots with this key head; if there is none, it is empty and where it would be.
    #[inline]
    fn heads_equal_to(&self, head: u32) -> Seen<(usize, usize)> {
        let (mut low, mut high) = if self.count > FEW {
            self.guess(head)?
        } else {
            (0, self.count)
        };
        while high - low > FEW {
            let middle = (low + high) / 2;
            if self.slot(middle)?.head() < head {
                low = middle + 1
            } else {
                high = middle
            }
        }
        // One slot of each part at a time, none depending on another: so the processor fetches the
        // cache lines of a page that it has not seen together, not one after the other.
        let step = (high - low).div_ceil(PARTS);
        if step > 1 {
            let mut below = 0;
            for part in 1..PARTS {
                let i = low + part * step;
                below += usize::from(i < high && self.slot(i.min(high - 1))?.head() < head);
            }
            high = high.min(low + (below + 1) * step);
            if below > 0 {
                low += below * step + 1;
            }
        }
        while low < high {
            let middle = (low + high) / 2;
            if self.slot(middle)?.head() < head {
                low = middle + 1
            } else {
                high = middle
            }
        }
        // Most often the run of equal heads is short.
        let mut end = low;
        while end < self.count && self.slot(end)?.head() == head {
            if end - low == FEW_EQUAL {
                return Ok((low, self.heads_end(end, head)?));
            }
            end += 1;
        }
        Ok((low, end))
    }

    /// Of a node with many records, a part in which the first one is that does not have a smaller head,
    /// or the end of which it is: by interpolation between the first and the last. Heads are bits of
    /// keys, and most often spread evenly. Halving waits for a cache line each time, of a page that the
    /// processor has not seen lately; this for the last slot, and then for some at once.
    #[inline]
    fn guess(&self, head: u32) -> Seen<(usize, usize)> {
        let last = self.count - 1;
        let (from, to) = (self.slot(0)?.head(), self.slot(last)?.head());
        if head <= from {
            return Ok((0, 0));
        }
        if head > to {
            return Ok((self.count, self.count));
        }
        // Not behind the last one, because `from < head <= to`.
        let place = (head - from) as usize * last / (to - from) as usize;
        let first = place.saturating_sub(AROUND);
        let seen = |part: usize| (first + part * STRIDE).min(last);
        let mut below = 0;
        for part in 0..=PARTS {
            below += usize::from(self.slot(seen(part))?.head() < head);
        }
        if below == 0 {
            return Ok((0, first));
        }
        let low = seen(below - 1) + 1;
        let high = if below > PARTS {
            self.count
        } else {
            seen(below)
        };
        Ok((low, high.max(low)))
    }

    /// First slot from `low` on with a greater head.
    #[cold]
    fn heads_end(&self, mut low: usize, head: u32) -> Seen<usize> {
        let mut high = self.count;
        while low < high {
            let middle = (low + high) / 2;
            if self.slot(middle)?.head() <= head {
                low = middle + 1
            } else {
                high = middle
            }
        }
        Ok(low)
    }

    /// Index of the record with this key (which the node covers), or where it would have to go.
    #[inline]
    pub fn find(&self, key: &[u8]) -> Seen<Result<usize, usize>> {
        let (i, found) = self.bound(key, false)?;
        Ok(if found { Ok(i) } else { Err(i) })
    }

    /// As [`Node::find`], of a key that is not in front of slot `near`, and most often not far behind it.
    /// `Torn` when it is in front of it all the same: then the keys are in no order.
    pub fn find_behind(&self, key: &[u8], near: usize) -> Seen<Result<usize, usize>> {
        let suffix = key.get(self.prefix_len..).ok_or(Torn)?;
        let head = head_of(suffix, self.shift);
        for i in near..near + NEAR {
            if i >= self.count {
                return Ok(Err(self.count));
            }
            let slot = self.slot(i)?;
            let order = match slot.head().cmp(&head) {
                Ordering::Equal => {
                    let (at, len) = self.suffix_of(slot)?;
                    self.view.compare(at, len, suffix)?
                }
                other => other,
            };
            match order {
                Ordering::Less => {}
                Ordering::Equal => return Ok(Ok(i)),
                Ordering::Greater => return Ok(Err(i)),
            }
        }
        match self.find(key)? {
            Ok(i) | Err(i) if i < near => Err(Torn),
            found => Ok(found),
        }
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
