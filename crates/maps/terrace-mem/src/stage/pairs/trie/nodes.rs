//! The nodes, and how a key is found in them.

use super::step::Step;
use crate::stage::nums::{Nums, read2, read4};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ops::Range;

/// Behind the prefix a key ends.
pub(super) const ENDS: u8 = 1;
/// The length of the prefix has two bytes.
pub(super) const LONG: u8 = 2;
/// Everything below is a key: there is one reference, to the first.
pub(super) const LEAVES: u8 = 4;

/// Tails for each of which their start is known.
pub(super) const STARTS: usize = 16;

/// A reference to a node or, with the highest bit of its width, to a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Child {
    Key(usize),
    Node(usize),
}

/// Sorted distinct keys.
pub struct Trie<S: Step> {
    pub(super) nodes: Box<[u8]>,
    /// What is behind the way to each key, end to end.
    pub(super) tails: Box<[u8]>,
    pub(super) lens: Nums,
    /// Where each sixteenth of them begins.
    pub(super) starts: Nums,
    pub(super) root: Child,
    pub(super) n: usize,
    pub(super) key_bytes: usize,
    /// References have four bytes.
    pub(super) wide: bool,
    pub(super) step: PhantomData<S>,
}

/// A node that was read.
pub(super) struct View<'a, S: Step> {
    pub(super) prefix: &'a [u8],
    pub(super) labels: &'a [u8],
    pub(super) refs: &'a [u8],
    /// Children, without the key that ends here.
    pub(super) n: usize,
    pub(super) ends: bool,
    pub(super) leaves: bool,
    pub(super) wide: bool,
    pub(super) step: PhantomData<S>,
}

impl<'a, S: Step> View<'a, S> {
    /// Reads the node that some bytes begin with.
    #[inline]
    pub(super) fn read(node: &'a [u8], wide: bool) -> Self {
        let flags = node[0];
        let (n, mut from) = S::children(node, 1);
        let len = if flags & LONG == 0 {
            from += 1;
            usize::from(node[from - 1])
        } else {
            from += 2;
            read2(node, from - 2)
        };
        let (prefix, rest) = node[from..].split_at(len);
        let (labels, refs) = rest.split_at(S::labels_len(n));
        View {
            prefix,
            labels,
            refs,
            n,
            ends: flags & ENDS != 0,
            leaves: flags & LEAVES != 0,
            wide,
            step: PhantomData,
        }
    }

    /// Children and the key that ends here.
    #[inline]
    pub(super) fn all(&self) -> usize {
        self.n + usize::from(self.ends)
    }

    /// What is behind branch `i`, counted with the key that ends here as the first.
    #[inline]
    pub(super) fn child(&self, i: usize) -> Child {
        let at = if self.leaves { 0 } else { i };
        let (number, bit) = match self.wide {
            false => (read2(self.refs, at * 2), 1 << 15),
            true => (read4(self.refs, at * 4), 1 << 31),
        };
        match (number & bit != 0, self.leaves) {
            (true, true) => Child::Key((number & !bit) + i),
            (true, false) => Child::Key(number & !bit),
            (false, _) => Child::Node(if self.wide { number } else { number * 2 }),
        }
    }

    /// The label of branch `i`, and its bytes; none of the key that ends here.
    #[inline]
    pub(super) fn label(&self, i: usize) -> Option<(S::Label, usize)> {
        let at = i.checked_sub(usize::from(self.ends))?;
        let label = S::read(self.labels, at);
        Some((label, S::bytes(label)))
    }

    /// Adds the labels of branches to a row.
    #[inline]
    pub(super) fn labels_into(&self, which: Range<usize>, into: &mut Vec<S::Label>) {
        let ends = usize::from(self.ends);
        let range = which.start.saturating_sub(ends)..which.end.saturating_sub(ends);
        into.extend(range.map(|i| S::read(self.labels, i)));
    }

    /// The branch of a label, or the first behind it.
    #[inline]
    pub(super) fn branch(&self, label: S::Label) -> Result<usize, usize> {
        let first = usize::from(self.ends);
        match S::search(self.labels, self.n, label) {
            Ok(i) => Ok(first + i),
            Err(i) => Err(first + i),
        }
    }
}

impl<S: Step> Trie<S> {
    #[inline]
    pub(super) fn view(&self, at: usize) -> View<'_, S> {
        View::read(&self.nodes[at..], self.wide)
    }

    /// Where that begins which is behind the way to a key.
    #[inline]
    pub(super) fn tail_start(&self, rank: usize) -> usize {
        let block = rank / STARTS;
        self.starts.get(block) + self.lens.sum(block * STARTS, rank)
    }

    /// What is behind the way to a key.
    #[inline]
    pub(super) fn tail(&self, rank: usize) -> &[u8] {
        let from = self.tail_start(rank);
        &self.tails[from..from + self.lens.get(rank)]
    }

    /// The first key below.
    pub(super) fn first_rank(&self, mut at: Child) -> usize {
        loop {
            match at {
                Child::Key(rank) => return rank,
                Child::Node(place) => at = self.view(place).child(0),
            }
        }
    }

    /// The last key below.
    pub(super) fn last_rank(&self, mut at: Child) -> usize {
        loop {
            match at {
                Child::Key(rank) => return rank,
                Child::Node(place) => {
                    let node = self.view(place);
                    at = node.child(node.all() - 1);
                }
            }
        }
    }

    #[inline]
    pub fn find(&self, key: &[u8], mut likely: impl FnMut(usize)) -> Option<usize> {
        let (mut at, mut depth) = (self.root, 0);
        loop {
            let place = match at {
                Child::Key(rank) => {
                    likely(rank);
                    return (self.tail(rank) == &key[depth..]).then_some(rank);
                }
                Child::Node(place) => place,
            };
            let node = self.view(place);
            if !key[depth..].starts_with(node.prefix) {
                return None;
            }
            depth += node.prefix.len();
            at = match S::label(&key[depth..]) {
                Some((label, len)) => {
                    depth += len;
                    node.child(node.branch(label).ok()?)
                }
                None if node.ends => node.child(0),
                None => return None,
            };
        }
    }

    /// How many keys are less.
    pub fn seek(&self, key: &[u8]) -> usize {
        let (mut at, mut depth) = (self.root, 0);
        loop {
            let rest = &key[depth..];
            let place = match at {
                Child::Key(rank) => return rank + usize::from(self.tail(rank) < rest),
                Child::Node(place) => place,
            };
            let node = self.view(place);
            let same = node.prefix.len().min(rest.len());
            match node.prefix[..same].cmp(&rest[..same]) {
                core::cmp::Ordering::Less => return self.last_rank(at) + 1,
                core::cmp::Ordering::Equal if same == node.prefix.len() => depth += same,
                _ => return self.first_rank(at),
            }
            let Some((label, len)) = S::label(&key[depth..]) else {
                // The key that ends here, or the first behind it.
                return self.first_rank(at);
            };
            match node.branch(label) {
                Ok(i) => (at, depth) = (node.child(i), depth + len),
                Err(i) if i < node.all() => return self.first_rank(node.child(i)),
                Err(_) => return self.last_rank(at) + 1,
            }
        }
    }
}
