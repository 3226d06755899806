//! Removing a range at once: with its pages, however many they are.
//!
//! While the pages at its edges are rewritten no call runs, and nothing is at work in the background: so every
//! reader finds all of the range or nothing of it, and whoever has read in it before looks again and conflicts.
//! What lies between the edges becomes a part by itself, which is taken apart in the background as a structure is
//! that was dropped.
//!
//! Invariants: what is removed, the part in the catalog, and the record in the log are in the same cut of a
//! checkpoint. When others may call again, every lock of a record counts as changed, and who watches a part of the
//! range was told.

use std::ops::RangeBounds;
use std::sync::Arc;

use terrace_base::{Error, Result, StructureId};
use terrace_tier::WriteReservation;
use terrace_wal::{Appended, Durability};

use crate::catalog::opened::Open;
use crate::catalog::registry::RangeRemoved;
use crate::core::Core;
use crate::effects::encode_delete_range;
use crate::handle::map::Map;
use crate::planted::{Fault, planted};
use crate::structures::ordered::bounds;
use crate::structures::range::past_prefix;
use crate::structures::tree::Tree;

/// What came of an attempt.
enum Done {
    /// It is done, with this record if there is one.
    Removed(Option<Appended>),
    /// A transaction that was often too late claims a part of the range; nothing was done.
    Claimed(Arc<WriteReservation>),
}

/// From `low` to before `high`.
type Bounds<'k> = (&'k [u8], Option<&'k [u8]>);

impl Core {
    fn delete_range(
        &self,
        open: &Arc<Open>,
        range: Bounds<'_>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let in_force = self.durability(open.spec.logged, durability)?;
        let is_empty = !self.may_cut(open, range)?;
        let appended = loop {
            if is_empty {
                break None;
            }
            match self.delete_range_once(open, range)? {
                Done::Removed(appended) => break appended,
                Done::Claimed(claim) => {
                    let _owed = self.turn().wait_for(&claim);
                }
            }
        };
        self.make_durable(appended, in_force)
    }

    /// Whether there may be something in a range that is to go by pages.
    ///
    /// # Errors
    /// Of a structure of which none goes so, and for keys that are too long.
    pub fn may_cut(&self, open: &Open, range: (&[u8], Option<&[u8]>)) -> Result<bool> {
        open.check()?;
        if !open.structure.cuts() {
            let kind = open.spec.kind.as_str();
            return Err(Error::invalid(format!(
                "\"{}\" is of the kind {kind}, of which a range is not removed at once; remove_range removes it in steps",
                open.name()
            )));
        }
        for key in [Some(range.0), range.1].into_iter().flatten() {
            // Behind the longest key there may be one byte more.
            let limit = self.longest_key();
            if key.len() > limit + 1 {
                let len = key.len();
                return Err(Error::KeyTooLong { len, limit });
            }
        }
        Ok(range.1.is_none_or(|high| range.0 < high))
    }

    fn delete_range_once(&self, open: &Arc<Open>, range: Bounds<'_>) -> Result<Done> {
        let (low, high) = range;
        let _naming = self.definitions().hold_names();
        let part = {
            let _pass = self.enter(open)?;
            self.budget().check_structures(self.registry())?;
            self.heard(open.structure.prefault_cut(low, high))?;
            StructureId(self.registry().next_id())
        };
        let payload = |part| {
            let mut payload = Vec::new();
            encode_delete_range(open.id(), part, range, &mut payload);
            payload
        };
        let (whole, with_part) = (payload(None), payload(Some(part)));
        let bytes = with_part.len().max(whole.len());
        let may_log = open.spec.logged || open.spec.in_memory;
        let reservation = may_log.then(|| self.log().reserve_urgent(bytes));
        let mut reservation = self.heard(reservation.transpose())?;
        let mut appended = None;
        // A long step is waited for while others go on.
        drop(self.tiers().hold_background());
        let removed = {
            // In this order: who verifies has a pause, and waits for the threads in the background to end.
            let _nobody_calls = self.passes().pause()?;
            let _still = self.tiers().hold_background();
            open.check()?;
            let watches = open.structure.watches();
            if !planted(Fault::CutUnwatched)
                && let Some(claim) = watches.before_range(range, |_| false, |_| ())
            {
                return Ok(Done::Claimed(claim));
            }
            let logs = self.logs(open);
            let mut log = |has_part: bool| {
                let payload = if has_part { &with_part } else { &whole };
                if let Some(reservation) = reservation.as_mut().filter(|_| logs)
                    && !planted(Fault::CutUnlogged)
                {
                    appended = Some(self.log().append(reservation, &[payload]));
                }
            };
            let removed = self.registry().delete_range(open, range, part, &mut log);
            let removed = match removed {
                Err(e) if appended.is_some() => return Err(self.kill(e)),
                removed => removed.map_err(|e| self.failed(e))?,
            };
            if removed != RangeRemoved::Nothing && !planted(Fault::CutUnseen) {
                self.tiers().locks.change_all();
            }
            removed
        };
        if removed == RangeRemoved::WithPart {
            self.take_part_apart(part);
            // Frames make room for what is known of it. If they cannot, who needs one meets the error.
            let _ = self.store().make_room_for_extra();
        }
        Ok(Done::Removed(appended))
    }
}

impl Map {
    /// [`Tree::delete_range`] from `low` to before `high`, or to the end; of any structure, most of which refuse it.
    pub(crate) fn delete_between(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        durability: Option<Durability>,
    ) -> Result<()> {
        let core = self.db.core();
        core.delete_range(&self.open, (low, high), durability)
    }
}

impl Tree {
    /// Removes all records with keys in a range, at once: every reader finds all of them or none, a crash leaves
    /// all or none, and snapshots that are open still have them. Transactions that have read or written in the
    /// range begin again, and no [`Map::update`] brings a record of it back. Who goes through the range in
    /// between gets what was read before.
    ///
    /// O(height) pages are read and written, however long the range is; the pages of what was removed are given back
    /// in the background. While it is done, some milliseconds and what it takes others to end what they are at, no
    /// other thread is at work in the database: for a few records [`Tree::remove_range`] or a batch is the better
    /// choice. Of an LSM-tree it is as many pages for its top and for the index of each of its levels, and pages of records
    /// at both edges of each level are made anew. Not for hash tables and tables, for which see
    /// [`Table::remove_range`](crate::Table::remove_range). Together with other changes: [`crate::Transaction::delete_range`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let visits = db.tree("visits")?;
    /// visits.put("2025-12-31 23:59", "alice")?;
    /// visits.put("2026-01-01 00:01", "bob")?;
    /// visits.delete_range("2025".."2026")?;
    /// assert_eq!(visits.iter()?.count(), 1);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of a write. Then nothing was removed, unless it is
    /// [`Error::Poisoned`].
    pub fn delete_range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<()> {
        let (low, high) = bounds(&range);
        self.delete_between(&low, high.as_deref(), None)
    }

    /// [`Tree::delete_range`], as durable as asked when it returns.
    ///
    /// # Errors
    /// As there.
    pub fn delete_range_with<K: AsRef<[u8]>>(
        &self,
        range: impl RangeBounds<K>,
        durability: Durability,
    ) -> Result<()> {
        let (low, high) = bounds(&range);
        self.delete_between(&low, high.as_deref(), Some(durability))
    }

    /// [`Tree::delete_range`] of all keys that begin with `prefix`.
    ///
    /// # Errors
    /// As there.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let prefix = prefix.as_ref();
        self.delete_between(prefix, past_prefix(prefix).as_deref(), None)
    }
}
