//! An index whose keys lead to one row each: bytes, or numbers of 8 bytes that sort as their bytes do.

use std::ops::Bound;

use terrace_mem::{HybridMap, MemoryUsage, Options, OptionsError};

use super::slab::RowId;
use crate::span::{Span, number};

/// The map. Of numbers all keys have 8 bytes; who keeps it sees to that.
pub enum KeyMap {
    /// Of numbers.
    Numbers(HybridMap<u64, RowId>),
    /// Of bytes.
    Bytes(HybridMap<Vec<u8>, RowId>),
}

impl KeyMap {
    /// An empty one.
    pub fn new(numbers: bool, options: &Options) -> Result<KeyMap, OptionsError> {
        Ok(match numbers {
            true => KeyMap::Numbers(HybridMap::with_options(options.clone())?),
            false => KeyMap::Bytes(HybridMap::with_options(options.clone())?),
        })
    }

    /// The row of a key.
    #[inline]
    pub fn get(&self, key: &[u8]) -> Option<RowId> {
        match self {
            KeyMap::Numbers(map) => map.get(&number(key).0).copied(),
            KeyMap::Bytes(map) => map.get(key).copied(),
        }
    }

    /// Lets a key lead to a row.
    pub fn set(&mut self, key: &[u8], id: RowId) {
        match self {
            KeyMap::Numbers(map) => map.insert(number(key).0, id),
            KeyMap::Bytes(map) => map.insert_ref(key, id),
        };
    }

    /// Removes a key.
    pub fn remove(&mut self, key: &[u8]) {
        match self {
            KeyMap::Numbers(map) => map.remove(&number(key).0),
            KeyMap::Bytes(map) => map.remove(key),
        };
    }

    /// Goes over the keys of a range, as long as `see` says so.
    pub fn each(&self, span: Span<'_>, mut see: impl FnMut(&[u8], RowId) -> bool) {
        if span.is_empty() {
            return;
        }
        match self {
            KeyMap::Numbers(map) => {
                let (low, high) = span.numbers();
                if no_number(low, high) {
                    return;
                }
                let mut cursor = map.cursor::<u64, _>((low, high));
                loop {
                    let next = if span.back {
                        cursor.next_back()
                    } else {
                        cursor.next()
                    };
                    match next {
                        Some((key, &id)) if see(&key.to_be_bytes(), id) => {}
                        _ => return,
                    }
                }
            }
            KeyMap::Bytes(map) => {
                let mut cursor = map.cursor::<[u8], _>(span.bytes());
                loop {
                    let next = if span.back {
                        cursor.next_back()
                    } else {
                        cursor.next()
                    };
                    match next {
                        Some((key, &id)) if see(key, id) => {}
                        _ => return,
                    }
                }
            }
        }
    }

    /// How many keys there are.
    pub fn len(&self) -> usize {
        match self {
            KeyMap::Numbers(map) => map.len(),
            KeyMap::Bytes(map) => map.len(),
        }
    }

    /// Where its bytes are.
    pub fn memory(&self) -> MemoryUsage {
        match self {
            KeyMap::Numbers(map) => map.memory_usage(),
            KeyMap::Bytes(map) => map.memory_usage(),
        }
    }

    /// Moves all entries to the static stage.
    pub fn merge_all(&mut self) {
        match self {
            KeyMap::Numbers(map) => map.merge_all(),
            KeyMap::Bytes(map) => map.merge_all(),
        }
    }
}

/// Whether no number lies between these: bounds that a map would refuse.
pub fn no_number(low: Bound<u64>, high: Bound<u64>) -> bool {
    match (low, high) {
        (Bound::Included(a), Bound::Excluded(b)) | (Bound::Excluded(a), Bound::Included(b)) => {
            a >= b
        }
        (Bound::Included(a), Bound::Included(b)) => a > b,
        (Bound::Excluded(a), Bound::Excluded(b)) => a >= b,
        _ => false,
    }
}
