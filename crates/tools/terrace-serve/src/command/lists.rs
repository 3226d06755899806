//! Lists, and waiting for their elements.

use std::ops::ControlFlow;

use super::args::part;
use super::call::Call;
use super::hashes::count;
use super::waits::{others_wait, timeout, waited_for};
use crate::stop::{NO_KEY, Run, SYNTAX, Stop, TOO_LARGE, Wait, refuse};
use crate::store::codec::{Head, Kind, position_key};
use crate::store::work::Work;

/// An end of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Where the first element is.
    Left,
    /// Where the last one is.
    Right,
}

impl End {
    fn letter<'n>(self, left: &'n str, right: &'n str) -> &'n str {
        match self {
            End::Left => left,
            End::Right => right,
        }
    }
}

/// Puts an element at an end.
fn push_one(work: &mut Work, head: &mut Head, end: End, value: &[u8]) -> Run {
    let at = match end {
        End::Left => {
            head.first -= 1;
            head.first
        }
        End::Right => head.end(),
    };
    head.count += 1;
    work.put_element(position_key(head.number, at), value)
}

/// Takes an element off an end.
fn pop_one(work: &mut Work, head: &mut Head, end: End) -> Run<Option<Vec<u8>>> {
    if head.count == 0 {
        return Ok(None);
    }
    let at = match end {
        End::Left => head.first,
        End::Right => head.end() - 1,
    };
    let key = position_key(head.number, at);
    let value = work.element(&key)?;
    work.delete_element(key);
    head.count -= 1;
    if end == End::Left {
        head.first += 1;
    }
    Ok(value)
}

fn push(c: &mut Call, end: End, only_old: bool) -> Run {
    let key = c.args.at(1);
    let head = match only_old {
        true => c.work.typed(key, Kind::List)?,
        false => Some(c.work.typed_or_new(key, Kind::List)?),
    };
    let Some(mut head) = head else {
        c.out.number(0);
        return Ok(());
    };
    for (i, value) in c.args.from(2).enumerate() {
        push_one(c.work, &mut head, end, value)?;
        if i % 1024 == 1023 {
            c.work.put_head(key, &head)?;
            c.work.relieve()?;
        }
    }
    c.work.save(key, &head)?;
    c.work.event(b'l', end.letter("lpush", "rpush"), key);
    c.out.number(head.count as i64);
    Ok(())
}

/// `LPUSH`.
pub fn lpush(c: &mut Call) -> Run {
    push(c, End::Left, false)
}

/// `RPUSH`.
pub fn rpush(c: &mut Call) -> Run {
    push(c, End::Right, false)
}

/// `LPUSHX`.
pub fn lpushx(c: &mut Call) -> Run {
    push(c, End::Left, true)
}

/// `RPUSHX`.
pub fn rpushx(c: &mut Call) -> Run {
    push(c, End::Right, true)
}

/// Elements that are removed in one step.
const STEP: u64 = 1024;
/// Bytes beside an element in an answer, beyond those beside it in its record.
const BESIDE: usize = 16;

/// Takes up to `most` elements off an end of a list that is there, and stores what is left.
fn take(c: &mut Call, key: &[u8], mut head: Head, end: End, most: u64) -> Run<Vec<Vec<u8>>> {
    if most > STEP {
        let (low, high) = (
            position_key(head.number, head.first),
            position_key(head.number, head.end()),
        );
        // What cannot be answered is not taken.
        if !c
            .work
            .fits((&low, &high), end == End::Right, most, BESIDE)?
        {
            return refuse(TOO_LARGE);
        }
    }
    let mut taken = Vec::new();
    while (taken.len() as u64) < most
        && let Some(value) = pop_one(c.work, &mut head, end)?
    {
        taken.push(value);
        if (taken.len() as u64).is_multiple_of(STEP) {
            c.work.step_done(key, &head)?;
        }
    }
    if !taken.is_empty() {
        c.work.event(b'l', end.letter("lpop", "rpop"), key);
        c.work.save(key, &head)?;
    }
    Ok(taken)
}

fn pop(c: &mut Call, end: End) -> Run {
    let key = c.args.at(1);
    if c.args.len() > 3 {
        let name = end.letter("lpop", "rpop");
        return refuse(format!(
            "ERR wrong number of arguments for '{name}' command"
        ));
    }
    let most = match c.args.len() {
        3 => match crate::text::parse_i64(c.args.at(2)) {
            Some(most) if most >= 0 => Some(most as u64),
            _ => return refuse("ERR value is out of range, must be positive"),
        },
        _ => None,
    };
    let head = c.work.typed(key, Kind::List)?;
    let Some(head) = head else {
        match most {
            Some(_) => c.out.null_array(),
            None => c.out.null(),
        }
        return Ok(());
    };
    let mut taken = take(c, key, head, end, most.unwrap_or(1))?;
    match most {
        None => c.out.bulk_or_null(taken.pop()),
        Some(_) => {
            c.out.array(taken.len());
            taken.iter().for_each(|value| c.out.bulk(value));
        }
    }
    Ok(())
}

