//! Keys, whatever they hold.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::args::integer;
use super::call::Call;
use crate::stop::{NO_KEY, Run, SYNTAX, Stop, TOO_LARGE, refuse};
use crate::store::codec::{self, Head, Kind, LATEST};
use crate::store::keyspace::DATABASES;
use crate::{glob, random};

/// `DEL`, `UNLINK`.
pub fn del(c: &mut Call) -> Run {
    let mut removed = 0;
    for key in c.args.from(1) {
        if c.work.remove(key)? {
            c.work.event(b'g', "del", key);
            removed += 1;
        }
    }
    c.out.number(removed);
    Ok(())
}

/// `EXISTS`, `TOUCH`.
pub fn exists(c: &mut Call) -> Run {
    let mut there = 0;
    for key in c.args.from(1) {
        there += i64::from(c.work.head(key)?.is_some());
    }
    c.out.number(there);
    Ok(())
}

/// `TYPE`.
pub fn kind(c: &mut Call) -> Run {
    let head = c.work.head(c.args.at(1))?;
    c.out.simple(head.map_or("none", |head| head.kind.name()));
    Ok(())
}

fn expire_at(c: &mut Call, unit: i64, relative: bool, name: &str) -> Run {
    let key = c.args.at(1);
    let number = c.args.integer(2)?;
    let (mut only_without, mut only_with, mut later, mut sooner) = (false, false, false, false);
    for i in 3..c.args.len() {
        match () {
            () if c.args.is(i, "NX") => only_without = true,
            () if c.args.is(i, "XX") => only_with = true,
            () if c.args.is(i, "GT") => later = true,
            () if c.args.is(i, "LT") => sooner = true,
            () => {
                let option = String::from_utf8_lossy(c.args.at(i));
                return refuse(format!("ERR Unsupported option {option}"));
            }
        }
    }
    if only_without && (only_with || later || sooner) {
        return refuse("ERR NX and XX, GT or LT options at the same time are not compatible");
    }
    if later && sooner {
        return refuse("ERR GT and LT options at the same time are not compatible");
    }
    let invalid = || Stop::Reply(format!("ERR invalid expire time in '{name}' command").into());
    let mut at = number.checked_mul(unit).ok_or_else(invalid)?;
    if relative {
        at = at.checked_add_unsigned(c.work.now).ok_or_else(invalid)?;
    }
    if at > LATEST as i64 {
        return Err(invalid());
    }
    let Some(head) = c.work.head(key)? else {
        c.out.number(0);
        return Ok(());
    };
    let old = head.expires.map(|at| at as i64);
    let refused = (only_without && old.is_some())
        || (only_with && old.is_none())
        || (later && old.is_none_or(|old| at <= old))
        || (sooner && old.is_some_and(|old| at >= old));
    if refused {
        c.out.number(0);
        return Ok(());
    }
    if at <= c.work.now as i64 {
        c.work.remove(key)?;
        c.work.event(b'g', "del", key);
    } else {
        c.work.set_expiry(key, &head, Some(at as u64))?;
        c.work.event(b'g', "expire", key);
    }
    c.out.number(1);
    Ok(())
}

/// `EXPIRE`.
pub fn expire(c: &mut Call) -> Run {
    expire_at(c, 1000, true, "expire")
}

/// `PEXPIRE`.
pub fn pexpire(c: &mut Call) -> Run {
    expire_at(c, 1, true, "pexpire")
}

/// `EXPIREAT`.
pub fn expireat(c: &mut Call) -> Run {
    expire_at(c, 1000, false, "expireat")
}

/// `PEXPIREAT`.
pub fn pexpireat(c: &mut Call) -> Run {
    expire_at(c, 1, false, "pexpireat")
}

fn left(c: &mut Call, say: impl Fn(u64, u64) -> u64) -> Run {
    let answer = match c.work.head(c.args.at(1))? {
        None => -2,
        Some(Head { expires: None, .. }) => -1,
        Some(Head {
            expires: Some(at), ..
        }) => say(at, c.work.now) as i64,
    };
    c.out.number(answer);
    Ok(())
}

/// `TTL`.
pub fn ttl(c: &mut Call) -> Run {
    left(c, |at, now| (at.saturating_sub(now) + 500) / 1000)
}

/// `PTTL`.
pub fn pttl(c: &mut Call) -> Run {
    left(c, |at, now| at.saturating_sub(now))
}

/// `EXPIRETIME`.
pub fn expiretime(c: &mut Call) -> Run {
    left(c, |at, _| (at + 500) / 1000)
}

