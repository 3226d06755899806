//! Looking a record up without waiting for a disk: for event loops, which hand what would wait to a thread.

use terrace_base::Result;
use terrace_tier::Missing;

use crate::handle::map::Map;
use crate::latency::Call;
use crate::read::leased::{Sight, take_lease};

impl Map {
    /// [`Map::get_into`] as far as it needs no page that is on disk: `None` if it does, or while all
    /// calls wait for a verification, and then nothing was read; otherwise whether there is a value, which `value` holds. It may still wait a moment for a writer of
    /// the same record.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let users = db.hash("users")?;
    /// users.put("ada", "1815")?;
    /// let mut value = Vec::new();
    /// assert_eq!(users.get_if_resident("ada", &mut value)?, Some(true));
    /// assert_eq!(value, b"1815");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn get_if_resident(
        &self,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
    ) -> Result<Option<bool>> {
        self.get_if_resident_after(key, value, 0)
    }

    /// [`Map::get_if_resident`] of a call for which `missed` pages were brought in before, by [`Map::when_resident`]: so
    /// hot tiers and the share of the memory that they have learn of it what they learn of a call that waits.
    ///
    /// # Errors
    /// As [`Map::get`].
    #[inline]
    pub fn get_if_resident_after(
        &self,
        key: impl AsRef<[u8]>,
        value: &mut Vec<u8>,
        missed: u32,
    ) -> Result<Option<bool>> {
        let key = key.as_ref();
        let latencies = self.core().latencies();
        let began = latencies.begin();
        let found = self.look_up_in_memory(key, value, missed, |_| ())?;
        // Who finds nothing there asks again in another way, and that may be timed.
        latencies.end(Call::Get, began.filter(|_| found.is_some()));
        Ok(found)
    }

    /// The same of a call for which `missed` pages were brought in before; `on_miss` is told what is missing, while
    /// an operation is held.
    #[inline(always)]
    pub(crate) fn look_up_in_memory(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        missed: u32,
        on_miss: impl FnOnce(Missing),
    ) -> Result<Option<bool>> {
        let core = self.core();
        core.check_key(key)?;
        let Some(_pass) = core.passes().try_enter()? else {
            return Ok(None);
        };
        self.open.check()?;
        let structure = &self.open.structure;
        if !self.open.spec.expiring {
            let answer = structure.get_or_miss(key, value, missed);
            let found = answer.map_err(|e| self.failed(e))?;
            return Ok(found.map_err(on_miss).ok());
        }
        let mut missing = None;
        let read = |value: &mut Vec<u8>| {
            let found = structure.get_or_miss(key, value, missed)?;
            missing = found.err();
            Ok((found.unwrap_or(false), ()))
        };
        let seen = core.seen((&self.open, Some(key)), Sight::Now, value, read);
        let lease = core.heard(seen)?.lease;
        if lease.is_some() {
            take_lease(&self.open, value)?;
        }
        if let Some(lacks) = missing {
            on_miss(lacks);
            return Ok(None);
        }
        Ok(Some(lease.is_some()))
    }
}
