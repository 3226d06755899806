//! What the records look like (docs/server.md has the table).
//!
//! Invariants: every decoder takes any bytes; the elements of a collection begin with its number, which is
//! never given out again.

use std::hash::Hasher;

use siphasher::sip::SipHasher13;
use terrace::encode;

pub use crate::kind::Kind;

/// Bit of the first byte that says that the time of the expiry follows.
const EXPIRES: u8 = 0x80;
/// Bit of the first byte that says that fields may expire.
const LEASES: u8 = 0x40;
/// Bytes of a time: milliseconds since 1970, for nine thousand years.
const TIME_BYTES: usize = 6;
/// The latest time that a head can hold.
pub const LATEST: u64 = (1 << (8 * TIME_BYTES)) - 1;

/// The head of a key: what it is, and of a collection where its elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// What it holds.
    pub kind: Kind,
    /// When it goes, in milliseconds since 1970.
    pub expires: Option<u64>,
    /// The number of a collection.
    pub number: u64,
    /// Elements of a collection.
    pub count: u64,
    /// Position of the first element of a list.
    pub first: i64,
    /// Whether fields of a hash may expire.
    pub leases: bool,
}

impl Head {
    /// A collection without elements.
    pub fn new(kind: Kind, number: u64) -> Head {
        Head {
            kind,
            expires: None,
            number,
            count: 0,
            first: 0,
            leases: false,
        }
    }

    /// Position behind the last element of a list.
    pub fn end(&self) -> i64 {
        self.first.saturating_add_unsigned(self.count)
    }

    /// Its bytes, to which those of a string are added.
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.clear();
        let flag = if self.expires.is_some() { EXPIRES } else { 0 };
        let leases = if self.leases { LEASES } else { 0 };
        out.push(self.kind as u8 | flag | leases);
        if let Some(time) = self.expires {
            out.extend_from_slice(&time_bytes(time));
        }
        if self.kind != Kind::Text {
            out.extend_from_slice(&self.number.to_be_bytes());
            out.extend_from_slice(&self.count.to_be_bytes());
            if self.kind == Kind::List {
                out.extend_from_slice(&self.first.to_be_bytes());
            }
        }
    }

    /// The head in these bytes, and where those of a string begin.
    pub fn decode(bytes: &[u8]) -> Option<(Head, usize)> {
        let (&first, rest) = bytes.split_first()?;
        let kind = Kind::of(first & !(EXPIRES | LEASES))?;
        let (expires, rest) = match first & EXPIRES {
            0 => (None, rest),
            _ => {
                let (time, rest) = rest.split_at_checked(TIME_BYTES)?;
                (Some(time_of(time)), rest)
            }
        };
        let mut head = Head {
            expires,
            leases: first & LEASES != 0,
            ..Head::new(kind, 0)
        };
        if kind != Kind::Text {
            let number = |at: usize| encode::to_u64(rest.get(at..at + 8)?);
            head.number = number(0)?;
            head.count = number(8)?;
            if kind == Kind::List {
                head.first = number(16)? as i64;
            }
        }
        Some((head, bytes.len() - rest.len()))
    }
}

fn time_bytes(time: u64) -> [u8; TIME_BYTES] {
    let mut bytes = [0; TIME_BYTES];
    bytes.copy_from_slice(&time.min(LATEST).to_be_bytes()[8 - TIME_BYTES..]);
    bytes
}

fn time_of(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .fold(0, |time, byte| time << 8 | u64::from(*byte))
}

/// The secret by which fields are hashed, so that no choice of fields makes a step of a scan long.
pub type Secret = [u8; 16];

/// The hash by which fields are ordered, 48 bits.
pub fn hash48(secret: &Secret, field: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write(field);
    hasher.finish() >> 16
}

/// Bytes of a field's key in front of the field.
pub const FIELD_AT: usize = 8 + 1 + 6;

fn kinded(number: u64, kind: u8, more: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + more);
    key.extend_from_slice(&number.to_be_bytes());
    key.push(kind);
    key
}

/// The key of a field of a hash, or of a member of a set.
pub fn field_key(secret: &Secret, number: u64, field: &[u8]) -> Vec<u8> {
    let mut key = kinded(number, b'h', 6 + field.len());
    key.extend_from_slice(&hash48(secret, field).to_be_bytes()[2..]);
    key.extend_from_slice(field);
    key
}

