//! `HEXPIRE` and its family: fields of hashes that expire.

use super::args::Args;
use super::call::Call;
use super::hashes::{field_key, put_field, remove_field};
use super::strings::expiry;
use crate::stop::{NOT_INTEGER, Run, SYNTAX, Stop, refuse};
use crate::store::codec::{Head, Kind, LATEST};

/// There is no such field.
const NO_FIELD: i64 = -2;
/// It does not expire.
const FOR_EVER: i64 = -1;
/// What was asked for was not so.
const REFUSED: i64 = 0;
/// It was done.
const DONE: i64 = 1;
/// It was to expire in the past, and was removed.
const REMOVED: i64 = 2;

/// The place of the first field behind `FIELDS` and their number, of which each takes `each` arguments.
fn fields_at(args: &Args, at: usize, each: usize) -> Run<usize> {
    if !args.is(at, "FIELDS") {
        return refuse("ERR Mandatory argument FIELDS is missing or not at the right position");
    }
    let Some(many) = crate::text::parse_i64(args.at(at + 1)) else {
        return refuse("ERR Number of fields must be a positive integer");
    };
    let Some(many) = usize::try_from(many).ok().filter(|many| *many > 0) else {
        return refuse("ERR Parameter `numFields` should be greater than 0");
    };
    match many.checked_mul(each) == args.len().checked_sub(at + 2) {
        true => Ok(at + 2),
        false => refuse("ERR The `numfields` parameter must match the number of arguments"),
    }
}

fn is_there(c: &Call, head: &Head, field: &[u8]) -> Run<bool> {
    let key = field_key(c.work, head, field);
    c.work.has_element(&key)
}

/// Answers the same for every field: there is no key.
fn none(c: &mut Call, first: usize) {
    c.out.array(c.args.len() - first);
    (first..c.args.len()).for_each(|_| c.out.number(NO_FIELD));
}

fn expire_at(c: &mut Call, unit: i64, relative: bool, name: &str) -> Run {
    let key = c.args.at(1);
    let number = c.args.integer(2)?;
    if number < 0 {
        return refuse("ERR invalid expire time, must be >= 0");
    }
    let invalid = || Stop::Reply(format!("ERR invalid expire time in '{name}' command").into());
    let mut at = number.checked_mul(unit).ok_or_else(invalid)?;
    if relative {
        at = at.checked_add_unsigned(c.work.now).ok_or_else(invalid)?;
    }
    let at = u64::try_from(at).ok().filter(|at| *at <= LATEST);
    let at = at.ok_or_else(invalid)?;
    let conditions = ["NX", "XX", "GT", "LT"];
    let condition = conditions.into_iter().find(|word| c.args.is(3, word));
    let first = fields_at(&c.args, 3 + usize::from(condition.is_some()), 1)?;
    let Some(mut head) = c.work.typed(key, Kind::Hash)? else {
        none(c, first);
        return Ok(());
    };
    let (mut changed, mut removed) = (false, false);
    c.out.array(c.args.len() - first);
    for i in first..c.args.len() {
        let field = c.args.at(i);
        if !is_there(c, &head, field)? {
            c.out.number(NO_FIELD);
            continue;
        }
        let old = c.work.lease(&head, field)?;
        let fits = match condition {
            Some("NX") => old.is_none(),
            Some("XX") => old.is_some(),
            Some("GT") => old.is_some_and(|old| at > old),
            Some(_) => old.is_none_or(|old| at < old),
            None => true,
        };
        if !fits {
            c.out.number(REFUSED);
        } else if at <= c.work.now {
            remove_field(c.work, &mut head, field)?;
            removed = true;
            c.out.number(REMOVED);
        } else {
            c.work.set_lease(key, &mut head, field, Some(at))?;
            changed = true;
            c.out.number(DONE);
        }
    }
    if changed {
        c.work.event(b'h', "hexpire", key);
    }
    if removed {
        c.work.event(b'h', "hdel", key);
    }
    if changed || removed {
        c.work.save(key, &head)?;
    }
    Ok(())
}

