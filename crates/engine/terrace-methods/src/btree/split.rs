//! Splitting a node in two, its parents first where they are full.
//!
//! A leaf is split near the middle, where the separator is shortest; at the very end (or start)
//! when records come in order, so that sorted input fills pages. The root keeps its number: its
//! content moves to two new pages.

use terrace_access::{Attempt, Edge, Flags, Retry, Value, WriteGuard};
use terrace_base::{Error, PageId, max_key_bytes};
use terrace_pages::Exclusive;

use super::descend::{Pair, node_of, sound};
use super::image::{Item, Parts, Sizes, build, capacity, install, parts};
use super::insert::{How, InnerRoom, Put, inner_room, insert_inner};
use super::layout::{CHILD_BYTES, Extra, MAX_LEVEL, SLOT_BYTES, Shape, key_bytes};
use super::leaf::Counts;
use super::nodes::Nodes;
use crate::fault::{self, Fault};

/// Inserts in order, one after the other, that count as sorted input.
const RUN: u8 = 3;
/// Part of the records that may move to the new page for sorted input, when the separator does not
/// fit beside a full page.
const END_PART: usize = 4;
/// Separators are compared over this part of the records around the middle.
const NEAR_MIDDLE: usize = 8;
/// Fewest records for splitting an inner node at its end. Of fewer, a separator that is much shorter
/// counts for more than halves that are alike.
const MANY: usize = 8;

/// Length by which a separator counts as longer than another where there are few: between two fences of
/// the longest key a page of 4 KiB has room for one more of these, and each level above it would get
/// every one that comes. Where keys begin to be others there is a short one, which makes room for both.
fn long_separator(page_bytes: usize) -> usize {
    page_bytes / 16
}

/// What came of one split.
pub(crate) enum Step {
    Done,
    /// The parent must be split first.
    ParentFull,
}

/// Where a node is split.
pub(crate) struct SplitAt {
    /// Records that stay left.
    pub left: usize,
    /// First record on the right; for an inner node the one between moves up.
    pub right: usize,
    pub separator: Vec<u8>,
    /// Runs of sorted inserts that the right and the left page continue.
    pub runs: ((u8, u8), (u8, u8)),
}

impl Nodes {
    /// Splits the leaf that covers `key`, so that a record with this value fits sooner. The caller
    /// looks again whether it fits now. O(records), with full parents O(height × records).
    pub(crate) fn split(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Value<'_>,
        patient: bool,
    ) -> Attempt<()> {
        self.split_from(door, key, Some(value), 0, patient)
    }

    /// Splits the node on `lowest` that covers `key`, and above it what has to be.
    pub(crate) fn split_from(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Option<Value<'_>>,
        lowest: u8,
        patient: bool,
    ) -> Attempt<()> {
        let mut level = lowest;
        // Down and up again at most once per level, with some to spare for others' splits.
        for _ in 0..4 * MAX_LEVEL as u32 {
            let value = value.filter(|_| level == 0);
            match self.split_at(door, key, value, level, patient)? {
                Step::Done if level == lowest => return Ok(()),
                Step::Done => level -= 1,
                Step::ParentFull => level += 1,
            }
        }
        Err(Retry::Conflict)
    }

    fn split_at(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        value: Option<Value<'_>>,
        level: u8,
        patient: bool,
    ) -> Attempt<Step> {
        let pair = match self
            .descent()
            .latch(door, Edge::From(key), level, true, patient)
        {
            // Others made the tree lower; then nothing up here needs a split.
            Err(Retry::Conflict) if level > 0 => return Ok(Step::Done),
            other => other?,
        };
        let copy = pair.node.bytes().to_vec();
        let now = sound!(pair.node, parts(&copy))?;
        let cut = match value {
            // Since the leaf was found full, others may have taken records away.
            Some(value) if has_room(&pair.node, key, value)? => return Ok(Step::Done),
            Some(value) => {
                let runs = Counts::of(&pair.node)?.runs;
                leaf_cut(&now, key, value, runs)
            }
            None => inner_cut(&now, key),
        };
        let mut cut = match cut {
            Some(cut) => cut,
            // Since the inner node was found full, others have split it or merged its children, and
            // so few are left that there is nothing to split: it has room now.
            None if level > 0 => {
                let most = SLOT_BYTES + CHILD_BYTES + key_bytes(max_key_bytes(copy.len()));
                // Or else what needs the room would be back here at once, without end.
                return match now.items.is_empty() && now.node.reclaimable() >= most {
                    true => Ok(Step::Done),
                    false => Err(pair
                        .node
                        .torn("this node has no separator, and room for none")),
                };
            }
            None => {
                let what = format!(
                    "this leaf is full and cannot be split: {} records, {} bytes free, {} to be had, \
                     a key of {} bytes",
                    now.items.len(),
                    now.node.free(),
                    now.node.reclaimable(),
                    key.len()
                );
                return Err(pair.node.torn(&what));
            }
        };
        if fault::planted(Fault::HighSeparator) {
            cut.separator.push(0);
        }
        match pair.parent {
            Some(parent) => self.split_child(door, parent, pair.child, pair.node, &now, &cut),
            None => self.split_root(door, pair, &now, &cut),
        }
    }

