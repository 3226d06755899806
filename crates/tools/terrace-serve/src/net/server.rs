//! A server: its threads, from the start to the stop.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use mio::net::TcpListener;
use mio::{Poll, Waker};
use terrace::{Database, Error, Result};

use super::event_loop::{EventLoop, WAKER};
use super::pool::Pool;
use crate::command::table::{COMMANDS, Table};
use crate::dispatch::Dispatcher;
use crate::host::{Host, locked};
use crate::mailbox::{Mail, Mailbox};
use crate::options::{AppendFsync, ServeOptions};
use crate::planted::{Fault, planted};
use crate::signals::Signals;
use crate::socket;
use crate::store::keyspace::Store;
use crate::store::reaper::{self, Round};

/// Event loops when nothing else is said, at most: more do not help before the log does.
const MOST_LOOPS: usize = 4;
/// Processors for each of them: one works for the clients and the system's part of the network beside it, and two
/// loops that wait for few clients each wake for every command, where one takes what has come together.
const LOOP_PROCESSORS: usize = 2;
/// How often keys that are due are looked for.
const REAP: Duration = Duration::from_millis(100);
/// How long a sync that failed rests before it is tried again.
const SYNC_AGAIN: Duration = Duration::from_millis(100);
/// How often the log is synced with `everysec`.
const SYNC: Duration = Duration::from_secs(1);

/// How long clients that wait for a sync keep a stop waiting; a little more than the loops do.
const STOPPING: Duration = Duration::from_secs(6);
/// How often keys are counted, for who watches.
const COUNT: Duration = Duration::from_secs(10);
/// How long a round through all numbers rests after each step: it is in no hurry.
const ROUND: Duration = Duration::from_millis(1);

/// A clock: milliseconds since 1970.
pub type Clock = Box<dyn Fn() -> u64 + Send + Sync>;

/// A server that runs. Dropped it stops, without waiting for the database to be closed.
pub struct Server {
    host: Arc<Host>,
    pool: Arc<Pool>,
    addresses: Vec<SocketAddr>,
    /// The event loops.
    loops: Vec<JoinHandle<()>>,
    /// All others.
    threads: Vec<JoinHandle<()>>,
}

/// The clock of the operating system.
pub fn wall_clock() -> Clock {
    Box::new(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        now.map_or(0, |now| u64::try_from(now.as_millis()).unwrap_or(u64::MAX))
    })
}

fn failed(what: &str, error: std::io::Error) -> Error {
    Error::Io {
        op: "serving",
        file: what.to_owned(),
        source: Arc::new(error),
    }
}

fn spawn(name: String, run: impl FnOnce() + Send + 'static) -> Result<JoinHandle<()>> {
    let thread = std::thread::Builder::new().name(name).spawn(run);
    thread.map_err(|e| failed("a thread", e))
}

impl Server {
    /// Serves a database.
    ///
    /// # Errors
    /// Options that are not safe or not possible, addresses that cannot be listened on, those of the database.
    pub fn start(db: Database, options: ServeOptions) -> Result<Server> {
        Server::start_with(db, options, wall_clock(), Vec::new())
    }

    /// [`Server::start`] with a clock of one's own, and sockets that listen already.
    ///
    /// # Errors
    /// As [`Server::start`].
    pub fn start_with(
        db: Database,
        mut options: ServeOptions,
        clock: Clock,
        sockets: Vec<std::net::TcpListener>,
    ) -> Result<Server> {
        if !sockets.is_empty() {
            let listened = sockets.iter().map(std::net::TcpListener::local_addr);
            let listened: std::io::Result<_> = listened.collect();
            options.addresses = listened.map_err(|e| failed("a socket that was handed over", e))?;
        }
        options.check().map_err(Error::invalid)?;
        let table = Table::new(&options.renamed).map_err(Error::invalid)?;
        let secured = socket::secured(options.tls.as_ref()).map_err(Error::invalid)?;
        let mut listeners = Vec::new();
        let plain = if sockets.is_empty() {
            options.addresses.as_slice()
        } else {
            &[]
        };
        let within_tls = options.tls.iter().flat_map(|tls| &tls.addresses);
        let plain = plain.iter().map(|address| (address, None));
        for (address, secured) in plain.chain(within_tls.map(|a| (a, secured.clone()))) {
            let bound = TcpListener::bind(*address);
            let bound = bound.map_err(|e| failed(&address.to_string(), e))?;
            listeners.push((bound, secured));
        }
        for socket in sockets {
            let made = socket
                .set_nonblocking(true)
                .map(|()| TcpListener::from_std(socket));
            let made = made.map_err(|e| failed("a socket that was handed over", e))?;
            listeners.push((made, None));
        }
        let addresses: std::io::Result<Vec<_>> = listeners
            .iter()
            .map(|(listener, _)| listener.local_addr())
            .collect();
        let addresses = addresses.map_err(|e| failed("an address", e))?;
        let many = match options.loops {
            0 => std::thread::available_parallelism().map_or(1, |processors| {
                processors.get().div_ceil(LOOP_PROCESSORS).min(MOST_LOOPS)
            }),
            many => many,
        };
        let (mut polls, mut mail) = (Vec::new(), Vec::new());
        for _ in 0..many {
            let poll = Poll::new().map_err(|e| failed("an event loop", e))?;
            let waker = Waker::new(poll.registry(), WAKER);
            mail.push(Mailbox::new(waker.map_err(|e| failed("an event loop", e))?));
            polls.push(poll);
        }
        let mail = Arc::new(mail);
        let wake = {
            let mail = mail.clone();
            move |waiter: crate::signals::Waiter| {
                if let Some(mailbox) = mail.get(waiter.on) {
                    mailbox.send(Mail::Wake(waiter.client));
                }
            }
        };
        let store = Arc::new(Store::open(db, clock)?);
        let signals = Arc::new(Signals::new(Box::new(wake)));
        let pool_threads = options.pool.max(1);
        let names = COMMANDS.iter().map(|command| command.name).collect();
        let host = Arc::new(Host::new(options, store, signals, mail, names));
        #[cfg(feature = "lua")]
        host.load_libraries()?;
        let port = addresses.first().map_or(0, SocketAddr::port);
        host.port.store(port.into(), Ordering::Relaxed);
        let watched = Arc::downgrade(&host);
        host.store
            .db
            .show_figures(move || crate::figures::figures(&watched));
        let dispatcher = Arc::new(Dispatcher::new(host.clone(), table));
        let pool = Arc::new(Pool::default());
        let mut server = Server {
            host,
            pool: pool.clone(),
            addresses,
            loops: Vec::new(),
            threads: Vec::new(),
        };
        for (on, poll) in polls.into_iter().enumerate() {
            let listeners = if on == 0 {
                std::mem::take(&mut listeners)
            } else {
                Vec::new()
            };
            let (dispatcher, pool) = (dispatcher.clone(), pool.clone());
            let host = server.host.clone();
            let run = move || {
                if EventLoop::new(on, poll, dispatcher, pool, listeners)
                    .run()
                    .is_err()
                {
                    host.stop();
                }
            };
            let thread = spawn(format!("serve-{on}"), run)?;
            server.loops.push(thread);
        }
        for i in 0..pool_threads {
            let (dispatcher, pool) = (dispatcher.clone(), pool.clone());
            let thread = spawn(format!("serve-pool-{i}"), move || pool.run(&dispatcher))?;
            server.threads.push(thread);
        }
        let host = server.host.clone();
        let syncs = spawn("serve-sync".into(), move || run_syncs(&host))?;
        server.threads.push(syncs);
        let reaper = spawn("serve-reaper".into(), move || run_reaper(&dispatcher))?;
        server.threads.push(reaper);
        Ok(server)
    }

