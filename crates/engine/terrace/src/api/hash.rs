//! A hash table: a map of byte strings without order.

use std::ops::Deref;

use terrace_base::Result;

use crate::api::database::Database;
use crate::api::map::Map;
use crate::kinds::spec::HashOptions;
use crate::kinds::{Kind, View};

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

impl Database {
    /// The hash table of this name, made with two tiers if there is none.
    ///
    /// # Errors
    /// Names that cannot be one, and those of a write; [`crate::Error::Invalid`] when the structure of this
    /// name is of another kind.
    pub fn hash(&self, name: &str) -> Result<Hash> {
        self.hash_with(name, HashOptions::new())
    }

    /// The hash table of this name, made if there is none.
    ///
    /// # Errors
    /// As [`Database::hash`]; [`crate::Error::Invalid`] when there is one that is not what the options say.
    pub fn hash_with(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.found_or_made(name, Kind::Hash, options).map(Hash::new)
    }

    /// A new hash table.
    ///
    /// # Errors
    /// [`crate::Error::StructureExists`]; otherwise as [`Database::hash`].
    pub fn create_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.create_map(name, Kind::Hash, options).map(Hash::new)
    }

    /// A hash table that is there.
    ///
    /// # Errors
    /// [`crate::Error::NoSuchStructure`]; [`crate::Error::Invalid`] when it is not what the options say.
    pub fn open_hash(&self, name: &str, options: HashOptions) -> Result<Hash> {
        self.found(name, Some(Kind::Hash), options).map(Hash::new)
    }
}
