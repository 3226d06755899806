//! Sets.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use super::call::Call;
use super::hashes::{
    count, field_key, put_field, random_count, random_element, random_elements, remove_field,
};
use crate::stop::{Run, SYNTAX, TOO_LARGE, refuse};
use crate::store::codec::{self, Head, Kind};

/// `SADD`.
pub fn sadd(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let mut head = c.work.typed_or_new(key, Kind::Set)?;
    let before = head.count;
    for (i, member) in c.args.from(2).enumerate() {
        put_field(c.work, &mut head, member, b"")?;
        if i % 1024 == 1023 {
            c.work.put_head(key, &head)?;
            c.work.relieve()?;
        }
    }
    if head.count != before {
        c.work.save(key, &head)?;
        c.work.event(b's', "sadd", key);
    }
    c.out.number((head.count - before) as i64);
    Ok(())
}

/// `SREM`.
pub fn srem(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::Set)? else {
        c.out.number(0);
        return Ok(());
    };
    let mut removed = 0;
    for (i, member) in c.args.from(2).enumerate() {
        removed += i64::from(remove_field(c.work, &mut head, member)?);
        if i % 1024 == 1023 {
            c.work.step_done(key, &head)?;
        }
    }
    if removed > 0 {
        c.work.event(b's', "srem", key);
        c.work.save(key, &head)?;
    }
    c.out.number(removed);
    Ok(())
}

/// Whether a set has a member.
fn has(c: &Call, head: &Option<Head>, member: &[u8]) -> Run<bool> {
    match head {
        Some(head) => {
            let key = field_key(c.work, head, member);
            c.work.has_element(&key)
        }
        None => Ok(false),
    }
}

/// `SISMEMBER`.
pub fn sismember(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Set)?;
    let there = has(c, &head, c.args.at(2))?;
    c.out.number(i64::from(there));
    Ok(())
}

/// `SMISMEMBER`.
pub fn smismember(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Set)?;
    c.out.array(c.args.len() - 2);
    for member in c.args.from(2) {
        let there = has(c, &head, member)?;
        c.out.number(i64::from(there));
    }
    Ok(())
}

/// `SCARD`.
pub fn scard(c: &mut Call) -> Run {
    count(c, Kind::Set)
}

/// `SMEMBERS`.
pub fn smembers(c: &mut Call) -> Run {
    let Some(head) = c.work.typed(c.args.at(1), Kind::Set)? else {
        c.out.set(0);
        return Ok(());
    };
    c.out.set(head.count as usize);
    let (low, high) = codec::fields(head.number, 0);
    let out = &mut *c.out;
    c.work.each(&low, &high, false, &mut |key, _| {
        out.bulk(codec::field_in(key));
        ControlFlow::Continue(())
    })
}

/// `SMOVE`.
pub fn smove(c: &mut Call) -> Run {
    let (from, to, member) = (c.args.at(1), c.args.at(2), c.args.at(3));
    let source = c.work.typed(from, Kind::Set)?;
    let Some(mut source) = source else {
        c.out.number(0);
        return Ok(());
    };
    c.work.typed(to, Kind::Set)?;
    if from == to {
        let there = has(c, &Some(source), member)?;
        c.out.number(i64::from(there));
        return Ok(());
    }
    let moved = remove_field(c.work, &mut source, member)?;
    if moved {
        c.work.event(b's', "srem", from);
        c.work.save(from, &source)?;
        let mut head = c.work.typed_or_new(to, Kind::Set)?;
        if put_field(c.work, &mut head, member, b"")? {
            c.work.save(to, &head)?;
            c.work.event(b's', "sadd", to);
        }
    }
    c.out.number(i64::from(moved));
    Ok(())
}

