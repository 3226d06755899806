//! Taking the first or the last record of an ordered structure: queues and stacks.

use terrace_base::Result;
use terrace_tier::Change;

use super::open::Transaction;
use crate::handle::map::Map;
use crate::planted::{Fault, planted};
use crate::state::heads::Head;
use crate::structures::range::{Record, above};

/// This many records of a structure are taken with a watched range for each; from then on all of it is watched.
const FEW: usize = 8;

impl Transaction {
    /// Takes the record with the lowest key out: a queue. What counts as read is that there is none before it, so
    /// who adds behind it is no conflict. Others who do the same wait until this transaction has ended, for a
    /// quarter of a second at most.
    ///
    /// # Errors
    /// [`terrace_base::Error::Invalid`] for a structure whose order is not that of the keys; otherwise as
    /// [`Transaction::remove`].
    pub fn pop_first(&mut self, map: &Map) -> Result<Option<Record>> {
        self.pop(map, true)
    }

    /// As [`Transaction::pop_first`], the record with the highest key: a stack.
    ///
    /// # Errors
    /// As [`Transaction::pop_first`].
    pub fn pop_last(&mut self, map: &Map) -> Result<Option<Record>> {
        self.pop(map, false)
    }

    fn pop(&mut self, map: &Map, up: bool) -> Result<Option<Record>> {
        fn end<T>(mut range: impl DoubleEndedIterator<Item = T>, up: bool) -> Option<T> {
            if up { range.next() } else { range.next_back() }
        }
        let head = Head {
            structure: map.open.id(),
            is_first: up,
        };
        if !self.heads.iter().any(|(held, _)| *held == head) && !planted(Fault::HeadUnheld) {
            self.begin(map, &[], &[])?;
            let claim = self.db.core().heads().take(head);
            self.heads.push((head, claim));
        }
        self.popped += 1;
        loop {
            let near = match self.popped > FEW {
                true => None,
                false => end(self.range_unchecked::<&[u8]>(map, ..)?, up).transpose()?,
            };
            let found = match &near {
                Some((key, _)) if up => end(self.range(map, ..above(key))?, up),
                Some((key, _)) => end(self.range(map, &key[..]..)?, up),
                None => end(self.range::<&[u8]>(map, ..)?, up),
            };
            if let Some((key, value)) = found.transpose()? {
                self.stage(&map.open, &key, Change::Delete)?;
                return Ok(Some((key, value)));
            }
            if near.is_none() {
                return Ok(None);
            }
            // Another one has taken it between the two looks, and whatever was watched is written: a conflict,
            // unless it was ours.
            self.look()?;
        }
    }
}
