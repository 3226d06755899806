//! Masstree (section 4.1): a trie whose nodes are ordered maps from words of seven bytes.
//!
//! What always holds: a word is seven bytes of the key and how many there are, so that one comparison of
//! numbers tells any two apart, zeros and beginnings of other keys too; a word that says that the key
//! goes on leads to an entry with the rest of its key, or to a layer; no layer is empty; all keys of a
//! layer share its prefix, so that two keys with a long common beginning do not make a chain of layers.
//! Layers are named by numbers and nothing is recursive.

mod cursor;
mod layer;

pub use cursor::MassPos;

use super::slab::Slab;
use crate::family::Family;
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::stage::{KeyRun, ON, word};
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem;
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use layer::{Entry, Layer, Link};

/// No layer.
const NONE: u32 = u32::MAX;

/// Bytes of a word.
const WORD: usize = 7;

/// An ordered map from encoded keys to values. Every operation on a key is O(key + layers log n).
pub struct Masstree<F: Family, V> {
    layers: Slab<Layer<V>>,
    root: u32,
    len: usize,
    /// Bytes beside the layers themselves.
    heap: usize,
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
fn word_on(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..WORD].copy_from_slice(&bytes[..WORD]);
    word[WORD] = ON;
    u64::from_be_bytes(word)
}

fn entry<V>(rest: &[u8], val: V) -> (u64, Entry<V>) {
    let entry = Entry {
        rest: rest.get(WORD..).unwrap_or_default().into(),
        val,
        hot: AtomicBool::new(false),
    };
    (word(rest), entry)
}

impl<F: Family, V> Masstree<F, V> {
    /// Changes a layer and keeps count of its bytes.
    fn change<R>(&mut self, layer: u32, act: impl FnOnce(&mut Layer<V>) -> R) -> R {
        let layer = self.layers.get_mut(layer);
        let before = layer.heap();
        let done = act(layer);
        self.heap = self.heap + layer.heap() - before;
        done
    }

    fn put(&mut self, layer: Layer<V>) -> u32 {
        self.heap += layer.heap();
        self.layers.put(layer)
    }