/// `SPOP`.
pub fn spop(c: &mut Call) -> Run {
    let key = c.args.at(1);
    if c.args.len() > 3 {
        return refuse(SYNTAX);
    }
    let many = c.args.len() == 3;
    let wanted = match many {
        true => match c.args.integer(2)? {
            count if count < 0 => return refuse("ERR value is out of range, must be positive"),
            count => count,
        },
        false => 1,
    };
    let head = c.work.typed(key, Kind::Set)?;
    let Some(mut head) = head else {
        match many {
            true => c.out.set(0),
            false => c.out.null(),
        }
        return Ok(());
    };
    let taken = match many {
        true => random_elements(c.work, &head, wanted)?,
        false => random_element(c.work, &head)?.into_iter().collect(),
    };
    if many {
        c.out.set(taken.len());
    }
    taken
        .iter()
        .for_each(|(element, _)| c.out.bulk(codec::field_in(element)));
    if taken.len() as u64 == head.count {
        // All of it goes at once: its elements are removed behind it.
        head.count = 0;
    } else {
        for (i, (element, _)) in taken.iter().enumerate() {
            remove_field(c.work, &mut head, codec::field_in(element))?;
            if i % 1024 == 1023 {
                c.work.step_done(key, &head)?;
            }
        }
    }
    if !taken.is_empty() {
        c.work.event(b's', "spop", key);
        c.work.save(key, &head)?;
    }
    Ok(())
}

/// `SRANDMEMBER`.
pub fn srandmember(c: &mut Call) -> Run {
    if c.args.len() > 3 {
        return refuse(SYNTAX);
    }
    let many = c.args.len() == 3;
    let wanted = if many { random_count(&c.args, 2)? } else { 1 };
    let head = c.work.typed(c.args.at(1), Kind::Set)?;
    let found = match &head {
        None => Vec::new(),
        Some(head) if many => random_elements(c.work, head, wanted)?,
        Some(head) => random_element(c.work, head)?.into_iter().collect(),
    };
    if !many {
        let member = found.first().map(|(key, _)| codec::field_in(key));
        c.out.bulk_or_null(member);
        return Ok(());
    }
    c.out.array(found.len());
    for (key, _) in &found {
        c.out.bulk(codec::field_in(key));
    }
    Ok(())
}

/// Bytes that an answer has beside each member, about.
const MEMBER: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Inter,
    Union,
    Diff,
}

