//! The payload of a log record: the effects of one commit, in order. `docs/format-effects.md` has
//! the same as a grammar.
//!
//! Invariants: what was encoded decodes to itself; decoding takes any bytes and answers an error
//! for what was never encoded; a record holds effects only, so that replay checks nothing.

use terrace_base::StructureId;

use crate::catalog::opened::NewStructure;
use crate::index::definition::{IndexEntry, Stored};
use crate::kinds::spec::{Compression, Spec, decode_spec};

/// What an effect does, in the two low bits of its head.
const PUT: u64 = 0;
const DELETE: u64 = 1;
const CATALOG: u64 = 2;
const DELETE_RANGE: u64 = 3;

/// What a catalog effect does.
const CREATE: u8 = 0;
const DROP: u8 = 1;
const RENAME: u8 = 2;
const CREATE_INDEX: u8 = 3;
const BEGIN: u8 = 4;
const FINISH: u8 = 5;
const MARK: u8 = 6;
const COMPRESS: u8 = 7;

/// What an effect that makes an index says of it, as bits.
const UNIQUE: u64 = 1;
const UNFINISHED: u64 = 2;

/// Most bytes of a head and a key's length: 34 bits and 11 bits, seven to a byte.
const HEAD_BYTES: usize = 8;

/// One effect of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect<'a> {
    /// The key has this value from now on.
    Put {
        /// Of which structure.
        structure: StructureId,
        /// The key.
        key: &'a [u8],
        /// Its value.
        value: &'a [u8],
    },
    /// The key is not there from now on.
    Delete {
        /// Of which structure.
        structure: StructureId,
        /// The key.
        key: &'a [u8],
    },
    /// No key of a range is there from now on.
    DeleteRange {
        /// Of which structure.
        structure: StructureId,
        /// The number of the part that pages became which did not have to be looked at, never given out before; none if
        /// there were no such pages.
        part: Option<StructureId>,
        /// The first key.
        low: &'a [u8],
        /// The first key behind it; none at the end.
        high: Option<&'a [u8]>,
    },
    /// A structure exists from now on.
    Create {
        /// Its number, never given out before.
        structure: StructureId,
        /// What it is.
        spec: Spec,
        /// What it is called.
        name: &'a str,
        /// What it is an index of, if it is one.
        index: Option<IndexEntry>,
        /// Whether it counts only once a [`Effect::Finish`] follows.
        unfinished: bool,
    },
    /// What was begun is there from now on.
    Finish {
        /// Which.
        structure: StructureId,
    },
    /// A structure does not exist any more, whatever is left of its pages.
    Drop {
        /// Which.
        structure: StructureId,
    },
    /// A structure is called otherwise from now on.
    Rename {
        /// Which.
        structure: StructureId,
        /// Its new name.
        name: &'a str,
    },
    /// Pages of a structure are compressed otherwise from now on.
    Compress {
        /// Of which.
        structure: StructureId,
        /// How.
        compression: Compression,
    },
    /// A place in the log that can be found again. It changes nothing.
    Mark {
        /// When it was made, in milliseconds since 1970.
        time_ms: u64,
        /// What it is called; nothing if it only says what time it is.
        name: &'a str,
    },
}

/// A few bytes on the stack, for the numbers in front of a key or value.
#[derive(Clone, Copy, Default)]
pub struct Prefix {
    bytes: [u8; HEAD_BYTES],
    len: usize,
}

impl Prefix {
    fn push(&mut self, mut number: u64) {
        while number >= 0x80 {
            self.bytes[self.len] = number as u8 | 0x80;
            self.len += 1;
            number >>= 7;
        }
        self.bytes[self.len] = number as u8;
        self.len += 1;
    }
}

