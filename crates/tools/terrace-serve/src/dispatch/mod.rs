//! Commands of a client, one after the other: in groups that become one batch.
//!
//! Invariants: answers are in the order of the commands; an answer is written for good only after the batch of its
//! group; a group whose batch fails runs again command by command, so that each answer is its own. An event loop
//! waits for nothing here: what would wait goes to the pool with all that comes behind it.
//!
//! In layers, upwards: `ahead`, which runs nothing; `run`, which runs plain commands; `restore`; `scripts`; `functions`; `transactions`; this file.
//! Each runs commands by what is below it, so nothing runs itself.

mod ahead;
#[cfg(feature = "lua")]
mod functions;
mod restore;
mod run;
mod scripts;
mod transactions;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

pub use run::Dispatcher;

use crate::command::args::Args;
use crate::command::table::{self, COMMANDS, Command, Does};
use crate::command::{connection, pubsub};
use crate::host::locked;
use crate::line::{Blocked, Line};
use crate::options::AppendFsync;
use crate::planted::{Fault, planted};
use crate::proto::parse::{Limits, Parsed, Span};
use crate::session::Answers;
use crate::signals::Waiter;
use crate::stop::{Stop, told};
use crate::store::work::{Told, Work};

/// Changes that are gathered in one batch: from there on a larger one is no cheaper.
const GROUP: usize = 128;
/// Bytes of answers at which a client has to read before it is answered more.
const PAUSE: usize = 1 << 20;
/// Places of arguments that are kept for the next command.
const KEPT_SPANS: usize = 1024;

/// Why a line's commands do not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// More bytes have to come.
    Idle,
    /// It goes on where it may wait.
    Park,
    /// It waits for an element.
    Blocked,
    /// It has many answers to read first.
    Full,
    /// Its answers wait for a sync.
    Held,
    /// It is to be sent away, with its answers.
    Close,
}

/// What a command that was begun came to.
enum Ran {
    /// It was answered.
    Done,
    /// What is before it has to be written first, and then it is tried again, or goes to the pool.
    Again(Stop),
    /// It waits; this is what it waits for.
    Waits(crate::stop::Wait),
}

impl Dispatcher {
    /// The changes of a thread's commands.
    pub fn new_work(&self, waits: bool) -> Work {
        let mut work = Work::new(self.host.store.clone(), self.host.signals.clone());
        work.waits = waits;
        work.most = self.host.longest_answer();
        let host = Arc::downgrade(&self.host);
        work.tell = Some(Arc::new(move |told| {
            let Some(host) = host.upgrade() else { return };
            let events = match told {
                Told::Events(events) => events,
                Told::Message(channel, text) => {
                    pubsub::tell(&host, channel, text);
                    return;
                }
            };
            let classes = host.settings.notify.load(Ordering::Relaxed);
            for event in events {
                if !crate::channels::has_class(classes, event.class) {
                    continue;
                }
                let (db, key) = (event.place.0, &event.place.1);
                if crate::channels::has_class(classes, b'K') {
                    let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
                    pubsub::tell(&host, &channel, event.name.as_bytes());
                }
                if crate::channels::has_class(classes, b'E') {
                    let channel = format!("__keyevent@{db}__:{}", event.name);
                    pubsub::tell(&host, channel.as_bytes(), key);
                }
            }
        }));
        work
    }

    /// Runs a line's commands as far as they go.
    pub fn process(&self, line: &mut Line, work: &mut Work) -> Outcome {
        if !work.enter() {
            return Outcome::Park;
        }
        work.tells = self.host.settings.notify.load(Ordering::Relaxed) != 0;
        work.db = line.session.db;
        let outcome = self.commands(line, work);
        work.leave();
        line.tally.tell(&self.host.counted, &self.host.counts);
        self.host.counts.note_fields(work);
        if work.take_wrote() && self.host.appendfsync() == AppendFsync::Always {
            line.held = Some(self.host.syncs.ask());
        }
        if outcome == Outcome::Park && line.times_missed() == 0 {
            self.host.counts.parked.fetch_add(1, Ordering::Relaxed);
        }
        match line.held {
            Some(_) if outcome != Outcome::Park && !planted(Fault::AlwaysAnswersEarly) => {
                Outcome::Held
            }
            _ => outcome,
        }
    }

