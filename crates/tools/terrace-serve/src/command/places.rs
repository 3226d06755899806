//! Elements of lists that are looked for by what they are, and what is put in or taken out between others.

use std::ops::ControlFlow;

use super::call::Call;
use crate::stop::{Run, SYNTAX, refuse};
use crate::store::codec::{Head, Kind, position_key};
use crate::store::work::Work;

/// Tells `f` where in a list an element is, counted from its beginning, from the last one on if `reverse`, until it
/// breaks.
fn each_equal(
    work: &Work,
    head: &Head,
    wanted: &[u8],
    (reverse, most): (bool, u64),
    f: &mut dyn FnMut(u64) -> ControlFlow<()>,
) -> Run {
    let most = most.min(head.count);
    work.may_go_through(most)?;
    let (low, high) = (
        position_key(head.number, head.first),
        position_key(head.number, head.end()),
    );
    let mut seen = 0;
    work.each(&low, &high, reverse, &mut |_, value| {
        if seen == most {
            return ControlFlow::Break(());
        }
        seen += 1;
        let at = if reverse { head.count - seen } else { seen - 1 };
        match value == wanted {
            true => f(at),
            false => ControlFlow::Continue(()),
        }
    })
}

/// The elements from a place to below another, which are to be written elsewhere.
fn those(work: &Work, head: &Head, from: u64, to: u64) -> Run<Vec<Vec<u8>>> {
    let key = |at| position_key(head.number, head.first.saturating_add_unsigned(at));
    let found = work.gathered_to_store(&key(from), &key(to))?;
    Ok(found.into_iter().map(|(_, value)| value).collect())
}

/// `LREM`.
pub fn lrem(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let count = c.args.integer(2)?;
    let wanted = c.args.at(3);
    let Some(mut head) = c.work.typed(key, Kind::List)? else {
        c.out.number(0);
        return Ok(());
    };
    let most = if count == 0 {
        u64::MAX
    } else {
        count.unsigned_abs()
    };
    let mut gone = Vec::new();
    each_equal(c.work, &head, wanted, (count < 0, u64::MAX), &mut |at| {
        gone.push(at);
        match (gone.len() as u64) < most {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    if count < 0 {
        gone.reverse();
    }
    if let (Some(first), Some(last)) = (gone.first().copied(), gone.last().copied()) {
        let removed = gone.len() as u64;
        // The shorter side moves: what is before the last one that goes, or what is behind the first one.
        let before = last < head.count - first;
        let (from, to) = if before {
            (0, last + 1)
        } else {
            (first, head.count)
        };
        let mut next = gone.iter().peekable();
        let mut place = head.first.saturating_add_unsigned(from);
        if before {
            place = place.saturating_add_unsigned(removed);
        }
        for (i, value) in those(c.work, &head, from, to)?.iter().enumerate() {
            if next.next_if(|gone| **gone == from + i as u64).is_some() {
                continue;
            }
            c.work
                .put_element(position_key(head.number, place), value)?;
            place += 1;
        }
        let end = head.end();
        head.count -= removed;
        let free = match before {
            true => {
                head.first = head.first.saturating_add_unsigned(removed);
                head.first.saturating_sub_unsigned(removed)..head.first
            }
            false => head.end()..end,
        };
        for at in free {
            c.work.delete_element(position_key(head.number, at));
        }
        c.work.event(b'l', "lrem", key);
        c.work.save(key, &head)?;
    }
    c.out.count(gone.len());
    Ok(())
}

/// `LINSERT`.
pub fn linsert(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let after = match () {
        () if c.args.is(2, "BEFORE") => false,
        () if c.args.is(2, "AFTER") => true,
        () => return refuse(SYNTAX),
    };
    let Some(mut head) = c.work.typed(key, Kind::List)? else {
        c.out.number(0);
        return Ok(());
    };
    let mut found = None;
    let wanted = c.args.at(3);
    each_equal(c.work, &head, wanted, (false, u64::MAX), &mut |at| {
        found = Some(at);
        ControlFlow::Break(())
    })?;
    let Some(found) = found else {
        c.out.number(-1);
        return Ok(());
    };
    let at = found + u64::from(after);
    // The shorter side moves.
    let before = at < head.count / 2;
    let (from, to) = if before { (0, at) } else { (at, head.count) };
    let moved = those(c.work, &head, from, to)?;
    if before {
        head.first -= 1;
    }
    let place = head
        .first
        .saturating_add_unsigned(from + u64::from(!before));
    for (value, place) in moved.iter().zip(place..) {
        c.work
            .put_element(position_key(head.number, place), value)?;
    }
    head.count += 1;
    let place = position_key(head.number, head.first + at as i64);
    c.work.put_element(place, c.args.at(4))?;
    c.work.save(key, &head)?;
    c.work.event(b'l', "linsert", key);
    c.out.number(head.count as i64);
    Ok(())
}

/// `LPOS`.
pub fn lpos(c: &mut Call) -> Run {
    let (mut rank, mut count, mut most) = (1, None, u64::MAX);
    let mut i = 3;
    while i < c.args.len() {
        if i + 1 == c.args.len() {
            return refuse(SYNTAX);
        }
        let number = c.args.integer(i + 1);
        if c.args.is(i, "RANK") {
            rank = number?;
            if rank == 0 {
                return refuse(
                    "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start from the end of the list",
                );
            }
            if rank == i64::MIN {
                return refuse(
                    "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807",
                );
            }
        } else if c.args.is(i, "COUNT") {
            match number.ok().filter(|n| *n >= 0) {
                Some(number) => count = Some(number as u64),
                None => return refuse("ERR COUNT can't be negative"),
            }
        } else if c.args.is(i, "MAXLEN") {
            match number.ok().filter(|n| *n >= 0) {
                Some(0) => {}
                Some(number) => most = number as u64,
                None => return refuse("ERR MAXLEN can't be negative"),
            }
        } else {
            return refuse(SYNTAX);
        }
        i += 2;
    }
    let wanted = c.args.at(2);
    let Some(head) = c.work.typed(c.args.at(1), Kind::List)? else {
        match count {
            Some(_) => c.out.array(0),
            None => c.out.null(),
        }
        return Ok(());
    };
    let mut found = Vec::new();
    let mut skip = rank.unsigned_abs() - 1;
    let enough = match count {
        None => 1,
        Some(0) => u64::MAX,
        Some(count) => count,
    };
    each_equal(c.work, &head, wanted, (rank < 0, most), &mut |at| {
        if skip > 0 {
            skip -= 1;
            return ControlFlow::Continue(());
        }
        found.push(at);
        match (found.len() as u64) < enough {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    })?;
    match count {
        Some(_) => {
            c.out.array(found.len());
            found.iter().for_each(|at| c.out.number(*at as i64));
        }
        None => match found.first() {
            Some(at) => c.out.number(*at as i64),
            None => c.out.null(),
        },
    }
    Ok(())
}