impl AsRef<[u8]> for Prefix {
    fn as_ref(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

fn head(structure: StructureId, op: u64) -> Prefix {
    let mut prefix = Prefix::default();
    prefix.push(u64::from(structure.0) << 2 | op);
    prefix
}

/// What stands before the key and before the value of a put; keys are at most
/// [`terrace_base::MAX_KEY_BYTES`] long.
pub fn put_prefixes(structure: StructureId, key: &[u8], value: &[u8]) -> (Prefix, Prefix) {
    let mut before_key = head(structure, PUT);
    before_key.push(key.len() as u64);
    let mut before_value = Prefix::default();
    before_value.push(value.len() as u64);
    (before_key, before_value)
}

/// What stands before the key of a delete.
pub fn delete_prefix(structure: StructureId, key: &[u8]) -> Prefix {
    let mut before_key = head(structure, DELETE);
    before_key.push(key.len() as u64);
    before_key
}

/// Appends the effect of removing a range.
pub fn encode_delete_range(
    structure: StructureId,
    part: Option<StructureId>,
    (low, high): (&[u8], Option<&[u8]>),
    out: &mut Vec<u8>,
) {
    out.extend_from_slice(head(structure, DELETE_RANGE).as_ref());
    encode_number(part.map_or(0, |part| u64::from(part.0)), out);
    encode_bytes(low, out);
    out.push(u8::from(high.is_some()));
    if let Some(high) = high {
        encode_bytes(high, out);
    }
}

/// Appends the effect of making a structure. Effects of the catalog are handed over whole.
pub fn encode_create(structure: StructureId, new: &NewStructure<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(head(structure, CATALOG).as_ref());
    match new.index {
        None => {
            out.push(if new.unfinished { BEGIN } else { CREATE });
            new.spec.encode(out);
        }
        Some(index) => {
            out.push(CREATE_INDEX);
            new.spec.encode(out);
            encode_number(u64::from(index.table.0), out);
            let unique = if index.unique { UNIQUE } else { 0 };
            let unfinished = if new.unfinished { UNFINISHED } else { 0 };
            encode_number(unique | unfinished, out);
            encode_text(&index.source.to_string(), out);
        }
    }
    encode_text(new.name, out);
}

/// Appends the effect of finishing what was begun.
pub fn encode_finish(structure: StructureId, out: &mut Vec<u8>) {
    out.extend_from_slice(head(structure, CATALOG).as_ref());
    out.push(FINISH);
}

/// Appends the effect of a drop.
pub fn encode_drop(structure: StructureId, out: &mut Vec<u8>) {
    out.extend_from_slice(head(structure, CATALOG).as_ref());
    out.push(DROP);
}

/// Appends the effect of a rename.
pub fn encode_rename(structure: StructureId, name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(head(structure, CATALOG).as_ref());
    out.push(RENAME);
    encode_text(name, out);
}

/// Appends the effect of compressing otherwise.
pub fn encode_compress(structure: StructureId, compression: Compression, out: &mut Vec<u8>) {
    out.extend_from_slice(head(structure, CATALOG).as_ref());
    out.extend_from_slice(&[COMPRESS, compression.levels()]);
}

/// Appends a mark.
pub fn encode_mark(time_ms: u64, name: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(head(StructureId(0), CATALOG).as_ref());
    out.push(MARK);
    encode_number(time_ms, out);
    encode_text(name, out);
}

/// Appends any effect.
pub fn encode(effect: &Effect<'_>, out: &mut Vec<u8>) {
    match *effect {
        Effect::Put {
            structure,
            key,
            value,
        } => {
            let (before_key, before_value) = put_prefixes(structure, key, value);
            let parts = [before_key.as_ref(), key, before_value.as_ref(), value];
            parts.iter().for_each(|part| out.extend_from_slice(part));
        }
        Effect::Delete { structure, key } => {
            out.extend_from_slice(delete_prefix(structure, key).as_ref());
            out.extend_from_slice(key);
        }
        Effect::DeleteRange {
            structure,
            part,
            low,
            high,
        } => encode_delete_range(structure, part, (low, high), out),
        Effect::Create {
            structure,
            spec,
            name,
            ref index,
            unfinished,
        } => {
            let new = NewStructure {
                spec,
                name,
                index: index.as_ref(),
                unfinished,
            };
            encode_create(structure, &new, out);
        }
        Effect::Finish { structure } => encode_finish(structure, out),
        Effect::Drop { structure } => encode_drop(structure, out),
        Effect::Rename { structure, name } => encode_rename(structure, name, out),
        Effect::Compress {
            structure,
            compression,
        } => encode_compress(structure, compression, out),
        Effect::Mark { time_ms, name } => encode_mark(time_ms, name, out),
    }
}

/// Any number: one that was decoded may be longer than a prefix has room for.
fn encode_number(mut number: u64, out: &mut Vec<u8>) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn encode_text(text: &str, out: &mut Vec<u8>) {
    encode_bytes(text.as_bytes(), out);
}

fn encode_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    encode_number(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

/// The effects of a record, one after the other.
#[derive(Clone, Debug)]
pub struct Effects<'a> {
    rest: &'a [u8],
}

impl<'a> Effects<'a> {
    /// Of this payload.
    pub fn new(payload: &'a [u8]) -> Effects<'a> {
        Effects { rest: payload }
    }

    /// What has not been decoded yet.
    pub fn rest(&self) -> &'a [u8] {
        self.rest
    }

    fn byte(&mut self) -> Option<u8> {
        let (&byte, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(byte)
    }

    fn number(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..63).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                // One number has one encoding.
                return (byte != 0 || shift == 0).then_some(number);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.rest.split_at_checked(len)?;
        self.rest = rest;
        Some(bytes)
    }

    fn decode(&mut self) -> Option<Effect<'a>> {
        let head = self.number()?;
        let structure = StructureId(u32::try_from(head >> 2).ok()?);
        match head & 3 {
            PUT => Some(Effect::Put {
                structure,
                key: self.bytes()?,
                value: self.bytes()?,
            }),
            DELETE => Some(Effect::Delete {
                structure,
                key: self.bytes()?,
            }),
            CATALOG => self.decode_catalog(structure),
            _ => self.decode_delete_range(structure),
        }
    }

    fn decode_delete_range(&mut self, structure: StructureId) -> Option<Effect<'a>> {
        let part = u32::try_from(self.number()?).ok()?;
        Some(Effect::DeleteRange {
            structure,
            part: (part > 0).then_some(StructureId(part)),
            low: self.bytes()?,
            high: match self.byte()? {
                0 => None,
                1 => Some(self.bytes()?),
                _ => return None,
            },
        })
    }