/// The range of all fields with at least this hash.
pub fn fields(number: u64, from: u64) -> (Vec<u8>, Vec<u8>) {
    let mut low = kinded(number, b'h', 6);
    low.extend_from_slice(&from.to_be_bytes()[2..]);
    (low, kinded(number, b'h' + 1, 0))
}

/// The key of a field's lease, whose value is when the field expires.
pub fn lease_key(secret: &Secret, number: u64, field: &[u8]) -> Vec<u8> {
    let mut key = kinded(number, b'e', 6 + field.len());
    key.extend_from_slice(&hash48(secret, field).to_be_bytes()[2..]);
    key.extend_from_slice(field);
    key
}

/// The value of a field's lease.
pub fn lease_bytes(time: u64) -> [u8; TIME_BYTES] {
    time_bytes(time)
}

/// When a field expires, as its lease says.
pub fn lease_of(value: &[u8]) -> u64 {
    time_of(value)
}

/// The key of a field's lease in the order of times.
pub fn lease_due_key(number: u64, time: u64, field: &[u8]) -> Vec<u8> {
    let mut key = kinded(number, b'd', TIME_BYTES + field.len());
    key.extend_from_slice(&time_bytes(time));
    key.extend_from_slice(field);
    key
}

/// The range of all fields that are due at a time, that included.
pub fn leases_until(number: u64, time: u64) -> (Vec<u8>, Vec<u8>) {
    let high = match time < LATEST {
        true => lease_due_key(number, time + 1, b""),
        false => kinded(number, b'd' + 1, 0),
    };
    (kinded(number, b'd', 0), high)
}

/// The time and the field in it.
pub fn lease_due_in(key: &[u8]) -> (u64, &[u8]) {
    (key.get(9..FIELD_AT).map_or(0, time_of), field_in(key))
}

/// The hash in the key of a field.
pub fn hash_in(key: &[u8]) -> u64 {
    key.get(9..FIELD_AT).map_or(0, time_of)
}

/// The field in its key.
pub fn field_in(key: &[u8]) -> &[u8] {
    key.get(FIELD_AT..).unwrap_or_default()
}

/// Bytes of a score's key in front of the member.
pub const MEMBER_AT: usize = 8 + 1 + 8;

/// The key of a member of a sorted set in the order of scores; with an empty member where a score begins.
pub fn score_key(number: u64, score: f64, member: &[u8]) -> Vec<u8> {
    let mut key = kinded(number, b's', 8 + member.len());
    // Both zeros are the same score.
    key.extend_from_slice(&encode::f64(score + 0.0));
    key.extend_from_slice(member);
    key
}

/// Where all scores begin, and where they end.
pub fn scores(number: u64) -> (Vec<u8>, Vec<u8>) {
    (kinded(number, b's', 0), kinded(number, b's' + 1, 0))
}

/// Score and member in a key.
pub fn score_in(key: &[u8]) -> (f64, &[u8]) {
    let score = key.get(9..MEMBER_AT).and_then(encode::to_f64);
    (
        score.unwrap_or(0.0),
        key.get(MEMBER_AT..).unwrap_or_default(),
    )
}

/// The bytes of a score as a value.
pub fn score_bytes(score: f64) -> [u8; 8] {
    encode::f64(score + 0.0)
}

/// The score in a value.
pub fn score_of(value: &[u8]) -> f64 {
    encode::to_f64(value).unwrap_or(0.0)
}

/// The key of an element of a list.
pub fn position_key(number: u64, position: i64) -> Vec<u8> {
    let mut key = kinded(number, b'l', 8);
    key.extend_from_slice(&encode::i64(position));
    key
}

/// The key of a record of a stream, whose kind is a letter of its own.
pub fn stream_key(number: u64, kind: u8, rest: &[u8]) -> Vec<u8> {
    let mut key = kinded(number, kind, rest.len());
    key.extend_from_slice(rest);
    key
}

/// The record that says whose number it is.
pub fn owner_key(number: u64) -> Vec<u8> {
    kinded(number, 0, 0)
}

