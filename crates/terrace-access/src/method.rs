//! The traits: what every access method can do, what an ordered one can, what a sweep needs.
//!
//! All functions here are *attempts* (see [`Interrupt`](crate::Interrupt)): they hold nothing when
//! they return, wait for nothing but a latch while they run, and may have to be started over. An
//! attempt that was interrupted has not changed any record (it may have split a page).

use terrace_base::{PageId, Result};
use terrace_pages::Space;

use crate::{Attempt, Door, Edge, Flags, Found, MergeFigures, RecordPage, Value, Window};

/// What a lookup does to the use count of the record it finds: a hint, never a change of the page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Touch {
    /// Leaves it.
    No,
    /// Raises it by one, up to [`Flags::MAX_USE`].
    Raise,
}

/// What to do with a key once its place is found and latched.
#[derive(Clone, Copy, Debug)]
pub enum Plan<'v> {
    /// Leave everything as it is.
    Keep,
    /// Store this value (insert or replace) with these flags.
    Put(Value<'v>, Flags),
    /// Remove the record.
    Erase,
    /// Keep the value, set the flags.
    Flags(Flags),
}

/// What an edit found and did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Applied {
    /// The record that was there before, if any. Its large value, if it had one and was replaced or
    /// erased, now belongs to the caller.
    pub before: Option<(Flags, Option<crate::LargeRef>)>,
    /// Whether anything was changed.
    pub changed: bool,
}

/// Makes room in a full page of records before it is split: the hot tier drops a victim here.
pub trait Room {
    /// Tries to shrink `page`, so that `needed` more bytes fit; the key `keep` must stay. Returns
    /// whether it removed anything. Takes locks only by trying.
    fn make(&mut self, page: &mut dyn RecordPage, needed: usize, keep: &[u8]) -> Attempt<bool>;

    /// Whether records are being put in the order of their positions, so that few will soon come
    /// below this one: pages down there may be filled to the end. A hint.
    fn rises(&self) -> bool {
        false
    }
}

/// Never makes room: the page is split.
pub struct NoRoom;

impl Room for NoRoom {
    fn make(&mut self, _: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        Ok(false)
    }
}

/// Never makes room, as [`NoRoom`], where records come in the order of their positions.
pub struct Rising;

impl Room for Rising {
    fn make(&mut self, _: &mut dyn RecordPage, _: usize, _: &[u8]) -> Attempt<bool> {
        Ok(false)
    }

    fn rises(&self) -> bool {
        true
    }
}

/// One tier: records found by key.
pub trait AccessMethod: Send + Sync {
    /// Whether a change is made without looking for what was there before: then an edit knows of a record
    /// only if it is where changes are gathered, and erases by a mark, whether there is anything to erase or
    /// not. A large value that is replaced further below is freed by the method itself.
    const BLIND: bool = false;

    /// Looks `key` up; on a hit `value` is replaced by the inline value.
    fn try_get(&self, key: &[u8], touch: Touch, value: &mut Vec<u8>) -> Attempt<Option<Found>>;

    /// Finds the place of `key` and latches it exclusively, asks `plan` what to do with the record
    /// found there (or none), assures room (asking `room`, then splitting), calls `commit` once,
    /// and makes the change, which then cannot fail.
    ///
    /// `plan` may be asked more than once; it gets flags, inline value and large reference of the
    /// record. `commit` is called exactly when something is about to change.
    fn try_edit<'v>(
        &self,
        door: &Door<'_>,
        key: &[u8],
        plan: &mut dyn FnMut(Option<(Flags, Value<'_>)>) -> Attempt<Plan<'v>>,
        room: &mut dyn Room,
        commit: &mut dyn FnMut() -> Attempt<()>,
    ) -> Attempt<Applied>;

    /// Removes every record and every page but those that it was made of, in bounded steps: returns
    /// whether more is left to do.
    fn try_clear_step(&self, door: &Door<'_>) -> Attempt<bool>;

    /// Does a bounded part of the work that earlier changes have left behind, if it has come to too much.
    /// To be called before changes are made; `space` is that of the change, and `bytes` about how long its
    /// records are. Returns whether [`AccessMethod::tend`] has something to do. By default there is nothing.
    /// Blocking; the caller holds nothing.
    fn catch_up(&self, space: Space, bytes: usize) -> Result<bool> {
        let _ = (space, bytes);
        Ok(false)
    }

    /// Whether [`AccessMethod::catch_up`] has something to do.
    fn is_behind(&self) -> bool {
        false
    }

    /// Does some of that work ahead of need. For threads in the background; bounded; blocking.
    fn tend(&self) -> Result<()> {
        Ok(())
    }

    /// Goes on to take marks of deletions to where they have done their work, or begins to, if they are many
    /// or, with `waited`, if there are any; whether more is to do. Bounded; blocking.
    fn bury(&self, waited: bool) -> Result<bool> {
        let _ = waited;
        Ok(false)
    }

    /// What merging has come to, of a method that does. By default nothing.
    fn merge_figures(&self) -> Option<MergeFigures> {
        None
    }

    /// Takes what lies above other records from this key on to where it rests, in one step, for who wants as
    /// few pages as possible; returns where to go on. By default there is nothing above. Blocking.
    fn settle_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = from;
        Ok(None)
    }

    /// A page that an attempt missed cannot be read. Whether the next one will do without: it was wanted
    /// only for the room that there might be, or made. By default every page is needed.
    fn do_without(&self, page: PageId) -> bool {
        let _ = page;
        false
    }

    /// Walks everything and checks every invariant of the structure; calls `each` with every record
    /// and `page` with the number of every page that belongs to it (overflow chains included).
    /// The caller lets nobody else change the structure meanwhile. Blocking.
    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(terrace_base::PageId) -> Result<()>,
    ) -> Result<()>;
}

