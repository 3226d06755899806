//! Numbers of entries.

use crate::stop::{Run, Stop};
use crate::text::parse_u64;

/// The number of an entry: milliseconds, and a sequence within them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Id(pub u64, pub u64);

const INVALID: &str = "ERR Invalid stream ID specified as stream command argument";

impl Id {
    /// The first of all.
    pub const MIN: Id = Id(0, 0);
    /// The last of all.
    pub const MAX: Id = Id(u64::MAX, u64::MAX);

    /// The next one.
    pub fn next(self) -> Option<Id> {
        match self.1.checked_add(1) {
            Some(sequence) => Some(Id(self.0, sequence)),
            None => self.0.checked_add(1).map(|ms| Id(ms, 0)),
        }
    }

    /// The one before.
    pub fn previous(self) -> Option<Id> {
        match self.1.checked_sub(1) {
            Some(sequence) => Some(Id(self.0, sequence)),
            None => self.0.checked_sub(1).map(|ms| Id(ms, u64::MAX)),
        }
    }

    /// Its bytes, in its order.
    pub fn bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.0.to_be_bytes());
        bytes[8..].copy_from_slice(&self.1.to_be_bytes());
        bytes
    }

    /// The one with these bytes.
    pub fn of(bytes: &[u8]) -> Id {
        let number = |at: usize| {
            let part = bytes.get(at..at + 8);
            part.and_then(terrace::encode::to_u64).unwrap_or(0)
        };
        Id(number(0), number(8))
    }

    /// As it is written; the sequence is this one if it is left out.
    pub fn parse(text: &[u8], sequence: u64) -> Run<Id> {
        let mut parts = text.splitn(2, |b| *b == b'-');
        let ms = parts.next().and_then(parse_u64);
        let sequence = match parts.next() {
            Some(part) => parse_u64(part),
            None => Some(sequence),
        };
        match (ms, sequence) {
            (Some(ms), Some(sequence)) => Ok(Id(ms, sequence)),
            _ => Err(Stop::Reply(INVALID.into())),
        }
    }

    /// The bound of a range: `-`, `+`, a number, or one that is left out.
    pub fn bound(text: &[u8], is_low: bool) -> Run<Id> {
        let (text, open) = match text.strip_prefix(b"(") {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        let id = match text {
            b"-" if !open => Id::MIN,
            b"+" if !open => Id::MAX,
            _ => Id::parse(text, if is_low { 0 } else { u64::MAX })?,
        };
        if !open {
            return Ok(id);
        }
        let moved = if is_low { id.next() } else { id.previous() };
        let which = if is_low { "start" } else { "end" };
        moved.ok_or(Stop::Reply(
            format!("ERR invalid {which} ID for the interval").into(),
        ))
    }
}

impl std::fmt::Display for Id {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}-{}", self.0, self.1)
    }
}
