//! The records of keys: those of the database, with what was changed and not written.
//!
//! Invariant: a record is as it was stored: of a hash also with fields that are due, which the files above remove.

use std::rc::Rc;

use terrace::Error;

use super::{Staged, Undo, Work};
use crate::stop::{Run, Stop, refuse};
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
        let table = &heads.table;
        let found = table.get_if_resident_after(key, &mut self.value, self.times_missed)?;
        if found.is_none() && !self.blind {
            let missed = ((*heads.table).clone(), key.to_vec());
            self.missed.set(Some(missed));
        }
        found.ok_or(Stop::Miss)
    }

    /// Whether the record of a command was missed.
    pub fn has_missed(&self) -> bool {
        let missed = self.missed.take();
        let has = missed.is_some();
        self.missed.set(missed);
        has
    }

    /// Has the page of a key's record read, and calls `then` once it is there or cannot be; false where nothing can be
    /// read so, or needs to be.
    pub fn bring_in(&self, db: usize, key: &[u8], then: impl FnOnce() + Send + 'static) -> bool {
        let heads = self.keyspace.heads(db);
        // An error is met by the command.
        let asked = heads.map(|heads| heads.table.when_resident(key, then));
        asked.is_some_and(|asked| asked.unwrap_or(false))
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

    pub(super) fn set_head(&mut self, key: &[u8], value: Staged) {
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

    pub(super) fn check_key(&self, key: &[u8]) -> Run {
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

    /// A step of a long command is done, and its key has this head now.
    pub fn step_done(&mut self, key: &[u8], head: &Head) -> Run {
        // A collection without elements is never written; what removes its last one ends soon.
        if head.count == 0 && head.kind != Kind::Stream {
            return Ok(());
        }
        self.put_head(key, head)?;
        // Who watches it is told before any part of it is written, also if no other part ever is.
        if self.signals.is_wanted() {
            self.signals.mark(&(self.db as u8, key.to_vec()));
        }
        self.relieve()
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

    /// The elements of a number have no key any more: they are to be removed.
    pub fn abandon(&mut self, number: u64) {
        self.set_element(codec::garbage_key(number), Some(Vec::new()));
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

    /// Whether the head of a key names a number, also if it has expired.
    pub fn names(&mut self, key: &[u8], number: u64) -> Run<bool> {
        if !self.look(key)? {
            return Ok(false);
        }
        let head = Head::decode(&self.value);
        Ok(head.is_some_and(|(head, _)| head.kind != Kind::Text && head.number == number))
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
