//! `DUMP`: a value in Redis' own form.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::call::Call;
use super::streams::id::Id;
use super::streams::records::{Group, Pending, State, consumers, decode_fields, entry_key};
use crate::rdb::{WITH_LEASES, WRITTEN, kind, write};
use crate::stop::{Run, refuse};
use crate::store::codec::{self, Head, Kind};
use crate::store::work::Work;

/// Entries of a stream that go into one listpack, at most.
const ENTRIES: usize = 100;
/// Bytes of a listpack of a stream, at most about this many.
const PACK: usize = 4096;
/// Bytes that a field takes in memory beside its own while its time is looked up, about.
const FIELD: usize = 64;

/// `DUMP`.
pub fn dump(c: &mut Call) -> Run {
    let Some(head) = c.work.head(c.args.at(1))? else {
        c.out.null();
        return Ok(());
    };
    let most = c.host.options.max_value;
    let mut out = Vec::new();
    let mut version = WRITTEN;
    match head.kind {
        Kind::Text => {
            out.push(kind::TEXT);
            write::text(&mut out, c.work.text());
        }
        // The head says only whether there may be any.
        Kind::Hash if c.work.next_lease(&head)?.is_some() => {
            version = WITH_LEASES;
            out.push(kind::HASH_LEASES);
            let (mut times, mut bytes) = (HashMap::new(), 0);
            let leases = codec::leases_until(head.number, codec::LATEST);
            collect(c.work, leases, most, &mut |key, _| {
                let (time, field) = codec::lease_due_in(key);
                times.insert(field.to_vec(), time);
                bytes += field.len() + FIELD;
                bytes
            })?;
            let first = times.values().copied().min().unwrap_or(0);
            out.extend_from_slice(&first.to_le_bytes());
            write::length(&mut out, head.count);
            collect(
                c.work,
                codec::fields(head.number, 0),
                most,
                &mut |key, value| {
                    let field = codec::field_in(key);
                    let time = times.get(field).map_or(0, |time| time - first + 1);
                    write::length(&mut out, time);
                    write::text(&mut out, field);
                    write::text(&mut out, value);
                    out.len()
                },
            )?;
        }
        Kind::Hash => {
            out.push(kind::HASH);
            write::length(&mut out, head.count);
            collect(
                c.work,
                codec::fields(head.number, 0),
                most,
                &mut |key, value| {
                    write::text(&mut out, codec::field_in(key));
                    write::text(&mut out, value);
                    out.len()
                },
            )?;
        }
        Kind::Set => {
            out.push(kind::SET);
            write::length(&mut out, head.count);
            collect(
                c.work,
                codec::fields(head.number, 0),
                most,
                &mut |key, _| {
                    write::text(&mut out, codec::field_in(key));
                    out.len()
                },
            )?;
        }
        Kind::Sorted => {
            out.push(kind::SORTED);
            write::length(&mut out, head.count);
            collect(c.work, codec::scores(head.number), most, &mut |key, _| {
                let (score, member) = codec::score_in(key);
                write::text(&mut out, member);
                out.extend_from_slice(&score.to_le_bytes());
                out.len()
            })?;
        }
        Kind::List => {
            out.push(kind::LIST);
            write::length(&mut out, head.count);
            let range = (
                codec::position_key(head.number, head.first),
                codec::position_key(head.number, head.end()),
            );
            collect(c.work, range, most, &mut |_, value| {
                write::text(&mut out, value);
                out.len()
            })?;
        }
        Kind::Stream => {
            out.push(kind::STREAM_2);
            stream(c.work, &head, most, &mut out)?;
        }
    }
    write::foot(&mut out, version);
    c.out.bulk(&out);
    Ok(())
}

