//! Hashes.

use std::ops::ControlFlow;

use super::args::Args;
use super::call::Call;
use crate::planted::{Fault, planted};
use crate::random;
use crate::stop::{Run, SYNTAX, Stop, TOO_LARGE, refuse};
use crate::store::codec::{self, Head, Kind};
use crate::store::work::Work;
use crate::text;

/// The key of a field's record.
pub fn field_key(work: &Work, head: &Head, field: &[u8]) -> Vec<u8> {
    codec::field_key(&work.store.secret, head.number, field)
}

/// Stores a field; whether it is new, for which the count is raised.
pub fn put_field(work: &mut Work, head: &mut Head, field: &[u8], value: &[u8]) -> Run<bool> {
    let key = field_key(work, head, field);
    let new = !work.has_element(&key)?;
    work.put_element(key, value)?;
    work.end_lease(head, field)?;
    head.count += u64::from(new);
    Ok(new)
}

/// Removes a field; whether it was there.
pub fn remove_field(work: &mut Work, head: &mut Head, field: &[u8]) -> Run<bool> {
    let key = field_key(work, head, field);
    let there = work.has_element(&key)?;
    if there {
        work.delete_element(key);
        work.end_lease(head, field)?;
        if !planted(Fault::CountDrifts) {
            head.count = head.count.saturating_sub(1);
        }
    }
    Ok(there)
}

fn set_fields(c: &mut Call, name: &str) -> Run<i64> {
    if !c.args.len().is_multiple_of(2) {
        return refuse(format!(
            "ERR wrong number of arguments for '{name}' command"
        ));
    }
    let key = c.args.at(1);
    let mut head = c.work.typed_or_new(key, Kind::Hash)?;
    let before = head.count;
    for i in (2..c.args.len()).step_by(2) {
        put_field(c.work, &mut head, c.args.at(i), c.args.at(i + 1))?;
        if i % 1024 == 0 {
            c.work.put_head(key, &head)?;
            c.work.relieve()?;
        }
    }
    if head.count != before {
        c.work.save(key, &head)?;
    }
    c.work.event(b'h', "hset", key);
    Ok((head.count - before) as i64)
}

/// `HSET`.
pub fn hset(c: &mut Call) -> Run {
    let new = set_fields(c, "hset")?;
    c.out.number(new);
    Ok(())
}

/// `HMSET`.
pub fn hmset(c: &mut Call) -> Run {
    set_fields(c, "hmset")?;
    c.out.ok();
    Ok(())
}

/// `HSETNX`.
pub fn hsetnx(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let head = c.work.typed(key, Kind::Hash)?;
    if let Some(head) = &head {
        let field = field_key(c.work, head, c.args.at(2));
        if c.work.has_element(&field)? {
            c.out.number(0);
            return Ok(());
        }
    }
    let mut head = c.work.typed_or_new(key, Kind::Hash)?;
    put_field(c.work, &mut head, c.args.at(2), c.args.at(3))?;
    c.work.save(key, &head)?;
    c.work.event(b'h', "hset", key);
    c.out.number(1);
    Ok(())
}

/// The value of a field.
pub fn value_of(c: &mut Call, field: &[u8]) -> Run<Option<Vec<u8>>> {
    let Some(head) = c.work.typed(c.args.at(1), Kind::Hash)? else {
        return Ok(None);
    };
    let key = field_key(c.work, &head, field);
    c.work.element(&key)
}

/// `HGET`.
pub fn hget(c: &mut Call) -> Run {
    let Some(head) = c.work.typed(c.args.at(1), Kind::Hash)? else {
        c.out.null();
        return Ok(());
    };
    let key = field_key(c.work, &head, c.args.at(2));
    c.work.with_element(&key, |value| c.out.bulk_or_null(value))
}

/// `HMGET`.
pub fn hmget(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Hash)?;
    c.out.array(c.args.len() - 2);
    for field in c.args.from(2) {
        let value = match &head {
            Some(head) => c.work.element(&field_key(c.work, head, field))?,
            None => None,
        };
        c.out.bulk_or_null(value);
    }
    Ok(())
}

/// `HEXISTS`.
pub fn hexists(c: &mut Call) -> Run {
    let there = value_of(c, c.args.at(2))?.is_some();
    c.out.number(i64::from(there));
    Ok(())
}

