//! A value as the commands that make it anew.
//!
//! Invariants: memory is bounded by one packed string and one command; what is told before an error stays told.

use std::collections::HashMap;

use super::kind;
use super::packed;
use super::source::{Got, Source, broken};
use crate::text::format_f64;

/// Arguments of one command, at most about this many.
const TOGETHER: usize = 1024;
/// Bytes of one command, at most about this many.
const TOGETHER_BYTES: usize = 1 << 20;

/// What is wrong with a collection that has no elements: there is no such key.
pub const EMPTY: &str = "a collection without elements";

/// Hears commands; an error of its own ends the reading.
pub type Tell<'t> = dyn FnMut(&[Vec<u8>]) -> Got + 't;

/// A command that grows until it is told.
struct Growing<'t, 'x> {
    words: Vec<Vec<u8>>,
    bytes: usize,
    told: bool,
    tell: &'x mut Tell<'t>,
}

impl<'t, 'x> Growing<'t, 'x> {
    fn new(name: &str, key: &[u8], tell: &'x mut Tell<'t>) -> Growing<'t, 'x> {
        Growing {
            words: vec![name.as_bytes().to_vec(), key.to_vec()],
            bytes: 0,
            told: false,
            tell,
        }
    }

    fn add(&mut self, words: impl IntoIterator<Item = Vec<u8>>) -> Got {
        for word in words {
            self.bytes += word.len();
            self.words.push(word);
        }
        match self.words.len() >= TOGETHER || self.bytes >= TOGETHER_BYTES {
            true => self.flush(),
            false => Ok(()),
        }
    }

    fn flush(&mut self) -> Got {
        if self.words.len() > 2 {
            (self.tell)(&self.words)?;
            self.words.truncate(2);
            (self.bytes, self.told) = (0, true);
        }
        Ok(())
    }

    fn end(mut self) -> Got {
        self.flush()?;
        match self.told {
            true => Ok(()),
            false => broken(EMPTY),
        }
    }
}

fn words(parts: &[&[u8]]) -> Vec<Vec<u8>> {
    parts.iter().map(|part| part.to_vec()).collect()
}

/// Reads a value of a kind, and tells the commands that store it under a key that is not there.
///
/// # Errors
/// What is wrong with the bytes, and the errors of `tell`.
pub fn value(kind: u8, key: &[u8], from: &mut Source, tell: &mut Tell) -> Got {
    match kind {
        kind::TEXT => {
            let text = from.text()?;
            tell(&[b"SET".to_vec(), key.to_vec(), text])
        }
        kind::LIST | kind::SET => {
            let name = if kind == kind::LIST { "RPUSH" } else { "SADD" };
            let mut command = Growing::new(name, key, tell);
            for _ in 0..from.length()? {
                command.add([from.text()?])?;
            }
            command.end()
        }
        kind::LIST_ZIPLIST => all("RPUSH", key, packed::ziplist(&from.text()?)?, tell),
        kind::SET_NUMBERS => all("SADD", key, packed::numbers(&from.text()?)?, tell),
        kind::SET_LISTPACK => all("SADD", key, packed::listpack(&from.text()?)?, tell),
        kind::LIST_ZIPLISTS | kind::LIST_LISTPACKS => {
            let mut command = Growing::new("RPUSH", key, tell);
            for _ in 0..from.length()? {
                let is_packed = match kind {
                    kind::LIST_ZIPLISTS => true,
                    _ => match from.length()? {
                        1 => false,
                        2 => true,
                        _ => return broken("a part of a list of no known form"),
                    },
                };
                let part = from.text()?;
                match (is_packed, kind) {
                    (false, _) => command.add([part])?,
                    (true, kind::LIST_ZIPLISTS) => command.add(packed::ziplist(&part)?)?,
                    (true, _) => command.add(packed::listpack(&part)?)?,
                }
            }
            command.end()
        }
        kind::HASH => {
            let mut command = Growing::new("HSET", key, tell);
            for _ in 0..from.length()? {
                command.add([from.text()?, from.text()?])?;
            }
            command.end()
        }
        kind::HASH_ZIPMAP => pairs("HSET", key, packed::zipmap(&from.text()?)?, tell),
        kind::HASH_ZIPLIST => pairs("HSET", key, packed::ziplist(&from.text()?)?, tell),
        kind::HASH_LISTPACK => pairs("HSET", key, packed::listpack(&from.text()?)?, tell),
        kind::SORTED | kind::SORTED_TEXT => {
            let mut command = Growing::new("ZADD", key, tell);
            for _ in 0..from.length()? {
                let member = from.text()?;
                let score = match kind {
                    kind::SORTED => f64::from_bits(from.long()?),
                    _ => score(from)?,
                };
                if score.is_nan() {
                    return broken("a score that is no number");
                }
                command.add([format_f64(score).into_bytes(), member])?;
            }
            command.end()
        }
        kind::SORTED_ZIPLIST | kind::SORTED_LISTPACK => {
            let packed = from.text()?;
            let mut all = match kind {
                kind::SORTED_ZIPLIST => packed::ziplist(&packed)?,
                _ => packed::listpack(&packed)?,
            };
            // Scores come behind members, and go before them.
            all.chunks_exact_mut(2).for_each(|pair| pair.swap(0, 1));
            pairs("ZADD", key, all, tell)
        }
        kind::HASH_LEASES | kind::HASH_LEASES_LISTPACK => leases(kind, key, from, tell),
        kind::STREAM_1 | kind::STREAM_2 | kind::STREAM_3 => stream(kind, key, from, tell),
        _ => broken(format!("a value of the kind {kind}, which is not known")),
    }
}

