//! The changes of some commands, which become one batch: what they have changed they see, no others do.
//!
//! Invariants: a command holds the stripes of its keys from its first look until the batch is written, so what
//! runs together happens at one instant; what a command has done before it stopped is taken back; watchers are
//! told before the batch is written and waiters after it, both before the stripes are given back.
//!
//! In layers, upwards: this file, with what may be inside, the stripes and the batch; `elements`; `heads`; `leases`;
//! `keys`. Each calls those below it.

mod elements;
mod heads;
mod keys;
mod leases;

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashMap};
use std::hash::Hasher;
use std::rc::Rc;
use std::sync::Arc;

use siphasher::sip::SipHasher13;
use terrace::{Durability, Map, Result};

use super::keyspace::{Keyspace, Store};
use super::locks::STRIPES;
use crate::signals::{Place, Signals};
use crate::stop::{Run, Stop};

/// Changes of elements at which a long command writes down what it has.
const MANY: usize = 8192;
/// The part of the memory at which it does so too: a batch has to fit.
const PART: u64 = 32;
/// The part of the memory that the changes of a script or a transaction, what they replaced and its messages may take,
/// and what a command gathers to store it.
const PART_OF_SCRIPTS: u64 = 8;

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

/// What is told once a batch is written.
pub enum Told<'t> {
    /// What has happened to keys.
    Events(&'t [Event]),
    /// A channel, and what is published there.
    Message(&'t [u8], &'t [u8]),
}

/// Where commands stood when several of them began that may be taken back together.
#[cfg(feature = "lua")]
pub struct Mark {
    undo: usize,
    kept: bool,
    said: (usize, usize),
}

/// What a change replaced, to be put back.
enum Undo {
    Head(Rc<[u8]>, Option<Option<Vec<u8>>>),
    Element(Vec<u8>, Option<Option<Vec<u8>>>),
}

/// A value that was read, or that nothing was found, or that it is not known here.
type Staged = Option<Vec<u8>>;

/// A record that is not in memory: where it is, and its key.
type Missed = (Map, Vec<u8>);

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
    /// Bytes that one command may gather for its answer.
    pub most: usize,
    /// Whether it is alone: no stripes are needed.
    alone: bool,
    /// Whether this part of the work has to be written as one, however much it is.
    pub whole: bool,
    keyspace: Arc<Keyspace>,
    /// Which handles they are.
    generation: u64,
    heads: HashMap<Rc<[u8]>, Staged>,
    elements: BTreeMap<Vec<u8>, Staged>,
    /// Bytes of what was changed, about.
    bytes: usize,
    undo: Vec<Undo>,
    /// Where the undo of the last command begins; what is before it belongs to those before it.
    undo_from: usize,
    /// Whether nothing was changed when the command began: then all is taken back, and no undo is needed.
    fresh: bool,
    /// Whether the undo of the commands before is kept.
    keeps_undo: bool,
    /// Bytes that the commands of a script or a transaction have changed or published, about, however often the same.
    kept: usize,
    /// Whether a part of what such commands did is written, and cannot be taken back.
    undo_lost: bool,
    /// Whether a part of what goes together is written already, so that it cannot run once more.
    in_parts: bool,
    held: Vec<u16>,
    is_held: Vec<bool>,
    events: Vec<Event>,
    /// What was published, channel and text.
    messages: Vec<(Vec<u8>, Vec<u8>)>,
    /// Events and messages of the commands before.
    said_before: (usize, usize),
    /// What the last head that was looked up holds, and where the text in it begins.
    value: Vec<u8>,
    text_at: usize,
    /// The number of a collection that has expired, at the last key that was looked up.
    stale: Option<u64>,
    place: Vec<u8>,
    /// For values that are not kept.
    scratch: RefCell<Vec<u8>>,
    /// The record that was looked for last and is not in memory, where nothing may wait for it.
    pub missed: Cell<Option<Missed>>,
    /// Pages that were brought in for the command before.
    pub times_missed: u32,
    /// Whether the command goes on without what is not in memory.
    blind: bool,
    /// Who is told after a batch was written.
    pub tell: Option<Arc<dyn Fn(Told) + Send + Sync>>,
    /// Whether events are told.
    pub tells: bool,
    /// Whether anything was written since that was last asked ([`Work::take_wrote`]).
    wrote: bool,
    /// Fields that have expired and were removed since that was last asked.
    pub fields_expired: u64,
    inside: bool,
}

