//! Fields of hashes that expire.
//!
//! Invariants: a field with a lease has two records, by the field and by the time, which come and go together; the
//! head says whether there may be any, so other hashes pay nothing. Whoever looks a hash up removes first what is
//! due, so no command ever sees it. The first lease of a hash is in the queue of what is due.

use std::ops::ControlFlow;

use super::Work;
use crate::planted::{Fault, planted};
use crate::stop::{Run, Stop};
use crate::store::codec::{self, Head, Kind};

/// Fields that an event loop removes at once; more go to the pool.
const AT_ONCE: usize = 64;
/// Fields that are removed in one step.
const STEP: usize = 4096;

impl Work {
    /// When a field expires, if it does.
    pub fn lease(&self, head: &Head, field: &[u8]) -> Run<Option<u64>> {
        if !head.leases {
            return Ok(None);
        }
        let key = codec::lease_key(&self.store.secret, head.number, field);
        Ok(self.element(&key)?.map(|time| codec::lease_of(&time)))
    }

    /// Changes when a field that is there expires; the caller stores the head.
    pub fn set_lease(&mut self, key: &[u8], head: &mut Head, field: &[u8], at: Option<u64>) -> Run {
        let old = self.lease(head, field)?;
        let record = codec::lease_key(&self.store.secret, head.number, field);
        if let Some(old) = old {
            self.delete_element(codec::lease_due_key(head.number, old, field));
            self.delete_element(record.clone());
        }
        if let Some(at) = at {
            let next = self.next_lease(head)?;
            head.leases = true;
            self.put_element(record, &codec::lease_bytes(at))?;
            self.put_element(codec::lease_due_key(head.number, at, field), b"")?;
            if next.is_none_or(|next| at < next) {
                self.due(key, at)?;
            }
        }
        Ok(())
    }

    /// Takes the lease of a field that is written anew, or removed.
    pub fn end_lease(&mut self, head: &mut Head, field: &[u8]) -> Run {
        match head.leases && !planted(Fault::LeaseKept) {
            true => self.set_lease(b"", head, field, None),
            false => Ok(()),
        }
    }

    /// When the first field of a hash expires.
    pub fn next_lease(&self, head: &Head) -> Run<Option<u64>> {
        let mut next = None;
        if head.leases {
            let (low, high) = codec::leases_until(head.number, codec::LATEST);
            self.each(&low, &high, false, &mut |key, _| {
                next = Some(codec::lease_due_in(key).0);
                ControlFlow::Break(())
            })?;
        }
        Ok(next)
    }

    /// A hash without the fields that are due.
    pub(super) fn living(&mut self, key: &[u8], head: Head) -> Run<Option<Head>> {
        let next = self.next_lease(&head)?;
        if next.is_none_or(|next| next > self.now) {
            return Ok(Some(head));
        }
        // Who only reads may have no lock yet; it looks again when it has.
        self.lock(std::iter::once(key))?;
        let Some(mut head) = self.plain_head(key)? else {
            return Ok(None);
        };
        if head.kind != Kind::Hash || !head.leases {
            return Ok(Some(head));
        }
        let is_first = self.changes() == 0;
        let (low, high) = codec::leases_until(head.number, self.now);
        let most = if self.waits { STEP } else { AT_ONCE };
        let mut removed = 0;
        loop {
            let (due, more) = self.step(&low, &high, most)?;
            if more && !self.waits {
                return Err(Stop::Miss);
            }
            for record in &due {
                let (_, field) = codec::lease_due_in(record);
                let element = codec::field_key(&self.store.secret, head.number, field);
                if self.has_element(&element)? {
                    self.delete_element(element);
                    head.count = head.count.saturating_sub(1);
                }
                let lease = codec::lease_key(&self.store.secret, head.number, field);
                self.delete_element(lease);
                self.delete_element(record.clone());
                removed += 1;
            }
            if !more {
                break;
            }
            if is_first {
                self.put_head(key, &head)?;
                self.relieve()?;
            }
        }
        if removed > 0 {
            self.event(b'h', "hexpired", key);
            self.fields_expired += removed;
        }
        head.leases = self.next_lease(&head)?.is_some();
        self.save(key, &head)?;
        Ok((head.count > 0).then_some(head))
    }
}
