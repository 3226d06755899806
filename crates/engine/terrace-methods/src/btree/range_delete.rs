//! Taking a range out of a tree: the leaves at its edges are rewritten, and everything between them goes with the
//! subtrees that it lies in, into a tree of its own.
//!
//! From the lowest node that covers both edges two ways lead down to the edges. What lies between the two
//! ways becomes the *part*: nodes of its own along both ways, and the subtrees between them as they are. What
//! is left and right of them stays, and meets at a new fence, the lower one of the leaf at the upper edge. So
//! with n levels at most 2n nodes are rewritten, and about as many made.
//!
//! Invariants: nothing is changed before everything is latched, made and built. Every node of both trees
//! covers what its parent says, and children tile their parents; where a node does not fit with its new fence it is
//! cut in two, as a split does.

use terrace_access::{Attempt, Edge, Flags, PreparedDelete, Retry, Value, WriteGuard};
use terrace_base::{Error, PageId};
use terrace_pages::Exclusive;

use super::BTree;
use super::descend::{BAD_LEVEL, Descent, node_of, sound};
use super::image::{Item, Parts, Payload, build, install, parts};
use super::layout::{Extra, MAX_LEVEL, Shape};
use super::leaf::Counts;
use crate::fault::{self, Fault};

/// A node to be named by its parent: it covers the keys from `low` on to the next one.
struct ChildRef {
    low: Vec<u8>,
    pid: PageId,
}

/// A latched node on a way down, and the child that the way goes on to.
struct Step<'d> {
    page: Exclusive<'d>,
    child: usize,
}

/// The nodes from the root on to the lowest one that covers both edges of a range, and from there on to each
/// edge.
struct Ways<'d> {
    above: Vec<Step<'d>>,
    /// The child towards the upper edge; none where the range goes on to the end of the tree.
    fork: Step<'d>,
    upper: Option<usize>,
    left: Vec<Step<'d>>,
    right: Vec<Step<'d>>,
}

/// A range that is about to be taken out.
pub(crate) struct RangeDelete<'d> {
    tree: &'d BTree,
    door: &'d WriteGuard<'d>,
    changed: Vec<(Exclusive<'d>, Vec<u8>)>,
    made: Vec<(Exclusive<'d>, Vec<u8>)>,
    part: Option<PageId>,
    /// Whether the record at the lower edge leaves an empty one in its place.
    leaves_gap: bool,
    /// About which part of all records goes.
    share: f64,
}

/// What else is to come of a range that is taken out.
#[derive(Clone, Copy, Default)]
pub(crate) struct Wanted {
    /// A page at which what is taken out begins, even if there is nothing.
    pub part: bool,
    /// An empty record in the place of the one at the lower edge, which goes.
    pub gap: bool,
}

impl Drop for RangeDelete<'_> {
    fn drop(&mut self) {
        self.made.drain(..).for_each(|(page, _)| page.free());
    }
}

