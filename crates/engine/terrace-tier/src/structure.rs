//! What the database sees of a structure, whether it has one tier or two.

use std::sync::Arc;

use terrace_access::{
    Attempt, Expiry, Flags, MergeFigures, StoragePlace, StoredScan, Value, Window, WriteGuard,
};
use terrace_base::{PageId, Result, StructureId};
use terrace_pages::Space;

use crate::Version;
use crate::events::TierStats;
use crate::severed::Severed;
use crate::watch::Watches;
use crate::write_reservation::WriteReservation;

/// One write, as an effect: no checks are left to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change<'a> {
    /// Store this value, whether the key was there or not.
    Put(&'a [u8]),
    /// Remove the key, whether it was there or not.
    Delete,
}

impl Change<'_> {
    /// Bytes of the key and the new value.
    pub(crate) fn bytes(&self, key: &[u8]) -> usize {
        match self {
            Change::Put(value) => key.len() + value.len(),
            Change::Delete => key.len(),
        }
    }

    /// Deletes may use the reserve of space: they are the way out of a full disk.
    pub fn space(&self) -> Space {
        match self {
            Change::Put(_) => Space::Ordinary,
            Change::Delete => Space::Reserve,
        }
    }
}

/// The pages at which a structure's tiers begin; kept in the catalog. They do not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Root of the hot tier, once there is one.
    pub hot: Option<PageId>,
    /// Root of the only tier, or of the cold one.
    pub cold: PageId,
}

/// What a write expects of its record.
#[derive(Clone, Copy)]
pub struct Expect<'a> {
    /// The version that its lock had when it was looked at.
    pub version: Version,
    /// The version that it has now, if the record is still the same: versions are shared with other
    /// records, so one that has moved need not mean that this one has. Asked while nothing is held.
    pub again: &'a dyn Fn() -> Result<Option<Version>>,
    /// What has to hold, too, under the lock; if it does not, it is as if the version had moved. It must not wait.
    pub holds: Option<&'a dyn Fn() -> bool>,
}

/// How a write has ended that did not fail.
#[derive(Clone, Debug)]
#[must_use = "nothing may have been written"]
pub enum Written {
    /// It is done.
    Done,
    /// The record is not as it was expected to be; nothing was done.
    NotAsExpected,
    /// Nothing was done: another thread claims what is to be written. Wait for it, holding nothing, and write again.
    Claimed(Arc<WriteReservation>),
}

impl Written {
    /// Whether it is done.
    pub fn is_done(&self) -> bool {
        matches!(self, Written::Done)
    }
}

impl Expect<'_> {
    /// Nothing but that the version is still the same.
    pub fn version(version: Version) -> Expect<'static> {
        Expect {
            version,
            again: &|| Ok(None),
            holds: None,
        }
    }
}

/// About how many records a structure has, and where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Estimate {
    /// Records that a reader finds.
    pub records: u64,
    /// Records of the hot tier, whether the cold one has them as well or not.
    pub hot: u64,
    /// Records of the cold tier, or of the only one.
    pub cold: u64,
}

/// What a step of saving does of what is dirty in memory alone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Saving {
    /// Saves what is dirty, and gives up what was saved and is not dirty any more.
    All,
    /// Gives up what is not dirty any more: right at any time, and makes room.
    WhatGoes,
}

/// What a look lacks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Missing {
    /// This page, on the way to the record.
    Page(PageId),
    /// Pages of the record's large value, which are read one behind the other, or what was saved of its range.
    Many,
}

/// A named structure of records, durable through the log that the database keeps.
///
/// Everything here blocks, and must be called while holding nothing unless said otherwise.
pub trait Structure: Send + Sync {
    /// Its number.
    fn id(&self) -> StructureId;

    /// The ranges of it that are watched, by key. Whoever changes records by
    /// [`Structure::apply_locked`] or [`Structure::apply_run_locked`] looks at them as the module
    /// `watch` says; [`Structure::write`] does so itself. Where the order is not that of the keys only all
    /// of it can be watched.
    fn watches(&self) -> &Watches;

