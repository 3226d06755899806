//! A client's commands and answers: what goes to and fro between an event loop and the pool.

use std::time::Instant;

use crate::counts::Tally;
use crate::proto::parse::{Parser, Span};
use crate::proto::reply::Reply;
use crate::session::Session;
use crate::signals::Place;

/// A client that waits for an element.
#[derive(Debug)]
pub struct Blocked {
    /// The keys that it waits for.
    pub places: Vec<Place>,
    /// Until when.
    pub until: Option<Instant>,
    /// Bytes of the command.
    pub length: usize,
}

/// A client's commands and answers.
#[derive(Debug)]
pub struct Line {
    /// Who it is.
    pub session: Session,
    /// Bytes that have come.
    pub input: Vec<u8>,
    /// Where the next command begins in them.
    pub at: usize,
    /// Where the parser stands.
    pub parser: Parser,
    /// Answers.
    pub out: Reply,
    /// What it waits for.
    pub blocked: Option<Blocked>,
    /// The sync that its answers wait for.
    pub held: Option<u64>,
    /// Bytes of it that are counted as the pool's.
    pub parked: usize,
    /// What was counted.
    pub tally: Tally,
    /// Nothing of before this place runs together with other commands.
    pub single_until: usize,
    /// Bytes of commands that were answered and forgotten.
    pub gone: u64,
    /// What was last waited for without a thread.
    pub missed: Missed,
    /// Up to where commands were looked ahead at, counted from the first byte of the client.
    pub looked_until: u64,
    /// Where those begin whose pages were asked for then, in their order.
    pub asked: Vec<u64>,
}

/// How often a command has waited for a page without a thread.
#[derive(Clone, Copy, Debug, Default)]
pub struct Missed {
    /// Where the command begins, counted from the first byte of the client.
    place: u64,
    times: u32,
    since: Option<Instant>,
}

impl Line {
    /// Of a client that has come.
    pub fn new(session: Session) -> Line {
        Line {
            session,
            input: Vec::new(),
            at: 0,
            parser: Parser::default(),
            out: Reply::default(),
            blocked: None,
            held: None,
            parked: 0,
            tally: Tally::default(),
            single_until: 0,
            gone: 0,
            missed: Missed::default(),
            looked_until: 0,
            asked: Vec::new(),
        }
    }

    /// Whether a page was asked for ahead that the command needs which is next.
    pub fn was_asked(&self) -> bool {
        let place = self.gone + self.at as u64;
        !self.asked.is_empty() && self.asked.binary_search(&place).is_ok()
    }

    /// How often the command that is next has waited for a page without a thread.
    pub fn times_missed(&self) -> u32 {
        match self.missed.place == self.gone + self.at as u64 {
            true => self.missed.times,
            false => 0,
        }
    }

    /// Since when the command that is next has waited so.
    pub fn missed_since(&self) -> Option<Instant> {
        self.missed.since.filter(|_| self.times_missed() > 0)
    }

    /// It waits for one more.
    pub fn miss(&mut self) {
        let times = self.times_missed() + 1;
        let place = self.gone + self.at as u64;
        let since = self.missed_since().or_else(|| Some(Instant::now()));
        self.missed = Missed {
            place,
            times,
            since,
        };
    }

    /// Forgets the commands that were answered.
    pub fn compact(&mut self) {
        if self.at == self.input.len() {
            self.input.clear();
        } else if self.at > 0 {
            self.input.drain(..self.at);
        }
        self.single_until = self.single_until.saturating_sub(self.at);
        self.gone += self.at as u64;
        self.at = 0;
    }

    /// Bytes of memory that it takes for what has come and what goes.
    pub fn buffered(&self) -> usize {
        let spans = self.parser.spans.capacity() * size_of::<Span>();
        let queued = self.session.multi.as_ref().map_or(0, |multi| multi.bytes);
        self.input.capacity() + self.out.bytes.capacity() + spans + queued
    }
}
