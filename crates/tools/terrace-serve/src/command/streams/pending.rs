//! What consumers have and have not acknowledged.

use std::ops::ControlFlow;

use super::id::Id;
use super::records::{
    Fields, Group, Pending, decode_fields, entry_key, note_consumer, write_entry,
};
use crate::command::call::Call;
use crate::stop::{Run, SYNTAX, TOO_LARGE, refuse};
use crate::store::codec::{Head, Kind};

/// Bytes that an entry takes beside the name of who has it.
const BESIDE: usize = 64;

/// The stream and its group, or the error that there is none.
fn group_of(c: &mut Call) -> Run<Head> {
    let (key, group) = (c.args.at(1), c.args.at(2));
    let head = c.work.typed(key, Kind::Stream)?;
    if let Some(head) = head
        && Group::load(c.work, &head, group)?.is_some()
    {
        return Ok(head);
    }
    refuse(format!(
        "NOGROUP No such key '{}' or consumer group '{}'",
        String::from_utf8_lossy(key),
        String::from_utf8_lossy(group)
    ))
}

/// `XACK`.
pub fn xack(c: &mut Call) -> Run {
    let (key, group) = (c.args.at(1), c.args.at(2));
    let head = c.work.typed(key, Kind::Stream)?;
    let head = match head {
        Some(head) if Group::load(c.work, &head, group)?.is_some() => head,
        _ => {
            c.out.number(0);
            return Ok(());
        }
    };
    let mut ids = Vec::new();
    for text in c.args.from(3) {
        ids.push(Id::parse(text, 0)?);
    }
    let mut done = 0;
    for id in ids {
        if Pending::load(c.work, &head, group, id)?.is_some() {
            Pending::remove(c.work, &head, group, id);
            done += 1;
        }
    }
    c.out.number(done);
    Ok(())
}