/// This part of a node as one of all that lies below the first of those above it.
fn part_above(above: &[Step<'_>], mut part: f64) -> Attempt<f64> {
    for Step { page, .. } in above {
        part = part_of(part, node_of!(page)?.children());
    }
    Ok(part)
}

/// The children of an inner node, by their lower fences.
fn kids(page: &Exclusive<'_>, node: &Parts<'_>) -> Attempt<Vec<ChildRef>> {
    let first = ChildRef {
        low: node.low.to_vec(),
        pid: sound!(page, node.node.child(0))?,
    };
    let mut kids = vec![first];
    for item in &node.items {
        let pid = item.payload.child();
        let pid = pid.ok_or_else(|| page.torn(BAD_LEVEL))?;
        kids.push(ChildRef {
            low: item.key(),
            pid,
        });
    }
    Ok(kids)
}

impl BTree {
    /// See [`terrace_access::RangeDeletes::try_cut`]. O(height × records of a page).
    pub(crate) fn cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
        wanted: Wanted,
    ) -> Attempt<RangeDelete<'d>> {
        let mut cut = RangeDelete {
            tree: self,
            door,
            changed: Vec::new(),
            made: Vec::new(),
            part: None,
            leaves_gap: wanted.gap,
            share: 0.0,
        };
        if high.is_none_or(|high| low < high) {
            let ways = self.ways(door, low, high)?;
            cut.prepare(ways, low, high)?;
        }
        if wanted.part && cut.part.is_none() {
            let shape = Shape::leaf(&[], None, self.nodes().birth());
            let image = cut.image(&shape, &[]).ok_or_else(no_fit)?;
            cut.part = Some(cut.make(0, image, false)?);
        }
        Ok(cut)
    }

    /// Latches everything that is looked at.
    fn ways<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Ways<'d>> {
        let mut above = Vec::new();
        let descent = self.descent();
        let mut page = descent.root_exclusive(door)?;
        for _ in 0..=MAX_LEVEL {
            let node = node_of!(page)?;
            if node.is_leaf() {
                let fork = Step { page, child: 0 };
                return Ok(Ways {
                    above,
                    fork,
                    upper: None,
                    left: Vec::new(),
                    right: Vec::new(),
                });
            }
            let child = sound!(page, node.child_towards(Edge::From(low)))?;
            let upper = high
                .map(|high| sound!(page, node.child_towards(Edge::From(high))))
                .transpose()?;
            if upper.map_or(child < node.count, |upper| child < upper) {
                let left = way_down(descent, door, &page, child, Edge::From(low))?;
                let right = match (upper, high) {
                    (Some(upper), Some(high)) => {
                        way_down(descent, door, &page, upper, Edge::From(high))?
                    }
                    _ => Vec::new(),
                };
                return Ok(Ways {
                    above,
                    fork: Step { page, child },
                    upper,
                    left,
                    right,
                });
            }
            let below = child_under(descent, door, &page, child)?;
            above.push(Step { page, child });
            page = below;
        }
        Err(page.torn(BAD_LEVEL))
    }

    /// See [`terrace_access::RangeDeletes::close_cut`].
    pub(crate) fn close_range(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        let height = self.descent().try_height().unwrap_or(1);
        for key in [Some(low), high].into_iter().flatten() {
            (0..height).for_each(|level| self.nodes().tidy_from(door, key, level as u8));
        }
    }
}

/// The nodes from this child of a latched one on down to a leaf.
fn way_down<'d>(
    descent: &'d Descent,
    door: &'d WriteGuard<'_>,
    from: &Exclusive<'d>,
    child: usize,
    edge: Edge<'_>,
) -> Attempt<Vec<Step<'d>>> {
    let mut way = Vec::new();
    let mut page = child_under(descent, door, from, child)?;
    while !node_of!(page)?.is_leaf() {
        let child = sound!(page, node_of!(page)?.child_towards(edge))?;
        let below = child_under(descent, door, &page, child)?;
        way.push(Step { page, child });
        page = below;
    }
    way.push(Step { page, child: 0 });
    Ok(way)
}

/// A child of a latched node, by its number.
fn child_under<'d>(
    descent: &'d Descent,
    door: &'d WriteGuard<'_>,
    parent: &Exclusive<'_>,
    child: usize,
) -> Attempt<Exclusive<'d>> {
    let pid = sound!(parent, node_of!(parent)?.child(child))?;
    descent.exclusive_below(door, parent, pid)
}

/// Never seen: a node of one child has two fences and nothing else.
fn no_fit() -> Retry {
    Error::invalid("a node with a single child does not fit into a page").into()
}

/// What becomes of one way down: what stays of it, and what goes.
#[derive(Default)]
struct Split {
    stays: Vec<ChildRef>,
    goes: Vec<ChildRef>,
    /// About which part of what lies below goes.
    share: f64,
}

/// This part of `all`.
fn part_of(part: f64, all: usize) -> f64 {
    part / all.max(1) as f64
}

impl<'d> RangeDelete<'d> {
    /// About which part of all records goes, if what lies below all children of a node is as much.
    pub(crate) fn share(&self) -> f64 {
        self.share
    }