/// `HEXPIRE`.
pub fn hexpire(c: &mut Call) -> Run {
    expire_at(c, 1000, true, "hexpire")
}

/// `HPEXPIRE`.
pub fn hpexpire(c: &mut Call) -> Run {
    expire_at(c, 1, true, "hpexpire")
}

/// `HEXPIREAT`.
pub fn hexpireat(c: &mut Call) -> Run {
    expire_at(c, 1000, false, "hexpireat")
}

/// `HPEXPIREAT`.
pub fn hpexpireat(c: &mut Call) -> Run {
    expire_at(c, 1, false, "hpexpireat")
}

fn left(c: &mut Call, say: impl Fn(u64, u64) -> u64) -> Run {
    let first = fields_at(&c.args, 2, 1)?;
    let Some(head) = c.work.typed(c.args.at(1), Kind::Hash)? else {
        none(c, first);
        return Ok(());
    };
    c.out.array(c.args.len() - first);
    for field in c.args.from(first) {
        let answer = match c.work.lease(&head, field)? {
            Some(at) => say(at, c.work.now) as i64,
            None if is_there(c, &head, field)? => FOR_EVER,
            None => NO_FIELD,
        };
        c.out.number(answer);
    }
    Ok(())
}

/// `HTTL`.
pub fn httl(c: &mut Call) -> Run {
    left(c, |at, now| at.saturating_sub(now).div_ceil(1000))
}

/// `HPTTL`.
pub fn hpttl(c: &mut Call) -> Run {
    left(c, |at, now| at.saturating_sub(now))
}

/// `HEXPIRETIME`.
pub fn hexpiretime(c: &mut Call) -> Run {
    left(c, |at, _| at.div_ceil(1000))
}

/// `HPEXPIRETIME`.
pub fn hpexpiretime(c: &mut Call) -> Run {
    left(c, |at, _| at)
}

/// `HPERSIST`.
pub fn hpersist(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let first = fields_at(&c.args, 2, 1)?;
    let Some(mut head) = c.work.typed(key, Kind::Hash)? else {
        none(c, first);
        return Ok(());
    };
    let mut changed = false;
    c.out.array(c.args.len() - first);
    for field in c.args.from(first) {
        let answer = match c.work.lease(&head, field)? {
            Some(_) => {
                c.work.set_lease(key, &mut head, field, None)?;
                changed = true;
                DONE
            }
            None if is_there(c, &head, field)? => FOR_EVER,
            None => NO_FIELD,
        };
        c.out.number(answer);
    }
    if changed {
        c.work.event(b'h', "hpersist", key);
    }
    Ok(())
}

/// `HGETDEL`.
pub fn hgetdel(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let first = fields_at(&c.args, 2, 1)?;
    let mut head = c.work.typed(key, Kind::Hash)?;
    let before = head.map_or(0, |head| head.count);
    c.out.array(c.args.len() - first);
    for field in c.args.from(first) {
        let value = match &mut head {
            Some(head) => {
                let value = c.work.element(&field_key(c.work, head, field))?;
                remove_field(c.work, head, field)?;
                value
            }
            None => None,
        };
        c.out.bulk_or_null(value);
    }
    if let Some(head) = head.filter(|head| head.count != before) {
        c.work.event(b'h', "hdel", key);
        c.work.save(key, &head)?;
    }
    Ok(())
}

/// What `HGETEX` and `HSETEX` do with leases.
#[derive(Clone, Copy, Default)]
struct Asked {
    at: Option<u64>,
    persists: bool,
    keeps: bool,
    only_new: bool,
    only_old: bool,
}

