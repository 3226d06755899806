//! A structure as it is open, with its indexes if it is a table, and what the catalog knows of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use terrace_base::sync::Mutex;
use terrace_base::{Error, Result, StructureId};
use terrace_tier::Structure;

use crate::catalog::entries::Entry;
use crate::index::definition::{Extractor, IndexEntry, IndexInfo, Stored, kind};
use crate::index::extract::Extract;
use crate::index::state::Indexes;
use crate::kinds::View;
use crate::kinds::spec::{Compression, Spec};

/// A structure as it is open.
pub struct Open {
    /// The structure itself.
    pub structure: Arc<dyn Structure>,
    /// What it is.
    pub spec: Spec,
    /// Its indexes, if it is a table.
    pub table: Option<TableState>,
    /// What it is an index of, if it is one: then it has no name among structures.
    pub index: Option<IndexEntry>,
    /// What the catalog knows of it.
    pub meta: Arc<Meta>,
    /// About how much of it has expired, in thousandths.
    expired: AtomicU32,
    /// Whether it was changed since its hot tier was saved, if it has no log.
    changed: AtomicBool,
}

/// Bytes that its places in the maps by name and by number take, one in two of which is free, and those
/// among the hot tiers.
const PLACES_BYTES: usize = 160;

/// What a new structure is to be.
#[derive(Clone, Copy)]
pub struct NewStructure<'a> {
    /// What it is.
    pub spec: Spec,
    /// What it is called.
    pub name: &'a str,
    /// What it is an index of, if it is one.
    pub index: Option<&'a IndexEntry>,
    /// Whether it counts only once it is finished.
    pub unfinished: bool,
}

/// What the catalog knows of it. Locked inside the gate too, so never held while waiting.
pub struct Meta {
    /// Its entry.
    pub entry: Mutex<Entry>,
    dropped: AtomicBool,
}

impl Meta {
    /// Of this entry.
    pub fn new(entry: Entry) -> Arc<Meta> {
        Arc::new(Meta {
            dropped: AtomicBool::new(entry.dropping),
            entry: Mutex::new(entry),
        })
    }
}

impl Open {
    /// A structure with its entry.
    pub fn new(structure: Arc<dyn Structure>, meta: Arc<Meta>) -> Open {
        let (spec, index) = {
            let entry = meta.entry.lock();
            (entry.spec, entry.index.clone())
        };
        Open {
            structure,
            spec,
            table: (spec.kind.row().view == View::Table).then(TableState::default),
            index,
            meta,
            expired: AtomicU32::new(0),
            changed: AtomicBool::new(false),
        }
    }

    /// About how much of it has expired, when that was last looked at: a part of 1.
    pub fn expired_share(&self) -> f64 {
        f64::from(self.expired.load(Ordering::Relaxed)) / 1000.0
    }

    /// It was looked at.
    pub fn set_expired_share(&self, share: f64) {
        let thousandths = (share * 1000.0).round() as u32;
        self.expired.store(thousandths, Ordering::Relaxed);
    }

    /// It is changed, and has no log.
    #[inline]
    pub fn note_changed(&self) {
        // What is written seldom is read without a line going from one processor to another.
        if !self.is_changed() {
            self.changed.store(true, Ordering::SeqCst);
        }
    }

    /// Whether it was changed since that was taken, where it has no log.
    #[inline]
    pub fn is_changed(&self) -> bool {
        self.changed.load(Ordering::SeqCst)
    }

    /// The same, which is forgotten.
    pub fn take_changed(&self) -> bool {
        self.changed.swap(false, Ordering::SeqCst)
    }

    /// Bytes of memory that it takes as long as it is there, but for its name, which is short.
    pub fn memory_bytes(&self) -> u64 {
        let all = self.structure.memory_bytes() + size_of::<Open>() + size_of::<Meta>();
        (all + PLACES_BYTES) as u64
    }

    /// Whether its making was begun and is not done.
    pub fn is_unfinished(&self) -> bool {
        self.meta.entry.lock().unfinished
    }

