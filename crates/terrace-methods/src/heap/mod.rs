//! The heap: rows in pages in no order, and an index, which is a tree, that says where each one is.
//!
//! An index record has the key and the flags of a row and its location, seven bytes, or the reference
//! of a large value. So whoever walks the records, counts uses down or chooses victims touches no
//! heap page. Rows stay where they are when others come and go.
//!
//! Invariants:
//! * The root keeps its page number, and so does the root of the index, which it names. Both go when
//!   the structure goes.
//! * Each row is named by exactly one index record, with its key; each index record with a location
//!   has its row there. A tombstone without a value has no row.
//! * A row, and the location that the index has of it, is changed only under the exclusive latches of
//!   the index leaf and of its heap page. So whoever holds the leaf knows where its rows are.
//! * Each heap page is listed once in the directory. One without rows is freed, or waits for rows.
//! * The membership counter of a window is that of the index leaf.

mod clear;
mod directory;
mod edit;
mod layout;
mod order;
mod pack;
mod page;
mod read;
mod records;
mod room;
mod rooted;
mod run;
mod scans;
mod space;
mod verify;

use std::sync::{Arc, OnceLock};

use terrace_access::{
    AccessMethod, Applied, Attempt, Door, Edge, Flags, Found, InStorage, Interrupt, Neighbours,
    Ordered, Plan, RecordPage, Room, Runs, Sampled, StoragePlace, StoredScan, Sweep, Touch, Value,
    Window,
};
use terrace_base::sync::Mutex;
use terrace_base::{PageId, Result};
use terrace_pages::{Class, PageStore};

pub use crate::btree::layout::max_inline;
pub use page::verify_page;

use crate::BTree;
use directory::{NO_DIRECTORY, ROOT_TAG};
use scans::Scans;
use space::Space;

/// Rows before and behind one, in the order of the index, that may well be on the same page: the sweep of
/// a hot tier puts neighbours into the cold one together, a hundred of 120 bytes to a page.
const NEAR_ROWS: usize = 64;

const NO_INDEX: &str = "this root of a heap names no index";

/// A heap with its index in a page store. See the module's text.
pub struct Heap {
    store: Arc<PageStore>,
    root: PageId,
    tier: Class,
    /// Opened when the root has been read.
    index: OnceLock<BTree>,
    space: Space,
    scans: Scans,
    scratch: Mutex<Vec<Window>>,
    /// See [`Heap::as_upper_tier`].
    copies: bool,
}

impl Heap {
    /// Makes an empty heap: two pages, the root, whose number is to be kept, and the root of the
    /// index. `tier` is [`Class::Cold`] or [`Class::Hot`]. O(page).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(store: &Arc<PageStore>, door: &Door<'_>, tier: Class) -> Attempt<Heap> {
        let class = if tier == Class::Hot {
            Class::Hot
        } else {
            Class::Inner
        };
        let mut page = store.allocate(door, class)?;
        let index = match BTree::create(store, door, tier) {
            Ok(index) => index,
            Err(interrupt) => {
                page.free();
                return Err(interrupt);
            }
        };
        directory::begin(&mut page, ROOT_TAG, index.root(), store.page_bytes())?;
        let root = page.pid();
        drop(page);
        Ok(Heap::open(store.clone(), root, tier))
    }

    /// The heap with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> Heap {
        let tier = if tier == Class::Hot {
            Class::Hot
        } else {
            Class::Cold
        };
        Heap {
            store,
            root,
            tier,
            index: OnceLock::new(),
            space: Space::new(root),
            scans: Scans::default(),
            scratch: Mutex::default(),
            copies: false,
        }
    }

    /// The heap as an upper tier: a clean record is a copy of one in the tier below, and the chain of
    /// its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(self) -> Heap {
        Heap {
            copies: true,
            index: OnceLock::new(),
            ..self
        }
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// Root of the index; never changes.
    ///
    /// # Errors
    /// `Miss` when the root of the heap has to be read first.
    pub fn index_root(&self) -> Attempt<PageId> {
        Ok(self.index()?.root())
    }

    /// The store that the heap lies in.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Pages of rows that there are. For statistics: more may come at any time. O(pages of the
    /// directory).
    ///
    /// # Errors
    /// `Miss` when a page of the directory is not in memory.
    pub fn try_row_pages(&self) -> Attempt<u64> {
        let (mut at, mut pages) = (self.root, 0);
        for _ in 0..room::LONGEST_CHAIN {
            let list = match self.store.shared(at) {
                // It was cleared just now.
                Err(Interrupt::Conflict) if !self.store.exists(at) => break,
                other => other?,
            };
            let seen = self.directory_in(list.view(), at);
            let seen = seen.ok_or_else(|| list.torn(NO_DIRECTORY))?;
            pages += seen.used as u64;
            if seen.next.is_none() {
                break;
            }
            at = seen.next;
        }
        Ok(pages)
    }

    /// Gives both roots back; the heap must be empty ([`AccessMethod::try_clear_step`] returned
    /// false), and nobody may use it any more.
    ///
    /// # Errors
    /// `Miss` when one of them is not in memory; `Fail` when the heap is not empty.
    pub fn try_free_root(&self, door: &Door<'_>) -> Attempt<()> {
        let root = self.store.exclusive(self.root, door)?;
        let seen = self.directory_in(root.view(), self.root);
        let seen = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?;
        if seen.used > 0 || !seen.next.is_none() {
            return Err(terrace_base::Error::invalid("only an empty heap can be freed").into());
        }
        if seen.link == self.root || !self.store.exists(seen.link) {
            return Err(root.torn(NO_INDEX));
        }
        self.index_at(seen.link).try_free_root(door)?;
        root.free();
        Ok(())
    }

    fn index_at(&self, root: PageId) -> &BTree {
        self.index.get_or_init(|| {
            let index = BTree::open(self.store.clone(), root, self.tier).leading();
            if self.copies {
                index.as_upper_tier()
            } else {
                index
            }
        })
    }

    /// The index.
    ///
    /// # Errors
    /// `Miss` when the root has to be read first, to know where the index begins.
    #[inline]
    fn index(&self) -> Attempt<&BTree> {
        match self.index.get() {
            Some(index) => Ok(index),
            None => self.find_index(),
        }
    }

    #[cold]
    fn find_index(&self) -> Attempt<&BTree> {
        let root = self.store.shared(self.root)?;
        let seen = self.directory_in(root.view(), self.root);
        let link = seen.ok_or_else(|| root.torn(NO_DIRECTORY))?.link;
        if link == self.root || !self.store.exists(link) {
            return Err(root.torn(NO_INDEX));
        }
        Ok(self.index_at(link))
    }
}

