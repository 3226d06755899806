//! Parts of a sorted set: by rank, by score, by member.

use std::ops::ControlFlow;

use crate::command::args::{Args, part};
use crate::stop::{NOT_INTEGER, Run, Stop, TOO_LARGE, refuse};
use crate::store::codec::{Head, score_in, score_key, scores};
use crate::store::work::Work;
use crate::text::{parse_f64_loosely, parse_i64};

/// A part of a sorted set.
#[derive(Clone, Debug)]
pub enum Part {
    /// By rank, from one place to another, which may count from the end.
    Rank(i64, i64),
    /// By score: lowest and highest, and whether each is left out.
    Score((f64, bool), (f64, bool)),
    /// By member, where all have the same score: lowest and highest.
    Lex(Lex, Lex),
}

/// A bound by member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lex {
    /// Before all members.
    First,
    /// This member, and whether it is left out.
    Member(Vec<u8>, bool),
    /// Behind all members.
    Last,
}

/// How much of a part, and from which end.
#[derive(Clone, Copy, Debug)]
pub struct RangeLimit {
    /// From the highest to the lowest.
    pub reverse: bool,
    /// Members that are passed over.
    pub offset: u64,
    /// Members at most.
    pub most: u64,
}

impl RangeLimit {
    /// All of it, from the lowest on.
    pub const ALL: RangeLimit = RangeLimit {
        reverse: false,
        offset: 0,
        most: u64::MAX,
    };
}

fn score_bound(bytes: &[u8]) -> Run<(f64, bool)> {
    let (bytes, open) = match bytes.strip_prefix(b"(") {
        Some(rest) => (rest, true),
        None => (bytes, false),
    };
    match parse_f64_loosely(bytes) {
        Some(score) => Ok((score, open)),
        None => refuse("ERR min or max is not a float"),
    }
}

fn lex_bound(bytes: &[u8]) -> Run<Lex> {
    match bytes {
        b"-" => Ok(Lex::First),
        b"+" => Ok(Lex::Last),
        [b'(', member @ ..] => Ok(Lex::Member(member.to_vec(), true)),
        [b'[', member @ ..] => Ok(Lex::Member(member.to_vec(), false)),
        _ => refuse("ERR min or max not valid string range item"),
    }
}

impl Part {
    /// By rank, as two arguments say.
    pub fn by_rank(args: &Args, at: usize) -> Run<Part> {
        let number = |i| parse_i64(args.at(i)).ok_or(Stop::Reply(NOT_INTEGER.into()));
        Ok(Part::Rank(number(at)?, number(at + 1)?))
    }

    /// By score, as two arguments say, the lowest at `low`.
    pub fn by_score(args: &Args, low: usize, high: usize) -> Run<Part> {
        Ok(Part::Score(
            score_bound(args.at(low))?,
            score_bound(args.at(high))?,
        ))
    }

    /// By member, as two arguments say, the lowest at `low`.
    pub fn by_lex(args: &Args, low: usize, high: usize) -> Run<Part> {
        Ok(Part::Lex(
            lex_bound(args.at(low))?,
            lex_bound(args.at(high))?,
        ))
    }
}

/// Members, with their scores, in their order.
pub type Members = Vec<(Vec<u8>, f64)>;

/// The members in a part.
///
/// # Errors
/// They take more than `most` bytes.
pub fn members(
    work: &Work,
    head: &Head,
    part_of: &Part,
    limit: RangeLimit,
    most: usize,
) -> Run<Members> {
    let (mut found, mut bytes) = (Members::new(), 0);
    each(work, head, part_of, limit, &mut |member, score| {
        bytes += member.len() + size_of::<f64>();
        if bytes <= most {
            found.push((member.to_vec(), score));
        }
    })?;
    match bytes <= most {
        true => Ok(found),
        false => refuse(TOO_LARGE),
    }
}

/// Where a part lies in the order of scores.
pub struct Place {
    /// The first key.
    pub low: Vec<u8>,
    /// The first key behind it.
    pub high: Vec<u8>,
    /// Members that are passed over.
    pub skip: u64,
    /// Members at most.
    pub most: u64,
    /// Whether it is gone through from its end.
    pub reverse: bool,
    /// Whether that is the other way round than was asked for.
    turned: bool,
}

/// Where a part lies; nowhere if it has no members.
pub fn place(work: &Work, head: &Head, part_of: &Part, limit: RangeLimit) -> Run<Option<Place>> {
    let (all_low, all_high) = scores(head.number);
    let (mut low, mut high) = (all_low, all_high);
    let (mut skip, mut most) = (limit.offset, limit.most);
    let mut reverse = limit.reverse;
    let mut turned = false;
    match part_of {
        Part::Rank(start, stop) => {
            let (from, many) = part(head.count, *start, *stop);
            (skip, most) = (from, many);
            // From the nearer end.
            if from > head.count / 2 {
                skip = head.count - from - many;
                reverse = !reverse;
                turned = true;
            }
        }
        Part::Score(lowest, highest) => {
            low = score_key(head.number, lowest.0, b"");
            high = score_key(head.number, highest.0, b"");
            // Behind all members of a score: its bytes are not the highest ones, which are of no number.
            if lowest.1 {
                low = past_score(low);
            }
            if !highest.1 {
                high = past_score(high);
            }
        }
        Part::Lex(lowest, highest) => {
            // The score that all of them have.
            let first = work.range(&low, &high, false, 1)?;
            let Some((first, _)) = first.first() else {
                return Ok(None);
            };
            let score = score_in(first).0;
            let bound = |lex: &Lex, is_high: bool| match lex {
                Lex::First => score_key(head.number, score, b""),
                Lex::Last => past_score(score_key(head.number, score, b"")),
                Lex::Member(member, open) => {
                    let mut key = score_key(head.number, score, member);
                    if *open != is_high {
                        key.push(0);
                    }
                    key
                }
            };
            (low, high) = (bound(lowest, false), bound(highest, true));
        }
    }
    let place = Place {
        low,
        high,
        skip,
        most,
        reverse,
        turned,
    };
    Ok((most > 0 && place.low < place.high).then_some(place))
}

/// Tells `f` the members in a part.
pub fn each(
    work: &Work,
    head: &Head,
    part_of: &Part,
    limit: RangeLimit,
    f: &mut dyn FnMut(&[u8], f64),
) -> Run {
    let Some(place) = place(work, head, part_of, limit)? else {
        return Ok(());
    };
    let Place {
        low,
        high,
        mut skip,
        mut most,
        reverse,
        turned,
    } = place;
    let mut later = Vec::new();
    work.each(&low, &high, reverse, &mut |key, _| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        let (score, member) = score_in(key);
        match turned {
            true => later.push((member.to_vec(), score)),
            false => f(member, score),
        }
        most -= 1;
        match most {
            0 => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    })?;
    later
        .iter()
        .rev()
        .for_each(|(member, score)| f(member, *score));
    Ok(())
}

/// The first key behind all members of a score.
fn past_score(mut key: Vec<u8>) -> Vec<u8> {
    while key.pop_if(|byte| *byte == u8::MAX).is_some() {}
    if let Some(last) = key.last_mut() {
        *last += 1;
    }
    key
}
