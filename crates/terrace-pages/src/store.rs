//! The page store: what it holds.
//!
//! Invariants:
//! * A page is in at most one frame; its page table word says which.
//! * Whoever waits (for a disk, for frames) holds no latch and is not inside the gate.
//! * A frame is owned by exactly one of: the free list, a page, the thread that is filling or
//!   emptying it (which holds its exclusive latch or took it off the list).

use std::sync::Arc;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use terrace_base::{Error, PageId, Result};

use crate::buffers::Buffers;
use crate::counters::Counters;
use crate::cut::CutProgress;
use crate::durable::{Durable, Reserved};
use crate::frame::Pool;
use crate::gate::Gate;
use crate::ghosts::Ghosts;
use crate::health::Health;
use crate::interrupt::Interrupt;
use crate::kept::Kept;
use crate::large::{Large, LargeGuard};
use crate::map::PageMap;
use crate::options::{Layout, StoreOptions, WHOLE_SHARE};
use crate::pace::Plan;
use crate::pinned::Pinned;
use crate::signals::Signals;
use crate::source::Source;
use crate::table::{FreePages, Table};
use crate::undo::Undo;

/// See the module's text.
pub struct PageStore {
    pub(crate) options: StoreOptions,
    pub(crate) layout: Layout,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) data: Arc<dyn DiskFile>,
    pub(crate) pool: Pool,
    pub(crate) table: Table,
    pub(crate) gate: Gate,
    pub(crate) map: Mutex<PageMap>,
    /// First of the chain of free page numbers; the links are in their words. Under the map mutex.
    pub(crate) free_pages: Mutex<FreePages>,
    pub(crate) undo: Undo,
    /// Epoch of the cut whose pages are being written; 0 when no checkpoint is in progress.
    pub(crate) cut: AtomicU32,
    pub(crate) counters: Counters,
    pub(crate) free_frames: Mutex<Vec<u32>>,
    /// Frames whose memory was given back, because something else in the budget needed it.
    pub(crate) lent_frames: Mutex<Vec<u32>>,
    pub(crate) lent: AtomicU64,
    pub(crate) extra: AtomicU64,
    /// Of them for hints.
    pub(crate) hints: AtomicU64,
    pub(crate) kept: Kept,
    pub(crate) ghosts: Ghosts,
    /// Share of the hot cap that is in force, in per mille.
    pub(crate) hot_share: AtomicU32,
    /// Whether the last one who asked for a hot page got none.
    pub(crate) hot_wanted: AtomicBool,
    pub(crate) hand: AtomicU32,
    /// Inner pages that have frames set aside, or 0 as long as nobody has said how many.
    pub(crate) inner_kept: AtomicU64,
    /// Inner pages that the hand passed by.
    pub(crate) passes: AtomicU64,
    pub(crate) clean_hand: AtomicU32,
    pub(crate) signals: Signals,
    pub(crate) health: Health,
    pub(crate) write_buffers: Buffers,
    pub(crate) large: Large,
    /// See [`PageStore::number_large_value`].
    large_values: AtomicU64,
    pub(crate) growing: Mutex<()>,
    pub(crate) map_reserved: Mutex<Reserved>,
    /// See [`PageStore::note_cut_space`].
    pub(crate) cut_space: AtomicU64,
    pub(crate) cut_plan: Mutex<Plan>,
    pub(crate) cut_progress: CutProgress,
    /// Whether everybody may use the reserve of space.
    pub(crate) all_reserve: AtomicBool,
    /// Sums of what was promised to those who change much behind one door: pages to become dirty, new ones.
    pub(crate) promised: [AtomicU64; 2],
    /// Slots for others that were missing when somebody who does not wait was sent away.
    pub(crate) missing: AtomicU64,
    pub(crate) wants_checkpoint: AtomicBool,
    /// Whether all pages that could be cleaned were ones that a checkpoint owes.
    pub(crate) cleaning_waits: AtomicBool,
    pub(crate) durable: Mutex<Durable>,
    pub(crate) pinned: Pinned,
    /// Writes go below this slot if there is room; 0 for wherever they go usually.
    pub(crate) compact_below: AtomicU64,
    /// Whether checkpoints leave no room at the end of the file.
    pub(crate) compact_tight: AtomicBool,
    /// What it reads, if it is the store of an image.
    pub(crate) image: Option<Box<dyn Source>>,
}