    /// Looks `key` up; `value` is replaced by its value. Linearizable.
    fn get(&self, key: &[u8], value: &mut Vec<u8>) -> Result<bool> {
        self.get_versioned(key, value).map(|(found, _)| found)
    }

    /// [`Structure::get`] as far as it needs nothing that is on disk; the inner error is what it would have to read
    /// first. `missed` pages were brought in for this call before.
    fn get_or_miss(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        missed: u32,
    ) -> Result<std::result::Result<bool, Missing>>;

    /// [`Structure::get`], and the version of the record's lock that the answer belongs to: a
    /// [`Structure::write`] that expects it succeeds only if nothing has changed since.
    fn get_versioned(&self, key: &[u8], value: &mut Vec<u8>) -> Result<(bool, Version)> {
        loop {
            if let Some(answer) = self.get_while(key, value, &|| true)? {
                return Ok(answer);
            }
        }
    }

    /// [`Structure::get_versioned`], if `holds` says so of the instant to which the answer belongs; or else
    /// nothing, with anything in `value`. What held once and does not any more must not hold again. A large
    /// value is asked for at its first page: it does not matter what becomes of it, or of what holds, while
    /// the others are read.
    fn get_while(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        holds: &dyn Fn() -> bool,
    ) -> Result<Option<(bool, Version)>>;

    /// The value of a record whose lock the caller holds, inside the gate; nothing where that would take
    /// waiting: for a page, or for a value that has pages of its own.
    fn get_locked(&self, key: &[u8], value: &mut Vec<u8>) -> Result<Option<bool>>;

    /// Makes one change. `log` is called once, under the record's lock, when the change can no
    /// longer fail and before any reader can see it; it must not wait. With `expect` it does nothing when the record's
    /// lock has moved since that version, and the record is not as it was.
    fn try_write(
        &self,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        log: &mut dyn FnMut(),
    ) -> Result<Written>;

    /// [`Structure::try_write`] for who holds nothing that others may wait for: it waits for who claims the record.
    /// Returns whether it was done.
    fn write(
        &self,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        log: &mut dyn FnMut(),
    ) -> Result<bool> {
        loop {
            match self.try_write(key, change, expect, log)? {
                Written::Claimed(claim) => claim.wait(),
                written => return Ok(written.is_done()),
            }
        }
    }

