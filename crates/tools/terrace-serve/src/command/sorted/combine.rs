//! What several sorted sets, or sets, make together.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use super::find::{store_members, write_members};
use super::range::Members;
use crate::command::call::Call;
use crate::command::hashes::field_key;
use crate::stop::{Run, SYNTAX, TOO_LARGE, WRONG_TYPE, refuse};
use crate::store::codec::{Head, Kind, field_in, fields, score_of};
use crate::text::parse_f64;

/// Bytes that a member takes beside its own.
const BESIDE: usize = 64;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Union,
    Inter,
    Diff,
}

#[derive(Clone, Copy)]
enum Aggregate {
    Sum,
    Min,
    Max,
}

/// What is asked for.
struct Asked {
    keys: Vec<Vec<u8>>,
    weights: Vec<f64>,
    aggregate: Aggregate,
    with_scores: bool,
    limit: usize,
}

/// Reads `numkeys key .. [options]`, the number at `at`.
fn asked(c: &Call, at: usize, operation: Operation, stores: bool, name: &str) -> Run<Asked> {
    let many = c.args.integer(at)?;
    if many < 1 {
        return refuse(format!(
            "ERR at least 1 input key is needed for '{name}' command"
        ));
    }
    let Some(many) = usize::try_from(many)
        .ok()
        .filter(|n| *n < c.args.len() - at)
    else {
        return refuse(SYNTAX);
    };
    let mut asked = Asked {
        keys: c.args.from(at + 1).take(many).map(<[u8]>::to_vec).collect(),
        weights: vec![1.0; many],
        aggregate: Aggregate::Sum,
        with_scores: false,
        limit: usize::MAX,
    };
    let counts = name == "zintercard";
    let combines = operation != Operation::Diff && !counts;
    let mut i = at + 1 + many;
    while i < c.args.len() {
        let left = c.args.len() - i - 1;
        if combines && left >= many && c.args.is(i, "WEIGHTS") {
            for (weight, at) in asked.weights.iter_mut().zip(i + 1..) {
                match parse_f64(c.args.at(at)) {
                    Some(number) => *weight = number,
                    None => return refuse("ERR weight value is not a float"),
                }
            }
            i += many;
        } else if combines && left >= 1 && c.args.is(i, "AGGREGATE") {
            asked.aggregate = match () {
                () if c.args.is(i + 1, "SUM") => Aggregate::Sum,
                () if c.args.is(i + 1, "MIN") => Aggregate::Min,
                () if c.args.is(i + 1, "MAX") => Aggregate::Max,
                () => return refuse(SYNTAX),
            };
            i += 1;
        } else if !stores && !counts && c.args.is(i, "WITHSCORES") {
            asked.with_scores = true;
        } else if counts && left >= 1 && c.args.is(i, "LIMIT") {
            match crate::text::parse_i64(c.args.at(i + 1)) {
                Some(0) => {}
                Some(limit) if limit > 0 => asked.limit = limit as usize,
                _ => return refuse("ERR LIMIT can't be negative"),
            }
            i += 1;
        } else {
            return refuse(SYNTAX);
        }
        i += 1;
    }
    Ok(asked)
}

/// The heads of the sets, which may be gone through here.
fn heads(c: &mut Call, asked: &Asked) -> Run<Vec<Option<Head>>> {
    let mut heads = Vec::new();
    for key in &asked.keys {
        let head = c.work.head(key)?;
        if head.is_some_and(|h| !matches!(h.kind, Kind::Set | Kind::Sorted)) {
            return refuse(WRONG_TYPE);
        }
        heads.push(head);
    }
    let many = heads.iter().flatten().map(|head| head.count).sum();
    c.work.may_go_through(many)?;
    Ok(heads)
}