/// `PEXPIRETIME`.
pub fn pexpiretime(c: &mut Call) -> Run {
    left(c, |at, _| at)
}

/// `PERSIST`.
pub fn persist(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let head = c.work.head(key)?.filter(|head| head.expires.is_some());
    if let Some(head) = head {
        c.work.set_expiry(key, &head, None)?;
        c.work.event(b'g', "persist", key);
    }
    c.out.number(i64::from(head.is_some()));
    Ok(())
}

fn renamed(c: &mut Call, only_new: bool) -> Run<bool> {
    let (from, to) = (c.args.at(1), c.args.at(2));
    if c.work.head(from)?.is_none() {
        return refuse(NO_KEY);
    }
    if from == to {
        return Ok(!only_new);
    }
    if only_new && c.work.head(to)?.is_some() {
        return Ok(false);
    }
    let Some(head) = c.work.head(from)? else {
        return refuse(NO_KEY);
    };
    let db = c.work.db;
    c.work.move_to(from, &head, db, to)?;
    c.work.event(b'g', "rename_from", from);
    c.work.event(b'g', "rename_to", to);
    Ok(true)
}

/// `RENAME`.
pub fn rename(c: &mut Call) -> Run {
    renamed(c, false)?;
    c.out.ok();
    Ok(())
}

/// `RENAMENX`.
pub fn renamenx(c: &mut Call) -> Run {
    let done = renamed(c, true)?;
    c.out.number(i64::from(done));
    Ok(())
}

/// The number of a database.
pub fn database(bytes: &[u8]) -> Run<usize> {
    let number = match crate::text::parse_i64(bytes) {
        Some(number) => number,
        None => return refuse("ERR invalid DB index"),
    };
    match usize::try_from(number) {
        Ok(number) if number < DATABASES => Ok(number),
        _ => refuse("ERR DB index is out of range"),
    }
}

/// `MOVE`; it is alone.
pub fn move_key(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let to = match integer(c.args.at(2)) {
        Ok(number) => match usize::try_from(number) {
            Ok(number) if number < DATABASES => number,
            _ => return refuse("ERR DB index is out of range"),
        },
        Err(stop) => return Err(stop),
    };
    let here = c.work.db;
    if to == here {
        return refuse("ERR source and destination objects are the same");
    }
    if c.work.head(key)?.is_none() {
        c.out.number(0);
        return Ok(());
    }
    c.work.db = to;
    let taken = c.work.head(key);
    c.work.db = here;
    let taken = taken?.is_some();
    if let Some(head) = c.work.head(key)?.filter(|_| !taken) {
        c.work.move_to(key, &head, to, key)?;
        c.work.event(b'g', "move_from", key);
        c.work.db = to;
        c.work.event(b'g', "move_to", key);
        c.work.db = here;
    }
    c.out.number(i64::from(!taken));
    Ok(())
}

/// `COPY`; it is alone.
pub fn copy(c: &mut Call) -> Run {
    let (from, to) = (c.args.at(1), c.args.at(2));
    let here = c.work.db;
    let (mut db, mut replaces) = (here, false);
    let mut i = 3;
    while i < c.args.len() {
        if c.args.is(i, "REPLACE") {
            replaces = true;
        } else if c.args.is(i, "DB") && i + 1 < c.args.len() {
            i += 1;
            db = database_in_copy(c.args.at(i))?;
        } else {
            return refuse(SYNTAX);
        }
        i += 1;
    }
    if db == here && from == to {
        return refuse("ERR source and destination objects are the same");
    }
    let Some(head) = c.work.head(from)? else {
        c.out.number(0);
        return Ok(());
    };
    let text = c.work.text().to_vec();
    c.work.db = db;
    let done = copied(c, &head, &text, to, replaces);
    c.work.db = here;
    let done = done?;
    c.out.number(i64::from(done));
    Ok(())
}

fn database_in_copy(bytes: &[u8]) -> Run<usize> {
    match usize::try_from(integer(bytes)?) {
        Ok(number) if number < DATABASES => Ok(number),
        _ => refuse("ERR DB index is out of range"),
    }
}

