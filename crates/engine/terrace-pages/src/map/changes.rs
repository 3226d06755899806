//! A growing list of changed pages in chunks: no copy on growth, because it grows under the mutex
//! that every page write needs, and memory that can be counted.

use super::place::Place;
use terrace_base::PageId;

/// Entries of a chunk: 64 KiB, small against any budget and large against the chunk table.
const CHUNK_ENTRIES: usize = 4096;

/// A page that a layer changed, and the place that it had in the layer below.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Change {
    pub pid: PageId,
    pub before: Place,
}

/// The changes of one layer, each page at most once, in the order in which they came.
#[derive(Default)]
pub(super) struct ChangeList {
    chunks: Vec<Vec<Change>>,
    len: usize,
}

impl ChangeList {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn push(&mut self, change: Change) {
        if self.len == self.chunks.len() * CHUNK_ENTRIES {
            self.chunks.push(Vec::with_capacity(CHUNK_ENTRIES));
        }
        if let Some(last) = self.chunks.last_mut() {
            last.push(change);
            self.len += 1;
        }
    }

    pub fn get(&self, index: usize) -> Option<Change> {
        self.chunks
            .get(index / CHUNK_ENTRIES)?
            .get(index % CHUNK_ENTRIES)
            .copied()
    }

    pub fn set_before(&mut self, index: usize, before: Place) {
        let chunk = self.chunks.get_mut(index / CHUNK_ENTRIES);
        if let Some(change) = chunk.and_then(|c| c.get_mut(index % CHUNK_ENTRIES)) {
            change.before = before;
        }
    }

    /// Gives back the memory of the entries before `index`, which are not asked for any more. A
    /// list that is walked frees itself on the way; at its end that would be one long step.
    pub fn forget_before(&mut self, index: usize) {
        if index.is_multiple_of(CHUNK_ENTRIES)
            && let Some(last) = (index / CHUNK_ENTRIES).checked_sub(1)
            && let Some(chunk) = self.chunks.get_mut(last)
        {
            *chunk = Vec::new();
        }
    }

    pub fn memory_bytes(&self) -> usize {
        let entries: usize = self.chunks.iter().map(Vec::capacity).sum();
        entries * size_of::<Change>() + self.chunks.capacity() * size_of::<Vec<Change>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_found_again_across_chunks() {
        let mut list = ChangeList::default();
        assert_eq!(list.get(0), None);
        for i in 0..2 * CHUNK_ENTRIES + 3 {
            list.push(Change {
                pid: PageId(i as u64),
                before: Place::FREE,
            });
        }
        let at = CHUNK_ENTRIES;
        list.set_before(at, Place::used(9, 9, super::super::Tag::A));
        list.set_before(3 * CHUNK_ENTRIES, Place::FREE);
        assert_eq!(
            list.get(at).map(|c| (c.pid, c.before.slot())),
            Some((PageId(at as u64), Some(9)))
        );
        assert_eq!(list.get(at - 1).map(|c| c.before), Some(Place::FREE));
        assert_eq!(list.get(list.len()), None);
        let all = list.memory_bytes();
        assert!(all >= 3 * CHUNK_ENTRIES * 16);
        for index in 0..=CHUNK_ENTRIES + 1 {
            list.forget_before(index);
        }
        assert_eq!((list.get(0), list.get(at).is_some()), (None, true));
        assert_eq!(list.memory_bytes(), all - CHUNK_ENTRIES * 16);
    }
}
