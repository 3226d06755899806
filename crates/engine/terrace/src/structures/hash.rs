//! A hash table: a map of byte strings without order.

use std::ops::Deref;

use crate::handle::map::Map;
use crate::kinds::View;

/// A handle of a hash table: a [`Map`] that finds a record in fewer steps than a [`crate::Tree`], and
/// knows no order of keys. Its hash is keyed with a secret of its own, so that no choice of keys
/// makes it slow.
#[derive(Clone, Debug)]
pub struct Hash {
    map: Map,
}

impl Deref for Hash {
    type Target = Map;

    fn deref(&self) -> &Map {
        &self.map
    }
}

impl Hash {
    pub(crate) fn new(map: Map) -> Hash {
        Hash { map }
    }
}

impl Map {
    /// The same as a hash table, if it is one.
    pub fn as_hash(&self) -> Option<Hash> {
        self.is(View::Hash).then(|| Hash::new(self.clone()))
    }
}