/// `XPENDING`.
pub fn xpending(c: &mut Call) -> Run {
    let group = c.args.at(2);
    if c.args.len() == 3 {
        let head = group_of(c)?;
        let all = Pending::summary(c.work, &head, group)?;
        c.out.array(4);
        c.out.number(all.count as i64);
        match all.ends {
            Some((first, last)) => {
                c.out.bulk(first.to_string());
                c.out.bulk(last.to_string());
                c.out.array(all.of.len());
                for (name, many) in all.of {
                    c.out.array(2);
                    c.out.bulk(name);
                    c.out.bulk(many.to_string());
                }
            }
            None => {
                c.out.null();
                c.out.null();
                c.out.null_array();
            }
        }
        return Ok(());
    }
    let (mut idle, mut i) = (0, 3);
    if c.args.is(3, "IDLE") {
        idle = c.args.integer(4)?.max(0) as u64;
        i = 5;
    }
    if c.args.len() < i + 3 || c.args.len() > i + 4 {
        return refuse(SYNTAX);
    }
    let most = c.args.integer(i + 2)?.max(0) as usize;
    let range = (
        Id::bound(c.args.at(i), true)?,
        Id::bound(c.args.at(i + 1), false)?,
    );
    let consumer = (c.args.len() == i + 4).then(|| c.args.at(i + 3));
    let head = group_of(c)?;
    let now = c.work.now;
    let (mut found, mut bytes, bound) = (Vec::new(), 0, c.work.most);
    if most > 0 {
        Pending::each(c.work, &head, group, range, &mut |pending| {
            let own = consumer.is_none_or(|name| name == pending.consumer);
            if own && now.saturating_sub(pending.since) >= idle {
                bytes += pending.consumer.len() + BESIDE;
                found.push(pending);
            }
            match found.len() < most && bytes <= bound {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
    }
    if bytes > bound {
        return refuse(TOO_LARGE);
    }
    c.out.array(found.len());
    for pending in found {
        c.out.array(4);
        c.out.bulk(pending.id.to_string());
        c.out.bulk(&pending.consumer);
        c.out.number(now.saturating_sub(pending.since) as i64);
        c.out.number(pending.times as i64);
    }
    Ok(())
}

/// What a claim says beside whose it is.
#[derive(Default)]
struct Claim {
    idle: Option<u64>,
    time: Option<u64>,
    times: Option<u64>,
    force: bool,
    just_id: bool,
}

/// Gives an entry that is there to a consumer.
fn claim(
    c: &mut Call,
    head: &Head,
    consumer: &[u8],
    mut pending: Pending,
    fields: &[u8],
    how: &Claim,
) -> Run<(Id, Fields)> {
    let group = c.args.at(2);
    let id = pending.id;
    pending.consumer = consumer.to_vec();
    pending.since = match (how.time, how.idle) {
        (Some(time), _) => time.min(c.work.now),
        (None, Some(idle)) => c.work.now.saturating_sub(idle),
        (None, None) => c.work.now,
    };
    match how.times {
        Some(times) => pending.times = times,
        None if !how.just_id => pending.times += 1,
        None => {}
    }
    pending.save(c.work, head, group)?;
    Ok((id, decode_fields(fields)))
}

fn write(c: &mut Call, found: &[(Id, Fields)], just_id: bool) {
    c.out.array(found.len());
    for (id, fields) in found {
        match just_id {
            true => c.out.bulk(id.to_string()),
            false => write_entry(c.out, *id, fields),
        }
    }
}

/// `XCLAIM`.
pub fn xclaim(c: &mut Call) -> Run {
    let (group, consumer) = (c.args.at(2), c.args.at(3));
    let least = match crate::text::parse_i64(c.args.at(4)) {
        Some(least) => least.max(0) as u64,
        None => return refuse("ERR Invalid min-idle-time argument for XCLAIM"),
    };
    let (mut ids, mut how) = (Vec::new(), Claim::default());
    let mut i = 5;
    while i < c.args.len()
        && let Ok(id) = Id::parse(c.args.at(i), 0)
    {
        ids.push(id);
        i += 1;
    }
    if ids.is_empty() {
        return refuse("ERR Invalid stream ID specified as stream command argument");
    }
    let mut last = None;
    while i < c.args.len() {
        let more = i + 1 < c.args.len();
        match () {
            () if c.args.is(i, "FORCE") => how.force = true,
            () if c.args.is(i, "JUSTID") => how.just_id = true,
            () if more && c.args.is(i, "IDLE") => {
                how.idle = Some(c.args.integer(i + 1)?.max(0) as u64)
            }
            () if more && c.args.is(i, "TIME") => {
                how.time = Some(c.args.integer(i + 1)?.max(0) as u64)
            }
            () if more && c.args.is(i, "RETRYCOUNT") => {
                how.times = Some(c.args.integer(i + 1)?.max(0) as u64);
            }
            () if more && c.args.is(i, "LASTID") => last = Some(Id::parse(c.args.at(i + 1), 0)?),
            () => {
                let option = String::from_utf8_lossy(c.args.at(i));
                return refuse(format!("ERR Unrecognized XCLAIM option '{option}'"));
            }
        }
        i += if c.args.is(i, "FORCE") || c.args.is(i, "JUSTID") {
            1
        } else {
            2
        };
    }
    let head = group_of(c)?;
    if let Some(last) = last
        && let Some(mut there) = Group::load(c.work, &head, group)?
        && last > there.last
    {
        there.last = last;
        there.save(c.work, &head, group)?;
    }
    let mut found = Vec::new();
    for id in ids {
        let pending = Pending::load(c.work, &head, group, id)?;
        // An entry that is gone belongs to no consumer any more, however long it was pending.
        let Some(fields) = c.work.element(&entry_key(&head, id))? else {
            if pending.is_some() {
                Pending::remove(c.work, &head, group, id);
            }
            continue;
        };
        let pending = match pending {
            Some(pending) if c.work.now.saturating_sub(pending.since) < least => continue,
            Some(pending) => pending,
            None if how.force => Pending {
                id,
                consumer: consumer.to_vec(),
                since: c.work.now,
                times: 1,
            },
            None => continue,
        };
        found.push(claim(c, &head, consumer, pending, &fields, &how)?);
    }
    // Who is given nothing is not made.
    if !found.is_empty() {
        note_consumer(c.work, c.args.at(1), &head, group, consumer)?;
    }
    write(c, &found, how.just_id);
    Ok(())
}

/// `XAUTOCLAIM`.
pub fn xautoclaim(c: &mut Call) -> Run {
    let (group, consumer) = (c.args.at(2), c.args.at(3));
    let least = match crate::text::parse_i64(c.args.at(4)) {
        Some(least) => least.max(0) as u64,
        None => return refuse("ERR Invalid min-idle-time argument for XAUTOCLAIM"),
    };
    let from = Id::bound(c.args.at(5), true)?;
    let (mut most, mut how) = (100, Claim::default());
    let mut i = 6;
    while i < c.args.len() {
        if c.args.is(i, "COUNT") && i + 1 < c.args.len() {
            match crate::text::parse_i64(c.args.at(i + 1)) {
                Some(count) if count > 0 => most = count as usize,
                _ => return refuse("ERR COUNT must be > 0"),
            }
            i += 2;
        } else if c.args.is(i, "JUSTID") {
            how.just_id = true;
            i += 1;
        } else {
            return refuse(SYNTAX);
        }
    }
    let head = group_of(c)?;
    // As Redis, it looks at ten times as many as it may claim.
    let (mut seen, mut next, mut bytes) = (Vec::new(), Id::MIN, 0);
    let bound = c.work.most;
    Pending::each(c.work, &head, group, (from, Id::MAX), &mut |pending| {
        bytes += pending.consumer.len() + BESIDE;
        if seen.len() >= most.saturating_mul(10) || bytes > bound {
            next = pending.id;
            return ControlFlow::Break(());
        }
        seen.push(pending);
        ControlFlow::Continue(())
    })?;
    let (mut found, mut gone) = (Vec::new(), Vec::new());
    for pending in seen {
        if found.len() + gone.len() >= most {
            next = pending.id;
            break;
        }
        let Some(fields) = c.work.element(&entry_key(&head, pending.id))? else {
            Pending::remove(c.work, &head, group, pending.id);
            gone.push(pending.id);
            continue;
        };
        if c.work.now.saturating_sub(pending.since) >= least {
            found.push(claim(c, &head, consumer, pending, &fields, &how)?);
        }
    }
    if !found.is_empty() {
        note_consumer(c.work, c.args.at(1), &head, group, consumer)?;
    }
    c.out.array(3);
    c.out.bulk(next.to_string());
    write(c, &found, how.just_id);
    c.out.array(gone.len());
    gone.iter().for_each(|id| c.out.bulk(id.to_string()));
    Ok(())
}
