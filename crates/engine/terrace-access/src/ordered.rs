//! What a method with an order can do: a core, and capabilities beside it. Whoever can do no better leaves what
//! a capability does by default.
//!
//! Attempts, as in [`crate::AccessMethod`].

use terrace_base::PageId;

use crate::{AccessMethod, Attempt, Edge, Flags, RecordPage, Window, WriteGuard};

/// Records in the method's own order, which is that of their *positions* as byte strings: for a tree
/// the position of a record is its key, for a hash table the hash of the key and then the key.
///
/// Windows and edges speak of positions alone. So whatever the order is, a page of records covers
/// one range of positions, and two tiers with the same order are merged window by window.
pub trait Ordered: AccessMethod {
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
        position
            .get(Self::CAPABILITIES.position_prefix..)
            .unwrap_or_default()
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

    /// Like [`Ordered::try_window`] but keeps the shared latch while `inside` runs: the slow path of
    /// a scan over two tiers, over resident pages only.
    fn try_window_held(
        &self,
        edge: Edge<'_>,
        window: &mut Window,
        inside: &mut dyn FnMut(&mut Window) -> Attempt<()>,
    ) -> Attempt<()>;
}

/// Pages of records chosen at random: for estimates.
pub trait Sampled: Ordered {
    /// A page of records at random: one over the probability with which it was chosen, and a
    /// position that it covers. For estimates.
    ///
    /// # Errors
    /// `Miss` when a page is not in memory.
    fn try_random(&self, random: &mut dyn FnMut() -> u32) -> Attempt<(f64, Vec<u8>)>;

    /// One over the probability with which a page of records would be chosen by [`Sampled::try_random`], where
    /// that is known without reading it: on average it is the number of these pages.
    ///
    /// # Errors
    /// `Miss` when a page is not in memory.
    fn try_leaves(&self, _random: &mut dyn FnMut() -> u32) -> Attempt<Option<f64>> {
        Ok(None)
    }

    /// Copies the page of records at a position of [`Sampled::try_random`] into `window`.
    fn try_chosen(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_window(Edge::From(position), window)
    }
}

/// Many records of a window at once.
pub trait Runs: Ordered {
    /// [`Ordered::try_reach`] of the records of a window from `next` on, with the pages of those that are there;
    /// `next` is moved behind those that were reached. O(records + pages).
    fn try_reach_run(&self, run: &Window, next: &mut usize) -> Attempt<()> {
        while *next < run.len() {
            self.try_reach(Edge::From(run.key(*next)))?;
            *next += 1;
        }
        Ok(())
    }

    /// Makes the method say what the window says of the first of these records (numbers in the window, in
    /// ascending order): as [`AccessMethod::try_edit`] of each with [`crate::Rising`] does, by [`crate::Plan::Erase`]
    /// for those that are deleted and [`crate::Plan::Put`] without flags for others. Returns of how many. It ends
    /// at the first for which that takes more than the page of records that covers the first key: room,
    /// or a large value here or there. So 0, as by default, means to do without it, and what went wrong is
    /// told by `try_edit` of the next one. O(log n + records of the page + records put).
    fn put_run(&self, door: &WriteGuard<'_>, window: &Window, which: &[usize]) -> usize {
        let _ = (door, window, which);
        0
    }
}

/// Pages of records that lie side by side.
pub trait Neighbours: Ordered {
    /// As [`Ordered::try_span`], of the records that are likely to be in memory when the one at this
    /// position has just been read: by default those of its leaf. Where records lie outside of the
    /// leaves only few around it are.
    fn try_near(&self, position: &[u8], window: &mut Window) -> Attempt<()> {
        self.try_span(position, window)
    }

    /// Records have been put from the position `from` up to `to`, in order, and few will soon come among
    /// them: closes up the pages of this range, so that they are full. Best effort, of a bounded number
    /// of pages that are in memory; returns where to go on. By default nothing. O(records of these
    /// pages).
    fn try_close_up(
        &self,
        door: &WriteGuard<'_>,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Attempt<Option<Vec<u8>>> {
        let _ = (door, from, to);
        Ok(None)
    }

    /// Moves records of the page that covers this position to the one before it, as long as that has no more
    /// than `fill` of its room taken, and frees what becomes empty: for who goes through all pages to have
    /// fewer of them. By default nothing. O(records of both).
    fn try_compact(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<()> {
        let _ = (door, position, fill);
        Ok(())
    }
}

/// Another order than that of positions: the one in which records lie in storage.
pub trait InStorage: Ordered {
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

