//! A place in the trie: a word of a layer, and the key, put together on the way down.

use super::layer::{At, Link};
use super::words::{Masstree, NONE, WORD, word_on};
use crate::family::Family;
use crate::prefix::common_prefix;
use crate::stage::pairs::{ON, word};
use crate::two_stage::DynamicCursor;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;

/// A layer, and how long the key is before its words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Level {
    layer: u32,
    base: usize,
}

/// An entry of a [`Masstree`].
pub struct MassPos<'a, F: Family, V> {
    tree: &'a Masstree<F, V>,
    /// The layers above.
    path: Vec<Level>,
    level: Level,
    at: At<'a, V>,
    key: Vec<u8>,
}

impl<'a, F: Family, V> MassPos<'a, F, V> {
    fn new(tree: &'a Masstree<F, V>) -> Option<Self> {
        if tree.root == NONE {
            return None;
        }
        Some(MassPos {
            tree,
            path: Vec::new(),
            level: Level {
                layer: tree.root,
                base: 0,
            },
            at: tree.layers.get(tree.root).words.seek(0)?,
            key: Vec::new(),
        })
    }

    /// The first entry of all, or the last.
    pub fn end(tree: &'a Masstree<F, V>, last: bool) -> Option<Self> {
        let mut pos = Self::new(tree)?;
        pos.enter(tree.root);
        pos.go(last).then_some(pos)
    }

    /// The layer that the entry is in.
    pub fn layer(&self) -> u32 {
        self.level.layer
    }

    /// Goes into a layer, whose words come behind its prefix.
    fn enter(&mut self, layer: u32) {
        self.key
            .extend_from_slice(&self.tree.layers.get(layer).prefix);
        self.level = Level {
            layer,
            base: self.key.len(),
        };
    }

    /// Stands at the first or the last word of the layer, and goes down.
    fn go(&mut self, last: bool) -> bool {
        let words = &self.tree.layers.get(self.level.layer).words;
        let at = match last {
            true => words.seek_before(None),
            false => words.seek(0),
        };
        match at {
            Some(at) => {
                self.at = at;
                self.down(last)
            }
            None => false,
        }
    }

    /// Puts the bytes of the word behind those before it.
    fn spell(&mut self) {
        let bytes = self.at.word().to_be_bytes();
        self.key.truncate(self.level.base);
        self.key
            .extend_from_slice(&bytes[..usize::from(bytes[WORD].min(WORD as u8))]);
    }

    /// Goes into the layer behind the word.
    fn descend(&mut self, below: u32) {
        self.spell();
        self.path.push(self.level);
        self.enter(below);
    }

    /// Goes down to the first entry or the last one behind the word.
    fn down(&mut self, last: bool) -> bool {
        if let Link::Layer(below) = self.at.link() {
            // Not recursive but once: `go` comes back here with the layers below in the loop.
            let mut below = *below;
            loop {
                self.descend(below);
                let words = &self.tree.layers.get(self.level.layer).words;
                let at = match last {
                    true => words.seek_before(None),
                    false => words.seek(0),
                };
                let Some(at) = at else {
                    return false;
                };
                self.at = at;
                match self.at.link() {
                    Link::Layer(next) => below = *next,
                    Link::Entry(_) => break,
                }
            }
        }
        self.spell();
        if let Link::Entry(entry) = self.at.link() {
            self.key.extend_from_slice(&entry.rest);
        }
        true
    }

    /// Goes to the first entry behind the layer, or to the last before it.
    fn climb(&mut self, back: bool) -> bool {
        while let Some(level) = self.path.pop() {
            self.level = level;
            let word = word_on(&self.key[level.base..]);
            let words = &self.tree.layers.get(level.layer).words;
            let at = match back {
                true => words.seek_before(Some(word)),
                // No word is greater than this by one: its last byte is 8.
                false => words.seek(word + 1),
            };
            if let Some(at) = at {
                self.at = at;
                return self.down(back);
            }
        }
        false
    }

    /// The first entry whose key is not less than `probe`.
    pub fn at_or_after(tree: &'a Masstree<F, V>, probe: F::Ref<'_>) -> Option<Self> {
        let mut pos = Self::new(tree)?;
        let mut room = [0; 8];
        let mut rest = F::as_bytes(probe, &mut room);
        let mut layer = tree.root;
        let found = loop {
            let prefix = &tree.layers.get(layer).prefix;
            let shared = common_prefix(prefix, rest);
            if shared < prefix.len() && rest.get(shared).is_some_and(|b| *b > prefix[shared]) {
                // All of the layer is less.
                break pos.climb(false);
            }
            pos.enter(layer);
            if shared < prefix.len() {
                break pos.go(false);
            }
            rest = &rest[shared..];
            let probe = word(rest);
            let Some(at) = tree.layers.get(layer).words.seek(probe) else {
                break pos.climb(false);
            };
            pos.at = at;
            if pos.at.word() > probe {
                break pos.down(false);
            }
            match pos.at.link() {
                Link::Layer(below) => {
                    pos.spell();
                    pos.path.push(pos.level);
                    (layer, rest) = (*below, &rest[WORD..]);
                }
                Link::Entry(entry) => {
                    let less = probe as u8 == ON && *entry.rest < rest[WORD..];
                    break match less {
                        false => pos.down(false),
                        true if pos.at.next() => pos.down(false),
                        true => pos.climb(false),
                    };
                }
            }
        };
        found.then_some(pos)
    }

    fn entry(&self) -> &'a super::layer::Entry<V> {
        match self.at.link() {
            Link::Entry(entry) => entry,
            Link::Layer(_) => unreachable!("a place is at an entry"),
        }
    }
}

impl<'a, F: Family, V> DynamicCursor<'a, F, V> for MassPos<'a, F, V> {
    #[inline]
    fn key(&self) -> F::Ref<'_> {
        F::of_bytes(&self.key)
    }
    #[inline]
    fn val(&self) -> &'a V {
        &self.entry().val
    }
    fn next(&mut self) -> bool {
        match self.at.next() {
            true => self.down(false),
            false => self.climb(false),
        }
    }
    fn prev(&mut self) -> bool {
        match self.at.prev() {
            true => self.down(true),
            false => self.climb(true),
        }
    }
    fn same(&self, other: &Self) -> bool {
        core::ptr::eq(self.tree, other.tree)
            && self.level == other.level
            && self.at.word() == other.at.word()
    }
    fn cool(&self) -> bool {
        self.entry().hot.swap(false, Relaxed)
    }
}
