//! Records that expire: until when they are there, and changing that.

use std::time::{Duration, SystemTime};

use terrace_base::Result;
use terrace_base::lease::Lease;
use terrace_tier::Change;
use terrace_wal::Durability;

use crate::expires::{Expires, lease_until};
use crate::handle::map::Map;
use crate::read::leased::{Sight, check_expiring};
use crate::structures::map::Edit;

impl Map {
    /// Stores a value, whether the key was there or not, that is there for so long: from then on no reader sees
    /// it, and its space comes back by and by. The structure has to be made for it
    /// ([`crate::MapOptions::expiring`]). O(1) more than [`Map::put`].
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use std::time::Duration;
    /// use terrace::HashOptions;
    /// let sessions = db.hash_with("sessions", HashOptions::new().expiring())?;
    /// sessions.put_for("s1", "alice", Duration::from_secs(1800))?;
    /// assert_eq!(sessions.get("s1")?.as_deref(), Some(&b"alice"[..]));
    /// assert!(sessions.expires("s1")?.unwrap().at().is_some());
    /// sessions.put_for("s1", "alice", Duration::ZERO)?;
    /// assert_eq!(sessions.get("s1")?, None);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::put`]; [`crate::Error::Invalid`] where records do not expire.
    pub fn put_for(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        duration: Duration,
    ) -> Result<()> {
        let lease = self.core().clock().lease_for(duration);
        self.put_with_lease(key.as_ref(), value.as_ref(), lease, None)
    }

