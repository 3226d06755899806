//! Strings.

use super::args::{integer, part};
use super::call::Call;
use crate::stop::{NOT_FLOAT, Run, SYNTAX, Stop, WRONG_TYPE, refuse};
use crate::store::codec::{Head, Kind, LATEST};
use crate::text;

/// `GET`.
pub fn get(c: &mut Call) -> Run {
    match c.work.typed(c.args.at(1), Kind::Text)? {
        Some(_) => c.out.bulk(c.work.text()),
        None => c.out.null(),
    }
    Ok(())
}

/// When something expires, as an option and its number say it.
pub fn expiry(now: u64, option: &str, number: i64, command: &str) -> Run<u64> {
    let invalid = || Stop::Reply(format!("ERR invalid expire time in '{command}' command").into());
    if number <= 0 {
        return Err(invalid());
    }
    let time = match option {
        "EX" => number
            .checked_mul(1000)
            .and_then(|n| n.checked_add_unsigned(now)),
        "PX" => number.checked_add_unsigned(now),
        "EXAT" => number.checked_mul(1000),
        _ => Some(number),
    };
    match time {
        Some(time) if time as u64 <= LATEST => Ok(time as u64),
        _ => Err(invalid()),
    }
}

/// `SET`.
pub fn set(c: &mut Call) -> Run {
    let (key, value) = (c.args.at(1), c.args.at(2));
    if c.args.len() == 3 {
        c.work.put_text_over(key, None, value)?;
        c.work.event(b'$', "set", key);
        c.out.ok();
        return Ok(());
    }
    let (mut expires, mut keeps, mut get, mut only_new, mut only_old) =
        (None, false, false, false, false);
    let mut i = 3;
    while i < c.args.len() {
        if c.args.is(i, "NX") && !only_old {
            only_new = true;
        } else if c.args.is(i, "XX") && !only_new {
            only_old = true;
        } else if c.args.is(i, "GET") {
            get = true;
        } else if c.args.is(i, "KEEPTTL") && expires.is_none() {
            keeps = true;
        } else {
            let option = ["EX", "PX", "EXAT", "PXAT"];
            let Some(option) = option.into_iter().find(|o| c.args.is(i, o)) else {
                return refuse(SYNTAX);
            };
            if expires.is_some() || keeps || i + 1 == c.args.len() {
                return refuse(SYNTAX);
            }
            i += 1;
            expires = Some((option, i));
        }
        i += 1;
    }
    let expires = match expires {
        Some((option, i)) => Some(expiry(c.work.now, option, c.args.integer(i)?, "set")?),
        None => None,
    };
    if !get && !keeps && !only_new && !only_old {
        c.work.put_text_over(key, expires, value)?;
    } else {
        let old = c.work.head(key)?;
        if get {
            match old {
                Some(old) if old.kind != Kind::Text => return refuse(WRONG_TYPE),
                Some(_) => c.out.bulk(c.work.text()),
                None => c.out.null(),
            }
        }
        if (only_new && old.is_some()) || (only_old && old.is_none()) {
            if !get {
                c.out.null();
            }
            return Ok(());
        }
        let expires = match keeps {
            true => old.and_then(|old| old.expires),
            false => expires,
        };
        if old.is_none_or(|old| old.kind != Kind::Text) {
            c.work.remove(key)?;
        }
        c.work.put_text(key, expires, value)?;
    }
    c.work.event(b'$', "set", key);
    if expires.is_some() {
        c.work.event(b'g', "expire", key);
    }
    if !get {
        c.out.ok();
    }
    if expires.is_some_and(|at| at <= c.work.now) {
        c.work.remove(key)?;
    }
    Ok(())
}

/// `SETNX`.
pub fn setnx(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let there = c.work.head(key)?.is_some();
    if !there {
        c.work.remove(key)?;
        c.work.put_text(key, None, c.args.at(2))?;
        c.work.event(b'$', "set", key);
    }
    c.out.number(i64::from(!there));
    Ok(())
}

