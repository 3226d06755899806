//! A place in a trie: the way down to a key, and the key, put together on the way.

use super::nodes::{Child, Trie};
use super::step::Step;
use crate::family::Family;
use crate::two_stage::KeyCursor;
use alloc::vec::Vec;

/// A node on the way: its branch, and how long the key is before that.
#[derive(Clone, Copy)]
struct Level {
    node: u32,
    branch: u32,
    len: u16,
}

/// A key of a [`Trie`].
pub struct TrieCursor<'a, S: Step> {
    trie: &'a Trie<S>,
    path: Vec<Level>,
    key: Vec<u8>,
    rank: usize,
}

impl<S: Step> Clone for TrieCursor<'_, S> {
    fn clone(&self) -> Self {
        TrieCursor {
            trie: self.trie,
            path: self.path.clone(),
            key: self.key.clone(),
            rank: self.rank,
        }
    }
}

impl<S: Step> Trie<S> {
    /// A cursor at a rank that there is.
    pub fn cursor(&self, rank: usize) -> TrieCursor<'_, S> {
        let mut cursor = TrieCursor {
            trie: self,
            path: Vec::new(),
            key: Vec::new(),
            rank,
        };
        let mut at = self.root;
        while let Child::Node(place) = at {
            // The last branch whose first key is not behind the rank.
            let node = self.view(place);
            let (mut lo, mut hi) = (0, node.all());
            while hi - lo > 1 {
                let mid = (lo + hi) / 2;
                if self.first_rank(node.child(mid)) <= rank {
                    lo = mid;
                } else {
                    hi = mid;
                }
            }
            cursor.key.extend_from_slice(node.prefix);
            at = cursor.branch(place, lo);
        }
        cursor.key.extend_from_slice(self.tail(rank));
        cursor
    }

    /// Shows the keys below a child in order, without the way to it and the first `skip` bytes of its
    /// prefix.
    pub fn each_below(&self, child: Child, skip: usize, mut see: impl FnMut(&[u8])) {
        let mut cursor = TrieCursor {
            trie: self,
            path: Vec::new(),
            key: Vec::new(),
            rank: 0,
        };
        cursor.down(child, false);
        loop {
            see(&cursor.key[skip..]);
            if !cursor.step(false) {
                return;
            }
        }
    }

    /// Appends all keys to a run.
    pub fn decode<F: Family>(&self, into: &mut F::Run) {
        use crate::stage::KeyRun;
        if self.n == 0 {
            return;
        }
        into.reserve(self.n, self.key_bytes);
        let mut cursor = self.cursor(0);
        loop {
            into.push(F::of_bytes(&cursor.key));
            if !KeyCursor::<F>::next(&mut cursor) {
                return;
            }
        }
    }
}

impl<S: Step> TrieCursor<'_, S> {
    /// Takes a branch of a node whose prefix the key ends with.
    #[inline]
    fn branch(&mut self, place: usize, i: usize) -> Child {
        let node = self.trie.view(place);
        self.path.push(Level {
            node: place as u32,
            branch: i as u32,
            len: self.key.len() as u16,
        });
        if let Some(label) = i.checked_sub(usize::from(node.ends)) {
            S::append(node.labels, label, &mut self.key);
        }
        node.child(i)
    }

    /// Goes down to the first key, or to the last one.
    fn down(&mut self, mut at: Child, last: bool) {
        loop {
            match at {
                Child::Key(rank) => {
                    self.rank = rank;
                    self.key.extend_from_slice(self.trie.tail(rank));
                    return;
                }
                Child::Node(place) => {
                    let node = self.trie.view(place);
                    self.key.extend_from_slice(node.prefix);
                    let i = if last { node.all() - 1 } else { 0 };
                    at = self.branch(place, i);
                }
            }
        }
    }

    /// Goes to the next key of what the path is of, or the one before; false where there is none.
    fn step(&mut self, back: bool) -> bool {
        while let Some(level) = self.path.pop() {
            let (place, i) = (level.node as usize, level.branch as usize);
            let next = match back {
                true => i.checked_sub(1),
                false => (i + 1 < self.trie.view(place).all()).then_some(i + 1),
            };
            if let Some(next) = next {
                self.key.truncate(usize::from(level.len));
                let at = self.branch(place, next);
                self.down(at, back);
                return true;
            }
        }
        false
    }
}

impl<F: Family, S: Step> KeyCursor<F> for TrieCursor<'_, S> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        F::of_bytes(&self.key)
    }
    #[inline]
    fn rank(&self) -> usize {
        self.rank
    }
    fn next(&mut self) -> bool {
        let more = self.rank + 1 < self.trie.n;
        if more {
            self.step(false);
        }
        more
    }
    fn prev(&mut self) -> bool {
        let more = self.rank > 0;
        if more {
            self.step(true);
        }
        more
    }
}