    /// Where it listens, within TLS last.
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Whether it stops, by itself or because a client or a signal has asked for it.
    pub fn is_stopping(&self) -> bool {
        self.host.is_stopping()
    }

    /// What it counts, for who shows it.
    pub fn host(&self) -> &Arc<Host> {
        &self.host
    }

    /// Answers what was begun, sends all clients away, and closes the database.
    ///
    /// # Errors
    /// Those of [`Database::close`].
    pub fn stop(mut self) -> Result<()> {
        self.end();
        self.host.store.db.clone().close()
    }

    fn end(&mut self) {
        self.host.stop();
        if planted(Fault::PoolEndsFirst) {
            self.pool.end();
        }
        // One that has panicked has said so.
        for thread in self.loops.drain(..) {
            let _ = thread.join();
        }
        // What the loops have handed over until their end was answered: they waited for it.
        self.pool.end();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

/// Syncs for those who wait for it, and each second for the others; until the last client is gone.
fn run_syncs(host: &Host) {
    let mut last = Instant::now();
    let mut stop_by = None;
    loop {
        if host.is_stopping() {
            let by = *stop_by.get_or_insert_with(|| Instant::now() + STOPPING);
            if locked(&host.clients).is_empty() || Instant::now() >= by {
                return;
            }
        }
        let asked = host.syncs.wait(Duration::from_millis(100));
        let second = host.appendfsync() == AppendFsync::EverySec && last.elapsed() >= SYNC;
        if asked.is_none() && !second {
            continue;
        }
        last = Instant::now();
        let synced = host.store.db.sync().is_ok();
        match (synced, asked) {
            (true, Some(asked)) => host.syncs.reached(asked),
            (true, None) => {}
            (false, _) => host.sync_failed.store(true, Ordering::SeqCst),
        }
        if asked.is_some() {
            host.mail
                .iter()
                .for_each(|mailbox| mailbox.send(Mail::Synced));
        }
        if !synced {
            std::thread::sleep(SYNC_AGAIN);
        }
    }
}

/// Removes what is due, and what is left over.
fn run_reaper(dispatcher: &Dispatcher) {
    let host = &dispatcher.host;
    let mut work = dispatcher.new_work(true);
    let mut round = Round::default();
    let mut more = false;
    let mut counted: Option<Instant> = None;
    while !host.is_stopping() {
        if !more {
            std::thread::sleep(REAP);
        }
        work.tells = host.settings.notify.load(Ordering::Relaxed) != 0;
        more = false;
        // What fails is tried again: a full disk may have room later.
        if let Ok(expired) = reaper::expire(&mut work) {
            host.counts
                .expired
                .fetch_add(expired.expired, Ordering::Relaxed);
            more |= expired.more;
        }
        if let Ok(swept) = reaper::sweep(&mut work) {
            more |= swept.more;
        }
        if round.step(&mut work).unwrap_or(false) {
            more = true;
            std::thread::sleep(ROUND);
        }
        host.counts.note_fields(&mut work);
        if counted.is_none_or(|at| at.elapsed() >= COUNT) {
            // What cannot be counted now is counted later.
            let _ = host.store.count_keys();
            counted = Some(Instant::now());
        }
        reaper::look_at_size(&work, host.options.max_data);
    }
}
