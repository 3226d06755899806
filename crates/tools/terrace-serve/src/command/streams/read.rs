//! XREAD and XREADGROUP.

use std::sync::atomic::Ordering;

use super::id::Id;
use super::records::{
    Fields, Group, Pending, State, decode_fields, entries, entry_key, first_id, note_consumer,
    write_entry,
};
use crate::command::call::Call;
use crate::command::waits::waited_for;
use crate::stop::{Run, SYNTAX, Stop, Wait, refuse};
use crate::store::codec::Kind;

/// What is asked for.
struct Asked {
    count: usize,
    /// How long it waits, in milliseconds: not at all, for a while, for ever.
    block: Option<Option<u64>>,
    group: Option<(Vec<u8>, Vec<u8>)>,
    no_ack: bool,
    /// Each key, and from where on.
    streams: Vec<(Vec<u8>, Vec<u8>)>,
}

fn asked(c: &Call, with_group: bool) -> Run<Asked> {
    let mut asked = Asked {
        count: usize::MAX,
        block: None,
        group: None,
        no_ack: false,
        streams: Vec::new(),
    };
    let mut i = 1;
    while i < c.args.len() {
        let more = i + 1 < c.args.len();
        if more && c.args.is(i, "COUNT") {
            let count = c.args.integer(i + 1)?;
            asked.count = if count > 0 {
                count as usize
            } else {
                usize::MAX
            };
            i += 2;
        } else if more && c.args.is(i, "BLOCK") {
            let Some(block) = crate::text::parse_i64(c.args.at(i + 1)) else {
                return refuse("ERR timeout is not an integer or out of range");
            };
            if block < 0 {
                return refuse("ERR timeout is negative");
            }
            asked.block = Some((block > 0).then_some(block as u64));
            i += 2;
        } else if with_group && c.args.is(i, "GROUP") && i + 2 < c.args.len() {
            asked.group = Some((c.args.at(i + 1).to_vec(), c.args.at(i + 2).to_vec()));
            i += 3;
        } else if with_group && c.args.is(i, "NOACK") {
            asked.no_ack = true;
            i += 1;
        } else if c.args.is(i, "STREAMS") {
            let rest = c.args.len() - i - 1;
            if rest == 0 || !rest.is_multiple_of(2) {
                let (name, what) = match with_group {
                    true => ("xreadgroup", "ID or >"),
                    false => ("xread", "ID or $"),
                };
                return refuse(format!(
                    "ERR Unbalanced '{name}' list of streams: for each stream key an {what} must be specified."
                ));
            }
            for nth in 0..rest / 2 {
                let (key, from) = (i + 1 + nth, i + 1 + rest / 2 + nth);
                asked
                    .streams
                    .push((c.args.at(key).to_vec(), c.args.at(from).to_vec()));
            }
            break;
        } else {
            return refuse(SYNTAX);
        }
    }
    if asked.streams.is_empty() {
        return refuse(SYNTAX);
    }
    if with_group && asked.group.is_none() {
        return refuse("ERR Missing GROUP option for XREADGROUP");
    }
    Ok(asked)
}

type Found = Vec<(Vec<u8>, Vec<(Id, Option<Fields>)>)>;

fn write(c: &mut Call, found: &Found) {
    c.out.map_of_streams(found.len());
    for (key, entries) in found {
        if !c.out.third {
            c.out.array(2);
        }
        c.out.bulk(key);
        c.out.array(entries.len());
        for (id, fields) in entries {
            match fields {
                Some(fields) => write_entry(c.out, *id, fields),
                None => {
                    c.out.array(2);
                    c.out.bulk(id.to_string());
                    c.out.null_array();
                }
            }
        }
    }
}