    /// Brings into memory what this change of `key` will need; for batches, before they take a write guard.
    fn prefault(&self, key: &[u8], change: Change<'_>) -> Result<()>;

    /// Makes one change of a batch. The caller is inside the gate with `door`, holds the lock of
    /// the record, and has logged the batch. Waits inside if it must (a documented exception).
    fn apply_locked(&self, door: &WriteGuard<'_>, key: &[u8], change: Change<'_>) -> Result<()>;

    /// As [`Structure::prefault`], for [`Structure::apply_run_locked`]. Returns for how many of the first records
    /// it was done, at least one: fewer than all where they lie so far apart that many pages would have to be
    /// read.
    fn prefault_run(&self, run: &Window) -> Result<usize>;

    /// Makes the puts of a batch whose records are in ascending order of their positions, each once, and with
    /// their values inline however long they are: as [`Structure::apply_locked`] of each, but straight to
    /// where records rest. With two tiers that is the cold one, which reads and writes its pages; what the
    /// hot one had of them is gone afterwards. O(records + leaves).
    fn apply_run_locked(&self, door: &WriteGuard<'_>, run: &Window) -> Result<()>;

    /// Pages that a change makes dirty: those of its record, and one now and then above or beside them;
    /// `straight`: one by [`Structure::apply_run_locked`].
    fn dirty_each(&self, through: bool) -> u64;

    /// The position of a key in the order of the structure: the key itself where that is the order of
    /// the keys. Scans speak of positions (see [`terrace_access::Ordered`]).
    fn position(&self, key: &[u8]) -> Result<Vec<u8>>;

    /// Bytes of a position that come before the key.
    fn position_prefix(&self) -> usize;

    /// About how many live records there are, and where, from leaves taken at random. Reads a few
    /// dozen pages.
    fn estimate(&self) -> Result<Estimate>;

    /// Fills `window` with the live records from `from` on: those with `from <= position <
    /// window.high`, where `window.high` is `None` at the end. May be empty although more follow.
    /// Entries with a large value carry the reference; read them with [`Structure::get`].
    fn scan_up(&self, from: &[u8], window: &mut Window) -> Result<()>;

    /// Fills `window` with the live records just below `below` (`None`: below the end): those with
    /// `window.low <= position < below`, in ascending order. Done when `window.low` is empty.
    fn scan_down(&self, below: Option<&[u8]>, window: &mut Window) -> Result<()>;

    /// Begins to go through all live records in the order in which they lie, where that spares reads;
    /// see [`terrace_access::InStorage::begin_stored`].
    fn begin_stored(&self) -> Option<StoredScan> {
        None
    }

    /// Replaces the records in `window` by the next ones, in no order; false after the last.
    fn scan_stored(&self, scan: &StoredScan, window: &mut Window) -> Result<bool> {
        let _ = scan;
        window.clear();
        Ok(false)
    }

    /// Ends it. To be called by who began it, whatever came of it.
    fn end_stored(&self, scan: &StoredScan) {
        let _ = scan;
    }

    /// One step of having fewer pages: the page of its cold or only tier that covers `from` is brought
    /// together with the one before it, as far as `fill` allows. Returns where to go on, or nothing behind
    /// the last page. Reads and writes pages.
    fn compact_step(&self, from: &[u8], fill: f64) -> Result<Option<Vec<u8>>> {
        let _ = (from, fill);
        Ok(None)
    }

    /// The next step of the same for pages of storage that positions do not lead to, of its cold or only tier:
    /// see [`terrace_access::InStorage::try_compact_stored`]. Reads and writes pages.
    fn compact_stored_step(&self, place: &mut StoragePlace) -> Result<()> {
        *place = None;
        Ok(())
    }

    /// Whether ranges can be taken out of it by pages.
    fn cuts(&self) -> bool {
        false
    }

    /// Prepares to take everything from `low` to before `high` out, of both tiers: see
    /// [`terrace_access::RangeDeletes::try_cut`]. No other thread is at work on it, in the background neither.
    fn try_cut<'d>(
        &'d self,
        door: &'d WriteGuard<'_>,
        low: &[u8],
        high: Option<&[u8]>,
    ) -> Attempt<Severed<'d>>;

    /// Makes ready for [`Structure::try_cut`]: brings the pages at the edges of a range into memory, and what
    /// else others need not be kept away for. To be called again when no other thread is at work: little is left then.
    fn prefault_cut(&self, low: &[u8], high: Option<&[u8]>) -> Result<()>;

    /// Tidies up at the edges of a range that was taken out; best effort.
    fn close_cut(&self, door: &WriteGuard<'_>, low: &[u8], high: Option<&[u8]>);

    /// Where its tiers begin; the database stores it in the catalog.
    fn roots(&self) -> Roots;

    /// Whether its hot tier lies in memory alone, so that what is dirty in it has to be saved.
    fn is_saved(&self) -> bool {
        false
    }

    /// Saves what is dirty in the part of the hot tier that covers this position, and gives up what was saved of it
    /// before, or does one of the two; where to go on, `None` at the end. One thread at a time saves. Blocking.
    fn save_step(&self, from: &[u8], saving: Saving) -> Result<Option<Vec<u8>>> {
        let _ = (from, saving);
        Ok(None)
    }

    /// Saves one record as it is now. As [`Structure::save_step`].
    fn save_record(&self, key: &[u8]) -> Result<()> {
        let _ = key;
        Ok(())
    }

    /// Saves all that is dirty in the hot tier once more, in new pages: some of those that there are cannot be read. As
    /// [`Structure::save_step`], and no checkpoint is cut meanwhile.
    fn save_anew(&self) -> Result<()> {
        Ok(())
    }

    /// Fills `window` with the saved records from this position on, tombstones too, or with those that are clean, which
    /// only a hot tier has that lay in the file: for an opening. False where nothing was saved. Blocking.
    fn saved_up(&self, from: &[u8], clean: bool, window: &mut Window) -> Result<bool> {
        let _ = (from, clean, window);
        Ok(false)
    }

    /// Writes the long values that a hot tier in the file has in the leaf that covers this position to the cold tier, and
    /// lets go of them above; where to go on, `None` at the end. Blocking.
    fn write_long_down(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = from;
        Ok(None)
    }

    /// Has the hot tier have what was saved of it in the leaf that covers this position, or of the next one of which it
    /// has nothing yet; where to go on, or nothing at the end. Until then it comes when somebody asks for it. What cannot
    /// be read is passed over. Blocking.
    fn load_saved(&self, from: &[u8]) -> Result<Option<Vec<u8>>> {
        let _ = from;
        Ok(None)
    }

    /// About how many slots take what is saved of the hot tier. Reads some pages.
    fn saved_slots(&self) -> Result<u64> {
        Ok(0)
    }

    /// Fills `window` with the records of a hot tier that lies in memory alone that were used so often at least, from
    /// this position on, tombstones too. False where there is none.
    fn hot_up(&self, from: &[u8], least: u8, window: &mut Window) -> Result<bool> {
        let _ = (from, least, window);
        Ok(false)
    }

    /// Makes records hot that were hot before an opening, each as one that was used so often: those that are not there
    /// come up if there is room, or what is used less. Their pages are read together; of more pages than can be the
    /// first records. Returns with how many it is done, at least one. May do nothing with them. Blocking.
    fn warm_up(&self, records: &[(Vec<u8>, u8)]) -> Result<usize> {
        Ok(records.len())
    }

    /// Records have become hot in order, from this position up to that: they go together, on as few pages as hold them.
    /// Best effort. Waits for nothing for long.
    fn close_up_hot(&self, low: &[u8], high: Option<&[u8]>) -> Result<()> {
        let _ = (low, high);
        Ok(())
    }

    /// Gives up the pages of a dropped structure that lie in memory alone, in a bounded step; returns whether more is
    /// left to do.
    fn clear_memory_step(&self) -> Result<bool> {
        Ok(false)
    }

    /// Calls `page` with the pages of a dropped structure that lie in memory alone, those that are left. Nobody else is
    /// at work on it. Blocking.
    fn each_memory_page(&self, page: &mut dyn FnMut(PageId)) {
        let _ = page;
    }

    /// Figures since opening.
    fn stats(&self) -> TierStats;

    /// Its records may expire, as this says: from now on those that have are dropped, and nothing is logged for
    /// it. Said once, before anything else.
    fn expire_by(&self, expiry: Arc<dyn Expiry>) {
        let _ = expiry;
    }

    /// Drops a record if it has expired and no other thread is at work on it; returns whether it did. Blocking.
    fn drop_expired(&self, key: &[u8]) -> Result<bool> {
        let _ = key;
        Ok(false)
    }

    /// A position anywhere in it. It may read a page.
    fn random_position(&self) -> Result<Vec<u8>>;

    /// Compresses pages of the last `levels` levels from now on, where it has levels.
    fn compress(&self, levels: u8) {
        let _ = levels;
    }

    /// What merging has come to, where there is any.
    fn merge_figures(&self) -> Option<MergeFigures> {
        None
    }

    /// Bytes of memory that it keeps for itself as long as it is open, pages not among them.
    fn memory_bytes(&self) -> usize {
        size_of_val(self)
    }

    /// Walks both tiers and checks every invariant, calling `page` for every page that belongs to
    /// the structure and `each` for every live record. No thread may write meanwhile.
    #[allow(clippy::type_complexity)]
    fn verify(
        &self,
        each: &mut dyn FnMut(&[u8], Flags, Value<'_>) -> Result<()>,
        page: &mut dyn FnMut(PageId) -> Result<()>,
    ) -> Result<()>;

    /// The structure was dropped: no sweep begins to look at it from now on. The caller waits for
    /// those that are looking, before its pages go.
    fn retire(&self) {}

    /// Removes records and pages in a bounded step; returns whether more is left. For drops.
    fn clear_step(&self) -> Result<bool>;
}
