//! A tree: an ordered map of byte strings.

use std::ops::{Bound, Deref, RangeBounds};

use terrace_base::Result;

use crate::map::Map;
use crate::range::{Range, above, past_prefix};

/// A handle of an ordered structure: a [`Map`] whose records are in the order of their keys, which
/// compare as byte strings; [`crate::encode`] has numbers whose bytes compare as they do.
#[derive(Clone, Debug)]
pub struct Tree {
    map: Map,
}

impl Deref for Tree {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl Tree {
    pub(crate) fn new(map: Map) -> Tree {
        Tree { map }
    }

    /// The records with keys in a range, in order, from either end. Each key that is there all the
    /// while comes out once; what changes meanwhile may or may not be seen. For everything use
    /// [`Map::iter`].
    ///
    /// # Errors
    /// When the tree was dropped.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Range> {
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
        self.map.open.check()?;
        Ok(Range::new(self.map.clone(), low, high))
    }

    /// The records whose keys begin with `prefix`.
    ///
    /// # Errors
    /// As [`Tree::range`].
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Range> {
        let low = prefix.as_ref().to_vec();
        let high = past_prefix(&low);
        self.map.open.check()?;
        Ok(Range::new(self.map.clone(), low, high))
    }

    /// The record with the lowest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter()?.next().transpose()
    }

    /// The record with the highest key.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.iter()?.next_back().transpose()
    }
}
