//! The LSM-tree: records in key order, in levels of packed pages that are merged and never changed.
//!
//! A small *top*, a B+tree, takes every change, deletions as tombstones. *Steps* carry ranges of records
//! from there to the levels below and on to the last one: each merges the records of a range of keys, at
//! most some dozens of pages, into new pages. A level is an index, a B+tree of one entry for each of its
//! pages. All of it are pages of the store: a checkpoint is the manifest, and nothing of merging is logged.
//!
//! Invariants:
//! * A look from above is right at every instant: for each key the topmost version, a tombstone too, of
//!   top and levels is the newest. Readers look from above to below, and into no index before what is above
//!   has answered; what moves meanwhile moves down, and is below before it leaves above.
//! * In a level pages do not overlap; where no page is nothing is. Pages are immutable until they are freed,
//!   and a reader believes one only if it has the stamp that its entry says.
//! * A step takes of every level from its first to its target every record in its range; of the target it
//!   takes whole pages.
//! * At every instant the page of an entry covers all keys up to the next entry.
//! * A step is installed within one entry of the gate: the target's entries, then what is left of its sources
//!   from the lowest up, the top last. So no cut has a half of it.
//! * From the top only such records leave that are bit for bit those that were copied.
//! * A chain of overflow pages has one owner, the topmost version that names it. The version that a merge
//!   drops gives its chain up after the installation. Who replaces a record of the top that has a chain, and
//!   who installs one, do so one after the other (`chains`).
//! * A tombstone goes only where no page of a deeper level overlaps the whole range of the output.
//! * There is one step at a time; it holds no record lock.

mod absorbed;
mod charges;
mod clear;
mod counting;
mod cursors;
mod entry;
mod filter;
mod install;
mod level;
mod merge;
mod method;
mod name;
mod pace;
mod packed;
mod page;
mod plan;
mod purge;
mod range_delete;
mod recount;
mod refused;
mod root;
mod rooted;
mod schedule;
mod scratch;
mod seek_compaction;
mod sizes;
mod state;
mod step;
mod taken;
mod verify;
mod window;

use std::sync::{Arc, OnceLock};

use terrace_access::{
    AccessMethod, Applied, Attempt, Expiry, Flags, Found, LevelFigures, MergeFigures, Plan, Retry,
    Room, Value, WriteGuard,
};
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use terrace_base::{Counter, PageId, Result};
use terrace_pages::{Class, PageStore};

pub use crate::btree::layout::max_inline;
pub use entry::verify_entry;
pub use page::verify_page;
pub use root::verify_root;

use crate::BTree;
use crate::btree::Predecessor;
use crate::fault::{self, Fault};
use charges::Charges;
use cursors::Cursors;
use level::Level;
use pace::{Pace, Work};
use packed::Buffers;
use root::Root;
use scratch::Scratch;
use state::State;
use taken::Taken;

/// Windows and floors that are kept for the next reader: more readers at once allocate.
const MOST_SCRATCH: usize = 8;
/// The part of the memory that the top of a structure may take which is the only tier.
const TOP_PART_ALONE: u64 = 8;
/// The same below a hot tier, which gathers changes already.
const TOP_PART_BELOW: u64 = 12;
/// What levels are sized by where the hot tier gathers little, as a part of the memory (docs/decisions/lsm.md).
const LEVELS_PART: u64 = 36;
/// The part of the memory that the tops of all structures may take together.
const TOP_PART_OF_ALL: u64 = 8;
/// Fewest leaves of the top, while all are not too many.
const LEAST_TOP: u64 = 8;
// A store that opens has memory for that: less is an error of the store at its opening.
const _: () = assert!(LEAST_TOP * TOP_PART_OF_ALL <= terrace_pages::MIN_FRAMES);
/// Changes of the top between two looks at how large it is.
const CHANGES_PER_LOOK: u64 = 16;

#[derive(Default)]
struct Counters {
    top_leaves: AtomicU64,
    changes: AtomicU64,
    /// Changes from which on a caller looks again how large the top is.
    look_due: AtomicU64,
    steps: AtomicU64,
    merge_bytes: AtomicU64,
    merge_reads: AtomicU64,
    waits: AtomicU64,
    /// Times that a step waited inside the gate for a page or a frame.
    waits_inside: AtomicU64,
    most_waits: AtomicU64,
    /// Most pages that a step made dirty beyond what it was promised.
    #[cfg(test)]
    most_unpromised: AtomicU64,
    arrived_bytes: AtomicU64,
    /// Bytes that steps have taken out of the top.
    left_bytes: AtomicU64,
    user_bytes: Counter,
    deletes: AtomicU64,
    /// Tombstones in the top, about; those from before the opening are not counted.
    top_dead: AtomicU64,
}

