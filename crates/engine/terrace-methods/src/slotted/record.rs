//! A record of a leaf or of a bucket, and its slot.
//!
//! ```text
//! slot:    u16 offset, u16 first bits of the key or of its hash (11 bits) and flags (5 bits)
//! record:  u8 key length (255: u16 follows), u8 value length (253: u16 follows,
//!          255: a large reference of u64 page and u32 length), key, value
//! ```

use terrace_access::{Flags, LargeRef, Value};
use terrace_pages::{Torn, View};

use super::fit::Hole;
use super::layout::{SLOT_BYTES, Seen};

/// Bits of a slot that are neither offset nor flags: the first bits of a key, or of its hash.
pub(crate) const HEAD_BITS: u32 = 16 - Flags::BITS;

/// Bytes of a large reference.
const LARGE_BYTES: usize = 12;
/// Suffix lengths from here on take three bytes.
const LONG_KEY: usize = 255;
/// Value lengths from here on take three bytes.
const LONG_VALUE: usize = 253;
/// What stands for the length of a value before its two bytes.
pub(crate) const LONG_VALUE_MARK: u8 = 253;
const LARGE_MARK: u8 = 255;

/// Bytes of a suffix of this length with its length.
#[inline]
pub(crate) fn key_bytes(suffix_len: usize) -> usize {
    suffix_len + if suffix_len < LONG_KEY { 1 } else { 3 }
}

/// Bytes of a value with its length.
#[inline]
pub(crate) fn value_bytes(value: Value<'_>) -> usize {
    match value {
        Value::Inline(v) if v.len() < LONG_VALUE => v.len() + 1,
        Value::Inline(v) => v.len() + 3,
        Value::Large(_) => LARGE_BYTES + 1,
    }
}

/// Puts bytes at a place that moves on.
pub(crate) fn put(out: &mut [u8], at: &mut usize, bytes: &[u8]) {
    out[*at..*at + bytes.len()].copy_from_slice(bytes);
    *at += bytes.len();
}

/// Puts the length of a key.
pub(crate) fn put_key_len(out: &mut [u8], at: &mut usize, len: usize) {
    if len < LONG_KEY {
        put(out, at, &[len as u8]);
    } else {
        put(out, at, &[LONG_KEY as u8]);
        put(out, at, &(len as u16).to_le_bytes());
    }
}

/// Writes a record, whose key suffix comes in two pieces, into exactly the bytes it takes.
pub(crate) fn encode_record(out: &mut [u8], suffix: (&[u8], &[u8]), value: Value<'_>) {
    let mut at = 0;
    put_key_len(out, &mut at, suffix.0.len() + suffix.1.len());
    match value {
        Value::Inline(v) if v.len() < LONG_VALUE => put(out, &mut at, &[v.len() as u8]),
        Value::Inline(v) => {
            put(out, &mut at, &[LONG_VALUE_MARK]);
            put(out, &mut at, &(v.len() as u16).to_le_bytes());
        }
        Value::Large(_) => put(out, &mut at, &[LARGE_MARK]),
    }
    put(out, &mut at, suffix.0);
    put(out, &mut at, suffix.1);
    encode_value(&mut out[at..], value);
}

/// Writes a value, or the reference to it, without its length into exactly the bytes it takes.
#[inline]
pub(crate) fn encode_value(out: &mut [u8], value: Value<'_>) {
    match value {
        Value::Inline(v) => out.copy_from_slice(v),
        Value::Large(large) => {
            out[..8].copy_from_slice(&large.word().to_le_bytes());
            out[8..LARGE_BYTES].copy_from_slice(&large.len.to_le_bytes());
        }
    }
}

/// The 4 bytes of a slot.
pub(crate) fn encode_slot(offset: usize, head: u32, flags: Flags) -> [u8; SLOT_BYTES] {
    (offset as u32 | head << (32 - HEAD_BITS) | u32::from(flags.0 & Flags::MASK) << 16)
        .to_le_bytes()
}

/// A slot: where the record is, the first bits of its key, its flags.
#[derive(Clone, Copy)]
pub(crate) struct Slot(u32);

impl Slot {
    /// The slot with these four bytes.
    #[inline]
    pub fn of(word: u32) -> Slot {
        Slot(word)
    }

    #[inline]
    pub fn offset(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    #[inline]
    pub fn head(self) -> u32 {
        self.0 >> (32 - HEAD_BITS)
    }

    #[inline]
    pub fn flags(self) -> Flags {
        Flags((self.0 >> 16) as u8 & Flags::MASK)
    }
}

/// Where the value of a record is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stored {
    Inline { at: usize, len: usize },
    Large { at: usize, large: LargeRef },
}

/// Where the parts of a record are; `start..end` is all of it.
#[derive(Clone, Copy)]
pub(crate) struct Record {
    pub start: usize,
    pub key_at: usize,
    pub key_len: usize,
    pub value: Stored,
    pub end: usize,
}

/// The length of the key at `at`, and what comes behind that length.
#[inline]
pub(crate) fn key_len(view: View<'_>, at: usize) -> Seen<(usize, usize)> {
    let len = view.u8(at)? as usize;
    if len < LONG_KEY {
        Ok((len, at + 1))
    } else {
        Ok((view.u16(at + 1)? as usize, at + 3))
    }
}

impl Record {
    /// The record at `start`, of a leaf or of a bucket.
    #[inline]
    pub fn read(view: View<'_>, start: usize) -> Seen<Record> {
        let (key_len, at) = key_len(view, start)?;
        let mark = view.u8(at)?;
        let at = at + 1;
        let (key_at, len) = match mark {
            LONG_VALUE_MARK => (at + 2, view.u16(at)? as usize),
            LARGE_MARK => (at, LARGE_BYTES),
            254 => return Err(Torn),
            short => (at, short as usize),
        };
        let value_at = key_at + key_len;
        let end = value_at + len;
        if end > view.len() {
            return Err(Torn);
        }
        let value = if mark == LARGE_MARK {
            let word = view.u64(value_at)?;
            let large = LargeRef::of_word(word, view.u32(value_at + 8)?);
            Stored::Large {
                at: value_at,
                large,
            }
        } else {
            Stored::Inline { at: value_at, len }
        };
        Ok(Record {
            start,
            key_at,
            key_len,
            value,
            end,
        })
    }

    /// The bytes that it has.
    #[inline]
    pub fn hole(&self) -> Hole {
        let len = self.end - self.start;
        Hole {
            at: self.start,
            len,
        }
    }

    /// Where a value goes that takes the same bytes as this one's, and how many these are.
    #[inline]
    pub fn same_bytes(&self, value: Value<'_>) -> Option<(usize, usize)> {
        match (self.value, value) {
            (Stored::Inline { at, len }, Value::Inline(new)) if len == new.len() => Some((at, len)),
            (Stored::Large { at, .. }, Value::Large(_)) => Some((at, self.end - at)),
            _ => None,
        }
    }

    pub fn large(&self) -> Option<LargeRef> {
        match self.value {
            Stored::Inline { .. } => None,
            Stored::Large { large, .. } => Some(large),
        }
    }
}
