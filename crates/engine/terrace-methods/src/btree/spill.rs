//! Moving records between neighbouring leaves: a full hot leaf spills into one with room, and the
//! sweep packs leaves leftwards.

use terrace_access::{Attempt, Edge, Flags, Retry, Value, WriteGuard};
use terrace_pages::Exclusive;

use super::descend::{node_of, sound};
use super::image::{Item, Sizes, build, capacity, install, parts};
use super::layout::Shape;
use super::leaf::Counts;
use super::nodes::Nodes;
use super::remove::{Neighbours, plan_separator, replace_separator};
use crate::fault::{self, Fault};

/// When it is worth rewriting three pages.
#[derive(Clone, Copy)]
pub(crate) enum Worth {
    /// A hot leaf spills.
    Spilling,
    /// The same above an index: with half of the room a load takes a twentieth longer, and the hot tier that it
    /// leaves is no better.
    SpillingRows,
    /// A cold leaf shares. That takes less room: a split is a page more for good, and what is to be shared again
    /// soon is a tenth of what is demoted.
    Sharing,
}

impl Worth {
    /// What must be free in both leaves together, beyond the new record.
    fn least_free(self, page_bytes: usize) -> usize {
        match self {
            Worth::Spilling => page_bytes / 10,
            Worth::SpillingRows => page_bytes / 5,
            Worth::Sharing => page_bytes / 30,
        }
    }
}

impl Nodes {
    /// Moves records from the full leaf that covers `key` to a neighbour with room, so that a record
    /// with this value fits. Returns whether it did. Best effort. O(records).
    pub(crate) fn spill(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Value<'_>,
        worth: Worth,
    ) -> Attempt<bool> {
        let mut pair = match self.descent().latch(door, Edge::From(key), 0, true, false) {
            Err(Retry::Conflict) => return Ok(false),
            other => other?,
        };
        for on_the_left in [false, true] {
            pair = match self.neighbours(door, pair, on_the_left)? {
                Err(pair) => pair,
                Ok(neighbours) => match self.level_out(neighbours, key, value, worth)? {
                    None => return Ok(true),
                    Some(neighbours) => neighbours.let_go(on_the_left),
                },
            };
        }
        Ok(false)
    }

    /// Spreads the records of two leaves, and the new one, evenly. Gives them back if there is not
    /// enough room for that to be worth it.
    pub(crate) fn level_out<'d>(
        &self,
        n: Neighbours<'d>,
        key: &[u8],
        value: Value<'_>,
        worth: Worth,
    ) -> Attempt<Option<Neighbours<'d>>> {
        let page_bytes = n.left.bytes().len();
        let new = Item::leaf(key, value, Flags::NONE);
        let free = node_of!(n.left)?.reclaimable() + node_of!(n.right)?.reclaimable();
        if free < Sizes::of(&[new]).records(0, 1, 0) + worth.least_free(page_bytes) {
            return Ok(Some(n));
        }
        let (a, b) = (n.left.bytes().to_vec(), n.right.bytes().to_vec());
        let a = sound!(n.left, parts(&a))?;
        let b = sound!(n.right, parts(&b))?;
        let mut all = a.items.clone();
        all.extend_from_slice(&b.items);
        let old_count = all.len();
        // Where the new record will be among all; its leaf has been found by the same separator.
        let before = a.high.is_some_and(|high| key < high);
        let found = if before {
            a.node.find(key)
        } else {
            b.node.find(key)
        };
        let found = sound!(n.left, found)?;
        let shift = if before { 0 } else { a.items.len() };
        let place = found.map(|i| i + shift).map_err(|i| i + shift);
        match place {
            Ok(i) => match all.get_mut(i) {
                Some(item) => *item = new,
                None => return Ok(Some(n)),
            },
            Err(i) => all.insert(i.min(old_count), new),
        }
        let sizes = Sizes::of(&all);
        let boundary = sizes.middle();
        if all.len() < 2 {
            return Ok(Some(n));
        }
        let separator = all[boundary - 1].separator(&all[boundary]);
        let room = capacity(page_bytes);
        let fits = sizes.node(0, boundary, a.low, Some(&separator)) <= room
            && sizes.node(boundary, all.len(), &separator, b.high) <= room;
        if !fits {
            return Ok(Some(n));
        }
        let keep = match place {
            Err(i) if boundary > i => boundary - 1,
            _ => boundary,
        };
        let mut items = a.items;
        items.extend_from_slice(&b.items);
        self.divide(n, &items, keep, &separator, a.low, b.high)
    }

    /// Gives the left leaf the first `keep` of these records and the right leaf the others, with
    /// this separator between them. Gives the leaves back, unchanged, if that does not fit.
    pub(crate) fn divide<'d>(
        &self,
        n: Neighbours<'d>,
        items: &[Item<'_>],
        keep: usize,
        separator: &[u8],
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Option<Neighbours<'d>>> {
        let Some(how) = plan_separator(&n.parent, n.entry, separator)? else {
            return Ok(Some(n));
        };
        let image = |page: &Exclusive<'_>, low: &[u8], high: Option<&[u8]>, items: &[Item<'_>]| {
            let members = Counts::of(page)?.members.wrapping_add(1);
            let shape = Shape::leaf(low, high, members);
            let mut image = vec![0; page.bytes().len()];
            Ok::<_, Retry>(build(&mut image, &shape, items, (0, 0)).then_some(image))
        };
        let left_high = if fault::planted(Fault::StaleFence) {
            sound!(n.left, node_of!(n.left)?.high())?
        } else {
            Some(separator.to_vec())
        };
        let left = image(&n.left, low, left_high.as_deref(), &items[..keep])?;
        let right = image(&n.right, separator, high, &items[keep..])?;
        let (Some(left), Some(right)) = (left, right) else {
            return Ok(Some(n));
        };
        let Neighbours {
            mut parent,
            entry,
            left: mut left_page,
            right: mut right_page,
        } = n;
        replace_separator(&mut parent, entry, separator, how)?;
        install(left_page.change_all()?, &left);
        install(right_page.change_all()?, &right);
        Ok(None)
    }
}
