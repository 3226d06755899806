//! MULTI, EXEC, DISCARD, WATCH: commands that are gathered, and happen at one instant.

use std::sync::atomic::Ordering;

use super::run::Dispatcher;
use crate::command::args::Args;
use crate::command::connection;
use crate::command::table::{self, COMMANDS, Command, Does};
use crate::line::Line;
use crate::planted::{Fault, planted};
use crate::session::{Multi, Queued};
use crate::stop::{Run, Stop};
use crate::store::work::Work;

impl Dispatcher {
    pub(super) fn queue(&self, line: &mut Line, args: &Args, i: usize) {
        let Some(multi) = &mut line.session.multi else {
            return;
        };
        let length = args.from(0).map(<[u8]>::len).sum();
        let (mut bytes, mut spans) = (Vec::with_capacity(length), Vec::with_capacity(args.len()));
        for arg in args.from(0) {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(arg);
            spans.push((from, bytes.len() as u32));
        }
        multi.bytes += size_of::<Queued>() + bytes.len() + size_of_val(spans.as_slice());
        if multi.too_large || multi.bytes > self.host.options.max_buffers / 2 {
            // It is discarded as a whole, and what it had so far takes no room.
            (multi.refused, multi.too_large) = (true, true);
            (multi.queue, multi.bytes) = (Vec::new(), 0);
            line.out.error("ERR the transaction is too large");
            return;
        }
        multi.queue.push(Queued {
            command: i,
            bytes,
            spans,
        });
        line.session
            .info
            .queued
            .store(multi.queue.len() as u64 + 1, Ordering::Relaxed);
        line.out.simple("QUEUED");
    }

    /// `EXEC`: everything of the transaction as one batch.
    pub(super) fn exec(&self, line: &mut Line, work: &mut Work) -> Run {
        let Some(multi) = line.session.multi.take() else {
            line.out.error("ERR EXEC without MULTI");
            return Ok(());
        };
        let mark = line.out.bytes.len();
        let (db, third) = (line.session.db, line.out.third);
        line.session.in_exec = true;
        work.whole = true;
        let ran = self.exec_queue(line, work, &multi);
        work.whole = false;
        line.session.in_exec = false;
        let again = matches!(ran, Err(Stop::Miss | Stop::Busy | Stop::Alone));
        if again {
            // Nothing of it has happened; what it has chosen for the client neither.
            line.session.multi = Some(multi);
            line.session.select(db);
            line.out.third = third;
            line.out.bytes.truncate(mark);
            work.forget();
            return ran;
        }
        line.session.info.queued.store(0, Ordering::Relaxed);
        let watched = std::mem::take(&mut line.session.watched);
        connection::forget_watched(&work.signals, watched);
        Ok(())
    }

    fn exec_queue(&self, line: &mut Line, work: &mut Work, multi: &Multi) -> Run {
        if multi.refused {
            line.out
                .error("EXECABORT Transaction discarded because of previous errors.");
            return Ok(());
        }
        let mut flags = 0;
        let mut keys: Vec<&[u8]> = Vec::new();
        for queued in &multi.queue {
            let command = &COMMANDS[queued.command];
            flags |= command.flags;
            // Where databases are changed in between, keys mean something else.
            if command.name == "select" {
                flags |= table::ALONE;
            }
            let args = Args::new(&queued.bytes, &queued.spans);
            keys.extend(
                table::key_places(command, &args)
                    .into_iter()
                    .map(|i| args.at(i)),
            );
        }
        if flags & table::LONG != 0 && !work.waits {
            return Err(Stop::Miss);
        }
        // What is watched stands still as well, or two could each pass over what the other one is about to write.
        if !planted(Fault::WatchUnlocked) {
            for ((db, key), _) in &line.session.watched.places {
                match usize::from(*db) == work.db {
                    true => keys.push(key),
                    // Its lock is another database's.
                    false => flags |= table::ALONE,
                }
            }
        }
        if flags & table::ALONE != 0 && !work.is_alone() {
            return Err(Stop::Alone);
        }
        work.lock(keys.into_iter())?;
        if self.watched_changed(line, work)? {
            line.out.null_array();
            return Ok(());
        }
        // All answers together are one.
        let outer = line.out.begin(self.host.longest_answer());
        let ran = self.exec_commands(line, work, multi);
        line.out.end(outer);
        ran
    }

    fn exec_commands(&self, line: &mut Line, work: &mut Work, multi: &Multi) -> Run {
        line.out.array(multi.queue.len());
        for queued in &multi.queue {
            let command = &COMMANDS[queued.command];
            let args = Args::new(&queued.bytes, &queued.spans);
            // What it did before stays, whatever becomes of the next one.
            work.mark();
            if work.keeps_too_much() {
                line.out.error(
                    "ERR the transaction changes and publishes more than fits the memory: divide it",
                );
                continue;
            }
            if let Some(refusal) = self.refusal(line, command, &args) {
                line.out.error(&refusal);
                continue;
            }
            match self.run(line, work, &args, command, Dispatcher::any_but_exec) {
                Ok(()) | Err(Stop::Reply(_)) => {}
                Err(Stop::Wait(wait)) => {
                    work.take_back();
                    match wait.array {
                        true => line.out.null_array(),
                        false => line.out.null(),
                    }
                }
                Err(stop) => return Err(stop),
            }
            self.count(queued.command);
        }
        Ok(())
    }

    fn watched_changed(&self, line: &mut Line, work: &mut Work) -> Run<bool> {
        let watched = &line.session.watched;
        if planted(Fault::WatchByValue) {
            for ((place, _), old) in watched.places.iter().zip(&watched.values) {
                work.head(&place.1)?;
                if work.text() != old.as_slice() {
                    return Ok(true);
                }
            }
            return Ok(false);
        }
        let expired = |expires: &Option<u64>| expires.is_some_and(|at| at <= work.now);
        let any_expired = watched.places.iter().any(|(_, expires)| expired(expires));
        Ok(watched.watch.is_changed() || any_expired)
    }

    /// What any command does that may be in a transaction.
    pub(super) fn any_but_exec(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        command: &Command,
    ) -> Run {
        match command.does {
            Does::Eval { by_name, writes } => self.eval(line, work, args, by_name, writes),
            Does::Script => self.script(line, args),
            Does::Fcall { writes } => self.fcall(line, work, args, writes),
            Does::Function => self.function(line, work, args),
            Does::Restore => self.restore(line, work, args),
            _ => self.plain(line, work, args, command),
        }
    }
}