/// `HSTRLEN`.
pub fn hstrlen(c: &mut Call) -> Run {
    let value = value_of(c, c.args.at(2))?;
    c.out.count(value.map_or(0, |value| value.len()));
    Ok(())
}

/// The count of a collection.
pub fn count(c: &mut Call, kind: Kind) -> Run {
    let head = c.work.typed(c.args.at(1), kind)?;
    c.out.number(head.map_or(0, |head| head.count) as i64);
    Ok(())
}

/// `HLEN`.
pub fn hlen(c: &mut Call) -> Run {
    count(c, Kind::Hash)
}

fn all(c: &mut Call, fields: bool, values: bool) -> Run {
    let Some(head) = c.work.typed(c.args.at(1), Kind::Hash)? else {
        match fields && values {
            true => c.out.map(0),
            false => c.out.array(0),
        }
        return Ok(());
    };
    match fields && values {
        true => c.out.map(head.count as usize),
        false => c.out.array(head.count as usize),
    }
    let (low, high) = codec::fields(head.number, 0);
    let out = &mut *c.out;
    c.work.each(&low, &high, false, &mut |key, value| {
        if fields {
            out.bulk(codec::field_in(key));
        }
        if values {
            out.bulk(value);
        }
        ControlFlow::Continue(())
    })
}

/// `HGETALL`.
pub fn hgetall(c: &mut Call) -> Run {
    all(c, true, true)
}

/// `HKEYS`.
pub fn hkeys(c: &mut Call) -> Run {
    all(c, true, false)
}

/// `HVALS`.
pub fn hvals(c: &mut Call) -> Run {
    all(c, false, true)
}

/// `HDEL`.
pub fn hdel(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::Hash)? else {
        c.out.number(0);
        return Ok(());
    };
    let mut removed = 0;
    for (i, field) in c.args.from(2).enumerate() {
        removed += i64::from(remove_field(c.work, &mut head, field)?);
        if i % 1024 == 1023 {
            c.work.step_done(key, &head)?;
        }
    }
    if removed > 0 {
        c.work.event(b'h', "hdel", key);
        c.work.save(key, &head)?;
    }
    c.out.number(removed);
    Ok(())
}

/// `HINCRBY`.
pub fn hincrby(c: &mut Call) -> Run {
    let by = c.args.integer(3)?;
    let key = c.args.at(1);
    let mut head = c.work.typed_or_new(key, Kind::Hash)?;
    let field = field_key(c.work, &head, c.args.at(2));
    let old = c.work.element(&field)?;
    let number = match &old {
        Some(old) => {
            text::parse_i64(old).ok_or(Stop::Reply("ERR hash value is not an integer".into()))?
        }
        None => 0,
    };
    let Some(new) = number.checked_add(by) else {
        return refuse("ERR increment or decrement would overflow");
    };
    c.work.put_element(field, new.to_string().as_bytes())?;
    if old.is_none() {
        head.count += 1;
        c.work.save(key, &head)?;
    }
    c.work.event(b'h', "hincrby", key);
    c.out.number(new);
    Ok(())
}

/// `HINCRBYFLOAT`.
pub fn hincrbyfloat(c: &mut Call) -> Run {
    c.args.float(3)?;
    let key = c.args.at(1);
    let mut head = c.work.typed_or_new(key, Kind::Hash)?;
    let field = field_key(c.work, &head, c.args.at(2));
    let old = c.work.element(&field)?;
    let number = old.as_deref().unwrap_or(b"0");
    if text::parse_f64_loosely(number).is_none() {
        return refuse("ERR hash value is not a float");
    }
    let Some(new) = text::add_decimals(number, c.args.at(3)) else {
        return refuse("ERR increment would produce NaN or Infinity");
    };
    c.work.put_element(field, new.as_bytes())?;
    if old.is_none() {
        head.count += 1;
        c.work.save(key, &head)?;
    }
    c.work.event(b'h', "hincrbyfloat", key);
    c.out.bulk(new);
    Ok(())
}

/// Elements up to which a random choice reads all of them: it is then even.
const SMALL: u64 = 512;

