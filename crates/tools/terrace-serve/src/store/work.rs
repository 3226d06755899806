//! The changes of some commands, which become one batch: what they have changed they see, nobody else does.
//!
//! Invariants: a command holds the stripes of its keys from its first look until the batch is written, so what
//! runs together happens at one instant; what a command has done before it stopped is taken back; watchers are
//! told before the batch is written and waiters after it, both before the stripes are given back.

use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::Ordering as Atomic;

use siphasher::sip::SipHasher13;
use terrace::{Durability, Error, Range, Result};

use super::codec::{self, Head, Kind};
use super::keyspace::{Keyspace, Store};
use super::locks::STRIPES;
use crate::planted::{Fault, planted};
use crate::signals::{Place, Signals};
use crate::stop::{Run, Stop, WRONG_TYPE, refuse};

/// Changes of elements at which a long command writes down what it has.
const MANY: usize = 8192;

/// What happens to a key, as subscribers of keyspace events are told.
#[derive(Clone, Debug)]
pub struct Event {
    /// The key.
    pub place: Place,
    /// The letter of its class in `notify-keyspace-events`.
    pub class: u8,
    /// Its name.
    pub name: &'static str,
}

/// What a change replaced, to be put back.
enum Undo {
    Head(Vec<u8>, Option<Option<Vec<u8>>>),
    Element(Vec<u8>, Option<Option<Vec<u8>>>),
}

/// A value that was read, or that nothing was found, or that it is not known here.
type Staged = Option<Vec<u8>>;

/// The changes of some commands.
pub struct Work {
    /// The keys.
    pub store: Arc<Store>,
    /// Who wants to know.
    pub signals: Arc<Signals>,
    /// The time, in milliseconds since 1970, as the commands see it.
    pub now: u64,
    /// The numbered database.
    pub db: usize,
    /// Whether reading may wait for the disk.
    pub waits: bool,
    /// Whether what takes long is left to those who may wait.
    pub hurries: bool,
    /// Whether it is alone: no stripes are needed.
    alone: bool,
    /// Whether this part of the work has to be written as one, however much it is.
    pub whole: bool,
    keyspace: Arc<Keyspace>,
    heads: HashMap<Vec<u8>, Staged>,
    elements: BTreeMap<Vec<u8>, Staged>,
    undo: Vec<Undo>,
    held: Vec<u16>,
    is_held: Vec<bool>,
    events: Vec<Event>,
    events_before: usize,
    /// What the last head that was looked up holds, and where the text in it begins.
    value: Vec<u8>,
    text_at: usize,
    /// The number of a collection that has expired, at the last key that was looked up.
    stale: Option<u64>,
    place: Vec<u8>,
    /// What is told of events after a batch was written.
    pub tell: Option<Arc<dyn Fn(&[Event]) + Send + Sync>>,
    /// Whether it is told.
    pub tells: bool,
    /// Whether anything was written since somebody asked ([`Work::take_wrote`]).
    wrote: bool,
    inside: bool,
}

impl Work {
    /// Nothing changed.
    pub fn new(store: Arc<Store>, signals: Arc<Signals>) -> Work {
        Work {
            keyspace: store.keyspace(),
            now: store.now(),
            store,
            signals,
            db: 0,
            waits: true,
            hurries: false,
            alone: false,
            whole: false,
            heads: HashMap::new(),
            elements: BTreeMap::new(),
            undo: Vec::new(),
            held: Vec::new(),
            is_held: vec![false; STRIPES],
            events: Vec::new(),
            events_before: 0,
            value: Vec::new(),
            text_at: 0,
            stale: None,
            place: Vec::new(),
            tell: None,
            tells: false,
            wrote: false,
            inside: false,
        }
    }

    // ---------------------------------------------------------------- who is inside

    /// Goes in beside others. False if somebody is alone, and it may not wait.
    pub fn enter(&mut self) -> bool {
        if self.waits {
            self.store.locks.enter();
        } else if !self.store.locks.try_enter() {
            return false;
        }
        self.inside = true;
        self.begin();
        true
    }

