//! The order of a write: reserve log, pass the gate, lock, append, apply, let go, wait for the sync.
//!
//! Invariants: from the append on nothing may fail; if it does, the database is dead until it is
//! opened again. Nothing is held while waiting for the disk.

use terrace_base::lease::Lease;
use terrace_base::{Error, MAX_VALUE_BYTES, Result, max_key_bytes};
use terrace_tier::{Change, Expect, Version, Written};
use terrace_wal::{Appended, Durability};

use crate::catalog::opened::Open;
use crate::clock::Clock;
use crate::core::Core;
use crate::effects::{delete_prefix, put_prefixes};
use crate::operations::OperationGuard;
use crate::planted::{Fault, planted};

/// Refuses keys and values that are too long; `limit` is [`Core::longest_key`].
#[inline]
pub fn check_lengths(limit: usize, key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > limit {
        return Err(key_too_long(key.len(), limit));
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong {
            len: value.len(),
            limit: MAX_VALUE_BYTES,
        });
    }
    Ok(())
}

/// A record as a writer found it that writes only if it is still so.
pub struct AsFound<'a> {
    /// Whether it was there, and its value.
    pub found: bool,
    pub value: &'a [u8],
    /// The version of its lock at the time.
    pub version: Version,
    /// The lease before the end of which it has to be written, if that makes it longer: otherwise others
    /// may have seen that the record is gone.
    pub before: Option<Lease>,
}

impl AsFound<'_> {
    /// The version by now, if the record is still the same. The caller holds an operation.
    pub fn again(&self, clock: &Clock, open: &Open, key: &[u8]) -> Result<Option<Version>> {
        if !self.is_in_time(clock) {
            return Ok(None);
        }
        let mut value = Vec::new();
        let (found, version) = open.structure.get_versioned(key, &mut value)?;
        Ok(self.is(found, &value).then_some(version))
    }

    /// Whether it may still be written.
    pub fn is_in_time(&self, clock: &Clock) -> bool {
        let before = self.before;
        before.is_none_or(|lease| !lease.is_over(clock.now()))
    }

    /// Whether it is the same as that.
    pub fn is(&self, found: bool, value: &[u8]) -> bool {
        self.found == found && (!found || self.value == value)
    }
}

/// Keys up to this fit with pages of any size, so for most the size of the pages does not have to be asked for.
const ALWAYS_FITS: usize = max_key_bytes(terrace_pages::PAGE_SIZES[0]);

#[cold]
fn key_too_long(len: usize, limit: usize) -> Error {
    Error::KeyTooLong { len, limit }
}

impl Core {
    /// Refuses a key that is too long.
    #[inline]
    pub fn check_key(&self, key: &[u8]) -> Result<()> {
        if key.len() > ALWAYS_FITS {
            return check_lengths(self.longest_key(), key, &[]);
        }
        Ok(())
    }

    /// Longest key that fits.
    #[inline]
    pub fn longest_key(&self) -> usize {
        max_key_bytes(self.store().page_bytes())
    }

    /// Makes what an answer rests on as durable as the write that was not needed would have been: a
    /// delete of a key that is not there acknowledges the delete before it, which may be another
    /// thread's that is not durable yet.
    pub fn confirm(&self, durability: Durability) -> Result<()> {
        match durability {
            _ if planted(Fault::NothingConfirmed) => Ok(()),
            Durability::Sync => self.log().sync(),
            Durability::Buffered => self.log().flush(),
        }
        .map_err(|e| self.failed(e))
    }

    /// Makes a write with this record as durable as said; without one, what it was found out from that there is nothing to
    /// write, which may not be durable yet.
    #[inline]
    pub fn make_durable(
        &self,
        appended: Option<Appended>,
        durability: Option<Durability>,
    ) -> Result<()> {
        match (appended, durability) {
            (Some(appended), durability) => self.commit_as(appended, durability),
            (None, Some(durability)) => self.confirm(durability),
            (None, None) => Ok(()),
        }
    }

    /// [`Core::confirm`] for an answer that nothing had to be changed for.
    pub fn confirm_kept(&self, open: &Open, durability: Option<Durability>) -> Result<()> {
        let durability = self.durability(open.spec.logged, durability)?;
        durability.map_or(Ok(()), |durability| self.confirm(durability))
    }

    /// Makes one change, given an operation, which is given back before any wait for a disk.
    /// `appended` is its record, once it has one: then it must not fail any more. Where another thread claims the
    /// record, the caller waits for that without the operation.
    pub fn write_inside(
        &self,
        _pass: OperationGuard<'_>,
        open: &Open,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Expect<'_>>,
        appended: &mut Option<Appended>,
    ) -> Result<Written> {
        if !self.logs(open) {
            return open.structure.try_write(key, change, expect, &mut || ());
        }
        match change {
            Change::Put(value) => {
                let (before_key, before_value) = put_prefixes(open.id(), key, value);
                let parts = [before_key.as_ref(), key, before_value.as_ref(), value];
                let mut reservation = self.log().reserve(parts.iter().map(|p| p.len()).sum())?;
                let early = planted(Fault::AppendedBeforeGate)
                    .then(|| self.log().append(&mut reservation, &parts));
                let mut append = || self.log().append(&mut reservation, &parts);
                let mut log = || *appended = Some(early.unwrap_or_else(&mut append));
                open.structure.try_write(key, change, expect, &mut log)
            }
            // Deletes are the way out of a full disk, so they may take what others leave.
            Change::Delete => {
                let before_key = delete_prefix(open.id(), key);
                let parts = [before_key.as_ref(), key];
                let bytes = parts.iter().map(|p| p.len()).sum();
                let mut reservation = self.log().reserve_urgent(bytes)?;
                let mut log = || *appended = Some(self.log().append(&mut reservation, &parts));
                open.structure.try_write(key, change, expect, &mut log)
            }
        }
    }
}
