//! The layers: how a key is found by its words, and how a layer is cut or becomes two.

use super::super::slab::Slab;
use super::layer::{Entry, Layer, Link};
use crate::family::Family;
use crate::prefix::common_prefix;
use crate::stage::pairs::{ON, word};
use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::AtomicBool;

/// No layer.
pub(super) const NONE: u32 = u32::MAX;

/// Bytes of a word.
pub(super) const WORD: usize = 7;

/// An ordered map from encoded keys to values. Every operation on a key is O(key + layers log n).
pub struct Masstree<F: Family, V> {
    pub(super) layers: Slab<Layer<V>>,
    pub(super) root: u32,
    pub(super) len: usize,
    /// Bytes beside the layers themselves.
    pub(super) heap: usize,
    family: PhantomData<F>,
}

impl<F: Family, V> Default for Masstree<F, V> {
    fn default() -> Self {
        Masstree {
            layers: Slab::default(),
            root: NONE,
            len: 0,
            heap: 0,
            family: PhantomData,
        }
    }
}

/// The word of seven bytes that a key goes on behind.
pub(super) fn word_on(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..WORD].copy_from_slice(&bytes[..WORD]);
    word[WORD] = ON;
    u64::from_be_bytes(word)
}

pub(super) fn entry<V>(rest: &[u8], val: V) -> (u64, Entry<V>) {
    let entry = Entry {
        rest: rest.get(WORD..).unwrap_or_default().into(),
        val,
        hot: AtomicBool::new(false),
    };
    (word(rest), entry)
}

impl<F: Family, V> Masstree<F, V> {
    /// Changes a layer and keeps count of its bytes.
    pub(super) fn change<R>(&mut self, layer: u32, act: impl FnOnce(&mut Layer<V>) -> R) -> R {
        let layer = self.layers.get_mut(layer);
        let before = layer.heap();
        let done = act(layer);
        self.heap = self.heap + layer.heap() - before;
        done
    }

    pub(super) fn put(&mut self, layer: Layer<V>) -> u32 {
        self.heap += layer.heap();
        self.layers.put(layer)
    }

    /// The layer and the word of a key.
    #[inline]
    pub(super) fn find(&self, key: F::Ref<'_>) -> Option<(u32, u64)> {
        if self.root == NONE {
            return None;
        }
        let mut room = [0; 8];
        let (mut at, mut rest) = (self.root, F::as_bytes(key, &mut room));
        loop {
            let layer = self.layers.get(at);
            rest = rest.strip_prefix(&*layer.prefix)?;
            let word = word(rest);
            match layer.words.get(word)? {
                Link::Entry(entry) => {
                    let same = rest.len() <= WORD || *entry.rest == rest[WORD..];
                    return same.then_some((at, word));
                }
                Link::Layer(below) => (at, rest) = (*below, &rest[WORD..]),
            }
        }
    }

    /// Cuts the prefix of a layer so that no more is left than a key shares with it: the rest of it is
    /// that of a layer below.
    pub(super) fn cut(&mut self, at: u32, shared: usize) {
        let keep = shared / WORD * WORD;
        let layer = self.layers.get_mut(at);
        let prefix = mem::take(&mut layer.prefix);
        let mut words = mem::replace(layer, Layer::new(&prefix[..keep])).words;
        self.heap -= prefix.len() - keep + words.heap();
        // A key that ends behind the prefix ends in the word that is cut out of it, if that is all.
        let last = prefix.len() == keep + WORD;
        if let Some(ended) = last.then(|| words.remove(0)).flatten() {
            self.change(at, |layer| layer.words.set(word(&prefix[keep..]), ended));
        }
        if words.len() > 0 {
            let below = self.put(Layer {
                prefix: prefix[keep + WORD..].into(),
                words,
            });
            self.change(at, |layer| {
                layer
                    .words
                    .set(word_on(&prefix[keep..]), Link::Layer(below));
            });
        }
    }

    /// Makes a layer of the entry behind a word; returns it.
    pub(super) fn deepen(&mut self, at: u32, word: u64, rest: &[u8]) -> u32 {
        let link = self.layers.get_mut(at).words.get_mut(word);
        let Some(link @ Link::Entry(_)) = link else {
            return at;
        };
        let Link::Entry(old) = mem::replace(link, Link::Layer(NONE)) else {
            return at;
        };
        self.heap -= old.rest.len();
        let keep = common_prefix(&old.rest, rest) / WORD * WORD;
        let mut layer = Layer::new(&old.rest[..keep]);
        let (behind, mut moved) = entry(&old.rest[keep..], old.val);
        moved.hot = old.hot;
        self.heap += moved.rest.len();
        layer.words.set(behind, Link::Entry(moved));
        let below = self.put(layer);
        if let Some(link) = self.layers.get_mut(at).words.get_mut(word) {
            *link = Link::Layer(below);
        }
        below
    }
}