/// Who owns a number: the structure of its head, and the key.
pub fn owner(heads: u32, key: &[u8]) -> Vec<u8> {
    let mut value = heads.to_be_bytes().to_vec();
    value.extend_from_slice(key);
    value
}

/// Structure and key of an owner.
pub fn owner_of(value: &[u8]) -> Option<(u32, &[u8])> {
    let (heads, key) = value.split_at_checked(4)?;
    Some((encode::to_u32(heads)?, key))
}

/// All that belongs to a number.
pub fn all_of(number: u64) -> (Vec<u8>, Vec<u8>) {
    let past = number.saturating_add(1);
    (number.to_be_bytes().to_vec(), past.to_be_bytes().to_vec())
}

/// Where all numbers end, and what belongs to the server itself begins: they stay below it for ever.
pub const NUMBERS_END: &[u8] = b"a";

/// The record that says that a number has no key any more.
pub fn garbage_key(number: u64) -> Vec<u8> {
    let mut key = b"g".to_vec();
    key.extend_from_slice(&number.to_be_bytes());
    key
}

/// The number in it.
pub fn garbage_in(key: &[u8]) -> Option<u64> {
    encode::to_u64(key.get(1..)?)
}

/// The record that says that a key is due at a time; its value is as of [`owner`].
pub fn due_key(secret: &Secret, time: u64, heads: u32, key: &[u8]) -> Vec<u8> {
    let mut hasher = SipHasher13::new_with_key(secret);
    hasher.write(key);
    let mut due = b"q".to_vec();
    due.extend_from_slice(&time_bytes(time));
    due.extend_from_slice(&heads.to_be_bytes());
    due.extend_from_slice(&hasher.finish().to_be_bytes());
    due
}

/// Everything that is due up to a time, that included.
pub fn due_until(time: u64) -> (Vec<u8>, Vec<u8>) {
    let mut high = b"q".to_vec();
    high.extend_from_slice(&time_bytes(time.saturating_add(1)));
    (b"q".to_vec(), high)
}

/// The time in it.
pub fn due_in(key: &[u8]) -> u64 {
    key.get(1..1 + TIME_BYTES).map_or(0, time_of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_come_back_and_any_bytes_are_taken() {
        let mut bytes = Vec::new();
        for kind in 1..=6 {
            for expires in [None, Some(0), Some(LATEST)] {
                let kind = Kind::of(kind).unwrap();
                let head = Head {
                    kind,
                    expires,
                    number: if kind == Kind::Text { 0 } else { 7 },
                    count: if kind == Kind::Text { 0 } else { u64::MAX },
                    first: if kind == Kind::List { -3 } else { 0 },
                    leases: kind == Kind::Hash,
                };
                head.encode(&mut bytes);
                bytes.extend_from_slice(b"text");
                let (again, at) = Head::decode(&bytes).unwrap();
                assert_eq!(again, head);
                if kind == Kind::Text {
                    assert_eq!(&bytes[at..], b"text");
                }
                for cut in 0..bytes.len() {
                    let _ = Head::decode(&bytes[..cut]);
                }
            }
        }
        assert_eq!(Head::decode(&[]), None);
        assert_eq!(Head::decode(&[77]), None);
    }

    #[test]
    fn keys_are_in_the_order_of_what_they_hold() {
        let secret = [3; 16];
        let key = field_key(&secret, 9, b"field");
        assert_eq!(hash_in(&key), hash48(&secret, b"field"));
        assert_eq!(field_in(&key), b"field");
        let (low, high) = fields(9, hash48(&secret, b"field"));
        assert!(low <= key && key < high);
        assert!(score_key(1, -1.0, b"z") < score_key(1, 2.0, b"a"));
        assert_eq!(score_key(1, -0.0, b"z"), score_key(1, 0.0, b"z"));
        assert_eq!(score_in(&score_key(1, 2.5, b"m")), (2.5, &b"m"[..]));
        assert!(position_key(1, -5) < position_key(1, 3));
        let (low, high) = due_until(100);
        let due = due_key(&secret, 100, 1, b"k");
        assert!(low < due && due < high && due_in(&due) == 100);
        assert!(due_key(&secret, 101, 1, b"k") > high);
        assert!(all_of(u64::MAX >> 8).1.as_slice() < NUMBERS_END);
    }
}
