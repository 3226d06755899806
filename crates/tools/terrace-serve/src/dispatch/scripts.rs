//! Scripts: their commands see and do everything at one instant.

#[cfg(feature = "lua")]
use std::rc::Rc;
#[cfg(feature = "lua")]
use std::sync::Arc;
#[cfg(feature = "lua")]
use std::sync::atomic::Ordering;
#[cfg(feature = "lua")]
use std::time::Duration;

use super::run::Dispatcher;
#[cfg(feature = "lua")]
use super::run::FULL;
use crate::command::args::Args;
#[cfg(feature = "lua")]
use crate::command::table::{self, COMMANDS, Does};
#[cfg(feature = "lua")]
use crate::host::locked;
use crate::line::Line;
#[cfg(feature = "lua")]
use crate::proto::reply::Reply;
#[cfg(feature = "lua")]
use crate::script;
use crate::stop::Run;
#[cfg(feature = "lua")]
use crate::stop::Stop;
use crate::store::work::Work;

/// How long a script may run on an event loop, whose other clients wait meanwhile: one that takes longer begins
/// again in the pool.
#[cfg(feature = "lua")]
const ON_A_LOOP: Duration = Duration::from_millis(2);

impl Dispatcher {
    /// `EVAL` and its family: the commands of a script see and do everything at one instant.
    #[cfg(feature = "lua")]
    pub(super) fn eval(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        by_name: bool,
        writes: bool,
    ) -> Run {
        let Some(keys) = crate::text::parse_i64(args.at(2)) else {
            return crate::stop::refuse(crate::stop::NOT_INTEGER);
        };
        let Ok(keys) = usize::try_from(keys) else {
            return crate::stop::refuse("ERR Number of keys can't be negative");
        };
        if keys > args.len() - 3 {
            return crate::stop::refuse("ERR Number of keys can't be greater than number of args");
        }
        let source = match by_name {
            true => {
                let name = String::from_utf8_lossy(args.at(1)).to_ascii_lowercase();
                match locked(&self.host.scripts).get(&name) {
                    Some(source) => source,
                    None => {
                        return crate::stop::refuse(
                            "NOSCRIPT No matching script. Please use EVAL.",
                        );
                    }
                }
            }
            false => {
                let name = crate::script::name(args.at(1));
                let kept = locked(&self.host.scripts).get(&name);
                match kept {
                    Some(source) => source,
                    None => {
                        script::check(args.at(1)).or_else(crate::stop::refuse)?;
                        let source: Arc<[u8]> = args.at(1).into();
                        // One that does not fit is not there by its name.
                        locked(&self.host.scripts).keep(name, source.clone(), false);
                        source
                    }
                }
            }
        };
        let (promises, _) = script::promised(&source).or_else(crate::stop::refuse)?;
        if promises.any && !promises.only_reads {
            if !writes {
                return crate::stop::refuse(
                    "ERR Can not execute a script with write flag using *_ro command.",
                );
            }
            if !promises.allows_full && self.host.store.full.load(Ordering::Relaxed) {
                return crate::stop::refuse(FULL);
            }
        }
        let writes = writes && !promises.only_reads;
        let names: Vec<&[u8]> = args.from(3).take(keys).collect();
        let arguments: Vec<&[u8]> = args.from(3 + keys).collect();
        self.scripted(line, work, writes, &mut |out, limit, call| {
            script::run(&source, &names, &arguments, out, limit, call)
        })
    }

    /// Runs a script or a function, whose commands see and do everything at one instant.
    #[cfg(feature = "lua")]
    pub(super) fn scripted(
        &self,
        line: &mut Line,
        work: &mut Work,
        writes: bool,
        run: &mut dyn FnMut(&mut Reply, &script::Limit, &mut script::Call) -> Result<(), String>,
    ) -> Run {
        let (db, third) = (line.session.db, line.out.third);
        let was_inside = std::mem::replace(&mut line.session.in_exec, true);
        // It may have to run again, so a part of it is never written.
        let was_whole = std::mem::replace(&mut work.whole, true);
        let mut stopped = None;
        let mut answer = Reply::new(third);
        let limit = self.script_limit(work.waits);
        let mark = work.begin_several();
        let ran = run(&mut answer, &limit, &mut |words| {
            if stopped.is_some() {
                return None;
            }
            let own = std::mem::take(&mut line.out);
            let ran = self.called(line, work, words, writes);
            let said = std::mem::replace(&mut line.out, own);
            match ran {
                Ok(()) | Err(Stop::Reply(_)) => Some(said.bytes),
                Err(Stop::Wait(wait)) => {
                    work.take_back();
                    Some(if wait.array {
                        b"*-1\r\n".to_vec()
                    } else {
                        b"$-1\r\n".to_vec()
                    })
                }
                Err(stop) => {
                    stopped = Some(stop);
                    None
                }
            }
        });
        line.session.in_exec = was_inside;
        work.whole = was_whole;
        line.session.select(db);
        work.db = db;
        // What its commands did stays, whatever became of the script, unless it was ended.
        work.end_several(&mark, !limit.was_reached());
        if let Some(stop) = stopped {
            return Err(stop);
        }
        if limit.was_reached() && !work.waits {
            // It begins again where it may take long.
            return Err(Stop::Miss);
        }
        match ran {
            Ok(()) => line.out.raw(&answer.bytes),
            Err(text) => return crate::stop::refuse(text),
        }
        Ok(())
    }