/// Records in the method's own order, which is that of their *positions* as byte strings: for a tree
/// the position of a record is its key, for a hash table the hash of the key and then the key.
///
/// Windows and edges speak of positions alone. So whatever the order is, a page of records covers
/// one range of positions, and two tiers with the same order are merged window by window.
pub trait Ordered: AccessMethod {
    /// Bytes of a position that come before the key.
    const POSITION_PREFIX: usize = 0;

    /// Whether it can be gone through in the order of positions. Where it cannot, a position is a range
    /// by itself, and whoever asks for a window of records gets an error.
    const SCANS: bool = true;

    /// Whether an index leads to the records, which lie on other pages than its leaves: so in a heap. The
    /// leaves that lead to a record of a lower tier are of no use as soon as it is found above.
    const INDEXED: bool = false;

    /// The position of a key; `place` is where it is put together, if it has to be. Two tiers of one
    /// structure agree on it.
    ///
    /// # Errors
    /// `Miss` when the page that says what the order is has to be read first.
    #[inline]
    fn try_position<'a>(&self, key: &'a [u8], place: &'a mut Vec<u8>) -> Attempt<&'a [u8]> {
        let _ = place;
        Ok(key)
    }

    /// The key of the record at a position.
    #[inline]
    fn key_at(position: &[u8]) -> &[u8] {
        position.get(Self::POSITION_PREFIX..).unwrap_or_default()
    }

