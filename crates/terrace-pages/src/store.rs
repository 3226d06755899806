//! The page store: what it holds, how resident pages are found, and its door.
//!
//! Invariants:
//! * A page is in at most one frame; its page table word says which.
//! * Whoever waits (for a disk, for frames) holds no latch and is not inside the gate.
//! * A frame is owned by exactly one of: the free list, a page, the thread that is filling or
//!   emptying it (which holds its exclusive latch or took it off the list).

use std::sync::Arc;
use std::time::Duration;

use terrace_base::disk::{Disk, DiskFile};
use terrace_base::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use terrace_base::sync::{Condvar, Mutex, yield_now};
use terrace_base::{Error, PageId, Result};

use crate::allocate::FreePages;
use crate::cause::CAUSES;
use crate::frame::Pool;
use crate::gate::{Door, Gate};
use crate::ghosts::Ghosts;
use crate::guard::{Exclusive, Optimistic, Shared, Ticket};
use crate::interrupt::{Attempt, Interrupt};
use crate::large::{Large, LargeGuard};
use crate::map::PageMap;
use crate::options::{Layout, StoreOptions, WHOLE_SHARE};
use crate::space::Promise;
use crate::table::{Table, Word};
use crate::undo::Undo;

/// The file that holds superblocks and pages.
pub const DATA_FILE: &str = "data";
/// Where the first slot begins in it.
pub const DATA_START: u64 = 65536;
/// Numbers of pages that others may take while somebody changes much behind one door.
const NUMBERS_SLACK: u64 = 256;

/// How often somebody lets others go on who may use up the last space, before it is told that the disk is
/// full.
const PATIENCE: u32 = 64;

/// Locks over which waiters for pages being read in spread.
pub(crate) const READ_STRIPES: usize = 64;
/// How long a thread sleeps when it waits for the cleaner or the checkpointer; they wake it, this
/// only bounds a lost wake-up.
pub(crate) const WAIT: Duration = Duration::from_millis(5);

