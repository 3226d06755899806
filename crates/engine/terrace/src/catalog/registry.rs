//! The structures that exist: the catalog on its pages and the open structures in memory, kept in
//! step.
//!
//! The same functions serve a call of the user (which logs) and its replay (which does not). In
//! both, one entry of the gate holds the change of pages, the change of the catalog, and the
//! append to the log, so that no cut falls between them.
//!
//! Invariants: ids are given out in order and never again. A structure that is being dropped is
//! found by its id only.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use terrace_access::{Attempt, WriteGuard};
use terrace_base::sync::RwLock;
use terrace_base::{Error, Result, StructureId};
use terrace_pages::{
    HOT_IN_MEMORY, LEARNT_BYTES, PageStore, Space, SpaceQuota, UNLOGGED_IN_MEMORY,
};
use terrace_tier::{OnHotRoot, Roots, Structure, TierContext};

use crate::catalog::entries::{Catalog, Entry};
use crate::catalog::opened::{IndexState, Meta};
use crate::catalog::opened::{NewStructure, Open};
use crate::kinds::View;
use crate::kinds::spec::{Compression, Spec, check_name};
use crate::kinds::structures;
use crate::planted::{Fault, planted};
use crate::state::expired::{Expired, OfRows};

/// Pages that are changed, and that are made, where a range is taken out of a tree of four levels; as many more are of
/// the catalog. All that is made is there before the append, so a deeper tree only takes from the reserve. With those
/// of the hot and of the cold tree it is what a disk that puts have filled still has.
const CUT_PAGES: u64 = 10;
/// The same of the index of a level, which is rarely higher than two.
const CUT_PAGES_OF_LEVEL: u64 = 3;

#[derive(Default)]
struct Names {
    by_name: HashMap<String, Arc<Open>>,
    by_id: HashMap<StructureId, Arc<Open>>,
    /// The indexes of each table that has some, those that are being dropped included.
    indexes: HashMap<StructureId, BTreeMap<StructureId, Arc<Open>>>,
    /// Sum of the bytes of memory of those by number.
    memory_bytes: u64,
}

impl Names {
    fn remove(&mut self, id: StructureId) -> Option<u64> {
        let open = self.by_id.remove(&id)?;
        if let Some(index) = &open.index
            && let Some(of_table) = self.indexes.get_mut(&index.table)
        {
            of_table.remove(&id);
            if of_table.is_empty() {
                self.indexes.remove(&index.table);
            }
        }
        let bytes = open.memory_bytes();
        self.memory_bytes -= bytes;
        Some(bytes)
    }
}

/// The structures that exist.
pub struct Registry {
    store: Arc<PageStore>,
    tiers: Arc<TierContext>,
    catalog: Arc<Catalog>,
    names: RwLock<Names>,
    next_id: AtomicU32,
    expired: Arc<Expired>,
}

impl Registry {
    /// Opens everything that the catalog names. `next_id` is the first number never given out.
    /// `expired` tells what has expired.
    pub fn open(
        tiers: Arc<TierContext>,
        catalog: Catalog,
        next_id: u32,
        expired: Arc<Expired>,
    ) -> Result<Registry> {
        let registry = Registry {
            store: tiers.store.clone(),
            tiers,
            catalog: Arc::new(catalog),
            names: RwLock::default(),
            next_id: AtomicU32::new(next_id),
            expired,
        };
        for entry in registry.catalog.load()? {
            if entry.id.0 >= next_id {
                return Err(Error::corrupt(
                    "data",
                    None,
                    format!(
                        "the catalog has {}, but only {next_id} numbers were given out",
                        entry.id
                    ),
                ));
            }
            for root in entry.roots.hot.into_iter().chain([entry.roots.cold]) {
                if !registry.store.exists(root) {
                    return Err(Error::corrupt(
                        "data",
                        None,
                        format!(
                            "the catalog says that \"{}\" begins at {root}, which does not exist",
                            entry.name
                        ),
                    ));
                }
            }
            let is_dropping = entry.dropping;
            let open = registry.opened(entry);
            if is_dropping {
                open.structure.retire();
            }
            registry.remember(Arc::new(open));
        }
        Ok(registry)
    }

    /// The structure that an entry of the catalog names.
    fn opened(&self, entry: Entry) -> Open {
        let (id, spec, roots) = (entry.id, entry.spec, entry.roots);
        let meta = Meta::new(entry);
        let structure = structures::open(&self.tiers, id, spec, self.hook(&meta), roots);
        self.tell(&*structure, spec);
        Open::new(structure, meta)
    }

