//! Members that are taken out.

use std::ops::ControlFlow;

use super::add::remove_member;
use super::range::{Members, Part, RangeLimit, place};
use crate::command::call::Call;
use crate::command::waits::{others_wait, timeout, waited_for};
use crate::stop::{Run, SYNTAX, Stop, TOO_LARGE, Wait, refuse};
use crate::store::codec::{Head, Kind, score_in, scores};

/// Members that are removed in one step.
const STEP: usize = 1024;
/// Bytes beside a member in an answer: those of its score, and how long both are.
const BESIDE: usize = 64;

/// Removes the members in a part, in steps; tells `f` each of them. How many they were.
fn remove_part(
    c: &mut Call,
    key: &[u8],
    head: &mut Head,
    (part, limit): (&Part, RangeLimit),
    f: &mut dyn FnMut(&[u8], f64),
) -> Run<u64> {
    let Some(mut place) = place(c.work, head, part, limit)? else {
        return Ok(0);
    };
    let mut removed = 0;
    loop {
        let mut some = Vec::new();
        let reverse = place.reverse;
        c.work
            .each(&place.low, &place.high, reverse, &mut |key, _| {
                if place.skip > 0 {
                    place.skip -= 1;
                    return ControlFlow::Continue(());
                }
                some.push(key.to_vec());
                place.most -= 1;
                match place.most > 0 && some.len() < STEP {
                    true => ControlFlow::Continue(()),
                    false => ControlFlow::Break(()),
                }
            })?;
        for record in &some {
            let (score, member) = score_in(record);
            f(member, score);
            remove_member(c.work, head, member, score);
        }
        removed += some.len() as u64;
        let (true, Some(last)) = (some.len() == STEP && place.most > 0, some.pop()) else {
            return Ok(removed);
        };
        // It goes on behind the last one, which is gone.
        match reverse {
            true => place.high = last,
            false => place.low = last,
        }
        c.work.step_done(key, head)?;
    }
}

/// Takes up to `most` members with the lowest, or highest, scores.
fn take(c: &mut Call, key: &[u8], mut head: Head, highest: bool, most: u64) -> Run<Members> {
    let limit = RangeLimit {
        reverse: highest,
        offset: 0,
        most,
    };
    let (low, high) = scores(head.number);
    // What cannot be answered is not taken.
    if most > STEP as u64 && !c.work.fits((&low, &high), highest, most, BESIDE)? {
        return refuse(TOO_LARGE);
    }
    let all = Part::Score((f64::NEG_INFINITY, false), (f64::INFINITY, false));
    let mut found = Members::new();
    remove_part(c, key, &mut head, (&all, limit), &mut |member, score| {
        found.push((member.to_vec(), score));
    })?;
    if !found.is_empty() {
        c.work
            .event(b'z', if highest { "zpopmax" } else { "zpopmin" }, key);
        c.work.save(key, &head)?;
    }
    Ok(found)
}

fn pop(c: &mut Call, highest: bool) -> Run {
    let key = c.args.at(1);
    if c.args.len() > 3 {
        return refuse(SYNTAX);
    }
    let many = c.args.len() == 3;
    let most = match many {
        true => match crate::text::parse_i64(c.args.at(2)) {
            Some(most) if most >= 0 => most as u64,
            _ => return refuse("ERR value is out of range, must be positive"),
        },
        false => 1,
    };
    let found = match c.work.typed(key, Kind::Sorted)? {
        Some(head) => take(c, key, head, highest, most)?,
        None => Members::new(),
    };
    match many && c.out.third {
        true => c.out.array(found.len()),
        false => c.out.array(found.len() * 2),
    }
    for (member, score) in &found {
        if many && c.out.third {
            c.out.array(2);
        }
        c.out.bulk(member);
        c.out.double(*score);
    }
    Ok(())
}

/// `ZPOPMIN`.
pub fn zpopmin(c: &mut Call) -> Run {
    pop(c, false)
}

/// `ZPOPMAX`.
pub fn zpopmax(c: &mut Call) -> Run {
    pop(c, true)
}