/// Options in front of `FIELDS`, and where that is.
fn asked(c: &Call, name: &str, sets: bool) -> Run<(Asked, usize)> {
    let mut asked = Asked::default();
    let mut i = 2;
    while i < c.args.len() && !c.args.is(i, "FIELDS") {
        let timed = asked.at.is_some() || asked.persists || asked.keeps;
        let option = ["EX", "PX", "EXAT", "PXAT"];
        let option = option.into_iter().find(|word| c.args.is(i, word));
        match option {
            Some(option) if !timed && i + 1 < c.args.len() => {
                let Some(number) = crate::text::parse_i64(c.args.at(i + 1)) else {
                    return refuse(NOT_INTEGER);
                };
                asked.at = Some(expiry(c.work.now, option, number, name)?);
                i += 1;
            }
            None if !timed && !sets && c.args.is(i, "PERSIST") => asked.persists = true,
            None if !timed && sets && c.args.is(i, "KEEPTTL") => asked.keeps = true,
            None if sets && c.args.is(i, "FNX") && !asked.only_old => asked.only_new = true,
            None if sets && c.args.is(i, "FXX") && !asked.only_new => asked.only_old = true,
            _ => return refuse(SYNTAX),
        }
        i += 1;
    }
    Ok((asked, i))
}

/// `HGETEX`.
pub fn hgetex(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let (asked, at) = asked(c, "hgetex", false)?;
    let first = fields_at(&c.args, at, 1)?;
    let Some(mut head) = c.work.typed(key, Kind::Hash)? else {
        c.out.array(c.args.len() - first);
        (first..c.args.len()).for_each(|_| c.out.null());
        return Ok(());
    };
    let (mut changed, mut removed) = (false, false);
    c.out.array(c.args.len() - first);
    for field in c.args.from(first) {
        let value = c.work.element(&field_key(c.work, &head, field))?;
        let there = value.is_some();
        c.out.bulk_or_null(value);
        match asked.at {
            _ if !there => {}
            Some(at) if at <= c.work.now => removed |= remove_field(c.work, &mut head, field)?,
            Some(at) => {
                c.work.set_lease(key, &mut head, field, Some(at))?;
                changed = true;
            }
            None if asked.persists => {
                c.work.set_lease(key, &mut head, field, None)?;
                changed = true;
            }
            None => {}
        }
    }
    if changed {
        let name = if asked.persists {
            "hpersist"
        } else {
            "hexpire"
        };
        c.work.event(b'h', name, key);
    }
    if removed {
        c.work.event(b'h', "hdel", key);
    }
    if changed || removed {
        c.work.save(key, &head)?;
    }
    Ok(())
}

/// `HSETEX`.
pub fn hsetex(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let (asked, at) = asked(c, "hsetex", true)?;
    let first = fields_at(&c.args, at, 2)?;
    let there = c.work.typed(key, Kind::Hash)?;
    if asked.only_new || asked.only_old {
        for i in (first..c.args.len()).step_by(2) {
            let old = match &there {
                Some(head) => is_there(c, head, c.args.at(i))?,
                None => false,
            };
            if old == asked.only_new {
                c.out.number(REFUSED);
                return Ok(());
            }
        }
    }
    let mut head = c.work.typed_or_new(key, Kind::Hash)?;
    for i in (first..c.args.len()).step_by(2) {
        let field = c.args.at(i);
        let kept = match asked.keeps {
            true => c.work.lease(&head, field)?,
            false => None,
        };
        put_field(c.work, &mut head, field, c.args.at(i + 1))?;
        match asked.at.or(kept) {
            Some(at) if at <= c.work.now => _ = remove_field(c.work, &mut head, field)?,
            Some(at) => c.work.set_lease(key, &mut head, field, Some(at))?,
            None => {}
        }
    }
    c.work.event(b'h', "hset", key);
    if asked.at.is_some() {
        c.work.event(b'h', "hexpire", key);
    }
    c.work.save(key, &head)?;
    c.out.number(DONE);
    Ok(())
}