fn set_expiring(c: &mut Call, option: &str, command: &str) -> Run {
    let key = c.args.at(1);
    let expires = expiry(c.work.now, option, c.args.integer(2)?, command)?;
    c.work.put_text_over(key, Some(expires), c.args.at(3))?;
    c.work.event(b'$', "set", key);
    c.work.event(b'g', "expire", key);
    c.out.ok();
    Ok(())
}

/// `SETEX`.
pub fn setex(c: &mut Call) -> Run {
    set_expiring(c, "EX", "setex")
}

/// `PSETEX`.
pub fn psetex(c: &mut Call) -> Run {
    set_expiring(c, "PX", "psetex")
}

/// `GETDEL`.
pub fn getdel(c: &mut Call) -> Run {
    let key = c.args.at(1);
    get(c)?;
    if c.work.remove(key)? {
        c.work.event(b'g', "del", key);
    }
    Ok(())
}

/// `GETSET`.
pub fn getset(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let (text, head) = text_or_empty(c, key)?;
    c.out.bulk_or_null(head.map(|_| text));
    c.work.put_text(key, None, c.args.at(2))?;
    c.work.event(b'$', "set", key);
    Ok(())
}

/// `GETEX`.
pub fn getex(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let mut expires = None;
    let mut persists = false;
    let mut i = 2;
    while i < c.args.len() {
        let option = ["EX", "PX", "EXAT", "PXAT"];
        if c.args.is(i, "PERSIST") && expires.is_none() && !persists {
            persists = true;
        } else if let Some(option) = option.into_iter().find(|o| c.args.is(i, o))
            && expires.is_none()
            && !persists
            && i + 1 < c.args.len()
        {
            i += 1;
            expires = Some((option, i));
        } else {
            return refuse(SYNTAX);
        }
        i += 1;
    }
    let Some(head) = c.work.typed(key, Kind::Text)? else {
        c.out.null();
        return Ok(());
    };
    let expires = match expires {
        Some((option, i)) => Some(expiry(c.work.now, option, c.args.integer(i)?, "getex")?),
        None => None,
    };
    c.out.bulk(c.work.text());
    match expires {
        Some(at) if at <= c.work.now => {
            c.work.remove(key)?;
            c.work.event(b'g', "del", key);
        }
        Some(at) => {
            c.work.set_expiry(key, &head, Some(at))?;
            c.work.event(b'g', "expire", key);
        }
        None if persists && head.expires.is_some() => {
            c.work.set_expiry(key, &head, None)?;
            c.work.event(b'g', "persist", key);
        }
        None => {}
    }
    Ok(())
}

/// `MGET`.
pub fn mget(c: &mut Call) -> Run {
    c.out.array(c.args.len() - 1);
    for key in c.args.from(1) {
        match c.work.head(key)? {
            Some(head) if head.kind == Kind::Text => c.out.bulk(c.work.text()),
            _ => c.out.null(),
        }
    }
    Ok(())
}

fn pairs(c: &Call, name: &str) -> Run {
    match c.args.len() % 2 {
        1 => Ok(()),
        _ => refuse(format!(
            "ERR wrong number of arguments for '{name}' command"
        )),
    }
}

fn set_pairs(c: &mut Call) -> Run {
    for i in (1..c.args.len()).step_by(2) {
        let key = c.args.at(i);
        c.work.put_text_over(key, None, c.args.at(i + 1))?;
        c.work.event(b'$', "set", key);
    }
    Ok(())
}

/// `MSET`.
pub fn mset(c: &mut Call) -> Run {
    pairs(c, "mset")?;
    set_pairs(c)?;
    c.out.ok();
    Ok(())
}

/// `MSETNX`.
pub fn msetnx(c: &mut Call) -> Run {
    pairs(c, "msetnx")?;
    for i in (1..c.args.len()).step_by(2) {
        if c.work.head(c.args.at(i))?.is_some() {
            c.out.number(0);
            return Ok(());
        }
    }
    set_pairs(c)?;
    c.out.number(1);
    Ok(())
}

/// `STRLEN`.
pub fn strlen(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Text)?;
    c.out.count(head.map_or(0, |_| c.work.text().len()));
    Ok(())
}