    /// Looks at the page of storage that is listed at `place`, moves its records to others if it has few, and
    /// frees it if it has none; for who goes through all of them to have fewer pages. `place` moves on; `None` is
    /// before the first page and, again, after the last. By default nothing. O(records of a page).
    ///
    /// # Errors
    /// `Miss` when a page is not in memory, and `Conflict` when others are at work on it: `place` stays.
    fn try_compact_stored(&self, door: &WriteGuard<'_>, place: &mut StoragePlace) -> Attempt<()> {
        let _ = door;
        *place = None;
        Ok(())
    }
}

/// A scan of all records in the order of storage; see [`InStorage::begin_stored`].
#[derive(Debug)]
pub struct StoredScan(pub usize);

/// Where the next page of records is listed, for [`Sweep::try_collect_stored`] and
/// [`InStorage::try_compact_stored`]: a page and the number of an entry there. A hint; what is no longer there is skipped.
pub type StoragePlace = Option<(PageId, usize)>;

/// What the background sweep of a hot tier needs; `position` names a page of records in sweep order
/// (for a tree, a key that the leaf covers): any position that the page covers.
pub trait Sweep: Ordered {
    /// Latches the page of records at `position` exclusively and lets `edit` change it.
    fn try_visit(
        &self,
        door: &WriteGuard<'_>,
        position: &[u8],
        edit: &mut dyn FnMut(&mut dyn RecordPage) -> Attempt<()>,
    ) -> Attempt<()>;

    /// Where the page of records behind the one at `position` begins, which itself cannot be read; `None` behind the
    /// last, and, as by default, where only that page says.
    fn try_behind(&self, position: &[u8]) -> Attempt<Option<Vec<u8>>> {
        let _ = position;
        Ok(None)
    }

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
    fn try_pack(&self, door: &WriteGuard<'_>, position: &[u8], fill: f64) -> Attempt<bool>;

    /// Frees pages, some at most, if the room that records have left in others would hold what is on
    /// them. For those who share room; others have nothing to gather.
    fn try_gather(&self, door: &WriteGuard<'_>) -> Attempt<()> {
        let _ = door;
        Ok(())
    }
}

/// Ranges cut out of a structure together with their pages, at once: where [`Capabilities::cuts`](crate::Capabilities::cuts)
/// says so.
///
/// No other thread may be at work on the structure, neither reading nor changing, from [`RangeDeletes::try_cut`] on
/// until what it has prepared is applied or dropped.
pub trait RangeDeletes: Ordered {
    /// Makes ready for [`RangeDeletes::try_cut`] what others need not be kept away for, and no other thread sees: by
    /// default nothing. What it has made ready others may undo as long as they are at work. It may read, and wait.
    ///
    /// # Errors
    /// Those of the store; then all is as it was.
    fn prepare_cut(&self, low: &[u8], high: Option<&[u8]>) -> terrace_base::Result<()> {
        let _ = (low, high);
        Ok(())
    }

    /// Prepares to take everything from `low` to before `high` out, after [`RangeDeletes::prepare_cut`] of it. Nothing is changed before [`PreparedDelete::apply`],
    /// and dropping it leaves everything as it was. With `part` what is taken out begins at a page of its own
    /// even if it has none. O(height) pages, however many there are between the two.
    ///
    /// # Errors
    /// `Miss` when a page at an edge of the range is not in memory; `Fail` where [`Capabilities::cuts`](crate::Capabilities::cuts) is false.
    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
        part: bool,
    ) -> Attempt<Box<dyn PreparedDelete + 'd>> {
        let _ = (door, low, high, part);
        Err(terrace_base::Error::invalid("this structure cannot take a range out").into())
    }

    /// Tidies up around both edges of a range that was taken out: pages with little in them are brought together.
    /// Best effort.
    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>) {
        let _ = (door, low, high);
    }
}

/// A range that is about to be taken out of a structure. It holds the latches of all pages that are changed.
pub trait PreparedDelete {
    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool;

    /// Where what is taken out begins: a structure of the same kind, to be cleared as one that was dropped
    /// ([`crate::Rooted::into_part`]). None where no page and no large value is left over.
    fn part(&self) -> Option<PageId>;

    /// Takes it out.
    ///
    /// # Errors
    /// None, unless a page is not what it was when this was prepared, under its latch.
    fn apply(self: Box<Self>) -> Attempt<()>;
}
