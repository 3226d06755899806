//! `SORT`: elements in an order of their own, or of keys that they name.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use super::call::Call;
use super::hashes::field_key;
use crate::stop::{Run, SYNTAX, TOO_LARGE, WRONG_TYPE, refuse};
use crate::store::codec::{Head, Kind, field_in, fields, position_key, score_in, scores};
use crate::text::parse_f64;

/// Bytes that an element takes beside its own.
const BESIDE: usize = 48;

/// What is asked for.
#[derive(Default)]
struct Asked {
    by: Option<Vec<u8>>,
    limit: Option<(i64, i64)>,
    get: Vec<Vec<u8>>,
    descending: bool,
    alpha: bool,
    store: Option<Vec<u8>>,
}

fn asked(c: &Call, stores: bool) -> Run<Asked> {
    let mut asked = Asked::default();
    let mut i = 2;
    while i < c.args.len() {
        let left = c.args.len() - i - 1;
        match () {
            () if c.args.is(i, "ASC") => asked.descending = false,
            () if c.args.is(i, "DESC") => asked.descending = true,
            () if c.args.is(i, "ALPHA") => asked.alpha = true,
            () if left >= 2 && c.args.is(i, "LIMIT") => {
                asked.limit = Some((c.args.integer(i + 1)?, c.args.integer(i + 2)?));
                i += 2;
            }
            () if stores && left >= 1 && c.args.is(i, "STORE") => {
                asked.store = Some(c.args.at(i + 1).to_vec());
                i += 1;
            }
            () if left >= 1 && c.args.is(i, "BY") => {
                asked.by = Some(c.args.at(i + 1).to_vec());
                i += 1;
            }
            () if left >= 1 && c.args.is(i, "GET") => {
                asked.get.push(c.args.at(i + 1).to_vec());
                i += 1;
            }
            () => return refuse(SYNTAX),
        }
        i += 1;
    }
    Ok(asked)
}

