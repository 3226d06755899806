//! What structures have in common whose records are in the order of their keys.

use std::ops::{Bound, RangeBounds};

use terrace_base::Result;

use crate::map::Map;
use crate::range::{Range, Record, above, past_prefix};

/// The records with keys in a range.
pub fn range<K: AsRef<[u8]>>(map: &Map, range: impl RangeBounds<K>) -> Result<Range> {
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
    map.open.check()?;
    Ok(Range::new(map.clone(), low, high))
}

/// The records whose keys begin with `prefix`.
pub fn prefix(map: &Map, prefix: &[u8]) -> Result<Range> {
    map.open.check()?;
    Ok(Range::new(
        map.clone(),
        prefix.to_vec(),
        past_prefix(prefix),
    ))
}

/// The record with the lowest key.
pub fn first(map: &Map) -> Result<Option<Record>> {
    map.iter()?.next().transpose()
}

/// The record with the highest key.
pub fn last(map: &Map) -> Result<Option<Record>> {
    map.iter()?.next_back().transpose()
}