    fn commands(&self, line: &mut Line, work: &mut Work) -> Outcome {
        let mut group = (line.at, line.out.bytes.len());
        let mut last = Instant::now();
        loop {
            // Who was woken looks all the same, as others wait behind it.
            if line.out.bytes.len() >= PAUSE && line.blocked.is_none() {
                return self.end_group(line, work, group).unwrap_or(Outcome::Full);
            }
            if line.session.closing {
                return self.end_group(line, work, group).unwrap_or(Outcome::Close);
            }
            let inside = line.parser.is_inside();
            let rest = &mut line.input[line.at..];
            let inline = !inside && rest.first().is_some_and(|b| *b != b'*');
            let limits = match line.session.trusted {
                true => Limits::new(self.host.options.max_value),
                false => Limits::unauthenticated(),
            };
            let length = match line.parser.parse(rest, &limits) {
                Ok(Parsed::Command(length)) => length,
                Ok(Parsed::More) => {
                    return self.end_group(line, work, group).unwrap_or(Outcome::Idle);
                }
                Err(why) => {
                    if let Some(outcome) = self.end_group(line, work, group) {
                        return outcome;
                    }
                    line.out.error(&format!("ERR {why}"));
                    line.session.closing = true;
                    return Outcome::Close;
                }
            };
            if line.parser.spans.is_empty() {
                line.at += length;
                continue;
            }
            if inline {
                // It was decoded in its place, so it could not be read again.
                line.write_inline_out(length);
                continue;
            }
            let spans = std::mem::take(&mut line.parser.spans);
            let ran = self.one(line, work, &spans, length, &mut group, &mut last);
            if spans.capacity() <= KEPT_SPANS {
                line.parser.spans = spans;
            }
            match ran {
                Ok(()) => {}
                Err(outcome) => return outcome,
            }
        }
    }

    /// Writes what a group has changed. If it fails, all of the group runs again, one by one: `None` then too,
    /// with the line where the group began.
    fn end_group(
        &self,
        line: &mut Line,
        work: &mut Work,
        group: (usize, usize),
    ) -> Option<Outcome> {
        work.commit().err()?;
        // What was written of it would be there twice. What was not is not answered.
        if line.at <= line.single_until || work.is_in_parts() {
            line.out.bytes.truncate(group.1);
            line.session.closing = true;
            return Some(Outcome::Close);
        }
        line.single_until = line.at;
        line.at = group.0;
        line.out.bytes.truncate(group.1);
        line.parser = Default::default();
        work.db = line.session.db;
        Some(self.commands(line, work))
    }

    /// Runs one command.
    fn one(
        &self,
        line: &mut Line,
        work: &mut Work,
        spans: &[Span],
        length: usize,
        group: &mut (usize, usize),
        last: &mut Instant,
    ) -> Result<(), Outcome> {
        let bytes = std::mem::take(&mut line.input);
        let args = Args::new(&bytes[line.at..], spans);
        let found = self.table.find(args.at(0));
        let command = found.map(|i| &COMMANDS[i]);
        // What others wait for is not taken together with what gives it to them.
        let flags = match work.signals.is_wanted() {
            true => table::APART | table::WAITS | table::TAKES,
            false => table::APART | table::WAITS,
        };
        let apart = command.is_none_or(|c| c.flags & flags != 0);
        let single = apart || line.at < line.single_until || line.session.multi.is_some();
        if single && (work.changes() > 0 || work.holds_locks()) {
            line.input = bytes;
            if let Some(outcome) = self.end_group(line, work, *group) {
                return Err(outcome);
            }
            *group = (line.at, line.out.bytes.len());
            line.unread();
            return Ok(());
        }
        if single {
            *group = (line.at, line.out.bytes.len());
            // It may ask for what was counted.
            line.tally.tell(&self.host.counted, &self.host.counts);
        }
        let mark = line.out.bytes.len();
        let place = found.map_or(0, |i| i + 1);
        line.session.info.command.store(place, Ordering::Relaxed);
        work.missed.set(None);
        work.times_missed = line.times_missed().max(line.was_asked().into());
        if let Some(since) = line.missed_since() {
            *last = since;
        }
        let ran = match (found, command) {
            (Some(i), Some(command)) => self.begun(line, work, &args, i, command),
            _ => {
                self.refuse_unknown(line, &args);
                Ran::Done
            }
        };
        match ran {
            Ran::Done => {
                work.settle();
                line.answered(mark);
                line.at += length;
                self.note(line, found, &args, mark, last);
                if let Some(blocked) = line.blocked.take() {
                    work.signals.wait_no_more(&blocked.places, line.session.id);
                    line.session.info.blocked.store(false, Ordering::SeqCst);
                }
                line.input = bytes;
                if single {
                    if let Err(error) = work.commit() {
                        line.out.bytes.truncate(mark);
                        line.out.error(&told(&error));
                        line.answered(mark);
                    }
                } else if work.changes() < GROUP && !work.is_large() {
                    return Ok(());
                } else if let Some(outcome) = self.end_group(line, work, *group) {
                    return Err(outcome);
                }
                *group = (line.at, line.out.bytes.len());
                Ok(())
            }
            Ran::Waits(wait) if single => {
                line.out.bytes.truncate(mark);
                self.register(line, work, wait, length);
                work.forget();
                line.input = bytes;
                Err(Outcome::Blocked)
            }
            ran => {
                // A client has begun to wait since; what is before it is written first.
                let stop = match ran {
                    Ran::Again(stop) => stop,
                    _ => Stop::Busy,
                };
                let reads_one = command.is_some_and(|c| c.flags & table::RECORD != 0);
                if !reads_one || !matches!(stop, Stop::Miss) {
                    // More than the page of one record stands in its way.
                    work.missed.set(None);
                }
                line.out.bytes.truncate(mark);
                work.take_back();
                line.input = bytes;
                line.unread();
                let held = work.holds_locks() || work.changes() > 0;
                if single {
                    work.forget();
                } else {
                    if let Some(outcome) = self.end_group(line, work, *group) {
                        return Err(outcome);
                    }
                    *group = (line.at, line.out.bytes.len());
                    if held && (work.waits || matches!(stop, Stop::Busy)) {
                        // It is tried again with nothing held.
                        return Ok(());
                    }
                }
                match work.waits {
                    true => self.alone(line, work, spans, length, group, last),
                    false => Err(Outcome::Park),
                }
            }
        }
    }