impl AccessMethod for Heap {
    /// A leaf of the index, the page of the row, and the one that it goes to.
    const DIRTY_EACH: u64 = 3;

    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        self.get(key, touch, value)
    }

    fn try_edit<'v>(
        &self,
        door: &Door<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied> {
        self.edit(door, key, plan, room, commit)
    }

    fn do_without(&self, page: PageId) -> bool {
        self.space.do_without(page, self.root)
    }

    fn try_clear_step(&self, door: &Door<'_>) -> Attempt<bool> {
        self.clear_step(door)
    }

    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()> {
        self.check(each, page)
    }
}

impl Ordered for Heap {
    const INDEXED: bool = true;

    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        self.window(edge, window, &mut |_| Ok(()))
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.window_if(edge, select, window)
    }

    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.window_within(low, high, select, window)
    }

    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.index()?.try_span(position, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.index
            .get()
            .is_some_and(|index| index.still_same(window))
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        self.reach(edge)
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        self.window(edge, window, inside)
    }
}

impl Sampled for Heap {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        self.index()?.try_random(random)
    }

    fn try_leaves(&self, random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        self.index()?.try_leaves(random)
    }
}

impl Runs for Heap {
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        self.reach_rows(run, next)
    }

    fn put_run(&self, door: &Door<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_rows(door, window, which)
    }
}

impl Neighbours for Heap {
    fn try_near(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.index()?.span_around(position, NEAR_ROWS, window)
    }

    fn try_close_up(
        &self,
        door: &Door<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        self.index()?.try_close_up(door, from, to)
    }

    /// Compacts the index, and moves rows of a thin heap page to others.
    fn try_compact(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.index()?.try_compact(door, position, fill)?;
        match self.pack_rows(door) {
            Err(terrace_access::Interrupt::Fail(e)) => Err(e.into()),
            Err(terrace_access::Interrupt::Miss(page)) => {
                Err(terrace_access::Interrupt::Miss(page))
            }
            _ => Ok(()),
        }
    }
}

impl InStorage for Heap {
    fn begin_stored(&self) -> Option<StoredScan> {
        self.begin_scan()
    }

    fn try_stored(&self, scan: &StoredScan, window: &mut Window) -> Attempt<bool> {
        self.scan_step(scan, window)
    }

    fn end_stored(&self, scan: &StoredScan) {
        self.end_scan(scan);
    }
}

impl Sweep for Heap {
    fn try_visit(
        &self,
        door: &Door<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, position, edit)
    }

    fn try_collect_stored(
        &self,
        place: &mut StoragePlace,
        positions: &mut Vec<Vec<u8>>,
    ) -> Attempt<bool> {
        self.collect_stored(place, positions).map(|()| true)
    }

    /// Packs the index, and moves rows of a thin heap page to others. Pages of rows that became free
    /// are not told of.
    fn try_pack(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        let freed = self.index()?.try_pack(door, position, fill)?;
        match self.pack_rows(door) {
            Err(terrace_access::Interrupt::Fail(e)) => Err(e.into()),
            // What could not be had at once is there the next time.
            _ => Ok(freed),
        }
    }

    fn try_gather(&self, door: &Door<'_>) -> Attempt<()> {
        self.gather(door)
    }

    const SHARES_ROOM: bool = true;
}
