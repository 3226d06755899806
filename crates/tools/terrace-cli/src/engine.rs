//! All calls into the store: the rest of the command knows only this file, and `place` for its folder.

use anyhow::{Context, Result, anyhow, bail};
use serde_json::Value;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;
use terrace_bench::device::Device;
use terrace_view::Watched;

pub use terrace::paper::{BiLsmOptions, Law, Rates};
pub use terrace::{Compression, Tiers};
use terrace::{Disk, MapOptions, RemoveOptions, StructureInfo, TableOptions};
pub use terrace::{
    Durability, Error, Index, IndexInfo, Kind, Loader, Policy, Progress, SweepOrder,
};
pub use terrace::{MAX_KEY_BYTES, MAX_VALUE_BYTES};

pub mod backups;
mod counted;
mod key_range;
mod limits;
mod numbers;
pub mod timed;

pub use key_range::KeyRange;
pub use limits::{is_refused, too_long};

use crate::paced::{PacedDisk, Pacing};
use crate::place::Place;
use crate::progress::Late;

/// What a database is opened with that is only looked at.
pub fn store_options(memory: u64) -> terrace::Options {
    terrace::Options::new().memory(memory)
}

/// A key with its value.
pub type Entry = (Vec<u8>, Vec<u8>);

/// How to open a database.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    /// The memory for everything.
    pub memory: u64,
    /// Whether to create it if it is not there.
    pub create: bool,
    /// Bytes of a page, if it is created.
    pub page_size: Option<u64>,
    /// The bound of the log.
    pub log_limit: Option<u64>,
    /// Bytes of log that stay for who reads the changes later.
    pub keep_changes: u64,
    /// In which order the hot tiers of tables are swept.
    pub sweep: SweepOrder,
    /// Whether readers take the lock of a record.
    pub pessimistic: bool,
    /// How LSM-trees with the paper's policy promote records.
    pub bilsm: Option<BiLsmOptions>,
    /// Whether a terminal shows how far the opening has come, if that takes its time.
    pub progress: bool,
    /// Whether others may ask for figures while it is open.
    pub control: bool,
    /// The device that its disk is to be as fast as; as fast as it is, if none.
    pub device: Option<(Device, Pacing)>,
}

/// What a structure is, or is to be.
#[derive(Clone, Debug)]
pub struct TreeSettings {
    /// Its kind.
    pub kind: Kind,
    /// Tiers: one or two.
    pub tiers: u8,
    /// The policy of the tiers.
    pub policy: Policy,
    /// Whether its writes are logged.
    pub logged: bool,
    /// Whether the tiers of a hash table have hash functions of their own.
    pub own_hashes: bool,
    /// Whether the hot tier of a table is a heap; what it is, or the default, if nothing is said.
    pub hot_heap: Option<bool>,
    /// How pages of an LSM-tree are compressed; what it is, or the default, if nothing is said.
    pub compression: Option<Compression>,
    /// Whether promoted records stay in the cold tier; the default, if nothing is said.
    pub inclusive: Option<bool>,
    /// Whether its hot tier lies in memory alone; what it is, or the default, if nothing is said.
    pub in_memory: Option<bool>,
    /// Whether its records may expire, if it is created.
    pub expiring: bool,
    /// The indexes of a table.
    pub indexes: Vec<Index>,
    /// What it must be, if it is there.
    pub expected_kind: Option<Kind>,
    /// The tiers that it must have, if it is there.
    pub expected_tiers: Option<u8>,
}

impl Default for TreeSettings {
    fn default() -> Self {
        TreeSettings {
            kind: Kind::Tree,
            tiers: 2,
            policy: Policy::Default,
            logged: true,
            own_hashes: false,
            hot_heap: None,
            compression: None,
            inclusive: None,
            in_memory: None,
            expiring: false,
            indexes: Vec::new(),
            expected_kind: None,
            expected_tiers: None,
        }
    }
}

type Set<T> = fn(MapOptions, T) -> MapOptions;