/// One element at random: the one behind a random hash. Even for small collections, nearly so for others.
pub fn random_element(work: &Work, head: &Head) -> Run<Option<(Vec<u8>, Vec<u8>)>> {
    let (all_low, high) = codec::fields(head.number, 0);
    if head.count <= SMALL {
        let mut all = work.range(&all_low, &high, false, SMALL as usize)?;
        let at = random::below(all.len().max(1) as u64) as usize;
        return Ok((at < all.len()).then(|| all.swap_remove(at)));
    }
    let (low, _) = codec::fields(head.number, random::random() >> 16);
    let mut found = work.range(&low, &high, false, 1)?;
    if found.is_empty() {
        found = work.range(&all_low, &high, false, 1)?;
    }
    Ok(found.pop())
}

/// Elements at random: `count` different ones, or if it is negative, that number of elements of which some
/// may be the same.
pub fn random_elements(work: &Work, head: &Head, count: i64) -> Run<Vec<(Vec<u8>, Vec<u8>)>> {
    let (low, high) = codec::fields(head.number, 0);
    if count < 0 {
        let count = count.unsigned_abs();
        let (mut chosen, mut bytes) = (Vec::new(), 0);
        let all = match head.count <= SMALL {
            true => work.range(&low, &high, false, SMALL as usize)?,
            false => Vec::new(),
        };
        for _ in 0..count {
            let one = match all.is_empty() {
                false => Some(all[random::below(all.len() as u64) as usize].clone()),
                true if head.count <= SMALL => None,
                true => random_element(work, head)?,
            };
            bytes += one
                .as_ref()
                .map_or(0, |(key, value)| key.len() + value.len());
            if bytes > work.most {
                return refuse(TOO_LARGE);
            }
            chosen.extend(one);
        }
        return Ok(chosen);
    }
    let count = count.unsigned_abs();
    if count.saturating_mul(3) >= head.count || head.count <= SMALL {
        let mut all = match head.count <= SMALL {
            true => work.range(&low, &high, false, usize::MAX)?,
            false => work.gathered(&low, &high, false, usize::MAX)?,
        };
        for i in 0..all.len().min(count as usize) {
            let other = i + random::below((all.len() - i) as u64) as usize;
            all.swap(i, other);
        }
        all.truncate(count as usize);
        return Ok(all);
    }
    let (mut chosen, mut bytes) = (std::collections::BTreeMap::new(), 0);
    while (chosen.len() as u64) < count {
        let Some((key, value)) = random_element(work, head)? else {
            break;
        };
        let length = key.len() + value.len();
        if chosen.insert(key, value).is_none() {
            bytes += length;
        }
        if bytes > work.most {
            return refuse(TOO_LARGE);
        }
    }
    Ok(chosen.into_iter().collect())
}

/// Most elements that are asked for at random with repetition.
const MOST_RANDOM: i64 = 1 << 24;

/// How many elements at random are asked for; Redis' limit is half of all numbers.
pub fn random_count(args: &Args, i: usize) -> Run<i64> {
    let count = args.integer(i)?;
    match count < -MOST_RANDOM {
        true => refuse("ERR value is out of range"),
        false => Ok(count),
    }
}

/// `HRANDFIELD`.
pub fn hrandfield(c: &mut Call) -> Run {
    if c.args.len() == 2 {
        let found = match c.work.typed(c.args.at(1), Kind::Hash)? {
            Some(head) => random_element(c.work, &head)?,
            None => None,
        };
        c.out
            .bulk_or_null(found.map(|(key, _)| codec::field_in(&key).to_vec()));
        return Ok(());
    }
    let count = random_count(&c.args, 2)?;
    let with_values = c.args.len() == 4 && c.args.is(3, "WITHVALUES");
    if c.args.len() > 4 || (c.args.len() == 4 && !with_values) {
        return refuse(SYNTAX);
    }
    let found = match c.work.typed(c.args.at(1), Kind::Hash)? {
        Some(head) => random_elements(c.work, &head, count)?,
        None => Vec::new(),
    };
    match with_values && !c.out.third {
        true => c.out.array(found.len() * 2),
        false => c.out.array(found.len()),
    }
    for (key, value) in found {
        if with_values && c.out.third {
            c.out.array(2);
        }
        c.out.bulk(codec::field_in(&key));
        if with_values {
            c.out.bulk(value);
        }
    }
    Ok(())
}
