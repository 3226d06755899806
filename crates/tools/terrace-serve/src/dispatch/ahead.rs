//! Looking ahead in a line that waits for the page of a record: the pages that the commands behind it need are read
//! together with its own, not one after the other.
//!
//! Invariants: nothing runs here, and no answer depends on it; a command is looked at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use super::Dispatcher;
use crate::command::args::Args;
use crate::command::table::{self, COMMANDS, Keys};
use crate::line::Line;
use crate::proto::parse::{Limits, Parsed, Parser};
use crate::store::work::Work;

/// Commands that one line looks ahead: with its own as many pages as the database reads together.
const MOST: usize = 63;
/// Pages that all lines wait for so, at most: those that wait for a page of their own need places, too.
const MOST_OF_ALL: usize = 128;

/// A page that is read ahead; it is counted until then.
struct Ahead {
    count: Arc<AtomicUsize>,
    told: Arc<AtomicBool>,
}

impl Drop for Ahead {
    fn drop(&mut self) {
        self.told.store(true, Ordering::SeqCst);
        self.count.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Dispatcher {
    /// Asks for the pages of records that the commands behind the next one read, if that one has missed a page of a
    /// record in this work.
    pub fn ask_ahead(&self, line: &mut Line, work: &Work) {
        if !work.has_missed() || line.blocked.is_some() || line.session.multi.is_some() {
            return;
        }
        let limits = Limits::new(self.host.options.max_value);
        let mut parser = Parser::default();
        let mut at = line.at;
        let here = line.gone + at as u64;
        line.asked.retain(|place| *place > here);
        for i in 0..=MOST {
            let rest = &mut line.input[at..];
            if rest.first() != Some(&b'*') {
                break;
            }
            let Ok(Parsed::Command(length)) = parser.parse(rest, &limits) else {
                break;
            };
            let place = line.gone + at as u64;
            if i > 0 && place >= line.looked_until {
                let args = Args::new(&line.input[at..], &parser.spans);
                let Some(key) = self.one_record(&args) else {
                    break;
                };
                let count = self.ahead.clone();
                if count.fetch_add(1, Ordering::SeqCst) >= MOST_OF_ALL {
                    count.fetch_sub(1, Ordering::SeqCst);
                    break;
                }
                let told = Arc::<AtomicBool>::default();
                let ahead = Ahead {
                    count,
                    told: told.clone(),
                };
                if !work.bring_in(line.session.db, key, move || drop(ahead)) {
                    break;
                }
                if !told.load(Ordering::SeqCst) {
                    line.asked.push(place);
                }
                line.looked_until = place + length as u64;
            }
            at += length;
        }
    }

    /// The key of a command that reads one record.
    fn one_record<'a>(&self, args: &Args<'a>) -> Option<&'a [u8]> {
        let command = &COMMANDS[self.table.find(args.at(0))?];
        match command.keys {
            Keys::Range(first, ..)
                if command.flags & table::RECORD != 0 && table::takes(command, args.len()) =>
            {
                Some(args.at(usize::try_from(first).ok()?))
            }
            _ => None,
        }
    }
}