/// With what was said, if anything was.
fn with<T>(options: MapOptions, said: Option<T>, set: Set<T>) -> MapOptions {
    match said {
        Some(said) => set(options, said),
        None => options,
    }
}

impl TreeSettings {
    /// One of this kind, which it must be too if it is there; a tree, if it is not there and nothing is said.
    pub fn of_kind(said: Option<Kind>) -> TreeSettings {
        TreeSettings {
            kind: said.unwrap_or(Kind::Tree),
            expected_kind: said,
            ..TreeSettings::default()
        }
    }

    fn options(&self) -> MapOptions {
        let tiers = match self.tiers {
            1 => Tiers::One,
            _ => Tiers::Two,
        };
        let options = MapOptions::new()
            .tiers(tiers)
            .policy(self.policy)
            .logged(self.logged)
            .own_hashes(self.own_hashes);
        let options = with(options, self.inclusive, MapOptions::inclusive);
        let options = with(options, self.hot_heap, MapOptions::hot_heap);
        let options = with(options, self.in_memory, MapOptions::hot_in_memory);
        let options = match self.expiring {
            true => options.expiring(),
            false => options,
        };
        with(options, self.compression, MapOptions::compression)
    }

    fn table_options(&self, options: MapOptions) -> TableOptions {
        let indexes = self.indexes.iter().cloned();
        indexes.fold(options.into(), TableOptions::index)
    }
}

/// How often a checkpoint is looked at: about as often as a bar is drawn.
const LOOK: Duration = Duration::from_millis(100);

/// An open database.
pub struct Db {
    pub(crate) inner: terrace::Database,
    /// None of one that is only read.
    pub(crate) place: Option<Place>,
}

impl Db {
    /// Opens, and creates only if told to. If that fails, nothing is there that was not there before.
    pub fn open(path: &Path, settings: &Settings) -> Result<Self> {
        let mut options = terrace::Options::new()
            .memory(settings.memory)
            .create(settings.create)
            .sweep(settings.sweep)
            .pessimistic_locks(settings.pessimistic)
            .control(settings.control)
            .keep_changes(settings.keep_changes);
        if let Some(bilsm) = settings.bilsm {
            options = options.bilsm(bilsm);
        }
        if let Some(bytes) = settings.page_size {
            options = options.page_size(usize::try_from(bytes)?);
        }
        if let Some(bytes) = settings.log_limit {
            options = options.log_limit(bytes);
        }
        let bar = Arc::new(Late::new(!settings.progress));
        if settings.progress {
            let bar = bar.clone();
            options = options.replay_progress(move |progress| bar.show(progress));
        }
        let place = Place::open(path, settings.create)?;
        let disk: Arc<dyn Disk> = match &settings.device {
            Some((device, pacing)) => {
                Arc::new(PacedDisk::new(place.disk(), *device, pacing.clone()))
            }
            None => place.disk(),
        };
        let opened = terrace::Database::open_on(disk, options);
        bar.clear();
        match opened {
            Ok(inner) => Ok(Db {
                inner,
                place: Some(place),
            }),
            Err(error) => {
                place.clear();
                Err(match error {
                    terrace::Error::MemoryTooSmall { given, needed, .. } => anyhow!(
                        "{given} bytes of memory are too few for the database {}: give it at least \
                         --memory {}KiB",
                        path.display(),
                        needed.div_ceil(1024)
                    ),
                    error => anyhow::Error::new(error)
                        .context(format!("cannot open the database {}", path.display())),
                })
            }
        }
    }

    /// Bytes of the longest key: with small pages fewer than with others.
    pub fn longest_key(&self) -> usize {
        terrace::max_key_bytes(self.inner.stats().pages.page_bytes as usize)
    }

    /// The structure to write to, created if it is not there. If it cannot be, a database that was made
    /// for it goes with it.
    pub fn open_to_write(self, find: impl FnOnce(&Db) -> Result<Tree>) -> Result<(Db, Tree)> {
        match find(&self) {
            Ok(tree) => Ok((self, tree)),
            Err(error) => {
                let Db { inner, place } = self;
                let created = inner.stats().opening.created;
                drop(inner);
                if created && let Some(place) = place {
                    place.clear();
                }
                Err(error)
            }
        }
    }