/// `XREAD`.
pub fn xread(c: &mut Call) -> Run {
    let asked = asked(c, false)?;
    if !c.session.info.blocked.load(Ordering::SeqCst) {
        c.session.waits_from.clear();
    }
    let mut found = Found::new();
    for (nth, (key, from)) in asked.streams.iter().enumerate() {
        let head = waited_for(c, key, Kind::Stream)?;
        let from = match from.as_slice() {
            // From what comes on: what is there when it begins to wait is passed over.
            b"$" => match c.session.waits_from.get(nth) {
                Some(from) => *from,
                None => match &head {
                    Some(head) => {
                        let last = State::load(c.work, head)?.last;
                        (last.0, last.1)
                    }
                    None => (0, 0),
                },
            },
            from => {
                let id = Id::parse(from, 0)?;
                (id.0, id.1)
            }
        };
        if c.session.waits_from.len() == nth {
            c.session.waits_from.push(from);
        }
        let (Some(head), Some(from)) = (head, Id(from.0, from.1).next()) else {
            continue;
        };
        let some = entries(c.work, &head, from, Id::MAX, false, asked.count)?;
        if !some.is_empty() {
            let some = some.into_iter().map(|(id, fields)| (id, Some(fields)));
            found.push((key.clone(), some.collect()));
        }
    }
    end(c, found, asked)
}

fn end(c: &mut Call, found: Found, asked: Asked) -> Run {
    if !found.is_empty() {
        c.session.waits_from.clear();
        write(c, &found);
        return Ok(());
    }
    let Some(timeout) = asked.block.filter(|_| !c.session.in_exec) else {
        c.session.waits_from.clear();
        c.out.null_array();
        return Ok(());
    };
    Err(Stop::Wait(Wait {
        keys: asked.streams.into_iter().map(|(key, _)| key).collect(),
        timeout,
        array: true,
        kind: Kind::Stream,
        all: true,
    }))
}

/// `XREADGROUP`.
pub fn xreadgroup(c: &mut Call) -> Run {
    let asked = asked(c, true)?;
    let Some((group_name, consumer)) = &asked.group else {
        return refuse(SYNTAX);
    };
    let (mut found, mut history) = (Found::new(), false);
    for (key, from) in &asked.streams {
        let head = waited_for(c, key, Kind::Stream)?;
        if head.is_none() && c.session.info.blocked.load(Ordering::SeqCst) {
            return refuse("UNBLOCKED the stream key no longer exists");
        }
        let group = match &head {
            Some(head) => Group::load(c.work, head, group_name)?,
            None => None,
        };
        let (Some(head), Some(mut group)) = (head, group) else {
            return refuse(format!(
                "NOGROUP No such key '{}' or consumer group '{}' in XREADGROUP with GROUP option",
                String::from_utf8_lossy(key),
                String::from_utf8_lossy(group_name)
            ));
        };
        if from == b"$" {
            return refuse(
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return an empty result set.",
            );
        }
        if from != b">" {
            history = true;
            let from = Id::parse(from, 0)?.next().unwrap_or(Id::MAX);
            note_consumer(c.work, key, &head, group_name, consumer)?;
            let mut own = Vec::new();
            Pending::each(c.work, &head, group_name, (from, Id::MAX), &mut |pending| {
                if pending.consumer == *consumer {
                    own.push(pending.id);
                }
                match own.len() < asked.count {
                    true => std::ops::ControlFlow::Continue(()),
                    false => std::ops::ControlFlow::Break(()),
                }
            })?;
            let mut some = Vec::new();
            for id in own {
                let fields = c.work.element(&entry_key(&head, id))?;
                if let (Some(mut pending), true) = (
                    Pending::load(c.work, &head, group_name, id)?,
                    fields.is_some(),
                ) {
                    (pending.since, pending.times) = (c.work.now, pending.times + 1);
                    pending.save(c.work, &head, group_name)?;
                }
                some.push((id, fields.map(|fields| decode_fields(&fields))));
            }
            found.push((key.clone(), some));
            continue;
        }
        let Some(next) = group.last.next() else {
            continue;
        };
        let some = entries(c.work, &head, next, Id::MAX, false, asked.count)?;
        if some.is_empty() {
            continue;
        }
        note_consumer(c.work, key, &head, group_name, consumer)?;
        let (state, first) = (State::load(c.work, &head)?, first_id(c.work, &head)?);
        for (id, _) in &some {
            group.give(&head, &state, first, *id);
        }
        group.save(c.work, &head, group_name)?;
        if !asked.no_ack {
            for (id, _) in &some {
                let pending = Pending {
                    id: *id,
                    consumer: consumer.clone(),
                    since: c.work.now,
                    times: 1,
                };
                pending.save(c.work, &head, group_name)?;
            }
        }
        let some = some.into_iter().map(|(id, fields)| (id, Some(fields)));
        found.push((key.clone(), some.collect()));
    }
    if history {
        write(c, &found);
        return Ok(());
    }
    end(c, found, asked)
}
