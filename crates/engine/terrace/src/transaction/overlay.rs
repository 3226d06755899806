//! The changes of a transaction that are not written yet, by structure and key, and a range of which nothing is left.
//!
//! Invariant: for each key the last change that is staged, and, once there is a savepoint to go back to, what
//! it took the place of.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;

use terrace_base::StructureId;

/// A change that is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staged {
    /// This value.
    Put(Vec<u8>),
    /// None.
    Delete,
    /// What merges make of the value that is there: the last one of them in the batch.
    Merged(usize),
}

type Place = (StructureId, Vec<u8>);

/// A range that goes as a whole: what is staged there came later.
struct Gone {
    id: StructureId,
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    /// How many changes may be taken back that came before, if any may.
    undo: Option<usize>,
}

/// The changes of a transaction that are not written yet.
#[derive(Default)]
pub struct Overlay {
    staged: BTreeMap<Place, Staged>,
    /// Those of them that are merges.
    merged: BTreeSet<Place>,
    undo: Vec<(Place, Option<Staged>)>,
    gone: Option<Gone>,
    /// Whether the transaction may go back.
    has_mark: bool,
}

impl Overlay {
    /// The last change of a key.
    pub fn get(&self, id: StructureId, key: &[u8]) -> Option<&Staged> {
        self.staged.get(&(id, key.to_vec()))
    }

    /// A change more.
    pub fn set(&mut self, id: StructureId, key: &[u8], staged: Staged) {
        let place = (id, key.to_vec());
        let before = self.replace(place.clone(), Some(staged));
        if self.has_mark {
            self.undo.push((place, before));
        }
    }

    /// Nothing is left of this range, of what is staged there neither. One range at most. O(what is staged there).
    pub fn remove_all(&mut self, id: StructureId, low: &[u8], high: Option<&[u8]>) {
        let keys = self.range(id, low, high).map(|(key, _)| key.to_vec());
        let keys: Vec<Vec<u8>> = keys.collect();
        let undo = self.has_mark.then_some(self.undo.len());
        if self.has_mark {
            // So that it has a place among what may be taken back.
            let place = (id, low.to_vec());
            let staged = self.staged.get(&place).cloned();
            self.undo.push((place, staged));
        }
        for key in keys {
            let place = (id, key);
            let before = self.replace(place.clone(), None);
            if self.has_mark {
                self.undo.push((place, before));
            }
        }
        self.gone = Some(Gone {
            id,
            low: low.to_vec(),
            high: high.map(<[u8]>::to_vec),
            undo,
        });
    }

    /// Whether nothing of this key is left but what is staged.
    pub fn hides(&self, id: StructureId, key: &[u8]) -> bool {
        self.gone.as_ref().is_some_and(|gone| {
            gone.id == id
                && gone.low.as_slice() <= key
                && gone.high.as_deref().is_none_or(|high| key < high)
        })
    }

    fn replace(&mut self, place: Place, staged: Option<Staged>) -> Option<Staged> {
        match &staged {
            Some(Staged::Merged(_)) => drop(self.merged.insert(place.clone())),
            _ if self.merged.is_empty() => {}
            _ => drop(self.merged.remove(&place)),
        }
        match staged {
            Some(staged) => self.staged.insert(place, staged),
            None => self.staged.remove(&place),
        }
    }

    /// How many changes were made since the first mark, to go back there.
    pub fn mark(&mut self) -> usize {
        self.has_mark = true;
        self.undo.len()
    }

    /// Takes back what was changed since. O(what is taken back).
    pub fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            if let Some((place, before)) = self.undo.pop() {
                self.replace(place, before);
            }
        }
        let is_undone = |gone: &Gone| gone.undo.is_some_and(|undo| undo >= mark);
        if self.gone.as_ref().is_some_and(is_undone) {
            self.gone = None;
        }
    }

    /// The changes of a structure with keys from `low` to before `high`, in order.
    pub fn range(
        &self,
        id: StructureId,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> impl DoubleEndedIterator<Item = (&[u8], &Staged)> + use<'_> {
        self.staged
            .range(places(id, low, high))
            .map(|((_, key), staged)| (key.as_slice(), staged))
    }

    /// The keys in such a range whose values merges make.
    pub fn merged(&self, id: StructureId, low: &[u8], high: Option<&[u8]>) -> Vec<Vec<u8>> {
        let merged = self.merged.range(places(id, low, high));
        merged.map(|(_, key)| key.clone()).collect()
    }
}

fn places(id: StructureId, low: &[u8], high: Option<&[u8]>) -> (Bound<Place>, Bound<Place>) {
    let to = match high {
        Some(high) if high < low => (id, low.to_vec()),
        Some(high) => (id, high.to_vec()),
        None => (StructureId(id.0.saturating_add(1)), Vec::new()),
    };
    (Bound::Included((id, low.to_vec())), Bound::Excluded(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn going_back_brings_back_what_was_there() {
        let (a, b) = (StructureId(1), StructureId(2));
        let mut overlay = Overlay::default();
        overlay.set(a, b"k", Staged::Put(b"1".to_vec()));
        let mark = overlay.mark();
        overlay.set(a, b"k", Staged::Delete);
        overlay.set(a, b"l", Staged::Merged(0));
        overlay.set(b, b"a", Staged::Delete);
        assert_eq!(overlay.range(a, b"", None).count(), 2);
        assert_eq!(overlay.range(a, b"l", Some(b"k")).count(), 0);
        overlay.back_to(mark);
        assert_eq!(overlay.get(a, b"k"), Some(&Staged::Put(b"1".to_vec())));
        assert_eq!(overlay.range(a, b"", None).count(), 1);
        let before = overlay.mark();
        overlay.remove_all(a, b"a", Some(b"m"));
        assert!(overlay.hides(a, b"k") && !overlay.hides(a, b"m") && !overlay.hides(b, b"k"));
        assert_eq!(overlay.get(a, b"k"), None);
        let behind = overlay.mark();
        overlay.set(a, b"k", Staged::Delete);
        overlay.back_to(behind);
        assert!(overlay.hides(a, b"k") && overlay.get(a, b"k").is_none());
        overlay.back_to(before);
        assert!(!overlay.hides(a, b"k"));
        assert_eq!(overlay.get(a, b"k"), Some(&Staged::Put(b"1".to_vec())));
        // There is no way back to before the first mark, and nothing is kept for it.
        overlay.back_to(0);
        assert_eq!(overlay.get(a, b"k"), Some(&Staged::Put(b"1".to_vec())));
        assert!(overlay.undo.is_empty());
    }
}