impl PageStore {
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn assemble(
        options: StoreOptions,
        layout: Layout,
        disk: Arc<dyn Disk>,
        data: Arc<dyn DiskFile>,
        table: Table,
        map: PageMap,
        free_pages: FreePages,
        durable: Durable,
        image: Option<Box<dyn Source>>,
    ) -> Result<PageStore> {
        let pool = Pool::new(layout.frames, options.page_bytes)?;
        let free = (0..layout.frames as u32).rev().collect();
        let store = PageStore {
            gate: Gate::new(durable.epoch.max(1)),
            undo: Undo::new(layout.undo_bytes),
            cut: AtomicU32::new(0),
            counters: Counters::default(),
            free_frames: Mutex::new(free),
            lent_frames: Mutex::default(),
            lent: AtomicU64::new(0),
            extra: AtomicU64::new(0),
            hints: AtomicU64::new(0),
            kept: Default::default(),
            ghosts: Ghosts::new(layout.frames),
            hot_share: AtomicU32::new(WHOLE_SHARE),
            hot_wanted: AtomicBool::new(false),
            hand: AtomicU32::new(0),
            inner_kept: AtomicU64::new(0),
            passes: AtomicU64::new(0),
            clean_hand: AtomicU32::new(0),
            signals: Signals::new(),
            health: Health::default(),
            write_buffers: Buffers::new(layout.write_batch, options.page_bytes),
            large: Large::default(),
            large_values: AtomicU64::new(0),
            growing: Mutex::default(),
            map_reserved: Mutex::default(),
            cut_space: AtomicU64::new(0),
            cut_plan: Mutex::new(Plan::new(0)),
            cut_progress: Default::default(),
            all_reserve: AtomicBool::new(false),
            promised: [AtomicU64::new(0), AtomicU64::new(0)],
            missing: AtomicU64::new(0),
            wants_checkpoint: AtomicBool::new(false),
            cleaning_waits: AtomicBool::new(false),
            map: Mutex::new(map),
            free_pages: Mutex::new(free_pages),
            durable: Mutex::new(durable),
            pinned: Default::default(),
            compact_below: AtomicU64::new(0),
            compact_tight: AtomicBool::new(false),
            image,
            options,
            layout,
            disk,
            data,
            pool,
            table,
        };
        store.note_slots(&store.map.lock());
        if store.is_image() {
            return Ok(store);
        }
        // On a full disk one can still open, and read and delete.
        let _ = store.reserve_map(&store.durable.lock(), 0);
        Ok(store)
    }

    /// Size of a page in bytes.
    #[inline]
    pub fn page_bytes(&self) -> usize {
        self.options.page_bytes
    }

    // ---------------------------------------------------------------- waiting

    /// Does what an interrupted attempt needs before it can start over; returns the error if
    /// starting over would not help. The caller holds nothing. `HotFull` is the tier's business
    /// and only backs off here.
    pub fn settle(&self, interrupt: Interrupt) -> Result<()> {
        match interrupt {
            Interrupt::Miss(pid) => self.fault_in(pid),
            Interrupt::Conflict | Interrupt::HotFull => self.back_off(),
            Interrupt::NoFrame => self.make_frames(),
            Interrupt::Fail(e) => Err(e),
        }
    }

    /// Whether everybody may use the reserve of space from now on, to the last slot: while the log is
    /// replayed, whose changes had their space once, but perhaps in another order.
    pub fn open_reserve(&self, open: bool) {
        self.all_reserve.store(open, Ordering::Relaxed);
    }

    /// Asks for a checkpoint, or for haste if one is being made: somebody found no space on the disk.
    pub fn ask_for_checkpoint(&self) {
        self.wants_checkpoint.store(true, Ordering::Relaxed);
    }

    /// One more than the highest page number that was ever given out.
    pub fn page_numbers(&self) -> u64 {
        self.table.count()
    }

    /// A number for a large value that is being written: another one each time, while the store is open.
    pub fn number_large_value(&self) -> u64 {
        self.large_values.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn wait_for_progress(&self) {
        self.signals.wait_for_progress();
    }

    pub(crate) fn note_progress(&self) {
        self.signals.note_progress();
    }

    pub(crate) fn want_cleaning(&self) {
        self.signals.want_cleaning();
    }

    /// No cut begins while one of these is held: pages may be allocated that nothing points to yet.
    /// Taken by a caller that is not inside the gate: a checkpoint that waits for such guards lets
    /// nobody else have one meanwhile. So whoever takes the first one of a thread has nothing that a holder
    /// of one may wait for. A thread may hold several.
    pub fn large_guard(&self) -> LargeGuard<'_> {
        self.large.guard()
    }

    /// The same where no cut waits or is being made, or the thread has one already; never waits.
    pub fn try_large_guard(&self) -> Option<LargeGuard<'_>> {
        self.large.try_guard()
    }

    /// Whether this page, which is not in memory, was until lately: some more memory for pages that
    /// are not hot would have kept it. May be wrong. O(1).
    pub fn left_lately(&self, pid: PageId) -> bool {
        self.ghosts.has(pid)
    }

    // ---------------------------------------------------------------- errors

    /// Refuses everything that changes pages after a failure with unknown outcome.
    #[inline(always)]
    pub fn check_poison(&self) -> Result<()> {
        self.health.check()
    }

    /// Stops all writing until the store is opened again.
    pub fn poison(&self, cause: &Error) -> Error {
        let error = self.health.poison(cause);
        self.note_progress();
        error
    }

    pub(crate) fn note_slots(&self, map: &PageMap) {
        self.counters
            .free_slots
            .store(map.counts().free, Ordering::Relaxed);
    }
}