impl Counters {
    /// `less` tombstones have left the top, or others have come for them.
    fn fewer_dead(&self, less: u64) {
        let left = |dead: u64| Some(dead.saturating_sub(less));
        let _ = self
            .top_dead
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, left);
    }
}

/// An LSM-tree in a page store. See the module's text.
pub struct Lsm {
    store: Arc<PageStore>,
    root: PageId,
    state: OnceLock<State>,
    /// Whether no tier above gathers changes.
    is_alone: bool,
    /// Whether it was taken out of another, and begins and ends anywhere.
    is_part: bool,
    /// Held by who makes a step.
    work: Work<Cursors>,
    pace: Pace,
    charges: Charges,
    refused: refused::Refused,
    absorbed: absorbed::Absorbed,
    recount: recount::Recount,
    /// Steps that were given up lately because there were not enough frames: ranges are halved as often.
    squeezed: AtomicU32,
    /// What was taken of the memory for steps.
    taken: Taken,
    /// Looks in a row at which no step was due.
    lull: AtomicU32,
    /// What looks into compressed pages need.
    buffers: Arc<Buffers>,
    /// Pages of this many levels, counted from the last one, are compressed as they are made.
    compressed: AtomicU8,
    /// What tells which records have expired, if they may.
    expiry: OnceLock<Arc<dyn Expiry>>,
    /// Held by who frees a chain of the top, and by who installs one.
    chains: Mutex<()>,
    scratch: Mutex<Vec<Scratch>>,
    counters: Counters,
}

