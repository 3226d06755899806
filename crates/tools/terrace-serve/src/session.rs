//! What a client has said about itself, and where it stands.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use crate::proto::parse::Span;
use crate::signals::{Place, Watch};

/// A client, as others may see it.
#[derive(Debug)]
pub struct ClientInfo {
    /// Its number.
    pub id: u64,
    /// Its event loop.
    pub on: usize,
    /// Its address.
    pub address: String,
    /// The address that it has reached.
    pub local: String,
    /// When it came.
    pub since: Instant,
    /// When it last said something, in milliseconds after it came.
    pub active: AtomicU64,
    /// Its name.
    pub name: Mutex<String>,
    /// Name and version of its library.
    pub library: Mutex<(String, String)>,
    /// Its database.
    pub db: AtomicU8,
    /// Its last command: its place in the table, counted from 1; 0 for none.
    pub command: AtomicUsize,
    /// The version of the protocol.
    pub protocol: AtomicU8,
    /// Commands in its transaction, and whether it has one: -1 as Redis says it.
    pub queued: AtomicU64,
    /// Channels and patterns.
    pub channels: AtomicU64,
    /// Whether it waits for an element.
    pub blocked: AtomicBool,
    /// Whether it is to be sent away.
    pub killed: AtomicBool,
    /// Whether it is to be told that it waits no longer: by a time-out, or an error.
    pub unblocked: AtomicU8,
}

/// A command of a transaction.
#[derive(Clone, Debug)]
pub struct Queued {
    /// Which one.
    pub command: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// Its arguments in them.
    pub spans: Vec<Span>,
}

/// A transaction that is being said.
#[derive(Debug, Default)]
pub struct Multi {
    /// Its commands.
    pub queue: Vec<Queued>,
    /// Bytes of memory that they take, about.
    pub bytes: usize,
    /// Whether one of them was refused.
    pub refused: bool,
    /// Whether they took too much memory; they are forgotten then.
    pub too_large: bool,
}

/// What is watched.
#[derive(Debug, Default)]
pub struct Watched {
    /// The mark that changes leave.
    pub watch: Arc<Watch>,
    /// Each key, and when it expires if it was there.
    pub places: Vec<(Place, Option<u64>)>,
    /// What the keys held; only for a planted fault.
    pub values: Vec<Vec<u8>>,
}

/// What becomes of answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Answers {
    /// They are sent.
    #[default]
    Sent,
    /// They are not.
    Dropped,
    /// The one of the next command is not.
    SkipNext,
    /// The one of this command is not.
    SkipThis,
}

/// Where a client stands.
#[derive(Debug)]
pub struct Session {
    /// Its number.
    pub id: u64,
    /// Its event loop.
    pub on: usize,
    /// Its database.
    pub db: usize,
    /// Whether it has said the password, if there is one.
    pub trusted: bool,
    /// Its transaction.
    pub multi: Option<Multi>,
    /// Whether a transaction or a script runs now.
    pub in_exec: bool,
    /// What it watches.
    pub watched: Watched,
    /// What becomes of answers.
    pub answers: Answers,
    /// Whether it is to be sent away, once it has its answers.
    pub closing: bool,
    /// Channels that it listens to.
    pub channels: BTreeSet<Vec<u8>>,
    /// Patterns of channels that it listens to.
    pub patterns: BTreeSet<Vec<u8>>,
    /// When it may try another password.
    pub slowed: Option<Instant>,
    /// From where on each of the streams is read that it waits for.
    pub waits_from: Vec<(u64, u64)>,
    /// What others may see.
    pub info: Arc<ClientInfo>,
}

impl Session {
    /// A client that has come.
    pub fn new(info: Arc<ClientInfo>, trusted: bool) -> Session {
        Session {
            id: info.id,
            on: info.on,
            db: 0,
            trusted,
            multi: None,
            in_exec: false,
            watched: Watched::default(),
            answers: Answers::Sent,
            closing: false,
            channels: BTreeSet::new(),
            patterns: BTreeSet::new(),
            slowed: None,
            waits_from: Vec::new(),
            info,
        }
    }

    /// Channels and patterns that it listens to.
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len()
    }

    /// Chooses a database.
    pub fn select(&mut self, db: usize) {
        self.db = db;
        self.info.db.store(db as u8, Ordering::Relaxed);
    }
}
