//! In which frames buckets were when a lookup last found them, so that lookups can go straight there.
//!
//! The way through the directory is a chain of four places in memory, each of which is known only when
//! the one before has come: the directory's entry, the word of the page table, the page, the record. A
//! place of this list takes only the hash. It may say anything: a page that is in that frame under that
//! number, that says it is a bucket of this table and covers the hash, is the right one, because a bucket
//! that is given up is no page any more, and no two buckets of a table cover the same hash at a time.

use std::sync::{Arc, OnceLock};

use terrace_base::PageId;
use terrace_pages::PageStore;
// Hints, which no protocol leans on: real atomics under the model checker, too.
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Lists that there may be, each four times as long as the one before; a table that grows goes on to the
/// next, and all before take a third of it together.
const LISTS: usize = 12;
/// Places in the first.
const FIRST: u64 = 64;
/// Bytes of a place.
const PLACE_BYTES: u64 = size_of::<AtomicU64>() as u64;

/// Of a place the upper half is the frame, the lower one the page's number; zero is none.
type Lists = [OnceLock<Box<[AtomicU64]>>; LISTS];

/// A list of frames, by hash, in which lookups look first.
pub(crate) struct FrameCache {
    store: Arc<PageStore>,
    /// Made when the first bucket is found, because most tables of thousands are not in use.
    lists: OnceLock<Box<Lists>>,
    /// One more than the number of the list that is used; 0 for none.
    used: AtomicUsize,
}

impl FrameCache {
    pub fn new(store: &Arc<PageStore>) -> FrameCache {
        FrameCache {
            store: store.clone(),
            lists: OnceLock::new(),
            used: AtomicUsize::new(0),
        }
    }

    #[inline]
    fn list(&self) -> Option<&[AtomicU64]> {
        let used = self.used.load(Ordering::Acquire);
        let list = self.lists.get()?.get(used.wrapping_sub(1))?;
        list.get().map(|list| &**list)
    }

    /// The place of a hash: neighbours are those of one bucket.
    #[inline]
    fn place(list: &[AtomicU64], hash: u64) -> Option<&AtomicU64> {
        list.get(((u128::from(hash) * list.len() as u128) >> 64) as usize)
    }

    /// The frame and number of the bucket that was found last near this hash.
    #[inline]
    pub fn get(&self, hash: u64) -> Option<(u32, PageId)> {
        let place = FrameCache::place(self.list()?, hash)?.load(Ordering::Relaxed);
        (place != 0).then_some(((place >> 32) as u32, PageId(place & u64::from(u32::MAX))))
    }

    /// Remembers where the bucket of this hash is, in a table of `buckets` buckets. O(1), but for a longer list now
    /// and then.
    pub fn note(&self, hash: u64, frame: u32, pid: PageId, buckets: u64) {
        let Ok(number) = u32::try_from(pid.0) else {
            return;
        };
        // More than are in memory need none.
        let wanted = buckets.min(self.store.frames());
        let used = self.used.load(Ordering::Relaxed);
        let longest = |used: usize| FIRST << (2 * used.saturating_sub(1));
        if used < LISTS && (used == 0 || longest(used) < wanted) {
            self.lengthen(used, longest(used + 1));
        }
        if let Some(place) = self.list().and_then(|list| FrameCache::place(list, hash)) {
            let word = u64::from(frame) << 32 | u64::from(number);
            // Others may be reading the line.
            if place.load(Ordering::Relaxed) != word {
                place.store(word, Ordering::Relaxed);
            }
        }
    }

    /// Goes on to the next list, if there is memory for it.
    #[cold]
    fn lengthen(&self, used: usize, places: u64) {
        let is_made = |lists: &Lists| lists[used].get().is_some();
        if !self.lists.get().is_some_and(|lists| is_made(lists)) {
            let bytes = places * PLACE_BYTES;
            if !self.store.take_hint_bytes(bytes) {
                return;
            }
            let list = (0..places).map(|_| AtomicU64::new(0)).collect();
            let lists = self.lists.get_or_init(Box::default);
            if lists[used].set(list).is_err() {
                // Another thread was sooner.
                self.store.give_hint_bytes(bytes);
            }
        }
        self.used.fetch_max(used + 1, Ordering::Release);
    }
}

impl Drop for FrameCache {
    fn drop(&mut self) {
        let lists = self.lists.get().into_iter().flat_map(|lists| lists.iter());
        let places = lists.filter_map(OnceLock::get);
        let places: usize = places.map(|list| list.len()).sum();
        self.store.give_hint_bytes(places as u64 * PLACE_BYTES);
    }
}