    /// [`Map::put_for`] up to an instant. One that has passed removes the key.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn put_until(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> Result<()> {
        self.put_with_lease(key.as_ref(), value.as_ref(), lease_until(time), None)
    }

    /// [`Map::put_until`], or for ever.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn put_expiring(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: Expires,
    ) -> Result<()> {
        self.put_with_lease(key.as_ref(), value.as_ref(), expires.lease(), None)
    }

    /// [`Map::put_expiring`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn put_expiring_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: Expires,
        durability: Durability,
    ) -> Result<()> {
        let lease = expires.lease();
        self.put_with_lease(key.as_ref(), value.as_ref(), lease, Some(durability))
    }

    fn put_with_lease(
        &self,
        key: &[u8],
        value: &[u8],
        lease: Lease,
        durability: Option<Durability>,
    ) -> Result<()> {
        check_expiring(&self.open)?;
        if lease.is_over(self.core().clock().now()) {
            return self.change_stored(key, Change::Delete, durability);
        }
        self.put_leased(key, value, lease, durability)
    }

    /// Has a record expire in so long from now on, or never with `None`; what it was to do before counts no more.
    /// Atomic. Returns whether it is there. Its value is written anew, however large it is.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use std::time::Duration;
    /// use terrace::{Expires, TreeOptions};
    /// let tree = db.tree_with("t", TreeOptions::new().expiring())?;
    /// tree.put_for("a", "1", Duration::from_secs(60))?;
    /// assert!(tree.expire_in("a", None)?);
    /// assert_eq!(tree.expires("a")?, Some(Expires::Never));
    /// assert!(!tree.expire_in("b", Some(Duration::from_secs(60)))?);
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn expire_in(&self, key: impl AsRef<[u8]>, duration: Option<Duration>) -> Result<bool> {
        let core = self.core();
        let lease = duration.map_or(Lease::ENDLESS, |duration| core.clock().lease_for(duration));
        self.set_lease(key.as_ref(), lease, None)
    }

    /// [`Map::expire_in`] at an instant. One that has passed removes the key.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn expire_at(&self, key: impl AsRef<[u8]>, time: SystemTime) -> Result<bool> {
        self.set_lease(key.as_ref(), lease_until(time), None)
    }

    /// [`Map::expire_at`], or never.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn expire(&self, key: impl AsRef<[u8]>, expires: Expires) -> Result<bool> {
        self.set_lease(key.as_ref(), expires.lease(), None)
    }

    /// [`Map::expire`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn expire_with(
        &self,
        key: impl AsRef<[u8]>,
        expires: Expires,
        durability: Durability,
    ) -> Result<bool> {
        self.set_lease(key.as_ref(), expires.lease(), Some(durability))
    }

    fn set_lease(&self, key: &[u8], lease: Lease, durability: Option<Durability>) -> Result<bool> {
        check_expiring(&self.open)?;
        let mut was_there = false;
        self.edit_leased::<&[u8]>(key, durability, |old| {
            was_there = old.is_some();
            match old {
                Some((kept, _)) if kept != lease => Edit::Until(lease),
                _ => Edit::Keep,
            }
        })?;
        Ok(was_there)
    }

    /// Until when a record is there; `None` if it is not. Where records do not expire, those that are there
    /// never do.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn expires(&self, key: impl AsRef<[u8]>) -> Result<Option<Expires>> {
        let found = self.get_with_expires(key)?;
        Ok(found.map(|(_, expires)| expires))
    }

    /// The value of a key, and until when it is there.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub fn get_with_expires(&self, key: impl AsRef<[u8]>) -> Result<Option<(Vec<u8>, Expires)>> {
        let (key, core) = (key.as_ref(), self.core());
        core.check_key(key)?;
        let mut value = Vec::new();
        let _pass = core.enter(&self.open)?;
        let lease = core.get_at(&self.open, Sight::Now, key, &mut value)?;
        Ok(lease.map(|lease| (value, Expires::of(lease))))
    }

    /// The value as it is stored.
    pub(crate) fn get_stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let (core, mut value) = (self.core(), Vec::new());
        let _pass = core.enter(&self.open)?;
        let looked = core.look(&self.open, key, &mut value)?;
        Ok(looked.lease.map(|_| value))
    }

    /// [`Map::update`] of the value and of when it expires, together: `f` gets both, if the record is there, and
    /// answers both, or `None` for no record.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// use std::time::{Duration, SystemTime};
    /// use terrace::{Expires, HashOptions};
    /// let limits = db.hash_with("limits", HashOptions::new().expiring())?;
    /// // Counts to ten in a minute that begins with the first.
    /// let in_a_minute = Expires::At(SystemTime::now() + Duration::from_secs(60));
    /// limits.update_expiring("alice", |old| {
    ///     let (count, expires) = old.map_or((0, in_a_minute), |(count, expires)| (count[0], expires));
    ///     Some((vec![(count + 1).min(10)], expires))
    /// })?;
    /// assert_eq!(limits.get("alice")?, Some(vec![1]));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn update_expiring(
        &self,
        key: impl AsRef<[u8]>,
        f: impl FnMut(Option<(&[u8], Expires)>) -> Option<(Vec<u8>, Expires)>,
    ) -> Result<bool> {
        self.update_expiring_impl(key.as_ref(), f, None)
    }

    /// [`Map::update_expiring`], as durable as said.
    ///
    /// # Errors
    /// As [`Map::put_for`].
    pub fn update_expiring_with(
        &self,
        key: impl AsRef<[u8]>,
        durability: Durability,
        f: impl FnMut(Option<(&[u8], Expires)>) -> Option<(Vec<u8>, Expires)>,
    ) -> Result<bool> {
        self.update_expiring_impl(key.as_ref(), f, Some(durability))
    }

    fn update_expiring_impl(
        &self,
        key: &[u8],
        mut f: impl FnMut(Option<(&[u8], Expires)>) -> Option<(Vec<u8>, Expires)>,
        durability: Option<Durability>,
    ) -> Result<bool> {
        check_expiring(&self.open)?;
        let mut was_there = false;
        self.edit_leased(key, durability, |old| {
            was_there = old.is_some();
            match f(old.map(|(lease, value)| (value, Expires::of(lease)))) {
                Some((new, expires)) => Edit::PutUntil(new, expires.lease()),
                None if was_there => Edit::Delete,
                None => Edit::Keep,
            }
        })?;
        Ok(was_there)
    }
}