    /// The two images that a node is split into.
    fn halves(
        &self,
        page: &Exclusive<'_>,
        now: &Parts<'_>,
        cut: &SplitAt,
        left_members: u32,
    ) -> Attempt<(Vec<u8>, Vec<u8>)> {
        let level = now.node.level;
        let (left_extra, right_extra) = if level == 0 {
            (Extra::Members(left_members), Extra::Members(self.birth()))
        } else {
            let first = sound!(page, now.node.child(0))?;
            let up = now
                .items
                .get(cut.left)
                .and_then(|item| item.payload.child());
            let Some(up) = up else {
                return Err(page.torn("a separator has no child"));
            };
            (Extra::FirstChild(first), Extra::FirstChild(up))
        };
        let separator = cut.separator.as_slice();
        let left = Shape {
            level,
            low: now.low,
            high: Some(separator),
            extra: left_extra,
        };
        let right = Shape {
            level,
            low: separator,
            high: now.high,
            extra: right_extra,
        };
        let mut images = (vec![0; page.bytes().len()], vec![0; page.bytes().len()]);
        let fits = build(&mut images.0, &left, &now.items[..cut.left], cut.runs.1)
            && build(&mut images.1, &right, &now.items[cut.right..], cut.runs.0);
        if fits {
            Ok(images)
        } else {
            Err(page.torn("the halves of a split do not fit"))
        }
    }

    pub(crate) fn split_child(
        &self,
        door: &WriteGuard<'_>,
        mut parent: Exclusive<'_>,
        child: usize,
        mut node: Exclusive<'_>,
        now: &Parts<'_>,
        cut: &SplitAt,
    ) -> Attempt<Step> {
        let room = inner_room(&parent, child, &cut.separator, PageId::NONE)?;
        if matches!(room, InnerRoom::None) {
            return Ok(Step::ParentFull);
        }
        let members = Counts::of(&node)?.members.wrapping_add(1);
        let (left, right) = self.halves(&node, now, cut, members)?;
        let mut sibling = self.allocate(door, now.node.level)?;
        self.install_new(&mut sibling, &right)?;
        install(node.change_all()?, &left);
        insert_inner(&mut parent, child, &cut.separator, sibling.pid(), room)?;
        Ok(Step::Done)
    }

    pub(crate) fn split_root(
        &self,
        door: &WriteGuard<'_>,
        pair: Pair<'_>,
        now: &Parts<'_>,
        cut: &SplitAt,
    ) -> Attempt<Step> {
        let mut root = pair.node;
        let level = now.node.level;
        if level == MAX_LEVEL {
            return Err(Error::invalid("a tree cannot be deeper than 63 levels").into());
        }
        let (left, right) = self.halves(&root, now, cut, self.birth())?;
        let mut left_page = self.allocate(door, level)?;
        let mut right_page = match self.allocate(door, level) {
            Ok(page) => page,
            Err(e) => {
                left_page.free();
                return Err(e);
            }
        };
        let shape = Shape {
            level: level + 1,
            low: &[],
            high: None,
            extra: Extra::FirstChild(left_page.pid()),
        };
        let mut image = vec![0; root.bytes().len()];
        let item = Item::inner(&cut.separator, right_page.pid());
        if !build(&mut image, &shape, &[item], (0, 0)) {
            left_page.free();
            right_page.free();
            return Err(root.torn("a separator does not fit into an empty page"));
        }
        self.install_new(&mut left_page, &left)?;
        self.install_new(&mut right_page, &right)?;
        install(root.change_all()?, &image);
        self.root_is_on(&mut root, level + 1)?;
        Ok(Step::Done)
    }
}

/// Whether a leaf has room for a record, by the very decision that found it full: any other would let
/// a page that miscounts its bytes be found full and roomy in turn, without end.
fn has_room(page: &Exclusive<'_>, key: &[u8], value: Value<'_>) -> Attempt<bool> {
    let node = node_of!(page)?;
    let place = sound!(page, node.find(key))?;
    let old = match place {
        Ok(i) => Some(sound!(
            page,
            node.slot(i).and_then(|slot| node.leaf_record(slot))
        )?),
        Err(_) => None,
    };
    let put = Put {
        key,
        value,
        flags: Flags::NONE,
        place,
        old,
        hole: None,
    };
    Ok(!matches!(put.plan(page)?, How::NoRoom(_)))
}