/// What a string holds, and when it expires; nothing if there is none.
pub fn text_or_empty(c: &mut Call, key: &[u8]) -> Run<(Vec<u8>, Option<Head>)> {
    let head = c.work.typed(key, Kind::Text)?;
    let text = head.map_or_else(Vec::new, |_| c.work.text().to_vec());
    if head.is_none() {
        // An expired collection may be in its place.
        c.work.remove(key)?;
    }
    Ok((text, head))
}

/// Refuses a string that would be longer than values may be.
pub fn check_length(c: &Call, length: usize) -> Run {
    match length > c.host.options.max_value {
        true => refuse("ERR string exceeds maximum allowed size (proto-max-bulk-len)"),
        false => Ok(()),
    }
}

/// `APPEND`.
pub fn append(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let (mut text, head) = text_or_empty(c, key)?;
    check_length(c, text.len() + c.args.at(2).len())?;
    text.extend_from_slice(c.args.at(2));
    c.work.put_text(key, head.and_then(|h| h.expires), &text)?;
    c.work.event(b'$', "append", key);
    c.out.count(text.len());
    Ok(())
}

/// `GETRANGE`, `SUBSTR`.
pub fn getrange(c: &mut Call) -> Run {
    let (start, stop) = (c.args.integer(2)?, c.args.integer(3)?);
    if c.work.typed(c.args.at(1), Kind::Text)?.is_none() {
        c.out.bulk(b"");
        return Ok(());
    }
    let text = c.work.text();
    // As Redis: both before the beginning is nothing, also where one is before the other.
    if start < 0 && stop < 0 && start > stop {
        c.out.bulk(b"");
        return Ok(());
    }
    let length = i64::try_from(text.len()).unwrap_or(i64::MAX);
    let stop = if stop < 0 {
        (stop.saturating_add(length)).max(0)
    } else {
        stop
    };
    let (from, count) = part(text.len() as u64, start, stop);
    c.out.bulk(&text[from as usize..(from + count) as usize]);
    Ok(())
}

/// `SETRANGE`.
pub fn setrange(c: &mut Call) -> Run {
    let (key, value) = (c.args.at(1), c.args.at(3));
    let offset = c.args.integer(2)?;
    let Ok(offset) = usize::try_from(offset) else {
        return refuse("ERR offset is out of range");
    };
    let (mut text, head) = text_or_empty(c, key)?;
    if value.is_empty() {
        c.out.count(text.len());
        return Ok(());
    }
    check_length(c, offset.saturating_add(value.len()))?;
    if text.len() < offset + value.len() {
        text.resize(offset + value.len(), 0);
    }
    text[offset..offset + value.len()].copy_from_slice(value);
    c.work.put_text(key, head.and_then(|h| h.expires), &text)?;
    c.work.event(b'$', "setrange", key);
    c.out.count(text.len());
    Ok(())
}

fn add(c: &mut Call, by: i64) -> Run {
    let key = c.args.at(1);
    let head = c.work.typed(key, Kind::Text)?;
    let old = match head {
        Some(_) => integer(c.work.text())?,
        None => 0,
    };
    let Some(new) = old.checked_add(by) else {
        return refuse("ERR increment or decrement would overflow");
    };
    if head.is_none() {
        c.work.remove(key)?;
    }
    let expires = head.and_then(|head| head.expires);
    c.work.put_text(key, expires, new.to_string().as_bytes())?;
    c.work.event(b'$', "incrby", key);
    c.out.number(new);
    Ok(())
}

/// `INCR`.
pub fn incr(c: &mut Call) -> Run {
    add(c, 1)
}

/// `DECR`.
pub fn decr(c: &mut Call) -> Run {
    add(c, -1)
}

/// `INCRBY`.
pub fn incrby(c: &mut Call) -> Run {
    add(c, c.args.integer(2)?)
}

/// `DECRBY`.
pub fn decrby(c: &mut Call) -> Run {
    match c.args.integer(2)?.checked_neg() {
        Some(by) => add(c, by),
        None => refuse("ERR decrement would overflow"),
    }
}