impl Work {
    /// Nothing changed.
    pub fn new(store: Arc<Store>, signals: Arc<Signals>) -> Work {
        Work {
            // Of before the handles: they are looked up anew rather than not.
            generation: store.generation(),
            keyspace: store.keyspace(),
            now: store.now(),
            store,
            signals,
            db: 0,
            waits: true,
            hurries: false,
            most: usize::MAX,
            alone: false,
            whole: false,
            heads: HashMap::new(),
            elements: BTreeMap::new(),
            bytes: 0,
            undo: Vec::new(),
            undo_from: 0,
            fresh: true,
            keeps_undo: false,
            kept: 0,
            undo_lost: false,
            in_parts: false,
            held: Vec::new(),
            is_held: vec![false; STRIPES],
            events: Vec::new(),
            messages: Vec::new(),
            said_before: (0, 0),
            value: Vec::new(),
            text_at: 0,
            stale: None,
            place: Vec::new(),
            scratch: RefCell::default(),
            missed: Cell::default(),
            times_missed: 0,
            blind: false,
            tell: None,
            tells: false,
            wrote: false,
            fields_expired: 0,
            inside: false,
        }
    }

    // ---------------------------------------------------------------- who is inside

    /// Goes in beside others. False if another thread is alone, and it may not wait.
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
        let generation = self.store.generation();
        if generation != self.generation {
            self.keyspace = self.store.keyspace();
            self.generation = generation;
        }
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