fn copied(c: &mut Call, head: &Head, text: &[u8], to: &[u8], replaces: bool) -> Run<bool> {
    if c.work.head(to)?.is_some() && !replaces {
        return Ok(false);
    }
    if head.kind == Kind::Text {
        c.work.remove(to)?;
        c.work.put_text(to, head.expires, text)?;
    } else {
        let mut new = c.work.make_anew(to, head.kind)?;
        (new.count, new.first, new.leases) = (head.count, head.first, head.leases);
        // Behind the record of the owner.
        let (mut low, high) = codec::all_of(head.number);
        low.push(1);
        loop {
            let some = c.work.range(&low, &high, false, 1024)?;
            for (key, value) in &some {
                let mut copy = new.number.to_be_bytes().to_vec();
                copy.extend_from_slice(&key[8..]);
                c.work.put_element(copy, value)?;
            }
            match some.last() {
                Some((last, _)) => low = [last.as_slice(), &[0]].concat(),
                None => break,
            }
            c.work.relieve()?;
        }
        new.expires = head.expires;
        c.work.put_head(to, &new)?;
        c.work.queue(to, &new)?;
    }
    c.work.event(b'g', "copy_to", to);
    Ok(true)
}

/// Tells `f` all keys that live, until it breaks.
fn each_key(c: &Call, f: &mut dyn FnMut(&[u8], &Head) -> ControlFlow<()>) -> Run {
    let mut tell = |key: &[u8], value: &[u8]| match Head::decode(value) {
        Some((head, _)) if head.expires.is_none_or(|at| at > c.work.now) => f(key, &head),
        _ => ControlFlow::Continue(()),
    };
    let staged: HashMap<&[u8], Option<&[u8]>> = c.work.staged().collect();
    for (key, value) in &staged {
        if value.is_some_and(|value| tell(key, value).is_break()) {
            return Ok(());
        }
    }
    let Some(table) = c.work.heads_table() else {
        return Ok(());
    };
    for record in table.iter()? {
        let (key, value) = record?;
        if !staged.contains_key(key.as_slice()) && tell(&key, &value).is_break() {
            break;
        }
    }
    Ok(())
}

