//! Records that expire, in a batch.

use std::time::{Duration, SystemTime};

use terrace_base::lease::Lease;
use terrace_tier::Change;

use super::changes::Batch;
use super::staged::What;
use crate::expires::{Expires, lease_until};
use crate::handle::map::Map;
use crate::read::leased::check_expiring;

impl Batch {
    /// Stores a value that is there for so long from now on: see [`Map::put_for`].
    pub fn put_for(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        duration: Duration,
    ) -> &mut Batch {
        let lease = map.core().clock().lease_for(duration);
        self.put_with_lease(map, key.as_ref(), value.as_ref(), lease)
    }

    /// [`Batch::put_for`] up to an instant. One that has passed removes the key.
    pub fn put_until(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        time: SystemTime,
    ) -> &mut Batch {
        self.put_with_lease(map, key.as_ref(), value.as_ref(), lease_until(time))
    }

    /// [`Batch::put_until`], or for ever.
    pub fn put_expiring(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        expires: Expires,
    ) -> &mut Batch {
        self.put_with_lease(map, key.as_ref(), value.as_ref(), expires.lease())
    }

    fn put_with_lease(&mut self, map: &Map, key: &[u8], value: &[u8], lease: Lease) -> &mut Batch {
        if let Err(e) = check_expiring(&map.open) {
            self.refuse(e);
            return self;
        }
        if lease.is_over(map.core().clock().now()) {
            self.change(&map.open, Some(&map.db), key, Change::Delete);
            return self;
        }
        self.put_leased(map, key, value, lease)
    }

    /// Has a record expire in so long from now on, or never, if it is there when the batch is written, with its
    /// earlier changes of it: see [`Map::expire_in`].
    pub fn expire_in(
        &mut self,
        map: &Map,
        key: impl AsRef<[u8]>,
        duration: Option<Duration>,
    ) -> &mut Batch {
        let core = map.core();
        let lease = duration.map_or(Lease::ENDLESS, |duration| core.clock().lease_for(duration));
        self.expire_lease(map, key.as_ref(), lease)
    }

    /// [`Batch::expire_in`] at an instant. One that has passed removes the key.
    pub fn expire_at(&mut self, map: &Map, key: impl AsRef<[u8]>, time: SystemTime) -> &mut Batch {
        self.expire_lease(map, key.as_ref(), lease_until(time))
    }

    fn expire_lease(&mut self, map: &Map, key: &[u8], lease: Lease) -> &mut Batch {
        match check_expiring(&map.open) {
            Ok(()) => {
                let what = What::Expire(lease);
                self.stage_open(&map.open, Some(&map.db), key, what, None);
            }
            Err(e) => self.refuse(e),
        }
        self
    }
}
