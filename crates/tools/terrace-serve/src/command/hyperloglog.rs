//! HyperLogLog: about how many different things there are, in twelve kilobytes.
//!
//! Source: "HyperLogLog: the analysis of a near-optimal cardinality estimation algorithm" (Flajolet and others),
//! estimated as in "New cardinality estimation algorithms for HyperLogLog sketches" (Ertl), hashed by MurmurHash64A:
//! as in Redis, whose estimates are the same. It is stored with a byte for each register; what Redis has written is read too.

use super::call::Call;
use crate::stop::{Run, refuse};
use crate::store::codec::Kind;

/// Bits of a hash that choose a register.
const CHOOSE: u32 = 14;
/// Registers.
const REGISTERS: usize = 1 << CHOOSE;
/// Bits of a hash that are counted.
const COUNTED: u32 = 64 - CHOOSE;
/// What a string begins with that holds registers.
const MAGIC: &[u8] = b"HYLT";
/// What one of Redis begins with: then come how it is written, three bytes, and an estimate of eight bytes.
const REDIS: &[u8] = b"HYLL";
/// Bytes of Redis' before the registers.
const HEADER: usize = 16;
/// Bits of a register in Redis.
const BITS: usize = 6;
const BROKEN: &str = "INVALIDOBJ Corrupted HLL object detected";
const WRONG: &str = "WRONGTYPE Key is not a valid HyperLogLog string value.";
/// The seed of the hash in Redis.
const SEED: u64 = 0xadc8_3b19;

fn hash(bytes: &[u8]) -> u64 {
    const M: u64 = 0xc6a4_a793_5bd1_e995;
    let mut h = SEED ^ (bytes.len() as u64).wrapping_mul(M);
    let mix = |k: u64| {
        let k = k.wrapping_mul(M);
        (k ^ (k >> 47)).wrapping_mul(M)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        h = (h ^ mix(u64::from_le_bytes(*word))).wrapping_mul(M);
    }
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        h = (h ^ u64::from_le_bytes(word)).wrapping_mul(M);
    }
    h = (h ^ (h >> 47)).wrapping_mul(M);
    h ^ (h >> 47)
}

/// The register of an element, and what it says for it.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = hash(element);
    let register = hash as usize & (REGISTERS - 1);
    let rest = hash >> CHOOSE | 1 << COUNTED;
    (register, rest.trailing_zeros() as u8 + 1)
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut y, mut z) = (1.0, x);
    loop {
        x *= x;
        let before = z;
        z += x * y;
        y += y;
        if before == z {
            return z;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut y, mut z) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = z;
        y *= 0.5;
        z -= (1.0 - x) * (1.0 - x) * y;
        if before == z {
            return z / 3.0;
        }
    }
}

fn estimate(registers: &[u8]) -> u64 {
    let mut how_many = [0u32; 64];
    for register in registers {
        how_many[usize::from(*register).min(63)] += 1;
    }
    let m = REGISTERS as f64;
    let q = COUNTED as usize;
    let mut z = m * tau((m - f64::from(how_many[q + 1])) / m);
    for count in how_many[1..=q].iter().rev() {
        z = 0.5 * (z + f64::from(*count));
    }
    z += m * sigma(f64::from(how_many[0]) / m);
    // Half of one over the logarithm of 2.
    let alpha = 0.721_347_520_444_481_7;
    (alpha * m * m / z).round() as u64
}

/// The registers at a key; none if there is no key.
fn load(c: &mut Call, key: &[u8]) -> Run<Option<Vec<u8>>> {
    if c.work.typed(key, Kind::Text)?.is_none() {
        return Ok(None);
    }
    let text = c.work.text();
    let registers = match text.strip_prefix(MAGIC) {
        Some(registers) => Some(registers.to_vec()),
        None if !text.starts_with(REDIS) || text.len() < HEADER => None,
        None => match text[4] {
            0 => dense(&text[HEADER..]),
            1 => match sparse(&text[HEADER..]) {
                Some(registers) => Some(registers),
                None => return refuse(BROKEN),
            },
            _ => None,
        },
    };
    match registers {
        Some(registers) if registers.len() == REGISTERS => Ok(Some(registers)),
        _ => refuse(WRONG),
    }
}

/// The registers as Redis writes many of them: six bits each, the lowest first.
fn dense(bytes: &[u8]) -> Option<Vec<u8>> {
    if bytes.len() != REGISTERS * BITS / 8 {
        return None;
    }
    let register = |i: usize| {
        let (at, shift) = (i * BITS / 8, i * BITS % 8);
        let next = bytes.get(at + 1).copied().unwrap_or(0);
        let both = u16::from_le_bytes([bytes[at], next]) >> shift;
        both as u8 & ((1 << BITS) - 1)
    };
    Some((0..REGISTERS).map(register).collect())
}

/// The registers as Redis writes few of them: runs of the same one.
fn sparse(mut bytes: &[u8]) -> Option<Vec<u8>> {
    let mut registers = Vec::with_capacity(REGISTERS);
    while let Some((first, mut rest)) = bytes.split_first() {
        let (value, run) = match first >> 6 {
            0 => (0, usize::from(first & 0x3F) + 1),
            1 => {
                let (second, behind) = rest.split_first()?;
                rest = behind;
                (
                    0,
                    (usize::from(first & 0x3F) << 8 | usize::from(*second)) + 1,
                )
            }
            _ => ((first >> 2 & 0x1F) + 1, usize::from(first & 3) + 1),
        };
        if registers.len() + run > REGISTERS {
            return None;
        }
        registers.resize(registers.len() + run, value);
        bytes = rest;
    }
    (registers.len() == REGISTERS).then_some(registers)
}

fn save(c: &mut Call, key: &[u8], registers: &[u8]) -> Run {
    let expires = c.work.head(key)?.and_then(|head| head.expires);
    if expires.is_none() {
        c.work.remove(key)?;
    }
    let text = [MAGIC, registers].concat();
    c.work.put_text(key, expires, &text)
}

/// `PFADD`.
pub fn pfadd(c: &mut Call) -> Run {
    let key = c.args.at(1);
    let old = load(c, key)?;
    let mut changed = old.is_none();
    let mut registers = old.unwrap_or_else(|| vec![0; REGISTERS]);
    for element in c.args.from(2) {
        let (register, says) = place(element);
        if registers[register] < says {
            registers[register] = says;
            changed = true;
        }
    }
    if changed {
        save(c, key, &registers)?;
        c.work.event(b'$', "pfadd", key);
    }
    c.out.number(i64::from(changed));
    Ok(())
}

fn merged(c: &mut Call, first: usize) -> Run<Vec<u8>> {
    let mut all = vec![0; REGISTERS];
    let keys: Vec<&[u8]> = c.args.from(first).collect();
    for key in keys {
        if let Some(registers) = load(c, key)? {
            for (one, other) in all.iter_mut().zip(registers) {
                *one = other.max(*one);
            }
        }
    }
    Ok(all)
}

/// `PFCOUNT`.
pub fn pfcount(c: &mut Call) -> Run {
    let all = merged(c, 1)?;
    c.out.number(estimate(&all) as i64);
    Ok(())
}

/// `PFMERGE`.
pub fn pfmerge(c: &mut Call) -> Run {
    let all = merged(c, 1)?;
    save(c, c.args.at(1), &all)?;
    c.work.event(b'$', "pfadd", c.args.at(1));
    c.out.ok();
    Ok(())
}
