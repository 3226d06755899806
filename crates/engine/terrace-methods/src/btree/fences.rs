//! Where leaves begin, and how many there are: read from their parents, without looking at them.

use terrace_access::{Attempt, Edge, Retry};
use terrace_base::sync::spin_loop;

use super::descend::{BAD_RECORD, Descent, PATIENCE};
use super::layout::{Node, Seen};

/// Separators of one parent of leaves.
struct Above {
    keys: Vec<Vec<u8>>,
    children: usize,
    high: Option<Vec<u8>>,
}

impl Descent {
    /// The low fences of at most `most` leaves that begin above `from` and below `to`. O(log n + leaves).
    ///
    /// # Errors
    /// `Miss` when a page is not in memory, `Conflict` when the tree changes all the time.
    pub(crate) fn leaf_fences(
        &self,
        from: &[u8],
        to: Option<&[u8]>,
        most: usize,
    ) -> Attempt<Vec<Vec<u8>>> {
        let (mut fences, mut at) = (Vec::new(), Some(from.to_vec()));
        while let Some(low) = at
            && fences.len() < most
            && to.is_none_or(|to| low.as_slice() < to)
        {
            let Some(above) = self.parent_at(&low, most)? else {
                break;
            };
            let all = above.keys.into_iter().chain(above.high.clone());
            for key in all {
                let is_wanted = key.as_slice() > from
                    && to.is_none_or(|to| key.as_slice() < to)
                    && fences.last().is_none_or(|last| *last < key);
                if is_wanted && fences.len() < most {
                    fences.push(key);
                }
            }
            at = above.high.filter(|high| *high > low);
        }
        Ok(fences)
    }

    /// How many leaves there are, or `most` where there are more. O(parents of leaves).
    ///
    /// # Errors
    /// As [`Descent::leaf_fences`].
    pub(crate) fn count_leaves(&self, most: usize) -> Attempt<usize> {
        let (mut leaves, mut at) = (0, Some(Vec::new()));
        while let Some(low) = at
            && leaves < most
        {
            let Some(above) = self.parent_at(&low, 0)? else {
                return Ok(1);
            };
            leaves += above.children;
            at = above.high.filter(|high| *high > low);
        }
        Ok(leaves.min(most))
    }

    /// The parent of the leaf that covers the key, with at most `most` of its separators, from this key
    /// on; `None` where the root is a leaf.
    fn parent_at(&self, key: &[u8], most: usize) -> Attempt<Option<Above>> {
        for _ in 0..PATIENCE {
            if self.try_height()? == 1 {
                return Ok(None);
            }
            let read = self.descend(Edge::From(key), 1).and_then(|way| {
                let above = take(&way.node.view(), key, most);
                let above = above.map_err(|_| way.node.torn(BAD_RECORD))?;
                way.node.validate()?;
                Ok(Some(above))
            });
            match read {
                Err(Retry::Conflict) => spin_loop(),
                other => return other,
            }
        }
        Err(Retry::Conflict)
    }
}

fn take(view: &terrace_pages::View<'_>, key: &[u8], most: usize) -> Seen<Above> {
    let node = Node::open(*view)?;
    let (Ok(first) | Err(first)) = match most {
        0 => Err(node.count),
        _ => node.find(key)?,
    };
    let last = first.saturating_add(most.saturating_add(1)).min(node.count);
    let mut keys = Vec::new();
    for i in first..last {
        let mut key = Vec::new();
        node.append_key(i, &mut key)?;
        keys.push(key);
    }
    // A part of the separators: who wants more goes on behind the last one.
    let high = match keys.last() {
        Some(last_key) if last < node.count => Some(last_key.clone()),
        _ => node.high()?,
    };
    Ok(Above {
        keys,
        children: node.children(),
        high,
    })
}