    fn text(&mut self) -> Option<&'a str> {
        std::str::from_utf8(self.bytes()?).ok()
    }

    fn decode_catalog(&mut self, structure: StructureId) -> Option<Effect<'a>> {
        match self.byte()? {
            op @ (CREATE | BEGIN) => Some(Effect::Create {
                structure,
                spec: decode_spec(&mut self.rest)?,
                name: self.text()?,
                index: None,
                unfinished: op == BEGIN,
            }),
            CREATE_INDEX => {
                let spec = decode_spec(&mut self.rest)?;
                let table = StructureId(u32::try_from(self.number()?).ok()?);
                let bits = self.number()?;
                if bits & !(UNIQUE | UNFINISHED) != 0 {
                    return None;
                }
                let index = IndexEntry {
                    table,
                    unique: bits & UNIQUE != 0,
                    source: Stored::parse(self.text()?)?,
                };
                Some(Effect::Create {
                    structure,
                    spec,
                    name: self.text()?,
                    index: Some(index),
                    unfinished: bits & UNFINISHED != 0,
                })
            }
            FINISH => Some(Effect::Finish { structure }),
            DROP => Some(Effect::Drop { structure }),
            RENAME => Some(Effect::Rename {
                structure,
                name: self.text()?,
            }),
            COMPRESS => Some(Effect::Compress {
                structure,
                compression: Compression::of_levels(self.byte()?)?,
            }),
            MARK if structure == StructureId(0) => Some(Effect::Mark {
                time_ms: self.number()?,
                name: self.text()?,
            }),
            _ => None,
        }
    }
}

/// The bytes are not those of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAnEffect;

impl<'a> Iterator for Effects<'a> {
    type Item = Result<Effect<'a>, NotAnEffect>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let effect = self.decode().ok_or(NotAnEffect);
        if effect.is_err() {
            self.rest = &[];
        }
        Some(effect)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::Kind;
    use crate::kinds::spec::{Policy, Tiers};
    use proptest::prelude::*;

    fn put(structure: u32, key: &[u8], value: &[u8], out: &mut Vec<u8>) {
        let (a, b) = put_prefixes(StructureId(structure), key, value);
        out.extend([a.as_ref(), key, b.as_ref(), value].concat());
    }

    #[test]
    fn a_put_costs_three_bytes_beside_key_and_value() {
        let mut out = Vec::new();
        put(1, &[7; 8], &[9; 120], &mut out);
        assert_eq!(out.len(), 3 + 8 + 120);
    }

    #[test]
    fn the_longest_numbers_fit_the_prefix() {
        let key = vec![1; terrace_base::MAX_KEY_BYTES];
        let mut out = Vec::new();
        put(u32::MAX, &key, &[], &mut out);
        let value = vec![0; 1 << 21];
        put(0, &[], &value, &mut out);
        let mut effects = Effects::new(&out);
        let structure = StructureId(u32::MAX);
        assert_eq!(
            effects.next(),
            Some(Ok(Effect::Put {
                structure,
                key: &key,
                value: &[]
            }))
        );
        let structure = StructureId(0);
        assert_eq!(
            effects.next(),
            Some(Ok(Effect::Put {
                structure,
                key: &[],
                value: &value
            }))
        );
        assert_eq!(effects.next(), None);
    }

    #[test]
    fn a_mark_of_any_time_that_decodes_comes_back() {
        for time_ms in [0, 127, 128, 1 << 56, (1 << 63) - 1] {
            let mut out = Vec::new();
            encode_mark(time_ms, "m", &mut out);
            let effects: Vec<_> = Effects::new(&out).collect();
            let found = matches!(&effects[..], [Ok(Effect::Mark { time_ms: t, name: "m" })] if *t == time_ms);
            assert!(found, "{effects:?}");
        }
    }