    /// A page of records at random: one over the probability with which it was chosen, and a
    /// position that it covers. For estimates.
    ///
    /// # Errors
    /// `Miss` when a page is not in memory.
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)>;

    /// One over the probability with which a page of records would be chosen by [`Ordered::try_random`], where
    /// that is known without reading it: on average it is the number of these pages.
    ///
    /// # Errors
    /// `Miss` when a page is not in memory.
    fn try_leaves(&self, _random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        Ok(None)
    }

    /// Copies the page of records at a position of [`Ordered::try_random`] into `window`.
    fn try_chosen(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_window(Edge::From(position), window)
    }

    /// Copies the leaf at `edge` under its shared latch into `window`, of its records at most as many
    /// as the window's limit allows: those next to the edge. (A method may copy all of it nevertheless.)
    fn try_window(&self, edge: Edge<'_>, window: &mut Window) -> Attempt<()>;

    /// Copies of the leaf at `edge` the fences, and those records whose flags `select` wants. For
    /// migration: it needs few records of a leaf, or none but the fences. (A method whose leaves are
    /// large may copy only as many as the window's limit allows, as in [`Ordered::try_window`].)
    fn try_window_if(
        &self,
        edge: Edge<'_>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()>;

    /// As [`Ordered::try_window_if`], of the leaf that covers `low` only what lies before `high`, too:
    /// the range of the window ends there. O(records between them) where a leaf can be searched.
    fn try_window_within(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        select: &mut dyn FnMut(Flags) -> bool,
        window: &mut Window,
    ) -> Attempt<()> {
        self.try_window_if(Edge::From(low), select, window)?;
        window.restrict(low, high);
        Ok(())
    }

    /// Copies of the leaf that covers the position nothing but its range.
    fn try_span(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_window_if(Edge::From(position), &mut |_| false, window)
    }

    /// As [`Ordered::try_span`], of the records that are likely to be in memory when the one at this
    /// position has just been read: by default those of its leaf. Where records lie outside of the
    /// leaves only few around it are.
    fn try_near(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_span(position, window)
    }

    /// Whether the leaf that `window` was copied from has still the same members (nothing inserted,
    /// erased, split or merged since; changes in place do not count).
    fn still_same(&self, window: &Window) -> bool;

    /// Makes sure that the leaf which covers the edge is in memory (`Miss` otherwise).
    fn try_reach(&self, edge: Edge<'_>) -> Attempt<()>;

    /// Makes sure that what a change at this position looks at is in memory (`Miss` otherwise): by default the
    /// leaf that covers it.
    fn try_reach_to_put(&self, position: &[u8]) -> Attempt<()> {
        self.try_reach(Edge::From(position))
    }

    /// [`Ordered::try_reach`] of the records of a window from `next` on, with the pages of those that are there;
    /// `next` is moved behind those that were reached. O(records + pages).
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        while *next < run.len() {
            self.try_reach(Edge::From(run.key(*next)))?;
            *next += 1;
        }
        Ok(())
    }

    /// Records have been put from the position `from` up to `to`, in order, and few will soon come among
    /// them: closes up the pages of this range, so that they are full. Best effort, of a bounded number
    /// of pages that are in memory; returns where to go on. By default nothing. O(records of these
    /// pages).
    fn try_close_up(
        &self,
        door: &Door<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        let _ = (door, from, to);
        Ok(None)
    }

    /// Moves records of the page that covers this position to the one before it, as long as that has no more
    /// than `fill` of its room taken, and frees what becomes empty: for who goes through all pages to have
    /// fewer of them. By default nothing. O(records of both).
    fn try_compact(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        let _ = (door, position, fill);
        Ok(())
    }

    /// Makes the method say what the window says of the first of these records (numbers in the window, in
    /// ascending order): as [`AccessMethod::try_edit`] of each with [`Rising`] does, by [`Plan::Erase`]
    /// for those that are deleted and [`Plan::Put`] without flags for others. Returns of how many. It ends
    /// at the first for which that takes more than the page of records that covers the first key: room,
    /// or a large value here or there. So 0, as by default, means to do without it, and what went wrong is
    /// told by `try_edit` of the next one. O(log n + records of the page + records put).
    fn put_run(&self, door: &Door<'_>, window: &Window, which: &[usize]) -> usize {
        let _ = (door, window, which);
        0
    }

    /// Like [`Ordered::try_window`] but keeps the shared latch while `inside` runs: the slow path of
    /// a scan over two tiers, over resident pages only.
    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()>;

    /// Begins to go through all records in the order in which they lie in storage, for a method
    /// where that is another one than that of positions. `None` where it is not, as by default, and
    /// when as many are at work as there may be.
    fn begin_stored(&self) -> Option<StoredScan> {
        None
    }

    /// Replaces the records in `window` by the next ones, in no order and with their positions; its
    /// bounds mean nothing. There may be none although more follow; false after the last. A record
    /// that is there all the while, from before the first call on, comes once, however it moves;
    /// what comes or goes meanwhile comes at most once.
    ///
    /// # Errors
    /// `Miss` when a page is not in memory; `Fail` when the scan has ended, or cannot go on.
    fn try_stored(&self, scan: &StoredScan, window: &mut Window) -> Attempt<bool> {
        let _ = scan;
        window.clear();
        Ok(false)
    }

    /// Ends it, at the end or before: as long as it is at work, rows find less room.
    fn end_stored(&self, scan: &StoredScan) {
        let _ = scan;
    }
}

/// A scan of all records in the order of storage; see [`Ordered::begin_stored`].
#[derive(Debug)]
pub struct StoredScan(pub usize);

/// Where the next page of records is listed, for [`Sweep::try_collect_stored`]: a page and the number of
/// an entry there. A hint; what is no longer there is skipped.
pub type StoragePlace = Option<(PageId, usize)>;

/// What the background sweep of a hot tier needs; `position` names a page of records in sweep order
/// (for a tree, a key that the leaf covers): any position that the page covers.
pub trait Sweep: Ordered {
    /// Copies the page of records at `position` and returns the position of the next one, `None`
    /// after the last.
    fn try_collect(&self, position: &[u8], window: &mut Window) -> Attempt<Option<Vec<u8>>> {
        self.try_window(Edge::From(position), window)?;
        Ok(window.high.clone())
    }

    /// Latches the page of records at `position` exclusively and lets `edit` change it.
    fn try_visit(
        &self,
        door: &Door<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()>;

    /// For a method whose records lie in storage in another order than that of their positions:
    /// replaces `positions` by those of the records on one page of storage. `place` is where that
    /// page is listed, and moves on; `None` is before the first page and, again, after the last.
    /// Returns false, as by default, when there is no such order. For comparing sweeps.
    fn try_collect_stored(
        &self,
        place: &mut StoragePlace,
        positions: &mut Vec<Vec<u8>>,
    ) -> Attempt<bool> {
        let _ = (place, positions);
        Ok(false)
    }

    /// Packs the page at `position` into its predecessor as far as that one's fill stays at most
    /// `fill`; frees it when it became empty. Returns whether a page was freed.
    fn try_pack(&self, door: &Door<'_>, position: &[u8], fill: f64) -> Attempt<bool>;

    /// Whether what a record leaves is room for any other, wherever that lies in the order: so in a
    /// heap. Else it is room for the other records of the same page alone.
    const SHARES_ROOM: bool = false;

    /// Frees pages, some at most, if the room that records have left in others would hold what is on
    /// them. For those who share room; others have nothing to gather.
    fn try_gather(&self, door: &Door<'_>) -> Attempt<()> {
        let _ = door;
        Ok(())
    }
}
