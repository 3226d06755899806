//! The page store: how pages come into frames, how they are found, made and freed.
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
use terrace_base::sync::{Condvar, Mutex, RwLock, yield_now};
use terrace_base::{Error, PageId, Result};

use crate::frame::{CUT_PENDING, Class, Frame, MOVING, NO_PAGE, Pool, UNLINKED, WRITING};
use crate::gate::{Door, Gate};
use crate::guard::{Exclusive, Optimistic, Shared, Ticket};
use crate::interrupt::{Attempt, Interrupt};
use crate::map::{PageMap, Place, Words};
use crate::options::{Layout, StoreOptions};
use crate::page;
use crate::table::{Table, Word};
use crate::undo::Undo;

/// The file that holds superblocks and pages.
pub const DATA_FILE: &str = "data";
/// Where the first slot begins in it.
pub const DATA_START: u64 = 65536;

/// Locks over which waiters for pages being read in spread.
const READ_STRIPES: usize = 64;
/// How long a thread sleeps when it waits for the cleaner or the checkpointer; they wake it, this
/// only bounds a lost wake-up.
const WAIT: Duration = Duration::from_millis(5);

/// Events counted since the store was opened; all relaxed.
#[derive(Default)]
pub struct Counters {
    pub page_reads: AtomicU64,
    pub page_writes: AtomicU64,
    pub map_bytes: AtomicU64,
    pub checkpoint_page_writes: AtomicU64,
    pub checkpoint_hot_writes: AtomicU64,
    pub checkpoints: AtomicU64,
    pub evictions: AtomicU64,
    pub discarded_writes: AtomicU64,
    pub waits_for_frames: AtomicU64,
    pub waits_for_undo: AtomicU64,
    /// Frames whose content differs from disk.
    pub dirty: AtomicU64,
    /// Frames of hot pages.
    pub hot: AtomicU64,
    /// Frames of inner pages of cold tiers.
    pub inner: AtomicU64,
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
    /// Pages that were freed after the cut, as they were at the cut.
    pub(crate) copies: Mutex<Vec<(PageId, Box<[u8]>)>>,
    pub(crate) counters: Counters,
    pub(crate) free_frames: Mutex<Vec<u32>>,
    /// Frames whose memory was given back, because something else in the budget needed it.
    pub(crate) lent_frames: Mutex<Vec<u32>>,
    pub(crate) lent: AtomicU64,
    pub(crate) extra: AtomicU64,
    pub(crate) hand: AtomicU32,
    pub(crate) clean_hand: AtomicU32,
    reads: Box<[(Mutex<()>, Condvar)]>,
    /// Signalled whenever the cleaner or the checkpointer has finished a batch.
    pub(crate) progress: (Mutex<u64>, Condvar),
    /// Signalled when the cleaner should look.
    pub(crate) wanted: (Mutex<bool>, Condvar),
    pub(crate) write_buffers: crate::write::Buffers,
    pub(crate) large: RwLock<()>,
    pub(crate) poison: Mutex<Option<Error>>,
    pub(crate) poisoned: AtomicBool,
    pub(crate) stop: AtomicBool,
    pub(crate) growing: Mutex<()>,
    pub(crate) wants_checkpoint: AtomicBool,
    pub(crate) durable: Mutex<crate::checkpoint::Durable>,
}

