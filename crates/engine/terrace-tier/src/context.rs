//! What all structures of a database share: page store, record locks, and the hand that moves over
//! all hot tiers.

use std::hash::{BuildHasher, RandomState};
use std::ops::Range;
use std::sync::{Arc, Weak};

use terrace_access::{Rooted, Waits, Window};
use terrace_base::checksum::mix;
use terrace_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use terrace_base::sync::{Condvar, Mutex, RwLock};
use terrace_base::{Error, PageId, Result, thread_number};
use terrace_pages::{Cause, LEARNT_BYTES, PageStore, Retry, Space};

use crate::LockTable;
use crate::counter::Wide;
use crate::hot_tiers::{HotTiers, MergingStructure};
use crate::index_share::IndexShare;
use crate::share::Share;
use crate::sketch::Sketch;
use crate::wake::Wake;

/// Pages that a saved tree has beside those of its records: its root, and what leads to the others.
pub(crate) const FIRST_PAGES: u64 = 2;

/// Where what was learnt of the division of memory has what; see `docs/format-data.md`.
const SHARE_AT: Range<usize> = 0..2;
const INNER_AT: Range<usize> = 4..12;
/// Bytes of two windows that are kept for the next one: those of leaves of records of usual lengths.
const MOST_KEPT: usize = 256 << 10;

/// Pairs of windows that are kept, one for each of this many threads: no more than usually scan at once.
const SCRATCHES: usize = 8;

/// Two windows to work with, kept for the next one; on a line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Scratch(Mutex<Option<(Window, Window)>>);

/// Pages of what is saved of hot tiers have one part in this many of their bytes free at most, on average.
const SAVED_SPARE_PART: u64 = 4;

/// What became dirty by some of the threads, on a line of its own.
#[derive(Default)]
#[repr(align(64))]
struct Fresh(AtomicU64);

/// Records that went by which a call for help has done enough: a leaf of a heap's index has as many as
/// several of a tree, and the writer that calls waits for it.
const HELP_RECORDS: u64 = 256;

/// What all structures of a database share.
pub struct TierContext {
    /// The page store.
    pub store: Arc<PageStore>,
    /// The record locks.
    pub locks: Arc<LockTable>,
    pub(crate) hot: HotTiers,
    /// See [`crate::counter::Sets`].
    pub(crate) wide: Arc<Wide>,
    /// Structures whose changes leave work behind.
    merging: Mutex<Vec<Weak<dyn MergingStructure>>>,
    /// Whether marks of deletions are to go also where they are few, once nothing comes from above.
    pub(crate) purge_below: AtomicBool,
    scratch: [Scratch; SCRATCHES],
    /// Where random numbers come from when a run is to be repeated.
    seed: Mutex<Option<u64>>,
    /// See [`TierContext::sweep_stored`].
    stored: AtomicBool,
    /// See [`TierContext::set_bilsm`].
    #[cfg(feature = "paper")]
    bilsm: Mutex<Option<crate::bilsm::BiLsmOptions>>,
    /// See [`TierContext::lock_for_reads`].
    #[cfg(feature = "paper")]
    pessimistic: AtomicBool,
    pub(crate) wake: (Mutex<bool>, Condvar),
    pub(crate) merger: Wake,
    pub(crate) share: Share,
    pub(crate) index_share: IndexShare,
    /// How often cold records were asked for.
    pub(crate) sketch: Sketch,
    /// Held by the threads in the background while they are at work on structures.
    pub(crate) background: RwLock<()>,
    /// Bytes that were dirty in hot tiers each time that they were saved.
    pub(crate) saved_bytes: AtomicU64,
    /// Bytes that became dirty in hot tiers that lie in memory alone, of which the store is told page by page.
    fresh: [Fresh; SCRATCHES],
    /// The same of what is dirty no more.
    settled: [Fresh; SCRATCHES],
    /// Hot leaves of all structures together, as far as their hands have counted them.
    pub(crate) hot_leaves: AtomicU64,
}