/// `KEYS`.
pub fn keys(c: &mut Call) -> Run {
    let pattern = c.args.at(1);
    let (mut found, mut bytes, most) = (Vec::new(), 0, c.work.most);
    each_key(c, &mut |key, _| {
        if glob::fits(pattern, key) {
            bytes += key.len();
            found.push(key.to_vec());
        }
        match bytes <= most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    if bytes > most {
        return refuse(TOO_LARGE);
    }
    c.out.array(found.len());
    found.iter().for_each(|key| c.out.bulk(key));
    Ok(())
}

/// Places at which a random key is looked for.
const TRIES: usize = 20;

/// `RANDOMKEY`.
pub fn randomkey(c: &mut Call) -> Run {
    let staged: HashMap<&[u8], Option<&[u8]>> = c.work.staged().collect();
    for attempt in 0..TRIES {
        let Some(table) = c.work.heads_table() else {
            break;
        };
        // The last look is from the beginning on, where nothing is missed behind the last key.
        let from = if attempt + 1 == TRIES {
            0
        } else {
            random::random()
        };
        let step = table.scan(from & !0xFFFF, 16)?;
        let living: Vec<&[u8]> = step
            .records
            .iter()
            .filter(|(key, value)| {
                let value = match staged.get(key.as_slice()) {
                    Some(None) => return false,
                    Some(value) => *value,
                    None => value.as_deref(),
                };
                value.is_none_or(|value| lives(value, c.work.now))
            })
            .map(|(key, _)| key.as_slice())
            .collect();
        if !living.is_empty() {
            let key = living[random::below(living.len() as u64) as usize].to_vec();
            c.out.bulk(key);
            return Ok(());
        }
    }
    let mut any = None;
    each_key(c, &mut |key, _| {
        any = Some(key.to_vec());
        ControlFlow::Break(())
    })?;
    c.out.bulk_or_null(any);
    Ok(())
}

/// Whether a record is that of a key that has not expired.
fn lives(record: &[u8], now: u64) -> bool {
    Head::decode(record).is_some_and(|(head, _)| head.expires.is_none_or(|at| at > now))
}

/// `DBSIZE`.
pub fn dbsize(c: &mut Call) -> Run {
    let mut keys = c.work.store.estimated_keys(c.work.db)? as i64;
    // What a transaction or a script has made and removed so far.
    for (key, record) in c.work.staged() {
        let old = match c.work.heads_table() {
            Some(table) => table.get(key)?,
            None => None,
        };
        let lives = |record: &[u8]| i64::from(lives(record, c.work.now));
        keys += record.map_or(0, lives) - old.as_deref().map_or(0, lives);
    }
    c.out.number(keys.max(0));
    Ok(())
}

/// What a flush is told: how it is done does not matter here.
fn flush_options(c: &Call) -> Run {
    match c.args.len() {
        1 => Ok(()),
        2 if c.args.is(1, "SYNC") || c.args.is(1, "ASYNC") => Ok(()),
        _ => refuse(SYNTAX),
    }
}

/// `FLUSHDB`; it is alone.
pub fn flushdb(c: &mut Call) -> Run {
    flush_options(c)?;
    c.work.write_out()?;
    c.work.signals.mark_all(Some(c.work.db as u8));
    c.work.note_written();
    c.work.store.flush(c.work.db)?;
    c.work.begin();
    c.out.ok();
    Ok(())
}

/// `FLUSHALL`; it is alone.
pub fn flushall(c: &mut Call) -> Run {
    flush_options(c)?;
    c.work.write_out()?;
    c.work.signals.mark_all(None);
    c.work.note_written();
    c.work.store.flush_all()?;
    c.work.begin();
    c.out.ok();
    Ok(())
}

/// `SWAPDB`; it is alone.
pub fn swapdb(c: &mut Call) -> Run {
    let read = |i: usize, which: &str| match crate::text::parse_i64(c.args.at(i)) {
        Some(number) => match usize::try_from(number) {
            Ok(number) if number < DATABASES => Ok(number),
            _ => refuse("ERR DB index is out of range"),
        },
        None => refuse(format!("ERR invalid {which} DB index")),
    };
    let (a, b) = (read(1, "first")?, read(2, "second")?);
    if a != b {
        c.work.write_out()?;
        for db in [a, b] {
            c.work.signals.mark_all(Some(db as u8));
        }
        c.work.note_written();
        c.work.store.swap(a, b)?;
        c.work.begin();
        for db in [a, b] {
            c.work.signals.ready_all(db as u8);
        }
    }
    c.out.ok();
    Ok(())
}

/// `OBJECT`.
pub fn object(c: &mut Call) -> Run {
    if c.args.is(1, "HELP") {
        c.out.array(1);
        c.out.simple("OBJECT ENCODING|FREQ|IDLETIME|REFCOUNT <key>");
        return Ok(());
    }
    let known = ["ENCODING", "REFCOUNT", "IDLETIME", "FREQ"];
    let Some(what) = known.into_iter().find(|w| c.args.is(1, w)) else {
        let name = String::from_utf8_lossy(c.args.at(1));
        return refuse(format!(
            "ERR Unknown subcommand or wrong number of arguments for '{name}'. Try OBJECT HELP."
        ));
    };
    if c.args.len() != 3 {
        return refuse(format!(
            "ERR wrong number of arguments for 'object|{}' command",
            what.to_ascii_lowercase()
        ));
    }
    let Some(head) = c.work.head(c.args.at(2))? else {
        c.out.null();
        return Ok(());
    };
    match what {
        "ENCODING" => c.out.bulk(encoding(&head, c.work.text())),
        "REFCOUNT" => c.out.number(1),
        "IDLETIME" => c.out.number(0),
        _ => {
            return refuse(
                "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
            );
        }
    }
    Ok(())
}

/// What clients take for the encoding of large values of a kind.
fn encoding(head: &Head, text: &[u8]) -> &'static str {
    match head.kind {
        Kind::Text if crate::text::parse_i64(text).is_some() => "int",
        Kind::Text if text.len() <= 44 => "embstr",
        Kind::Text => "raw",
        Kind::Hash | Kind::Set => "hashtable",
        Kind::Sorted => "skiplist",
        Kind::List => "quicklist",
        Kind::Stream => "stream",
    }
}

/// Bytes that an element takes beside what it holds, about.
const ELEMENT_BYTES: u64 = 32;

/// `MEMORY USAGE`.
pub fn memory_usage(c: &mut Call) -> Run {
    let key = c.args.at(2);
    let Some(head) = c.work.head(key)? else {
        c.out.null();
        return Ok(());
    };
    let mut bytes = key.len() as u64 + c.work.text().len() as u64 + ELEMENT_BYTES;
    if head.kind != Kind::Text {
        let (low, high) = codec::all_of(head.number);
        let (mut seen, mut sum) = (0u64, 0u64);
        // As Redis: from a sample of five elements.
        c.work.each(&low, &high, false, &mut |key, value| {
            seen += 1;
            sum += (key.len() + value.len()) as u64 + ELEMENT_BYTES;
            match seen < 6 {
                true => ControlFlow::Continue(()),
                false => ControlFlow::Break(()),
            }
        })?;
        bytes += (sum / seen.max(1)).saturating_mul(head.count);
    }
    c.out.number(i64::try_from(bytes).unwrap_or(i64::MAX));
    Ok(())
}
