//! An event loop: its clients' sockets, and their commands as far as memory answers them.
//!
//! Invariants: a client's commands are run by one thread at a time, in their order; while the pool has them nothing
//! is read; a client that does not read is answered no more until it does, so what it has not read is bounded.

use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use mio::net::TcpListener;
use mio::{Events, Interest, Poll, Token};
use rustc_hash::FxHashMap;

use super::peer::{Got, Peer, READ, Spares};
use super::pool::Pool;
use crate::dispatch::{Dispatcher, Outcome};
use crate::host::{Host, locked};
use crate::line::Line;
use crate::mailbox::Mail;
use crate::planted::{Fault, planted};
use crate::session::{ClientInfo, Session};
use crate::socket::{Secured, Socket};
use crate::store::work::Work;

/// The token of the waker.
pub const WAKER: Token = Token(usize::MAX);
/// Tokens of clients begin here; below it are listeners.
const CLIENTS: usize = 64;
/// How long the loop sleeps at most.
const TICK: Duration = Duration::from_millis(500);
/// Bytes of what was published that a client may leave unread.
const UNREAD: usize = 8 << 20;
/// Buffers of a client that count as large when all of them are too many, if its share is not less.
const LARGE: usize = 64 << 10;
/// How often a client is read before others have their turn, for one that always has more would keep the loop.
const READS: usize = 16;
/// A step on the loop that took so long leaves what may take long to the pool for a while.
const TOO_LONG: Duration = Duration::from_millis(1);
/// For so long.
const HURRY: Duration = Duration::from_secs(1);
/// How long clients that are being answered keep a stop waiting.
const STOPPING: Duration = Duration::from_secs(5);

/// An event loop.
pub struct EventLoop {
    on: usize,
    poll: Poll,
    dispatcher: Arc<Dispatcher>,
    pool: Arc<Pool>,
    listeners: Vec<(TcpListener, Secured)>,
    /// By numbers that the server gives out, so their hash needs no secret.
    peers: FxHashMap<u64, Peer>,
    /// When clients that wait give up.
    deadlines: BTreeSet<(Instant, u64)>,
    work: Work,
    scratch: Vec<u8>,
    spares: Spares,
    hurries_until: Option<Instant>,
    /// Clients that are read from again once the pool has less to do.
    later: Vec<u64>,
    /// The same as the dispatcher's, to be had without a counter that other threads share.
    host: Rc<Shared>,
    counts: Counts,
}

/// What all loops share, counted by each for itself.
struct Shared(Arc<Host>);

impl std::ops::Deref for Shared {
    type Target = Host;

    fn deref(&self) -> &Host {
        &self.0
    }
}

/// What was counted since the loop last told the others.
#[derive(Default)]
struct Counts {
    read: u64,
    written: u64,
    buffered: isize,
}

impl Counts {
    fn tell(&mut self, host: &Host) {
        if self.read > 0 {
            host.counts.read.fetch_add(self.read, Ordering::Relaxed);
        }
        if self.written > 0 {
            host.counts
                .written
                .fetch_add(self.written, Ordering::Relaxed);
        }
        if self.buffered != 0 {
            // What wraps around is subtracted.
            host.buffered
                .fetch_add(self.buffered as usize, Ordering::Relaxed);
        }
        *self = Counts::default();
    }
}

impl EventLoop {
    /// The loop with a number; the first one has the listeners.
    pub fn new(
        on: usize,
        poll: Poll,
        dispatcher: Arc<Dispatcher>,
        pool: Arc<Pool>,
        listeners: Vec<(TcpListener, Secured)>,
    ) -> EventLoop {
        EventLoop {
            on,
            poll,
            work: dispatcher.new_work(false),
            host: Rc::new(Shared(dispatcher.host.clone())),
            counts: Counts::default(),
            dispatcher,
            pool,
            listeners,
            peers: FxHashMap::default(),
            deadlines: BTreeSet::new(),
            scratch: vec![0; READ],
            spares: Spares::default(),
            hurries_until: None,
            later: Vec::new(),
        }
    }

