//! What all clients share: the keys, the settings, who else is there, what was counted.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{
    AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering,
};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use crate::counts::{Counted, Counts};
use crate::mailbox::{Mail, Mailbox};
use crate::options::{AppendFsync, ServeOptions};
use crate::session::ClientInfo;
use crate::signals::Signals;
use crate::store::keyspace::Store;
use crate::syncs::Syncs;

/// Locks; what a thread that has panicked left there is whole.
pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A command that took long.
#[derive(Clone, Debug)]
pub struct Slow {
    /// Its number.
    pub id: u64,
    /// When, in seconds since 1970.
    pub at: u64,
    /// For how long, in microseconds.
    pub micros: u64,
    /// Its name, and how many arguments it had: their bytes are not shown to others.
    pub command: String,
    /// Who.
    pub client: String,
    /// Its name.
    pub name: String,
}

/// What can be changed while the server runs.
pub struct Settings {
    /// When answers are durable.
    pub appendfsync: AtomicU8,
    /// Seconds after which an idle client is sent away.
    pub timeout: AtomicU64,
    /// Most clients.
    pub max_clients: AtomicUsize,
    /// Microseconds from which on a command is slow; negative for never.
    pub slow: AtomicI64,
    /// Slow commands that are kept.
    pub slow_kept: AtomicUsize,
    /// Milliseconds for which a script may run; 0 for as long as it takes.
    pub script_limit: AtomicU64,
    /// Classes of keyspace events that are told.
    pub notify: AtomicU32,
    /// The password.
    pub password: Mutex<Option<String>>,
}

/// What all clients share.
pub struct Host {
    /// How it was started.
    pub options: ServeOptions,
    /// What can be changed.
    pub settings: Settings,
    /// The keys.
    pub store: Arc<Store>,
    /// Who waits and watches.
    pub signals: Arc<Signals>,
    /// Syncs that answers wait for.
    pub syncs: Syncs,
    /// The mail of the event loops.
    pub mail: Arc<Vec<Mailbox>>,
    /// Clients.
    pub clients: Mutex<BTreeMap<u64, Arc<ClientInfo>>>,
    next_client: AtomicU64,
    /// The names of the commands.
    pub names: Vec<&'static str>,
    /// What was counted of each command.
    pub counted: Vec<Counted>,
    /// What was counted of everything.
    pub counts: Counts,
    /// Slow commands, the newest first.
    pub slow: Mutex<VecDeque<Slow>>,
    /// Bytes of all buffers.
    pub buffered: AtomicUsize,
    /// Bytes of those of them that the pool has.
    pub parked: AtomicUsize,
    /// When it was started.
    pub started: Instant,
    /// A name of this run.
    pub run_id: String,
    /// Whether it is to stop.
    pub stopping: AtomicBool,
    /// The port that it listens on.
    pub port: AtomicU32,
    /// When everything was last written, in seconds since 1970.
    pub last_save: AtomicU64,
    /// Whether the last sync failed.
    pub sync_failed: AtomicBool,
    /// Who listens to what is published.
    pub channels: crate::channels::Channels,
    /// Functions that clients call.
    #[cfg(feature = "lua")]
    pub libraries: Mutex<crate::library::Libraries>,
    /// Scripts by their names.
    #[cfg(feature = "lua")]
    pub scripts: Mutex<crate::scripts::Scripts>,
    next_slow: AtomicU64,
}

/// The part of the buffers' memory that the texts of scripts may take.
#[cfg(feature = "lua")]
const PART_OF_SCRIPTS: usize = 4;

/// Seconds since 1970.
pub fn seconds() -> u64 {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    now.map_or(0, |now| now.as_secs())
}