fn blocking_pop(c: &mut Call, highest: bool) -> Run {
    let last = c.args.len() - 1;
    let timeout = timeout(c, last)?;
    let keys: Vec<&[u8]> = c.args.from(1).take(last - 1).collect();
    for key in &keys {
        let Some(head) = waited_for(c, key, Kind::Sorted)? else {
            continue;
        };
        if others_wait(c, key, Kind::Sorted) {
            continue;
        }
        let found = take(c, key, head, highest, 1)?;
        if let Some((member, score)) = found.first() {
            c.out.array(3);
            c.out.bulk(key);
            c.out.bulk(member);
            c.out.double(*score);
            return Ok(());
        }
    }
    Err(Stop::Wait(Wait {
        keys: keys.into_iter().map(<[u8]>::to_vec).collect(),
        timeout,
        array: true,
        all: false,
        kind: Kind::Sorted,
    }))
}

/// `BZPOPMIN`.
pub fn bzpopmin(c: &mut Call) -> Run {
    blocking_pop(c, false)
}

/// `BZPOPMAX`.
pub fn bzpopmax(c: &mut Call) -> Run {
    blocking_pop(c, true)
}

fn pop_of_several(c: &mut Call, at: usize, fair: bool) -> Run<Option<Vec<Vec<u8>>>> {
    let keys = c.args.key_count(at)?;
    let highest = match () {
        () if c.args.is(at + keys + 1, "MIN") => false,
        () if c.args.is(at + keys + 1, "MAX") => true,
        () => return refuse(SYNTAX),
    };
    let mut most = 1;
    if c.args.len() > at + keys + 2 {
        if !c.args.is(at + keys + 2, "COUNT") || c.args.len() != at + keys + 4 {
            return refuse(SYNTAX);
        }
        most = match crate::text::parse_i64(c.args.at(at + keys + 3)) {
            Some(most) if most > 0 => most as u64,
            _ => return refuse("ERR count should be greater than 0"),
        };
    }
    let keys: Vec<&[u8]> = c.args.from(at + 1).take(keys).collect();
    for key in &keys {
        let head = match fair {
            true => waited_for(c, key, Kind::Sorted)?,
            false => c.work.typed(key, Kind::Sorted)?,
        };
        let Some(head) = head else {
            continue;
        };
        if fair && others_wait(c, key, Kind::Sorted) {
            continue;
        }
        let found = take(c, key, head, highest, most)?;
        c.out.array(2);
        c.out.bulk(key);
        c.out.array(found.len());
        for (member, score) in &found {
            c.out.array(2);
            c.out.bulk(member);
            c.out.double(*score);
        }
        return Ok(None);
    }
    Ok(Some(keys.into_iter().map(<[u8]>::to_vec).collect()))
}

/// `ZMPOP`.
pub fn zmpop(c: &mut Call) -> Run {
    if pop_of_several(c, 1, false)?.is_some() {
        c.out.null_array();
    }
    Ok(())
}

/// `BZMPOP`.
pub fn bzmpop(c: &mut Call) -> Run {
    let timeout = timeout(c, 1)?;
    match pop_of_several(c, 2, true)? {
        None => Ok(()),
        Some(keys) => Err(Stop::Wait(Wait {
            keys,
            timeout,
            array: true,
            all: false,
            kind: Kind::Sorted,
        })),
    }
}

fn remove(c: &mut Call, part: &Part, event: &'static str) -> Run {
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::Sorted)? else {
        c.out.number(0);
        return Ok(());
    };
    let removed = remove_part(c, key, &mut head, (part, RangeLimit::ALL), &mut |_, _| {})?;
    if removed > 0 {
        c.work.event(b'z', event, key);
        c.work.save(key, &head)?;
    }
    c.out.number(removed as i64);
    Ok(())
}

/// `ZREMRANGEBYRANK`.
pub fn zremrangebyrank(c: &mut Call) -> Run {
    let part = Part::by_rank(&c.args, 2)?;
    remove(c, &part, "zremrangebyrank")
}

/// `ZREMRANGEBYSCORE`.
pub fn zremrangebyscore(c: &mut Call) -> Run {
    let part = Part::by_score(&c.args, 2, 3)?;
    remove(c, &part, "zremrangebyscore")
}

/// `ZREMRANGEBYLEX`.
pub fn zremrangebylex(c: &mut Call) -> Run {
    let part = Part::by_lex(&c.args, 2, 3)?;
    remove(c, &part, "zremrangebylex")
}
