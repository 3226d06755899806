//! XGROUP and XINFO.

use super::id::Id;
use super::records::{
    Group, Pending, State, consumer_key, consumers, count_consumers, entries, first_id,
    note_consumer, write_entry,
};
use crate::command::call::Call;
use crate::stop::{NO_KEY, Run, SYNTAX, refuse};
use crate::store::codec::Kind;

fn no_group<T>(group: &[u8], key: &[u8]) -> Run<T> {
    refuse(format!(
        "NOGROUP No such consumer group '{}' for key name '{}'",
        String::from_utf8_lossy(group),
        String::from_utf8_lossy(key)
    ))
}

fn unknown(c: &Call, command: &str, known: &[&str]) -> Run {
    let name = String::from_utf8_lossy(c.args.at(1));
    if known.iter().any(|known| c.args.is(1, known)) {
        let name = format!("{command}|{name}").to_ascii_lowercase();
        return refuse(format!(
            "ERR wrong number of arguments for '{name}' command"
        ));
    }
    refuse(format!(
        "ERR unknown subcommand or wrong number of arguments for '{name}'. Try {command} HELP."
    ))
}

/// `XGROUP`.
pub fn xgroup(c: &mut Call) -> Run {
    let (key, group) = (c.args.at(2), c.args.at(3));
    let what = String::from_utf8_lossy(c.args.at(1)).to_ascii_uppercase();
    let arguments = c.args.len();
    let fits = match what.as_str() {
        "CREATE" => (5..=8).contains(&arguments),
        "SETID" => arguments == 5 || arguments == 7,
        "DESTROY" => arguments == 4,
        "CREATECONSUMER" | "DELCONSUMER" => arguments == 5,
        _ => false,
    };
    if !fits {
        let known = [
            "CREATE",
            "SETID",
            "DESTROY",
            "CREATECONSUMER",
            "DELCONSUMER",
        ];
        return unknown(c, "XGROUP", &known);
    }
    let (mut makes, mut read) = (false, None);
    if what == "CREATE" || what == "SETID" {
        let mut i = 5;
        while i < arguments {
            if what == "CREATE" && c.args.is(i, "MKSTREAM") {
                makes = true;
                i += 1;
            } else if c.args.is(i, "ENTRIESREAD") && i + 1 < arguments {
                match c.args.integer(i + 1)? {
                    number if number >= 0 => read = Some(number as u64),
                    -1 => {}
                    _ => return refuse("ERR value for ENTRIESREAD must be positive or -1"),
                }
                i += 2;
            } else {
                return refuse(SYNTAX);
            }
        }
    }
    let head = match c.work.typed(key, Kind::Stream)? {
        Some(head) => head,
        None if makes => {
            let head = c.work.typed_or_new(key, Kind::Stream)?;
            State::default().save(c.work, &head)?;
            c.work.put_head(key, &head)?;
            head
        }
        None => {
            return refuse(
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the MKSTREAM option to create an empty stream automatically.",
            );
        }
    };
    let there = Group::load(c.work, &head, group)?;
    match what.as_str() {
        "CREATE" | "SETID" => {
            let last = match c.args.at(4) {
                b"$" => State::load(c.work, &head)?.last,
                id => Id::parse(id, 0)?,
            };
            match (what.as_str(), there) {
                ("CREATE", Some(_)) => {
                    return refuse("BUSYGROUP Consumer Group name already exists");
                }
                ("SETID", None) => return no_group(group, key),
                _ => {}
            }
            Group { last, read }.save(c.work, &head, group)?;
            let event = if what == "CREATE" {
                "xgroup-create"
            } else {
                "xgroup-setid"
            };
            c.work.event(b't', event, key);
            c.out.ok();
        }
        "DESTROY" => {
            if there.is_some() {
                Group::remove(c.work, &head, group)?;
                c.work.event(b't', "xgroup-destroy", key);
            }
            c.out.number(i64::from(there.is_some()));
        }
        _ if there.is_none() => return no_group(group, key),
        "CREATECONSUMER" => {
            let consumer = consumer_key(&head, group, c.args.at(4));
            let new = c.work.element(&consumer)?.is_none();
            if new {
                note_consumer(c.work, key, &head, group, c.args.at(4))?;
            }
            c.out.number(i64::from(new));
        }
        _ => {
            let consumer = consumer_key(&head, group, c.args.at(4));
            let mut had = 0;
            if c.work.has_element(&consumer)? {
                had = Pending::remove_all(c.work, &head, group, c.args.at(4))?;
                c.work.delete_element(consumer);
                c.work.event(b't', "xgroup-delconsumer", key);
            }
            c.out.number(had as i64);
        }
    }
    Ok(())
}