    /// The layer and the word of a key.
    #[inline]
    fn find(&self, key: F::Ref<'_>) -> Option<(u32, u64)> {
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
    fn cut(&mut self, at: u32, shared: usize) {
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
    fn deepen(&mut self, at: u32, word: u64, rest: &[u8]) -> u32 {
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

impl<F: Family, V> DynamicStage<F, V> for Masstree<F, V> {
    type Cursor<'a>
        = MassPos<'a, F, V>
    where
        V: 'a;

    #[inline]
    fn len(&self) -> usize {
        self.len
    }

    fn bytes(&self) -> usize {
        self.layers.bytes() + self.heap + size_of::<Self>()
    }

    #[inline]
    fn get(&self, key: F::Ref<'_>, touch: bool) -> Option<&V> {
        let (at, word) = self.find(key)?;
        let Link::Entry(entry) = self.layers.get(at).words.get(word)? else {
            return None;
        };
        if touch && !entry.hot.load(Relaxed) {
            entry.hot.store(true, Relaxed);
        }
        Some(&entry.val)
    }

    fn get_mut(&mut self, key: F::Ref<'_>) -> Option<&mut V> {
        let (at, word) = self.find(key)?;
        let Link::Entry(entry) = self.layers.get_mut(at).words.get_mut(word)? else {
            return None;
        };
        *entry.hot.get_mut() = true;
        Some(&mut entry.val)
    }

    fn insert_and(
        &mut self,
        key: F::Ref<'_>,
        val: V,
        mut meanwhile: impl FnMut(Near),
    ) -> Option<V> {
        meanwhile(Near::Inner);
        if self.root == NONE {
            self.root = self.put(Layer::new(&[]));
        }
        let mut room = [0; 8];
        let (mut at, mut rest) = (self.root, F::as_bytes(key, &mut room));
        let mut told = false;
        loop {
            let layer = self.layers.get(at);
            let shared = common_prefix(&layer.prefix, rest);
            if shared < layer.prefix.len() {
                self.cut(at, shared);
                continue;
            }
            let behind = &rest[shared..];
            let word = word(behind);
            let link = layer.words.get(word);
            if !mem::replace(&mut told, true) {
                meanwhile(Near::Leaf);
            }
            match link {
                None => {
                    let (word, entry) = entry(behind, val);
                    self.heap += entry.rest.len();
                    self.change(at, |layer| layer.words.set(word, Link::Entry(entry)));
                    self.len += 1;
                    return None;
                }
                Some(Link::Layer(below)) => (at, rest) = (*below, &behind[WORD..]),
                Some(Link::Entry(old)) if behind.len() <= WORD || *old.rest == behind[WORD..] => {
                    let link = self.layers.get_mut(at).words.get_mut(word);
                    return match link {
                        Some(Link::Entry(old)) => Some(mem::replace(&mut old.val, val)),
                        _ => None,
                    };
                }
                Some(Link::Entry(_)) => {
                    rest = &behind[WORD..];
                    at = self.deepen(at, word, rest);
                }
            }
        }
    }

    fn remove(&mut self, key: F::Ref<'_>) -> Option<V> {
        let (last, _) = self.find(key)?;
        // The lowest layer with more than this key: its word goes, with all layers below.
        let mut room = [0; 8];
        let mut rest = F::as_bytes(key, &mut room);
        let (mut at, mut from) = (self.root, None);
        loop {
            let layer = self.layers.get(at);
            rest = rest.strip_prefix(&*layer.prefix)?;
            let word = word(rest);
            if from.is_none() || layer.words.len() > 1 || planted(Fault::LeftLayer) {
                from = Some((at, word));
            }
            match layer.words.get(word)? {
                Link::Layer(below) if at != last => (at, rest) = (*below, &rest[WORD..]),
                _ => break,
            }
        }
        let (layer, word) = from?;
        let mut link = self.change(layer, |layer| layer.words.remove(word))?;
        let entry = loop {
            match link {
                Link::Entry(entry) => break entry,
                Link::Layer(below) => {
                    let layer = self.layers.take(below)?;
                    self.heap -= layer.heap();
                    link = layer.words.into_only()?;
                }
            }
        };
        self.heap -= entry.rest.len();
        self.len -= 1;
        if self.len == 0 {
            (self.layers, self.root, self.heap) = (Slab::default(), NONE, 0);
        }
        Some(entry.val)
    }

    fn seek(
        &self,
        from: Option<F::Ref<'_>>,
        meanwhile: impl FnOnce(),
    ) -> Option<MassPos<'_, F, V>> {
        meanwhile();
        match from {
            Some(from) => MassPos::at_or_after(self, from),
            None => MassPos::end(self, false),
        }
    }

    fn visit_mut<'a>(
        &'a mut self,
        (from, to): Span<'_, F>,
        mut see: impl FnMut(F::Ref<'_>, &'a mut V),
    ) where
        V: 'a,
    {
        // The layer of each entry and its key, in order; the entries of a layer are in order, too.
        let (mut order, mut keys) = (Vec::new(), F::Run::default());
        let mut at = self.seek(None, || {});
        while let Some(pos) = &mut at {
            order.push(pos.layer());
            keys.push(pos.key());
            if !pos.next() {
                at = None;
            }
        }
        drop(at);
        let all = self.layers.all_mut().into_iter();
        let mut all: Vec<_> = all
            .map(|layer| layer.map(|layer| layer.words.vals_mut().into_iter()))
            .collect();
        for (i, layer) in order.into_iter().enumerate() {
            let val = all[layer as usize].as_mut().and_then(Iterator::next);
            let key = keys.get(i);
            let within = from.is_none_or(|from| F::cmp(from, key).is_le())
                && to.is_none_or(|to| F::cmp(key, to).is_lt());
            if let Some(val) = val.filter(|_| within) {
                see(key, val);
            }
        }
    }

    fn seek_before(&self, to: Option<F::Ref<'_>>) -> Option<MassPos<'_, F, V>> {
        let Some(mut pos) = to.and_then(|to| MassPos::at_or_after(self, to)) else {
            // All are less.
            return MassPos::end(self, true);
        };
        pos.prev().then_some(pos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What always holds; see above.
    fn whole<F: Family, V>(tree: &Masstree<F, V>) {
        let mut todo = match tree.root {
            NONE => Vec::new(),
            root => vec![root],
        };
        let (mut heap, mut n) = (0, 0);
        while let Some(at) = todo.pop() {
            let layer = tree.layers.get(at);
            assert!(layer.words.len() > 0, "an empty layer");
            heap += layer.heap();
            let mut at = layer.words.seek(0);
            while let Some(pos) = &mut at {
                match pos.link() {
                    Link::Layer(below) => todo.push(*below),
                    Link::Entry(entry) => {
                        assert!(pos.word() as u8 == ON || entry.rest.is_empty());
                        (n, heap) = (n + 1, heap + entry.rest.len());
                    }
                }
                if !pos.next() {
                    at = None;
                }
            }
        }
        assert_eq!((tree.len, tree.heap), (n, heap));
    }

    #[test]
    fn tries_of_words() {
        super::super::conformance::ints::<Masstree<_, _>>(whole);
        super::super::conformance::bytes::<Masstree<_, _>>(whole);
        super::super::conformance::refilled::<Masstree<_, _>>(whole);
    }

    #[test]
    fn long_beginnings_make_no_chains_of_layers() {
        let mut tree = Masstree::<crate::family::ByteFamily, u8>::default();
        for last in 0..9 {
            let mut key = vec![b'x'; 65_534];
            key.push(last);
            tree.insert(&key, last);
        }
        assert!(tree.bytes() < 67_000 + 2000, "{}", tree.bytes());
    }
}