/// The elements of a list, a set or a sorted set.
fn elements(c: &Call, head: &Head) -> Run<Vec<Vec<u8>>> {
    let (low, high) = match head.kind {
        Kind::List => (
            position_key(head.number, head.first),
            position_key(head.number, head.end()),
        ),
        Kind::Set => fields(head.number, 0),
        Kind::Sorted => scores(head.number),
        _ => return refuse(WRONG_TYPE),
    };
    c.work.may_go_through(head.count)?;
    let (mut all, mut bytes) = (Vec::new(), 0);
    c.work.each(&low, &high, false, &mut |key, value| {
        let element = match head.kind {
            Kind::List => value,
            Kind::Set => field_in(key),
            _ => score_in(key).1,
        };
        bytes += element.len() + BESIDE;
        all.push(element.to_vec());
        match bytes <= c.work.most_stored() {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    match bytes <= c.work.most_stored() {
        true => Ok(all),
        false => refuse(TOO_LARGE),
    }
}

/// What a pattern names for an element: the value of a key, or of a field of a hash. `#` is the element itself.
fn named(c: &mut Call, pattern: &[u8], element: &[u8]) -> Run<Option<Vec<u8>>> {
    if pattern == b"#" {
        return Ok(Some(element.to_vec()));
    }
    let Some(star) = pattern.iter().position(|b| *b == b'*') else {
        return Ok(None);
    };
    let mut arrows = pattern.windows(2).enumerate().skip(star);
    let arrow = arrows.find(|(_, two)| two == b"->").map(|(at, _)| at);
    let arrow = arrow.filter(|at| at + 2 < pattern.len());
    let (name, field) = match arrow {
        Some(at) => (&pattern[..at], Some(&pattern[at + 2..])),
        None => (pattern, None),
    };
    let key = [&name[..star], element, &name[star + 1..]].concat();
    let head = c.work.head(&key)?;
    match (head, field) {
        (Some(head), None) if head.kind == Kind::Text => Ok(Some(c.work.text().to_vec())),
        (Some(head), Some(field)) if head.kind == Kind::Hash => {
            c.work.element(&field_key(c.work, &head, field))
        }
        _ => Ok(None),
    }
}

/// `SORT_RO`; it is alone, for it reads keys that cannot be known before.
pub fn sort_ro(c: &mut Call) -> Run {
    sorted(c, false)
}

/// `SORT`; it is alone too.
pub fn sort(c: &mut Call) -> Run {
    sorted(c, true)
}

fn sorted(c: &mut Call, stores: bool) -> Run {
    let mut asked = asked(c, stores)?;
    let head = c.work.head(c.args.at(1))?;
    let constant = asked.by.as_ref().is_some_and(|by| !by.contains(&b'*'));
    if constant && asked.store.is_some() && head.is_some_and(|h| h.kind == Kind::Set) {
        // A set has no order that could be left as it is: what is stored has to be the same each time.
        (asked.by, asked.alpha) = (None, true);
    }
    let all = match &head {
        Some(head) => elements(c, head)?,
        None => Vec::new(),
    };
    // A pattern without a star names nothing: the order is left as it is.
    let orders = asked.by.as_ref().is_none_or(|by| by.contains(&b'*'));
    let most_bytes = match asked.store {
        Some(_) => c.work.most_stored(),
        None => c.work.most,
    };
    let (mut keyed, mut bytes) = (Vec::with_capacity(all.len()), 0);
    for element in all {
        let weight = match &asked.by {
            Some(by) if by.contains(&b'*') => named(c, by, &element)?,
            _ => Some(element.clone()),
        };
        let number = match (&weight, asked.alpha || !orders) {
            // As Redis, nothing at all is zero.
            (Some(weight), false) if weight.is_empty() => 0.0,
            (Some(weight), false) => match parse_f64(weight) {
                Some(number) => number,
                None => return refuse("ERR One or more scores can't be converted into double"),
            },
            _ => 0.0,
        };
        bytes += element.len() + weight.as_ref().map_or(0, Vec::len) + BESIDE;
        if bytes > most_bytes {
            return refuse(TOO_LARGE);
        }
        keyed.push((number, weight, element));
    }
    if orders {
        keyed.sort_by(|a, b| {
            let order = match asked.alpha {
                true => a.1.cmp(&b.1),
                false => a.0.total_cmp(&b.0),
            };
            let order = order.then_with(|| match asked.by {
                Some(_) if asked.alpha => Ordering::Equal,
                _ => a.2.cmp(&b.2),
            });
            if asked.descending {
                order.reverse()
            } else {
                order
            }
        });
    } else if asked.descending && head.is_some_and(|h| h.kind == Kind::Sorted) {
        keyed.reverse();
    }
    let (skip, most) = match asked.limit {
        Some((skip, most)) => (
            usize::try_from(skip).unwrap_or(0),
            usize::try_from(most).unwrap_or(usize::MAX),
        ),
        None => (0, usize::MAX),
    };
    let (mut found, mut bytes) = (Vec::new(), 0);
    for (_, _, element) in keyed.into_iter().skip(skip).take(most) {
        if asked.get.is_empty() {
            found.push(Some(element));
            continue;
        }
        for pattern in &asked.get {
            let one = named(c, pattern, &element)?;
            bytes += one.as_ref().map_or(0, Vec::len) + BESIDE;
            if bytes > most_bytes {
                return refuse(TOO_LARGE);
            }
            found.push(one);
        }
    }
    let Some(to) = &asked.store else {
        c.out.array(found.len());
        found
            .iter()
            .for_each(|one| c.out.bulk_or_null(one.as_ref()));
        return Ok(());
    };
    if found.is_empty() {
        if c.work.remove(to)? {
            c.work.event(b'g', "del", to);
        }
    } else {
        let mut head = c.work.make_anew(to, Kind::List)?;
        for one in &found {
            let key = position_key(head.number, head.end());
            c.work
                .put_element(key, one.as_deref().unwrap_or_default())?;
            head.count += 1;
        }
        c.work.save(to, &head)?;
        c.work.event(b'l', "sortstore", to);
    }
    c.out.count(found.len());
    Ok(())
}