impl TierContext {
    /// A context with a lock table of about `lock_bytes`, and a sketch of twice that.
    pub fn new(store: Arc<PageStore>, lock_bytes: usize) -> Arc<TierContext> {
        TierContext::with_sketch(store, lock_bytes, 2 * lock_bytes)
    }

    /// A context with a lock table of about `lock_bytes`, and counters of about `sketch_bytes` for the
    /// accesses to cold records.
    pub fn with_sketch(
        store: Arc<PageStore>,
        lock_bytes: usize,
        sketch_bytes: usize,
    ) -> Arc<TierContext> {
        let memory = store.frames() * store.page_bytes() as u64;
        Arc::new(TierContext {
            store,
            locks: Arc::new(LockTable::new(lock_bytes)),
            hot: HotTiers::default(),
            wide: Wide::new(memory),
            merging: Mutex::default(),
            purge_below: AtomicBool::new(false),
            scratch: Default::default(),
            seed: Mutex::new(None),
            stored: AtomicBool::new(false),
            #[cfg(feature = "paper")]
            bilsm: Mutex::new(None),
            #[cfg(feature = "paper")]
            pessimistic: AtomicBool::new(false),
            wake: Default::default(),
            merger: Default::default(),
            share: Share::default(),
            index_share: IndexShare::default(),
            sketch: Sketch::new(sketch_bytes),
            hot_leaves: AtomicU64::new(0),
            saved_bytes: Default::default(),
            fresh: Default::default(),
            settled: Default::default(),
            background: RwLock::new(()),
        })
    }