    /// How long a script may run here.
    #[cfg(feature = "lua")]
    fn script_limit(&self, waits: bool) -> script::Limit {
        let most = self.host.settings.script_limit.load(Ordering::Relaxed);
        let longest = match waits {
            true => (most > 0).then(|| Duration::from_millis(most)),
            false => Some(ON_A_LOOP),
        };
        let host = self.host.clone();
        script::Limit::new(longest, Rc::new(move || host.is_stopping()))
    }

    /// A command that a script calls.
    #[cfg(feature = "lua")]
    fn called(&self, line: &mut Line, work: &mut Work, words: &[Vec<u8>], writes: bool) -> Run {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for word in words {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push((from, bytes.len() as u32));
        }
        if work.keeps_too_much() {
            line.out
                .error("ERR the script changes and publishes more than fits the memory: divide it");
            return Ok(());
        }
        let args = Args::new(&bytes, &spans);
        let Some(i) = self.table.find(args.at(0)) else {
            line.out
                .error("ERR Unknown Redis command called from script");
            return Ok(());
        };
        let command = &COMMANDS[i];
        let known = matches!(
            command.does,
            Does::Run(_) | Does::Command | Does::Info | Does::Restore
        );
        if command.flags & table::NO_SCRIPT != 0 || !known {
            line.out
                .error("ERR This Redis command is not allowed from script");
            return Ok(());
        }
        if !table::takes(command, args.len()) {
            line.out
                .error("ERR Wrong number of args calling Redis command from script");
            return Ok(());
        }
        // What is published is told to others: nothing of it either.
        if (command.flags & table::W != 0 || command.name == "publish") && !writes {
            line.out
                .error("ERR Write commands are not allowed from read-only scripts.");
            return Ok(());
        }
        if command.flags & table::LONG != 0 && !work.waits {
            return Err(Stop::Miss);
        }
        if let Some(refusal) = self.refusal(line, command, &args) {
            line.out.error(&refusal);
            return Ok(());
        }
        work.mark();
        self.count(i);
        self.run(line, work, &args, command, Dispatcher::plain_or_restore)
    }

    /// `SCRIPT`.
    #[cfg(feature = "lua")]
    pub(super) fn script(&self, line: &mut Line, args: &Args) -> Run {
        let out = &mut line.out;
        match () {
            () if args.is(1, "LOAD") && args.len() == 3 => {
                let name = crate::script::name(args.at(2));
                if !locked(&self.host.scripts).has(&name) {
                    script::check(args.at(2)).or_else(crate::stop::refuse)?;
                }
                if !locked(&self.host.scripts).keep(name.clone(), args.at(2).into(), true) {
                    return crate::stop::refuse(
                        "ERR the scripts that are loaded take too much memory: SCRIPT FLUSH forgets them",
                    );
                }
                out.bulk(name);
            }
            () if args.is(1, "EXISTS") && args.len() > 2 => {
                let scripts = locked(&self.host.scripts);
                out.array(args.len() - 2);
                for name in args.from(2) {
                    let name = String::from_utf8_lossy(name).to_ascii_lowercase();
                    out.number(i64::from(scripts.has(&name)));
                }
            }
            () if args.is(1, "FLUSH") => {
                if args.len() > 3 || args.len() == 3 && !args.is(2, "SYNC") && !args.is(2, "ASYNC")
                {
                    return crate::stop::refuse("ERR SCRIPT FLUSH only support SYNC|ASYNC option");
                }
                locked(&self.host.scripts).flush();
                out.ok();
            }
            () if args.is(1, "KILL") => {
                return crate::stop::refuse("NOTBUSY No scripts in execution right now.");
            }
            () => {
                let name = String::from_utf8_lossy(args.at(1));
                return crate::stop::refuse(format!(
                    "ERR unknown subcommand or wrong number of arguments for '{name}'. Try SCRIPT HELP."
                ));
            }
        }
        Ok(())
    }

    #[cfg(not(feature = "lua"))]
    pub(super) fn eval(&self, _: &mut Line, _: &mut Work, _: &Args, _: bool, _: bool) -> Run {
        crate::stop::refuse("ERR scripts are not built into this server (feature `lua`)")
    }

    #[cfg(not(feature = "lua"))]
    pub(super) fn script(&self, _: &mut Line, _: &Args) -> Run {
        crate::stop::refuse("ERR scripts are not built into this server (feature `lua`)")
    }

    #[cfg(not(feature = "lua"))]
    pub(super) fn fcall(&self, _: &mut Line, _: &mut Work, _: &Args, _: bool) -> Run {
        crate::stop::refuse("ERR functions are not built into this server (feature `lua`)")
    }

    #[cfg(not(feature = "lua"))]
    pub(super) fn function(&self, _: &mut Line, _: &mut Work, _: &Args) -> Run {
        crate::stop::refuse("ERR functions are not built into this server (feature `lua`)")
    }
}
