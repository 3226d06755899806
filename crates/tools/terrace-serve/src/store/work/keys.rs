//! Keys as commands look them up, make them, remove them and give them another place.
//!
//! Invariants: who looks a key up sees no field that is due; what a collection leaves behind is noted in the batch
//! that removes its key. Nothing else of the work calls this: records, elements and leases are below.

use std::sync::atomic::Ordering;

use super::Work;
use crate::planted::{Fault, planted};
use crate::stop::{Run, Stop, WRONG_TYPE, refuse};
use crate::store::codec::{self, Head, Kind};

impl Work {
    /// The head of a key that is there and has not expired; of a hash without the fields that are due.
    pub fn head(&mut self, key: &[u8]) -> Run<Option<Head>> {
        match self.plain_head(key)? {
            Some(head) if head.leases => self.living(key, head),
            head => Ok(head),
        }
    }

    /// The head of a key, if it is of this kind.
    pub fn typed(&mut self, key: &[u8], kind: Kind) -> Run<Option<Head>> {
        match self.head(key)? {
            Some(head) if head.kind != kind => refuse(WRONG_TYPE),
            head => Ok(head),
        }
    }

    /// The head of a key of this kind, or a new one that [`Work::save`] makes of it.
    pub fn typed_or_new(&mut self, key: &[u8], kind: Kind) -> Run<Head> {
        match self.typed(key, kind)? {
            Some(head) => Ok(head),
            None => self.make(key, kind),
        }
    }

    /// A new collection in place of a key that is not there; it has been looked up.
    fn make(&mut self, key: &[u8], kind: Kind) -> Run<Head> {
        if let Some(stale) = self.stale.take() {
            self.abandon(stale);
        }
        let number = self.store.new_number()?;
        let heads = self.store.make_heads(&self.keyspace, self.db)?.id;
        self.put_element(codec::owner_key(number), &codec::owner(heads, key))?;
        Ok(Head::new(kind, number))
    }

    /// A new collection in place of whatever is there.
    pub fn make_anew(&mut self, key: &[u8], kind: Kind) -> Run<Head> {
        self.remove(key)?;
        self.stale = None;
        self.make(key, kind)
    }

    /// Stores a string over whatever is there, without reading it from the disk.
    pub fn put_text_over(&mut self, key: &[u8], expires: Option<u64>, text: &[u8]) -> Run {
        if self.store.has_collections() {
            let waits = std::mem::replace(&mut self.waits, false);
            self.blind = true;
            let found = self.head(key);
            (self.waits, self.blind) = (waits, false);
            match found {
                Ok(head) => {
                    let old = head.filter(|h| h.kind != Kind::Text).map(|h| h.number);
                    if let Some(number) = old.or(self.stale)
                        && !planted(Fault::LeftElements)
                    {
                        self.abandon(number);
                    }
                }
                Err(Stop::Miss) => _ = self.store.blind.fetch_add(1, Ordering::Relaxed),
                Err(other) => return Err(other),
            }
        }
        self.put_text(key, expires, text)
    }

    /// Removes a key; whether it was there.
    pub fn remove(&mut self, key: &[u8]) -> Run<bool> {
        let head = self.head(key)?;
        if let Some(stale) = self.stale.take() {
            self.abandon(stale);
            self.set_head(key, None);
        }
        let Some(head) = head else {
            return Ok(false);
        };
        if head.kind != Kind::Text {
            self.abandon(head.number);
        }
        self.set_head(key, None);
        Ok(true)
    }

    /// Gives a value another place: the record of `from`, which was looked up last and has this head, becomes
    /// that of `to` in database `db`, whatever was there.
    pub fn move_to(&mut self, from: &[u8], head: &Head, db: usize, to: &[u8]) -> Run {
        self.check_key(to)?;
        let text = self.text().to_vec();
        self.set_head(from, None);
        let here = std::mem::replace(&mut self.db, db);
        let moved = self.put_moved(head, to, &text);
        self.db = here;
        moved
    }

    fn put_moved(&mut self, head: &Head, to: &[u8], text: &[u8]) -> Run {
        self.remove(to)?;
        if head.kind == Kind::Text {
            return self.put_text(to, head.expires, text);
        }
        let heads = self.store.make_heads(&self.keyspace, self.db)?.id;
        self.put_element(codec::owner_key(head.number), &codec::owner(heads, to))?;
        self.put_head(to, head)?;
        self.queue(to, head)
    }

    /// Notes when a key is due that has come to be here, and when the first of its fields is.
    pub fn queue(&mut self, key: &[u8], head: &Head) -> Run {
        let times = [head.expires, self.next_lease(head)?];
        times
            .into_iter()
            .flatten()
            .try_for_each(|time| self.due(key, time))
    }

    /// Removes a key that has expired.
    pub fn remove_expired(&mut self, key: &[u8]) -> Run {
        if !self.remove(key)? {
            self.set_head(key, None);
        }
        Ok(())
    }

    /// Removes the fields of a key that are due, and queues the next one.
    pub fn reap_leases(&mut self, key: &[u8]) -> Run {
        // With nothing before them they are written in steps, however many they are.
        if self.changes() > 0
            && let Some(head) = self.plain_head(key)?
            && self.next_lease(&head)?.is_some_and(|at| at <= self.now)
        {
            self.write_out()?;
        }
        if let Some(head) = self.head(key)?
            && let Some(next) = self.next_lease(&head)?
        {
            self.due(key, next)?;
        }
        Ok(())
    }
}
