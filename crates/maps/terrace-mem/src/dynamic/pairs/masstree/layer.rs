//! A layer: an ordered map from words to values or to layers below.

use crate::dynamic::pos::Pos;
use crate::dynamic::tree::Tree;
use crate::family::IntFamily;
use crate::two_stage::{DynamicCursor, DynamicStage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;

/// Most words of a layer that is one array; longer ones are trees. Most layers of names and addresses
/// have about nine.
const FEW: usize = 32;

/// Room by which an array grows: slack is what a small layer would have most of.
const GROWTH: usize = 2;

/// A value, and what is left of its key behind the word.
pub struct Entry<V> {
    pub rest: Box<[u8]>,
    pub val: V,
    pub hot: AtomicBool,
}

/// What a word leads to.
pub enum Link<V> {
    Entry(Entry<V>),
    /// The number of a layer: behind the word at least two keys go on.
    Layer(u32),
}

/// The words of a layer.
pub enum Words<V> {
    Few(Vec<(u64, Link<V>)>),
    Many(Box<Tree<IntFamily, Link<V>>>),
}

/// A layer, and what all of its keys share before their words: a multiple of seven bytes.
pub struct Layer<V> {
    pub prefix: Box<[u8]>,
    pub words: Words<V>,
}

impl<V> Layer<V> {
    pub fn new(prefix: &[u8]) -> Self {
        debug_assert!(prefix.len().is_multiple_of(7));
        Layer {
            prefix: prefix.into(),
            words: Words::Few(Vec::new()),
        }
    }

    /// Bytes beside the layer itself, without those of entries.
    pub fn heap(&self) -> usize {
        self.prefix.len() + self.words.heap()
    }
}

impl<V> Words<V> {
    pub fn len(&self) -> usize {
        match self {
            Words::Few(all) => all.len(),
            Words::Many(tree) => tree.len(),
        }
    }

    pub fn heap(&self) -> usize {
        match self {
            Words::Few(all) => all.capacity() * size_of::<(u64, Link<V>)>(),
            Words::Many(tree) => size_of_val(&**tree) + tree.bytes(),
        }
    }

    #[inline]
    fn rank(all: &[(u64, Link<V>)], word: u64) -> usize {
        all.partition_point(|entry| entry.0 < word)
    }

    #[inline]
    pub fn get(&self, word: u64) -> Option<&Link<V>> {
        match self {
            Words::Few(all) => {
                let entry = all.get(Self::rank(all, word))?;
                (entry.0 == word).then_some(&entry.1)
            }
            Words::Many(tree) => tree.get(word, false),
        }
    }

    pub fn get_mut(&mut self, word: u64) -> Option<&mut Link<V>> {
        match self {
            Words::Few(all) => {
                let i = Self::rank(all, word);
                let entry = all.get_mut(i)?;
                (entry.0 == word).then_some(&mut entry.1)
            }
            Words::Many(tree) => tree.get_mut(word),
        }
    }

    /// Sets what a word leads to.
    pub fn set(&mut self, word: u64, link: Link<V>) {
        match self {
            Words::Few(all) => {
                let i = Self::rank(all, word);
                let n = all.len();
                if let Some(entry) = all.get_mut(i).filter(|entry| entry.0 == word) {
                    entry.1 = link;
                } else if n < FEW {
                    if n == all.capacity() {
                        all.reserve_exact(GROWTH.max(n / 4));
                    }
                    all.insert(i, (word, link));
                } else {
                    let mut tree = Box::<Tree<IntFamily, Link<V>>>::default();
                    for (word, link) in all.drain(..) {
                        tree.insert(word, link);
                    }
                    tree.insert(word, link);
                    *self = Words::Many(tree);
                }
            }
            Words::Many(tree) => {
                tree.insert(word, link);
            }
        }
    }

    pub fn remove(&mut self, word: u64) -> Option<Link<V>> {
        match self {
            Words::Few(all) => {
                let i = Self::rank(all, word);
                (all.get(i)?.0 == word).then(|| all.remove(i).1)
            }
            Words::Many(tree) => tree.remove(word),
        }
    }

    /// The values of the entries, in the order of their words.
    pub fn vals_mut(&mut self) -> Vec<&mut V> {
        let mut vals = Vec::new();
        fn see<'a, V>(link: &'a mut Link<V>, vals: &mut Vec<&'a mut V>) {
            if let Link::Entry(entry) = link {
                vals.push(&mut entry.val);
            }
        }
        match self {
            Words::Few(all) => all.iter_mut().for_each(|e| see(&mut e.1, &mut vals)),
            Words::Many(tree) => tree.visit_mut((None, None), |_, link| see(link, &mut vals)),
        }
        vals
    }

    /// The one word, where there is one alone.
    pub fn into_only(self) -> Option<Link<V>> {
        match self {
            Words::Few(mut all) => all.pop().map(|entry| entry.1),
            Words::Many(mut tree) => {
                let word = tree.seek(None, || {})?.key();
                tree.remove(word)
            }
        }
    }

    /// The first word that is not less.
    pub fn seek(&self, word: u64) -> Option<At<'_, V>> {
        match self {
            Words::Few(all) => {
                let i = Self::rank(all, word);
                (i < all.len()).then_some(At::Few(all, i))
            }
            Words::Many(tree) => tree.seek(Some(word), || {}).map(At::Many),
        }
    }

    /// The last word that is less; the last of all for none.
    pub fn seek_before(&self, word: Option<u64>) -> Option<At<'_, V>> {
        match self {
            Words::Few(all) => {
                let past = word.map_or(all.len(), |word| Self::rank(all, word));
                Some(At::Few(all, past.checked_sub(1)?))
            }
            Words::Many(tree) => tree.seek_before(word).map(At::Many),
        }
    }
}

/// A word of a layer.
#[allow(
    clippy::large_enum_variant,
    reason = "an allocation for each range would cost more than the room on the stack"
)]
pub enum At<'a, V> {
    Few(&'a [(u64, Link<V>)], usize),
    Many(Pos<'a, IntFamily, Link<V>>),
}

impl<'a, V> At<'a, V> {
    #[inline]
    pub fn word(&self) -> u64 {
        match self {
            At::Few(all, i) => all[*i].0,
            At::Many(pos) => pos.key(),
        }
    }

    #[inline]
    pub fn link(&self) -> &'a Link<V> {
        match self {
            At::Few(all, i) => &all[*i].1,
            At::Many(pos) => pos.val(),
        }
    }

    pub fn next(&mut self) -> bool {
        match self {
            At::Few(all, i) => {
                *i += 1;
                *i < all.len()
            }
            At::Many(pos) => pos.next(),
        }
    }

    pub fn prev(&mut self) -> bool {
        match self {
            At::Few(_, i) => {
                *i = i.wrapping_sub(1);
                *i != usize::MAX
            }
            At::Many(pos) => pos.prev(),
        }
    }
}