/// The members of what the operation makes of the sets at these keys.
///
/// # Errors
/// They take more than `bound` bytes.
fn combined(c: &mut Call, operation: Operation, keys: &[&[u8]], bound: usize) -> Run<Vec<Vec<u8>>> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    each_combined(c, operation, keys, bound, &mut |member| {
        bytes += member.len() + MEMBER;
        if bytes > bound {
            return refuse(TOO_LARGE);
        }
        found.push(member.to_vec());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Tells `f` each member of what the operation makes of the sets at these keys, until it breaks.
///
/// # Errors
/// What has to be gathered for that takes more than `bound` bytes.
fn each_combined(
    c: &mut Call,
    operation: Operation,
    keys: &[&[u8]],
    bound: usize,
    f: &mut dyn FnMut(&[u8]) -> Run<ControlFlow<()>>,
) -> Run {
    let mut heads = Vec::with_capacity(keys.len());
    for key in keys {
        heads.push(c.work.typed(key, Kind::Set)?);
    }
    let many = heads.iter().flatten().map(|head| head.count).sum();
    c.work.may_go_through(many)?;
    let work = &*c.work;
    let members = |head: &Head, f: &mut dyn FnMut(&[u8]) -> Run<ControlFlow<()>>| -> Run {
        let (low, high) = codec::fields(head.number, 0);
        let mut answer = Ok(());
        work.each(
            &low,
            &high,
            false,
            &mut |key, _| match f(codec::field_in(key)) {
                Ok(flow) => flow,
                Err(stop) => {
                    answer = Err(stop);
                    ControlFlow::Break(())
                }
            },
        )?;
        answer
    };
    let is_in = |head: &Head, member: &[u8]| {
        work.element_into(&field_key(work, head, member), &mut Vec::new())
    };
    match operation {
        Operation::Inter => {
            let Some(mut heads) = heads.into_iter().collect::<Option<Vec<Head>>>() else {
                return Ok(());
            };
            heads.sort_by_key(|head| head.count);
            let Some((smallest, others)) = heads.split_first() else {
                return Ok(());
            };
            members(smallest, &mut |member| {
                for other in others {
                    if !is_in(other, member)? {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                f(member)
            })?;
        }
        Operation::Union => {
            let (mut all, mut bytes) = (BTreeSet::new(), 0);
            for head in heads.iter().flatten() {
                members(head, &mut |member| {
                    if !all.contains(member) {
                        bytes += member.len() + MEMBER;
                        if bytes > bound {
                            return refuse(TOO_LARGE);
                        }
                        all.insert(member.to_vec());
                    }
                    Ok(ControlFlow::Continue(()))
                })?;
            }
            for member in &all {
                if f(member)?.is_break() {
                    break;
                }
            }
        }
        Operation::Diff => {
            let Some((Some(first), others)) = heads.split_first() else {
                return Ok(());
            };
            members(first, &mut |member| {
                for other in others.iter().flatten() {
                    if is_in(other, member)? {
                        return Ok(ControlFlow::Continue(()));
                    }
                }
                f(member)
            })?;
        }
    }
    Ok(())
}

fn answer(c: &mut Call, operation: Operation) -> Run {
    let keys: Vec<&[u8]> = c.args.from(1).collect();
    let found = combined(c, operation, &keys, c.work.most)?;
    c.out.set(found.len());
    found.iter().for_each(|member| c.out.bulk(member));
    Ok(())
}

/// Stores members as the set at a key, whatever was there.
pub fn store_set(c: &mut Call, key: &[u8], members: &[Vec<u8>], event: &'static str) -> Run {
    if members.is_empty() {
        if c.work.remove(key)? {
            c.work.event(b'g', "del", key);
        }
    } else {
        let mut head = c.work.make_anew(key, Kind::Set)?;
        for (i, member) in members.iter().enumerate() {
            put_field(c.work, &mut head, member, b"")?;
            if i % 1024 == 1023 {
                c.work.relieve()?;
            }
        }
        c.work.save(key, &head)?;
        c.work.event(b's', event, key);
    }
    c.out.count(members.len());
    Ok(())
}

fn store(c: &mut Call, operation: Operation, event: &'static str) -> Run {
    let keys: Vec<&[u8]> = c.args.from(2).collect();
    let found = combined(c, operation, &keys, c.work.most_stored())?;
    store_set(c, c.args.at(1), &found, event)
}

/// `SINTER`.
pub fn sinter(c: &mut Call) -> Run {
    answer(c, Operation::Inter)
}

/// `SUNION`.
pub fn sunion(c: &mut Call) -> Run {
    answer(c, Operation::Union)
}

/// `SDIFF`.
pub fn sdiff(c: &mut Call) -> Run {
    answer(c, Operation::Diff)
}

/// `SINTERSTORE`.
pub fn sinterstore(c: &mut Call) -> Run {
    store(c, Operation::Inter, "sinterstore")
}

/// `SUNIONSTORE`.
pub fn sunionstore(c: &mut Call) -> Run {
    store(c, Operation::Union, "sunionstore")
}

/// `SDIFFSTORE`.
pub fn sdiffstore(c: &mut Call) -> Run {
    store(c, Operation::Diff, "sdiffstore")
}

/// `SINTERCARD`.
pub fn sintercard(c: &mut Call) -> Run {
    let Some(keys) = crate::text::parse_i64(c.args.at(1)).filter(|n| *n > 0) else {
        return refuse("ERR numkeys should be greater than 0");
    };
    let keys = keys as usize;
    if keys > c.args.len() - 2 {
        return refuse("ERR Number of keys can't be greater than number of args");
    }
    let mut most = usize::MAX;
    let mut i = 2 + keys;
    while i < c.args.len() {
        if !c.args.is(i, "LIMIT") || i + 1 == c.args.len() {
            return refuse(SYNTAX);
        }
        match crate::text::parse_i64(c.args.at(i + 1)) {
            Some(0) => {}
            Some(limit) if limit > 0 => most = limit as usize,
            _ => return refuse("ERR LIMIT can't be negative"),
        }
        i += 2;
    }
    let keys: Vec<&[u8]> = c.args.from(2).take(keys).collect();
    let mut found = 0;
    each_combined(c, Operation::Inter, &keys, c.work.most, &mut |_| {
        found += 1;
        Ok(match found < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        })
    })?;
    c.out.count(found);
    Ok(())
}