/// `XINFO`.
pub fn xinfo(c: &mut Call) -> Run {
    let what = String::from_utf8_lossy(c.args.at(1)).to_ascii_uppercase();
    let arguments = c.args.len();
    let fits = match what.as_str() {
        "STREAM" | "GROUPS" => arguments == 3,
        "CONSUMERS" => arguments == 4,
        _ => false,
    };
    if !fits {
        return unknown(c, "XINFO", &["STREAM", "GROUPS", "CONSUMERS"]);
    }
    let key = c.args.at(2);
    let Some(head) = c.work.typed(key, Kind::Stream)? else {
        return refuse(NO_KEY);
    };
    let state = State::load(c.work, &head)?;
    match what.as_str() {
        "STREAM" => {
            let groups = Group::all(c.work, &head)?.len();
            let first = entries(c.work, &head, Id::MIN, Id::MAX, false, 1)?;
            let last = entries(c.work, &head, Id::MIN, Id::MAX, true, 1)?;
            c.out.map(10);
            for (name, number) in [
                ("length", head.count),
                ("radix-tree-keys", 1),
                ("radix-tree-nodes", 2),
            ] {
                c.out.bulk(name);
                c.out.number(number as i64);
            }
            for (name, id) in [
                ("last-generated-id", state.last),
                ("max-deleted-entry-id", state.deleted),
            ] {
                c.out.bulk(name);
                c.out.bulk(id.to_string());
            }
            c.out.bulk("entries-added");
            c.out.number(state.added as i64);
            c.out.bulk("recorded-first-entry-id");
            let id = first.first().map_or(Id::MIN, |(id, _)| *id);
            c.out.bulk(id.to_string());
            c.out.bulk("groups");
            c.out.count(groups);
            for (name, entry) in [("first-entry", first), ("last-entry", last)] {
                c.out.bulk(name);
                match entry.first() {
                    Some((id, fields)) => write_entry(c.out, *id, fields),
                    None => c.out.null(),
                }
            }
        }
        "GROUPS" => {
            let groups = Group::all(c.work, &head)?;
            let first = first_id(c.work, &head)?;
            c.out.array(groups.len());
            for (name, group) in groups {
                let many = count_consumers(c.work, &head, &name)?;
                let pending = Pending::summary(c.work, &head, &name)?.count;
                c.out.map(6);
                c.out.bulk("name");
                c.out.bulk(&name);
                c.out.bulk("consumers");
                c.out.number(many as i64);
                c.out.bulk("pending");
                c.out.number(pending as i64);
                c.out.bulk("last-delivered-id");
                c.out.bulk(group.last.to_string());
                c.out.bulk("entries-read");
                match group.read {
                    Some(read) => c.out.number(read as i64),
                    None => c.out.null(),
                }
                c.out.bulk("lag");
                match group.lag(&head, &state, first) {
                    Some(lag) => c.out.number(lag as i64),
                    None => c.out.null(),
                }
            }
        }
        _ => {
            let group = c.args.at(3);
            if Group::load(c.work, &head, group)?.is_none() {
                return no_group(group, key);
            }
            let pending = Pending::summary(c.work, &head, group)?;
            let all = consumers(c.work, &head, group)?;
            c.out.array(all.len());
            for (name, seen) in all {
                let own = pending.of.get(&name).copied().unwrap_or(0);
                c.out.map(3);
                c.out.bulk("name");
                c.out.bulk(&name);
                c.out.bulk("pending");
                c.out.number(own as i64);
                c.out.bulk("idle");
                c.out.number(c.work.now.saturating_sub(seen) as i64);
            }
        }
    }
    Ok(())
}