    /// Waits until the threads in the background have ended what they are at, and keeps them from beginning
    /// anything on structures while the answer lives.
    pub fn hold_background(&self) -> impl Sized + use<'_> {
        self.background.write()
    }

    /// Draws the secrets of structures from this number, so that a run can be repeated. For tests.
    pub fn seed(&self, seed: u64) {
        *self.seed.lock() = Some(seed);
    }

    /// Lets hot tiers whose records lie in another order than that of their positions, heaps, be swept
    /// in the order in which they lie. For comparison: it costs many times the page reads and writes.
    pub fn sweep_stored(&self, stored: bool) {
        self.stored.store(stored, Ordering::Relaxed);
    }

    /// LSM-trees with the paper's policy are from now on opened and made with all of it, as these options say.
    /// For comparison.
    #[cfg(feature = "paper")]
    pub fn set_bilsm(&self, options: crate::bilsm::BiLsmOptions) {
        *self.bilsm.lock() = Some(options);
    }

    /// Those options.
    #[cfg(feature = "paper")]
    pub fn bilsm(&self) -> Option<crate::bilsm::BiLsmOptions> {
        *self.bilsm.lock()
    }

    /// Has readers take the lock of each record that they look at, as writers do, instead of looking whether it
    /// has changed meanwhile: the paper's pessimistic lock table (section 7.10), for comparison.
    #[cfg(feature = "paper")]
    pub fn lock_for_reads(&self, pessimistic: bool) {
        self.pessimistic.store(pessimistic, Ordering::Relaxed);
    }

    /// Whether readers do so.
    #[inline(always)]
    pub(crate) fn locks_for_reads(&self) -> bool {
        #[cfg(feature = "paper")]
        return self.pessimistic.load(Ordering::Relaxed);
        #[cfg(not(feature = "paper"))]
        false
    }

    pub(crate) fn sweeps_stored(&self) -> bool {
        self.stored.load(Ordering::Relaxed)
    }

    /// The order of a new structure.
    pub(crate) fn new_order<M: Rooted>(&self) -> M::Order {
        M::new_order(&mut || match &mut *self.seed.lock() {
            Some(seed) => {
                *seed = mix(*seed, 0x5EC_2E7);
                *seed
            }
            // What cannot be guessed, as for the standard library's maps.
            None => RandomState::new().hash_one(std::process::id()),
        })
    }

    pub(crate) fn register_merging(&self, structure: Weak<dyn MergingStructure>) {
        let mut all = self.merging.lock();
        all.retain(|one| one.strong_count() > 0);
        all.push(structure);
        drop(all);
        self.merger.notify();
    }

    pub(crate) fn merging(&self) -> Vec<Arc<dyn MergingStructure>> {
        let all = self.merging.lock();
        all.iter().filter_map(Weak::upgrade).collect()
    }

    /// Whether records that come in should displace others: a little below the cap, so that the pages
    /// which the ageing frees are there for leaves in which all is in use.
    pub fn is_full(&self) -> bool {
        let cap = self.store.hot_cap();
        self.store.hot_frames() + cap / 256 + (cap / 16 + 2).min(10) >= cap
    }

    /// Whether a leaf in which all is in use may split, although the tier is full. It stops well
    /// before records must go, or it would be reads that make the sweep throw others out.
    pub(crate) fn has_spare(&self) -> bool {
        let cap = self.store.hot_cap();
        self.store.hot_frames() + cap / 512 + (cap / 32 + 2).min(4) < cap
    }

    /// Whether the sweep must let records go.
    pub(crate) fn over_cap(&self) -> bool {
        let cap = self.store.hot_cap();
        self.store.hot_frames() + cap / 1024 + 1 >= cap
    }

    /// Makes room in the hot class; the caller holds nothing. `waits` is how long that may take where what is
    /// let go has to wait for room below.
    pub(crate) fn help(&self, space: Space, waits: &mut Waits) -> Result<()> {
        let all = self.hot.len();
        if all == 0 {
            return Ok(());
        }
        self.wake_demoter();
        let _because = Cause::Demotion.begin();
        let (mut idle, mut gone) = (0, 0);
        let mut failed = None;
        for _ in 0..self.hot.leaves_of_help() {
            let Some(tier) = self.hot.next() else {
                break;
            };
            let caught_up = tier.catch_up(space, waits);
            match caught_up.and_then(|()| tier.evict_step(space)) {
                Ok(Some(records)) => gone += records,
                Ok(None) => idle += 1,
                // One page that cannot be read must not stop those who have nothing to do with it.
                Err(e) if e.is_unreadable() => {
                    idle += 1;
                    failed = Some(e);
                }
                Err(e) => return Err(e),
            }
            if !self.over_cap() || idle > all || gone >= HELP_RECORDS {
                break;
            }
        }
        match failed {
            Some(e) if gone == 0 => Err(e),
            _ => Ok(()),
        }
    }

    /// One step of dividing the memory between hot records and cold pages by the misses of both, for
    /// those who do without the background thread.
    pub fn adapt_share(&self) {
        self.share.adapt(&self.store);
        self.index_share.adapt(&self.store);
    }

    /// What was learnt of how the memory is best divided, for [`TierContext::recall`] after the next
    /// opening: it takes several accesses to each record to learn it.
    pub fn learnt(&self) -> [u8; LEARNT_BYTES] {
        let mut bytes = [0; LEARNT_BYTES];
        bytes[SHARE_AT].copy_from_slice(&(self.store.hot_share() as u16).to_le_bytes());
        let inner = self.store.inner_kept().unwrap_or(0);
        bytes[INNER_AT].copy_from_slice(&inner.to_le_bytes());
        bytes
    }

    /// Begins with what was learnt before, as far as the memory of today allows. Any bytes will do.
    pub fn recall(&self, bytes: &[u8; LEARNT_BYTES]) {
        let number = |at: Range<usize>| {
            let bytes = bytes[at].iter().rev();
            bytes.fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        self.share.recall(&self.store, number(SHARE_AT) as u32);
        self.index_share.recall(&self.store, number(INNER_AT));
    }

    /// One round of what the threads in the background do, for those who do without them: free space
    /// on disk for promotions, which do not wait for it, ageing, tombstones, dividing the memory, and
    /// room if it is short. Bounded; the caller holds nothing.
    ///
    /// # Errors
    /// Those of the store.
    pub fn tend(&self) -> Result<()> {
        drop(self.store.enter()?);
        for tier in self.hot.all() {
            match tier.age().and_then(|()| tier.purge(false)) {
                Ok(_) => {}
                Err(e) if e.is_unreadable() => {}
                Err(e) => return Err(e),
            }
        }
        for structure in self.merging() {
            match structure
                .merge()
                .and_then(|()| structure.purge_below(false))
            {
                Ok(_) => {}
                Err(e) if e.is_unreadable() => {}
                Err(e) => return Err(e),
            }
        }
        self.adapt_share();
        if self.over_cap() && !self.store.saves_enough() {
            self.help(Space::Migration, &mut Waits::in_background())?;
        }
        Ok(())
    }

    /// Wakes the background demotion.
    pub(crate) fn wake_demoter(&self) {
        let mut wake = self.wake.0.lock();
        if !*wake {
            *wake = true;
            self.wake.1.notify_one();
        }
    }

    /// Settles the retry of an attempt on some structure: what the store can do, and room in the
    /// hot class. The caller holds nothing.
    pub(crate) fn settle(&self, interrupt: Retry) -> Result<()> {
        self.share.note_for_records(&interrupt);
        self.settle_noted(interrupt)
    }

    /// The same for a caller that hot records do not help: a scan, a structure with one tier.
    pub(crate) fn settle_for_pages(&self, interrupt: Retry) -> Result<()> {
        self.share.note_for_pages(&interrupt, &self.store);
        self.settle_noted(interrupt)
    }

    /// The same for work that comes once and has no use for more memory: a compaction, a survey, a drop. If it
    /// counted, records would have to go for it, and come back.
    pub(crate) fn settle_uncounted(&self, interrupt: Retry) -> Result<()> {
        self.settle_noted(interrupt)
    }

    /// As [`TierContext::settle_for_pages`], for a scan, which reads ahead.
    pub(crate) fn settle_for_scan(&self, interrupt: Retry) -> Result<()> {
        self.share.note_for_pages(&interrupt, &self.store);
        match interrupt {
            miss @ Retry::Miss(_) => self.store.settle_in_order(miss),
            other => self.settle_noted(other),
        }
    }

    /// A record was not in memory, whose page is brought in otherwise than where a retry is settled.
    pub fn note_missed(&self, page: PageId) {
        self.share.note_for_records(&Retry::Miss(page));
    }

    /// The same for a caller that hot records do not help.
    pub fn note_missed_page(&self, page: PageId) {
        self.share.note_for_pages(&Retry::Miss(page), &self.store);
    }

    fn settle_noted(&self, interrupt: Retry) -> Result<()> {
        match interrupt {
            Retry::HotFull => self.help(Space::Migration, &mut Waits::of_a_change()),
            other => self.store.settle(other),
        }
    }

    /// As [`TierContext::settle`], for an operation that may reach so deep into the free space: what a
    /// delete needs to get through may use what is kept for deletes.
    pub(crate) fn settle_for(
        &self,
        interrupt: Retry,
        space: Space,
        waits: &mut Waits,
    ) -> Result<()> {
        match (interrupt, space) {
            (Retry::HotFull, Space::Reserve) => self.help(Space::Reserve, waits),
            (full @ Retry::HotFull, _) => {
                self.share.note_for_records(&full);
                self.help(Space::Migration, waits)
            }
            (interrupt, _) => self.settle(interrupt),
        }
    }

    /// Settles a retry by `settle`. Where that fails because the page that was missed cannot be read,
    /// and `without` says that the next attempt does without it, there is no error: a page that might have
    /// had room is no bar to a record that goes elsewhere.
    pub(crate) fn settle_or(
        interrupt: Retry,
        settle: impl FnOnce(Retry) -> Result<()>,
        without: impl FnOnce(PageId) -> bool,
    ) -> Result<()> {
        let missed = match interrupt {
            Retry::Miss(page) => Some(page),
            _ => None,
        };
        match settle(interrupt) {
            Err(e) if e.is_unreadable() && missed.is_some_and(without) => Ok(()),
            settled => settled,
        }
    }

    /// Two windows without limit, with values, to work with; their buffers are kept for the next one.
    pub(crate) fn with_windows<T>(&self, f: impl FnOnce(&mut Window, &mut Window) -> T) -> T {
        // By thread: what another core has filled would have to come from there, line by line.
        let scratch = &self.scratch[thread_number() % SCRATCHES].0;
        let (mut a, mut b) = scratch.lock().take().unwrap_or_default();
        for window in [&mut a, &mut b] {
            window.set_limit(usize::MAX);
            window.set_keys_only(false);
        }
        let result = f(&mut a, &mut b);
        // Those that a leaf of long records made large are not kept: they are memory beside what is given to pages.
        if a.memory_bytes() + b.memory_bytes() <= MOST_KEPT {
            *scratch.lock() = Some((a, b));
        }
        result
    }

    /// So many bytes became dirty in a hot tier that lies in memory alone. The caller is inside the gate. O(1).
    #[inline]
    pub(crate) fn count_fresh(&self, bytes: usize) {
        let pages = self.whole_slots(&self.fresh, bytes);
        if pages > 0 {
            self.store.add_fresh(pages);
        }
    }

    /// So many are dirty there no more. The caller is inside the gate. O(1).
    pub(crate) fn count_settled(&self, bytes: usize) {
        let pages = self.whole_slots(&self.settled, bytes);
        if pages > 0 {
            self.store.take_dirty(pages);
        }
    }

    /// Adds so many bytes of dirty records to what this thread has counted, and tells how many slots more they fill.
    fn whole_slots(&self, counted: &[Fresh; SCRATCHES], bytes: usize) -> u64 {
        let (bytes, page) = (bytes as u64, self.store.page_bytes() as u64);
        let bytes = bytes + bytes / SAVED_SPARE_PART;
        let Fresh(mine) = &counted[thread_number() % SCRATCHES];
        let before = mine.fetch_add(bytes, Ordering::Relaxed);
        (before + bytes) / page - before / page
    }

    /// Slots that so many bytes of dirty records take at most once they are saved, of one structure.
    pub fn saved_slots(&self, bytes: u64) -> u64 {
        let page = self.store.page_bytes() as u64;
        (bytes + bytes / SAVED_SPARE_PART).div_ceil(page) + FIRST_PAGES
    }

    /// Bytes that were found dirty in all hot tiers that lie in memory alone, each time that they were saved.
    pub fn saved_bytes(&self) -> u64 {
        self.saved_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of the counters of accesses to cold records.
    pub fn sketch_bytes(&self) -> usize {
        self.sketch.memory_bytes()
    }

    /// Bytes used beside the page store: lock table, counters, scratch windows.
    pub fn memory_bytes(&self) -> usize {
        let bytes = |scratch: &Scratch| {
            let kept = scratch.0.lock();
            let windows = kept.as_ref();
            windows.map_or(0, |(a, b)| a.memory_bytes() + b.memory_bytes())
        };
        self.locks.memory_bytes()
            + self.sketch.memory_bytes()
            + self.scratch.iter().map(bytes).sum::<usize>()
    }
}

/// Checks a key and a value against the limits.
pub(crate) fn check_limits(page_bytes: usize, key: &[u8], value: &[u8]) -> Result<()> {
    use terrace_base::{MAX_VALUE_BYTES, max_key_bytes};
    /// With pages of any size.
    const ALWAYS_FITS: usize = max_key_bytes(terrace_pages::PAGE_SIZES[0]);
    let limit = max_key_bytes(page_bytes);
    if key.len() > ALWAYS_FITS && key.len() > limit {
        return Err(Error::KeyTooLong {
            len: key.len(),
            limit,
        });
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong {
            len: value.len(),
            limit: MAX_VALUE_BYTES,
        });
    }
    Ok(())
}