    /// Does what takes long and looks at no keys, outside where it may be, so that who wants to be alone waits for
    /// nothing, and no thread waits for that one. In the middle of something it stays inside.
    pub fn outside<T>(&mut self, f: impl FnOnce(&Store) -> T) -> T {
        let begun = self.alone || self.whole || self.holds_locks() || self.changes() > 0;
        if !self.waits || begun || self.said() != (0, 0) {
            return f(&self.store);
        }
        self.leave();
        let done = f(&self.store);
        self.enter();
        done
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
                    if !self.store.locks.try_stripe_a_while(stripe) {
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
        if !self.keeps_undo {
            self.undo.clear();
        }
        self.undo_from = self.undo.len();
        self.fresh = !self.keeps_undo && self.changes() == 0;
        self.said_before = self.said();
    }

    /// A command of a transaction begins: what was done before stays, unless the whole stops.
    pub fn mark(&mut self) {
        self.settle();
    }

    /// A command has stopped: what it did is taken back.
    pub fn take_back(&mut self) {
        self.undo_until(self.undo_from, self.said_before);
    }

    fn said(&self) -> (usize, usize) {
        (self.events.len(), self.messages.len())
    }

    fn undo_until(&mut self, undo: usize, said: (usize, usize)) {
        if self.fresh {
            self.heads.clear();
            self.elements.clear();
        }
        for undo in self.undo.drain(undo.min(self.undo.len())..).rev() {
            match undo {
                Undo::Head(key, Some(old)) => _ = self.heads.insert(key, old),
                Undo::Head(key, None) => _ = self.heads.remove(&key),
                Undo::Element(key, Some(old)) => _ = self.elements.insert(key, old),
                Undo::Element(key, None) => _ = self.elements.remove(&key),
            }
        }
        self.events.truncate(said.0);
        self.messages.truncate(said.1);
    }

    /// Several commands begin that may be taken back together. Nothing of them is written before they end.
    #[cfg(feature = "lua")]
    pub fn begin_several(&mut self) -> Mark {
        self.fresh = false;
        Mark {
            undo: self.undo.len(),
            kept: std::mem::replace(&mut self.keeps_undo, true),
            said: self.said(),
        }
    }

    /// They have ended: what they did stays, or is taken back.
    #[cfg(feature = "lua")]
    pub fn end_several(&mut self, mark: &Mark, stays: bool) {
        self.keeps_undo = mark.kept;
        if !stays {
            // What a flush has left behind it is all that can be taken back.
            let from = if self.undo_lost { 0 } else { mark.undo };
            self.undo_until(from, mark.said);
        }
        self.settle();
    }

    /// Whether a script or a transaction has changed and answered so much that it has to end.
    pub fn keeps_too_much(&self) -> bool {
        self.kept as u64 > self.store.memory / PART_OF_SCRIPTS
    }

    /// How many changes are to be written.
    pub fn changes(&self) -> usize {
        self.heads.len() + self.elements.len()
    }

    /// Bytes that one command may gather to store them, which are no answer.
    pub fn most_stored(&self) -> usize {
        let part = usize::try_from(self.store.memory / PART_OF_SCRIPTS).unwrap_or(usize::MAX);
        self.most.max(part)
    }

    /// Whether what is to be written takes as much memory as one batch should.
    pub fn is_large(&self) -> bool {
        self.bytes as u64 >= self.store.memory / PART
    }

    /// Writes what the commands have changed, as one batch, and gives the locks back.
    ///
    /// # Errors
    /// Those of a write; nothing was changed then.
    pub fn commit(&mut self) -> Result<()> {
        if self.held.is_empty() && self.changes() == 0 && self.said() == (0, 0) {
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
            if let Some(tell) = &self.tell {
                if self.tells {
                    tell(Told::Events(&self.events));
                }
                for (channel, text) in &self.messages {
                    tell(Told::Message(channel, text));
                }
            }
        }
        let in_parts = self.in_parts;
        self.forget();
        // Not forgotten where it failed: who may run it again asks.
        self.in_parts = in_parts && written.is_err();
        written
    }

    /// Whether a part of what failed last was written.
    pub fn is_in_parts(&self) -> bool {
        self.in_parts
    }

    /// Forgets what was not written, and gives the locks back.
    pub fn forget(&mut self) {
        self.heads.clear();
        self.elements.clear();
        (self.bytes, self.kept, self.undo_lost) = (0, 0, false);
        self.in_parts = false;
        self.undo.clear();
        (self.undo_from, self.fresh) = (0, !self.keeps_undo);
        self.events.clear();
        self.messages.clear();
        self.said_before = (0, 0);
        self.let_go();
    }

    /// Something was written beside the changes, or is about to be.
    pub fn note_written(&mut self) {
        self.wrote = true;
    }

    /// How many events there are to be told.
    pub fn events_so_far(&self) -> usize {
        self.events.len()
    }

    /// Forgets the events that came after the first this many.
    pub fn forget_events_since(&mut self, events: usize) {
        self.events.truncate(events);
    }

    /// Whether anything was written since the last call.
    pub fn take_wrote(&mut self) -> bool {
        std::mem::take(&mut self.wrote)
    }

    fn write(&mut self) -> Result<()> {
        self.wrote |= self.changes() > 0;
        let keyspace = &self.keyspace;
        if self.elements.is_empty()
            && self.heads.len() == 1
            && let Some((place, value)) = self.heads.drain().next()
        {
            let heads = self.store.make_heads(keyspace, usize::from(place[0]))?;
            return match value {
                Some(value) => heads.table.put(&place[1..], value),
                None => heads.table.delete(&place[1..]),
            };
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
        if self.changes() < MANY && !self.is_large() {
            return Ok(());
        }
        if !self.waits {
            return Err(Stop::Miss);
        }
        match self.whole {
            true => Ok(()),
            false => self.write_out(),
        }
    }

    /// Writes down what was done so far; its keys stay locked.
    pub fn write_out(&mut self) -> Run {
        for event in &self.events {
            self.signals.mark(&event.place);
        }
        self.write()?;
        self.in_parts = true;
        self.heads.clear();
        self.elements.clear();
        self.bytes = 0;
        if self.keeps_undo {
            self.undo.clear();
            self.undo_lost = true;
        }
        self.settle();
        Ok(())
    }

    /// Publishes a message, once what was done with it is written.
    pub fn publish(&mut self, channel: &[u8], text: &[u8]) {
        self.kept += channel.len() + text.len();
        self.messages.push((channel.to_vec(), text.to_vec()));
    }

    /// Says that a key has changed, and how.
    pub fn event(&mut self, class: u8, name: &'static str, key: &[u8]) {
        if self.signals.is_wanted() || self.tells {
            let place = (self.db as u8, key.to_vec());
            self.events.push(Event { place, class, name });
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.leave();
    }
}
