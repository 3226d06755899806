//! What the sweep of a hot tier does to leaves: visit one, pack one into its predecessor.

use terrace_access::{Attempt, Edge, RecordPage, Retry, WriteGuard};
use terrace_base::sync::spin_loop;
use terrace_pages::Exclusive;

use super::descend::{Descent, OUTSIDE, PATIENCE, node_of, sound};
use super::image::{Sizes, build, capacity, install, parts};
use super::layout::Shape;
use super::leaf::{Counts, LeafPage};
use super::nodes::Nodes;
use super::remove::{Neighbours, drop_separator};
use crate::FULL;

/// Part of a page that packing must move, unless it empties the leaf, to be worth rewriting both.
const WORTH_PACKING: usize = 32;
/// The same for closing up, where the pages may have to be written for it alone.
const WORTH_CLOSING_UP: usize = 10;
/// Most leaves that are closed up at once.
const CLOSE_UP_LEAVES: u32 = 8;

impl Descent {
    /// See [`terrace_access::Sweep::try_visit`]. O(log n), beside what `edit` does.
    pub(crate) fn visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        let mut tries = 0;
        let mut page = loop {
            match self.latch(door, Edge::From(position), 0, false, tries >= PATIENCE) {
                Ok(pair) => break pair.node,
                Err(Retry::Conflict) if tries < PATIENCE => {
                    tries += 1;
                    spin_loop();
                }
                Err(other) => return Err(other),
            }
        };
        edit(&mut LeafPage::new(&mut page))
    }
}

impl Nodes {
    /// See [`terrace_access::Sweep::try_pack`]. O(records).
    pub(crate) fn pack(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.pack_worth(door, position, fill, WORTH_PACKING, false)
    }

    /// See [`terrace_access::Ordered::try_compact`]. O(records).
    pub(crate) fn compact(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.pack_worth(door, position, fill, WORTH_CLOSING_UP, true)?;
        Ok(())
    }

    /// See [`terrace_access::Ordered::try_close_up`].
    pub(crate) fn close_up(
        &self,
        door: &WriteGuard<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        let (mut at, mut leaves, mut conflicts) = (from.to_vec(), 0, 0);
        while leaves < CLOSE_UP_LEAVES {
            match self.close_up_leaf(door, &at, conflicts >= PATIENCE) {
                Ok(Some(next)) if to.is_none_or(|to| next.as_slice() < to) => at = next,
                Ok(_) => return Ok(None),
                Err(Retry::Conflict) if conflicts < 2 * PATIENCE => {
                    conflicts += 1;
                    spin_loop();
                    continue;
                }
                Err(other) => return Err(other),
            }
            leaves += 1;
        }
        Ok(Some(at))
    }

    /// Closes up the leaf that covers `at`; the next one begins at what is returned.
    fn close_up_leaf(
        &self,
        door: &WriteGuard<'_>,
        at: &[u8],
        patient: bool,
    ) -> Attempt<Option<Vec<u8>>> {
        self.pack_worth(door, at, FULL, WORTH_CLOSING_UP, patient)?;
        let page = self
            .descent()
            .latch(door, Edge::From(at), 0, false, patient)?
            .node;
        let high = sound!(page, node_of!(page)?.high())?;
        match high.as_deref().is_none_or(|high| at < high) {
            true => Ok(high),
            false => Err(page.torn(OUTSIDE)),
        }
    }

    /// Packs, if it frees the leaf or moves one part in `worth` of a page.
    fn pack_worth(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        fill: f64,
        worth: usize,
        patient: bool,
    ) -> Attempt<bool> {
        let pair = self
            .descent()
            .latch(door, Edge::From(position), 0, true, patient)?;
        let Ok(n) = self.neighbours(door, pair, true)? else {
            return Ok(false);
        };
        let page_bytes = n.left.bytes().len();
        let most = (capacity(page_bytes) as f64 * fill.clamp(0.0, 1.0)) as usize;
        let used = |page: &Exclusive<'_>| {
            Ok::<_, Retry>(capacity(page_bytes) - node_of!(page)?.reclaimable())
        };
        let moved = (page_bytes / worth).min(used(&n.right)?);
        // One with nothing in it goes however full the other is.
        if node_of!(n.right)?.count > 0 && used(&n.left)? + moved > most {
            return Ok(false);
        }
        let (a, b) = (n.left.bytes().to_vec(), n.right.bytes().to_vec());
        let a = sound!(n.left, parts(&a))?;
        let b = sound!(n.right, parts(&b))?;
        let mut items = a.items;
        let had = items.len();
        items.extend_from_slice(&b.items);
        let sizes = Sizes::of(&items);
        if sizes.node(0, items.len(), a.low, b.high) <= most || items.len() == had {
            let members = Counts::of(&n.left)?.members.wrapping_add(1);
            let shape = Shape::leaf(a.low, b.high, members);
            let mut image = vec![0; page_bytes];
            if !build(&mut image, &shape, &items, (0, 0)) {
                return Ok(false);
            }
            let Neighbours {
                mut parent,
                entry,
                mut left,
                right,
            } = n;
            drop_separator(&mut parent, entry)?;
            install(left.change_all()?, &image);
            right.free();
            drop((left, parent));
            self.tidy_from(door, position, 1);
            return Ok(true);
        }
        // The most records that fit, by halving: more records only take more bytes.
        let separator = |keep: usize| items[keep - 1].separator(&items[keep]);
        let fits = |keep: usize| sizes.node(0, keep, a.low, Some(&separator(keep))) <= most;
        let (mut good, mut bad) = (had, items.len());
        while bad - good > 1 {
            let middle = (good + bad) / 2;
            if fits(middle) {
                good = middle
            } else {
                bad = middle
            }
        }
        if good == 0 || sizes.records(had, good, 0) < page_bytes / worth {
            return Ok(false);
        }
        self.divide(n, &items, good, &separator(good), a.low, b.high)?;
        Ok(false)
    }
}
