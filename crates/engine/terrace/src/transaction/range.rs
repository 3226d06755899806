//! Ranges of a transaction: the records of the database, with its own changes merged in.
//!
//! Invariant: the range is watched before its first record is read.

use std::ops::RangeBounds;

use terrace_base::{Error, Result, StructureId};
use terrace_tier::Change;

use super::open::Transaction;
use super::overlay::{Overlay, Staged};
use crate::handle::map::Map;
use crate::planted::{Fault, planted};
use crate::read::leased::take_lease;
use crate::structures::ordered;
use crate::structures::range::{Range, Record, past_prefix};

/// Records in order, from either end; see [`Transaction::range`].
#[must_use = "it reads only when it is asked for records"]
pub struct TransactionRange<'t> {
    transaction: &'t mut Transaction,
    base: Range,
    map: Map,
    /// Whether the range counts as read.
    checked: bool,
    /// Records that were read from the database and have not come out, one at each end.
    front: Option<Record>,
    back: Option<Record>,
    /// The transaction's own changes that have not come out, at each end.
    own: Own,
    /// Whether the order is not that of the keys, as in a hash table: then its own changes come last.
    is_unordered: bool,
    done: bool,
}

impl Transaction {
    /// The records with keys in a range, in order, from either end, with the transaction's own changes. The
    /// whole range counts as read, however far one goes: a commit is refused when another writer has written in it
    /// meanwhile. That takes the same memory for a thousand records as for one.
    ///
    /// # Errors
    /// [`Error::Invalid`] for a structure whose order is not that of the keys (see [`Transaction::iter`]);
    /// otherwise as [`Transaction::get`].
    pub fn range<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionRange<'_>> {
        let (low, high) = ordered::bounds(&range);
        self.range_of(map, low, high, true)
    }

    /// The records whose keys begin with `prefix`; otherwise as [`Transaction::range`].
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn prefix(&mut self, map: &Map, prefix: impl AsRef<[u8]>) -> Result<TransactionRange<'_>> {
        let prefix = prefix.as_ref();
        self.range_of(map, prefix.to_vec(), past_prefix(prefix), true)
    }

    /// [`Transaction::range`] without looking when it commits whether it is still so.
    ///
    /// # Errors
    /// As [`Transaction::range`].
    pub fn range_unchecked<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        range: impl RangeBounds<K>,
    ) -> Result<TransactionRange<'_>> {
        let (low, high) = ordered::bounds(&range);
        self.range_of(map, low, high, false)
    }

    /// Removes all records with keys in a range that are there for the transaction, when it commits; returns how many.
    /// The whole range counts as read: the commit is refused when another writer has put a record there meanwhile, or
    /// removed one, and a transaction that has read one of them begins again. Of structures of all kinds with an
    /// order of keys, tables with their entries.
    ///
    /// O(records of the range), each of which is a change of the transaction's batch. A long range goes by pages with
    /// [`Transaction::delete_range`].
    ///
    /// # Errors
    /// As [`Transaction::range`] and [`Transaction::put`]: more than a batch may hold is told here.
    pub fn remove_range<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        range: impl RangeBounds<K>,
    ) -> Result<u64> {
        let (low, high) = ordered::bounds(&range);
        let mut records = self.range_of(map, low, high, !planted(Fault::RemovedUnread))?;
        records.remove_all()
    }

    /// Removes all records with keys in a range of a tree or an LSM-tree by pages when it commits, together with all
    /// else that it does: every reader finds all of it or nothing, and so does a crash. It sees nothing of the range from
    /// now on but what it puts there later, which stays. Nothing counts as read by this, so no writer that has written
    /// there meanwhile is in the way: what was put before the commit goes, too. Others who have read or changed a
    /// record there begin again.
    ///
    /// O(height) pages, as [`Tree::delete_range`](crate::Tree::delete_range), and for as long no other thread is at
    /// work in the database. That is one range in a transaction: each further one goes as with
    /// [`Transaction::remove_range`]. To go through a range of which a part goes reads what goes.
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`Error::Invalid`] of a hash table or a table.
    pub fn delete_range<K: AsRef<[u8]>>(
        &mut self,
        map: &Map,
        range: impl RangeBounds<K>,
    ) -> Result<()> {
        let (low, high) = ordered::bounds(&range);
        self.begin(map, &[], &[])?;
        let bounds = (low.as_slice(), high.as_deref());
        if !self.db.core().may_cut(&map.open, bounds)? {
            return Ok(());
        }
        if self.batch.has_range() {
            let mut records = self.range_of(map, low, high, true)?;
            return records.remove_all().map(drop);
        }
        // What merges make of a value is known once it was read, and goes like one.
        let id = map.open.id();
        for key in self.overlay.merged(id, bounds.0, bounds.1) {
            self.get_stored(&map.open, &key)?;
        }
        self.batch.delete_range(&map.open, Some(&self.db), bounds);
        self.overlay.remove_all(id, bounds.0, bounds.1);
        Ok(())
    }

    /// All records, in the order of the structure; a hash table's comes with the transaction's own new
    /// keys last. Everything counts as read.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn iter(&mut self, map: &Map) -> Result<TransactionRange<'_>> {
        self.begin(map, &[], &[])?;
        TransactionRange::new(self, map, Vec::new(), None, true)
    }

    fn range_of(
        &mut self,
        map: &Map,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
        checked: bool,
    ) -> Result<TransactionRange<'_>> {
        self.begin(map, &[], &[])?;
        if map.open.structure.position_prefix() > 0 {
            return Err(Error::invalid(format!(
                "\"{}\" has no order of keys; go through all of it (Transaction::iter)",
                map.name()
            )));
        }
        TransactionRange::new(self, map, low, high, checked)
    }
}

