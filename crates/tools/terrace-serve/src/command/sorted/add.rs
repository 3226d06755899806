//! Members that come, change their score, and go.

use crate::command::call::Call;
use crate::command::hashes::{count, field_key};
use crate::planted::{Fault, planted};
use crate::stop::{NOT_FLOAT, Run, SYNTAX, Stop, refuse};
use crate::store::codec::{Head, Kind, score_bytes, score_key, score_of};
use crate::store::work::Work;
use crate::text::parse_f64;

/// The score of a member.
pub fn score(work: &Work, head: &Head, member: &[u8]) -> Run<Option<f64>> {
    let key = field_key(work, head, member);
    work.with_element(&key, |value| value.map(score_of))
}

/// Stores a member, of which `old` is the score so far.
pub fn put_member(
    work: &mut Work,
    head: &mut Head,
    member: &[u8],
    old: Option<f64>,
    score: f64,
) -> Run {
    match old {
        Some(old) if old == score => return Ok(()),
        Some(old) => work.delete_element(score_key(head.number, old, member)),
        None => head.count += 1,
    }
    work.put_element(score_key(head.number, score, member), b"")?;
    let key = field_key(work, head, member);
    work.put_element(key, &score_bytes(score))
}

/// Removes a member that is there.
pub fn remove_member(work: &mut Work, head: &mut Head, member: &[u8], score: f64) {
    work.delete_element(score_key(head.number, score, member));
    let key = field_key(work, head, member);
    work.delete_element(key);
    if !planted(Fault::CountDrifts) {
        head.count = head.count.saturating_sub(1);
    }
}

/// `ZADD`.
pub fn zadd(c: &mut Call) -> Run {
    add(c, false)
}

/// `ZINCRBY`.
pub fn zincrby(c: &mut Call) -> Run {
    add(c, true)
}

fn add(c: &mut Call, incrby: bool) -> Run {
    let key = c.args.at(1);
    let (mut only_new, mut only_old, mut greater, mut lower, mut changed, mut adds) =
        (false, false, false, false, false, incrby);
    let mut at = 2;
    while !incrby && at < c.args.len() {
        match () {
            () if c.args.is(at, "NX") => only_new = true,
            () if c.args.is(at, "XX") => only_old = true,
            () if c.args.is(at, "GT") => greater = true,
            () if c.args.is(at, "LT") => lower = true,
            () if c.args.is(at, "CH") => changed = true,
            () if c.args.is(at, "INCR") => adds = true,
            () => break,
        }
        at += 1;
    }
    let rest = c.args.len() - at;
    if rest == 0 || !rest.is_multiple_of(2) {
        return refuse(SYNTAX);
    }
    if only_new && only_old {
        return refuse("ERR XX and NX options at the same time are not compatible");
    }
    if (only_new && (greater || lower)) || (greater && lower) {
        return refuse("ERR GT, LT, and/or NX options at the same time are not compatible");
    }
    if adds && rest > 2 {
        return refuse("ERR INCR option supports a single increment-element pair");
    }
    let mut pairs = Vec::with_capacity(rest / 2);
    for i in (at..c.args.len()).step_by(2) {
        let score = parse_f64(c.args.at(i)).ok_or(Stop::Reply(NOT_FLOAT.into()))?;
        pairs.push((score, c.args.at(i + 1)));
    }
    let head = match only_old {
        true => c.work.typed(key, Kind::Sorted)?,
        false => Some(c.work.typed_or_new(key, Kind::Sorted)?),
    };
    let Some(mut head) = head else {
        match adds {
            true => c.out.null(),
            false => c.out.number(0),
        }
        return Ok(());
    };
    let before = head.count;
    let (mut updated, mut last) = (0, None);
    for (i, (wanted, member)) in pairs.into_iter().enumerate() {
        let old = score(c.work, &head, member)?;
        let new = match old {
            Some(old) if adds => old + wanted,
            _ => wanted,
        };
        if new.is_nan() {
            return refuse("ERR resulting score is not a number (NaN)");
        }
        let refused = match old {
            Some(old) => only_new || (greater && new <= old) || (lower && new >= old),
            None => only_old,
        };
        if refused {
            continue;
        }
        last = Some(new);
        updated += i64::from(old.is_some_and(|old| old != new));
        put_member(c.work, &mut head, member, old, new)?;
        if i % 1024 == 1023 {
            c.work.put_head(key, &head)?;
            c.work.relieve()?;
        }
    }
    let new = (head.count - before) as i64;
    if new > 0 {
        c.work.save(key, &head)?;
    }
    if new + updated > 0 {
        c.work.event(b'z', if adds { "zincr" } else { "zadd" }, key);
    }
    match (adds, last) {
        (true, Some(score)) => c.out.double(score),
        (true, None) => c.out.null(),
        (false, _) => c.out.number(new + if changed { updated } else { 0 }),
    }
    Ok(())
}

/// `ZREM`.
pub fn zrem(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::Sorted)? else {
        c.out.number(0);
        return Ok(());
    };
    let mut removed = 0;
    for (i, member) in c.args.from(2).enumerate() {
        if let Some(old) = score(c.work, &head, member)? {
            remove_member(c.work, &mut head, member, old);
            removed += 1;
        }
        if i % 1024 == 1023 {
            c.work.step_done(key, &head)?;
        }
    }
    if removed > 0 {
        c.work.event(b'z', "zrem", key);
        c.work.save(key, &head)?;
    }
    c.out.number(removed);
    Ok(())
}

/// `ZCARD`.
pub fn zcard(c: &mut Call) -> Run {
    count(c, Kind::Sorted)
}
