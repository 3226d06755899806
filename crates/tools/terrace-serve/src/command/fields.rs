//! `BITFIELD`: numbers of any width within a string.

use super::call::Call;
use super::strings::{check_length, text_or_empty};
use crate::stop::{Run, SYNTAX, Stop, refuse};
use crate::store::codec::Kind;
use crate::text::{parse_i64, parse_u64};

/// What happens when a number does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Overflow {
    Wrap,
    Saturate,
    Fail,
}

/// A number in a string: how wide it is, whether it has a sign, and where it is.
#[derive(Clone, Copy, Debug)]
struct Field {
    signed: bool,
    bits: u32,
    at: u64,
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Get(Field),
    Set(Field, i64),
    Add(Field, i64, Overflow),
}

fn field(kind: &[u8], at: &[u8]) -> Run<Field> {
    let invalid = || {
        Stop::Reply(
            "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.".into(),
        )
    };
    let (&sign, bits) = kind.split_first().ok_or_else(invalid)?;
    let signed = sign.eq_ignore_ascii_case(&b'i');
    let most = if signed { 64 } else { 63 };
    if !signed && !sign.eq_ignore_ascii_case(&b'u') {
        return Err(invalid());
    }
    let bits = parse_u64(bits).filter(|bits| (1..=most).contains(bits));
    let bits = bits.ok_or_else(invalid)? as u32;
    let (at, unit) = match at.strip_prefix(b"#") {
        Some(rest) => (rest, u64::from(bits)),
        None => (at, 1),
    };
    let at = parse_u64(at).and_then(|at| at.checked_mul(unit));
    match at.filter(|at| *at < 1 << 32) {
        Some(at) => Ok(Field { signed, bits, at }),
        None => refuse("ERR bit offset is not an integer or out of range"),
    }
}

impl Field {
    fn end(&self) -> u64 {
        self.at + u64::from(self.bits)
    }

    fn get(&self, text: &[u8]) -> i64 {
        let mut number: u64 = 0;
        for at in self.at..self.end() {
            let byte = text.get((at / 8) as usize).copied().unwrap_or(0);
            number = number << 1 | u64::from(byte >> (7 - at % 8) & 1);
        }
        let shift = 64 - self.bits;
        match self.signed {
            true => (number << shift) as i64 >> shift,
            false => number as i64,
        }
    }

    fn set(&self, text: &mut Vec<u8>, number: i64) {
        let bytes = self.end().div_ceil(8) as usize;
        if text.len() < bytes {
            text.resize(bytes, 0);
        }
        for (nth, at) in (self.at..self.end()).enumerate() {
            let bit = (number as u64 >> (self.bits - 1 - nth as u32) & 1) as u8;
            let (byte, shift) = ((at / 8) as usize, 7 - at % 8);
            text[byte] = text[byte] & !(1 << shift) | bit << shift;
        }
    }

    /// A number as it fits; none if it does not and must.
    fn fit(&self, number: i128, overflow: Overflow) -> Option<i64> {
        let (low, high) = match self.signed {
            true => (-(1i128 << (self.bits - 1)), (1i128 << (self.bits - 1)) - 1),
            false => (0, (1i128 << self.bits) - 1),
        };
        if (low..=high).contains(&number) {
            return Some(number as i64);
        }
        match overflow {
            Overflow::Fail => None,
            Overflow::Saturate => Some(number.clamp(low, high) as i64),
            Overflow::Wrap => {
                let wrapped = number.rem_euclid(1i128 << self.bits);
                let above = wrapped > high;
                Some((wrapped - if above { 1i128 << self.bits } else { 0 }) as i64)
            }
        }
    }
}

fn steps(c: &Call, only_read: bool) -> Run<Vec<(Step, Overflow)>> {
    let (mut steps, mut overflow) = (Vec::new(), Overflow::Wrap);
    let mut i = 2;
    while i < c.args.len() {
        let left = c.args.len() - i - 1;
        if c.args.is(i, "GET") && left >= 2 {
            steps.push((
                Step::Get(field(c.args.at(i + 1), c.args.at(i + 2))?),
                overflow,
            ));
            i += 3;
        } else if c.args.is(i, "OVERFLOW") && left >= 1 {
            overflow = match () {
                () if c.args.is(i + 1, "WRAP") => Overflow::Wrap,
                () if c.args.is(i + 1, "SAT") => Overflow::Saturate,
                () if c.args.is(i + 1, "FAIL") => Overflow::Fail,
                () => return refuse("ERR Invalid OVERFLOW type specified"),
            };
            i += 2;
        } else if (c.args.is(i, "SET") || c.args.is(i, "INCRBY")) && left >= 3 {
            if only_read {
                return refuse("ERR BITFIELD_RO only supports the GET subcommand");
            }
            let field = field(c.args.at(i + 1), c.args.at(i + 2))?;
            let Some(number) = parse_i64(c.args.at(i + 3)) else {
                return refuse(crate::stop::NOT_INTEGER);
            };
            let step = match c.args.is(i, "SET") {
                true => Step::Set(field, number),
                false => Step::Add(field, number, overflow),
            };
            steps.push((step, overflow));
            i += 4;
        } else {
            return refuse(SYNTAX);
        }
    }
    Ok(steps)
}

/// `BITFIELD_RO`.
pub fn bitfield_ro(c: &mut Call) -> Run {
    run(c, true)
}

/// `BITFIELD`.
pub fn bitfield(c: &mut Call) -> Run {
    run(c, false)
}

fn run(c: &mut Call, only_read: bool) -> Run {
    let steps = steps(c, only_read)?;
    let key = c.args.at(1);
    let reads = steps.iter().all(|(step, _)| matches!(step, Step::Get(_)));
    let (mut text, head) = match reads {
        true => {
            let head = c.work.typed(key, Kind::Text)?;
            (head.map_or_else(Vec::new, |_| c.work.text().to_vec()), head)
        }
        false => text_or_empty(c, key)?,
    };
    let longest = steps.iter().map(|(step, _)| match step {
        Step::Get(_) => 0,
        Step::Set(field, _) | Step::Add(field, ..) => field.end().div_ceil(8),
    });
    let longest = longest.max().unwrap_or(0);
    check_length(c, longest as usize)?;
    // As Redis, the string is as long as it may become, whether or not a number fits.
    let mut changed = false;
    if !reads && (text.len() as u64) < longest {
        text.resize(longest as usize, 0);
        changed = true;
    }
    c.out.array(steps.len());
    for (step, overflow) in steps {
        match step {
            Step::Get(field) => c.out.number(field.get(&text)),
            Step::Set(field, number) => {
                let old = field.get(&text);
                // As Redis: without a sign, one below zero is one too large.
                let number = match field.signed {
                    true => number.into(),
                    false => i128::from(number as u64),
                };
                match field.fit(number, overflow) {
                    Some(new) => {
                        field.set(&mut text, new);
                        c.out.number(old);
                        changed = true;
                    }
                    None => c.out.null(),
                }
            }
            Step::Add(field, by, overflow) => {
                let sum = i128::from(field.get(&text)) + i128::from(by);
                match field.fit(sum, overflow) {
                    Some(new) => {
                        field.set(&mut text, new);
                        c.out.number(new);
                        changed = true;
                    }
                    None => c.out.null(),
                }
            }
        }
    }
    if changed {
        c.work.put_text(key, head.and_then(|h| h.expires), &text)?;
        c.work.event(b'$', "setbit", key);
    }
    Ok(())
}