fn all(name: &str, key: &[u8], all: Vec<Vec<u8>>, tell: &mut Tell) -> Got {
    let mut command = Growing::new(name, key, tell);
    for one in all {
        command.add([one])?;
    }
    command.end()
}

fn pairs(name: &str, key: &[u8], all: Vec<Vec<u8>>, tell: &mut Tell) -> Got {
    if all.len() % 2 == 1 {
        return broken("half a pair");
    }
    let mut command = Growing::new(name, key, tell);
    let mut all = all.into_iter();
    while let (Some(a), Some(b)) = (all.next(), all.next()) {
        command.add([a, b])?;
    }
    command.end()
}

/// A score as text.
fn score(from: &mut Source) -> Got<f64> {
    let length = match from.byte()? {
        253 => return Ok(f64::NAN),
        254 => return Ok(f64::INFINITY),
        255 => return Ok(f64::NEG_INFINITY),
        length => length,
    };
    let mut text = Vec::new();
    for _ in 0..length {
        text.push(from.byte()?);
    }
    match crate::text::parse_f64(&text) {
        Some(score) => Ok(score),
        None => broken("a score that is no number"),
    }
}

/// A hash whose fields may expire.
fn leases(kind: u8, key: &[u8], from: &mut Source, tell: &mut Tell) -> Got {
    let first = from.long()?;
    let mut expire = Vec::new();
    if kind == kind::HASH_LEASES_LISTPACK {
        let all = packed::listpack(&from.text()?)?;
        if all.len() % 3 != 0 {
            return broken("a field without its time");
        }
        let mut fields = Vec::new();
        for triple in all.chunks_exact(3) {
            fields.extend_from_slice(&triple[..2]);
            if triple[2] != b"0" {
                expire.push((triple[2].clone(), triple[0].clone()));
            }
        }
        pairs("HSET", key, fields, tell)?;
    } else {
        let mut command = Growing::new("HSET", key, tell);
        for _ in 0..from.length()? {
            let time = from.length()?;
            let (field, value) = (from.text()?, from.text()?);
            if time != 0 {
                let time = first.saturating_add(time - 1).to_string();
                expire.push((time.into_bytes(), field.clone()));
            }
            command.add([field, value])?;
        }
        command.end()?;
    }
    for (time, field) in expire {
        tell(&words(&[
            b"HPEXPIREAT",
            key,
            &time,
            b"FIELDS",
            b"1",
            &field,
        ]))?;
    }
    Ok(())
}

/// Its entry was deleted.
const DELETED: i64 = 1;
/// Its fields are those of the first one.
const SAME_FIELDS: i64 = 2;