impl Lsm {
    /// Makes an empty tree: the root, whose number is to be kept, the top and one level. O(1).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(store: &Arc<PageStore>, door: &WriteGuard<'_>) -> Attempt<Lsm> {
        let mut page = store.allocate(door, Class::Inner)?;
        let made = (|| {
            let top = BTree::create(store, door, Class::Top)?;
            let level = match new_index(store, door) {
                Ok(level) => level,
                Err(interrupt) => {
                    top.try_free_root(door)?;
                    return Err(interrupt);
                }
            };
            Ok(Root {
                top: top.root(),
                levels: vec![(level, LevelFigures::default())],
                estimates: 0,
            })
        })();
        let written = made.and_then(|root: Root| root.write(&mut page));
        match written {
            Ok(()) => Ok(Lsm::open(store.clone(), page.pid())),
            Err(interrupt) => {
                page.free();
                Err(interrupt)
            }
        }
    }

    /// The tree with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId) -> Lsm {
        Lsm {
            store,
            root,
            state: OnceLock::new(),
            is_alone: false,
            is_part: false,
            work: Work::default(),
            pace: Pace::default(),
            charges: Charges::default(),
            refused: refused::Refused::default(),
            absorbed: absorbed::Absorbed::default(),
            recount: recount::Recount::default(),
            squeezed: AtomicU32::new(0),
            taken: Taken::default(),
            lull: AtomicU32::new(0),
            buffers: Arc::default(),
            compressed: AtomicU8::new(0),
            expiry: OnceLock::new(),
            chains: Mutex::default(),
            scratch: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// The tree as the only tier: its top is larger, because nothing above gathers changes.
    pub fn alone(mut self) -> Lsm {
        self.is_alone = true;
        self
    }

    /// The tree as one that was taken out of another.
    pub fn as_part(mut self) -> Lsm {
        self.is_part = true;
        self
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Root pages of the parts, which are left when the tree is empty.
    ///
    /// # Errors
    /// `Miss` when the root has to be read first.
    pub fn part_roots(&self) -> Attempt<Vec<PageId>> {
        let root = self.state()?.root();
        let levels = root.levels.iter().map(|(index, _)| *index);
        Ok([root.top].into_iter().chain(levels).collect())
    }

    /// Gives the pages back that an empty tree is made of; no thread may use it any more.
    ///
    /// # Errors
    /// `Miss` when one of them is not in memory; `Fail` when the tree is not empty.
    pub fn try_free_root(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let state = self.state()?;
        let page = self.store.exclusive(self.root, door)?;
        for level in state.downwards() {
            if self.store.exists(level.index.root()) {
                level.index.try_free_root(door)?;
            }
        }
        if self.store.exists(state.top.root()) {
            state.top.try_free_root(door)?;
        }
        page.free();
        Ok(())
    }

    /// Top and levels.
    #[inline]
    pub(crate) fn state(&self) -> Attempt<&State> {
        if let Some(state) = self.state.get() {
            return Ok(state);
        }
        let root = Root::of(&self.store.shared(self.root)?)?;
        let parts = root.levels.iter().map(|(index, _)| *index);
        let mut parts: Vec<PageId> = parts.chain([root.top, self.root]).collect();
        parts.sort_unstable();
        if parts.windows(2).any(|two| two[0] == two[1]) {
            return Err(page::wrong(self.root, "this root names itself, or one part twice").into());
        }
        Ok(self
            .state
            .get_or_init(|| State::new((&self.store, &self.buffers), &root, self.is_part)))
    }

    /// What has happened since the tree was opened, and what is in it about.
    ///
    /// # Errors
    /// Those of reading the root.
    pub fn figures(&self) -> Result<MergeFigures> {
        let state = level::settled(&self.store, || self.state())?;
        let of = |n: &AtomicU64| n.load(Ordering::Relaxed);
        let c = &self.counters;
        let levels = (0..state.count()).filter_map(|number| state.level(number));
        let levels: Vec<LevelFigures> = levels.map(Level::figures).collect();
        let last = state.level(0).is_some_and(Level::wants_filters);
        let most = (max_inline(self.store.page_bytes()) - entry::ENTRY_BYTES) as u64;
        let filters = levels.iter().enumerate().map(|(number, of)| {
            let bits = match number {
                0 if last => filter::BITS_OF_LAST,
                0 => 0,
                _ => filter::BITS,
            };
            (of.records * bits as u64 / 8).min(of.pages * most)
        });
        Ok(MergeFigures {
            top_leaves: of(&c.top_leaves),
            top_bound: self.top_bound(),
            steps: of(&c.steps),
            merge_bytes: of(&c.merge_bytes),
            merge_reads: of(&c.merge_reads),
            waits: of(&c.waits),
            most_waits: of(&c.most_waits),
            arrived_bytes: of(&c.arrived_bytes),
            user_bytes: c.user_bytes.get(),
            page_bytes: self.store.page_bytes() as u64,
            filter_bytes: filters.sum(),
            levels,
        })
    }

    /// Times that a step waited inside the gate.
    #[cfg(test)]
    pub(crate) fn waits_inside(&self) -> u64 {
        self.counters.waits_inside.load(Ordering::Relaxed)
    }

    /// Most pages that a step made dirty beyond what it was promised.
    #[cfg(test)]
    pub(crate) fn most_unpromised(&self) -> u64 {
        self.counters.most_unpromised.load(Ordering::Relaxed)
    }

    /// Most leaves that the top is to have.
    fn top_bound(&self) -> u64 {
        if fault::tops_are_tiny() {
            return 1;
        }
        let part = match self.is_alone {
            true => TOP_PART_ALONE,
            false => TOP_PART_BELOW,
        };
        let frames = self.store.frames();
        let most = (frames / part).max(LEAST_TOP);
        // Of those of all structures together each gets the part that it has, and what is left.
        let (all, taken) = (frames / TOP_PART_OF_ALL, self.store.top_frames());
        let own = self.counters.top_leaves.load(Ordering::Relaxed);
        match all.checked_sub(taken) {
            Some(left) => most.min((left + own).max(LEAST_TOP)),
            None => most.min(all * own / taken).max(1),
        }
    }

    /// Leaves of the top that levels are sized by: with fewer each has more of the one above it, and all take less
    /// room and are merged more often.
    fn size_of_levels(&self) -> u64 {
        let bound = self.top_bound();
        if self.is_alone {
            return bound;
        }
        let least = (self.store.frames() / LEVELS_PART)
            .max(LEAST_TOP)
            .min(bound);
        let thin = self.absorbed.share_of(bound - least);
        least + thin
    }

    /// Counts the leaves of the top now and then; returns how many there were last.
    fn look_at_top(&self, state: &State) -> u64 {
        let c = &self.counters;
        let changes = c.changes.load(Ordering::Relaxed);
        let due = c.look_due.load(Ordering::Relaxed);
        if changes >= due
            && let Ok(leaves) = state.top.descent().count_leaves(usize::MAX)
        {
            c.look_due
                .store(changes + CHANGES_PER_LOOK, Ordering::Relaxed);
            c.top_leaves.store(leaves as u64, Ordering::Relaxed);
        }
        c.top_leaves.load(Ordering::Relaxed)
    }

    /// Gives the memory of steps back: nothing is due.
    pub(crate) fn give_buffers(&self) {
        self.taken.give(&self.store);
    }

    /// A record of `bytes` bytes comes to the top.
    fn note_change(&self, bytes: usize) {
        self.counters.changes.fetch_add(1, Ordering::Relaxed);
        self.counters
            .arrived_bytes
            .fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The newest version of a key that is below the top.
    fn find_in_levels(
        &self,
        state: &State,
        key: &[u8],
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        let hash = filter::hash(self.root.0, key);
        let mut floor = Predecessor::default();
        // How many there are is asked after the top has answered.
        for (above, level) in state.downwards().enumerate() {
            let found = level.find(&self.store, (key, hash), value, &mut floor)?;
            if let Some(found) = found {
                let depth = above as u8 + 1;
                return Ok(Some(Found { depth, ..found }));
            }
        }
        Ok(None)
    }

    /// Changes the top: a deletion leaves a tombstone. What lies below is not looked at.
    fn edit<'v>(
        &self,
        door: &WriteGuard<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        let state = self.state()?;
        let mut chains = None;
        let (mut bytes, mut erased, mut revived) = (0, false, false);
        let mut blind = |before: Option<(Flags, Value<'_>)>| {
            if let Some((_, Value::Large(_))) = before
                && chains.is_none()
            {
                // A step may be about to give this chain to a page below.
                chains = Some(self.chains.try_lock().ok_or(Retry::Conflict)?);
            }
            let is_dead = before.is_some_and(|(flags, _)| flags.is_deleted());
            Ok(match plan(before.filter(|_| !is_dead))? {
                Plan::Erase if is_dead => Plan::Keep,
                Plan::Erase => {
                    erased = true;
                    bytes = key.len();
                    Plan::Put(Value::Inline(b""), Flags::DELETED)
                }
                Plan::Put(value, flags) => {
                    (erased, revived) = (false, is_dead);
                    bytes = key.len()
                        + match value {
                            Value::Inline(value) => value.len(),
                            Value::Large(large) => large.len as usize,
                        };
                    Plan::Put(value, flags.without(Flags::DELETED))
                }
                Plan::Keep | Plan::Flags(_) => Plan::Keep,
            })
        };
        let mut done = state.top.try_edit(door, key, &mut blind, room, commit)?;
        drop(chains);
        if done.changed {
            if erased {
                self.counters.deletes.fetch_add(1, Ordering::Relaxed);
                self.counters.top_dead.fetch_add(1, Ordering::Relaxed);
            } else if revived {
                self.counters.fewer_dead(1);
            }
            self.note_change(bytes);
        }
        done.before = done.before.filter(|(flags, _)| !flags.is_deleted());
        if fault::planted(Fault::PutLooksBelow)
            && done.before.is_none()
            && let Ok(Some(found)) = self.find_in_levels(state, key, &mut Vec::new())
        {
            done.before = Some((found.flags, found.large));
        }
        Ok(done)
    }
}

impl Drop for Lsm {
    fn drop(&mut self) {
        self.give_buffers();
        self.buffers.forget(&self.store);
        self.store.give_extra_bytes(self.charges.forget());
    }
}

/// The index of a level without pages: one entry, which says so.
fn new_index(store: &Arc<PageStore>, door: &WriteGuard<'_>) -> Attempt<PageId> {
    let index = BTree::create(store, door, Class::Cold)?;
    let mut plan = |_: Option<(Flags, Value<'_>)>| Ok(Plan::Put(Value::Inline(b""), Flags::NONE));
    let put = index.try_edit(
        door,
        b"",
        &mut plan,
        &mut terrace_access::NoRoom,
        &mut || Ok(()),
    );
    if let Err(interrupt) = put {
        index.try_free_root(door)?;
        return Err(interrupt);
    }
    Ok(index.root())
}
