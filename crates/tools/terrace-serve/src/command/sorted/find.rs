//! What is in a sorted set.

use super::add::score;
use super::range::{Members, Part, RangeLimit, each, members};
use crate::command::call::Call;
use crate::command::hashes::{random_count, random_element, random_elements};
use crate::proto::reply::Reply;
use crate::stop::{Run, SYNTAX, refuse};
use crate::store::codec::{Kind, field_in, score_of};

/// `ZSCORE`.
pub fn zscore(c: &mut Call) -> Run {
    let found = match c.work.typed(c.args.at(1), Kind::Sorted)? {
        Some(head) => score(c.work, &head, c.args.at(2))?,
        None => None,
    };
    match found {
        Some(score) => c.out.double(score),
        None => c.out.null(),
    }
    Ok(())
}

/// `ZMSCORE`.
pub fn zmscore(c: &mut Call) -> Run {
    let head = c.work.typed(c.args.at(1), Kind::Sorted)?;
    c.out.array(c.args.len() - 2);
    for member in c.args.from(2) {
        let found = match &head {
            Some(head) => score(c.work, head, member)?,
            None => None,
        };
        match found {
            Some(score) => c.out.double(score),
            None => c.out.null(),
        }
    }
    Ok(())
}

fn rank(c: &mut Call, reverse: bool) -> Run {
    let Some(head) = c.work.typed(c.args.at(1), Kind::Sorted)? else {
        c.out.null();
        return Ok(());
    };
    let member = c.args.at(2);
    let Some(own) = score(c.work, &head, member)? else {
        c.out.null();
        return Ok(());
    };
    // Those before it are counted.
    let part = match reverse {
        false => Part::Score((f64::NEG_INFINITY, false), (own, false)),
        true => Part::Score((own, false), (f64::INFINITY, false)),
    };
    let mut before = 0;
    each(
        c.work,
        &head,
        &part,
        RangeLimit::ALL,
        &mut |other, score| {
            let is_before = match reverse {
                false => score < own || other < member,
                true => score > own || other > member,
            };
            before += i64::from(is_before);
        },
    )?;
    c.out.number(before);
    Ok(())
}

/// `ZRANK`.
pub fn zrank(c: &mut Call) -> Run {
    rank(c, false)
}

/// `ZREVRANK`.
pub fn zrevrank(c: &mut Call) -> Run {
    rank(c, true)
}

fn counted(c: &mut Call, part: &Part) -> Run {
    let mut many = 0;
    if let Some(head) = c.work.typed(c.args.at(1), Kind::Sorted)? {
        each(c.work, &head, part, RangeLimit::ALL, &mut |_, _| many += 1)?;
    }
    c.out.number(many);
    Ok(())
}

/// `ZCOUNT`.
pub fn zcount(c: &mut Call) -> Run {
    let part = Part::by_score(&c.args, 2, 3)?;
    counted(c, &part)
}

/// `ZLEXCOUNT`.
pub fn zlexcount(c: &mut Call) -> Run {
    let part = Part::by_lex(&c.args, 2, 3)?;
    counted(c, &part)
}

/// Writes members as an array, of pairs in the third version of the protocol.
pub fn write_members(out: &mut Reply, found: &Members, with_scores: bool) {
    match with_scores && !out.third {
        true => out.array(found.len() * 2),
        false => out.array(found.len()),
    }
    for (member, score) in found {
        if with_scores && out.third {
            out.array(2);
        }
        out.bulk(member);
        if with_scores {
            out.double(*score);
        }
    }
}

/// By what a range is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum By {
    Any,
    Rank,
    Score,
    Lex,
}

/// A range that arguments ask for.
struct Asked {
    part: Part,
    limit: RangeLimit,
    with_scores: bool,
}