    /// Serves until the server stops.
    ///
    /// # Errors
    /// Those of the operating system when it cannot begin.
    pub fn run(mut self) -> std::io::Result<()> {
        let mut events = Events::with_capacity(1024);
        for (i, (listener, _)) in self.listeners.iter_mut().enumerate() {
            let registry = self.poll.registry();
            registry.register(listener, Token(i), Interest::READABLE)?;
        }
        let mut last_look = Instant::now();
        let mut stop_by = None;
        loop {
            let now = Instant::now();
            let next = self.deadlines.first().map(|(at, _)| at.duration_since(now));
            let timeout = next.map_or(TICK, |next| next.min(TICK));
            if let Err(e) = self.poll.poll(&mut events, Some(timeout))
                && e.kind() != std::io::ErrorKind::Interrupted
            {
                return Err(e);
            }
            for event in &events {
                match event.token() {
                    WAKER => {}
                    Token(i) if i < CLIENTS => self.accept(i),
                    Token(i) => {
                        let id = (i - CLIENTS) as u64;
                        if let Some(peer) = self.peers.get_mut(&id) {
                            peer.readable |= event.is_readable() || event.is_read_closed();
                            peer.ended |= event.is_read_closed();
                            self.drive(id);
                        }
                    }
                }
            }
            self.read_mail();
            self.read_later();
            let now = Instant::now();
            self.give_up(now);
            self.counts.tell(&self.host);
            if now.duration_since(last_look) >= TICK {
                last_look = now;
                self.send_idle_away();
                (0..self.listeners.len()).for_each(|i| self.accept(i));
            }
            if self.dispatcher.host.is_stopping() {
                self.listeners.clear();
                let by = *stop_by.get_or_insert(now + STOPPING);
                let busy = |peer: &Peer| peer.line.is_none() || peer.unsent() > 0;
                let idle: Vec<u64> = self
                    .peers
                    .iter()
                    .filter(|(_, p)| !busy(p))
                    .map(|(id, _)| *id)
                    .collect();
                idle.into_iter().for_each(|id| self.close(id));
                if self.peers.is_empty() || now >= by {
                    break;
                }
            }
        }
        let left: Vec<u64> = self.peers.keys().copied().collect();
        left.into_iter().for_each(|id| self.close(id));
        self.counts.tell(&self.host);
        Ok(())
    }

    fn accept(&mut self, i: usize) {
        loop {
            let Some((listener, secured)) = self.listeners.get(i) else {
                return;
            };
            let (socket, address) = match listener.accept() {
                Ok(accepted) => accepted,
                // That one was gone before; there may be others behind it.
                Err(e) if e.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                // None is left, or no file is free: then it is tried again in a while.
                _ => return,
            };
            let host = self.host.clone();
            let _ = socket.set_nodelay(true);
            let Ok(socket) = Socket::new(socket, secured) else {
                continue;
            };
            host.counts.connections.fetch_add(1, Ordering::Relaxed);
            let mut clients = locked(&host.clients);
            if clients.len() >= host.settings.max_clients.load(Ordering::Relaxed) {
                host.counts.rejected.fetch_add(1, Ordering::Relaxed);
                let mut socket = socket;
                use std::io::Write;
                let _ = socket.write(b"-ERR max number of clients reached\r\n");
                continue;
            }
            let id = host.new_client();
            let on = id as usize % host.mail.len();
            let info = Arc::new(ClientInfo {
                id,
                on,
                address: address.to_string(),
                local: socket
                    .local_addr()
                    .map_or_else(|_| String::new(), |a| a.to_string()),
                since: Instant::now(),
                active: Default::default(),
                name: Default::default(),
                library: Default::default(),
                db: Default::default(),
                command: Default::default(),
                protocol: 2.into(),
                queued: Default::default(),
                channels: Default::default(),
                blocked: Default::default(),
                killed: Default::default(),
                unblocked: Default::default(),
            });
            clients.insert(id, info.clone());
            drop(clients);
            match on == self.on {
                true => self.came(socket, info),
                false => host.tell(on, Mail::Came(socket, info)),
            }
        }
    }

    fn came(&mut self, mut socket: Socket, info: Arc<ClientInfo>) {
        let id = info.id;
        let host = &self.dispatcher.host;
        let token = Token(id as usize + CLIENTS);
        if socket.register(self.poll.registry(), token).is_err() {
            locked(&host.clients).remove(&id);
            return;
        }
        let trusted = locked(&host.settings.password).is_none();
        let line = Box::new(Line::new(Session::new(info, trusted)));
        self.peers.insert(id, Peer::new(socket, line));
        self.drive(id);
    }

