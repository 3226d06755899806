//! Ranges of a transaction: the records of the database, with its own changes merged in.
//!
//! Invariant: the range is watched before its first record is read.

use std::collections::{HashSet, VecDeque};

use terrace_base::Result;

use super::Transaction;
use super::overlay::Staged;
use crate::fault::{Fault, planted};
use crate::map::Map;
use crate::range::{Range, Record};

/// Records in order, from either end; see [`Transaction::range`].
#[must_use = "it reads only when it is asked for records"]
pub struct TransactionRange<'t> {
    transaction: &'t mut Transaction,
    base: Range,
    /// Records that were read from the database and have not come out, one at each end.
    front: Option<Record>,
    back: Option<Record>,
    /// The transaction's own changes, in order; none for a deletion.
    own: VecDeque<(Vec<u8>, Option<Vec<u8>>)>,
    /// Where the order is not that of the keys, in a hash table, the keys of all own changes, which come
    /// last then.
    hidden: Option<HashSet<Vec<u8>>>,
    done: bool,
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
        let overlay = &transaction.overlay;
        let merged: Vec<Vec<u8>> = overlay
            .range(id, &low, high.as_deref())
            .filter(|(_, staged)| **staged == Staged::Merged)
            .map(|(key, _)| key.to_vec())
            .collect();
        for key in merged {
            transaction.get_open(&map.open, &key)?;
        }
        if checked && !planted(Fault::WatchedLate) {
            transaction
                .reads
                .watch(&map.open, low.clone(), high.clone());
        }
        let own = transaction.overlay.range(id, &low, high.as_deref());
        let own = own.map(|(key, staged)| {
            let value = match staged {
                Staged::Put(value) => Some(value.clone()),
                Staged::Delete | Staged::Merged => None,
            };
            (key.to_vec(), value)
        });
        let own: VecDeque<_> = own.collect();
        let keys = || own.iter().map(|(key, _)| key.clone()).collect();
        let hidden = (map.open.structure.position_prefix() > 0).then(keys);
        let mut range = TransactionRange {
            base: Range::new(map.clone(), low.clone(), high.clone()),
            transaction,
            front: None,
            back: None,
            own,
            hidden,
            done: false,
        };
        if checked && planted(Fault::WatchedLate) {
            range.front = range.base.next().transpose()?;
            range.transaction.reads.watch(&map.open, low, high);
        }
        Ok(range)
    }

    fn peek_front(&mut self) -> Result<()> {
        if self.front.is_none() {
            self.front = self.base.next().transpose()?;
        }
        if self.front.is_none() {
            self.front = self.back.take();
        }
        Ok(())
    }

    fn peek_back(&mut self) -> Result<()> {
        if self.back.is_none() {
            self.back = self.base.next_back().transpose()?;
        }
        if self.back.is_none() {
            self.back = self.front.take();
        }
        Ok(())
    }

    fn forward(&mut self) -> Result<Option<Record>> {
        loop {
            self.peek_front()?;
            if let Some((key, _)) = &self.front {
                if let Some(hidden) = &self.hidden {
                    let hides = hidden.contains(key);
                    let record = self.front.take();
                    if hides {
                        continue;
                    }
                    return Ok(record);
                }
                match self.own.front() {
                    Some((own, _)) if own < key => {}
                    Some((own, _)) if own == key => self.front = None,
                    _ => return Ok(self.front.take()),
                }
            }
            match self.own.pop_front() {
                Some((key, Some(value))) => return Ok(Some((key, value))),
                Some((_, None)) => {}
                None => return Ok(None),
            }
        }
    }

    fn backward(&mut self) -> Result<Option<Record>> {
        loop {
            if let Some(hidden) = &self.hidden {
                match self.own.pop_back() {
                    Some((key, Some(value))) => return Ok(Some((key, value))),
                    Some((_, None)) => continue,
                    None => {}
                }
                let hides = |record: &Record| hidden.contains(&record.0);
                let record = match self.back.take() {
                    None => self.base.next_back().transpose()?.or(self.front.take()),
                    some => some,
                };
                if record.as_ref().is_some_and(hides) {
                    continue;
                }
                return Ok(record);
            }
            self.peek_back()?;
            if let Some((key, _)) = &self.back {
                match self.own.back() {
                    Some((own, _)) if own > key => {}
                    Some((own, _)) if own == key => self.back = None,
                    _ => return Ok(self.back.take()),
                }
            }
            match self.own.pop_back() {
                Some((key, Some(value))) => return Ok(Some((key, value))),
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
