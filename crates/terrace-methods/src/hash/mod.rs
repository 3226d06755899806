//! The hash table: records in buckets, found by the top bits of a keyed hash.
//!
//! A bucket is a page, with overflow pages where it must be, and holds one stretch of the order of
//! hashes: a run of neighbouring grains, of which the directory has one entry each (see `directory`).
//! A full bucket gives a part of its grains to a new one, whichever bucket it is: the table grows one
//! bucket at a time, where the records come, and the directory one grain at a time, at its end. Only
//! a bucket of a single grain gets an overflow page, and one that cannot be split because a page of the
//! directory cannot be read.
//!
//! Invariants:
//! * The root keeps its page number. It says how the hash and the grains are, and holds the
//!   directory, or the top of it.
//! * The grains of a bucket are neighbours, and the buckets tile all hashes. As long as there is no
//!   record yet there is no bucket, and one grain.
//! * A bucket is changed only under the exclusive latch of its first page; which bucket a grain
//!   belongs to only under that of the root, and those of the buckets concerned, too.
//! * The membership counter of a bucket's first page changes whenever a record comes, goes or moves
//!   to another bucket; a new bucket starts at a number of its own.

mod apart;
mod bucket;
mod claim;
mod clear;
mod contract;
mod cut;
mod directory;
mod edit;
mod find;
mod grow;
mod image;
mod known;
mod layout;
mod put;
mod rooted;
mod run;
mod secret;
mod spill;
mod split;
mod sweep;
mod verify;
mod window;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

use terrace_access::{
    AccessMethod, Applied, Attempt, Door, Edge, Flags, Found, InStorage, Interrupt, Neighbours,
    Ordered, Plan, RecordPage, Room, Runs, Sampled, Sweep, Touch, Value, Window,
};
use terrace_base::sync::{Mutex, spin_loop};
use terrace_base::{Error, PageId, Result};
use terrace_pages::{Class, PageStore};

pub use crate::btree::layout::max_inline;
pub use apart::Apart;
pub use secret::Secret;
pub use verify::verify_page;

use crate::fault::{self, Fault, Point};
use crate::unreadable::Unreadable;
use find::{PATIENCE, Way, root_of, sound};
use known::Known;
use layout::{Page, Slot, Stored, table_of};

/// Bytes of a position in front of the key: the hash, highest byte first.
pub const HASH_BYTES: usize = 8;
/// An odd number far from all small ones, so that the counters of new buckets spread.
const STRIDE: u32 = 0x9E37_79B1;

/// A hash table in a page store. See the module's text.
pub struct HashTable {
    store: Arc<PageStore>,
    root: PageId,
    tier: Class,
    /// Read from the root when it is first needed.
    secret: OnceLock<Secret>,
    /// Membership counter of the next new bucket.
    births: AtomicU32,
    /// See [`HashTable::as_upper_tier`].
    copies: bool,
    /// Pages to do without when a bucket is to be split.
    spared: Mutex<Unreadable>,
    known: Known,
}

impl HashTable {
    /// Makes an empty table: one page, the root, whose number is to be kept. `tier` is
    /// [`Class::Cold`] or [`Class::Hot`]. O(page).
    ///
    /// # Errors
    /// Those of [`PageStore::allocate`].
    pub fn create(
        store: &Arc<PageStore>,
        door: &Door<'_>,
        tier: Class,
        secret: Secret,
    ) -> Attempt<HashTable> {
        let class = if tier == Class::Hot {
            Class::Hot
        } else {
            Class::Inner
        };
        let mut page = store.allocate(door, class)?;
        directory::write_root(&mut page, store.page_bytes(), secret, STRIDE)?;
        let root = page.pid();
        drop(page);
        Ok(HashTable::open(store.clone(), root, tier))
    }

    /// The table with this root. Reads nothing. O(1).
    pub fn open(store: Arc<PageStore>, root: PageId, tier: Class) -> HashTable {
        // Pages that an earlier run of the program made have counters that were given out from
        // another start; nobody holds a window from then.
        HashTable {
            known: Known::new(&store),
            store,
            root,
            tier,
            secret: OnceLock::new(),
            births: AtomicU32::new(STRIDE.wrapping_mul(root.0 as u32 | 1)),
            copies: false,
            spared: Mutex::default(),
        }
    }

    /// The table as an upper tier: a clean record is a copy of one in the tier below, and the chain
    /// of its large value belongs to that one. (Clearing and verifying need to know.)
    pub fn as_upper_tier(self) -> HashTable {
        HashTable {
            copies: true,
            ..self
        }
    }

    /// What the table's buckets name it.
    pub(crate) fn table(&self) -> u32 {
        table_of(self.root)
    }