    /// A command waits for an element; the caller holds its keys.
    fn register(&self, line: &mut Line, work: &Work, wait: crate::stop::Wait, length: usize) {
        if line.blocked.is_some() {
            return;
        }
        let db = line.session.db as u8;
        let places: Vec<_> = wait.keys.into_iter().map(|key| (db, key)).collect();
        let waiter = Waiter {
            on: line.session.on,
            client: line.session.id,
            kind: wait.kind,
            all: wait.all,
        };
        work.signals.wait(&places, waiter);
        let timeout = wait.timeout.map(std::time::Duration::from_millis);
        line.blocked = Some(Blocked {
            places,
            until: timeout.and_then(|timeout| Instant::now().checked_add(timeout)),
            length,
        });
        // What ended a wait before is not about this one.
        line.session.info.unblocked.store(0, Ordering::SeqCst);
        line.session.info.blocked.store(true, Ordering::SeqCst);
    }

    /// Runs one command with no other beside it, on a thread that may wait.
    fn alone(
        &self,
        line: &mut Line,
        work: &mut Work,
        spans: &[Span],
        length: usize,
        group: &mut (usize, usize),
        last: &mut Instant,
    ) -> Result<(), Outcome> {
        if work.is_alone() {
            // Nothing that is alone needs more.
            line.at += length;
            line.parser = Default::default();
            line.out.error("ERR the command could not be run");
            return Ok(());
        }
        work.leave();
        work.enter_alone();
        line.parser = Default::default();
        let ran = self.one(line, work, spans, length, group, last);
        let ended = self.end_group(line, work, *group);
        *group = (line.at, line.out.bytes.len());
        work.leave();
        work.enter();
        work.db = line.session.db;
        match (ran, ended) {
            (Err(outcome), _) | (Ok(()), Some(outcome)) => Err(outcome),
            (Ok(()), None) => Ok(()),
        }
    }

    fn refuse_unknown(&self, line: &mut Line, args: &Args) {
        let mut text = String::from("ERR unknown command '");
        text += &String::from_utf8_lossy(&args.at(0)[..args.at(0).len().min(128)]);
        text += "', with args beginning with: ";
        let mut said = 0;
        for arg in args.from(1) {
            if said >= 128 {
                break;
            }
            let part = &arg[..arg.len().min(128 - said)];
            // As Redis, up to a zero byte.
            let part = part.split(|b| *b == 0).next().unwrap_or_default();
            text += &format!("'{}' ", String::from_utf8_lossy(part));
            said += part.len();
        }
        if let Some(multi) = &mut line.session.multi {
            multi.refused = true;
        }
        if !line.session.trusted {
            text = "NOAUTH Authentication required.".to_owned();
        }
        line.out.error(&text);
    }

