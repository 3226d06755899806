//! A structure as its user holds it. What it does stands in `structures/`.

use std::sync::Arc;

use terrace_base::Error;

use crate::catalog::opened::Open;
use crate::core::Core;
use crate::handle::database::Database;
use crate::kinds::{Kind, View};

/// A handle of a structure of records by key, whatever its kind; clones are the same structure. It
/// keeps the database open. [`crate::Tree`], [`crate::Hash`] and [`crate::Table`] are this, and what
/// their kind can do besides.
///
/// Keys and values are byte strings. `put` and `delete` do not look whether the key was there, and
/// say nothing about it: with two tiers they touch no page on disk. `insert`, `update` and `remove`
/// look, and answer. In a table with indexes all of them look.
#[derive(Clone)]
pub struct Map {
    pub(crate) db: Database,
    pub(crate) open: Arc<Open>,
}

/// Handles of one structure are equal, whatever it is called.
impl PartialEq for Map {
    fn eq(&self, other: &Map) -> bool {
        Arc::ptr_eq(&self.open, &other.open)
    }
}

impl Eq for Map {}

impl std::hash::Hash for Map {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.open.id().0.hash(state);
    }
}

impl Map {
    pub(crate) fn new(db: Database, open: Arc<Open>) -> Map {
        Map { db, open }
    }

    /// Its name now.
    pub fn name(&self) -> String {
        self.open.name()
    }

    /// What kind of structure it is.
    pub fn kind(&self) -> Kind {
        self.open.spec.kind
    }

    /// Whether this is what it shows itself as.
    pub(crate) fn is(&self, view: View) -> bool {
        self.kind().row().view == view
    }

    /// The database it belongs to.
    pub fn database(&self) -> &Database {
        &self.db
    }

    #[inline]
    pub(crate) fn core(&self) -> &Arc<Core> {
        self.db.core()
    }

    pub(crate) fn failed(&self, error: Error) -> Error {
        self.core().failed(error)
    }
}

impl std::fmt::Debug for Map {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Map")
            .field("name", &self.name())
            .finish_non_exhaustive()
    }
}