    fn read_mail(&mut self) {
        for mail in self.dispatcher.host.mail[self.on].take() {
            match mail {
                Mail::Came(socket, info) => self.came(socket, info),
                Mail::Back(id, line) => self.back(id, line),
                Mail::Wake(id) => self.wake(id),
                Mail::Said(id, said) => self.said(id, &said),
                Mail::Synced => self.synced(),
                Mail::Look(id) => self.look(id),
                Mail::More(id) => self.more(id),
            }
        }
    }

    /// Reads from those who had to wait for that.
    fn read_later(&mut self) {
        let parked = self.host.parked.load(Ordering::Relaxed);
        if !self.later.is_empty() && parked <= self.host.most_parked() {
            for id in std::mem::take(&mut self.later) {
                self.more(id);
            }
        }
    }

    fn back(&mut self, id: u64, mut line: Box<Line>) {
        let (bytes, most) = (std::mem::take(&mut line.parked), self.host.most_parked());
        let before = self.host.parked.fetch_sub(bytes, Ordering::Relaxed);
        if before > most && before - bytes <= most {
            self.host
                .mail
                .iter()
                .for_each(crate::mailbox::Mailbox::wake);
        }
        let Some(peer) = self.peers.get_mut(&id) else {
            self.dispatcher.forget(&mut line);
            return;
        };
        note(&mut self.deadlines, &mut peer.until, id, &line);
        let said = std::mem::take(&mut peer.said);
        line.out.raw(&said);
        let woken = std::mem::take(&mut peer.woken);
        let waits = line.blocked.is_some() || planted(Fault::WokenUnanswered);
        peer.line = Some(line);
        match woken && waits {
            true => {
                // It may be told to wait no more, or may get what it waits for.
                self.look(id);
                self.wake(id);
            }
            // Who was served meanwhile has an answer to be sent.
            false => self.drive(id),
        }
    }