/// The chain of free page numbers.
#[derive(Default)]
pub struct FreePages {
    pub head: Option<PageId>,
    pub count: u64,
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
    ) -> Result<PageStore> {
        let pool = Pool::new(layout.frames, options.page_bytes)?;
        let free = (0..layout.frames as u32).rev().collect();
        let store = PageStore {
            gate: Gate::new(durable.epoch.max(1)),
            undo: Undo::new(),
            cut: AtomicU32::new(0),
            copies: Mutex::default(),
            counters: Counters::default(),
            free_frames: Mutex::new(free),
            lent_frames: Mutex::default(),
            lent: AtomicU64::new(0),
            extra: AtomicU64::new(0),
            hand: AtomicU32::new(0),
            clean_hand: AtomicU32::new(0),
            reads: (0..READ_STRIPES).map(|_| Default::default()).collect(),
            progress: Default::default(),
            wanted: Default::default(),
            write_buffers: crate::write::Buffers::new(layout.write_batch, options.page_bytes),
            large: RwLock::new(()),
            poison: Mutex::default(),
            poisoned: AtomicBool::new(false),
            stop: AtomicBool::new(false),
            growing: Mutex::default(),
            wants_checkpoint: AtomicBool::new(false),
            map: Mutex::new(map),
            free_pages: Mutex::new(free_pages),
            durable: Mutex::new(durable),
            options,
            layout,
            disk,
            data,
            pool,
            table,
        };
        store.note_slots(&store.map.lock());
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
        match self.table.load(pid) {
            Word::Resident(frame) => {
                let header = self.pool.frame(frame);
                let Some(version) = header.latch.optimistic() else {
                    return Err(Interrupt::Conflict);
                };
                if header.page.load(Ordering::Acquire) != pid.0 {
                    return Err(Interrupt::Conflict);
                }
                header.touch();
                Ok(Optimistic { store: self, frame, pid, version })
            }
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
    }

    /// The page under its shared latch, if it is in memory; waits for an exclusive holder.
    pub fn shared(&self, pid: PageId) -> Attempt<Shared<'_>> {
        let frame = self.resident(pid)?;
        self.pool.frame(frame).latch.shared();
        let guard = Shared { store: self, frame, pid };
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
        let frame = self.resident(pid)?;
        self.pool.frame(frame).latch.exclusive();
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

    fn resident(&self, pid: PageId) -> Attempt<u32> {
        match self.table.load(pid) {
            Word::Resident(frame) => Ok(frame),
            Word::Out(place) if place.is_free() => Err(Interrupt::Conflict),
            _ => Err(Interrupt::Miss(pid)),
        }
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
            Interrupt::Conflict => {
                yield_now();
                Ok(())
            }
            Interrupt::NoFrame => self.make_frames(),
            Interrupt::HotFull => {
                yield_now();
                Ok(())
            }
            Interrupt::Fail(e) => Err(e),
        }
    }

    /// Brings a page into memory. Blocking; the caller holds nothing. Returns at once if it is
    /// there, or if it was freed meanwhile.
    ///
    /// # Errors
    /// I/O errors, and damage when the bytes are not those of this page.
    pub fn fault_in(&self, pid: PageId) -> Result<()> {
        let (lock, signal) = &self.reads[pid.0 as usize % READ_STRIPES];
        loop {
            match self.table.load(pid) {
                Word::Resident(_) => return Ok(()),
                Word::Loading(_) => {
                    let mut held = lock.lock();
                    if matches!(self.table.load(pid), Word::Loading(_)) {
                        signal.wait_for(&mut held, WAIT);
                    }
                }
                Word::Out(place) => {
                    let Some(slot) = place.slot() else { return Ok(()) };
                    let frame = self.take_frame()?;
                    if !self.table.swap(pid, Word::Out(place), Word::Loading(place)) {
                        self.free_frames.lock().push(frame);
                        continue;
                    }
                    let done = self.read_page(pid, place, slot, frame);
                    if done.is_err() {
                        self.free_frames.lock().push(frame);
                        self.replace_word(pid, |p| Word::Out(p));
                    }
                    drop(lock.lock());
                    signal.notify_all();
                    return done;
                }
            }
        }
    }

    fn read_page(&self, pid: PageId, place: Place, slot: u64, frame: u32) -> Result<()> {
        let header = self.pool.frame(frame);
        header.latch.exclusive();
        // SAFETY: the exclusive latch was just taken, and the frame was taken off the free list, so
        // no other slice of it exists.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        let offset = DATA_START + slot * self.page_bytes() as u64;
        self.counters.page_reads.fetch_add(1, Ordering::Relaxed);
        let read = self
            .data
            .read_at(bytes, offset)
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    Error::corrupt(DATA_FILE, offset, format!("{pid} should be here, but the file ends"))
                }
                _ => Error::io("reading", DATA_FILE, e),
            })
            .and_then(|()| page::open(bytes, pid, place.check(), offset));
        if let Err(e) = read {
            header.latch.release_exclusive();
            return Err(e);
        }
        let class = page::class(bytes);
        header.class.store(class as u8, Ordering::Relaxed);
        header.used.store(u8::from(class == Class::Inner), Ordering::Relaxed);
        header.flags.store(0, Ordering::Relaxed);
        header.dirty.store(0, Ordering::Relaxed);
        self.count_class(class);
        header.page.store(pid.0, Ordering::Release);
        // The place may be retagged while the word still shows it, so it is taken from there.
        loop {
            let Word::Loading(now) = self.table.load(pid) else { break };
            header.place.store(now.bits(), Ordering::Release);
            if self.table.swap(pid, Word::Loading(now), Word::Resident(frame)) {
                break;
            }
        }
        header.latch.release_exclusive();
        Ok(())
    }

    fn replace_word(&self, pid: PageId, make: impl Fn(Place) -> Word) {
        loop {
            let word = self.table.load(pid);
            let (Word::Loading(place) | Word::Out(place)) = word else { return };
            if self.table.swap(pid, word, make(place)) {
                return;
            }
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
        if self.undo.bytes() > self.layout.undo_bytes {
            self.wait_for_undo();
        }
        let needed = self.counters.dirty.load(Ordering::Relaxed) + self.layout.slack(space);
        if self.counters.free_slots.load(Ordering::Relaxed) < needed {
            self.make_space(space)?;
        }
        Ok(self.pass_waiting())
    }

    /// Goes in if that takes no waiting at all.
    pub fn try_enter(&self) -> Option<Door<'_>> {
        let needed = self.counters.dirty.load(Ordering::Relaxed) + self.layout.slack(Space::Reserve);
        if self.poisoned.load(Ordering::Relaxed)
            || self.undo.bytes() > self.layout.undo_bytes
            || self.counters.free_slots.load(Ordering::Relaxed) < needed
        {
            return None;
        }
        self.pass()
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
    pub fn large_guard(&self) -> impl Drop + '_ {
        self.large.read()
    }

    // ---------------------------------------------------------------- making and freeing pages

    /// A new page: zeroed, exclusively latched, dirty. O(1).
    ///
    /// # Errors
    /// `NoFrame` when no frame can be had without waiting, `HotFull` when a hot page was asked for
    /// and the hot class is at its cap.
    pub fn allocate<'d, 'a: 'd>(
        &'a self,
        door: &'d Door<'a>,
        class: Class,
    ) -> Attempt<Exclusive<'d>> {
        if class == Class::Hot && self.hot_frames() >= self.hot_cap_hard() {
            return Err(Interrupt::HotFull);
        }
        let Some(frame) = self.spare_frame() else { return Err(Interrupt::NoFrame) };
        let Some((pid, place)) = self.take_page_number()? else {
            self.free_frames.lock().push(frame);
            return Err(Interrupt::Fail(Error::MemoryTooSmall {
                what: "the page table (an eighth of the memory)".into(),
                given: self.options.memory,
                needed: self.options.memory * 2,
            }));
        };
        let header = self.pool.frame(frame);
        header.latch.exclusive();
        // SAFETY: the exclusive latch was just taken, and the frame was taken off the free list, so
        // no other slice of it exists.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        bytes.fill(0);
        page::begin(bytes, pid, class);
        header.place.store(place.bits(), Ordering::Relaxed);
        header.class.store(class as u8, Ordering::Relaxed);
        header.used.store(1, Ordering::Relaxed);
        header.flags.store(0, Ordering::Relaxed);
        header.dirty.store(door.epoch(), Ordering::Relaxed);
        self.counters.dirty.fetch_add(1, Ordering::Relaxed);
        self.count_class(class);
        header.page.store(pid.0, Ordering::Release);
        self.table.store(pid, Word::Resident(frame));
        Ok(Exclusive::created(self, frame, pid, door))
    }

    fn take_page_number(&self) -> Result<Option<(PageId, Place)>> {
        let _map = self.map.lock();
        let mut free = self.free_pages.lock();
        if let Some(pid) = free.head {
            let Word::Out(place) = self.table.load(pid) else {
                return Err(Error::Poisoned {
                    cause: format!("{pid} is in the chain of free pages and in use"),
                });
            };
            let next = place.link();
            free.head = (!next.is_none()).then_some(next);
            free.count -= 1;
            return Ok(Some((pid, place.with_link(PageId(0)))));
        }
        let pid = PageId(self.table.count());
        if pid.0 >= self.table.limit() {
            return Ok(None);
        }
        self.table.set_count(pid.0 + 1);
        Ok(Some((pid, Place::FREE)))
    }

    /// Frees a page whose exclusive latch the caller holds; the latch goes with it.
    pub(crate) fn release_page(&self, frame: u32, pid: PageId, epoch: u32) {
        let header = self.pool.frame(frame);
        let dirty = header.dirty.load(Ordering::Relaxed);
        let cut = self.cut.load(Ordering::Acquire);
        let pending = header.has(CUT_PENDING);
        if pending || (dirty != 0 && dirty <= cut && dirty < epoch) {
            // SAFETY: the caller holds the exclusive latch and gives up the page.
            let mut copy: Box<[u8]> = unsafe { self.pool.bytes(frame) }.into();
            self.undo.apply(frame, &mut copy);
            self.copies.lock().push((pid, copy));
            if !pending {
                // The copy is one more page to write, as a pending one has been counted already.
                self.counters.dirty.fetch_add(1, Ordering::Relaxed);
            }
        }
        {
            let mut map = self.map.lock();
            let newest = Place::from_bits(header.place.load(Ordering::Acquire));
            let place = map.free_page(pid, newest);
            let mut free = self.free_pages.lock();
            let link = free.head.unwrap_or(PageId::NONE);
            self.table.store(pid, Word::Out(place.with_link(link)));
            free.head = Some(pid);
            free.count += 1;
            self.note_slots(&map);
        }
        if dirty != 0 {
            self.counters.dirty.fetch_sub(1, Ordering::Relaxed);
        }
        self.uncount_class(header.class());
        header.page.store(NO_PAGE, Ordering::Release);
        header.dirty.store(0, Ordering::Relaxed);
        header.clear(CUT_PENDING | UNLINKED);
        let writing = header.has(WRITING);
        header.latch.release_exclusive();
        if !writing {
            self.free_frames.lock().push(frame);
        }
    }

    pub(crate) fn count_class(&self, class: Class) {
        match class {
            Class::Hot => self.counters.hot.fetch_add(1, Ordering::Relaxed),
            Class::Inner => self.counters.inner.fetch_add(1, Ordering::Relaxed),
            Class::Cold => 0,
        };
    }

    pub(crate) fn uncount_class(&self, class: Class) {
        match class {
            Class::Hot => self.counters.hot.fetch_sub(1, Ordering::Relaxed),
            Class::Inner => self.counters.inner.fetch_sub(1, Ordering::Relaxed),
            Class::Cold => 0,
        };
    }

    // ---------------------------------------------------------------- hot quota

    /// Frames that hold hot pages.
    pub fn hot_frames(&self) -> u64 {
        self.counters.hot.load(Ordering::Relaxed)
    }

    /// Most frames that hot pages may take: a cap, not a reservation. Falls when frames are lent.
    pub fn hot_cap(&self) -> u64 {
        self.layout.hot_cap(
            self.lent.load(Ordering::Relaxed) + self.counters.inner.load(Ordering::Relaxed),
        )
    }

    /// The cap that is never passed: a little above, so that a structure change in progress
    /// can end.
    fn hot_cap_hard(&self) -> u64 {
        self.hot_cap() + self.layout.hot_slack
    }

    // ---------------------------------------------------------------- errors

    /// Refuses everything that changes pages after a failure with unknown outcome.
    pub fn check_poison(&self) -> Result<()> {
        if self.poisoned.load(Ordering::Relaxed)
            && let Some(e) = self.poison.lock().clone()
        {
            return Err(e);
        }
        Ok(())
    }

    /// Stops all writing until the store is opened again.
    pub fn poison(&self, cause: &Error) -> Error {
        let mut poison = self.poison.lock();
        let error = poison
            .get_or_insert_with(|| match cause {
                Error::Poisoned { .. } => cause.clone(),
                other => Error::Poisoned { cause: other.to_string() },
            })
            .clone();
        self.poisoned.store(true, Ordering::Release);
        drop(poison);
        self.note_progress();
        error
    }

    pub(crate) fn note_slots(&self, map: &PageMap) {
        self.counters.free_slots.store(map.counts().free, Ordering::Relaxed);
    }
}

