//! A full leaf of a cold tier: it shares with a neighbour before it is split, and three that are full become
//! four.
//!
//! What a load has left in the hot tier goes down for the first time while others read, a few records to
//! each cold leaf, and after that hardly any record is new there. A leaf that is split in two for that stays
//! half empty for good: the data file is longer and scans read more.
//!
//! Invariant: all leaves and the parent are latched before anything is changed, and from the first change
//! on nothing can fail.

use terrace_access::{Attempt, Edge, Flags, Retry, Value, WriteGuard};
use terrace_base::PageId;
use terrace_pages::Exclusive;

use super::descend::{Pair, node_of, sound};
use super::image::{Item, Sizes, build, capacity, install, parts};
use super::insert::rebuilt_inner;
use super::layout::{Extra, Shape};
use super::leaf::Counts;
use super::nodes::Nodes;
use super::remove::APART;
use super::spill::Worth;
use super::split::in_order;

impl Nodes {
    /// Makes room in the full cold leaf that covers `key` for a record with this value, together with its
    /// neighbours. Returns whether it did; where not, the leaf is to be split alone. `asks` says whether to
    /// read one that is not in memory. O(records).
    ///
    /// # Errors
    /// `Miss` when a neighbour has to be read for that, once: if it has left memory again by the next
    /// call, it is done without.
    pub(crate) fn share(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Value<'_>,
        asks: &dyn Fn(PageId) -> bool,
    ) -> Attempt<bool> {
        let mut pair = match self.descent().latch(door, Edge::From(key), 0, true, false) {
            Err(Retry::Conflict) => return Ok(false),
            other => other?,
        };
        if in_order(&pair.node, key)? {
            return Ok(false);
        }
        for on_the_left in [true, false] {
            pair = match self.neighbours(door, pair, on_the_left)? {
                Err(pair) => pair,
                Ok(n) => match self.level_out(n, key, value, Worth::Sharing)? {
                    None => return Ok(true),
                    Some(n) => n.let_go(on_the_left),
                },
            };
        }
        if let Some(pid) = self.to_be_read(&pair, asks)? {
            return Err(Retry::Miss(pid));
        }
        self.split_together(door, pair, key, value)
    }

    /// A neighbour that is not in memory, and is asked for.
    fn to_be_read(
        &self,
        pair: &Pair<'_>,
        asks: &dyn Fn(PageId) -> bool,
    ) -> Attempt<Option<PageId>> {
        let Some(parent) = pair.parent.as_ref().filter(|_| !self.leads()) else {
            return Ok(None);
        };
        let above = node_of!(parent)?;
        for other in [pair.child.checked_sub(1), Some(pair.child + 1)] {
            let Some(other) = other.filter(|&other| other < above.children()) else {
                continue;
            };
            let pid = sound!(parent, above.child(other))?;
            let store = self.descent().store();
            if store.exists(pid) && !store.is_resident(pid) && asks(pid) {
                return Ok(Some(pid));
            }
        }
        Ok(None)
    }

    /// Splits a full leaf together with those beside it that can be had: two in three, three in four. Returns
    /// whether it did. O(records + entries of the parent).
    fn split_together(
        &self,
        door: &WriteGuard<'_>,
        pair: Pair<'_>,
        key: &[u8],
        value: Value<'_>,
    ) -> Attempt<bool> {
        let Pair {
            parent: Some(parent),
            child,
            node,
        } = pair
        else {
            return Ok(false);
        };
        let above = node_of!(parent)?;
        let first = child.saturating_sub(1);
        let last = (child + 1).min(above.children().saturating_sub(1));
        let (mut pages, mut begins) = (Vec::with_capacity(4), child);
        for at in first..child {
            let pid = sound!(parent, above.child(at))?;
            if let Some(page) = self.descent().try_neighbour(door, pid, 0)? {
                pages.push(page);
                begins = at;
            }
        }
        pages.push(node);
        for at in child + 1..=last {
            let pid = sound!(parent, above.child(at))?;
            if let Some(page) = self.descent().try_neighbour(door, pid, 0)? {
                pages.push(page);
            }
        }
        if pages.len() < 2 {
            return Ok(false);
        }
        let group = Group {
            parent,
            begins,
            pages,
        };
        self.split_group(door, group, key, value)
    }

