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
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::{Error, PageId, Result};

use crate::enter::interrupt::Interrupt;
use crate::frames::frame::Pool;
use crate::map::PageMap;
use crate::options::{Layout, StoreOptions};
use crate::parts::buffers::Buffers;
use crate::parts::claims::Claims;
use crate::parts::clock::Clock;
use crate::parts::counters::Counters;
use crate::parts::cut::Cut;
use crate::parts::durable::{Durable, Reserved};
use crate::parts::gate::Gate;
use crate::parts::ghosts::Ghosts;
use crate::parts::health::Health;
use crate::parts::large::{Large, LargeGuard};
use crate::parts::lent::Lent;
use crate::parts::pinned::Pinned;
use crate::parts::shares::Shares;
use crate::parts::signals::Signals;
use crate::parts::source::Source;
use crate::parts::undo::Undo;
use crate::table::{FreePages, Table};

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
    pub(crate) cut: Cut,
    pub(crate) counters: Counters,
    pub(crate) claims: Claims,
    pub(crate) free_frames: Mutex<Vec<u32>>,
    pub(crate) lent: Lent,
    pub(crate) clock: Clock,
    pub(crate) shares: Shares,
    pub(crate) ghosts: Ghosts,
    pub(crate) signals: Signals,
    pub(crate) health: Health,
    pub(crate) write_buffers: Buffers,
    pub(crate) large: Large,
    /// See [`PageStore::number_large_value`].
    large_values: AtomicU64,
    pub(crate) map_reserved: Mutex<Reserved>,
    pub(crate) durable: Mutex<Durable>,
    pub(crate) pinned: Pinned,
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
            cut: Cut::new(),
            counters: Counters::default(),
            claims: Claims::default(),
            free_frames: Mutex::new(free),
            lent: Lent::default(),
            clock: Clock::default(),
            shares: Shares::new(),
            ghosts: Ghosts::new(layout.frames),
            signals: Signals::new(),
            health: Health::default(),
            write_buffers: Buffers::new(layout.write_batch, options.page_bytes),
            large: Large::default(),
            large_values: AtomicU64::new(0),
            map_reserved: Mutex::default(),
            map: Mutex::new(map),
            free_pages: Mutex::new(free_pages),
            durable: Mutex::new(durable),
            pinned: Default::default(),
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
        self.claims.open_reserve(open);
    }

    /// Asks for a checkpoint, or for haste if one is being made: somebody found no space on the disk.
    pub fn ask_for_checkpoint(&self) {
        self.claims.want_checkpoint(true);
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
