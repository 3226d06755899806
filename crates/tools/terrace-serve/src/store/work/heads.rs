//! Keys as commands look them up, store them and remove them.

use std::rc::Rc;
use std::sync::atomic::Ordering;

use terrace::Error;

use super::{Staged, Undo, Work};
use crate::planted::{Fault, planted};
use crate::stop::{Run, Stop, WRONG_TYPE, refuse};
use crate::store::codec::{self, Head, Kind};

impl Work {
    fn place(&mut self, key: &[u8]) {
        self.place.clear();
        self.place.push(self.db as u8);
        self.place.extend_from_slice(key);
    }

    /// Looks the record of a key up; whether there is one.
    fn look(&mut self, key: &[u8]) -> Run<bool> {
        if !self.heads.is_empty() {
            self.place(key);
            if let Some(staged) = self.heads.get(self.place.as_slice()) {
                self.value.clear();
                self.value
                    .extend_from_slice(staged.as_deref().unwrap_or_default());
                return Ok(staged.is_some());
            }
        }
        let Some(heads) = self.keyspace.heads(self.db) else {
            return Ok(false);
        };
        if key.len() > self.store.longest_key {
            return Ok(false);
        }
        if self.waits {
            return Ok(heads.table.get_into(key, &mut self.value)?);
        }
        let found = heads.table.get_if_resident(key, &mut self.value)?;
        found.ok_or(Stop::Miss)
    }

    /// The head of a key that is there and has not expired; of a hash without the fields that are due.
    pub fn head(&mut self, key: &[u8]) -> Run<Option<Head>> {
        match self.plain_head(key)? {
            Some(head) if head.leases => self.living(key, head),
            head => Ok(head),
        }
    }

    /// The head of a key that is there and has not expired.
    pub(super) fn plain_head(&mut self, key: &[u8]) -> Run<Option<Head>> {
        self.stale = None;
        if !self.look(key)? {
            return Ok(None);
        }
        let Some((head, at)) = Head::decode(&self.value) else {
            return Err(self.damaged(key).into());
        };
        if head.expires.is_some_and(|at| at <= self.now) {
            self.stale = (head.kind != Kind::Text).then_some(head.number);
            return Ok(None);
        }
        self.text_at = at;
        Ok(Some(head))
    }

    /// That a key of this database is not as it should be.
    pub fn damaged(&self, key: &[u8]) -> Error {
        Error::Corrupt {
            file: format!("the heads of database {}", self.db),
            offset: None,
            what: format!("the record of a key of {} bytes is damaged", key.len()),
            way_out: "delete the key, or restore a backup",
        }
    }

    /// The string of the head that was looked up last.
    pub fn text(&self) -> &[u8] {
        self.value.get(self.text_at..).unwrap_or_default()
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

    fn set_head(&mut self, key: &[u8], value: Staged) {
        self.place(key);
        let place: Rc<[u8]> = self.place.as_slice().into();
        let bytes = place.len() + value.as_ref().map_or(0, Vec::len);
        (self.bytes, self.kept) = (self.bytes + bytes, self.kept + bytes);
        if self.fresh {
            self.heads.insert(place, value);
            return;
        }
        let old = self.heads.insert(place.clone(), value);
        self.undo.push(Undo::Head(place, old));
    }

    fn check_key(&self, key: &[u8]) -> Run {
        match key.len() > self.store.longest_key {
            true => refuse(format!(
                "ERR key is longer than {} bytes",
                self.store.longest_key
            )),
            false => Ok(()),
        }
    }

    /// Stores the head of a collection, or removes the key if nothing is left.
    pub fn save(&mut self, key: &[u8], head: &Head) -> Run {
        if head.count == 0 && head.kind != Kind::Stream {
            self.abandon(head.number);
            self.set_head(key, None);
            self.event(b'g', "del", key);
            return Ok(());
        }
        self.put_head(key, head)
    }

    /// Stores the head of a collection.
    pub fn put_head(&mut self, key: &[u8], head: &Head) -> Run {
        self.check_key(key)?;
        let mut value = Vec::with_capacity(32);
        head.encode(&mut value);
        self.set_head(key, Some(value));
        Ok(())
    }

    /// Stores a string.
    pub fn put_text(&mut self, key: &[u8], expires: Option<u64>, text: &[u8]) -> Run {
        self.check_key(key)?;
        let head = Head {
            expires,
            ..Head::new(Kind::Text, 0)
        };
        let mut value = Vec::with_capacity(7 + text.len());
        head.encode(&mut value);
        value.extend_from_slice(text);
        self.set_head(key, Some(value));
        match expires {
            Some(time) => self.due(key, time),
            None => Ok(()),
        }
    }

    /// Stores a string over whatever is there, without reading it from the disk.
    pub fn put_text_over(&mut self, key: &[u8], expires: Option<u64>, text: &[u8]) -> Run {
        if self.store.has_collections() {
            let waits = std::mem::replace(&mut self.waits, false);
            let found = self.head(key);
            self.waits = waits;
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

    /// Notes when a key is due.
    pub(super) fn due(&mut self, key: &[u8], time: u64) -> Run {
        let heads = self.store.make_heads(&self.keyspace, self.db)?.id;
        let due = codec::due_key(&self.store.secret, time, heads, key);
        self.put_element(due, &codec::owner(heads, key))
    }

    /// Changes when a key expires: it is the one that was looked up last, with this head.
    pub fn set_expiry(&mut self, key: &[u8], head: &Head, expires: Option<u64>) -> Run {
        let changed = Head { expires, ..*head };
        if head.kind == Kind::Text {
            let text = self.text().to_vec();
            return self.put_text(key, expires, &text);
        }
        self.put_head(key, &changed)?;
        match expires {
            Some(time) => self.due(key, time),
            None => Ok(()),
        }
    }

    /// The elements of a number have no key any more.
    fn abandon(&mut self, number: u64) {
        self.set_element(codec::garbage_key(number), Some(Vec::new()));
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

    /// The database whose heads have a number.
    pub fn database_of(&self, id: u32) -> Option<usize> {
        self.keyspace.heads_of(id).map(|(db, _)| db)
    }

    /// When a key expires, also if that is past.
    pub fn expires(&mut self, key: &[u8]) -> Run<Option<u64>> {
        if !self.look(key)? {
            return Ok(None);
        }
        Ok(Head::decode(&self.value).and_then(|(head, _)| head.expires))
    }

    /// Removes a key that has expired.
    pub fn remove_expired(&mut self, key: &[u8]) -> Run {
        if !self.remove(key)? {
            self.set_head(key, None);
        }
        Ok(())
    }

    /// Whether the head of a key names a number, also if it has expired.
    pub fn names(&mut self, key: &[u8], number: u64) -> Run<bool> {
        if !self.look(key)? {
            return Ok(false);
        }
        let head = Head::decode(&self.value);
        Ok(head.is_some_and(|(head, _)| head.kind != Kind::Text && head.number == number))
    }

    /// The elements of a number are to be removed.
    pub fn give_up(&mut self, number: u64) {
        self.abandon(number);
    }

    /// The keys of the database that were changed and not written: each with its record, or that it is gone.
    pub fn staged(&self) -> impl Iterator<Item = (&[u8], Option<&[u8]>)> {
        let here = self
            .heads
            .iter()
            .filter(|(place, _)| usize::from(place[0]) == self.db);
        here.map(|(place, value)| (&place[1..], value.as_deref()))
    }

    /// The heads of the database, if there are any.
    pub fn heads_table(&self) -> Option<&terrace::Hash> {
        self.keyspace.heads(self.db).map(|heads| &heads.table)
    }
}