    /// Where the bucket of a key is said to be.
    #[cfg(test)]
    pub(crate) fn known_place(&self, key: &[u8]) -> Option<(u32, PageId)> {
        self.known.get(self.secret.get()?.hash(key))
    }

    /// Whether it is there.
    #[cfg(test)]
    pub(crate) fn goes_straight(&self, key: &[u8]) -> bool {
        let hash = self.secret.get().map(|secret| secret.hash(key));
        hash.is_some_and(|hash| self.known_way(hash).is_some())
    }

    /// Number of the root page; never changes.
    pub fn root(&self) -> PageId {
        self.root
    }

    /// The store that the table lies in.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// The secret of its hash.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory and the secret has not been read before.
    #[inline]
    pub fn try_secret(&self) -> Attempt<Secret> {
        match self.secret.get() {
            Some(secret) => Ok(*secret),
            None => self.read_secret(),
        }
    }

    #[cold]
    fn read_secret(&self) -> Attempt<Secret> {
        let root = self.store.shared(self.root)?;
        let secret = sound!(root, root_of!(root)?.secret())?;
        Ok(*self.secret.get_or_init(|| secret))
    }

    /// Number of buckets and of grains. For statistics: they may change at any time.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory.
    pub fn try_size(&self) -> Attempt<(u64, u64)> {
        let (grains, buckets) = self.size()?;
        Ok((buckets, grains.count()))
    }

    /// Gives the root page back; the table must be empty ([`AccessMethod::try_clear_step`] returned
    /// false), and nobody may use it any more.
    ///
    /// # Errors
    /// `Miss` when the root is not in memory; `Fail` when the table is not empty.
    pub fn try_free_root(&self, door: &Door<'_>) -> Attempt<()> {
        let page = self.store.exclusive(self.root, door)?;
        let root = root_of!(page)?;
        if root.height > 0
            || root.grains.count() > 1
            || !sound!(page, root.entries.get(0))?.is_none()
        {
            return Err(Error::invalid("only an empty hash table can be freed").into());
        }
        page.free();
        Ok(())
    }

    /// Whether the chain of a large value goes with a record of these flags.
    pub(crate) fn owns_chain(&self, flags: Flags) -> bool {
        !self.copies || flags.is_dirty()
    }

    /// A starting point for the membership counter of a new bucket.
    fn birth(&self) -> u32 {
        self.births.fetch_add(STRIDE, Ordering::Relaxed)
    }

    /// Class of the pages of the directory.
    fn directory_class(&self) -> Class {
        if self.tier == Class::Hot {
            Class::Hot
        } else {
            Class::Inner
        }
    }

    #[inline]
    fn get_once(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        let (first, page) = match self.known_way(hash) {
            Some(known) => known,
            None => match self.way(hash)? {
                Way::Bucket(first, page) => (first, page),
                Way::Empty(_) => {
                    value.clear();
                    return Ok(None);
                }
            },
        };
        fault::reached(Point::Reading);
        let Ok(found) = read(&page, secret, hash, key, value) else {
            return Err(first.torn(find::BAD_RECORD));
        };
        if !fault::planted(Fault::UnvalidatedBucket) {
            first.validate()?;
        }
        let Some((found, slot)) = found else {
            return self.overflow_optimistic(&first, (page.next, page.span), &mut |page, seen| {
                let Ok(found) = read(&seen, secret, hash, key, value) else {
                    return Err(page.torn(find::BAD_RECORD));
                };
                page.validate()?;
                first.validate()?;
                Ok(found.map(|(found, slot)| {
                    if touch == Touch::Raise {
                        page.hint(Page::slot_at(slot) + 2, raise);
                    }
                    found
                }))
            });
        };
        if touch == Touch::Raise
            && (found.flags.use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint))
        {
            first.hint(Page::slot_at(slot) + 2, raise);
        }
        Ok(Some(found))
    }

    /// After an attempt that failed.
    #[cold]
    fn get_again(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        for _ in 1..PATIENCE {
            spin_loop();
            match self.get_once(secret, hash, key, touch, value) {
                Err(Interrupt::Conflict) => {}
                other => return other,
            }
        }
        self.get_latched(secret, hash, key, touch, value)
    }

    fn get_latched(
        &self,
        secret: &Secret,
        hash: u64,
        key: &[u8],
        touch: Touch,
        value: &mut Vec<u8>,
    ) -> Attempt<Option<Found>> {
        value.clear();
        let (first, is_bucket) = self.bucket_shared(hash)?;
        if !is_bucket {
            return Ok(None);
        }
        let mut answer = None;
        let mut look = |page: &terrace_pages::Shared<'_>| -> Attempt<()> {
            if answer.is_none()
                && let Some((found, slot)) =
                    sound!(page, read(&find::page_of!(page)?, secret, hash, key, value))?
            {
                if touch == Touch::Raise {
                    page.hint(Page::slot_at(slot) + 2, raise);
                }
                answer = Some(found);
            }
            Ok(())
        };
        look(&first)?;
        self.overflow_shared(&first, &mut look)?;
        Ok(answer)
    }
}

