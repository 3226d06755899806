//! Building a trie from sorted keys: nodes below come before those above.

use super::nodes::{Child, ENDS, LEAVES, LONG, STARTS, Trie};
use super::step::Step;
use crate::family::Family;
use crate::prefix::common_prefix;
use crate::stage::KeyRun;
use crate::stage::nums::Nums;
use alloc::vec;
use alloc::vec::Vec;
use core::marker::PhantomData;

/// A node that is being built: of the keys `from..to`, of which all before `at` are done.
struct Frame {
    from: usize,
    to: usize,
    at: usize,
    /// Where the prefix begins and where it ends.
    depth: usize,
    behind: usize,
    /// What of the labels and children that are done is of this node.
    labels: usize,
    children: usize,
}

/// What a reference of two bytes can name: ranks, and even places.
pub const NARROW: usize = 1 << 15;

/// A trie while it is made: the keys that are done, and the children of nodes that are not.
pub struct Out<S: Step> {
    pub nodes: Vec<u8>,
    pub tails: Vec<u8>,
    pub lens: Vec<u32>,
    pub labels: Vec<S::Label>,
    pub children: Vec<Child>,
    pub wide: bool,
}

impl<S: Step> Out<S> {
    /// With room for this many keys, and bytes of nodes and of tails.
    pub fn new(n: usize, nodes: usize, tails: usize, wide: bool) -> Self {
        Out {
            nodes: Vec::with_capacity(nodes),
            tails: Vec::with_capacity(tails),
            lens: Vec::with_capacity(n),
            labels: Vec::new(),
            children: Vec::new(),
            wide,
        }
    }

    /// Adds the next key, of which a part is on the way to it, as a child.
    #[inline]
    pub fn leaf(&mut self, tail: &[u8]) {
        self.children.push(Child::Key(self.lens.len()));
        self.lens.push(tail.len() as u32);
        self.tails.extend_from_slice(tail);
    }

    /// Adds keys in order, of each that which is not on the way to it, as one child; `n` is not 0.
    /// None where a place cannot be named. O(bytes).
    pub fn keys<'k>(&mut self, n: usize, key: impl Fn(usize) -> &'k [u8]) -> Option<()> {
        if n == 1 {
            self.leaf(key(0));
            return Some(());
        }
        let open = |from: usize, to: usize, depth: usize, labels: usize, children: usize| Frame {
            from,
            to,
            at: from,
            depth,
            behind: depth + common_prefix(&key(from)[depth..], &key(to - 1)[depth..]),
            labels,
            children,
        };
        let mut stack = vec![open(0, n, 0, self.labels.len(), self.children.len())];
        while let Some(frame) = stack.last_mut() {
            if frame.at == frame.to {
                let frame = stack.pop()?;
                let prefix = &key(frame.from)[frame.depth..frame.behind];
                self.node(prefix, frame.labels, frame.children)?;
                continue;
            }
            let (bytes, depth) = (key(frame.at), frame.behind);
            let Some((label, len)) = S::label(&bytes[depth..]) else {
                self.leaf(&[]);
                frame.at += 1;
                continue;
            };
            self.labels.push(label);
            let group = frame.at;
            // Where the keys with this label end.
            let (mut lo, mut hi) = (group + 1, frame.to);
            while S::goes_on(label) && lo < hi {
                let mid = (lo + hi) / 2;
                match S::label(&key(mid)[depth..]) {
                    Some((l, _)) if l == label => lo = mid + 1,
                    _ => hi = mid,
                }
            }
            frame.at = lo;
            if lo == group + 1 {
                self.leaf(&bytes[depth + len..]);
            } else {
                let (labels, children) = (self.labels.len(), self.children.len());
                stack.push(open(group, lo, depth + len, labels, children));
            }
        }
        Some(())
    }

    /// Makes a node of the labels and children from these on, and a child of it. None where no
    /// reference can name it.
    pub fn node(&mut self, prefix: &[u8], labels: usize, children: usize) -> Option<()> {
        let place = self.write(prefix, labels, children)?;
        self.labels.truncate(labels);
        self.children.truncate(children);
        self.children.push(Child::Node(place));
        Some(())
    }

    fn write(&mut self, prefix: &[u8], labels: usize, children: usize) -> Option<usize> {
        let (labels, children) = (&self.labels[labels..], &self.children[children..]);
        let out = &mut self.nodes;
        if !self.wide && out.len() % 2 == 1 {
            out.push(0);
        }
        let place = out.len();
        if !self.wide && place / 2 >= NARROW {
            return None;
        }
        let leaves = children.iter().all(|child| matches!(child, Child::Key(_)));
        let mut flags = 0;
        for (bit, set) in [
            (ENDS, children.len() > labels.len()),
            (LONG, prefix.len() > 0xFF),
            (LEAVES, leaves),
        ] {
            flags |= bit * u8::from(set);
        }
        out.push(flags);
        S::write_children(labels.len(), out);
        let len = (prefix.len() as u16).to_le_bytes();
        out.extend_from_slice(&len[..if prefix.len() > 0xFF { 2 } else { 1 }]);
        out.extend_from_slice(prefix);
        S::write(labels, out);
        let children = &children[..if leaves { 1 } else { children.len() }];
        if self.wide {
            out.extend(children.iter().flat_map(|child| {
                let number = match child {
                    Child::Key(rank) => *rank | 1 << 31,
                    Child::Node(place) => *place,
                };
                (number as u32).to_le_bytes()
            }));
        } else {
            out.extend(children.iter().flat_map(|child| {
                let number = match child {
                    Child::Key(rank) => *rank | 1 << 15,
                    Child::Node(place) => *place / 2,
                };
                (number as u16).to_le_bytes()
            }));
        }
        Some(place)
    }

    /// The trie of the child that is left.
    pub fn finish(mut self, key_bytes: usize) -> Trie<S> {
        let mut starts = Vec::with_capacity(self.lens.len().div_ceil(STARTS));
        let mut from = 0;
        for block in self.lens.chunks(STARTS) {
            starts.push(from);
            from += block.iter().sum::<u32>();
        }
        Trie {
            root: self.children.pop().unwrap_or(Child::Key(0)),
            n: self.lens.len(),
            nodes: self.nodes.into(),
            tails: self.tails.into(),
            lens: Nums::new(&self.lens),
            starts: Nums::new(&starts),
            key_bytes,
            wide: self.wide,
            step: PhantomData,
        }
    }
}

impl<S: Step> Trie<S> {
    pub fn build<F: Family>(run: &F::Run, from: usize, to: usize) -> Self {
        let keys = run.plain();
        let of_width = |wide| {
            let mut out = Out::new(to - from, 0, 0, wide);
            if from < to {
                out.keys(to - from, |i| keys.get(from + i))?;
            }
            Some(out.finish(run.key_bytes(from, to)))
        };
        (to - from < NARROW)
            .then(|| of_width(false))
            .flatten()
            .or_else(|| of_width(true))
            .unwrap_or_else(|| unreachable!("references of four bytes name all places"))
    }
}
