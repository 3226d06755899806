//! Bits of strings.

use super::args::part;
use super::call::Call;
use super::strings::{check_length, text_or_empty};
use crate::stop::{Run, SYNTAX, Stop, refuse};
use crate::store::codec::Kind;

/// Strings have at most this many bits.
const MOST_BITS: u64 = 1 << 32;
/// Bytes that are put together on an event loop: what takes more takes long.
const LARGE: usize = 1 << 20;

fn offset(c: &Call, i: usize) -> Run<u64> {
    match crate::text::parse_u64(c.args.at(i)).filter(|at| *at < MOST_BITS) {
        Some(at) => Ok(at),
        None => refuse("ERR bit offset is not an integer or out of range"),
    }
}

/// `GETBIT`.
pub fn getbit(c: &mut Call) -> Run {
    let at = offset(c, 2)?;
    let there = c.work.typed(c.args.at(1), Kind::Text)?.is_some();
    let text = if there { c.work.text() } else { &[] };
    let byte = text.get((at / 8) as usize).copied().unwrap_or(0);
    let bit = byte >> (7 - at % 8) & 1;
    c.out.number(i64::from(bit));
    Ok(())
}

/// `SETBIT`.
pub fn setbit(c: &mut Call) -> Run {
    let at = offset(c, 2)?;
    let bit = match c.args.at(3) {
        b"0" => 0,
        b"1" => 1,
        _ => return refuse("ERR bit is not an integer or out of range"),
    };
    let key = c.args.at(1);
    let (mut text, head) = text_or_empty(c, key)?;
    let (byte, shift) = ((at / 8) as usize, 7 - at % 8);
    check_length(c, byte + 1)?;
    if text.len() <= byte {
        text.resize(byte + 1, 0);
    }
    let old = text[byte] >> shift & 1;
    text[byte] = text[byte] & !(1 << shift) | bit << shift;
    c.work.put_text(key, head.and_then(|h| h.expires), &text)?;
    c.work.event(b'$', "setbit", key);
    c.out.number(i64::from(old));
    Ok(())
}

/// Whether places are of bits; of bytes if nothing is said.
fn in_bits(c: &Call, i: usize) -> Run<bool> {
    match () {
        () if c.args.len() <= i || c.args.is(i, "BYTE") => Ok(false),
        () if c.args.is(i, "BIT") => Ok(true),
        () => refuse(SYNTAX),
    }
}

fn bit(text: &[u8], at: u64) -> bool {
    let byte = text.get((at / 8) as usize).copied().unwrap_or(0);
    byte >> (7 - at % 8) & 1 == 1
}

/// `BITCOUNT`.
pub fn bitcount(c: &mut Call) -> Run {
    // As Redis, what is not there is not looked at closer.
    if c.work.typed(c.args.at(1), Kind::Text)?.is_none() {
        c.out.number(0);
        return Ok(());
    }
    let range = match c.args.len() {
        2 => None,
        4 | 5 => Some((c.args.integer(2)?, c.args.integer(3)?, in_bits(c, 4)?)),
        _ => return refuse(SYNTAX),
    };
    let text = c.work.text();
    let (from, count) = match range {
        None => (0, text.len() as u64 * 8),
        Some((start, stop, _)) if start < 0 && stop < 0 && start > stop => (0, 0),
        Some((start, stop, bits)) => {
            let unit = if bits { 1 } else { 8 };
            let length = text.len() as u64 * 8 / unit;
            let stop = if stop < 0 {
                (stop.saturating_add(length as i64)).max(0)
            } else {
                stop
            };
            let (from, count) = part(length, start, stop);
            (from * unit, count * unit)
        }
    };
    let mut sum = 0u64;
    let mut at = from;
    while at < from + count {
        if at % 8 == 0 && at + 8 <= from + count {
            sum += u64::from(text[(at / 8) as usize].count_ones());
            at += 8;
        } else {
            sum += u64::from(bit(text, at));
            at += 1;
        }
    }
    c.out.number(sum as i64);
    Ok(())
}

/// `BITPOS`.
pub fn bitpos(c: &mut Call) -> Run {
    let wanted = match crate::text::parse_i64(c.args.at(2)) {
        Some(0) => false,
        Some(1) => true,
        Some(_) => return refuse("ERR The bit argument must be 1 or 0."),
        None => return refuse(crate::stop::NOT_INTEGER),
    };
    if c.args.len() > 6 {
        return refuse(SYNTAX);
    }
    let start = if c.args.len() > 3 {
        c.args.integer(3)?
    } else {
        0
    };
    let stop = if c.args.len() > 4 {
        Some(c.args.integer(4)?)
    } else {
        None
    };
    let bits = in_bits(c, 5)?;
    if c.work.typed(c.args.at(1), Kind::Text)?.is_none() {
        // A string that is not there is one of zeros without end.
        c.out.number(if wanted { -1 } else { 0 });
        return Ok(());
    }
    let text = c.work.text();
    let unit = if bits { 1 } else { 8 };
    let length = text.len() as u64 * 8 / unit;
    let last = match stop {
        Some(stop) if stop < 0 => (stop.saturating_add(length as i64)).max(0),
        Some(stop) => stop,
        None => -1,
    };
    let (from, count) = part(length, start, last);
    if count == 0 {
        c.out.number(-1);
        return Ok(());
    }
    let end = (from + count) * unit;
    let mut at = from * unit;
    let skip = if wanted { 0 } else { 0xFF };
    while at < end {
        if at % 8 == 0 && at + 8 <= end && text[(at / 8) as usize] == skip {
            at += 8;
            continue;
        }
        if bit(text, at) == wanted {
            c.out.number(at as i64);
            return Ok(());
        }
        at += 1;
    }
    // Behind a string without end said there are zeros.
    let answer = match !wanted && stop.is_none() {
        true => end as i64,
        false => -1,
    };
    c.out.number(answer);
    Ok(())
}

/// `BITOP`.
pub fn bitop(c: &mut Call) -> Run {
    let known = ["AND", "OR", "XOR", "NOT"];
    let Some(operation) = known.into_iter().find(|o| c.args.is(1, o)) else {
        return refuse(SYNTAX);
    };
    if operation == "NOT" && c.args.len() != 4 {
        return refuse("ERR BITOP NOT must be called with a single source key.");
    }
    let (mut result, mut read) = (Vec::new(), 0);
    for (nth, key) in c.args.from(3).enumerate() {
        let there = c.work.typed(key, Kind::Text)?.is_some();
        let text = if there { c.work.text() } else { &[] };
        read += text.len();
        if read > LARGE && !c.work.waits {
            return Err(Stop::Miss);
        }
        if nth == 0 {
            result = text.to_vec();
            continue;
        }
        // Behind the end of each of them are zeros.
        result.resize(result.len().max(text.len()), 0);
        let (both, rest) = result.split_at_mut(text.len());
        for (a, b) in both.iter_mut().zip(text) {
            *a = match operation {
                "AND" => *a & b,
                "OR" => *a | b,
                _ => *a ^ b,
            };
        }
        if operation == "AND" {
            rest.fill(0);
        }
    }
    if operation == "NOT" {
        result.iter_mut().for_each(|byte| *byte = !*byte);
    }
    let to = c.args.at(2);
    if c.work.remove(to)? && result.is_empty() {
        c.work.event(b'g', "del", to);
    }
    if !result.is_empty() {
        c.work.put_text(to, None, &result)?;
        c.work.event(b'$', "set", to);
    }
    c.out.count(result.len());
    Ok(())
}