impl Host {
    /// Of a server that starts.
    pub fn new(
        options: ServeOptions,
        store: Arc<Store>,
        signals: Arc<Signals>,
        mail: Arc<Vec<Mailbox>>,
        names: Vec<&'static str>,
    ) -> Host {
        let settings = Settings {
            appendfsync: AtomicU8::new(options.appendfsync as u8),
            timeout: AtomicU64::new(options.timeout),
            max_clients: AtomicUsize::new(options.max_clients),
            slow: AtomicI64::new(10_000),
            slow_kept: AtomicUsize::new(128),
            script_limit: AtomicU64::new(5000),
            notify: AtomicU32::new(crate::channels::classes(&options.notify).unwrap_or(0)),
            password: Mutex::new(options.password.clone()),
        };
        let run_id = (0..5).map(|_| format!("{:08x}", crate::random::random() as u32));
        Host {
            settings,
            store,
            signals,
            syncs: Syncs::default(),
            mail,
            clients: Mutex::default(),
            next_client: AtomicU64::new(1),
            counted: names.iter().map(|_| Counted::default()).collect(),
            names,
            counts: Counts::default(),
            slow: Mutex::default(),
            buffered: AtomicUsize::new(0),
            parked: AtomicUsize::new(0),
            started: Instant::now(),
            run_id: run_id.collect(),
            stopping: AtomicBool::new(false),
            port: AtomicU32::new(0),
            last_save: AtomicU64::new(seconds()),
            sync_failed: AtomicBool::new(false),
            channels: crate::channels::Channels::default(),
            #[cfg(feature = "lua")]
            libraries: Mutex::default(),
            #[cfg(feature = "lua")]
            scripts: Mutex::new(crate::scripts::Scripts::new(
                options.max_buffers / PART_OF_SCRIPTS,
            )),
            next_slow: AtomicU64::new(0),
            options,
        }
    }

    /// When answers are durable.
    pub fn appendfsync(&self) -> AppendFsync {
        match self.settings.appendfsync.load(Ordering::Relaxed) {
            0 => AppendFsync::No,
            2 => AppendFsync::Always,
            _ => AppendFsync::EverySec,
        }
    }

    /// The number of a client that has come.
    pub fn new_client(&self) -> u64 {
        self.next_client.fetch_add(1, Ordering::Relaxed)
    }

    /// Tells the event loop of a client something.
    pub fn tell(&self, on: usize, mail: Mail) {
        if let Some(mailbox) = self.mail.get(on) {
            mailbox.send(mail);
        }
    }

    /// Tells a client what was published. One for which its loop has no room any more is sent away.
    pub fn say(&self, on: usize, client: u64, said: Arc<[Vec<u8>; 2]>) {
        let Some(mailbox) = self.mail.get(on) else {
            return;
        };
        if mailbox.offer(Mail::Said(client, said)) {
            return;
        }
        if let Some(info) = locked(&self.clients).get(&client)
            && !info.killed.swap(true, Ordering::SeqCst)
        {
            self.counts.slow_readers.fetch_add(1, Ordering::Relaxed);
            mailbox.send(Mail::Look(client));
        }
    }

    /// Notes a command that took long.
    pub fn note_slow(&self, took: Duration, name: &str, arguments: usize, client: &ClientInfo) {
        let least = self.settings.slow.load(Ordering::Relaxed);
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        if least < 0 || micros < least.unsigned_abs() {
            return;
        }
        let slow = Slow {
            id: self.next_slow.fetch_add(1, Ordering::Relaxed),
            at: seconds(),
            micros,
            command: format!("{name} ({arguments} arguments)"),
            client: client.address.clone(),
            name: locked(&client.name).clone(),
        };
        let mut all = locked(&self.slow);
        all.push_front(slow);
        all.truncate(self.settings.slow_kept.load(Ordering::Relaxed));
    }

    /// Takes the libraries of functions that the database has.
    ///
    /// # Errors
    /// Those of reading; a library that is broken.
    #[cfg(feature = "lua")]
    pub fn load_libraries(&self) -> terrace::Result<()> {
        let mut libraries = locked(&self.libraries);
        for source in self.store.libraries()? {
            let library = crate::library::library(&source);
            let added = library.and_then(|library| libraries.add(library, true));
            added
                .map_err(|why| terrace::Error::invalid(format!("a library of functions: {why}")))?;
        }
        Ok(())
    }

    /// Bytes of one answer, or of what is gathered for it: a client with more would be sent away.
    pub fn longest_answer(&self) -> usize {
        self.options.max_buffers - self.options.max_buffers / 8
    }

    /// Bytes that the pool may have before clients are read from no more.
    pub fn most_parked(&self) -> usize {
        self.options.max_buffers / 2
    }

    /// Asks all threads to stop.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::SeqCst);
        self.mail.iter().for_each(Mailbox::wake);
        self.syncs.wake();
    }

    /// Whether it is to stop.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::SeqCst)
    }
}