/// `LPOP`.
pub fn lpop(c: &mut Call) -> Run {
    pop(c, End::Left)
}

/// `RPOP`.
pub fn rpop(c: &mut Call) -> Run {
    pop(c, End::Right)
}

/// `LLEN`.
pub fn llen(c: &mut Call) -> Run {
    count(c, Kind::List)
}

/// Tells `f` elements of a list from one on, counted from its beginning, until it breaks.
fn each_from(
    work: &Work,
    head: &Head,
    from: u64,
    many: u64,
    f: &mut dyn FnMut(&[u8]) -> ControlFlow<()>,
) -> Run {
    let first = head.first.saturating_add_unsigned(from);
    let low = position_key(head.number, first);
    let high = position_key(head.number, first.saturating_add_unsigned(many));
    work.each(&low, &high, false, &mut |_, value| f(value))
}

/// `LRANGE`.
pub fn lrange(c: &mut Call) -> Run {
    let (start, stop) = (c.args.integer(2)?, c.args.integer(3)?);
    let Some(head) = c.work.typed(c.args.at(1), Kind::List)? else {
        c.out.array(0);
        return Ok(());
    };
    let (from, many) = part(head.count, start, stop);
    c.out.array(many as usize);
    let out = &mut *c.out;
    each_from(c.work, &head, from, many, &mut |value| {
        out.bulk(value);
        ControlFlow::Continue(())
    })
}

/// The place that an index names, if there is an element.
fn place(head: &Head, index: i64) -> Option<i64> {
    let count = i64::try_from(head.count).unwrap_or(i64::MAX);
    let index = if index < 0 {
        index.saturating_add(count)
    } else {
        index
    };
    (0..count).contains(&index).then(|| head.first + index)
}

/// `LINDEX`.
pub fn lindex(c: &mut Call) -> Run {
    let index = c.args.integer(2);
    let head = c.work.typed(c.args.at(1), Kind::List)?;
    let Some(head) = head else {
        c.out.null();
        return Ok(());
    };
    let value = match place(&head, index?) {
        Some(at) => c.work.element(&position_key(head.number, at))?,
        None => None,
    };
    c.out.bulk_or_null(value);
    Ok(())
}

/// `LSET`.
pub fn lset(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let Some(head) = c.work.typed(key, Kind::List)? else {
        return refuse(NO_KEY);
    };
    let Some(at) = place(&head, c.args.integer(2)?) else {
        return refuse("ERR index out of range");
    };
    c.work
        .put_element(position_key(head.number, at), c.args.at(3))?;
    c.work.event(b'l', "lset", key);
    c.out.ok();
    Ok(())
}

/// Removes this many elements of an end of a list, of which some are left.
fn trim(c: &mut Call, key: &[u8], head: &mut Head, end: End, mut many: u64) -> Run {
    while many > 0 {
        let most = many.min(STEP);
        let at = match end {
            End::Left => head.first,
            End::Right => head.end().saturating_sub_unsigned(most),
        };
        let places = at..at.saturating_add_unsigned(most);
        let mut keys = places.map(|at| position_key(head.number, at)).collect();
        // Few are not read. Of many no more go together than fit the memory.
        if many > STEP {
            let (low, high) = (
                position_key(head.number, at),
                position_key(head.number, at.saturating_add_unsigned(most)),
            );
            keys = match end {
                End::Left => c.work.step(&low, &high, most as usize)?.0,
                End::Right => c.work.step_back(&low, &high, most as usize)?,
            };
        }
        if keys.is_empty() {
            return Err(c.work.damaged(key).into());
        }
        head.count -= keys.len() as u64;
        many -= keys.len() as u64;
        if end == End::Left {
            head.first += keys.len() as i64;
        }
        keys.into_iter().for_each(|key| c.work.delete_element(key));
        c.work.step_done(key, head)?;
    }
    Ok(())
}

/// `LTRIM`.
pub fn ltrim(c: &mut Call) -> Run {
    let (start, stop) = (c.args.integer(2)?, c.args.integer(3)?);
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::List)? else {
        c.out.ok();
        return Ok(());
    };
    let (from, many) = part(head.count, start, stop);
    // What goes at once is what the collection's number stands for: its elements are removed behind it.
    if many > 0 {
        trim(c, key, &mut head, End::Left, from)?;
        let behind = head.count - many;
        trim(c, key, &mut head, End::Right, behind)?;
    } else {
        head.count = 0;
    }
    c.work.event(b'l', "ltrim", key);
    c.work.save(key, &head)?;
    c.out.ok();
    Ok(())
}

fn end(c: &Call, i: usize) -> Run<End> {
    match () {
        () if c.args.is(i, "LEFT") => Ok(End::Left),
        () if c.args.is(i, "RIGHT") => Ok(End::Right),
        () => refuse(SYNTAX),
    }
}