    /// A client may get what it waits for.
    fn wake(&mut self, id: u64) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let Some(line) = &mut peer.line else {
            peer.woken = true;
            return;
        };
        if line.blocked.is_none() {
            return;
        }
        self.go_on(id, true);
    }

    fn said(&mut self, id: u64, said: &[Vec<u8>; 2]) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        match &mut peer.line {
            Some(line) => {
                let bytes = &said[usize::from(line.out.third)];
                line.out.raw(bytes);
            }
            None => peer.said.extend_from_slice(&said[usize::from(peer.third)]),
        }
        if peer.unsent() > UNREAD {
            let host = &self.dispatcher.host;
            host.counts.slow_readers.fetch_add(1, Ordering::Relaxed);
            self.close(id);
            return;
        }
        self.drive(id);
    }

    fn synced(&mut self) {
        let host = self.host.clone();
        let failed = host.sync_failed.load(Ordering::SeqCst);
        let held: Vec<u64> = self
            .peers
            .iter()
            .filter(|(_, peer)| peer.line.as_ref().is_some_and(|line| line.held.is_some()))
            .map(|(id, _)| *id)
            .collect();
        for id in held {
            let Some(line) = self.peers.get_mut(&id).and_then(|peer| peer.line.as_mut()) else {
                continue;
            };
            if line.held.is_some_and(|number| host.syncs.is_done(number)) {
                line.held = None;
                self.drive(id);
            } else if failed {
                // What it has written may be lost: it is not told that it was written.
                line.out.bytes.clear();
                self.close(id);
            }
        }
    }

    fn look(&mut self, id: u64) {
        let Some(peer) = self.peers.get_mut(&id) else {
            return;
        };
        let Some(line) = &mut peer.line else {
            peer.woken = true;
            return;
        };
        let info = line.session.info.clone();
        if info.killed.load(Ordering::SeqCst) {
            self.close(id);
            return;
        }
        let unblocked = info.unblocked.swap(0, Ordering::SeqCst);
        if unblocked > 0 && line.blocked.is_some() {
            self.dispatcher.give_up(line, unblocked == 2);
            self.drive(id);
        }
    }

    fn more(&mut self, id: u64) {
        if let Some(peer) = self.peers.get_mut(&id) {
            peer.returns = false;
            self.drive(id);
        }
    }

    fn give_up(&mut self, now: Instant) {
        while let Some((at, id)) = self.deadlines.first().copied().filter(|(at, _)| *at <= now) {
            self.deadlines.remove(&(at, id));
            let Some(peer) = self.peers.get_mut(&id) else {
                continue;
            };
            peer.until = None;
            let Some(line) = &mut peer.line else {
                continue;
            };
            if line
                .blocked
                .as_ref()
                .is_some_and(|blocked| blocked.until == Some(at))
            {
                self.dispatcher.give_up(line, false);
                self.drive(id);
            }
        }
    }

    fn send_idle_away(&mut self) {
        let timeout = self
            .dispatcher
            .host
            .settings
            .timeout
            .load(Ordering::Relaxed);
        if timeout == 0 {
            return;
        }
        let idle = |peer: &Peer| {
            peer.line.as_ref().is_some_and(|line| {
                let info = &line.session.info;
                let age = info.since.elapsed().as_millis() as u64;
                let idle = age.saturating_sub(info.active.load(Ordering::Relaxed));
                idle >= timeout * 1000
                    && line.blocked.is_none()
                    && line.session.subscriptions() == 0
            })
        };
        let away: Vec<u64> = self
            .peers
            .iter()
            .filter(|(_, p)| idle(p))
            .map(|(id, _)| *id)
            .collect();
        away.into_iter().for_each(|id| self.close(id));
    }

    fn close(&mut self, id: u64) {
        let Some(mut peer) = self.peers.remove(&id) else {
            return;
        };
        if let Some(until) = peer.until.take() {
            self.deadlines.remove(&(until, id));
        }
        let host = &self.dispatcher.host;
        self.counts.buffered -= peer.counted as isize;
        if let Some(line) = &mut peer.line {
            self.dispatcher.forget(line);
        }
        locked(&host.clients).remove(&id);
        let _ = peer.write(&mut self.spares);
        peer.socket.close(self.poll.registry());
    }

    /// Goes on with a client, wherever it stands.
    fn drive(&mut self, id: u64) {
        self.go_on(id, false);
    }

    fn go_on(&mut self, id: u64, woken: bool) {
        let (mut woken, mut reads) = (woken, 0);
        let host = self.host.clone();
        loop {
            let Some(peer) = self.peers.get_mut(&id) else {
                return;
            };
            let Some(line) = &mut peer.line else {
                return;
            };
            woken |= std::mem::take(&mut peer.woken);
            if line.session.info.killed.load(Ordering::Relaxed) {
                return self.close(id);
            }
            let held = line.held.is_some() && !planted(Fault::AlwaysAnswersEarly);
            if held {
                if line.held.is_some_and(|number| host.syncs.is_done(number)) {
                    line.held = None;
                } else {
                    peer.woken = woken;
                    return;
                }
            }
            let blocked = line.blocked.is_some();
            match peer.write(&mut self.spares) {
                Ok(0) => {}
                Ok(n) => self.counts.written += n as u64,
                Err(_) => return self.close(id),
            }
            self.count(id);
            let Some(peer) = self.peers.get_mut(&id) else {
                return;
            };
            if peer.writes && !(blocked && woken) {
                // It has to read first, but for what others wait behind. Its end is seen when it can be written to.
                peer.woken = woken;
                return;
            }
            let closing = peer.line.as_ref().is_some_and(|line| line.session.closing);
            if closing {
                return self.close(id);
            }
            if blocked {
                // Only whether it is gone is of interest; what it says meanwhile is read later.
                if (woken || peer.readable) && peer.is_gone() && !planted(Fault::PopLost) {
                    return self.close(id);
                }
                if !woken {
                    return;
                }
            }
            woken = false;
            let Some(line) = &mut peer.line else {
                return;
            };
            let begun = Instant::now();
            self.work.hurries = self.hurries_until.is_some_and(|until| begun < until);
            let has_input = line.at < line.input.len() || blocked;
            let outcome = match has_input {
                true if blocked && planted(Fault::WokenUnanswered) => Outcome::Park,
                true => self.dispatcher.process(line, &mut self.work),
                false => Outcome::Idle,
            };
            note(&mut self.deadlines, &mut peer.until, id, line);
            if has_input && begun.elapsed() > TOO_LONG {
                self.hurries_until = Some(Instant::now() + HURRY);
            }
            match outcome {
                Outcome::Idle => {
                    if !line.out.bytes.is_empty() {
                        // Answers first; a client that has said nothing more has nothing to be read.
                        if !peer.readable {
                            match peer.write(&mut self.spares) {
                                Ok(n) => self.counts.written += n as u64,
                                Err(_) => return self.close(id),
                            }
                            self.count(id);
                            return;
                        }
                        continue;
                    }
                    if !peer.readable {
                        self.count(id);
                        return;
                    }
                    if reads == READS {
                        let told = std::mem::replace(&mut peer.returns, true);
                        self.count(id);
                        if !told {
                            host.tell(self.on, Mail::More(id));
                        }
                        return;
                    }
                    // The pool gives back what it has, a part of which is run here: both count while it has any.
                    let parked = host.parked.load(Ordering::Relaxed);
                    let all = host.buffered.load(Ordering::Relaxed);
                    let all = all.saturating_add_signed(self.counts.buffered);
                    if parked > host.most_parked() || parked > 0 && all > host.most_parked() {
                        // What comes now would only lie there; it waits where the client's system has it.
                        if !std::mem::replace(&mut peer.returns, true) {
                            self.later.push(id);
                        }
                        self.count(id);
                        return;
                    }
                    reads += 1;
                    match peer.read(&mut self.scratch, &mut self.spares) {
                        Got::Bytes(n) => {
                            self.counts.read += n as u64;
                            if let Some(line) = &peer.line {
                                let info = &line.session.info;
                                let age = info.since.elapsed().as_millis() as u64;
                                info.active.store(age, Ordering::Relaxed);
                            }
                            if !self.count(id) {
                                return;
                            }
                        }
                        Got::Nothing => {
                            self.count(id);
                            return;
                        }
                        Got::End => return self.close(id),
                    }
                }
                Outcome::Park => {
                    if planted(Fault::ReplyOrder) {
                        overtake(line);
                    }
                    if let Some(mut line) = peer.line.take() {
                        peer.third = line.out.third;
                        // What was answered before may go while the rest waits, unless it waits for a sync.
                        if line.held.is_none() && peer.sent == 0 && !line.out.bytes.is_empty() {
                            let sent = std::io::Write::write(&mut peer.socket, &line.out.bytes);
                            line.out.bytes.drain(..sent.unwrap_or(0));
                        }
                        line.parked = line.buffered();
                        host.parked.fetch_add(line.parked, Ordering::Relaxed);
                        self.dispatcher.ask_ahead(&mut line, &self.work);
                        self.pool.take_missed(line, &self.work, &host.0);
                    }
                    return;
                }
                Outcome::Blocked => {
                    if line.out.bytes.is_empty() {
                        return;
                    }
                }
                Outcome::Full if line.blocked.is_some() => {
                    // It was not looked at for what is unread.
                    peer.woken = true;
                    return;
                }
                Outcome::Full | Outcome::Held | Outcome::Close => {}
            }
        }
    }

    /// Counts the bytes of a client's buffers. False if there were too many, and it was sent away.
    fn count(&mut self, id: u64) -> bool {
        let (host, peers) = (&self.dispatcher.host, self.peers.len());
        let Some(peer) = self.peers.get_mut(&id) else {
            return false;
        };
        let now = peer.line.as_ref().map_or(0, |line| line.buffered());
        if now == peer.counted {
            return true;
        }
        let grown = now > peer.counted;
        self.counts.buffered += now as isize - peer.counted as isize;
        peer.counted = now;
        let all = host.buffered.load(Ordering::Relaxed);
        let all = all.saturating_add_signed(self.counts.buffered);
        let most = host.options.max_buffers;
        if grown && all > most && now > LARGE.min(most / peers) {
            host.counts.slow_readers.fetch_add(1, Ordering::Relaxed);
            if let Some(line) = &mut peer.line {
                line.out.bytes = Vec::new();
                line.out
                    .error("ERR the buffers of all clients take too much memory");
                peer.sent = 0;
            }
            self.close(id);
            return false;
        }
        true
    }
}

/// Notes until when a client waits, if it does; what was noted before is forgotten.
fn note(
    deadlines: &mut BTreeSet<(Instant, u64)>,
    noted: &mut Option<Instant>,
    id: u64,
    line: &Line,
) {
    let until = line.blocked.as_ref().and_then(|blocked| blocked.until);
    let before = std::mem::replace(noted, until);
    if before == until {
        return;
    }
    if let Some(before) = before {
        deadlines.remove(&(before, id));
    }
    if let Some(until) = until {
        deadlines.insert((until, id));
    }
}

/// The planted fault: what stands behind the command that waits is answered before it.
fn overtake(line: &mut Line) {
    use crate::proto::parse::{Limits, Parsed, Parser};
    let (rest, limits) = (&mut line.input[line.at..], Limits::new(usize::MAX >> 1));
    if let Ok(Parsed::Command(length)) = Parser::default().parse(rest, &limits) {
        rest.rotate_left(length);
    }
}
