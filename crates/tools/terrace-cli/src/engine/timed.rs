//! Records with the time up to which they are there.

use anyhow::Result;
use std::time::{Duration, SystemTime};
use terrace::{Durability, Expires, Kind, Tiers};

use super::{Db, Entry, Tree};

/// A record, and until when it is there.
pub type Timed = (Entry, Option<SystemTime>);

impl Db {
    /// Writes records, all or none.
    pub fn write(&self, tree: &Tree, entries: &[Timed], durability: Durability) -> Result<()> {
        let mut batch = self.inner.batch();
        for ((key, value), expires) in entries {
            match expires {
                Some(time) => batch.put_until(&tree.inner, key, value, *time),
                None => batch.put(&tree.inner, key, value),
            };
        }
        self.inner.write(batch, durability)?;
        Ok(())
    }
}

impl Tree {
    /// Writes a record that is there for so long.
    pub fn put_for(
        &self,
        key: &[u8],
        value: &[u8],
        time: Duration,
        durability: Durability,
    ) -> Result<()> {
        // So long that no time can tell it is for ever.
        let end = self.inner.database().time().checked_add(time);
        let expires = end.map_or(Expires::Never, Expires::At);
        Ok(self
            .inner
            .put_expiring_with(key, value, expires, durability)?)
    }

    /// All records, in whatever order takes the fewest reads, and until when each is there.
    pub fn all_timed(&self) -> Result<impl Iterator<Item = Result<Timed>> + use<>> {
        let mut all = self.inner.iter_unordered()?;
        Ok(std::iter::from_fn(move || {
            let next = all.next()?;
            Some(
                next.map(|entry| (entry, all.expires().at()))
                    .map_err(Into::into),
            )
        }))
    }

    /// All records from the other end; none for a structure of which [`Tree::all_timed`] keeps no order.
    pub fn all_reversed(&self) -> Result<Option<impl Iterator<Item = Result<Timed>> + use<>>> {
        let name = self.inner.name();
        let structures = self.inner.database().structures();
        let is_stored = |s: &terrace::StructureInfo| {
            s.name == name && (s.kind, s.tiers) == (Kind::Table, Tiers::One)
        };
        if structures.iter().any(is_stored) {
            return Ok(None);
        }
        let mut all = self.inner.iter()?;
        Ok(Some(std::iter::from_fn(move || {
            let next = all.next_back()?;
            Some(
                next.map(|entry| (entry, all.expires().at()))
                    .map_err(Into::into),
            )
        })))
    }
}