/// Reads `key start stop [options]` with the key at `at`.
fn asked(c: &Call, at: usize, mut by: By, mut reverse: bool, stores: bool) -> Run<Asked> {
    let fixed = by != By::Any;
    let (mut with_scores, mut limit) = (false, None);
    let mut i = at + 3;
    while i < c.args.len() {
        match () {
            () if c.args.is(i, "WITHSCORES") && !stores => with_scores = true,
            () if c.args.is(i, "LIMIT") && i + 2 < c.args.len() => {
                limit = Some((c.args.integer(i + 1)?, c.args.integer(i + 2)?));
                i += 2;
            }
            () if !fixed && c.args.is(i, "REV") => reverse = true,
            () if !fixed && c.args.is(i, "BYSCORE") => by = By::Score,
            () if !fixed && c.args.is(i, "BYLEX") => by = By::Lex,
            () => return refuse(SYNTAX),
        }
        i += 1;
    }
    if by == By::Any {
        by = By::Rank;
    }
    if limit.is_some() && by == By::Rank {
        return refuse(
            "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX",
        );
    }
    if with_scores && by == By::Lex {
        return refuse("ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    }
    // Reversed, the highest comes first.
    let (low, high) = match reverse {
        true => (at + 2, at + 1),
        false => (at + 1, at + 2),
    };
    let part = match by {
        By::Score => Part::by_score(&c.args, low, high)?,
        By::Lex => Part::by_lex(&c.args, low, high)?,
        _ => Part::by_rank(&c.args, at + 1)?,
    };
    let (offset, most) = limit.unwrap_or((0, -1));
    let limit = RangeLimit {
        reverse,
        offset: u64::try_from(offset).unwrap_or(u64::MAX),
        most: u64::try_from(most).unwrap_or(u64::MAX),
    };
    Ok(Asked {
        part,
        limit,
        with_scores,
    })
}

fn range(c: &mut Call, by: By, reverse: bool) -> Run {
    let asked = asked(c, 1, by, reverse, false)?;
    let found = match c.work.typed(c.args.at(1), Kind::Sorted)? {
        Some(head) => members(c.work, &head, &asked.part, asked.limit, c.work.most)?,
        None => Members::new(),
    };
    write_members(c.out, &found, asked.with_scores);
    Ok(())
}

/// `ZRANGE`.
pub fn zrange(c: &mut Call) -> Run {
    range(c, By::Any, false)
}

/// `ZREVRANGE`.
pub fn zrevrange(c: &mut Call) -> Run {
    range(c, By::Rank, true)
}

/// `ZRANGEBYSCORE`.
pub fn zrangebyscore(c: &mut Call) -> Run {
    range(c, By::Score, false)
}

/// `ZREVRANGEBYSCORE`.
pub fn zrevrangebyscore(c: &mut Call) -> Run {
    range(c, By::Score, true)
}

/// `ZRANGEBYLEX`.
pub fn zrangebylex(c: &mut Call) -> Run {
    range(c, By::Lex, false)
}

/// `ZREVRANGEBYLEX`.
pub fn zrevrangebylex(c: &mut Call) -> Run {
    range(c, By::Lex, true)
}

/// `ZRANGESTORE`.
pub fn zrangestore(c: &mut Call) -> Run {
    let asked = asked(c, 2, By::Any, false, true)?;
    let found = match c.work.typed(c.args.at(2), Kind::Sorted)? {
        Some(head) => members(c.work, &head, &asked.part, asked.limit, usize::MAX)?,
        None => Members::new(),
    };
    store_members(c, c.args.at(1), &found, "zrangestore")
}

/// Stores members as the sorted set at a key, whatever was there, and answers how many there are.
pub fn store_members(c: &mut Call, key: &[u8], found: &Members, event: &'static str) -> Run {
    if found.is_empty() {
        if c.work.remove(key)? {
            c.work.event(b'g', "del", key);
        }
    } else {
        let mut head = c.work.make_anew(key, Kind::Sorted)?;
        for (i, (member, score)) in found.iter().enumerate() {
            super::add::put_member(c.work, &mut head, member, None, *score)?;
            if i % 1024 == 1023 {
                c.work.relieve()?;
            }
        }
        c.work.save(key, &head)?;
        c.work.event(b'z', event, key);
    }
    c.out.count(found.len());
    Ok(())
}

/// `ZRANDMEMBER`.
pub fn zrandmember(c: &mut Call) -> Run {
    if c.args.len() == 2 {
        let found = match c.work.typed(c.args.at(1), Kind::Sorted)? {
            Some(head) => random_element(c.work, &head)?,
            None => None,
        };
        c.out
            .bulk_or_null(found.map(|(key, _)| field_in(&key).to_vec()));
        return Ok(());
    }
    let count = random_count(&c.args, 2)?;
    let with_scores = c.args.is(3, "WITHSCORES");
    if c.args.len() > 4 || (c.args.len() == 4 && !with_scores) {
        return refuse(SYNTAX);
    }
    let found = match c.work.typed(c.args.at(1), Kind::Sorted)? {
        Some(head) => random_elements(c.work, &head, count)?,
        None => Vec::new(),
    };
    let found = found.iter();
    let found = found.map(|(key, value)| (field_in(key).to_vec(), score_of(value)));
    write_members(c.out, &found.collect(), with_scores);
    Ok(())
}