impl<'t> TransactionRange<'t> {
    pub(super) fn new(
        transaction: &'t mut Transaction,
        map: &Map,
        low: Vec<u8>,
        high: Option<Vec<u8>>,
        checked: bool,
    ) -> Result<TransactionRange<'t>> {
        map.open.check()?;
        // Merges in the range become values that were read.
        let id = map.open.id();
        let merged = transaction.overlay.merged(id, &low, high.as_deref());
        for key in merged {
            transaction.get_stored(&map.open, &key)?;
        }
        let core = transaction.db.core().clone();
        if checked && !planted(Fault::WatchedLate) {
            transaction
                .reads
                .watch(&core, &map.open, low.clone(), high.clone());
        }
        let mut range = TransactionRange {
            base: {
                let sight = transaction.reads.sight(&map.open);
                Range::seen(map.clone(), low.clone(), high.clone(), sight)
            },
            checked,
            map: map.clone(),
            own: Own::new(id, low.clone(), high.clone()),
            transaction,
            front: None,
            back: None,
            is_unordered: map.open.structure.position_prefix() > 0,
            done: false,
        };
        if checked && planted(Fault::WatchedLate) {
            range.front = range.next_of_base(true)?;
            range.transaction.reads.watch(&core, &map.open, low, high);
        }
        Ok(range)
    }

    /// Stages the removal of all of them; how many.
    fn remove_all(&mut self) -> Result<u64> {
        let mut removed = 0;
        while let Some(record) = self.next() {
            let (key, _) = record?;
            let open = self.map.open.clone();
            self.transaction.stage(&open, &key, Change::Delete)?;
            removed += 1;
        }
        Ok(removed)
    }

    /// The next record of the database, from either end.
    fn next_of_base(&mut self, up: bool) -> Result<Option<Record>> {
        let record = loop {
            let next = match up {
                true => self.base.next(),
                false => self.base.next_back(),
            };
            let record = next.transpose()?;
            let is_gone = |(key, _): &Record| self.transaction.overlay.hides(self.own.id, key);
            if !record.as_ref().is_some_and(is_gone) || planted(Fault::GoneShown) {
                break record;
            }
        };
        if let Some((key, _)) = &record
            && self.checked
        {
            let lease = self.base.lease();
            self.transaction
                .reads
                .note_lease(&self.map.open, key, lease);
        }
        Ok(record)
    }

    /// A record that the transaction has put, without its lease.
    fn own_value(&self, key: Vec<u8>, mut stored: Vec<u8>) -> Result<Option<Record>> {
        take_lease(&self.map.open, &mut stored)?;
        Ok(Some((key, stored)))
    }

    fn peek_front(&mut self) -> Result<()> {
        if self.front.is_none() {
            self.front = self.next_of_base(true)?;
        }
        if self.front.is_none() {
            self.front = self.back.take();
        }
        Ok(())
    }

    fn peek_back(&mut self) -> Result<()> {
        if self.back.is_none() {
            self.back = self.next_of_base(false)?;
        }
        if self.back.is_none() {
            self.back = self.front.take();
        }
        Ok(())
    }

    /// Whether a record of the database is one that the transaction has changed.
    fn hides(&self, key: &[u8]) -> bool {
        self.transaction.overlay.get(self.own.id, key).is_some()
    }

    fn forward(&mut self) -> Result<Option<Record>> {
        loop {
            self.peek_front()?;
            if let Some((key, _)) = &self.front {
                if self.is_unordered {
                    let hides = self.hides(key);
                    let record = self.front.take();
                    if hides {
                        continue;
                    }
                    return Ok(record);
                }
                match self.own.front(&self.transaction.overlay) {
                    Some((own, _)) if own < key => {}
                    Some((own, _)) if own == key => self.front = None,
                    _ => return Ok(self.front.take()),
                }
            }
            match self.own.pop_front(&self.transaction.overlay) {
                Some((key, Some(value))) => return self.own_value(key, value),
                Some((_, None)) => {}
                None => return Ok(None),
            }
        }
    }

    fn backward(&mut self) -> Result<Option<Record>> {
        loop {
            if self.is_unordered {
                match self.own.pop_back(&self.transaction.overlay) {
                    Some((key, Some(value))) => return self.own_value(key, value),
                    Some((_, None)) => continue,
                    None => {}
                }
                let record = match self.back.take() {
                    None => self.next_of_base(false)?.or(self.front.take()),
                    some => some,
                };
                if record.as_ref().is_some_and(|(key, _)| self.hides(key)) {
                    continue;
                }
                return Ok(record);
            }
            self.peek_back()?;
            if let Some((key, _)) = &self.back {
                match self.own.back(&self.transaction.overlay) {
                    Some((own, _)) if own > key => {}
                    Some((own, _)) if own == key => self.back = None,
                    _ => return Ok(self.back.take()),
                }
            }
            match self.own.pop_back(&self.transaction.overlay) {
                Some((key, Some(value))) => return self.own_value(key, value),
                Some((_, None)) => {}
                None => return Ok(None),
            }
        }
    }

    fn step(
        &mut self,
        step: impl FnOnce(&mut Self) -> Result<Option<Record>>,
    ) -> Option<Result<Record>> {
        if self.done {
            return None;
        }
        let record = step(self).and_then(|record| {
            // It may have waited for the disk: what was read before has to be of the same state.
            self.transaction.look()?;
            Ok(record)
        });
        let record = record.transpose();
        self.done = !matches!(record, Some(Ok(_)));
        record
    }
}

