//! `RESTORE`: a value in Redis' own form becomes the commands that make it anew, which happen at one instant.

use super::run::Dispatcher;
use crate::command::args::Args;
use crate::command::table::{COMMANDS, Command, Does};
use crate::line::Line;
use crate::rdb::{read, source, write};
use crate::stop::{Run, SYNTAX, Stop, refuse};
use crate::store::codec::LATEST;
use crate::store::work::Work;

/// Bytes from which on the loop leaves it to the pool.
const LARGE: usize = 64 << 10;
/// Bytes of commands from which on the loop leaves it to the pool: a small dump may stand for many.
const LARGE_TOLD: usize = 16 * LARGE;
/// Bytes that a word takes in memory beside its own, about.
const WORD: usize = 64;
/// Bytes of commands that one dump may stand for, in longest values: all of them wait in memory to be written as one.
const MOST_TOLD: usize = 4;

/// What `RESTORE` was told besides.
#[derive(Default)]
struct How {
    replaces: bool,
    absolute: bool,
}

fn how(args: &Args) -> Run<How> {
    let mut how = How::default();
    let mut i = 4;
    while i < args.len() {
        let more = i + 1 < args.len();
        match () {
            () if args.is(i, "REPLACE") => how.replaces = true,
            () if args.is(i, "ABSTTL") => how.absolute = true,
            () if args.is(i, "IDLETIME") && more => {
                i += 1;
                if args.integer(i)? < 0 {
                    return refuse("ERR Invalid IDLETIME value, must be >= 0");
                }
            }
            () if args.is(i, "FREQ") && more => {
                i += 1;
                if !(0..=255).contains(&args.integer(i)?) {
                    return refuse("ERR Invalid FREQ value, must be >= 0 and <= 255");
                }
            }
            () => return refuse(SYNTAX),
        }
        i += 1;
    }
    Ok(how)
}

impl Dispatcher {
    /// What a command does that a script may call.
    pub(super) fn plain_or_restore(
        &self,
        line: &mut Line,
        work: &mut Work,
        args: &Args,
        command: &Command,
    ) -> Run {
        match command.does {
            Does::Restore => self.restore(line, work, args),
            _ => self.plain(line, work, args, command),
        }
    }

    pub(super) fn restore(&self, line: &mut Line, work: &mut Work, args: &Args) -> Run {
        let how = how(args)?;
        if args.at(3).len() > LARGE && !work.waits {
            return Err(Stop::Miss);
        }
        let key = args.at(1);
        if !how.replaces && work.head(key)?.is_some() {
            return refuse("BUSYKEY Target key name already exists.");
        }
        let Ok(time) = u64::try_from(args.integer(2)?) else {
            return refuse("ERR Invalid TTL value, must be >= 0");
        };
        let Some(dump) = write::without_foot(args.at(3)) else {
            return refuse("ERR DUMP payload version or checksum are wrong");
        };
        let expires = match (time, how.absolute) {
            (0, _) => None,
            (time, true) => Some(time),
            (time, false) => Some(time.saturating_add(work.now)),
        };
        if expires.is_some_and(|at| at > LATEST) {
            return refuse("ERR Invalid TTL value, must be >= 0");
        }
        let events = work.events_so_far();
        work.remove(key)?;
        if expires.is_none_or(|at| at > work.now) {
            self.build(line, work, key, dump)?;
            if let Some(at) = expires
                && let Some(head) = work.head(key)?
            {
                work.set_expiry(key, &head, Some(at))?;
            }
        }
        work.forget_events_since(events);
        work.event(b'g', "restore", key);
        line.out.ok();
        Ok(())
    }

    /// Runs the commands that a dump stands for.
    fn build(&self, line: &mut Line, work: &mut Work, key: &[u8], dump: &[u8]) -> Run {
        let mut rest = dump;
        let longest = self.host.options.max_value as u64;
        let mut source = source::Source::new(&mut rest, longest);
        let most = self.host.options.max_value.saturating_mul(MOST_TOLD);
        let mut told = 0_usize;
        let mut stopped = None;
        // A part of the value is never seen.
        let was_whole = std::mem::replace(&mut work.whole, true);
        let kind = source.byte();
        let read = kind.and_then(|kind| {
            read::value(kind, key, &mut source, &mut |words| {
                told += words.iter().map(|word| word.len() + WORD).sum::<usize>();
                if told > most {
                    return source::broken("it stands for more than may be");
                }
                if told > LARGE_TOLD && !work.waits {
                    stopped = Some(Stop::Miss);
                    return source::broken("it is left to the pool");
                }
                let ran = self.run_words(line, work, words);
                ran.map_err(|stop| {
                    stopped = Some(stop);
                    String::new()
                })
            })
        });
        work.whole = was_whole;
        match (stopped, read) {
            (Some(Stop::Reply(_)), _) => refuse("ERR Bad data format"),
            (Some(stop), _) => Err(stop),
            (None, Ok(())) if rest.is_empty() => Ok(()),
            (None, _) => refuse("ERR Bad data format"),
        }
    }

    /// Runs a command whose answer no client gets, unless it is an error.
    fn run_words(&self, line: &mut Line, work: &mut Work, words: &[Vec<u8>]) -> Run {
        let (mut bytes, mut spans) = (Vec::new(), Vec::new());
        for word in words {
            let from = bytes.len() as u32;
            bytes.extend_from_slice(word);
            spans.push((from, bytes.len() as u32));
        }
        let args = Args::new(&bytes, &spans);
        // By its own name, whatever it is called here.
        let command = COMMANDS.iter().find(|command| args.is(0, command.name));
        let Some(command) = command else {
            return refuse("ERR Bad data format");
        };
        let mark = line.out.bytes.len();
        let ran = self.run(line, work, &args, command, Dispatcher::plain);
        let failed = line.out.bytes.get(mark) == Some(&b'-');
        line.out.bytes.truncate(mark);
        ran?;
        match failed {
            true => refuse("ERR Bad data format"),
            false => Ok(()),
        }
    }
}