fn combined(c: &mut Call, asked: &Asked, operation: Operation, bound: usize) -> Run<Members> {
    let mut sum: BTreeMap<Vec<u8>, (f64, usize)> = BTreeMap::new();
    let heads = heads(c, asked)?;
    let mut bytes = 0;
    for (nth, (head, weight)) in heads.iter().zip(&asked.weights).enumerate() {
        let Some(head) = head else {
            continue;
        };
        let (low, high) = fields(head.number, 0);
        c.work.each(&low, &high, false, &mut |key, value| {
            let own = if head.kind == Kind::Set {
                1.0
            } else {
                score_of(value)
            };
            let mut own = own * weight;
            // As Redis, what an intersection finds in other sets than the first one is compared as it is.
            if own.is_nan() && (nth == 0 || operation != Operation::Inter) {
                own = 0.0;
            }
            let member = field_in(key);
            match (operation, sum.get_mut(member)) {
                (Operation::Diff, Some(_)) if nth > 0 => _ = sum.remove(member),
                (Operation::Diff, None) if nth > 0 => {}
                (_, None) if nth == 0 || operation == Operation::Union => {
                    bytes += member.len() + BESIDE;
                    if bytes > bound {
                        return ControlFlow::Break(());
                    }
                    sum.insert(member.to_vec(), (own, 1));
                }
                (_, Some((score, times))) => {
                    *times += 1;
                    *score = match asked.aggregate {
                        Aggregate::Sum => *score + own,
                        Aggregate::Min if own < *score => own,
                        Aggregate::Max if own > *score => own,
                        _ => *score,
                    };
                    if score.is_nan() {
                        *score = 0.0;
                    }
                }
                (_, None) => {}
            }
            ControlFlow::Continue(())
        })?;
        if bytes > bound {
            return refuse(TOO_LARGE);
        }
    }
    let all = asked.keys.len();
    let is_in = |times: usize| operation != Operation::Inter || times == all;
    let found = sum.into_iter().filter(|(_, (_, times))| is_in(*times));
    let mut found: Members = found.map(|(member, (score, _))| (member, score)).collect();
    found.sort_by(|a, b| a.1.total_cmp(&b.1).then_with(|| a.0.cmp(&b.0)));
    Ok(found)
}

fn answer(c: &mut Call, operation: Operation, name: &str) -> Run {
    let asked = asked(c, 1, operation, false, name)?;
    let found = combined(c, &asked, operation, c.work.most)?;
    write_members(c.out, &found, asked.with_scores);
    Ok(())
}

fn store(c: &mut Call, operation: Operation, name: &'static str) -> Run {
    let asked = asked(c, 2, operation, true, name)?;
    let found = combined(c, &asked, operation, c.work.most_stored())?;
    store_members(c, c.args.at(1), &found, name)
}

/// `ZUNION`.
pub fn zunion(c: &mut Call) -> Run {
    answer(c, Operation::Union, "zunion")
}

/// `ZINTER`.
pub fn zinter(c: &mut Call) -> Run {
    answer(c, Operation::Inter, "zinter")
}

/// `ZDIFF`.
pub fn zdiff(c: &mut Call) -> Run {
    answer(c, Operation::Diff, "zdiff")
}

/// `ZUNIONSTORE`.
pub fn zunionstore(c: &mut Call) -> Run {
    store(c, Operation::Union, "zunionstore")
}

/// `ZINTERSTORE`.
pub fn zinterstore(c: &mut Call) -> Run {
    store(c, Operation::Inter, "zinterstore")
}

/// `ZDIFFSTORE`.
pub fn zdiffstore(c: &mut Call) -> Run {
    store(c, Operation::Diff, "zdiffstore")
}

/// `ZINTERCARD`.
pub fn zintercard(c: &mut Call) -> Run {
    let asked = asked(c, 1, Operation::Inter, false, "zintercard")?;
    let heads = heads(c, &asked)?;
    let Some(mut heads) = heads.into_iter().collect::<Option<Vec<Head>>>() else {
        c.out.count(0);
        return Ok(());
    };
    heads.sort_by_key(|head| head.count);
    let (mut found, mut failed) = (0, None);
    let (smallest, others) = (heads[0], &heads[1..]);
    let (low, high) = fields(smallest.number, 0);
    c.work.each(&low, &high, false, &mut |key, _| {
        let member = field_in(key);
        for other in others {
            match c.work.has_element(&field_key(c.work, other, member)) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(stop) => {
                    failed = Some(stop);
                    return ControlFlow::Break(());
                }
            }
        }
        found += 1;
        match found < asked.limit {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    if let Some(stop) = failed {
        return Err(stop);
    }
    c.out.count(found);
    Ok(())
}
