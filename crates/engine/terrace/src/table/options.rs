//! What a table is opened with.

use terrace_base::{Error, Result};

use crate::index::definition::{Index, Stored};
#[cfg(feature = "paper")]
use crate::kinds::spec::Policy;
use crate::kinds::spec::{MapOptions, Tiers, check_name};

/// Most indexes of a table: each is looked at in every write of a row.
pub const MAX_INDEXES: usize = 64;

/// How a table is to be made, or what an existing one is expected to be: as [`MapOptions`], and its
/// indexes.
///
/// A table that is there opens without naming its indexes if the catalog knows where the keys of all
/// of them come from. If any is named, all have to be, and as they are.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until something is opened or made with them"]
pub struct TableOptions {
    pub(crate) map: MapOptions,
    pub(crate) indexes: Vec<Index>,
    pub(crate) drop_missing: bool,
}

impl From<MapOptions> for TableOptions {
    fn from(map: MapOptions) -> TableOptions {
        TableOptions {
            map,
            ..TableOptions::default()
        }
    }
}

impl TableOptions {
    /// Nothing said: two tiers, no indexes.
    pub fn new() -> TableOptions {
        TableOptions::default()
    }

    /// As [`MapOptions::tiers`], for the rows and for all indexes.
    pub fn tiers(mut self, tiers: Tiers) -> TableOptions {
        self.map = self.map.tiers(tiers);
        self
    }

    /// As [`MapOptions::policy`], for the rows and for all indexes.
    #[cfg(feature = "paper")]
    pub fn policy(mut self, policy: Policy) -> TableOptions {
        self.map = self.map.policy(policy);
        self
    }

    /// As [`MapOptions::inclusive`], for the rows and for all indexes.
    pub fn inclusive(mut self, inclusive: bool) -> TableOptions {
        self.map = self.map.inclusive(inclusive);
        self
    }

    /// As [`MapOptions::logged`], for the rows and for all indexes.
    pub fn logged(mut self, logged: bool) -> TableOptions {
        self.map = self.map.logged(logged);
        self
    }

    /// As [`MapOptions::hot_heap`], for the rows.
    #[cfg(feature = "paper")]
    pub fn hot_heap(mut self, hot_heap: bool) -> TableOptions {
        self.map = self.map.hot_heap(hot_heap);
        self
    }

    /// As [`MapOptions::hot_in_memory`], for the rows and for all indexes.
    pub fn hot_in_memory(mut self, in_memory: bool) -> TableOptions {
        self.map = self.map.hot_in_memory(in_memory);
        self
    }

    /// As [`MapOptions::expiring`], for the rows. Entries of indexes go with their rows.
    pub fn expiring(mut self) -> TableOptions {
        self.map = self.map.expiring();
        self
    }

    /// With this index.
    pub fn index(mut self, index: Index) -> TableOptions {
        self.indexes.push(index);
        self
    }

    /// Whether indexes that the table has, and that are not named, are dropped when it is opened.
    /// Otherwise (the default) that is an error.
    pub fn drop_missing_indexes(mut self, drop: bool) -> TableOptions {
        self.drop_missing = drop;
        self
    }

    pub(crate) fn check(&self) -> Result<()> {
        if self.indexes.len() > MAX_INDEXES {
            return Err(too_many());
        }
        for (i, index) in self.indexes.iter().enumerate() {
            check_index(index)?;
            if self.indexes[..i]
                .iter()
                .any(|other| other.name == index.name)
            {
                return Err(Error::invalid(format!(
                    "the index \"{}\" is named twice; each needs a name of its own",
                    index.name
                )));
            }
        }
        Ok(())
    }
}

pub(crate) fn too_many() -> Error {
    Error::invalid(format!(
        "a table has at most {MAX_INDEXES} indexes; drop one that is not needed"
    ))
}

/// Refuses an index that cannot be.
pub(crate) fn check_index(index: &Index) -> Result<()> {
    check_name(&index.name)?;
    match &index.source {
        Stored::Function | Stored::FunctionOfMany => Ok(()),
        Stored::Declared(source) => source.check(),
    }
}
