//! The order of a write: reserve log, pass the gate, lock, append, apply, let go, wait for the sync.
//!
//! Invariants: from the append on nothing may fail; if it does, the database is dead until it is
//! opened again. Nothing is held while waiting for the disk.

use terrace_base::{Error, MAX_KEY_BYTES, MAX_VALUE_BYTES, Result};
use terrace_tier::{Change, Version};
use terrace_wal::Durability;

use crate::core::Core;
use crate::effects::{delete_prefix, put_prefixes};
use crate::fault::{Fault, planted};
use crate::registry::Open;

/// Refuses keys and values that are too long.
#[inline]
pub fn check_lengths(key: &[u8], value: &[u8]) -> Result<()> {
    if key.len() > MAX_KEY_BYTES {
        return Err(Error::KeyTooLong {
            len: key.len(),
            limit: MAX_KEY_BYTES,
        });
    }
    if value.len() > MAX_VALUE_BYTES {
        return Err(Error::ValueTooLong {
            len: value.len(),
            limit: MAX_VALUE_BYTES,
        });
    }
    Ok(())
}

impl Core {
    /// Makes one change of one structure. With `expect`, answers `false` and does nothing when the
    /// record may have changed since that version.
    pub fn write_one(
        &self,
        open: &Open,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Version>,
        durability: Option<Durability>,
    ) -> Result<bool> {
        let durability = self.durability(open.spec.logged, durability)?;
        let mut appended = None;
        let done = match change {
            Change::Put(value) => {
                check_lengths(key, value)?;
                let (before_key, before_value) = put_prefixes(open.id(), key, value);
                let parts = [before_key.as_ref(), key, before_value.as_ref(), value];
                self.write_logged(open, key, change, expect, &parts, &mut appended)
            }
            Change::Delete => {
                check_lengths(key, &[])?;
                let before_key = delete_prefix(open.id(), key);
                let parts = [before_key.as_ref(), key];
                self.write_logged(open, key, change, expect, &parts, &mut appended)
            }
        };
        match (done, appended, durability) {
            (Err(e), Some(_), _) => Err(self.kill(e)),
            (Err(e), None, _) => Err(self.failed(e)),
            (Ok(done), Some(appended), Some(durability)) => {
                self.commit(appended, durability)?;
                Ok(done)
            }
            (Ok(true), None, Some(durability)) => {
                self.confirm(durability)?;
                Ok(true)
            }
            (Ok(done), _, _) => Ok(done),
        }
    }

    /// Makes what an answer rests on as durable as the write that was not needed would have been: a
    /// delete of a key that is not there acknowledges the delete before it, which may be another
    /// thread's that is not durable yet.
    pub fn confirm(&self, durability: Durability) -> Result<()> {
        match durability {
            _ if planted(Fault::NothingConfirmed) => Ok(()),
            Durability::Sync => self.log.sync(),
            Durability::Buffered => self.log.flush(),
        }
        .map_err(|e| self.failed(e))
    }

    /// [`Core::confirm`] for an answer that nothing had to be changed for.
    pub fn confirm_kept(&self, open: &Open, durability: Option<Durability>) -> Result<()> {
        let durability = self.durability(open.spec.logged, durability)?;
        durability.map_or(Ok(()), |durability| self.confirm(durability))
    }

    fn write_logged(
        &self,
        open: &Open,
        key: &[u8],
        change: Change<'_>,
        expect: Option<Version>,
        parts: &[&[u8]],
        appended: &mut Option<terrace_wal::Appended>,
    ) -> Result<bool> {
        let _pass = self.enter(open)?;
        if !open.spec.logged {
            return open.structure.write(key, change, expect, &mut || ());
        }
        let bytes = parts.iter().map(|part| part.len()).sum();
        // Deletes are the way out of a full disk, so they may take what others leave.
        let mut reservation = match change {
            Change::Put(_) => self.log.reserve(bytes)?,
            Change::Delete => self.log.reserve_urgent(bytes)?,
        };
        let mut log = || *appended = Some(self.log.append(&mut reservation, parts));
        open.structure.write(key, change, expect, &mut log)
    }
}