    fn begun(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        i: usize,
        command: &Command,
    ) -> Ran {
        if let Some(refusal) = self.refusal(line, command, args) {
            line.out.error(&refusal);
            if let Some(multi) = &mut line.session.multi {
                multi.refused = true;
            }
            return Ran::Done;
        }
        if line.session.multi.is_some() && command.flags & table::AT_ONCE == 0 {
            if command.flags & table::NOT_QUEUED == 0 {
                self.queue(line, args, i);
                return Ran::Done;
            }
            if command.name != "quit" && command.name != "reset" {
                line.out
                    .error("ERR Command not allowed inside a transaction");
                if let Some(multi) = &mut line.session.multi {
                    multi.refused = true;
                }
                return Ran::Done;
            }
        }
        if command.flags & table::LONG != 0 && !work.waits {
            return Ran::Again(Stop::Miss);
        }
        let ran = match command.does {
            Does::Exec => self.exec(line, work),
            _ => self.run(line, work, args, command, Dispatcher::any_but_exec),
        };
        match ran {
            Ok(()) => Ran::Done,
            Err(Stop::Wait(wait)) => Ran::Waits(wait),
            Err(Stop::Reply(_)) => Ran::Done,
            Err(stop) => Ran::Again(stop),
        }
    }

    /// Counts a command that was answered.
    fn note(
        &self,
        line: &mut Line,
        found: Option<usize>,
        args: &Args,
        mark: usize,
        last: &mut Instant,
    ) {
        let failed = line.out.bytes.get(mark) == Some(&b'-');
        let now = Instant::now();
        let took = now.duration_since(*last);
        *last = now;
        let micros = took.as_micros() as u64;
        line.tally
            .command(&self.host.counted, found, failed, micros);
        let Some(found) = found else {
            return;
        };
        let command = &COMMANDS[found];
        if !failed && command.flags & table::RECORD != 0 {
            let nothing = matches!(line.out.bytes.get(mark..mark + 2), Some(b"$-" | b"_\r"));
            line.tally.lookup(!nothing);
        }
        let info = &line.session.info;
        self.host
            .note_slow(took, command.name, args.len() - 1, info);
    }

    /// A client waits no longer: it is answered that nothing came, or that it was told so.
    pub fn give_up(&self, line: &mut Line, error: bool) {
        let Some(blocked) = line.blocked.take() else {
            return;
        };
        self.host
            .signals
            .wait_no_more(&blocked.places, line.session.id);
        line.session.info.blocked.store(false, Ordering::SeqCst);
        line.at += blocked.length;
        line.parser = Default::default();
        let mark = line.out.bytes.len();
        match error {
            true => line
                .out
                .error("UNBLOCKED client unblocked via CLIENT UNBLOCK"),
            false => line.out.null_array(),
        }
        line.answered(mark);
    }

    /// A client is gone: no answer waits for it, and it watches and hears nothing.
    pub fn forget(&self, line: &mut Line) {
        if let Some(blocked) = line.blocked.take() {
            self.host
                .signals
                .wait_no_more(&blocked.places, line.session.id);
        }
        let watched = std::mem::take(&mut line.session.watched);
        connection::forget_watched(&self.host.signals, watched);
        pubsub::leave_all(&mut line.session, &self.host);
        locked(&self.host.clients).remove(&line.session.id);
    }
}

impl Line {
    /// The command that was read is read again.
    fn unread(&mut self) {
        self.parser = Default::default();
    }

    /// Puts a command on a line, which was decoded, in the form of an array.
    fn write_inline_out(&mut self, length: usize) {
        let mut array = format!("*{}\r\n", self.parser.spans.len()).into_bytes();
        for (from, to) in &self.parser.spans {
            let part = &self.input[self.at + *from as usize..self.at + *to as usize];
            array.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
            array.extend_from_slice(part);
            array.extend_from_slice(b"\r\n");
        }
        self.input.splice(self.at..self.at + length, array);
    }

    /// A command was answered, from `mark` on; the client may not want to know.
    fn answered(&mut self, mark: usize) {
        match self.session.answers {
            Answers::Sent => {}
            Answers::Dropped => self.out.bytes.truncate(mark),
            Answers::SkipNext => self.session.answers = Answers::SkipThis,
            Answers::SkipThis => {
                self.out.bytes.truncate(mark);
                self.session.answers = Answers::Sent;
            }
        }
    }
}
