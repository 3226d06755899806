//! The greatest record at or below a key: for trees whose records stand for ranges of keys.
//!
//! Separators are cut short, so the leaf that covers a key may have only greater records; then the last
//! record of a leaf on its left is it. The answer counts only if all leaves that were passed are still the same:
//! a record may have come to one of them, and the one on its left have become another one by it.

use terrace_access::{Attempt, Edge, Retry};
use terrace_base::sync::spin_loop;
use terrace_pages::Optimistic;

use super::descend::{BAD_RECORD, Descent, PATIENCE};
use super::layout::{Node, Seen, Stored};
use crate::fault::{self, Fault, Point};

/// What was found; kept and refilled to spare allocations.
#[derive(Default)]
pub(crate) struct Predecessor {
    /// The record's key.
    pub key: Vec<u8>,
    /// Its inline value.
    pub value: Vec<u8>,
    /// No record has a key between this one's and that; `None` at the end of the tree. It may be below
    /// the key of the next record.
    pub next: Option<Vec<u8>>,
}

impl Descent {
    /// The greatest record with a key at most that of the edge (below it, or the last of all). False
    /// where there is none; nothing lies below the first leaf of a part. O(log n).
    ///
    /// # Errors
    /// `Miss` when a page is not in memory, `Conflict` when the tree changes all the time.
    pub(crate) fn floor(
        &self,
        edge: Edge<'_>,
        is_part: bool,
        out: &mut Predecessor,
    ) -> Attempt<bool> {
        for _ in 0..PATIENCE {
            match self.floor_once(edge, is_part, out) {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        Err(Retry::Conflict)
    }

    fn floor_once(&self, edge: Edge<'_>, is_part: bool, out: &mut Predecessor) -> Attempt<bool> {
        let first = self.descend(edge, 0)?.node;
        let mut low = match seen(&first, floor_in(&first, edge, true, out))? {
            None => {
                first.validate()?;
                return Ok(true);
            }
            Some(low) => low,
        };
        first.validate()?;
        // Leaves without a record between the first one and the answer: as a rule there is none.
        let mut passed: Vec<Optimistic<'_>> = Vec::new();
        let same = |passed: &[Optimistic<'_>]| {
            let all = [&first].into_iter().chain(passed);
            all.take(if fault::planted(Fault::PassedUnvalidated) {
                1
            } else {
                usize::MAX
            })
            .try_for_each(Optimistic::validate)
        };
        while !low.is_empty() {
            let edge = Edge::Below(&low);
            let leaf = self.descend(edge, 0)?.node;
            let next = seen(&leaf, floor_in(&leaf, edge, false, out))?;
            leaf.validate()?;
            match next {
                None => {
                    same(&passed)?;
                    return Ok(true);
                }
                // Each leaf on the left begins below the one before, or it is damaged.
                Some(next) if next < low => low = next,
                // Nothing lies below the first leaf of a part.
                Some(_) if is_part => break,
                Some(_) => return Err(leaf.torn(BAD_RECORD)),
            }
            passed.push(leaf);
            fault::reached(Point::Passing);
        }
        same(&passed)?;
        Ok(false)
    }
}

fn seen<T>(leaf: &Optimistic<'_>, seen: Seen<T>) -> Attempt<T> {
    seen.map_err(|_| leaf.torn(BAD_RECORD))
}

/// Takes the record from a leaf; or returns where the leaf begins, if it has none. What comes behind is
/// taken of the `first` leaf alone.
fn floor_in(
    leaf: &Optimistic<'_>,
    edge: Edge<'_>,
    first: bool,
    out: &mut Predecessor,
) -> Seen<Option<Vec<u8>>> {
    let node = Node::open(leaf.view())?;
    let place = match edge {
        Edge::From(key) => match node.find(key)? {
            Ok(i) => Some(i),
            Err(i) => i.checked_sub(1),
        },
        Edge::Below(key) => {
            let (Ok(i) | Err(i)) = node.find(key)?;
            i.checked_sub(1)
        }
        Edge::End => node.count.checked_sub(1),
    };
    if first {
        let after = place.map_or(0, |i| i + 1);
        out.next = if after < node.count {
            let mut next = out.next.take().unwrap_or_default();
            next.clear();
            node.append_key(after, &mut next)?;
            Some(next)
        } else {
            node.high()?
        };
    }
    let Some(i) = place else {
        return node.low().map(Some);
    };
    out.key.clear();
    node.append_key(i, &mut out.key)?;
    out.value.clear();
    if let Stored::Inline { at, len } = node.leaf_record(node.slot(i)?)?.value {
        node.view.append_to(at, len, &mut out.value)?;
    }
    Ok(None)
}