/// Whether a record with this key goes on with a run of sorted input at either end of a leaf: the page is
/// left full then.
pub(crate) fn in_order(page: &Exclusive<'_>, key: &[u8]) -> Attempt<bool> {
    let node = node_of!(page)?;
    let runs = Counts::of(page)?.runs;
    let place = sound!(page, node.find(key))?;
    Ok(runs.0 >= RUN && place == Err(node.count) || runs.1 >= RUN && place == Err(0))
}

/// Looks for the best boundary of a full leaf, for a record that is to come. `None` when there is
/// none, which cannot be as long as records keep to their limits.
fn leaf_cut(now: &Parts<'_>, key: &[u8], value: Value<'_>, runs: (u8, u8)) -> Option<SplitAt> {
    let new = Item::leaf(key, value, Flags::NONE);
    let place = now.node.find(key).ok()?;
    // The records as they will be; `left` and `right` of a cut count those that are there now.
    let mut all = now.items.clone();
    match place {
        Ok(i) => *all.get_mut(i)? = new,
        Err(i) => all.insert(i, new),
    }
    let old = |boundary: usize| match place {
        Err(i) if boundary > i => boundary - 1,
        _ => boundary,
    };
    let (sizes, old_sizes) = (Sizes::of(&all), Sizes::of(&now.items));
    let (count, room) = (all.len(), capacity(now.node.view.len()));
    let separator = |b: usize| all[b - 1].separator(&all[b]);
    let fits = |b: usize, with_new: bool| {
        let s = separator(b);
        let (sizes, b, count) = if with_new {
            (&sizes, b, count)
        } else {
            (&old_sizes, old(b), now.items.len())
        };
        sizes.node(0, b, now.low, Some(&s)) <= room && sizes.node(b, count, &s, now.high) <= room
    };
    let cut = |b: usize, runs: ((u8, u8), (u8, u8))| SplitAt {
        left: old(b),
        right: old(b),
        separator: separator(b),
        runs,
    };
    let none = ((0, 0), (0, 0));
    if count < 2 {
        return None;
    }
    if runs.0 >= RUN && place == Err(count - 1) {
        let found = (1.max(count - count / END_PART - 1)..count)
            .rev()
            .find(|&b| fits(b, true));
        if let Some(b) = found {
            return Some(cut(b, if b == count - 1 { (runs, (0, 0)) } else { none }));
        }
    }
    if runs.1 >= RUN && place == Err(0) {
        let found = (1..count.min(count / END_PART + 2)).find(|&b| fits(b, true));
        if let Some(b) = found {
            return Some(cut(b, if b == 1 { ((0, 0), runs) } else { none }));
        }
    }
    let middle = sizes.middle();
    let len = |b: usize| all[b - 1].separator_len(&all[b]);
    let shortest = if count < MANY {
        let long = long_separator(now.node.view.len());
        (1..count)
            .filter(|&b| fits(b, true))
            .min_by_key(|&b| (len(b) / long, b.abs_diff(middle)))
    } else {
        let near = count / NEAR_MIDDLE / 2;
        (middle.saturating_sub(near).max(1)..(middle + near + 1).min(count))
            .filter(|&b| fits(b, true))
            .min_by_key(|&b| (len(b), b.abs_diff(middle)))
    };
    if let Some(b) = shortest {
        return Some(cut(b, none));
    }
    let nearest = |with_new: bool| {
        (1..count)
            .filter(|&b| fits(b, with_new))
            .min_by_key(|&b| b.abs_diff(middle))
    };
    let b = nearest(true).or_else(|| nearest(false))?;
    Some(cut(b, none))
}

/// Looks for the separator of a full inner node that moves up.
fn inner_cut(now: &Parts<'_>, key: &[u8]) -> Option<SplitAt> {
    let count = now.items.len();
    let place = now.node.child_for(key).ok()?;
    let last = count.checked_sub(1)?;
    let up = if count < MANY {
        // So that there is as much room as can be where the next one comes: a node of two or three long
        // separators would be full again at once, and the one above it with the next split.
        let middle = if place * 2 < count {
            last / 2
        } else {
            count / 2
        };
        let long = long_separator(now.node.view.len());
        (0..count).min_by_key(|&i| (now.items[i].key_len() / long, i.abs_diff(middle)))?
    } else if place == count {
        last
    } else if place == 0 {
        0
    } else {
        let middle = Sizes::of(&now.items).middle().min(last);
        let near = count / NEAR_MIDDLE / 2;
        (middle.saturating_sub(near)..(middle + near + 1).min(count))
            .min_by_key(|&i| (now.items[i].key_len(), i.abs_diff(middle)))?
    };
    let separator = now.items.get(up)?.key();
    Some(SplitAt {
        left: up,
        right: up + 1,
        separator,
        runs: ((0, 0), (0, 0)),
    })
}
