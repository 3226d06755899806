//! The arguments of a command, and what they say.

use crate::proto::parse::Span;
use crate::stop::{NOT_FLOAT, NOT_INTEGER, Run, SYNTAX, Stop, refuse};
use crate::text;

/// The arguments of a command, its name first.
#[derive(Clone, Copy, Debug)]
pub struct Args<'a> {
    bytes: &'a [u8],
    spans: &'a [Span],
}

impl<'a> Args<'a> {
    /// The parts of `bytes` at these spans.
    pub fn new(bytes: &'a [u8], spans: &'a [Span]) -> Args<'a> {
        Args { bytes, spans }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.spans.len()
    }

    /// Whether there is not even a name.
    pub fn is_empty(&self) -> bool {
        self.spans.is_empty()
    }

    /// One of them; empty if there is none.
    pub fn at(&self, i: usize) -> &'a [u8] {
        let span = self.spans.get(i).copied().unwrap_or_default();
        let part = self.bytes.get(span.0 as usize..span.1 as usize);
        part.unwrap_or_default()
    }

    /// All from one on.
    pub fn from(&self, first: usize) -> impl DoubleEndedIterator<Item = &'a [u8]> + '_ {
        (first..self.len()).map(|i| self.at(i))
    }

    /// Whether one of them is this word, in any case.
    pub fn is(&self, i: usize, word: &str) -> bool {
        i < self.len() && self.at(i).eq_ignore_ascii_case(word.as_bytes())
    }

    /// A whole number.
    pub fn integer(&self, i: usize) -> Run<i64> {
        integer(self.at(i))
    }

    /// A floating-point number.
    pub fn float(&self, i: usize) -> Run<f64> {
        text::parse_f64(self.at(i)).ok_or(Stop::Reply(NOT_FLOAT.into()))
    }

    /// How many keys follow, and that they are there: from `i` + 1 on.
    pub fn key_count(&self, i: usize) -> Run<usize> {
        let Some(count) = text::parse_i64(self.at(i)) else {
            return refuse(NOT_INTEGER);
        };
        if count <= 0 {
            return refuse("ERR numkeys should be greater than 0");
        }
        match usize::try_from(count) {
            Ok(count) if count < self.len() - i => Ok(count),
            _ => refuse(SYNTAX),
        }
    }
}

/// A whole number.
pub fn integer(bytes: &[u8]) -> Run<i64> {
    text::parse_i64(bytes).ok_or(Stop::Reply(NOT_INTEGER.into()))
}

/// The part of a sequence that two places name which may count from the end: the first, and how many.
pub fn part(length: u64, start: i64, stop: i64) -> (u64, u64) {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let place = |at: i64| {
        if at < 0 {
            at.saturating_add(length)
        } else {
            at
        }
    };
    let (start, stop) = (place(start).max(0), place(stop).min(length - 1));
    match start <= stop {
        true => (start as u64, (stop - start + 1) as u64),
        false => (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_from_both_ends() {
        assert_eq!(part(5, 0, -1), (0, 5));
        assert_eq!(part(5, -2, -1), (3, 2));
        assert_eq!(part(5, 3, 100), (3, 2));
        assert_eq!(part(5, 4, 3), (0, 0));
        assert_eq!(part(5, -100, 1), (0, 2));
        assert_eq!(part(0, 0, -1), (0, 0));
        assert_eq!(part(5, i64::MIN, i64::MAX), (0, 5));
    }
}