/// How deep into the free space an operation may reach.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Leaves the reserve untouched.
    Ordinary,
    /// May use the reserve: deletes, demotion, checkpoints.
    Reserve,
}

impl Words for PageStore {
    fn place(&self, pid: PageId) -> Place {
        loop {
            match self.table.load(pid) {
                Word::Out(place) | Word::Loading(place) => return place,
                Word::Resident(frame) => {
                    let header: &Frame = self.pool.frame(frame);
                    let place = header.place.load(Ordering::Acquire);
                    if place != MOVING
                        && header.page.load(Ordering::Acquire) == pid.0
                        && self.table.load(pid) == Word::Resident(frame)
                    {
                        return Place::from_bits(place);
                    }
                    terrace_base::sync::spin_loop();
                }
            }
        }
    }

    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool {
        loop {
            match self.table.load(pid) {
                word @ (Word::Out(place) | Word::Loading(place)) => {
                    // A free word carries the chain's link beside what the map knows.
                    if place.with_link(PageId(0)) != from.with_link(PageId(0)) {
                        return false;
                    }
                    let to = to.with_link(place.link());
                    let new = match word {
                        Word::Loading(_) => Word::Loading(to),
                        _ => Word::Out(to),
                    };
                    if self.table.swap(pid, word, new) {
                        return true;
                    }
                }
                Word::Resident(frame) => {
                    let header = self.pool.frame(frame);
                    match header.place.compare_exchange(
                        from.bits(),
                        to.bits(),
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    ) {
                        Ok(_) => return true,
                        Err(MOVING) => terrace_base::sync::spin_loop(),
                        Err(_) => {
                            if self.table.load(pid) == Word::Resident(frame) {
                                return false;
                            }
                        }
                    }
                }
            }
        }
    }
}