/// A change of the transaction: its key and value, none for a deletion.
type Changed = (Vec<u8>, Option<Vec<u8>>);

/// The transaction's own changes in a range, one after the other from either end. Only those that are looked at
/// are copied.
struct Own {
    id: StructureId,
    /// Where those are that have not been looked at.
    low: Vec<u8>,
    high: Option<Vec<u8>>,
    front: Option<Changed>,
    back: Option<Changed>,
    /// Nothing is left between the two.
    is_through: bool,
}

impl Own {
    fn new(id: StructureId, low: Vec<u8>, high: Option<Vec<u8>>) -> Own {
        Own {
            id,
            low,
            high,
            front: None,
            back: None,
            is_through: false,
        }
    }

    fn of((key, staged): (&[u8], &Staged)) -> Changed {
        let value = match staged {
            Staged::Put(value) => Some(value.clone()),
            Staged::Delete | Staged::Merged(_) => None,
        };
        (key.to_vec(), value)
    }

    /// The first one.
    fn front(&mut self, overlay: &Overlay) -> Option<&Changed> {
        if self.front.is_none() && !self.is_through {
            let mut left = overlay.range(self.id, &self.low, self.high.as_deref());
            self.front = left.next().map(Own::of);
            match &self.front {
                Some((key, _)) => self.low = crate::structures::range::above(key),
                None => self.is_through = true,
            }
        }
        if self.front.is_none() {
            self.front = self.back.take();
        }
        self.front.as_ref()
    }

    /// The last one.
    fn back(&mut self, overlay: &Overlay) -> Option<&Changed> {
        if self.back.is_none() && !self.is_through {
            let mut left = overlay.range(self.id, &self.low, self.high.as_deref());
            self.back = left.next_back().map(Own::of);
            match &self.back {
                Some((key, _)) => self.high = Some(key.clone()),
                None => self.is_through = true,
            }
        }
        if self.back.is_none() {
            self.back = self.front.take();
        }
        self.back.as_ref()
    }

    fn pop_front(&mut self, overlay: &Overlay) -> Option<Changed> {
        self.front(overlay)?;
        self.front.take()
    }

    fn pop_back(&mut self, overlay: &Overlay) -> Option<Changed> {
        self.back(overlay)?;
        self.back.take()
    }
}

impl Iterator for TransactionRange<'_> {
    type Item = Result<Record>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(TransactionRange::forward)
    }
}

impl DoubleEndedIterator for TransactionRange<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(TransactionRange::backward)
    }
}

impl std::iter::FusedIterator for TransactionRange<'_> {}