    /// What tells what has expired.
    #[inline]
    pub fn expired(&self) -> &Arc<Expired> {
        &self.expired
    }

    /// The same structure once more, as if its hot tier lay in memory.
    pub(super) fn as_if_in_memory(&self, open: &Open) -> Open {
        let mut entry = open.meta.entry.lock().clone();
        entry.spec.in_memory = true;
        self.opened(entry)
    }

    /// A structure may drop what has expired; but rows go with their entries, logged.
    fn tell(&self, structure: &dyn Structure, spec: Spec) {
        if !spec.expiring {
            return;
        }
        if spec.kind.row().view == View::Table && !planted(Fault::EntryLeftBehind) {
            structure.expire_by(Arc::new(OfRows(self.expired.clone())));
        } else {
            structure.expire_by(self.expired.clone());
        }
    }

    /// Keeps the threads in the background from structures while the answer lives.
    pub fn hold_background(&self) -> impl Sized + use<'_> {
        self.tiers.hold_background()
    }

    /// The catalog.
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }

    /// What is to be known again after the next opening; see [`TierContext::learnt`].
    pub fn learnt(&self) -> [u8; LEARNT_BYTES] {
        self.tiers.learnt()
    }

    /// The first number never given out.
    pub fn next_id(&self) -> u32 {
        self.next_id.load(Ordering::SeqCst)
    }

    /// The structure of this name.
    pub fn named(&self, name: &str) -> Option<Arc<Open>> {
        self.names.read().by_name.get(name).cloned()
    }

    /// The structure with this number, though it may have been dropped.
    pub fn numbered(&self, id: StructureId) -> Option<Arc<Open>> {
        self.names.read().by_id.get(&id).cloned()
    }

    /// All of them, those that are being dropped included, in the order of their numbers.
    pub fn all(&self) -> Vec<Arc<Open>> {
        let mut all: Vec<_> = self.names.read().by_id.values().cloned().collect();
        all.sort_unstable_by_key(|open| open.id());
        all
    }

    /// Whether any hot tier lies in memory alone.
    pub fn has_hot_in_memory(&self) -> bool {
        let names = self.names.read();
        names.by_id.values().any(|open| open.spec.in_memory)
    }

    /// Whether any is saved in pieces: it lies in memory alone, and the log has all changes.
    pub fn has_saved_in_pieces(&self) -> bool {
        let names = self.names.read();
        let mut all = names.by_id.values();
        all.any(|open| open.spec.in_memory && open.spec.logged)
    }

    /// Whether any without log has its hot tier in memory alone.
    pub fn has_unlogged_in_memory(&self) -> bool {
        let names = self.names.read();
        let mut all = names.by_id.values();
        all.any(|open| open.spec.in_memory && !open.spec.logged)
    }

    /// Before any cut can have a structure like this one.
    pub(super) fn prepare_for(&self, spec: Spec) {
        match (spec.in_memory, spec.logged) {
            (false, _) if spec.stays_in_file => self.store.raise_format(UNLOGGED_IN_MEMORY),
            (false, _) => {}
            (true, true) => self.store.raise_format(HOT_IN_MEMORY),
            (true, false) => {
                self.store.raise_format(UNLOGGED_IN_MEMORY);
                self.store.keep_whole_pass();
            }
        }
    }

    fn remember(&self, open: Arc<Open>) {
        let mut names = self.names.write();
        if open.is_named() {
            names.by_name.insert(open.name(), open.clone());
        }
        if let Some(index) = &open.index {
            let of_table = names.indexes.entry(index.table).or_default();
            of_table.insert(open.id(), open.clone());
        }
        self.prepare_for(open.spec);
        let bytes = open.memory_bytes();
        if names.by_id.insert(open.id(), open).is_none() {
            names.memory_bytes += bytes;
            // Frames make room for it: there may be thousands.
            self.store.take_extra_bytes(bytes);
        }
    }

    /// Bytes of memory that the structures take, those that are being dropped included.
    pub fn memory_bytes(&self) -> u64 {
        self.names.read().memory_bytes
    }

    /// How many these are.
    pub fn len(&self) -> u64 {
        self.names.read().by_id.len() as u64
    }

    /// What keeps the catalog's entry in step when the hot tier is made.
    fn hook(&self, meta: &Arc<Meta>) -> OnHotRoot {
        let (catalog, meta) = (self.catalog.clone(), meta.clone());
        Arc::new(move |door, roots| {
            if planted(Fault::ForgottenHotRoot) {
                return Ok(());
            }
            change_entry(&catalog, &meta, door, &mut || (), |entry| {
                entry.roots = roots
            })
        })
    }

    /// Runs an attempt inside the gate until it is done. The caller holds nothing.
    fn inside<T>(
        &self,
        space: Space,
        attempt: impl FnMut(&WriteGuard<'_>) -> Attempt<T>,
    ) -> Result<T> {
        self.inside_for_many(space, SpaceQuota::default(), attempt)
    }

    /// The same for an attempt that changes as much as `promise` says.
    fn inside_for_many<T>(
        &self,
        space: Space,
        promise: SpaceQuota,
        mut attempt: impl FnMut(&WriteGuard<'_>) -> Attempt<T>,
    ) -> Result<T> {
        let mut tries = 0u32;
        loop {
            let door = self.store.enter_for_many(space, promise)?;
            match attempt(&door) {
                Ok(done) => return Ok(done),
                Err(interrupt) => {
                    drop(door);
                    self.store.settle_many(interrupt, &mut tries)?;
                }
            }
        }
    }

    /// Makes the structure with this number, which was never given out. `log` is called once, when
    /// nothing can fail any more. One of create, mark and rename runs at a time.
    pub fn create(
        &self,
        id: StructureId,
        new: &NewStructure<'_>,
        log: &mut dyn FnMut(),
    ) -> Result<Arc<Open>> {
        check_name(new.name)?;
        if new.index.is_none() && self.named(new.name).is_some() {
            return Err(Error::StructureExists {
                name: new.name.into(),
            });
        }
        let next_id = next_number(id)?;
        self.prepare_for(new.spec);
        // Until the catalog has the new root nothing points to it, so no cut may fall between.
        let unlinked = self.store.large_guard();
        let mut leftover = None;
        let made = self.inside(Space::Ordinary, |door| {
            let (structure, meta) = match leftover.take() {
                Some(made) => made,
                None => self.make(id, new, door)?,
            };
            let entry = meta.entry.lock().clone();
            let mut commit = || {
                self.next_id.fetch_max(next_id, Ordering::SeqCst);
                log();
            };
            match self.catalog.put(door, &entry, &mut commit) {
                Ok(()) => Ok(Open::new(structure, meta)),
                Err(interrupt) => {
                    if structures::undo_create(&self.store, new.spec, entry.roots, door).is_err() {
                        // It was written out within this instant; it serves the next attempt.
                        leftover = Some((structure, meta));
                    }
                    Err(interrupt)
                }
            }
        });
        if let (Err(e), Some(_)) = (&made, &leftover) {
            // A page without owner may not get into a checkpoint.
            self.store.poison(e);
        }
        drop(unlinked);
        let open = Arc::new(made?);
        self.remember(open.clone());
        Ok(open)
    }

    fn make(
        &self,
        id: StructureId,
        new: &NewStructure<'_>,
        door: &WriteGuard<'_>,
    ) -> Attempt<(Arc<dyn Structure>, Arc<Meta>)> {
        let roots = Roots {
            hot: None,
            cold: terrace_base::PageId::NONE,
        };
        let entry = Entry {
            id,
            spec: new.spec,
            name: new.name.into(),
            roots,
            dropping: false,
            unfinished: new.unfinished,
            index: new.index.cloned(),
        };
        let meta = Meta::new(entry);
        let structure = structures::create(&self.tiers, id, new.spec, self.hook(&meta), door)?;
        self.tell(&*structure, new.spec);
        meta.entry.lock().roots = structure.roots();
        Ok((structure, meta))
    }

    /// Says that what was begun is there. `log` is called once, when nothing can fail any more.
    pub fn finish(&self, open: &Arc<Open>, log: &mut dyn FnMut()) -> Result<()> {
        self.inside(Space::Ordinary, |door| {
            change_entry(&self.catalog, &open.meta, door, log, |entry| {
                entry.unfinished = false
            })
        })?;
        self.remember(open.clone());
        Ok(())
    }

    /// Marks a structure as dropped: it loses its name, and its pages go later. `log` is called
    /// once, when nothing can fail any more. The indexes of a table go with it: what is an index of
    /// something that is not there is dropped, whatever its own entry says, so that one change of
    /// one entry drops all of them.
    pub fn mark_dropped(&self, open: &Open, log: &mut dyn FnMut()) -> Result<()> {
        self.inside(Space::Reserve, |door| {
            change_entry(&self.catalog, &open.meta, door, log, |entry| {
                entry.dropping = true
            })
        })?;
        let name = open.name();
        let mut names = self.names.write();
        if names
            .by_name
            .get(&name)
            .is_some_and(|o| o.id() == open.id())
        {
            names.by_name.remove(&name);
        }
        open.abandon();
        if let Some(indexes) = names.indexes.get(&open.id()) {
            indexes.values().for_each(|index| index.abandon());
        }
        Ok(())
    }

    /// Takes what lies from `low` to before `high` out of a structure, at which no other thread is at work. What was
    /// taken out becomes a structure of this number, never given out, that was dropped, if it is to be taken apart;
    /// the answer says so. `log` is called once, when nothing can fail any more, and told whether it does; not
    /// at all if there is nothing in the range. One of create, mark, rename and this runs at a time.
    pub fn delete_range(
        &self,
        open: &Open,
        (low, high): (&[u8], Option<&[u8]>),
        part: StructureId,
        log: &mut dyn FnMut(bool),
    ) -> Result<RangeRemoved> {
        // This is not undone any more.
        open.structure.prefault_cut(low, high)?;
        let pages = self.pages_of_cut(open);
        let promise = SpaceQuota {
            dirty: pages,
            new: pages,
        };
        let (removed, entry) = self.inside_for_many(Space::Reserve, promise, |door| {
            self.cut_inside(door, open, (low, high), part, log)
        })?;
        if let Some(entry) = entry {
            self.open_part(entry);
        }
        Ok(removed)
    }

    /// Pages that are changed, and that are made, where a range is taken out of this.
    pub fn pages_of_cut(&self, open: &Open) -> u64 {
        // The catalog, and a hot and a cold tree; or its top, and an index for each level.
        match open.structure.merge_figures() {
            Some(figures) => 2 * CUT_PAGES + CUT_PAGES_OF_LEVEL * figures.levels.len() as u64,
            None => 3 * CUT_PAGES,
        }
    }

    /// [`Registry::delete_range`] by who is inside the gate, and has brought in what it takes. Of a part the caller keeps
    /// the entry in mind ([`Registry::open_part`]) when he has left it.
    pub fn cut_inside(
        &self,
        door: &WriteGuard<'_>,
        open: &Open,
        (low, high): (&[u8], Option<&[u8]>),
        part: StructureId,
        log: &mut dyn FnMut(bool),
    ) -> Attempt<(RangeRemoved, Option<Entry>)> {
        let next_id = next_number(part)?;
        let cut = open.structure.try_cut(door, low, high)?;
        if cut.is_empty() {
            return Ok((RangeRemoved::Nothing, None));
        }
        let entry = cut.roots().map(|(hot, cold)| Entry {
            id: part,
            spec: open.spec,
            name: open.name(),
            roots: Roots { hot, cold },
            dropping: true,
            unfinished: false,
            index: None,
        });
        // What lies in memory alone is no more after a crash, and nothing may name it then.
        let named = entry.clone().map(|mut entry| {
            entry.roots.hot = entry.roots.hot.filter(|_| !open.structure.is_saved());
            entry
        });
        match &named {
            Some(entry) => self.catalog.put(door, entry, &mut || {
                self.next_id.fetch_max(next_id, Ordering::SeqCst);
                log(true);
            })?,
            None => log(false),
        }
        if let Err(interrupt) = cut.apply() {
            let what = Error::invalid(format!("a range was taken out in part: {interrupt:?}"));
            return Err(self.store.poison(&what).into());
        }
        open.structure.close_cut(door, low, high);
        let removed = match entry.is_some() {
            true => RangeRemoved::WithPart,
            false => RangeRemoved::Wholly,
        };
        Ok((removed, entry))
    }

    /// Keeps in mind what is to be taken apart.
    pub fn open_part(&self, entry: Entry) {
        let open = self.opened(entry);
        open.structure.retire();
        self.remember(Arc::new(open));
    }

    /// This number is taken, whatever became of it.
    pub fn take_number(&self, id: StructureId) -> Result<()> {
        self.next_id.fetch_max(next_number(id)?, Ordering::SeqCst);
        Ok(())
    }

    /// The indexes of a structure, those that are being dropped included, by their numbers.
    pub fn indexes_of(&self, id: StructureId) -> Vec<Arc<Open>> {
        let names = self.names.read();
        let indexes = names.indexes.get(&id).into_iter().flatten();
        indexes.map(|(_, index)| index.clone()).collect()
    }

    /// After the log was replayed: drops what was begun and never finished, and indexes without a
    /// table, and gives each table its indexes. Nothing of this is logged; until the pages are given
    /// back, each opening finds the same.
    pub fn settle(&self) -> Result<()> {
        let all = self.all();
        if !planted(Fault::UnfinishedKept) {
            all.iter()
                .filter(|open| open.is_unfinished())
                .for_each(|open| open.abandon());
        }
        for open in &all {
            let Some(index) = &open.index else { continue };
            match self.numbered(index.table) {
                Some(table) if table.table.is_none() => {
                    return Err(Error::corrupt(
                        "data",
                        None,
                        format!(
                            "\"{}\" is an index of \"{}\", which is no table",
                            open.name(),
                            table.name()
                        ),
                    ));
                }
                Some(table) if !table.is_dropped() => {}
                _ => open.abandon(),
            }
        }
        for open in &all {
            if let Some(table) = &open.table {
                let mut indexes = self.indexes_of(open.id());
                indexes.retain(|index| !index.is_dropped());
                table.set(indexes.into_iter().map(IndexState::stored).collect());
            }
        }
        Ok(())
    }

    /// Gives a structure another name. `log` is called once, when nothing can fail any more.
    pub fn rename(&self, open: &Open, to: &str, log: &mut dyn FnMut()) -> Result<()> {
        check_name(to)?;
        let from = open.name();
        if from == to {
            return Ok(());
        }
        if self.named(to).is_some() {
            return Err(Error::StructureExists { name: to.into() });
        }
        self.inside(Space::Ordinary, |door| {
            change_entry(&self.catalog, &open.meta, door, log, |entry| {
                entry.name = to.into()
            })
        })?;
        let mut names = self.names.write();
        if let Some(open) = names.by_name.remove(&from) {
            names.by_name.insert(to.into(), open);
        }
        Ok(())
    }

    /// Compresses pages of a structure otherwise from now on. `log` is called once, when nothing can fail any
    /// more.
    pub fn compress(
        &self,
        open: &Open,
        compression: Compression,
        log: &mut dyn FnMut(),
    ) -> Result<()> {
        compression.check(open.spec.kind)?;
        self.inside(Space::Ordinary, |door| {
            change_entry(&self.catalog, &open.meta, door, log, |entry| {
                entry.spec.compression = compression
            })
        })?;
        open.structure.compress(compression.levels());
        Ok(())
    }

    /// The pages of the hot tier that the catalog names are what was saved of one in memory from now on, or the other way
    /// round. Before anything is put into it.
    pub(super) fn move_hot(&self, open: &Open, in_memory: bool) -> Result<()> {
        self.inside(Space::Saving, |door| {
            change_entry(&self.catalog, &open.meta, door, &mut || (), |entry| {
                entry.spec.in_memory = in_memory;
            })
        })?;
        let entry = open.meta.entry.lock().clone();
        self.remember(Arc::new(self.opened(entry)));
        Ok(())
    }

    /// One bounded step of taking a dropped structure apart, at which no thread is at work any more.
    /// Returns whether more is left to do.
    ///
    /// Its roots go last, in the same cut as its entry: the numbers of its pages may be given to
    /// others at once.
    pub fn clear_step(&self, id: StructureId) -> Result<bool> {
        let Some(open) = self.numbered(id) else {
            return Ok(false);
        };
        if open.structure.clear_memory_step()? {
            return Ok(true);
        }
        let roots = open.structure.roots();
        if structures::clear_step(&self.store, open.spec, roots)? {
            return Ok(true);
        }
        self.inside(Space::Reserve, |door| {
            structures::free_roots(&self.store, open.spec, roots, door, &mut || {
                if planted(Fault::ForgottenEntry) {
                    return Ok(());
                }
                self.catalog.remove(door, id)
            })
        })?;
        if let Some(bytes) = self.names.write().remove(id) {
            self.store.give_extra_bytes(bytes);
        }
        Ok(false)
    }
}

/// What became of a range that was to be removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RangeRemoved {
    /// There was nothing in it.
    Nothing,
    /// All of it is gone.
    Wholly,
    /// All of it is gone, and its pages are still to be taken apart.
    WithPart,
}

/// The number behind this one.
fn next_number(id: StructureId) -> Result<u32> {
    id.0.checked_add(1).ok_or_else(|| {
        Error::invalid("all structure numbers are used up; dump the database into a new one")
    })
}

/// Changes an entry on its page and in memory.
fn change_entry(
    catalog: &Catalog,
    meta: &Meta,
    door: &WriteGuard<'_>,
    commit: &mut dyn FnMut(),
    change: impl FnOnce(&mut Entry),
) -> Attempt<()> {
    let mut entry = meta.entry.lock();
    let mut next = entry.clone();
    change(&mut next);
    catalog.put(door, &next, commit)?;
    *entry = next;
    Ok(())
}