    /// The names of the structures.
    pub fn names(&self) -> Vec<String> {
        self.inner
            .structures()
            .into_iter()
            .map(|structure| structure.name)
            .collect()
    }

    /// What the structures are.
    pub fn structures(&self) -> Vec<StructureInfo> {
        self.inner.structures()
    }

    /// Drops a structure with all its records.
    pub fn drop_structure(&self, name: &str) -> Result<()> {
        self.tree(Some(name))?;
        Ok(self.inner.drop_structure(name)?)
    }

    /// Gives a structure another name.
    pub fn rename_structure(&self, from: &str, to: &str) -> Result<()> {
        self.tree(Some(from))?;
        Ok(self.inner.rename_structure(from, to)?)
    }

    /// A structure that must be there; the only one, if no name is given.
    pub fn tree(&self, name: Option<&str>) -> Result<Tree> {
        let names = self.names();
        let list = || {
            names
                .iter()
                .map(|n| format!("{n:?}"))
                .collect::<Vec<_>>()
                .join(", ")
        };
        let name = match (name, names.as_slice()) {
            (Some(name), _) if names.iter().any(|n| n == name) => name,
            (Some(name), []) => {
                bail!("there is no structure {name:?}: the database has none yet")
            }
            (Some(name), _) => bail!("there is no structure {name:?}; there are {}", list()),
            (None, [only]) => only,
            (None, []) => bail!("the database has no structure yet: load or put something first"),
            (None, _) => bail!("say which structure with --structure; there are {}", list()),
        };
        Ok(Tree {
            inner: self.inner.map(name)?,
        })
    }

    /// A structure that must be there and be what the settings say.
    pub fn tree_as(&self, name: &str, settings: &TreeSettings) -> Result<Tree> {
        let tree = self.tree(Some(name))?;
        match settings.kind {
            Kind::Hash => drop(self.inner.open_hash(name, settings.options())?),
            Kind::Table => drop(
                self.inner
                    .open_table(name, settings.table_options(settings.options()))?,
            ),
            Kind::Lsm => drop(self.inner.open_lsm(name, settings.options())?),
            _ => drop(self.inner.open_tree(name, settings.options())?),
        }
        Ok(tree)
    }

    /// A structure, created if it is not there. One that is there stays as it is, and must be of the kind and
    /// have the tiers and indexes that the settings expect, if they do; from now on it is compressed as they say, if they do.
    pub fn tree_or_create(&self, name: &str, settings: &TreeSettings) -> Result<Tree> {
        if let Some(info) = self.structures().iter().find(|info| info.name == name) {
            check_expected(info, settings)?;
            if !settings.indexes.is_empty() {
                let expected = settings.table_options(MapOptions::new());
                self.inner.open_table(name, expected)?;
            }
            if let Some(compression) = settings.compression {
                let options = MapOptions::new().compression(compression);
                self.inner.open_lsm(name, options)?;
            }
            return self.tree(Some(name));
        }
        let context = || format!("cannot create the structure {name:?}");
        let inner = match settings.kind {
            Kind::Table => {
                let options = settings.table_options(settings.options());
                let table = self.inner.create_table(name, options);
                (*table.with_context(context)?).clone()
            }
            kind if !settings.indexes.is_empty() => {
                bail!("a {kind} has no indexes: give --kind table with --index")
            }
            kind => self
                .inner
                .create_map(name, kind, settings.options())
                .with_context(context)?,
        };
        Ok(Tree { inner })
    }

    /// Makes an index of a table; `progress` hears how many rows were looked at.
    pub fn create_index(&self, table: &str, index: Index, progress: impl FnMut(u64)) -> Result<()> {
        let table = self.tree(Some(table))?.table()?;
        Ok(table.create_index_with(index, progress)?)
    }

    /// Drops an index of a table.
    pub fn drop_index(&self, table: &str, name: &str) -> Result<()> {
        Ok(self.tree(Some(table))?.table()?.drop_index(name)?)
    }

