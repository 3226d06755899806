//! Entries that come, are asked for, and go.

use super::id::Id;
use super::records::{STEP, State, encode_fields, entries, entry_key, write_entry};
use crate::command::call::Call;
use crate::stop::{NO_KEY, Run, SYNTAX, refuse};
use crate::store::codec::{Head, Kind};
use crate::store::work::Work;
use crate::text::parse_i64;

/// How a stream is made shorter.
#[derive(Clone, Copy, Debug)]
enum Trim {
    /// To this many entries.
    Length(u64),
    /// To those from a number on.
    From(Id),
}

/// Reads `MAXLEN|MINID [=|~] threshold [LIMIT count]` from an argument on; and the first behind it.
fn trim_at(c: &Call, mut i: usize) -> Run<(Trim, usize)> {
    let by_length = c.args.is(i, "MAXLEN");
    i += 1;
    let mut about = false;
    if c.args.is(i, "~") || c.args.is(i, "=") {
        about = c.args.is(i, "~");
        i += 1;
    }
    if i >= c.args.len() {
        return refuse(SYNTAX);
    }
    let trim = match by_length {
        true => match c.args.integer(i)? {
            length if length < 0 => return refuse("ERR The MAXLEN argument must be >= 0."),
            length => Trim::Length(length as u64),
        },
        false => Trim::From(Id::parse(c.args.at(i), 0)?),
    };
    i += 1;
    if c.args.is(i, "LIMIT") && i + 1 < c.args.len() {
        if c.args.integer(i + 1)? < 0 {
            return refuse("ERR The LIMIT argument must be >= 0.");
        }
        if !about {
            return refuse("ERR syntax error, LIMIT cannot be used without the special ~ option");
        }
        i += 2;
    }
    Ok((trim, i))
}

/// Makes a stream shorter, in steps; how many entries went. That leaves no gap, so it is no deletion.
fn trim(work: &mut Work, key: &[u8], head: &mut Head, state: &State, trim: Trim) -> Run<u64> {
    let (to, most) = match trim {
        Trim::Length(length) => (Id::MAX, head.count.saturating_sub(length)),
        Trim::From(id) => match id.previous() {
            Some(to) => (to, u64::MAX),
            None => return Ok(0),
        },
    };
    let (mut low, mut high) = (entry_key(head, Id::MIN), entry_key(head, to));
    high.push(0);
    let mut gone = 0;
    while gone < most {
        let together = usize::try_from(most - gone).unwrap_or(usize::MAX).min(STEP);
        let (some, more) = work.step(&low, &high, together)?;
        let Some(last) = some.last() else { break };
        low = last.clone();
        gone += some.len() as u64;
        head.count = head.count.saturating_sub(some.len() as u64);
        some.into_iter().for_each(|key| work.delete_element(key));
        if !more {
            break;
        }
        state.save(work, head)?;
        work.step_done(key, head)?;
    }
    Ok(gone)
}

/// `XADD`.
pub fn xadd(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let (mut makes, mut shorter, mut i) = (true, None, 2);
    while i < c.args.len() {
        if c.args.is(i, "NOMKSTREAM") {
            makes = false;
            i += 1;
        } else if c.args.is(i, "MAXLEN") || c.args.is(i, "MINID") {
            let (trim, next) = trim_at(c, i)?;
            (shorter, i) = (Some(trim), next);
        } else {
            break;
        }
    }
    let said = c.args.at(i);
    let fields = c.args.len().saturating_sub(i + 1);
    let (ms_only, wanted) = match said {
        b"*" => (None, None),
        _ => match said.strip_suffix(b"-*") {
            Some(ms) => (Some(Id::parse(ms, 0)?.0), None),
            None => (None, Some(Id::parse(said, 0)?)),
        },
    };
    if fields == 0 || !fields.is_multiple_of(2) {
        return refuse("ERR wrong number of arguments for 'xadd' command");
    }
    if wanted == Some(Id::MIN) {
        return refuse("ERR The ID specified in XADD must be greater than 0-0");
    }
    let head = match makes {
        true => Some(c.work.typed_or_new(key, Kind::Stream)?),
        false => c.work.typed(key, Kind::Stream)?,
    };
    let Some(mut head) = head else {
        c.out.null();
        return Ok(());
    };
    let mut state = State::load(c.work, &head)?;
    let smaller =
        "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    let id = match (wanted, ms_only) {
        (Some(id), _) => id,
        (None, Some(ms)) if ms > state.last.0 => Id(ms, u64::from(ms == 0)),
        (None, Some(ms)) if ms == state.last.0 => match state.last.1.checked_add(1) {
            Some(sequence) => Id(ms, sequence),
            None => return refuse(smaller),
        },
        (None, Some(_)) => return refuse(smaller),
        (None, None) if c.work.now > state.last.0 => Id(c.work.now, 0),
        (None, None) => match state.last.next() {
            Some(id) => id,
            None => {
                return refuse(
                    "ERR The stream has exhausted the last possible ID, unable to add more items",
                );
            }
        },
    };
    if id <= state.last {
        return refuse(smaller);
    }
    let value = encode_fields(c.args.from(i + 1));
    c.work.put_element(entry_key(&head, id), &value)?;
    head.count += 1;
    (state.last, state.added) = (id, state.added + 1);
    c.work.event(b't', "xadd", key);
    if let Some(shorter) = shorter
        && trim(c.work, key, &mut head, &state, shorter)? > 0
    {
        c.work.event(b't', "xtrim", key);
    }
    state.save(c.work, &head)?;
    c.work.put_head(key, &head)?;
    c.out.bulk(id.to_string());
    Ok(())
}

