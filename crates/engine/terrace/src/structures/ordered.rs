//! What structures have in common whose records are in the order of their keys.

use std::ops::{Bound, RangeBounds};

use terrace_base::Result;

use crate::handle::map::Map;
use crate::structures::range::{Range, Record, above, past_prefix};

/// The records with keys in a range.
pub fn range<K: AsRef<[u8]>>(map: &Map, range: impl RangeBounds<K>) -> Result<Range> {
    let (low, high) = bounds(&range);
    between(map, low, high)
}

/// The records with keys from `low` on and below `high`.
pub fn between(map: &Map, low: Vec<u8>, high: Option<Vec<u8>>) -> Result<Range> {
    map.open.check()?;
    Ok(Range::new(map.clone(), low, high))
}

/// The first key of a range, and the first behind it.
pub fn bounds<K: AsRef<[u8]>>(range: &impl RangeBounds<K>) -> (Vec<u8>, Option<Vec<u8>>) {
    let low = match range.start_bound() {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => key.as_ref().to_vec(),
        Bound::Excluded(key) => above(key.as_ref()),
    };
    let high = match range.end_bound() {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(above(key.as_ref())),
        Bound::Excluded(key) => Some(key.as_ref().to_vec()),
    };
    (low, high)
}

/// The records whose keys begin with `prefix`.
pub fn prefix(map: &Map, prefix: &[u8]) -> Result<Range> {
    between(map, prefix.to_vec(), past_prefix(prefix))
}

/// The record with the lowest key.
pub fn first(map: &Map) -> Result<Option<Record>> {
    map.iter()?.next().transpose()
}

/// The record with the highest key.
pub fn last(map: &Map) -> Result<Option<Record>> {
    map.iter()?.next_back().transpose()
}

/// Takes the record with the lowest key out.
pub fn pop_first(map: &Map) -> Result<Option<Record>> {
    pop(map, first)
}

/// Takes the record with the highest key out.
pub fn pop_last(map: &Map) -> Result<Option<Record>> {
    pop(map, last)
}

/// Whoever loses the record to another thread looks again: one of them has got on.
fn pop(map: &Map, next: impl Fn(&Map) -> Result<Option<Record>>) -> Result<Option<Record>> {
    while let Some((key, _)) = next(map)? {
        if let Some(value) = map.remove(&key)? {
            return Ok(Some((key, value)));
        }
    }
    Ok(None)
}