/// One more use, unless there are as many as can be counted.
fn raise(word: u16) -> Option<u16> {
    let more =
        layout::flags_of(word).use_count() < Flags::MAX_USE || fault::planted(Fault::EndlessHint);
    more.then_some(word.wrapping_add(1))
}

/// Looks the key up in one page; also returns the slot.
#[inline]
fn read(
    page: &Page<'_>,
    secret: &Secret,
    hash: u64,
    key: &[u8],
    value: &mut Vec<u8>,
) -> layout::Seen<Option<(Found, usize)>> {
    value.clear();
    let found: Option<(usize, Slot, layout::Record)> = page.find(secret, hash, key)?;
    let Some((i, slot, record)) = found else {
        return Ok(None);
    };
    if let Stored::Inline { at, len } = record.value {
        page.view.append_to(at, len, value)?;
    }
    Ok(Some((
        Found {
            flags: slot.flags(),
            large: record.large(),
            depth: 0,
        },
        i,
    )))
}

/// The hash that a position begins with; what is missing of it counts as zero.
fn hash_at(position: &[u8]) -> u64 {
    let mut bytes = [0; HASH_BYTES];
    let len = position.len().min(HASH_BYTES);
    bytes[..len].copy_from_slice(&position[..len]);
    u64::from_be_bytes(bytes)
}

/// A hash whose bucket covers the positions at an edge.
fn hash_of_edge(edge: Edge<'_>) -> u64 {
    match edge {
        Edge::From(position) => hash_at(position),
        // The empty key has the lowest position of its hash: below it is the hash before.
        Edge::Below(position) if position.len() <= HASH_BYTES => {
            hash_at(position).saturating_sub(1)
        }
        Edge::Below(position) => hash_at(position),
        Edge::End => u64::MAX,
    }
}

impl AccessMethod for HashTable {
    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>> {
        let secret = &self.try_secret()?;
        let hash = secret.hash(key);
        match self.get_once(secret, hash, key, touch, value) {
            Err(Interrupt::Conflict) => self.get_again(secret, hash, key, touch, value),
            other => other,
        }
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
        self.spared.lock().note(page, false)
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

impl Ordered for HashTable {
    const POSITION_PREFIX: usize = HASH_BYTES;

    fn try_position<'a>(&self, key: &'a [u8], place: &'a mut Vec<u8>) -> Attempt<&'a [u8]> {
        let hash = self.try_secret()?.hash(key);
        place.clear();
        place.extend_from_slice(&hash.to_be_bytes());
        place.extend_from_slice(key);
        Ok(place)
    }

    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy_some(&page, is_bucket, edge, window)
    }

    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy(&page, is_bucket, select, window)
    }

    fn still_same(&self, window: &Window) -> bool {
        self.unchanged(window)
    }

    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        if is_bucket {
            self.overflow_shared(&page, &mut |_| Ok(()))?;
        }
        Ok(())
    }

    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()> {
        let (page, is_bucket) = self.bucket_shared(hash_of_edge(edge))?;
        self.copy_some(&page, is_bucket, edge, window)?;
        inside(window)
    }
}

impl Sampled for HashTable {
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)> {
        let hash = u64::from(random()) << 32 | u64::from(random());
        let (page, is_bucket) = self.bucket_shared(hash)?;
        if !is_bucket {
            return Ok((1.0, Vec::new()));
        }
        let span = find::page_of!(page)?.span;
        let share = ((span.last - span.low) as f64 + 1.0) / (u64::MAX as f64 + 1.0);
        Ok((1.0 / share, hash.to_be_bytes().to_vec()))
    }
}

impl Runs for HashTable {
    fn put_run(&self, door: &Door<'_>, window: &Window, which: &[usize]) -> usize {
        self.put_records(door, window, which)
    }
}

impl Neighbours for HashTable {
    fn try_compact(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        self.compact(door, hash_at(position), fill)
    }

    fn try_close_up(
        &self,
        door: &Door<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        let next = self.close_up(door, hash_at(from))?;
        let next = next.map(|hash| hash.to_be_bytes().to_vec());
        Ok(next.filter(|next| to.is_none_or(|to| next.as_slice() < to)))
    }
}

impl InStorage for HashTable {}

impl Sweep for HashTable {
    fn try_visit(
        &self,
        door: &Door<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()> {
        self.visit(door, hash_at(position), edit)
    }

    fn try_pack(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<bool> {
        self.pack(door, hash_at(position), fill)
    }
}
