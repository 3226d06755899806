//! Who wants to know that a key changes: those who watch it for a transaction, and those who wait for an element.
//!
//! Invariants: both come to the tables while they hold the key's stripe, and who changes a key tells them before
//! it gives the stripe back; so none misses a change. Waiters of a key are served first come first served:
//! one of each kind is woken at a time, and passes it on when it has looked.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::kind::Kind;

/// A key of a numbered database.
pub type Place = (u8, Vec<u8>);

/// What a client watches.
#[derive(Debug, Default)]
pub struct Watch {
    changed: AtomicBool,
}

impl Watch {
    /// Whether anything of it was changed.
    pub fn is_changed(&self) -> bool {
        self.changed.load(Ordering::SeqCst)
    }
}

/// A client that waits: the number of its event loop, and its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// Its event loop.
    pub on: usize,
    /// Its number.
    pub client: u64,
    /// What it waits for: values of another kind are nothing to it.
    pub kind: Kind,
    /// Whether all who wait are to look: what they wait for is not taken away.
    pub all: bool,
}

/// The tables.
pub struct Signals {
    interest: AtomicUsize,
    watched: Mutex<HashMap<Place, Vec<Arc<Watch>>>>,
    waiting: Mutex<HashMap<Place, VecDeque<Waiter>>>,
    wake: Box<dyn Fn(Waiter) + Send + Sync>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Signals {
    /// With no waiters; `wake` tells a waiter's event loop to look again.
    pub fn new(wake: Box<dyn Fn(Waiter) + Send + Sync>) -> Signals {
        Signals {
            interest: AtomicUsize::new(0),
            watched: Mutex::default(),
            waiting: Mutex::default(),
            wake,
        }
    }

    /// Whether any client wants to know anything.
    pub fn is_wanted(&self) -> bool {
        self.interest.load(Ordering::SeqCst) > 0
    }

    /// Watches a key; the caller holds its stripe.
    pub fn watch(&self, place: Place, watch: &Arc<Watch>) {
        self.interest.fetch_add(1, Ordering::SeqCst);
        locked(&self.watched)
            .entry(place)
            .or_default()
            .push(watch.clone());
    }

    /// Watches keys no longer.
    pub fn unwatch(&self, places: &[Place], watch: &Arc<Watch>) {
        let mut watched = locked(&self.watched);
        for place in places {
            if let Some(watches) = watched.get_mut(place)
                && let Some(at) = watches.iter().position(|w| Arc::ptr_eq(w, watch))
            {
                watches.swap_remove(at);
                if watches.is_empty() {
                    watched.remove(place);
                }
                self.interest.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    /// A key is about to change.
    pub fn mark(&self, place: &Place) {
        if let Some(watches) = locked(&self.watched).get(place) {
            for watch in watches {
                watch.changed.store(true, Ordering::SeqCst);
            }
        }
    }

    /// All keys of databases are about to change, or those of one.
    pub fn mark_all(&self, db: Option<u8>) {
        for (place, watches) in locked(&self.watched).iter() {
            if db.is_none_or(|db| db == place.0) {
                for watch in watches {
                    watch.changed.store(true, Ordering::SeqCst);
                }
            }
        }
    }

    /// Waits for keys; the caller holds their stripes.
    pub fn wait(&self, places: &[Place], waiter: Waiter) {
        let mut waiting = locked(&self.waiting);
        for place in places {
            let queue = waiting.entry(place.clone()).or_default();
            if !queue.iter().any(|w| w.client == waiter.client) {
                self.interest.fetch_add(1, Ordering::SeqCst);
                queue.push_back(waiter);
            }
        }
    }

    /// Waits no longer: it was served, gave up, or is gone. Who comes next is woken.
    pub fn wait_no_more(&self, places: &[Place], client: u64) {
        let mut next = Vec::new();
        {
            let mut waiting = locked(&self.waiting);
            for place in places {
                if let Some(queue) = waiting.get_mut(place)
                    && let Some(at) = queue.iter().position(|w| w.client == client)
                    && let Some(gone) = queue.remove(at)
                {
                    self.interest.fetch_sub(1, Ordering::SeqCst);
                    next.extend(queue.iter().find(|waiter| waiter.kind == gone.kind));
                    if queue.is_empty() {
                        waiting.remove(place);
                    }
                }
            }
        }
        next.into_iter().for_each(|waiter| (self.wake)(waiter));
    }

    /// Whether others than `client` wait for a value of this kind before it.
    pub fn others_wait(&self, place: &Place, client: u64, kind: Kind) -> bool {
        if !self.is_wanted() {
            return false;
        }
        let waiting = locked(&self.waiting);
        let first = waiting
            .get(place)
            .and_then(|queue| queue.iter().find(|waiter| waiter.kind == kind));
        first.is_some_and(|first| first.client != client && !first.all)
    }

    /// A key has changed: who waits longest for it looks, of those who wait for each kind.
    pub fn ready(&self, place: &Place) {
        let mut woken: Vec<Waiter> = Vec::new();
        if let Some(queue) = locked(&self.waiting).get(place) {
            for waiter in queue {
                if waiter.all || woken.iter().all(|first| first.kind != waiter.kind) {
                    woken.push(*waiter);
                }
            }
        }
        woken.into_iter().for_each(|waiter| (self.wake)(waiter));
    }

    /// Any key of a database has changed.
    pub fn ready_all(&self, db: u8) {
        let places: Vec<Place> = locked(&self.waiting).keys().cloned().collect();
        for place in places.iter().filter(|place| place.0 == db) {
            self.ready(place);
        }
    }

    /// Clients that wait.
    pub fn waiting(&self) -> usize {
        let waiting = locked(&self.waiting);
        let clients = waiting.values().flatten().map(|waiter| waiter.client);
        clients.collect::<HashSet<u64>>().len()
    }
}