    /// Goes in alone; waits for all others.
    pub fn enter_alone(&mut self) {
        self.store.locks.enter_alone();
        (self.inside, self.alone) = (true, true);
        self.begin();
    }

    /// Whether it is alone.
    pub fn is_alone(&self) -> bool {
        self.alone
    }

    /// The handles anew, and the time.
    pub fn begin(&mut self) {
        self.keyspace = self.store.keyspace();
        self.now = self.store.now();
    }

    /// Goes out. What was not committed is forgotten.
    pub fn leave(&mut self) {
        self.forget();
        if self.inside {
            match self.alone {
                true => self.store.locks.leave_alone(),
                false => self.store.locks.leave(),
            }
        }
        (self.inside, self.alone) = (false, false);
    }

    fn stripe(&self, key: &[u8]) -> u16 {
        let mut hasher = SipHasher13::new_with_key(&self.store.secret);
        hasher.write_u8(self.db as u8);
        hasher.write(key);
        (hasher.finish() % STRIPES as u64) as u16
    }

    /// Takes the locks of keys. Waits for them if it may and holds none.
    pub fn lock<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>) -> Run {
        if self.alone {
            return Ok(());
        }
        if !self.held.is_empty() || !self.waits {
            for key in keys {
                let stripe = self.stripe(key);
                if !self.is_held[usize::from(stripe)] {
                    if !self.store.locks.try_stripe(stripe) {
                        return Err(Stop::Busy);
                    }
                    self.hold(stripe);
                }
            }
            return Ok(());
        }
        let mut stripes: Vec<u16> = keys.map(|key| self.stripe(key)).collect();
        stripes.sort_unstable();
        stripes.dedup();
        for stripe in stripes {
            self.store.locks.stripe(stripe);
            self.hold(stripe);
        }
        Ok(())
    }

    /// Takes the locks of keys of several databases, and waits for them. Only for who holds none.
    pub fn lock_places<'k>(&mut self, places: impl Iterator<Item = (usize, &'k [u8])>) {
        let here = self.db;
        let mut stripes = Vec::new();
        for (db, key) in places {
            self.db = db;
            stripes.push(self.stripe(key));
        }
        self.db = here;
        stripes.sort_unstable();
        stripes.dedup();
        for stripe in stripes {
            self.store.locks.stripe(stripe);
            self.hold(stripe);
        }
    }

    fn hold(&mut self, stripe: u16) {
        self.is_held[usize::from(stripe)] = true;
        self.held.push(stripe);
    }

    /// Whether it holds any locks.
    pub fn holds_locks(&self) -> bool {
        !self.held.is_empty()
    }

    fn let_go(&mut self) {
        for stripe in self.held.drain(..) {
            self.is_held[usize::from(stripe)] = false;
            self.store.locks.free_stripe(stripe);
        }
    }

    // ---------------------------------------------------------------- commands and batches

    /// A command begins, or has ended well: what was done before stays.
    pub fn settle(&mut self) {
        self.undo.clear();
        self.events_before = self.events.len();
    }

    /// A command of a transaction begins: what was done before stays, unless the whole stops.
    pub fn mark(&mut self) {
        self.settle();
    }

    /// A command has stopped: what it did is taken back.
    pub fn take_back(&mut self) {
        while let Some(undo) = self.undo.pop() {
            match undo {
                Undo::Head(key, Some(old)) => _ = self.heads.insert(key, old),
                Undo::Head(key, None) => _ = self.heads.remove(&key),
                Undo::Element(key, Some(old)) => _ = self.elements.insert(key, old),
                Undo::Element(key, None) => _ = self.elements.remove(&key),
            }
        }
        self.events.truncate(self.events_before);
    }

    /// How many changes are to be written.
    pub fn changes(&self) -> usize {
        self.heads.len() + self.elements.len()
    }

    /// Writes what the commands have changed, as one batch, and gives the locks back.
    ///
    /// # Errors
    /// Those of a write; nothing was changed then.
    pub fn commit(&mut self) -> Result<()> {
        if self.held.is_empty() && self.changes() == 0 && self.events.is_empty() {
            return Ok(());
        }
        let wanted = self.signals.is_wanted() && !self.events.is_empty();
        if wanted {
            for event in &self.events {
                self.signals.mark(&event.place);
            }
        }
        let written = self.write();
        if written.is_ok() {
            if wanted {
                for event in &self.events {
                    self.signals.ready(&event.place);
                }
            }
            if let Some(tell) = &self.tell
                && self.tells
            {
                tell(&self.events);
            }
        }
        self.forget();
        written
    }

    /// Forgets what was not written, and gives the locks back.
    pub fn forget(&mut self) {
        self.heads.clear();
        self.elements.clear();
        self.undo.clear();
        self.events.clear();
        self.events_before = 0;
        self.let_go();
    }

    /// Whether anything was written since the last call.
    pub fn take_wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
    }

    fn write(&mut self) -> Result<()> {
        self.wrote |= self.changes() > 0;
        let keyspace = &self.keyspace;
        if self.elements.is_empty() && self.heads.len() == 1 {
            for (place, value) in self.heads.drain() {
                let heads = self.store.make_heads(keyspace, usize::from(place[0]))?;
                return match value {
                    Some(value) => heads.table.put(&place[1..], value),
                    None => heads.table.delete(&place[1..]),
                };
            }
        }
        if self.changes() == 0 {
            return Ok(());
        }
        let mut batch = self.store.db.batch();
        for (key, value) in &self.elements {
            match value {
                Some(value) => batch.put(&keyspace.elements, key, value),
                None => batch.delete(&keyspace.elements, key),
            };
        }
        for (place, value) in &self.heads {
            let heads = self.store.make_heads(keyspace, usize::from(place[0]))?;
            match value {
                Some(value) => batch.put(&heads.table, &place[1..], value),
                None => batch.delete(&heads.table, &place[1..]),
            };
        }
        self.store.db.write(batch, Durability::Buffered)
    }

    /// A long command writes down what it has done so far, where nothing is half done: its own keys stay
    /// locked. Within a transaction nothing is written before its end.
    pub fn relieve(&mut self) -> Run {
        if self.whole || self.changes() < MANY {
            return Ok(());
        }
        if !self.waits {
            return Err(Stop::Miss);
        }
        self.write_out()
    }

    /// Writes down what was done so far; its keys stay locked.
    pub fn write_out(&mut self) -> Run {
        for event in &self.events {
            self.signals.mark(&event.place);
        }
        self.write()?;
        self.heads.clear();
        self.elements.clear();
        self.settle();
        Ok(())
    }

    /// Says that a key has changed, and how.
    pub fn event(&mut self, class: u8, name: &'static str, key: &[u8]) {
        if self.signals.is_wanted() || self.tells {
            let place = (self.db as u8, key.to_vec());
            self.events.push(Event { place, class, name });
        }
    }

    // ---------------------------------------------------------------- heads

    fn place(&mut self, key: &[u8]) {
        self.place.clear();
        self.place.push(self.db as u8);
        self.place.extend_from_slice(key);
    }

    /// Looks the record of a key up; whether there is one.
    fn look(&mut self, key: &[u8]) -> Run<bool> {
        if !self.heads.is_empty() {
            self.place(key);
            if let Some(staged) = self.heads.get(&self.place) {
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

    /// The head of a key that is there and has not expired.
    pub fn head(&mut self, key: &[u8]) -> Run<Option<Head>> {
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

    fn damaged(&self, key: &[u8]) -> Error {
        Error::Corrupt {
            file: format!("the heads of database {}", self.db),
            offset: None,
            what: format!("the record of a key of {} bytes is no head", key.len()),
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
        let old = self.heads.insert(self.place.clone(), value);
        self.undo.push(Undo::Head(self.place.clone(), old));
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
                Err(Stop::Miss) => _ = self.store.blind.fetch_add(1, Atomic::Relaxed),
                Err(other) => return Err(other),
            }
        }
        self.put_text(key, expires, text)
    }

    /// Notes when a key is due.
    fn due(&mut self, key: &[u8], time: u64) -> Run {
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
        match head.expires {
            Some(time) => self.due(to, time),
            None => Ok(()),
        }
    }

    // ---------------------------------------------------------------- elements

    /// The value of an element, into `value`; whether there is one.
    pub fn element_into(&self, key: &[u8], value: &mut Vec<u8>) -> Run<bool> {
        if !self.elements.is_empty()
            && let Some(staged) = self.elements.get(key)
        {
            value.clear();
            value.extend_from_slice(staged.as_deref().unwrap_or_default());
            return Ok(staged.is_some());
        }
        if key.len() > self.store.longest_key {
            return Ok(false);
        }
        let elements = &self.keyspace.elements;
        if self.waits {
            return Ok(elements.get_into(key, value)?);
        }
        elements.get_if_resident(key, value)?.ok_or(Stop::Miss)
    }

    /// The value of an element.
    pub fn element(&self, key: &[u8]) -> Run<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.element_into(key, &mut value)?.then_some(value))
    }

    fn set_element(&mut self, key: Vec<u8>, value: Staged) {
        let old = self.elements.insert(key.clone(), value);
        self.undo.push(Undo::Element(key, old));
    }

    /// Stores an element.
    pub fn put_element(&mut self, key: Vec<u8>, value: &[u8]) -> Run {
        if key.len() > self.store.longest_key {
            let most = self.store.longest_key - codec::MEMBER_AT;
            return refuse(format!("ERR field or member is longer than {most} bytes"));
        }
        self.set_element(key, Some(value.to_vec()));
        Ok(())
    }

    /// Removes an element.
    pub fn delete_element(&mut self, key: Vec<u8>) {
        self.set_element(key, None);
    }

    /// Tells `f` the elements from `low` to below `high`, from the last one on if `reverse`, until it breaks.
    pub fn each(
        &self,
        low: &[u8],
        high: &[u8],
        reverse: bool,
        f: &mut dyn FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Run {
        if self.hurries && !self.waits {
            return Err(Stop::Miss);
        }
        if low >= high {
            return Ok(());
        }
        let mut base = self.keyspace.elements.range(low..high)?;
        let next = |base: &mut Range| match reverse {
            true => base.next_back(),
            false => base.next(),
        };
        let mut staged = self.elements.range::<[u8], _>((
            std::ops::Bound::Included(low),
            std::ops::Bound::Excluded(high),
        ));
        let mut next_staged = || match reverse {
            true => staged.next_back(),
            false => staged.next(),
        };
        let mut below = next(&mut base).transpose()?;
        let mut above = next_staged();
        loop {
            let order = match (&below, &above) {
                (None, None) => return Ok(()),
                (None, Some(_)) => Ordering::Less,
                (Some(_), None) => Ordering::Greater,
                (Some((b, _)), Some((a, _))) if reverse => b.as_slice().cmp(a),
                (Some((b, _)), Some((a, _))) => a.as_slice().cmp(b),
            };
            let flow = match (order, &below, above) {
                (Ordering::Greater, Some((key, value)), _) => f(key, value),
                (_, _, Some((key, Some(value)))) => f(key, value),
                _ => ControlFlow::Continue(()),
            };
            if flow.is_break() {
                return Ok(());
            }
            if order.is_ge() {
                below = next(&mut base).transpose()?;
            }
            if order.is_le() {
                above = next_staged();
            }
        }
    }

    /// The elements from `low` to below `high`, at most `most`.
    pub fn range(
        &self,
        low: &[u8],
        high: &[u8],
        reverse: bool,
        most: usize,
    ) -> Run<Vec<(Vec<u8>, Vec<u8>)>> {
        let mut all = Vec::new();
        if most == 0 {
            return Ok(all);
        }
        self.each(low, high, reverse, &mut |key, value| {
            all.push((key.to_vec(), value.to_vec()));
            match all.len() < most {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        Ok(all)
    }

    // ---------------------------------------------------------------- what goes by itself

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

    /// The heads of the database, if there are any.
    pub fn heads_table(&self) -> Option<&terrace::Hash> {
        self.keyspace.heads(self.db).map(|heads| &heads.table)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.leave();
    }
}