    /// Spreads the records of these leaves evenly over one more. Returns false, with nothing changed, if they
    /// cannot be divided so that the new record fits wherever it belongs, or the parent has no room.
    fn split_group(
        &self,
        door: &WriteGuard<'_>,
        group: Group<'_>,
        key: &[u8],
        value: Value<'_>,
    ) -> Attempt<bool> {
        let Group {
            mut parent,
            begins,
            mut pages,
        } = group;
        let page_bytes = self.descent().store().page_bytes();
        let copies: Vec<Vec<u8>> = pages.iter().map(|page| page.bytes().to_vec()).collect();
        let mut leaves = Vec::with_capacity(copies.len());
        for (page, copy) in pages.iter().zip(&copies) {
            leaves.push(sound!(page, parts(copy))?);
        }
        for (page, two) in pages.iter().skip(1).zip(leaves.windows(2)) {
            if two[0].high != Some(two[1].low) {
                return Err(page.torn(APART));
            }
        }
        let (low, high) = (leaves[0].low, leaves[leaves.len() - 1].high);
        let items: Vec<Item<'_>> = leaves
            .iter()
            .flat_map(|leaf| &leaf.items)
            .copied()
            .collect();
        let new = Sizes::of(&[Item::leaf(key, value, Flags::NONE)]).records(0, 1, 0);
        let sizes = Sizes::of(&items);
        let Some(cuts) = even_cuts(&sizes, items.len(), pages.len() + 1) else {
            return Ok(false);
        };
        let separators: Vec<Vec<u8>> = cuts
            .iter()
            .map(|&at| items[at - 1].separator(&items[at]))
            .collect();
        let mut images = Vec::with_capacity(pages.len() + 1);
        for i in 0..=pages.len() {
            let from = if i == 0 { 0 } else { cuts[i - 1] };
            let to = cuts.get(i).copied().unwrap_or(items.len());
            let shape = Shape {
                level: 0,
                low: if i == 0 { low } else { &separators[i - 1] },
                high: separators.get(i).map(Vec::as_slice).or(high),
                extra: Extra::Members(match i.checked_sub(1) {
                    // The new page comes behind the first one.
                    Some(0) => self.birth(),
                    Some(old) => Counts::of(&pages[old])?.members.wrapping_add(1),
                    None => Counts::of(&pages[0])?.members.wrapping_add(1),
                }),
            };
            let mut image = vec![0; page_bytes];
            if sizes.node(from, to, shape.low, shape.high) + new > capacity(page_bytes)
                || !build(&mut image, &shape, &items[from..to], (0, 0))
            {
                return Ok(false);
            }
            images.push(image);
        }
        let mut fresh = self.allocate(door, 0)?;
        let children: Vec<PageId> = std::iter::once(fresh.pid())
            .chain(pages[1..].iter().map(|page| page.pid()))
            .collect();
        let above = match parent_of_more(&parent, begins, &separators, &children) {
            Ok(Some(above)) => above,
            none => {
                fresh.free();
                return none.map(|_| false);
            }
        };
        self.install_new(&mut fresh, &images[1])?;
        install(parent.change_all()?, &above);
        images.remove(1);
        for (page, image) in pages.iter_mut().zip(&images) {
            install(page.change_all()?, image);
        }
        Ok(true)
    }
}

/// Neighbouring leaves, from child `begins` of their parent on, all latched.
struct Group<'d> {
    parent: Exclusive<'d>,
    begins: usize,
    pages: Vec<Exclusive<'d>>,
}

/// Where `records` records are cut into `parts` parts that are about alike; `None` where there are too few.
fn even_cuts(sizes: &Sizes<'_>, records: usize, parts: usize) -> Option<Vec<usize>> {
    let all = sizes.records(0, records, 0);
    let mut cuts = Vec::with_capacity(parts - 1);
    let mut at = 0;
    for part in 1..parts {
        let wanted = all * part / parts;
        at = (at + 1..records).find(|&i| sizes.records(0, i, 0) >= wanted)?;
        cuts.push(at);
    }
    Some(cuts)
}

/// The parent of a group of leaves once there is one more: what is between them are these separators, each
/// with the child behind it. `None` where it has no room.
fn parent_of_more(
    parent: &Exclusive<'_>,
    begins: usize,
    separators: &[Vec<u8>],
    children: &[PageId],
) -> Attempt<Option<Vec<u8>>> {
    let now = sound!(parent, parts(parent.bytes()))?;
    let mut items = now.items;
    let more = separators.iter().zip(children);
    let more = more.map(|(separator, child)| Item::inner(separator, *child));
    let until = begins + separators.len() - 1;
    if until > items.len() {
        return Err(parent.torn("an entry vanished under the latch"));
    }
    items.splice(begins..until, more);
    rebuilt_inner(parent, now.low, now.high, &items)
}