    /// How the opening went.
    pub fn opening(&self) -> terrace::Opening {
        self.inner.stats().opening
    }

    /// Statistics for people.
    pub fn stats_text(&self) -> Result<String> {
        Ok(self.inner.survey()?.to_string())
    }

    /// Statistics for programs.
    pub fn stats_json(&self) -> Result<Value> {
        Ok(serde_json::to_value(self.inner.survey()?)?)
    }

    /// For whoever watches it; keeps it open.
    pub fn watched(&self) -> Watched {
        Watched::Own(self.inner.clone())
    }

    /// Checks everything; `progress` hears how far it has come.
    pub fn verify(&self, progress: impl FnMut(Progress)) -> Result<Verified> {
        Verified::of(&self.inner.verify_with(progress)?)
    }

    /// Gets back space that nothing points to; how many pages.
    pub fn reclaim(&self) -> Result<u64> {
        Ok(self.inner.reclaim()?)
    }

    /// Makes a checkpoint; `progress` hears, from another thread, how far it has come.
    pub fn checkpoint(&self, mut progress: impl FnMut(Progress) + Send) -> Result<()> {
        let (making, made) = mpsc::channel::<()>();
        let db = &self.inner;
        let watch = move || {
            while let Err(RecvTimeoutError::Timeout) = made.recv_timeout(LOOK) {
                if let Some(running) = db.stats().checkpoints.running {
                    progress(running);
                }
            }
        };
        std::thread::scope(|scope| {
            // Without a thread there is nothing to be seen, and that is all.
            let _ = std::thread::Builder::new().spawn_scoped(scope, watch);
            let done = db.checkpoint();
            drop(making);
            done.map(drop).context("the checkpoint failed")
        })
    }

    /// Closes with a checkpoint, so that the next opening is quick.
    pub fn close(self) -> Result<()> {
        self.inner
            .close()
            .context("closing the database failed; nothing acknowledged is lost")
    }
}

/// An error if a structure that is there is not what was said: it stays what it is.
fn check_expected(info: &StructureInfo, expected: &TreeSettings) -> Result<()> {
    let name = &info.name;
    if let Some(kind) = expected.expected_kind.filter(|kind| *kind != info.kind) {
        bail!(
            "the structure {name:?} is there, and is a {}, no {kind}: leave --kind out, or name another with \
             --structure",
            info.kind
        );
    }
    let tiers = if info.tiers == Tiers::One { 1 } else { 2 };
    if expected.expected_tiers.is_some_and(|said| said != tiers) {
        bail!(
            "the structure {name:?} is there, and its tiers are {tiers}: leave --tiers out, or name another with \
             --structure"
        );
    }
    Ok(())
}

/// What checking everything has shown.
pub struct Verified {
    /// Whether nothing is damaged; space may be lost.
    pub is_clean: bool,
    /// For people.
    pub text: String,
    /// For programs.
    pub json: Value,
}

impl Verified {
    /// What a report says.
    pub fn of(report: &terrace::VerifyReport) -> Result<Verified> {
        Ok(Verified {
            is_clean: !report.is_damaged(),
            text: report.to_string(),
            json: serde_json::to_value(report)?,
        })
    }
}

/// A structure of a database.
#[derive(Clone)]
pub struct Tree {
    inner: terrace::Map,
}

/// Records in the order of the structure.
pub type Entries = Box<dyn Iterator<Item = Result<Entry>>>;