/// `XLEN`.
pub fn xlen(c: &mut Call) -> Run {
    crate::command::hashes::count(c, Kind::Stream)
}

fn range(c: &mut Call, reverse: bool) -> Run {
    let (low, high) = if reverse { (3, 2) } else { (2, 3) };
    let (from, to) = (
        Id::bound(c.args.at(low), true)?,
        Id::bound(c.args.at(high), false)?,
    );
    let mut most = None;
    let mut i = 4;
    while i < c.args.len() {
        if !c.args.is(i, "COUNT") || i + 1 == c.args.len() {
            return refuse(SYNTAX);
        }
        most = Some(c.args.integer(i + 1)?.max(0) as usize);
        i += 2;
    }
    let head = c.work.typed(c.args.at(1), Kind::Stream)?;
    let Some(head) = head else {
        c.out.array(0);
        return Ok(());
    };
    if most == Some(0) {
        c.out.null_array();
        return Ok(());
    }
    let found = match from <= to {
        true => entries(c.work, &head, from, to, reverse, most.unwrap_or(usize::MAX))?,
        false => Vec::new(),
    };
    c.out.array(found.len());
    for (id, fields) in &found {
        write_entry(c.out, *id, fields);
    }
    Ok(())
}

/// `XRANGE`.
pub fn xrange(c: &mut Call) -> Run {
    range(c, false)
}

/// `XREVRANGE`.
pub fn xrevrange(c: &mut Call) -> Run {
    range(c, true)
}

/// `XDEL`.
pub fn xdel(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let mut ids = Vec::new();
    for text in c.args.from(2) {
        ids.push(Id::parse(text, 0)?);
    }
    let Some(mut head) = c.work.typed(key, Kind::Stream)? else {
        c.out.number(0);
        return Ok(());
    };
    let mut state = State::load(c.work, &head)?;
    let mut removed = 0;
    for id in ids {
        let entry = entry_key(&head, id);
        if c.work.element(&entry)?.is_some() {
            c.work.delete_element(entry);
            state.deleted = state.deleted.max(id);
            head.count -= 1;
            removed += 1;
        }
    }
    if removed > 0 {
        state.save(c.work, &head)?;
        c.work.put_head(key, &head)?;
        c.work.event(b't', "xdel", key);
    }
    c.out.number(removed);
    Ok(())
}

/// `XTRIM`.
pub fn xtrim(c: &mut Call) -> Run {
    if !c.args.is(2, "MAXLEN") && !c.args.is(2, "MINID") {
        return refuse(SYNTAX);
    }
    let (shorter, next) = trim_at(c, 2)?;
    if next != c.args.len() {
        return refuse(SYNTAX);
    }
    let key = c.args.at(1);
    let Some(mut head) = c.work.typed(key, Kind::Stream)? else {
        c.out.number(0);
        return Ok(());
    };
    let state = State::load(c.work, &head)?;
    let gone = trim(c.work, key, &mut head, &state, shorter)?;
    if gone > 0 {
        state.save(c.work, &head)?;
        c.work.put_head(key, &head)?;
        c.work.event(b't', "xtrim", key);
    }
    c.out.number(gone as i64);
    Ok(())
}

/// `XSETID`.
pub fn xsetid(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let id = Id::parse(c.args.at(2), 0)?;
    let (mut added, mut deleted, mut i) = (None, None, 3);
    while i < c.args.len() {
        if c.args.is(i, "ENTRIESADDED") && i + 1 < c.args.len() {
            match parse_i64(c.args.at(i + 1)) {
                Some(number) if number >= 0 => added = Some(number as u64),
                _ => return refuse("ERR entries_added must be positive"),
            }
        } else if c.args.is(i, "MAXDELETEDID") && i + 1 < c.args.len() {
            deleted = Some(Id::parse(c.args.at(i + 1), 0)?);
        } else {
            return refuse(SYNTAX);
        }
        i += 2;
    }
    // What was not deleted yet is none: it stays as it is.
    let deleted = deleted.filter(|deleted| *deleted != Id::MIN);
    if deleted.is_some_and(|deleted| id < deleted) {
        return refuse(
            "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id",
        );
    }
    let Some(head) = c.work.typed(key, Kind::Stream)? else {
        return refuse(NO_KEY);
    };
    let mut state = State::load(c.work, &head)?;
    let top = entries(c.work, &head, Id::MIN, Id::MAX, true, 1)?;
    if top.first().is_some_and(|(top, _)| id < *top) {
        return refuse("ERR The ID specified in XSETID is smaller than the target stream top item");
    }
    if added.is_some_and(|added| added < head.count) {
        return refuse(
            "ERR The entries_added specified in XSETID is smaller than the target stream length",
        );
    }
    state.last = id;
    state.added = added.unwrap_or(state.added);
    state.deleted = deleted.unwrap_or(state.deleted);
    state.save(c.work, &head)?;
    c.work.event(b't', "xsetid", key);
    c.out.ok();
    Ok(())
}
