//! A hash table: a map of byte strings without order.

use std::ops::Deref;

use crate::map::Map;

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