    /// Whether it is found by its name: no index, and finished.
    pub fn is_named(&self) -> bool {
        self.index.is_none() && !self.is_unfinished() && !self.is_dropped()
    }

    /// Its number.
    pub fn id(&self) -> StructureId {
        self.structure.id()
    }

    /// How its pages are compressed now.
    pub fn compression(&self) -> Compression {
        self.meta.entry.lock().spec.compression
    }

    /// What it is called now.
    pub fn name(&self) -> String {
        self.meta.entry.lock().name.clone()
    }

    /// Whether it was dropped.
    #[inline]
    pub fn is_dropped(&self) -> bool {
        self.meta.dropped.load(Ordering::SeqCst)
    }

    /// Refuses a structure that was dropped.
    #[inline]
    pub fn check(&self) -> Result<()> {
        match &self.index {
            _ if !self.is_dropped() => Ok(()),
            None => Err(Error::NoSuchStructure { name: self.name() }),
            Some(_) => Err(Error::invalid(format!(
                "the index \"{}\" was dropped, or its table was",
                self.name()
            ))),
        }
    }

    /// From now on no caller finds it any more, and no sweep begins to look at it.
    pub fn abandon(&self) {
        self.meta.dropped.store(true, Ordering::SeqCst);
        self.structure.retire();
    }
}

/// An index of an open table.
#[derive(Clone)]
pub struct IndexState {
    /// The tree that holds its entries.
    pub open: Arc<Open>,
    /// Its name.
    pub name: String,
    /// What the catalog knows of it.
    pub entry: IndexEntry,
    /// What finds its keys; `None` for a function that the program has not brought along yet.
    pub extract: Option<Extract>,
}

impl IndexState {
    /// As the catalog knows it.
    pub fn stored(open: Arc<Open>) -> IndexState {
        IndexState::new(open, None)
    }

    /// With the function of the program, if it is by one.
    pub fn new(open: Arc<Open>, function: Option<Extractor>) -> IndexState {
        // The registry gives indexes only; what is none would have no keys.
        let entry = open.index.clone().unwrap_or(IndexEntry {
            table: open.id(),
            unique: false,
            source: Stored::Function,
        });
        let extract = match &entry.source {
            Stored::Declared(source) => Some(Extract::Declared(source.clone())),
            Stored::Function | Stored::FunctionOfMany => function.map(Extract::Function),
        };
        IndexState {
            name: open.name(),
            open,
            entry,
            extract,
        }
    }

    /// What it is, in words, beside its name.
    pub fn kind(&self) -> String {
        kind(self.entry.unique, &self.entry.source)
    }

    /// The keys of a row of `table`, each once and in order. Calls the user's function, so the caller holds nothing.
    pub fn keys_of(&self, table: &Open, row: &[u8]) -> Result<Vec<Vec<u8>>> {
        let extract = self.extract.as_ref().ok_or_else(|| {
            Error::invalid(format!(
                "the index \"{}\" of the table \"{}\" is by a function of the program, which this program has not named; \
                 open the table with Database::table_with and Index::by, or drop the index",
                self.name,
                table.name()
            ))
        })?;
        extract.keys(row).map_err(|what| {
            Error::invalid(format!(
                "the row has no key for the index \"{}\" of the table \"{}\": {what}. Nothing was changed",
                self.name,
                table.name()
            ))
        })
    }
}

/// The indexes of a table at some time, in the order in which they were made.
pub type Snapshot = Arc<Vec<IndexState>>;

/// The indexes of an open table, and whether its rows may be changed.
pub type TableState = Indexes<IndexState>;

impl TableState {
    /// Its indexes, for users.
    pub fn infos(&self) -> Vec<IndexInfo> {
        let info = |index: &IndexState| IndexInfo {
            name: index.name.clone(),
            unique: index.entry.unique,
            source: index.entry.source.to_string(),
        };
        self.snapshot().iter().map(info).collect()
    }
}
