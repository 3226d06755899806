//! Merging into a trie (appendix B of the paper): what neither new nor dead keys lie below is copied as
//! it is, with its references moved on.
//!
//! The nodes of the old trie are met in the order in which they lie, those below before those above,
//! and its keys in theirs. So what is copied is one stretch of nodes and one of tails, and how far
//! either moves is one number for all of it. Where a node would be left with one child, or words would
//! have to be cut elsewhere, what is below is built anew.

use super::build::{NARROW, Out};
use super::nodes::{Child, Trie, View};
use super::step::Step;
use crate::plain::PlainKeys;
use crate::prefix::common_prefix;
use crate::stage::nums::{read2, read4};
use alloc::vec::Vec;

/// A node of the old trie that is being merged.
struct Frame {
    place: usize,
    /// How much of its prefix is in the nodes above.
    skip: usize,
    /// Where new keys part from the prefix: the node that is made has the rest of it as a child.
    split: Option<usize>,
    /// The next branch.
    branch: usize,
    /// Where the new keys below end, and the old ones.
    news: usize,
    ranks: usize,
    /// Bytes of the way to the branches.
    depth: usize,
    labels: usize,
    children: usize,
}

struct Merge<'a, S: Step> {
    old: &'a Trie<S>,
    new: &'a PlainKeys<'a>,
    /// The ranks that are dead, in order, and the first of them that is still to come.
    dead: Vec<usize>,
    next_dead: usize,
    /// The next new key, and the next old one, with the place of its tail.
    j: usize,
    rank: usize,
    tail: usize,
    /// Where the nodes that are done end.
    at: usize,
    out: Out<S>,
    frames: Vec<Frame>,
    before: &'a mut Vec<u32>,
    /// Whether bytes of keys that are gone are counted, and how many there are.
    counts: bool,
    gone: usize,
}

