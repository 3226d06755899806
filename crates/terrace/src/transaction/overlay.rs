//! The changes of a transaction that are not written yet, by structure and key.
//!
//! Invariant: for each key the last change that is staged, and, to go back to a savepoint, what it took
//! the place of.

use std::collections::BTreeMap;
use std::ops::Bound;

use terrace_base::StructureId;

/// A change that is staged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Staged {
    /// This value.
    Put(Vec<u8>),
    /// None.
    Delete,
    /// What merges make of the value that is there.
    Merged,
}

type Place = (StructureId, Vec<u8>);

/// See the module's text.
#[derive(Default)]
pub struct Overlay {
    staged: BTreeMap<Place, Staged>,
    undo: Vec<(Place, Option<Staged>)>,
}

impl Overlay {
    /// The last change of a key.
    pub fn get(&self, id: StructureId, key: &[u8]) -> Option<&Staged> {
        self.staged.get(&(id, key.to_vec()))
    }

    /// A change more.
    pub fn set(&mut self, id: StructureId, key: &[u8], staged: Staged) {
        let place = (id, key.to_vec());
        let before = self.staged.insert(place.clone(), staged);
        self.undo.push((place, before));
    }

    /// How many changes were made, to go back there.
    pub fn mark(&self) -> usize {
        self.undo.len()
    }

    /// Takes back what was changed since. O(what is taken back).
    pub fn back_to(&mut self, mark: usize) {
        while self.undo.len() > mark {
            match self.undo.pop() {
                Some((place, Some(before))) => drop(self.staged.insert(place, before)),
                Some((place, None)) => drop(self.staged.remove(&place)),
                None => return,
            }
        }
    }

    /// The changes of a structure with keys from `low` to before `high`, in order.
    pub fn range(
        &self,
        id: StructureId,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> impl Iterator<Item = (&[u8], &Staged)> {
        let to = match high {
            Some(high) if high < low => Bound::Excluded((id, low.to_vec())),
            Some(high) => Bound::Excluded((id, high.to_vec())),
            None => Bound::Excluded((StructureId(id.0.saturating_add(1)), Vec::new())),
        };
        self.staged
            .range((Bound::Included((id, low.to_vec())), to))
            .map(|((_, key), staged)| (key.as_slice(), staged))
    }
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
        overlay.set(a, b"l", Staged::Merged);
        overlay.set(b, b"a", Staged::Delete);
        assert_eq!(overlay.range(a, b"", None).count(), 2);
        assert_eq!(overlay.range(a, b"l", Some(b"k")).count(), 0);
        overlay.back_to(mark);
        assert_eq!(overlay.get(a, b"k"), Some(&Staged::Put(b"1".to_vec())));
        assert_eq!(overlay.range(a, b"", None).count(), 1);
        overlay.back_to(0);
        assert_eq!(overlay.get(a, b"k"), None);
    }
}
