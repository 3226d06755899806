//! Merges: changes of a value that depend on the one that is there, worked out from it and written as a put
//! if it is still there.
//!
//! Source: the operators of RocksDB and FoundationDB as users know them; nothing is delayed here, so a
//! merge reads its record, and replay knows only puts.

use terrace_base::{Error, MAX_VALUE_BYTES, Result};

use crate::encode;

/// What becomes of a value, given the one that is there; see [`crate::Map::merge`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Merge {
    /// Adds to a number of eight bytes as [`encode::i64`] makes them; none counts as 0. A value of
    /// another length, and a sum that does not fit, are errors.
    Add(i64),
    /// Adds to a number as [`encode::u64`] makes them; none counts as 0. A value of another length,
    /// and a sum below 0 or too large, are errors.
    AddUnsigned(i64),
    /// Keeps the lower one of the two, as bytes compare; none is replaced.
    Min(Vec<u8>),
    /// Keeps the higher one of the two, as bytes compare; none is replaced.
    Max(Vec<u8>),
    /// Appends bytes. More than `limit` bytes in all are an error.
    Append {
        /// What is appended.
        bytes: Vec<u8>,
        /// Most bytes that the value may have afterwards.
        limit: usize,
    },
    /// Stores a value if there is none.
    SetIfAbsent(Vec<u8>),
    /// Stores a value, or removes it, if the one that is there is this one.
    CompareAndSet {
        /// What has to be there; none for no value.
        expected: Option<Vec<u8>>,
        /// What is to be there; none for no value.
        new: Option<Vec<u8>>,
    },
}

/// What a merge comes to.
pub(crate) enum Merged {
    /// Nothing is to be changed.
    Keep,
    /// The value is to be this one, or none.
    Set(Option<Vec<u8>>),
}

impl Merge {
    /// Lengths of the bytes that it brings along: of the longest value that it may store by itself, and of all.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let of = |value: &Option<Vec<u8>>| value.as_ref().map_or(0, Vec::len);
        match self {
            Merge::Add(_) | Merge::AddUnsigned(_) => (8, 8),
            Merge::Min(bytes)
            | Merge::Max(bytes)
            | Merge::SetIfAbsent(bytes)
            | Merge::Append { bytes, .. } => (bytes.len(), bytes.len()),
            Merge::CompareAndSet { expected, new } => (of(new), of(expected) + of(new)),
        }
    }

    /// What it makes of a value.
    pub(crate) fn apply(&self, old: Option<&[u8]>) -> Result<Merged> {
        let set = |bytes: &[u8]| Ok(Merged::Set(Some(bytes.to_vec())));
        match (self, old) {
            (Merge::Add(n), _) => {
                let sum = number(old, encode::to_i64)?.unwrap_or(0).checked_add(*n);
                set(&encode::i64(sum.ok_or_else(|| overflow(*n))?))
            }
            (Merge::AddUnsigned(n), _) => {
                let sum = number(old, encode::to_u64)?
                    .unwrap_or(0)
                    .checked_add_signed(*n);
                set(&encode::u64(sum.ok_or_else(|| overflow(*n))?))
            }
            (Merge::Min(new), Some(old)) if old <= new => Ok(Merged::Keep),
            (Merge::Max(new), Some(old)) if old >= new => Ok(Merged::Keep),
            (Merge::Min(new) | Merge::Max(new), _) => set(new),
            (Merge::Append { bytes, limit }, _) => {
                let mut value = old.unwrap_or_default().to_vec();
                let limit = (*limit).min(MAX_VALUE_BYTES);
                if bytes.len() > limit.saturating_sub(value.len()) {
                    return Err(Error::invalid(format!(
                        "appending {} bytes to a value of {} would pass the limit of {limit} bytes; nothing was changed",
                        bytes.len(),
                        value.len()
                    )));
                }
                value.extend_from_slice(bytes);
                Ok(Merged::Set(Some(value)))
            }
            (Merge::SetIfAbsent(_), Some(_)) => Ok(Merged::Keep),
            (Merge::SetIfAbsent(new), None) => set(new),
            (Merge::CompareAndSet { expected, new }, _) if expected.as_deref() == old => {
                if new.is_none() && old.is_none() {
                    return Ok(Merged::Keep);
                }
                Ok(Merged::Set(new.clone()))
            }
            (Merge::CompareAndSet { .. }, _) => Ok(Merged::Keep),
        }
    }
}

fn number<T>(old: Option<&[u8]>, decode: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>> {
    old.map(|old| {
        decode(old).ok_or_else(|| {
            Error::invalid(format!(
                "the value has {} bytes, and a number that can be added to has 8; nothing was changed",
                old.len()
            ))
        })
    })
    .transpose()
}

fn overflow(n: i64) -> Error {
    Error::invalid(format!(
        "adding {n} leaves the range of the number; nothing was changed"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(merge: &Merge, old: Option<&[u8]>) -> Option<Option<Vec<u8>>> {
        match merge.apply(old).unwrap() {
            Merged::Keep => None,
            Merged::Set(value) => Some(value),
        }
    }

    #[test]
    fn each_operator_does_what_it_says() {
        let seven = encode::i64(7);
        assert_eq!(
            after(&Merge::Add(-9), Some(&seven)),
            Some(Some(encode::i64(-2).to_vec()))
        );
        assert_eq!(
            after(&Merge::Add(3), None),
            Some(Some(encode::i64(3).to_vec()))
        );
        assert_eq!(
            after(&Merge::AddUnsigned(3), None),
            Some(Some(encode::u64(3).to_vec()))
        );
        assert!(Merge::AddUnsigned(-1).apply(None).is_err());
        assert!(Merge::Add(1).apply(Some(b"seven")).is_err());
        assert!(Merge::Add(1).apply(Some(&encode::i64(i64::MAX))).is_err());
        let (low, high) = (b"a".to_vec(), b"z".to_vec());
        assert_eq!(after(&Merge::Min(low.clone()), Some(b"m")), Some(Some(low)));
        assert_eq!(after(&Merge::Min(high.clone()), Some(b"m")), None);
        assert_eq!(
            after(&Merge::Max(high.clone()), Some(b"m")),
            Some(Some(high))
        );
        let append = |limit| Merge::Append {
            bytes: b"bc".to_vec(),
            limit,
        };
        assert_eq!(after(&append(3), Some(b"a")), Some(Some(b"abc".to_vec())));
        assert!(append(2).apply(Some(b"a")).is_err());
        assert_eq!(after(&Merge::SetIfAbsent(b"n".to_vec()), Some(b"o")), None);
        let swap = Merge::CompareAndSet {
            expected: Some(b"a".to_vec()),
            new: None,
        };
        assert_eq!(after(&swap, Some(b"a")), Some(None));
        assert_eq!(after(&swap, None), None);
    }
}
