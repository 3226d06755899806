//! Records that expire, in a transaction.

use std::time::{Duration, SystemTime};

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_tier::Change;

use super::open::Transaction;
use crate::expires::{Expires, lease_until};
use crate::handle::map::Map;
use crate::read::leased::{check_expiring, parts, stored};

impl Transaction {
    /// Stores a value that is there for so long from now on: see [`Map::put_for`].
    ///
    /// # Errors
    /// As [`Transaction::put`]; [`crate::Error::Invalid`] where records do not expire.
    pub fn put_for(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        duration: Duration,
    ) -> Result<()> {
        let lease = self.db.core().clock().lease_for(duration);
        self.put_with_lease(map, key.as_ref(), value.as_ref(), lease)
    }

    /// [`Transaction::put_for`] up to an instant. One that has passed removes the key.
    ///
    /// # Errors
    /// As [`Transaction::put_for`].
    pub fn put_until(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        self.put_with_lease(map, key.as_ref(), value.as_ref(), lease_until(time))
    }

    /// [`Transaction::put_until`], or for ever.
    ///
    /// # Errors
    /// As [`Transaction::put_for`].
    pub fn put_expiring(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: Expires,
    ) -> Result<()> {
        self.put_with_lease(map, key.as_ref(), value.as_ref(), expires.lease())
    }

    fn put_with_lease(&mut self, map: &Map, key: &[u8], value: &[u8], lease: Lease) -> Result<()> {
        check_expiring(&map.open)?;
        self.begin(map, key, value)?;
        if lease.is_over(self.reads.now()) {
            return self.stage(&map.open, key, Change::Delete);
        }
        let stored = stored(&map.open, lease, value);
        self.stage(&map.open, key, Change::Put(&stored))
    }

    /// Has a record expire in so long from now on, or never with `None`; returns whether it is there.
    ///
    /// # Errors
    /// As [`Transaction::put_for`] and [`Transaction::get`].
    pub fn expire_in(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        duration: Option<Duration>,
    ) -> Result<bool> {
        let core = self.db.core();
        let lease = duration.map_or(Lease::ENDLESS, |duration| core.clock().lease_for(duration));
        self.set_lease(map, key.as_ref(), lease)
    }

    /// [`Transaction::expire_in`] at an instant. One that has passed removes the key.
    ///
    /// # Errors
    /// As [`Transaction::expire_in`].
    pub fn expire_at(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<bool> {
        self.expire(map, key, Expires::At(time))
    }

    /// [`Transaction::expire_at`], or never.
    ///
    /// # Errors
    /// As [`Transaction::expire_in`].
    pub fn expire(&mut self, map: &Map, key: impl AsRef<[u8]>, expires: Expires) -> Result<bool> {
        self.set_lease(map, key.as_ref(), expires.lease())
    }

    fn set_lease(&mut self, map: &Map, key: &[u8], lease: Lease) -> Result<bool> {
        check_expiring(&map.open)?;
        self.begin(map, key, &[])?;
        let Some(old) = self.get_stored(&map.open, key)? else {
            return Ok(false);
        };
        let (kept, value) = parts(&map.open, &old)?;
        if lease.is_over(self.reads.now()) {
            self.stage(&map.open, key, Change::Delete)?;
        } else if lease != kept {
            let stored = stored(&map.open, lease, value);
            self.stage(&map.open, key, Change::Put(&stored))?;
        }
        Ok(true)
    }

    /// Until when a record is there; `None` if it is not.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn expires(&mut self, map: &Map, key: impl AsRef<[u8]>) -> Result<Option<Expires>> {
        let found = self.get_with_expires(map, key)?;
        Ok(found.map(|(_, expires)| expires))
    }

    /// The value of a key, and until when it is there.
    ///
    /// # Errors
    /// As [`Transaction::get`].
    pub fn get_with_expires(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
    ) -> Result<Option<(Vec<u8>, Expires)>> {
        let key = key.as_ref();
        self.begin(map, key, &[])?;
        let Some(stored) = self.get_stored(&map.open, key)? else {
            return Ok(None);
        };
        let (lease, value) = parts(&map.open, &stored)?;
        Ok(Some((value.to_vec(), Expires::of(lease))))
    }
}