/// Moves an element from one list to another; `None` if there is none.
fn moved(c: &mut Call, from: End, to: End) -> Run<Option<Vec<u8>>> {
    let (source, target) = (c.args.at(1), c.args.at(2));
    let Some(mut head) = c.work.typed(source, Kind::List)? else {
        return Ok(None);
    };
    c.work.typed(target, Kind::List)?;
    let Some(value) = pop_one(c.work, &mut head, from)? else {
        return Ok(None);
    };
    if source == target {
        push_one(c.work, &mut head, to, &value)?;
    } else {
        let mut other = c.work.typed_or_new(target, Kind::List)?;
        push_one(c.work, &mut other, to, &value)?;
        c.work.save(target, &other)?;
    }
    c.work.event(b'l', to.letter("lpush", "rpush"), target);
    c.work.event(b'l', from.letter("lpop", "rpop"), source);
    c.work.save(source, &head)?;
    Ok(Some(value))
}

/// `LMOVE`.
pub fn lmove(c: &mut Call) -> Run {
    let (from, to) = (end(c, 3)?, end(c, 4)?);
    let value = moved(c, from, to)?;
    c.out.bulk_or_null(value);
    Ok(())
}

/// `RPOPLPUSH`.
pub fn rpoplpush(c: &mut Call) -> Run {
    let value = moved(c, End::Right, End::Left)?;
    c.out.bulk_or_null(value);
    Ok(())
}

fn blocking_pop(c: &mut Call, from: End) -> Run {
    let last = c.args.len() - 1;
    let timeout = timeout(c, last)?;
    let keys: Vec<&[u8]> = c.args.from(1).take(last - 1).collect();
    for key in &keys {
        let Some(head) = waited_for(c, key, Kind::List)? else {
            continue;
        };
        if others_wait(c, key, Kind::List) {
            continue;
        }
        let taken = take(c, key, head, from, 1)?;
        if let Some(value) = taken.first() {
            c.out.array(2);
            c.out.bulk(key);
            c.out.bulk(value);
            return Ok(());
        }
    }
    Err(Stop::Wait(Wait {
        keys: keys.into_iter().map(<[u8]>::to_vec).collect(),
        timeout,
        array: true,
        all: false,
        kind: Kind::List,
    }))
}

/// `BLPOP`.
pub fn blpop(c: &mut Call) -> Run {
    blocking_pop(c, End::Left)
}

/// `BRPOP`.
pub fn brpop(c: &mut Call) -> Run {
    blocking_pop(c, End::Right)
}

fn blocking_move(c: &mut Call, from: End, to: End, timeout: Option<u64>) -> Run {
    let source = c.args.at(1);
    let is_there = waited_for(c, source, Kind::List)?.is_some();
    let value = match !is_there || others_wait(c, source, Kind::List) {
        true => None,
        false => moved(c, from, to)?,
    };
    match value {
        Some(value) => c.out.bulk(value),
        None => {
            return Err(Stop::Wait(Wait {
                keys: vec![source.to_vec()],
                timeout,
                array: false,
                all: false,
                kind: Kind::List,
            }));
        }
    }
    Ok(())
}

/// `BLMOVE`.
pub fn blmove(c: &mut Call) -> Run {
    let (from, to) = (end(c, 3)?, end(c, 4)?);
    let timeout = timeout(c, 5)?;
    blocking_move(c, from, to, timeout)
}

/// `BRPOPLPUSH`.
pub fn brpoplpush(c: &mut Call) -> Run {
    let timeout = timeout(c, 3)?;
    blocking_move(c, End::Right, End::Left, timeout)
}

/// Takes elements off the first list that has any; whether there was one. The number of keys is at `at`.
fn pop_of_several(c: &mut Call, at: usize, fair: bool) -> Run<Option<Vec<Vec<u8>>>> {
    let keys = c.args.key_count(at)?;
    let from = end(c, at + keys + 1)?;
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
            true => waited_for(c, key, Kind::List)?,
            false => c.work.typed(key, Kind::List)?,
        };
        let Some(head) = head else {
            continue;
        };
        if fair && others_wait(c, key, Kind::List) {
            continue;
        }
        let taken = take(c, key, head, from, most)?;
        c.out.array(2);
        c.out.bulk(key);
        c.out.array(taken.len());
        taken.iter().for_each(|value| c.out.bulk(value));
        return Ok(None);
    }
    Ok(Some(keys.into_iter().map(<[u8]>::to_vec).collect()))
}

/// `LMPOP`.
pub fn lmpop(c: &mut Call) -> Run {
    if pop_of_several(c, 1, false)?.is_some() {
        c.out.null_array();
    }
    Ok(())
}

/// `BLMPOP`.
pub fn blmpop(c: &mut Call) -> Run {
    let timeout = timeout(c, 1)?;
    match pop_of_several(c, 2, true)? {
        None => Ok(()),
        Some(keys) => Err(Stop::Wait(Wait {
            keys,
            timeout,
            array: true,
            all: false,
            kind: Kind::List,
        })),
    }
}