/// Tells `f` what is in a range; it answers how long the dump is so far, which may not be longer than values are.
fn collect(
    work: &Work,
    (low, high): (Vec<u8>, Vec<u8>),
    most: usize,
    f: &mut dyn FnMut(&[u8], &[u8]) -> usize,
) -> Run {
    let mut too_long = false;
    work.each(&low, &high, false, &mut |key, value| {
        too_long = f(key, value) > most;
        match too_long {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    })?;
    check(too_long)
}

/// Refuses what is too long.
fn check(too_long: bool) -> Run {
    match too_long {
        true => refuse("ERR the value is larger than values may be (proto-max-bulk-len)"),
        false => Ok(()),
    }
}

fn id(out: &mut Vec<u8>, id: Id) {
    write::length(out, id.0);
    write::length(out, id.1);
}

fn stream(work: &Work, head: &Head, most: usize, out: &mut Vec<u8>) -> Run {
    let mut packs: Vec<(Id, Vec<u8>)> = Vec::new();
    let mut entries: Vec<(Id, Vec<Vec<u8>>)> = Vec::new();
    let (mut bytes, mut all, mut living, mut first) = (0, 0, 0, Id::MIN);
    let range = (
        entry_key(head, Id::MIN),
        [entry_key(head, Id::MAX), vec![0]].concat(),
    );
    collect(work, range, most, &mut |key, value| {
        let id = Id::of(&key[9..]);
        if living == 0 {
            first = id;
        }
        living += 1;
        all += value.len() + 32;
        bytes += value.len();
        entries.push((id, decode_fields(value)));
        if entries.len() == ENTRIES || bytes >= PACK {
            packs.extend(pack(&entries));
            entries.clear();
            bytes = 0;
        }
        all
    })?;
    packs.extend(pack(&entries));
    write::length(out, packs.len() as u64);
    for (first, pack) in &packs {
        write::text(out, &first.bytes());
        write::text(out, pack);
    }
    let state = State::load(work, head)?;
    write::length(out, living);
    id(out, state.last);
    id(out, first);
    id(out, state.deleted);
    write::length(out, state.added);
    let groups = Group::all(work, head)?;
    write::length(out, groups.len() as u64);
    for (name, group) in groups {
        write::text(out, &name);
        id(out, group.last);
        write::length(out, group.read.unwrap_or(u64::MAX));
        let (mut pending, mut many) = (Vec::new(), 0);
        let mut of: HashMap<Vec<u8>, Vec<Id>> = HashMap::new();
        let mut too_long = false;
        Pending::each(work, head, &name, (Id::MIN, Id::MAX), &mut |one| {
            pending.extend_from_slice(&one.id.bytes());
            pending.extend_from_slice(&one.since.to_le_bytes());
            write::length(&mut pending, one.times);
            of.entry(one.consumer).or_default().push(one.id);
            many += 1;
            too_long = out.len() + pending.len() > most;
            match too_long {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        check(too_long)?;
        write::length(out, many);
        out.extend_from_slice(&pending);
        let consumers = consumers(work, head, &name)?;
        write::length(out, consumers.len() as u64);
        for (consumer, seen) in consumers {
            write::text(out, &consumer);
            out.extend_from_slice(&seen.to_le_bytes());
            let has = of.remove(&consumer).unwrap_or_default();
            write::length(out, has.len() as u64);
            has.iter().for_each(|id| out.extend_from_slice(&id.bytes()));
        }
        check(out.len() > most)?;
    }
    Ok(())
}

/// Some entries as a listpack, and the number of the first one.
fn pack(entries: &[(Id, Vec<Vec<u8>>)]) -> Option<(Id, Vec<u8>)> {
    let first = entries.first()?.0;
    let mut pack = write::Listpack::default();
    pack.number(entries.len() as i64);
    // None was deleted, and no fields are those of all.
    (0..3).for_each(|_| pack.number(0));
    for (id, fields) in entries {
        pack.number(0);
        pack.number(id.0.wrapping_sub(first.0) as i64);
        pack.number(id.1.wrapping_sub(first.1) as i64);
        pack.number((fields.len() / 2) as i64);
        fields.iter().for_each(|field| pack.text(field));
        pack.number(fields.len() as i64 + 4);
    }
    Some((first, pack.end()))
}
