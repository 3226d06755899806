//! Going through keys and elements in steps, with cursors that need no state.
//!
//! Invariant: a cursor is the hash to go on with, and all that has one hash comes out in one step; so what is there
//! all the while comes out, whatever comes and goes, over restarts too.

use std::collections::HashMap;
use std::ops::ControlFlow;

use super::call::Call;
use crate::glob;
use crate::planted::{Fault, planted};
use crate::stop::{NOT_INTEGER, Run, SYNTAX, Stop, refuse};
use crate::store::codec::{self, Head, Kind};
use crate::text::{format_f64, parse_i64, parse_u64};

/// What the options of a step say.
struct Options<'a> {
    pattern: Option<&'a [u8]>,
    count: usize,
    kind: Option<&'a [u8]>,
}

fn options<'a>(c: &Call<'a>, first: usize, with_type: bool) -> Run<Options<'a>> {
    let mut options = Options {
        pattern: None,
        count: 10,
        kind: None,
    };
    let mut i = first;
    while i < c.args.len() {
        if i + 1 == c.args.len() {
            return refuse(SYNTAX);
        }
        let value = c.args.at(i + 1);
        if c.args.is(i, "COUNT") {
            let count = parse_i64(value).ok_or(Stop::Reply(NOT_INTEGER.into()))?;
            if count < 1 {
                return refuse(SYNTAX);
            }
            // More at a time is what KEYS is for.
            options.count = usize::try_from(count).unwrap_or(usize::MAX).min(1 << 20);
        } else if c.args.is(i, "MATCH") {
            options.pattern = Some(value);
        } else if with_type && c.args.is(i, "TYPE") {
            options.kind = Some(value);
        } else {
            return refuse(SYNTAX);
        }
        i += 2;
    }
    Ok(options)
}

fn cursor(bytes: &[u8]) -> Run<u64> {
    parse_u64(bytes).ok_or(Stop::Reply("ERR invalid cursor".into()))
}

fn fits(pattern: Option<&[u8]>, text: &[u8]) -> bool {
    pattern.is_none_or(|pattern| glob::fits(pattern, text))
}

/// The cursor that goes on with a hash.
fn going_on(hash: u64) -> String {
    (hash + u64::from(planted(Fault::CursorSkips))).to_string()
}

/// `SCAN`.
pub fn scan(c: &mut Call) -> Run {
    let from = cursor(c.args.at(1))?;
    let options = options(c, 2, true)?;
    let mut found = Vec::new();
    let mut next = None;
    let fits = |key: &[u8], value: &[u8]| {
        Head::decode(value).is_some_and(|(head, _)| {
            head.expires.is_none_or(|at| at > c.work.now)
                && fits(options.pattern, key)
                && options
                    .kind
                    .is_none_or(|kind| kind.eq_ignore_ascii_case(head.kind.name().as_bytes()))
        })
    };
    // What a transaction or a script has changed so far comes out at first, and again where it is, if it is there.
    let staged: HashMap<&[u8], Option<&[u8]>> = c.work.staged().collect();
    if from == 0 {
        let living = staged
            .iter()
            .filter_map(|(key, value)| value.map(|v| (key, v)));
        found.extend(
            living
                .filter(|(key, v)| fits(key, v))
                .map(|(key, _)| key.to_vec()),
        );
    }
    if let Some(table) = c.work.heads_table()
        && from < 1 << 48
    {
        if c.work.hurries && !c.work.waits {
            return Err(Stop::Miss);
        }
        let step = table.scan(from << 16, options.count)?;
        next = step.next.map(|next| next >> 16);
        for (key, value) in step.records {
            if let Some(value) = staged.get(key.as_slice()) {
                if from > 0 && value.is_some_and(|value| fits(&key, value)) {
                    found.push(key);
                }
                continue;
            }
            let value = match value {
                Some(value) => value,
                None if options
                    .pattern
                    .is_some_and(|pattern| !glob::fits(pattern, &key)) =>
                {
                    continue;
                }
                // A long one says in its first bytes what it is; it has to be read as a whole.
                None => table.get(&key)?.unwrap_or_default(),
            };
            if fits(&key, &value) {
                found.push(key);
            }
        }
    }
    c.out.array(2);
    c.out.bulk(next.map_or_else(|| "0".to_owned(), going_on));
    c.out.array(found.len());
    found.iter().for_each(|key| c.out.bulk(key));
    Ok(())
}

fn elements(c: &mut Call, kind: Kind) -> Run {
    let from = cursor(c.args.at(2))?;
    let options = options(c, 3, false)?;
    let Some(head) = c.work.typed(c.args.at(1), kind)? else {
        c.out.array(2);
        c.out.bulk("0");
        c.out.array(0);
        return Ok(());
    };
    let (mut found, mut next, mut seen, mut last) = (Vec::new(), None, 0, 0);
    if from < 1 << 48 {
        let (low, high) = codec::fields(head.number, from);
        c.work.each(&low, &high, false, &mut |key, value| {
            let hash = codec::hash_in(key);
            if seen >= options.count && hash != last {
                next = Some(hash);
                return ControlFlow::Break(());
            }
            (seen, last) = (seen + 1, hash);
            let field = codec::field_in(key);
            if fits(options.pattern, field) {
                found.push((field.to_vec(), value.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
    }
    c.out.array(2);
    c.out.bulk(next.map_or_else(|| "0".to_owned(), going_on));
    c.out
        .array(found.len() * if kind == Kind::Set { 1 } else { 2 });
    for (field, value) in found {
        c.out.bulk(field);
        match kind {
            Kind::Hash => c.out.bulk(value),
            Kind::Sorted => c.out.bulk(format_f64(codec::score_of(&value))),
            _ => {}
        }
    }
    Ok(())
}

/// `HSCAN`.
pub fn hscan(c: &mut Call) -> Run {
    elements(c, Kind::Hash)
}

/// `SSCAN`.
pub fn sscan(c: &mut Call) -> Run {
    elements(c, Kind::Set)
}

/// `ZSCAN`.
pub fn zscan(c: &mut Call) -> Run {
    elements(c, Kind::Sorted)
}