    /// A node with these records, if they fit.
    fn image(&self, shape: &Shape<'_>, items: &[Item<'_>]) -> Option<Vec<u8>> {
        let mut image = vec![0; self.tree.store().page_bytes()];
        build(&mut image, shape, items, (0, 0)).then_some(image)
    }

    /// A new page with this content; it stays in the tree, or it is one of the part.
    fn make(&mut self, level: u8, image: Vec<u8>, stays: bool) -> Attempt<PageId> {
        let page = self
            .tree
            .nodes()
            .allocate_for_cut(self.door, level, stays)?;
        let pid = page.pid();
        self.made.push((page, image));
        Ok(pid)
    }

    /// Nodes of this level over these children, from `low` to `high`: one, or more if they do not fit. The
    /// first one is `own` if there is one, and all others are new.
    fn nodes(
        &mut self,
        level: u8,
        (low, high): (&[u8], Option<&[u8]>),
        kids: &[ChildRef],
        own: Option<Exclusive<'d>>,
        stays: bool,
    ) -> Attempt<Vec<ChildRef>> {
        let Some(first) = kids.first() else {
            return Ok(Vec::new());
        };
        let items: Vec<_> = kids[1..]
            .iter()
            .map(|kid| Item::inner(&kid.low, kid.pid))
            .collect();
        let shape = Shape {
            level,
            low,
            high,
            extra: Extra::FirstChild(first.pid),
        };
        if let Some(image) = self.image(&shape, &items) {
            let pid = match own {
                Some(page) => {
                    let pid = page.pid();
                    self.changed.push((page, image));
                    pid
                }
                None => self.make(level, image, stays)?,
            };
            let low = low.to_vec();
            return Ok(vec![ChildRef { low, pid }]);
        }
        let (front, back) = kids.split_at(kids.len() / 2);
        let (Some(middle), false) = (back.first(), front.is_empty()) else {
            return Err(no_fit());
        };
        let middle = middle.low.clone();
        let mut nodes = self.nodes(level, (low, Some(&middle)), front, own, stays)?;
        nodes.extend(self.nodes(level, (&middle, high), back, None, stays)?);
        Ok(nodes)
    }

    /// Nodes of the part over these children, if there are any: they begin where the first one does.
    fn gone(
        &mut self,
        level: u8,
        kids: &[ChildRef],
        high: Option<&[u8]>,
    ) -> Attempt<Vec<ChildRef>> {
        let low = kids.first().map_or(&[][..], |kid| &kid.low);
        self.nodes(level, (low, high), kids, None, false)
    }

    /// The same, with as many levels above as it takes to have one node; that one.
    fn one_node(
        &mut self,
        mut level: u8,
        fences: (&[u8], Option<&[u8]>),
        mut kids: Vec<ChildRef>,
    ) -> Attempt<Option<PageId>> {
        loop {
            kids = self.nodes(level, fences, &kids, None, false)?;
            match &kids[..] {
                [] => return Ok(None),
                [kid] => return Ok(Some(kid.pid)),
                _ => level += 1,
            }
        }
    }

    /// Rewrites a leaf with what stays in it, `range` of its records; what goes of it becomes a leaf if it owns large
    /// values.
    fn leaf(
        &mut self,
        page: Exclusive<'d>,
        low: &[u8],
        high: Option<&[u8]>,
        // Where it ends from now on, if not where it did.
        end: Option<Option<&[u8]>>,
    ) -> Attempt<Split> {
        let private = page.bytes().to_vec();
        let now = sound!(page, parts(&private))?;
        let (tree, counts) = (self.tree, Counts::of(&page)?);
        let goes = |item: &Item<'_>| {
            let key = item.key();
            *key >= *low && high.is_none_or(|high| *key < *high)
        };
        let (gone, mut kept): (Vec<Item<'_>>, Vec<Item<'_>>) =
            now.items.iter().copied().partition(|item| goes(item));
        let owns = |item: &Item<'_>| match item.payload {
            Payload::Value(Value::Large(_)) => tree.owns_chain(item.flags),
            Payload::Value(Value::Inline(bytes)) => tree.nodes().leads() && !bytes.is_empty(),
            Payload::Child(_) => false,
        };
        let mut split = Split {
            share: part_of(gone.len() as f64, now.items.len()),
            ..Split::default()
        };
        if self.leaves_gap && now.low <= low {
            let at = kept.partition_point(|item| *item.key() < *low);
            kept.insert(at, Item::leaf(low, Value::Inline(b""), Flags::NONE));
        }
        if gone.iter().any(owns) && !fault::planted(Fault::ChainLeaked) {
            let shape = Shape::leaf(now.low, now.high, tree.nodes().birth());
            let image = self.image(&shape, &gone).ok_or_else(no_fit)?;
            split.goes.push(ChildRef {
                low: now.low.to_vec(),
                pid: self.make(0, image, false)?,
            });
        }
        split.stays.push(ChildRef {
            low: now.low.to_vec(),
            pid: page.pid(),
        });
        let is_same_end = end.is_none_or(|end| end == now.high);
        if gone.is_empty() && is_same_end {
            return Ok(split);
        }
        let shape = |high| Shape::leaf(now.low, high, counts.members.wrapping_add(1));
        let wide = end.and_then(|end| self.image(&shape(end), &kept));
        let image = match wide {
            Some(image) => image,
            None => {
                let image = self.image(&shape(now.high), &kept).ok_or_else(no_fit)?;
                if let (Some(end), Some(own), false) = (end, now.high, is_same_end) {
                    // With a shorter prefix its records do not fit.
                    let filler = Shape::leaf(own, end, tree.nodes().birth());
                    let filler = self.image(&filler, &[]).ok_or_else(no_fit)?;
                    split.stays.push(ChildRef {
                        low: own.to_vec(),
                        pid: self.make(0, filler, true)?,
                    });
                }
                image
            }
        };
        self.changed.push((page, image));
        Ok(split)
    }

    /// The way to the lower edge, from its leaf on up: what stays ends at `end`.
    fn left(
        &mut self,
        mut way: Vec<Step<'d>>,
        low: &[u8],
        high: Option<&[u8]>,
        end: Option<&[u8]>,
    ) -> Attempt<Split> {
        let Some(leaf) = way.pop() else {
            return Ok(Split::default());
        };
        let mut split = self.leaf(leaf.page, low, high, Some(end))?;
        while let Some(Step { page, child }) = way.pop() {
            let private = page.bytes().to_vec();
            let now = sound!(page, parts(&private))?;
            let mut stays = kids(&page, &now)?;
            let mut goes = split.goes;
            goes.extend(stays.drain(child..).skip(1));
            stays.append(&mut split.stays);
            let level = now.node.level;
            let whole = now.node.children() - 1 - child;
            split = Split {
                share: part_of(split.share + whole as f64, now.node.children()),
                stays: self.nodes(level, (now.low, end), &stays, Some(page), true)?,
                goes: self.gone(level, &goes, now.high)?,
            };
        }
        Ok(split)
    }

    /// The way to the upper edge, from its leaf on up: what stays begins at `begin`, the lower fence of that leaf. Answers
    /// too where what goes ends, if anything does.
    fn right(
        &mut self,
        mut way: Vec<Step<'d>>,
        low: &[u8],
        high: Option<&[u8]>,
        begin: &[u8],
    ) -> Attempt<(Split, Option<Vec<u8>>)> {
        let Some(leaf) = way.pop() else {
            return Ok((Split::default(), None));
        };
        let mut end = sound!(leaf.page, node_of!(leaf.page)?.high())?;
        let mut split = match fault::planted(Fault::EdgeKept) {
            true => self.leaf(leaf.page, low, Some(low), None)?,
            false => self.leaf(leaf.page, low, high, None)?,
        };
        if split.goes.is_empty() {
            end = Some(begin.to_vec());
        }
        while let Some(Step { page, child }) = way.pop() {
            let private = page.bytes().to_vec();
            let now = sound!(page, parts(&private))?;
            let mut goes = kids(&page, &now)?;
            let rest = goes.split_off(child + 1);
            goes.truncate(child);
            let is_same = child == 0 && now.low == begin && split.stays.len() == 1;
            let mut stays = split.stays;
            stays.extend(rest);
            goes.append(&mut split.goes);
            let level = now.node.level;
            let goes = self.gone(level, &goes, end.as_deref())?;
            let stays = match is_same {
                true => vec![ChildRef {
                    low: begin.to_vec(),
                    pid: page.pid(),
                }],
                false => self.nodes(level, (begin, now.high), &stays, Some(page), true)?,
            };
            let share = part_of(split.share + child as f64, now.node.children());
            split = Split { stays, goes, share };
        }
        Ok((split, end))
    }

    /// Builds everything.
    fn prepare(&mut self, ways: Ways<'d>, low: &[u8], high: Option<&[u8]>) -> Attempt<()> {
        let Ways {
            mut above,
            fork,
            upper,
            left,
            right,
        } = ways;
        let level = node_of!(fork.page)?.level;
        if level == 0 {
            let split = self.leaf(fork.page, low, high, None)?;
            // A leaf by itself, with the fences that it had.
            self.part = split.goes.first().map(|kid| kid.pid);
            self.share = part_above(&above, split.share)?;
            return Ok(());
        }
        let private = fork.page.bytes().to_vec();
        let now = sound!(fork.page, parts(&private))?;
        // Where what stays on both sides meets.
        let meet = match right.last() {
            Some(leaf) => Some(sound!(leaf.page, node_of!(leaf.page)?.low())?),
            None => now.high.map(<[u8]>::to_vec),
        };
        let below = self.left(left, low, high, meet.as_deref())?;
        let begin = meet.clone().unwrap_or_default();
        let (over, ends) = self.right(right, low, high, &begin)?;
        let mut stays = kids(&fork.page, &now)?;
        let mut middle = stays.split_off(fork.child);
        let mut behind = Vec::new();
        if let Some(upper) = upper {
            behind = middle.split_off(upper - fork.child);
        }
        // Where the subtrees end that go whole, at the last child of this node or before the way to the upper edge.
        let whole_end = match behind.first() {
            Some(kid) => Some(kid.low.clone()),
            None => now.high.map(<[u8]>::to_vec),
        };
        let end = match over.goes.is_empty() {
            true => whole_end,
            false => ends,
        };
        let whole = middle.len() - 1;
        let share = below.share + over.share + whole as f64;
        self.share = part_above(&above, part_of(share, now.node.children()))?;
        let mut goes = below.goes;
        goes.extend(middle.into_iter().skip(1));
        goes.extend(over.goes);
        if let Some(first) = goes.first().map(|kid| kid.low.clone()) {
            self.part = self.one_node(level, (&first, end.as_deref()), goes)?;
        }
        stays.extend(below.stays);
        stays.extend(over.stays);
        stays.extend(behind.into_iter().skip(1));
        let is_root = above.is_empty();
        let mut level = level;
        let (mut low_fence, mut high_fence) = (now.low.to_vec(), now.high.map(<[u8]>::to_vec));
        let mut page = fork.page;
        let mut is_root = is_root;
        loop {
            let fences = (low_fence.as_slice(), high_fence.as_deref());
            if is_root {
                return self.root(level, fences, stays, page);
            }
            let nodes = self.nodes(level, fences, &stays, Some(page), true)?;
            if nodes.len() == 1 {
                return Ok(());
            }
            let Some(step) = above.pop() else {
                return Err(no_fit());
            };
            is_root = above.is_empty();
            let private = step.page.bytes().to_vec();
            let now = sound!(step.page, parts(&private))?;
            let mut all = kids(&step.page, &now)?;
            all.splice(step.child..=step.child, nodes);
            level = now.node.level;
            (low_fence, high_fence) = (now.low.to_vec(), now.high.map(<[u8]>::to_vec));
            stays = all;
            page = step.page;
        }
    }

    /// Rewrites the root, with levels between if its children do not fit: it keeps its number.
    fn root(
        &mut self,
        mut level: u8,
        fences: (&[u8], Option<&[u8]>),
        mut kids: Vec<ChildRef>,
        page: Exclusive<'d>,
    ) -> Attempt<()> {
        loop {
            let Some(first) = kids.first() else {
                return Err(no_fit());
            };
            let items: Vec<_> = kids[1..]
                .iter()
                .map(|kid| Item::inner(&kid.low, kid.pid))
                .collect();
            let shape = Shape {
                level,
                low: fences.0,
                high: fences.1,
                extra: Extra::FirstChild(first.pid),
            };
            if let Some(image) = self.image(&shape, &items) {
                self.changed.push((page, image));
                return Ok(());
            }
            kids = self.nodes(level, fences, &kids, None, true)?;
            level += 1;
        }
    }
}

impl PreparedDelete for RangeDelete<'_> {
    fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.part.is_none()
    }

    fn part(&self) -> Option<PageId> {
        self.part
    }

    fn apply(mut self: Box<Self>) -> Attempt<()> {
        let (mut changed, mut made) = (
            std::mem::take(&mut self.changed),
            std::mem::take(&mut self.made),
        );
        for (page, image) in &mut made {
            self.tree.nodes().install_new(page, image)?;
        }
        for (page, image) in &mut changed {
            install(page.change_all()?, image);
        }
        // All latches are let go of together.
        Ok(())
    }
}