    #[test]
    fn a_range_that_was_removed_comes_back() {
        let range = |part, low: &'static [u8], high| Effect::DeleteRange {
            structure: StructureId(u32::MAX),
            part,
            low,
            high,
        };
        let (part, long) = (Some(StructureId(u32::MAX)), &[7; 300]);
        let all = [
            range(part, b"a", Some(&b"b"[..])),
            range(None, b"", None),
            range(None, long, Some(&b""[..])),
        ];
        let mut out = Vec::new();
        all.iter().for_each(|effect| encode(effect, &mut out));
        let got: Vec<_> = Effects::new(&out).map(Result::unwrap).collect();
        assert_eq!(got, all);
        for end in 1..10 {
            let cut = Effects::new(&out[..end]).last();
            assert!(cut == Some(Err(NotAnEffect)) || end == 10, "{end}");
        }
    }

    #[test]
    fn catalog_effects_come_back() {
        let spec = Spec {
            kind: Kind::Tree,
            tiers: Tiers::Two,
            policy: Policy::Paper,
            inclusive: true,
            logged: false,
            apart: false,
            hot_heap: false,
            compression: Compression::None,
            expiring: true,
            in_memory: false,
            stays_in_file: false,
        };
        let index = IndexEntry {
            table: StructureId(70),
            unique: true,
            source: Stored::parse("csv:3").unwrap(),
        };
        let new = |name, index, unfinished| NewStructure {
            spec,
            name,
            index,
            unfinished,
        };
        let mut out = Vec::new();
        encode_create(StructureId(70), &new("größe", None, false), &mut out);
        encode_create(StructureId(71), &new("t", None, true), &mut out);
        encode_create(StructureId(72), &new("i", Some(&index), true), &mut out);
        encode_finish(StructureId(72), &mut out);
        encode_rename(StructureId(70), "b", &mut out);
        encode_compress(StructureId(70), Compression::LZ4, &mut out);
        encode_compress(StructureId(70), Compression::None, &mut out);
        encode_drop(StructureId(70), &mut out);
        encode_mark(1_800_000_000_000, "vor dem Umbau", &mut out);
        let got: Vec<_> = Effects::new(&out).map(Result::unwrap).collect();
        let create = |id, name, index: Option<&IndexEntry>, unfinished| Effect::Create {
            structure: StructureId(id),
            spec,
            name,
            index: index.cloned(),
            unfinished,
        };
        let structure = StructureId(70);
        assert_eq!(
            got,
            [
                create(70, "größe", None, false),
                create(71, "t", None, true),
                create(72, "i", Some(&index), true),
                Effect::Finish {
                    structure: StructureId(72)
                },
                Effect::Rename {
                    structure,
                    name: "b"
                },
                Effect::Compress {
                    structure,
                    compression: Compression::LZ4
                },
                Effect::Compress {
                    structure,
                    compression: Compression::None
                },
                Effect::Drop { structure },
                Effect::Mark {
                    time_ms: 1_800_000_000_000,
                    name: "vor dem Umbau"
                },
            ]
        );
    }

    proptest! {
        #[test]
        fn any_bytes_end_in_effects_or_one_error(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let all: Vec<_> = Effects::new(&bytes).collect();
            prop_assert!(all.len() <= bytes.len());
            prop_assert!(all.iter().rev().skip(1).all(Result::is_ok));
        }

        #[test]
        fn what_was_cut_off_never_decodes_to_the_whole(
            ops in proptest::collection::vec((any::<u32>(), any::<bool>(), proptest::collection::vec(any::<u8>(), 0..20), proptest::collection::vec(any::<u8>(), 0..300)), 1..8),
            cut in any::<prop::sample::Index>(),
        ) {
            let mut out = Vec::new();
            for (structure, delete, key, value) in &ops {
                if *delete {
                    out.extend([delete_prefix(StructureId(*structure), key).as_ref(), key].concat());
                } else {
                    put(*structure, key, value, &mut out);
                }
            }
            let got: Vec<_> = Effects::new(&out).map(Result::unwrap).collect();
            prop_assert_eq!(got.len(), ops.len());
            for (effect, (structure, delete, key, value)) in got.iter().zip(&ops) {
                let structure = StructureId(*structure);
                let want = if *delete { Effect::Delete { structure, key } } else { Effect::Put { structure, key, value } };
                prop_assert_eq!(effect, &want);
            }
            let part = &out[..cut.index(out.len())];
            prop_assert!(Effects::new(part).filter(Result::is_ok).count() < ops.len());
        }
    }
}