/// `INCRBYFLOAT`.
pub fn incrbyfloat(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let head = c.work.typed(key, Kind::Text)?;
    let old = match head {
        Some(_) => c.work.text().to_vec(),
        None => b"0".to_vec(),
    };
    for number in [&old, c.args.at(2)] {
        if text::parse_f64_loosely(number).is_none() {
            return refuse(NOT_FLOAT);
        }
    }
    let Some(new) = text::add_decimals(&old, c.args.at(2)) else {
        return refuse("ERR increment would produce NaN or Infinity");
    };
    if head.is_none() {
        c.work.remove(key)?;
    }
    c.work
        .put_text(key, head.and_then(|h| h.expires), new.as_bytes())?;
    c.work.event(b'$', "incrbyfloat", key);
    c.out.bulk(new);
    Ok(())
}

/// `LCS`.
pub fn lcs(c: &mut Call) -> Run {
    let (mut wants_length, mut wants_places, mut least, mut with_length) = (false, false, 0, false);
    let mut i = 3;
    while i < c.args.len() {
        if c.args.is(i, "LEN") {
            wants_length = true;
        } else if c.args.is(i, "IDX") {
            wants_places = true;
        } else if c.args.is(i, "WITHMATCHLEN") {
            with_length = true;
        } else if c.args.is(i, "MINMATCHLEN") && i + 1 < c.args.len() {
            i += 1;
            least = c.args.integer(i)?.max(0) as usize;
        } else {
            return refuse(SYNTAX);
        }
        i += 1;
    }
    if wants_length && wants_places {
        return refuse("ERR If you want both the length and indexes, please just use IDX.");
    }
    let mut texts = [Vec::new(), Vec::new()];
    for (text, i) in texts.iter_mut().zip(1..) {
        match c.work.head(c.args.at(i))? {
            Some(head) if head.kind != Kind::Text => {
                return refuse("ERR The specified keys must contain string values");
            }
            Some(_) => *text = c.work.text().to_vec(),
            None => {}
        }
    }
    let [a, b] = &texts;
    // The table takes four bytes for each pair of bytes.
    const MOST: usize = 64 << 20;
    if a.len().saturating_mul(b.len()) > MOST / 4 {
        return refuse(
            "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len",
        );
    }
    let width = b.len() + 1;
    let mut table = vec![0u32; (a.len() + 1) * width];
    for i in 1..=a.len() {
        for j in 1..=b.len() {
            table[i * width + j] = match a[i - 1] == b[j - 1] {
                true => table[(i - 1) * width + j - 1] + 1,
                false => table[(i - 1) * width + j].max(table[i * width + j - 1]),
            };
        }
    }
    let length = table[a.len() * width + b.len()];
    if wants_length {
        c.out.number(length.into());
        return Ok(());
    }
    let (mut i, mut j) = (a.len(), b.len());
    let mut common = Vec::new();
    // From the last match to the first: the ends of each in both.
    let mut matches: Vec<(usize, usize, usize)> = Vec::new();
    let mut run = 0;
    while i > 0 && j > 0 {
        if a[i - 1] == b[j - 1] {
            common.push(a[i - 1]);
            run += 1;
            (i, j) = (i - 1, j - 1);
            if run > 0 && (i == 0 || j == 0 || a[i - 1] != b[j - 1]) {
                matches.push((i, j, run));
                run = 0;
            }
        } else if table[(i - 1) * width + j] > table[i * width + j - 1] {
            i -= 1;
        } else {
            j -= 1;
        }
    }
    if !wants_places {
        common.reverse();
        c.out.bulk(common);
        return Ok(());
    }
    matches.retain(|(_, _, run)| *run >= least.max(1));
    c.out.map(2);
    c.out.bulk("matches");
    c.out.array(matches.len());
    for (i, j, run) in matches {
        c.out.array(2 + usize::from(with_length));
        for start in [i, j] {
            c.out.array(2);
            c.out.count(start);
            c.out.count(start + run - 1);
        }
        if with_length {
            c.out.count(run);
        }
    }
    c.out.bulk("len");
    c.out.number(length.into());
    Ok(())
}