/// The entries that one listpack of a stream holds.
fn entries(first: (u64, u64), all: Vec<Vec<u8>>, key: &[u8], tell: &mut Tell) -> Got {
    let mut all = all.into_iter();
    let mut next = || match all.next() {
        Some(element) => Ok(element),
        None => broken("a part of a stream breaks off"),
    };
    let number = |text: Vec<u8>| match crate::text::parse_i64(&text) {
        Some(number) => Ok(number),
        None => broken("a number of a stream is none"),
    };
    let (living, deleted) = (number(next()?)?, number(next()?)?);
    let mut shared = Vec::new();
    for _ in 0..number(next()?)? {
        shared.push(next()?);
    }
    next()?;
    for _ in 0..living.saturating_add(deleted) {
        let flags = number(next()?)?;
        // As in Redis, differences wrap around.
        let ms = first.0.wrapping_add_signed(number(next()?)?);
        let sequence = first.1.wrapping_add_signed(number(next()?)?);
        let mut words = vec![
            b"XADD".to_vec(),
            key.to_vec(),
            format!("{ms}-{sequence}").into_bytes(),
        ];
        if flags & SAME_FIELDS != 0 {
            for field in &shared {
                words.push(field.clone());
                words.push(next()?);
            }
        } else {
            for _ in 0..number(next()?)?.saturating_mul(2) {
                words.push(next()?);
            }
        }
        next()?;
        if flags & DELETED == 0 {
            tell(&words)?;
        }
    }
    Ok(())
}

fn id(from: &mut Source) -> Got<(u64, u64)> {
    Ok((from.length()?, from.length()?))
}

fn said((ms, sequence): (u64, u64)) -> Vec<u8> {
    format!("{ms}-{sequence}").into_bytes()
}

fn raw_id(from: &mut Source) -> Got<Vec<u8>> {
    let (ms, sequence) = (
        u64::from_be_bytes(from.some()?),
        u64::from_be_bytes(from.some()?),
    );
    Ok(format!("{ms}-{sequence}").into_bytes())
}

fn stream(kind: u8, key: &[u8], from: &mut Source, tell: &mut Tell) -> Got {
    for _ in 0..from.length()? {
        let first = from.text()?;
        let Some((ms, sequence)) = first.split_first_chunk::<8>() else {
            return broken("a part of a stream has no number");
        };
        let Ok(sequence) = <[u8; 8]>::try_from(sequence) else {
            return broken("a part of a stream has no number");
        };
        let first = (u64::from_be_bytes(*ms), u64::from_be_bytes(sequence));
        let all = packed::listpack(&from.text()?)?;
        entries(first, all, key, tell)?;
    }
    let living = from.length()?;
    let last = id(from)?;
    let (mut deleted, mut added) = ((0, 0), living);
    if kind != kind::STREAM_1 {
        id(from)?;
        deleted = id(from)?;
        added = from.length()?;
    }
    if living == 0 {
        // It is made, and its only entry goes at once.
        tell(&words(&[b"XADD", key, b"MAXLEN", b"0", b"0-1", b"", b""]))?;
    }
    let added = added.to_string();
    tell(&words(&[
        b"XSETID",
        key,
        &said(last.max(deleted)),
        b"ENTRIESADDED",
        added.as_bytes(),
        b"MAXDELETEDID",
        &said(deleted),
    ]))?;
    if last < deleted {
        // XSETID takes both at once only the other way round.
        tell(&words(&[b"XSETID", key, &said(last)]))?;
    }
    for _ in 0..from.length()? {
        group(kind, key, from, tell)?;
    }
    Ok(())
}

fn group(kind: u8, key: &[u8], from: &mut Source, tell: &mut Tell) -> Got {
    let name = from.text()?;
    let last = said(id(from)?);
    let read = match kind {
        kind::STREAM_1 => -1,
        _ => from.length()? as i64,
    };
    let read = read.max(-1).to_string();
    tell(&words(&[
        b"XGROUP",
        b"CREATE",
        key,
        &name,
        &last,
        b"ENTRIESREAD",
        read.as_bytes(),
    ]))?;
    let mut pending = HashMap::new();
    for _ in 0..from.length()? {
        let id = raw_id(from)?;
        pending.insert(id, (from.long()?, from.length()?));
    }
    for _ in 0..from.length()? {
        let consumer = from.text()?;
        from.long()?;
        if kind == kind::STREAM_3 {
            from.long()?;
        }
        tell(&words(&[
            b"XGROUP",
            b"CREATECONSUMER",
            key,
            &name,
            &consumer,
        ]))?;
        for _ in 0..from.length()? {
            let id = raw_id(from)?;
            let Some((since, times)) = pending.remove(&id) else {
                return broken("a consumer has an entry that its group does not know");
            };
            let (since, times) = (since.to_string(), times.to_string());
            tell(&words(&[
                b"XCLAIM",
                key,
                &name,
                &consumer,
                b"0",
                &id,
                b"TIME",
                since.as_bytes(),
                b"RETRYCOUNT",
                times.as_bytes(),
                b"FORCE",
                b"JUSTID",
            ]))?;
        }
    }
    Ok(())
}
