//! The layers as a dynamic stage.

use super::super::slab::Slab;
use super::cursor::MassPos;
use super::layer::{Layer, Link};
use super::words::{Masstree, NONE, WORD, entry};
use crate::family::{Family, KeyRun};
use crate::faults::{Fault, planted};
use crate::prefix::common_prefix;
use crate::stage::pairs::word;
use crate::two_stage::{DynamicCursor, DynamicStage, Near, Span};
use alloc::vec::Vec;
use core::mem;
use core::sync::atomic::Ordering::Relaxed;

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
    use crate::stage::pairs::ON;

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
        crate::dynamic::conformance::ints::<Masstree<_, _>>(whole);
        crate::dynamic::conformance::bytes::<Masstree<_, _>>(whole);
        crate::dynamic::conformance::refilled::<Masstree<_, _>>(whole);
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