impl<S: Step> Trie<S> {
    /// The trie of the keys whose rank is `live`, `n` of them, and `m` new ones, which are others; adds
    /// to `before`, for each of these, how many live ones are less. None, and nothing done, where
    /// references would have to be wider, or there are no old keys. O(bytes).
    pub fn merge(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        (new, m, bytes): (&PlainKeys<'_>, usize, usize),
        before: &mut Vec<u32>,
    ) -> Option<Self> {
        if n == 0 || !self.wide && n + m >= NARROW {
            return None;
        }
        let from = before.len();
        let merged = self.merged(live, n, (new, m, bytes), before, true);
        let Some((mut trie, gone)) = merged else {
            before.truncate(from);
            return None;
        };
        trie.key_bytes = self.key_bytes + bytes - gone;
        Some(trie)
    }

    /// The trie of the keys whose rank is less than `at`, and that of the others. O(bytes).
    pub fn cut(&self, at: usize) -> Option<(Self, Self)> {
        let none = (&PlainKeys::Ints(Vec::new()), 0, 0);
        let mut before = Vec::new();
        let others = self.n - at;
        let (mut left, _) = self.merged(|rank| rank < at, at, none, &mut before, false)?;
        let (mut right, _) = self.merged(|rank| rank >= at, others, none, &mut before, false)?;
        left.key_bytes = left.measured();
        right.key_bytes = self.key_bytes - left.key_bytes;
        Some((left, right))
    }

    /// Bytes of all keys. O(nodes).
    fn measured(&self) -> usize {
        let (mut sum, mut todo) = (self.tails.len(), Vec::new());
        if let Child::Node(place) = self.root {
            todo.push((place, 0));
        }
        while let Some((place, depth)) = todo.pop() {
            let node = self.view(place);
            let depth = depth + node.prefix.len();
            for i in 0..node.all() {
                let depth = depth + node.label(i).map_or(0, |label| label.1);
                match node.child(i) {
                    Child::Key(_) => sum += depth,
                    Child::Node(place) => todo.push((place, depth)),
                }
            }
        }
        sum
    }

    /// [`Trie::merge`] with no bytes of keys said; beside it, if they are to be counted, those of the
    /// keys that are gone.
    fn merged(
        &self,
        live: impl Fn(usize) -> bool,
        n: usize,
        (new, m, bytes): (&PlainKeys<'_>, usize, usize),
        before: &mut Vec<u32>,
        counts: bool,
    ) -> Option<(Self, usize)> {
        let dead = match n == self.n {
            true => Vec::new(),
            false => (0..self.n).filter(|&rank| !live(rank)).collect(),
        };
        // A key that comes most often brings no more than a tail and half a node.
        let nodes = self.nodes.len() + self.nodes.len() / 8 + m * 8;
        let mut merge = Merge {
            old: self,
            new,
            dead,
            next_dead: 0,
            j: 0,
            rank: 0,
            tail: 0,
            at: 0,
            out: Out::new(n + m, nodes, self.tails.len() + bytes / 2, self.wide),
            frames: Vec::new(),
            before,
            counts,
            gone: 0,
        };
        merge.run(m)?;
        let Merge { out, gone, .. } = merge;
        Some((out.finish(0), gone))
    }

    /// Where a node ends.
    fn end(&self, node: &View<'_, S>) -> usize {
        let refs = if node.leaves { 1 } else { node.all() };
        self.nodes.len() - node.refs.len() + refs * if self.wide { 4 } else { 2 }
    }
}

impl<S: Step> Merge<'_, S> {
    fn run(&mut self, m: usize) -> Option<()> {
        self.child((self.old.root, 0), 0, m, self.old.n)?;
        while let Some(frame) = self.frames.pop() {
            self.step(frame)?;
        }
        Some(())
    }

    /// How many of the ranks from this one up to `to` are dead, of which none before it is to come.
    fn dead_before(&self, from: usize, to: usize) -> usize {
        let dead = &self.dead[self.next_dead..];
        match dead.first() {
            Some(&first) if first < to => {
                dead.partition_point(|&d| d < to) - dead.partition_point(|&d| d < from)
            }
            _ => 0,
        }
    }

    /// Adds the new keys up to `to`, which share what is on the way, as a child.
    fn new_keys(&mut self, depth: usize, to: usize) -> Option<()> {
        let (from, new) = (self.j, self.new);
        let passed = self.out.lens.len() - from;
        self.before.extend((from..to).map(|_| passed as u32));
        self.j = to;
        self.out.keys(to - from, |i| &new.get(from + i)[depth..])
    }

    /// Passes by the keys below a child, all of them dead, or done otherwise, up to rank `to`.
    fn pass(&mut self, child: Child, to: usize) {
        for rank in self.rank..to {
            self.tail += self.old.lens.get(rank);
        }
        self.rank = to;
        while self.dead.get(self.next_dead).is_some_and(|&d| d < to) {
            self.next_dead += 1;
        }
        if let Child::Node(place) = child {
            self.at = self.old.end(&self.old.view(place));
        }
    }

    /// Merges what is below a child, whose way has `depth` bytes, with the new keys up to `news`; of a
    /// node the first `skip` bytes of its prefix are on that way. Its ranks end at `ranks`. One key is
    /// left at least.
    fn child(
        &mut self,
        (child, skip): (Child, usize),
        depth: usize,
        news: usize,
        ranks: usize,
    ) -> Option<()> {
        let old = self.old;
        let gone = self.dead_before(self.rank, ranks);
        let Child::Node(place) = child else {
            return self.anew(child, 0, depth, news, ranks);
        };
        let node = old.view(place);
        let prefix = &node.prefix[skip..];
        if gone > 0 && !self.keeps_two(&node, ranks) {
            return self.anew(child, skip, depth, news, ranks);
        }
        let mut same = prefix.len();
        if self.j < news {
            // The new keys are in order, so what the first and the last have of it all have.
            for key in [self.new.get(self.j), self.new.get(news - 1)] {
                same = same.min(common_prefix(prefix, &key[depth..]));
            }
        }
        if same < prefix.len() && !S::SPLITS {
            return self.anew(child, skip, depth, news, ranks);
        }
        self.frames.push(Frame {
            place,
            skip,
            split: (same < prefix.len()).then_some(same),
            branch: 0,
            news,
            ranks,
            depth: depth + same,
            labels: self.out.labels.len(),
            children: self.out.children.len(),
        });
        Some(())
    }

    /// Whether two branches of a node have live keys.
    fn keeps_two(&self, node: &View<'_, S>, ranks: usize) -> bool {
        let (mut kept, mut from) = (0, self.rank);
        for i in 0..node.all() {
            let to = match i + 1 < node.all() {
                true => self.old.first_rank(node.child(i + 1)),
                false => ranks,
            };
            kept += usize::from(self.dead_before(from, to) < to - from);
            if kept == 2 {
                return true;
            }
            from = to;
        }
        false
    }

    /// Builds the live keys below a child anew, with the new ones up to `news`.
    fn anew(
        &mut self,
        child: Child,
        skip: usize,
        depth: usize,
        news: usize,
        ranks: usize,
    ) -> Option<()> {
        // The keys without the way, end to end; one alone is often all of it.
        let (mut bytes, mut ends) = (Vec::new(), Vec::new());
        let (mut j, passed) = (self.j, self.out.lens.len() - self.j);
        let (mut dead, mut kept, mut gone) = (self.next_dead, 0, 0);
        let mut rank = self.rank;
        self.old.each_below(child, skip, |key| {
            if self.dead.get(dead) == Some(&rank) {
                dead += 1;
                gone += depth + key.len();
            } else {
                while j < news && &self.new.get(j)[depth..] < key {
                    bytes.extend_from_slice(&self.new.get(j)[depth..]);
                    ends.push(bytes.len());
                    self.before.push((passed + kept) as u32);
                    j += 1;
                }
                bytes.extend_from_slice(key);
                ends.push(bytes.len());
                kept += 1;
            }
            rank += 1;
        });
        for j in j..news {
            bytes.extend_from_slice(&self.new.get(j)[depth..]);
            ends.push(bytes.len());
            self.before.push((passed + kept) as u32);
        }
        self.j = news;
        self.gone += gone;
        self.pass(child, ranks);
        let start = |i: usize| if i == 0 { 0 } else { ends[i - 1] };
        self.out.keys(ends.len(), |i| &bytes[start(i)..ends[i]])
    }

    /// Goes on with a node: copies what is untouched and begins with the next branch, or writes it.
    fn step(&mut self, mut frame: Frame) -> Option<()> {
        let node = self.old.view(frame.place);
        let all = if frame.split.is_some() { 1 } else { node.all() };
        // The branch of a split node is what is left of the prefix.
        let rest = frame.split.map(|at| &node.prefix[frame.skip + at..]);
        loop {
            let next =
                (self.j < frame.news).then(|| S::label(&self.new.get(self.j)[frame.depth..]));
            let found = match (next, rest.and_then(S::label)) {
                (None, _) => Err(all),
                (Some(None), own) if own.is_none() && node.ends => Ok(0),
                (Some(None), _) => Err(0),
                (Some(Some((label, _))), None) => node.branch(label),
                (Some(Some((label, _))), Some((own, _))) => match label.cmp(&own) {
                    core::cmp::Ordering::Less => Err(0),
                    core::cmp::Ordering::Equal => Ok(0),
                    core::cmp::Ordering::Greater => Err(1),
                },
            };
            let (Ok(mut to) | Err(mut to)) = found;
            let mut first = found;
            if let Some(&dead) = self.dead.get(self.next_dead)
                && dead < frame.ranks
                && frame.branch < all
            {
                // The branch with the next dead key, where that comes before the new one.
                let at = match rest {
                    Some(_) => 0,
                    None => self.branch_of(&node, frame.branch, dead),
                };
                if at < to {
                    (to, first) = (at, Ok(at));
                }
            }
            if rest.is_some() && frame.branch < to {
                // It cannot be copied as it is: its prefix is shorter now.
                (to, first) = (0, Ok(0));
            }
            if frame.branch < to {
                self.copy(&node, frame.branch..to, frame.ranks);
                frame.branch = to;
            }
            let touched = next.flatten().filter(|_| first == found);
            let news = match next {
                Some(_) if first == found => self.group(&frame, touched.map(|label| label.0)),
                _ => self.j,
            };
            let Ok(i) = first else {
                let Some(label) = next else { break };
                if let Some((label, _)) = label {
                    self.out.labels.push(label);
                }
                self.new_keys(frame.depth + label.map_or(0, |label| label.1), news)?;
                continue;
            };
            frame.branch = i + 1;
            let (child, label, len) = match rest {
                Some(rest) => {
                    let (label, len) = S::label(rest)?;
                    let skip = node.prefix.len() - rest.len() + len;
                    ((Child::Node(frame.place), skip), Some(label), len)
                }
                None => {
                    let (label, len) = node.label(i).map_or((None, 0), |(l, len)| (Some(l), len));
                    ((node.child(i), 0), label, len)
                }
            };
            let ranks = match rest.is_none() && i + 1 < all {
                true => self.old.first_rank(node.child(i + 1)),
                false => frame.ranks,
            };
            let alive = ranks - self.rank - self.dead_before(self.rank, ranks);
            if alive == 0 && news == self.j {
                if self.counts {
                    let (way, mut gone) = (frame.depth + len, 0);
                    self.old
                        .each_below(child.0, child.1, |key| gone += way + key.len());
                    self.gone += gone;
                }
                self.pass(child.0, ranks);
                continue;
            }
            self.out.labels.extend(label);
            let depth = frame.depth + len;
            let above = self.frames.len();
            self.frames.push(frame);
            let pushed = self.frames.len();
            self.child(child, depth, news, ranks)?;
            if self.frames.len() > pushed {
                return Some(());
            }
            // It was done at once.
            frame = self.frames.pop()?;
            debug_assert_eq!(above, self.frames.len());
        }
        let from = match frame.split {
            None => {
                self.at = self.old.end(&node);
                &node.prefix[frame.skip..]
            }
            Some(at) => &node.prefix[frame.skip..frame.skip + at],
        };
        self.out.node(from, frame.labels, frame.children)
    }

    /// Where the new keys end that go on by a label, or the one that ends here.
    fn group(&self, frame: &Frame, label: Option<S::Label>) -> usize {
        let Some(label) = label else {
            return self.j + 1;
        };
        let mut to = self.j + 1;
        while to < frame.news
            && S::goes_on(label)
            && S::label(&self.new.get(to)[frame.depth..]).is_some_and(|l| l.0 == label)
        {
            to += 1;
        }
        to
    }

    /// The branch from `from` on that a rank is below.
    fn branch_of(&self, node: &View<'_, S>, from: usize, rank: usize) -> usize {
        let (mut lo, mut hi) = (from, node.all());
        while hi - lo > 1 {
            let mid = (lo + hi) / 2;
            match self.old.first_rank(node.child(mid)) <= rank {
                true => lo = mid,
                false => hi = mid,
            }
        }
        lo
    }

    /// Copies branches of a node whose ranks end at `ranks`, and all that is below.
    fn copy(&mut self, node: &View<'_, S>, which: core::ops::Range<usize>, ranks: usize) {
        let to = match which.end < node.all() {
            true => self.old.first_rank(node.child(which.end)),
            false => ranks,
        };
        let moved_ranks = self.out.lens.len().wrapping_sub(self.rank);
        let from = self.tail;
        self.tail += self.old.lens.copy(self.rank..to, &mut self.out.lens);
        self.rank = to;
        let tails = &self.old.tails[from..self.tail];
        self.out.tails.extend_from_slice(tails);
        let last = match node.leaves {
            true => None,
            false => which.clone().rev().find_map(|i| match node.child(i) {
                Child::Node(place) => Some(place),
                Child::Key(_) => None,
            }),
        };
        let mut moved_places = 0;
        if let Some(last) = last {
            let even = |at: usize| {
                if self.old.wide {
                    at
                } else {
                    at.next_multiple_of(2)
                }
            };
            let (from, to) = (even(self.at), self.old.end(&self.old.view(last)));
            self.out.nodes.resize(even(self.out.nodes.len()), 0);
            let begin = self.out.nodes.len();
            moved_places = begin.wrapping_sub(from);
            self.out.nodes.extend_from_slice(&self.old.nodes[from..to]);
            let mut at = begin;
            while at < self.out.nodes.len() {
                at = even(self.relocate(at, moved_ranks, moved_places));
            }
            self.at = to;
        }
        node.labels_into(which.clone(), &mut self.out.labels);
        self.out.children.extend(which.map(|i| match node.child(i) {
            Child::Key(rank) => Child::Key(rank.wrapping_add(moved_ranks)),
            Child::Node(place) => Child::Node(place.wrapping_add(moved_places)),
        }));
    }

    /// Moves the references of the node at a place on; where it ends. Both distances are even in
    /// places where references are narrow.
    #[inline]
    fn relocate(&mut self, at: usize, ranks: usize, places: usize) -> usize {
        let wide = self.out.wide;
        let (from, n) = {
            let node = View::<S>::read(&self.out.nodes[at..], wide);
            let n = if node.leaves { 1 } else { node.all() };
            (self.out.nodes.len() - node.refs.len(), n)
        };
        if wide {
            let to = from + n * 4;
            for bytes in self.out.nodes[from..to].as_chunks_mut::<4>().0 {
                let old = read4(&bytes[..], 0);
                let by = if old >> 31 == 1 { ranks } else { places };
                let new = (old & !(1 << 31)).wrapping_add(by) | old & 1 << 31;
                *bytes = (new as u32).to_le_bytes();
            }
            return to;
        }
        let to = from + n * 2;
        for bytes in self.out.nodes[from..to].as_chunks_mut::<2>().0 {
            let old = read2(&bytes[..], 0);
            let by = if old >> 15 == 1 {
                ranks
            } else {
                ((places as isize) >> 1) as usize
            };
            let new = (old & !(1 << 15)).wrapping_add(by) | old & 1 << 15;
            *bytes = (new as u16).to_le_bytes();
        }
        to
    }
}