/// Events counted since the store was opened; all relaxed.
#[derive(Default)]
pub struct Counters {
    /// By cause.
    pub page_reads: [AtomicU64; CAUSES],
    pub page_writes: AtomicU64,
    pub map_bytes: AtomicU64,
    pub checkpoint_page_writes: AtomicU64,
    pub checkpoint_hot_writes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub evictions: AtomicU64,
    pub discarded_writes: AtomicU64,
    pub waits_for_frames: AtomicU64,
    pub waits_for_undo: AtomicU64,
    /// Page writes owed: one for each dirty frame, and one more for each page, in a frame or
    /// freed, whose content at the cut must be reconstructed.
    pub dirty: AtomicU64,
    /// Frames of hot pages.
    pub hot: AtomicU64,
    /// Frames of inner pages of cold tiers.
    pub inner: AtomicU64,
    /// Frames of pages that gather changes.
    pub tops: AtomicU64,
    /// Slots held by no layer, as of the last change.
    pub free_slots: AtomicU64,
}

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
    pub(crate) kept: crate::kept::Kept,
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
    pub(crate) reads: Box<[(Mutex<()>, Condvar)]>,
    /// Signalled whenever the cleaner or the checkpointer has finished a batch.
    pub(crate) progress: (Mutex<u64>, Condvar),
    /// Signalled when the cleaner should look.
    pub(crate) wanted: (Mutex<bool>, Condvar),
    pub(crate) write_buffers: crate::write::Buffers,
    pub(crate) large: Large,
    /// See [`PageStore::number_large_value`].
    large_values: AtomicU64,
    pub(crate) halt: crate::halt::Halt,
    pub(crate) poison: Mutex<Option<Error>>,
    pub(crate) poisoned: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) growing: Mutex<()>,
    pub(crate) map_reserved: Mutex<crate::checkpoint::Reserved>,
    /// See [`PageStore::note_cut_space`].
    pub(crate) cut_space: AtomicU64,
    pub(crate) cut_plan: Mutex<crate::pace::Plan>,
    pub(crate) cut_progress: crate::checkpoint::CutProgress,
    /// Whether everybody may use the reserve of space.
    pub(crate) all_reserve: AtomicBool,
    /// Sums of what was promised to those who change much behind one door: pages to become dirty, new ones.
    pub(crate) promised: [AtomicU64; 2],
    /// Slots for others that were missing when somebody who does not wait was sent away.
    pub(crate) missing: AtomicU64,
    pub(crate) wants_checkpoint: AtomicBool,
    /// Whether all pages that could be cleaned were ones that a checkpoint owes.
    pub(crate) cleaning_waits: AtomicBool,
    pub(crate) durable: Mutex<crate::checkpoint::Durable>,
    pub(crate) pinned: crate::pin::Pinned,
    /// Writes go below this slot if there is room; 0 for wherever they go usually.
    pub(crate) compact_below: AtomicU64,
    /// Whether checkpoints leave no room at the end of the file.
    pub(crate) compact_tight: AtomicBool,
    /// What it reads, if it is the store of an image.
    pub(crate) image: Option<crate::image::Image>,
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
        durable: crate::checkpoint::Durable,
        image: Option<crate::image::Image>,
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
            reads: (0..READ_STRIPES).map(|_| Default::default()).collect(),
            progress: Default::default(),
            wanted: Default::default(),
            write_buffers: crate::write::Buffers::new(layout.write_batch, options.page_bytes),
            large: Large::default(),
            large_values: AtomicU64::new(0),
            halt: Default::default(),
            poison: Mutex::default(),
            poisoned: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            growing: Mutex::default(),
            map_reserved: Mutex::default(),
            cut_space: AtomicU64::new(0),
            cut_plan: Mutex::new(crate::pace::Plan::new(0)),
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

    // ---------------------------------------------------------------- finding pages

    /// The page for optimistic reading, if it is in memory. O(1).
    #[inline]
    pub fn optimistic(&self, pid: PageId) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch(frame))
    }

    /// The same where nothing but what is at `at` is about to be read, beside the header: the lines
    /// behind that would only push out others.
    #[inline]
    pub fn optimistic_at(&self, pid: PageId, at: usize) -> Attempt<Optimistic<'_>> {
        self.optimistic_with(pid, |frame| self.pool.prefetch_line(frame, at))
    }

    /// Asks the processor for what whoever latches this page looks at first, and for the line of it that has
    /// the byte at `at`: for pages whose turn comes soon, so that they are not waited for one after the
    /// other. Nothing happens where the page is not in memory. O(1).
    #[inline]
    pub fn prefetch_at(&self, pid: PageId, at: usize) {
        if let Word::Resident(frame) = self.table.load(pid) {
            self.pool.prefetch_header(frame);
            self.pool.prefetch_line(frame, 0);
            self.pool.prefetch_line(frame, at);
        }
    }

    /// The page for optimistic reading, if it is in this frame, which may be any number: then it is found
    /// without the page table. O(1).
    #[inline]
    pub fn optimistic_in(&self, frame: u32, pid: PageId) -> Option<Optimistic<'_>> {
        if frame as usize >= self.pool.len() {
            return None;
        }
        self.pool.prefetch(frame);
        self.optimistic_there(frame, pid)
    }

    /// The same in a frame that there is, whose bytes have been asked for.
    #[inline]
    fn optimistic_there(&self, frame: u32, pid: PageId) -> Option<Optimistic<'_>> {
        let header = self.pool.frame(frame);
        let version = header.latch.optimistic()?;
        if header.page.load(Ordering::Acquire) != pid.0 {
            return None;
        }
        header.touch();
        Some(Optimistic {
            store: self,
            frame,
            pid,
            version,
        })
    }

    #[inline]
    fn optimistic_with(&self, pid: PageId, prefetch: impl Fn(u32)) -> Attempt<Optimistic<'_>> {
        match self.table.load(pid) {
            Word::Resident(frame) => {
                prefetch(frame);
                let there = self.optimistic_there(frame, pid);
                there.ok_or(Interrupt::Conflict)
            }
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
    }

    /// The page under its shared latch, if it is in memory; waits for an exclusive holder.
    pub fn shared(&self, pid: PageId) -> Attempt<Shared<'_>> {
        self.shared_in(self.resident(pid)?, pid)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn shared_in(&self, frame: u32, pid: PageId) -> Attempt<Shared<'_>> {
        let header = self.pool.frame(frame);
        // Who has latches and waits for the latch of another page than it meant may wait for itself.
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.shared_while(stays) {
            return Err(Interrupt::Conflict);
        }
        let guard = Shared {
            store: self,
            frame,
            pid,
        };
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// The page under its exclusive latch, if it is in memory; waits for the holders.
    pub fn exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        self.exclusive_in(self.resident(pid)?, pid, door)
    }

    /// The same in the frame in which it was a moment ago.
    pub(crate) fn exclusive_in<'d, 'a: 'd>(
        &'a self,
        frame: u32,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let header = self.pool.frame(frame);
        let stays = || header.page.load(Ordering::Acquire) == pid.0 && !self.is_halted();
        if !header.latch.exclusive_while(stays) {
            return Err(Interrupt::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            self.pool.frame(frame).touch();
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    /// Like [`PageStore::exclusive`], but `Conflict` instead of waiting.
    pub fn try_exclusive<'d, 'a: 'd>(
        &'a self,
        pid: PageId,
        door: &'d Door<'a>,
    ) -> Attempt<Exclusive<'d>> {
        let frame = self.resident(pid)?;
        if !self.pool.frame(frame).latch.try_exclusive() {
            return Err(Interrupt::Conflict);
        }
        let guard = Exclusive::held(self, frame, pid, door);
        if self.pool.frame(frame).page.load(Ordering::Acquire) == pid.0 {
            Ok(guard)
        } else {
            Err(Interrupt::Conflict)
        }
    }

    pub(crate) fn resident(&self, pid: PageId) -> Attempt<u32> {
        match self.table.load(pid) {
            Word::Resident(frame) => Ok(frame),
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
    }

    /// Whether there is a page of this number. A hint: it may be freed at any time.
    pub fn exists(&self, pid: PageId) -> bool {
        !matches!(self.table.load(pid), Word::Out(place) if place.is_free())
    }

    /// Whether the page is in memory now. A hint: it may leave at any time.
    pub fn is_resident(&self, pid: PageId) -> bool {
        matches!(self.table.load(pid), Word::Resident(_))
    }

    /// Reads the four bytes at `at` of the page that `ticket` was taken of; `None` if the frame
    /// holds another page by now or somebody is changing it.
    pub fn ticket_u32(&self, ticket: Ticket, at: usize) -> Option<u32> {
        let header = self.pool.frame(ticket.frame);
        let version = header.latch.optimistic()?;
        if header.page.load(Ordering::Acquire) != ticket.pid.0 {
            return None;
        }
        let value = self.pool.view(ticket.frame).u32(at).ok()?;
        header.latch.validate(version).then_some(value)
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

    // ---------------------------------------------------------------- the door

    /// Goes in to change pages. Waits, holding nothing, while the gate is closed or while the
    /// checkpointer must first write pages that too much was saved of. O(1).
    ///
    /// # Errors
    /// `DiskFull` when there is no space to write what would be changed, `Poisoned`.
    pub fn enter(&self) -> Result<Door<'_>> {
        self.enter_for(Space::Ordinary)
    }

    /// Like [`PageStore::enter`], but may use the reserve of space: for deletes, and for what the
    /// store itself needs to get out of trouble.
    pub fn enter_for(&self, space: Space) -> Result<Door<'_>> {
        self.check_poison()?;
        self.check_writable()?;
        if self.undo.bytes() > self.layout.undo_bytes {
            self.wait_for_undo();
        }
        let mut patience = PATIENCE;
        loop {
            let door = self.pass_waiting();
            let Err(others) = self.may_stay(space) else {
                return Ok(door);
            };
            drop(door);
            match self.make_space(space, others) {
                // Those inside wait for nothing, and what they leave unused is there again.
                Err(e) if e.is_disk_full() && others > 0 && patience > 0 => {
                    patience -= 1;
                    yield_now();
                }
                made => made?,
            }
        }
    }

    /// Like [`PageStore::enter_for`], for somebody who may change so much behind this one door, and must not
    /// fail on the way for lack of space.
    ///
    /// # Errors
    /// As there, and `MemoryTooSmall` when there may be too few numbers for new pages.
    pub fn enter_for_many(&self, space: Space, promise: Promise) -> Result<Door<'_>> {
        // Promised first, so that two who come at once do not count on the same slots and numbers.
        self.promise(promise);
        let numbers = || self.table.limit().saturating_sub(self.live_pages());
        let short = promise.new > 0 && numbers() < self.promised_numbers() + NUMBERS_SLACK;
        let entered = match short {
            true => Err(self.no_page_number()),
            false => self.enter_for(space),
        };
        match entered {
            Ok(door) => Ok(door.with_promised(promise)),
            Err(e) => {
                self.take_back(promise);
                Err(e)
            }
        }
    }

    /// Goes in to free pages, which makes none dirty and so needs no slots: who has unlinked what he frees
    /// must not be refused. Waits like [`PageStore::enter`].
    ///
    /// # Errors
    /// `Poisoned`.
    pub fn enter_to_free(&self) -> Result<Door<'_>> {
        self.check_poison()?;
        self.check_writable()?;
        self.wait_for_saved();
        Ok(self.pass_waiting())
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

    /// Goes in if that takes no waiting at all.
    pub fn try_enter(&self) -> Option<Door<'_>> {
        let stopped = self.poisoned.load(Ordering::Relaxed) || self.is_image();
        if stopped || self.undo.bytes() > self.layout.undo_bytes {
            return None;
        }
        let door = self.pass()?;
        if let Err(others) = self.may_stay(Space::Migration) {
            drop(door);
            self.missing.fetch_max(others, Ordering::Relaxed);
            // The cleaner grows the file for those who do not wait.
            self.want_cleaning();
            return None;
        }
        Some(door)
    }

    /// For who changes a lot behind one door: waits, as the door does, while the checkpointer must first
    /// write pages that too much was saved of. The caller holds no latch. O(1) if there is nothing to
    /// wait for.
    pub fn wait_for_saved(&self) {
        if self.undo.bytes() > self.layout.undo_bytes {
            self.wait_for_undo();
        }
    }

    /// One more than the highest page number that was ever given out.
    pub fn page_numbers(&self) -> u64 {
        self.table.count()
    }

    /// A number for a large value that is being written: another one each time, while the store is open.
    pub fn number_large_value(&self) -> u64 {
        self.large_values.fetch_add(1, Ordering::Relaxed)
    }

    fn wait_for_undo(&self) {
        self.counters.waits_for_undo.fetch_add(1, Ordering::Relaxed);
        while self.undo.bytes() > self.layout.undo_bytes
            && self.cut.load(Ordering::Acquire) != 0
            && !self.poisoned.load(Ordering::Relaxed)
        {
            self.wait_for_progress();
        }
    }

    pub(crate) fn wait_for_progress(&self) {
        let mut seen = self.progress.0.lock();
        self.progress.1.wait_for(&mut seen, WAIT);
    }

    pub(crate) fn note_progress(&self) {
        *self.progress.0.lock() += 1;
        self.progress.1.notify_all();
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
        if self.poisoned.load(Ordering::Relaxed) {
            return self.poison_found();
        }
        Ok(())
    }

    #[cold]
    fn poison_found(&self) -> Result<()> {
        self.poison.lock().clone().map_or(Ok(()), Err)
    }

    /// Stops all writing until the store is opened again.
    pub fn poison(&self, cause: &Error) -> Error {
        let mut poison = self.poison.lock();
        let error = poison
            .get_or_insert_with(|| match cause {
                Error::Poisoned { .. } => cause.clone(),
                other => Error::Poisoned {
                    cause: other.to_string(),
                },
            })
            .clone();
        self.poisoned.store(true, Ordering::Release);
        drop(poison);
        self.note_progress();
        error
    }

    pub(crate) fn note_slots(&self, map: &PageMap) {
        self.counters
            .free_slots
            .store(map.counts().free, Ordering::Relaxed);
    }
}

/// How deep into the free space an operation may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Leaves the reserve untouched.
    Ordinary,
    /// May use a part of the reserve: promotion, demotion.
    Migration,
    /// May use the reserve: deletes, and what they need to get through.
    Reserve,
}
