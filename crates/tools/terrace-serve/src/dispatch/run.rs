//! One command of the table: what is looked at before it runs, its locks, and what becomes of its error.
//!
//! Invariant: nothing here runs a command of a command. What does so is above, and hands [`Dispatcher::run`] what it
//! can run itself.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::command::args::Args;
use crate::command::call::Call;
use crate::command::table::{self, Command, Does, Table};
use crate::command::{info, introspect};
use crate::host::Host;
use crate::line::Line;
use crate::stop::{Run, Stop, TOO_LARGE, refuse};
use crate::store::work::Work;

/// The database has no room for what would be added.
pub(super) const FULL: &str = "OOM command not allowed when used memory > 'maxmemory'.";

/// The dispatcher: the same for all threads.
pub struct Dispatcher {
    /// What all clients share.
    pub host: Arc<Host>,
    pub(super) table: Table,
    /// Pages that are read for commands that have not begun.
    pub(super) ahead: Arc<AtomicUsize>,
}

impl Dispatcher {
    /// Of a server, with these commands.
    pub fn new(host: Arc<Host>, table: Table) -> Dispatcher {
        Dispatcher {
            host,
            table,
            ahead: Arc::default(),
        }
    }

    /// What is looked at before a command runs.
    pub(super) fn refusal(&self, line: &Line, command: &Command, args: &Args) -> Option<String> {
        let session = &line.session;
        if !session.trusted && command.flags & table::OPEN == 0 {
            return Some("NOAUTH Authentication required.".to_owned());
        }
        if !table::takes(command, args.len()) {
            let name = command.name;
            return Some(format!(
                "ERR wrong number of arguments for '{name}' command"
            ));
        }
        let hears = session.subscriptions() > 0 && !line.out.third && !session.in_exec;
        if hears && command.flags & table::HEARD == 0 {
            return Some(format!(
                "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
                command.name
            ));
        }
        if command.flags & table::ADDS != 0 && self.host.store.full.load(Ordering::Relaxed) {
            return Some(FULL.to_owned());
        }
        None
    }

    /// Runs a command of the table as `does` does it; an error for the client is its answer, and is told besides.
    pub(super) fn run(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        command: &Command,
        does: impl FnOnce(&Dispatcher, &mut Line, &mut Work, &Args, &Command) -> Run,
    ) -> Run {
        let mark = line.out.bytes.len();
        let outer = line.out.begin(self.host.longest_answer());
        let locked = lock_keys(work, args, command);
        let mut ran = locked.and_then(|()| does(self, line, work, args, command));
        if !line.out.end(outer) && ran.is_ok() {
            ran = refuse(TOO_LARGE);
        }
        if let Err(Stop::Reply(text)) = &ran {
            work.take_back();
            line.out.bytes.truncate(mark);
            line.out.error(text);
        }
        ran
    }

    /// What a plain command does: one that runs no others.
    #[inline]
    pub(super) fn plain(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        command: &Command,
    ) -> Run {
        let Line { session, out, .. } = line;
        let mut call = Call {
            args: *args,
            work,
            out,
            session,
            host: &self.host,
        };
        match command.does {
            Does::Run(run) => run(&mut call),
            Does::Command => introspect::command(&mut call, &self.table),
            Does::Info => info::info(&mut call),
            // They run others, or need the line: what is above runs them.
            _ => Ok(()),
        }
    }

    pub(super) fn count(&self, command: usize) {
        self.host.counted[command]
            .calls
            .fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes the locks of a command's keys.
#[inline]
fn lock_keys(work: &mut Work, args: &Args, command: &Command) -> Run {
    if command.flags & table::ALONE != 0 && !work.is_alone() {
        return Err(Stop::Alone);
    }
    let loose = command.flags & table::RECORD != 0 && !work.holds_locks();
    if !loose && !matches!(command.keys, table::Keys::None) {
        match command.keys {
            table::Keys::Range(1, 1, 1) => work.lock(std::iter::once(args.at(1)))?,
            _ => {
                let places = table::key_places(command, args);
                work.lock(places.into_iter().map(|i| args.at(i)))?;
            }
        }
    }
    Ok(())
}