impl Tree {
    /// The value of a key.
    pub fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        Ok(self.inner.get(key)?)
    }

    /// The value of a key, into an empty vector; whether there is one.
    pub fn get_into(&self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        Ok(self.inner.get_into(key, out)?)
    }

    /// Writes, without asking whether there was one.
    pub fn put(&self, key: &[u8], value: &[u8], durability: Durability) -> Result<()> {
        Ok(self.inner.put_with(key, value, durability)?)
    }

    /// Begins to load many records.
    pub fn loader(&self) -> Result<Loader> {
        Ok(self.inner.loader()?)
    }

    /// Deletes; whether there was one.
    pub fn remove(&self, key: &[u8]) -> Result<bool> {
        Ok(self.inner.remove(key)?.is_some())
    }

    /// Replaces a value atomically by what `change` makes of it.
    pub fn update(
        &self,
        key: &[u8],
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>>,
    ) -> Result<()> {
        self.inner.update(key, change)?;
        Ok(())
    }

    /// In one transaction replaces two values by what `change` makes of them; whether both were there.
    pub fn transfer(
        &self,
        keys: &[[u8; 8]; 2],
        durability: Durability,
        change: &mut dyn FnMut(usize, &[u8], &mut Vec<u8>),
    ) -> Result<bool> {
        let options = terrace::TransactionOptions::new().durability(durability);
        let both = self.inner.database().transaction_with(options, |t| {
            let mut new = Vec::new();
            for (i, key) in keys.iter().enumerate() {
                let Some(old) = t.get(&self.inner, key)? else {
                    return Ok(false);
                };
                let mut value = Vec::with_capacity(old.len());
                change(i, &old, &mut value);
                new.push(value);
            }
            for (key, value) in keys.iter().zip(&new) {
                t.put(&self.inner, key, value)?;
            }
            Ok::<_, terrace::Error>(true)
        })?;
        Ok(both)
    }

    /// The values of keys, in their order.
    pub fn get_many(&self, keys: &[[u8; 8]]) -> Result<Vec<Option<Vec<u8>>>> {
        Ok(self.inner.get_many(keys)?)
    }

    /// The same as a table, if it is one.
    pub(crate) fn table(&self) -> Result<terrace::Table> {
        self.inner.as_table().ok_or_else(|| {
            anyhow!(
                "{:?} is a {}, and only tables have indexes",
                self.inner.name(),
                self.inner.kind()
            )
        })
    }

    /// The rows with a key of an index, each with its primary key.
    pub fn by_index(&self, index: &str, key: &[u8]) -> Result<Entries> {
        match self.has_number_keys(index)? {
            true => Ok(boxed(self.table()?.index(index)?.get(numbers::key(key)?)?)),
            false => Ok(boxed(self.table()?.index(index)?.get(key)?)),
        }
    }

    fn has_number_keys(&self, index: &str) -> Result<bool> {
        let indexes = self.table()?.indexes();
        let index = indexes.iter().find(|info| info.name == index);
        Ok(index.is_some_and(|info| numbers::are_keys(&info.source)))
    }

    /// The rows with keys of an index in a range or with a prefix, in their order. Each with its
    /// primary key, or, without values, the keys of the index with primary keys.
    pub fn scan_index(&self, index: &str, keys: &KeyRange, values: bool) -> Result<Entries> {
        if self.has_number_keys(index)? {
            let entries = self.scan_keys(index, &numbers::range(keys)?, values)?;
            return Ok(if values {
                entries
            } else {
                numbers::shown(entries)
            });
        }
        self.scan_keys(index, keys, values)
    }

    fn scan_keys(&self, index: &str, keys: &KeyRange, values: bool) -> Result<Entries> {
        let index = self.table()?.index(index)?;
        let range = keys.bounds()?;
        Ok(match (&keys.prefix, values) {
            (Some(prefix), true) => either_way(index.prefix(prefix)?, keys.reverse),
            (Some(prefix), false) => either_way(index.keys_with_prefix(prefix)?, keys.reverse),
            (None, true) => either_way(index.range::<Vec<u8>>(range)?, keys.reverse),
            (None, false) => either_way(index.keys::<Vec<u8>>(range)?, keys.reverse),
        })
    }

    /// Whether it is a table with indexes.
    pub fn has_indexes(&self) -> bool {
        let table = self.inner.as_table();
        table.is_some_and(|table| !table.indexes().is_empty())
    }

    /// Refuses a table that only the program that made it can write to: every row would be refused.
    pub fn check_writable(&self) -> Result<()> {
        let indexes = self.inner.as_table().map(|table| table.indexes());
        // Names of sources are those of the catalog; all but this one say how a key is found.
        let unknown = |index: &&IndexInfo| index.is_by_function();
        let Some(index) = indexes.iter().flatten().find(unknown) else {
            return Ok(());
        };
        bail!(
            "the index {:?} of the table {:?} is by a function of the program that made it, which this \
             command does not have: load with that program, or drop the index with `terrace index drop`",
            index.name,
            self.inner.name()
        )
    }

    /// Whether its records are in the order of their keys.
    pub fn is_ordered(&self) -> bool {
        self.inner.kind() != Kind::Hash
    }

    fn unordered(&self) -> anyhow::Error {
        anyhow!(
            "{:?} is a {}, which keeps no order of keys: a range or a prefix cannot be found in it",
            self.inner.name(),
            self.inner.kind()
        )
    }

    fn range_of(&self, range: (Bound<Vec<u8>>, Bound<Vec<u8>>)) -> Result<terrace::Range> {
        if let Some(table) = self.inner.as_table() {
            return Ok(table.range(range)?);
        }
        let tree = self.inner.as_tree().ok_or_else(|| self.unordered())?;
        Ok(tree.range(range)?)
    }

    fn prefix_of(&self, prefix: &[u8]) -> Result<terrace::Range> {
        if let Some(table) = self.inner.as_table() {
            return Ok(table.prefix(prefix)?);
        }
        let tree = self.inner.as_tree().ok_or_else(|| self.unordered())?;
        Ok(tree.prefix(prefix)?)
    }

    /// The records with keys in a range or with a prefix, in order. Without either all records, in
    /// the order of the structure.
    pub fn scan(&self, keys: &KeyRange) -> Result<Entries> {
        let range = match (&keys.prefix, keys.bounds()?) {
            (Some(prefix), _) => self.prefix_of(prefix)?,
            (None, (Bound::Unbounded, Bound::Unbounded)) => self.inner.iter()?,
            (None, range) => self.range_of(range)?,
        };
        Ok(either_way(range, keys.reverse))
    }

    /// Removes the records of a range in steps, durably; how many.
    pub fn remove_range(&self, keys: &KeyRange) -> Result<u64> {
        let options = RemoveOptions::new().durability(Durability::Sync);
        let (tree, table) = (self.inner.as_tree(), self.inner.as_table());
        Ok(match (tree, table, &keys.prefix) {
            (Some(tree), _, Some(prefix)) => tree.remove_prefix(prefix, options)?,
            (Some(tree), _, None) => tree.remove_range::<Vec<u8>>(keys.bounds()?, options)?,
            (_, Some(table), Some(prefix)) => table.remove_prefix(prefix, options)?,
            (_, Some(table), None) => table.remove_range::<Vec<u8>>(keys.bounds()?, options)?,
            _ => return Err(self.unordered()),
        })
    }

    /// Removes the records of a range of a tree at once.
    pub fn delete_range(&self, keys: &KeyRange) -> Result<()> {
        let Some(tree) = self.inner.as_tree() else {
            bail!("only ranges of trees go at once; without --atomic those of tables go in steps");
        };
        match &keys.prefix {
            Some(prefix) => tree.delete_prefix(prefix)?,
            None => tree.delete_range_with::<Vec<u8>>(keys.bounds()?, Durability::Sync)?,
        }
        Ok(())
    }

    /// [`Tree::scan`] from a key on and before another.
    pub fn range(&self, from: Option<&[u8]>, to: Option<&[u8]>, reverse: bool) -> Result<Entries> {
        self.scan(&KeyRange {
            prefix: None,
            from: from.map(<[u8]>::to_vec),
            to: to.map(<[u8]>::to_vec),
            reverse,
        })
    }
}

fn either_way(
    range: impl DoubleEndedIterator<Item = terrace::Result<Entry>> + 'static,
    reverse: bool,
) -> Entries {
    if reverse {
        boxed(range.rev())
    } else {
        boxed(range)
    }
}

fn boxed(range: impl Iterator<Item = terrace::Result<Entry>> + 'static) -> Entries {
    Box::new(range.map(|entry| Ok(entry?)))
}
