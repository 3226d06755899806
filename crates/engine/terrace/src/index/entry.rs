//! The entries of an index, as keys and values of a tree. `docs/format.md` has the same.
//!
//! A unique index maps the key to the primary key. Any other has the escaped key, a terminator and
//! the primary key as key, and nothing as value.
//!
//! Invariants: entries are in the order of their keys, then of the primary keys; an entry leads back
//! to both.

use std::ops::Bound;

/// What stands for a zero byte in an escaped key: behind the terminator, in front of every other.
const ZERO: [u8; 2] = [0, 0xFF];
/// Behind an escaped key.
const END: [u8; 2] = [0, 0];
/// Above the entries of an escaped key, whatever primary key they have.
const ABOVE: [u8; 2] = [0, 1];

/// Key and value of the entry of a row.
pub fn encode<'p>(unique: bool, key: &[u8], primary: &'p [u8]) -> (Vec<u8>, &'p [u8]) {
    if unique {
        return (key.to_vec(), primary);
    }
    let mut entry = escape(key);
    entry.extend_from_slice(&END);
    entry.extend_from_slice(primary);
    (entry, &[])
}

/// The key of the index and the primary key in an entry; `None` for what [`encode`] never wrote.
pub fn decode(unique: bool, entry: &[u8], value: &[u8]) -> Option<(Vec<u8>, Vec<u8>)> {
    if unique {
        return Some((entry.to_vec(), value.to_vec()));
    }
    let mut key = Vec::new();
    let mut rest = entry;
    loop {
        let (&byte, behind) = rest.split_first()?;
        rest = behind;
        if byte != 0 {
            key.push(byte);
            continue;
        }
        let (&second, behind) = rest.split_first()?;
        rest = behind;
        match [0, second] {
            ZERO => key.push(0),
            END => return value.is_empty().then(|| (key, rest.to_vec())),
            _ => return None,
        }
    }
}

fn escape(key: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(key.len() + 2);
    for &byte in key {
        match byte {
            0 => out.extend_from_slice(&ZERO),
            byte => out.push(byte),
        }
    }
    out
}

fn with_end(unique: bool, key: &[u8], end: [u8; 2], end_if_unique: &[u8]) -> Vec<u8> {
    let mut out = if unique { key.to_vec() } else { escape(key) };
    out.extend_from_slice(if unique { end_if_unique } else { &end });
    out
}

/// First entry of a range of keys, and the first behind it.
pub fn bounds(unique: bool, low: Bound<&[u8]>, high: Bound<&[u8]>) -> (Vec<u8>, Option<Vec<u8>>) {
    let from = |key| with_end(unique, key, END, &[]);
    let above = |key| with_end(unique, key, ABOVE, &[0]);
    let low = match low {
        Bound::Unbounded => Vec::new(),
        Bound::Included(key) => from(key),
        Bound::Excluded(key) => above(key),
    };
    let high = match high {
        Bound::Unbounded => None,
        Bound::Included(key) => Some(above(key)),
        Bound::Excluded(key) => Some(from(key)),
    };
    (low, high)
}

/// What the entries of all keys with a prefix begin with.
pub fn prefix(unique: bool, prefix: &[u8]) -> Vec<u8> {
    if unique {
        prefix.to_vec()
    } else {
        escape(prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::structures::range::past_prefix;
    use proptest::prelude::*;

    /// Few different bytes, those that matter among them, so that prefixes are common.
    fn keys() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(
            prop_oneof![Just(0), Just(1), Just(2), Just(254), Just(255)],
            0..5,
        )
    }

    proptest! {
        #[test]
        fn entries_lead_back_and_are_in_order(a in keys(), b in keys(), p in keys(), q in keys(), unique: bool) {
            let (entry, value) = encode(unique, &a, &p);
            prop_assert_eq!(decode(unique, &entry, value), Some((a.clone(), p.clone())));
            let (other, _) = encode(unique, &b, &q);
            if unique {
                prop_assert_eq!(entry.cmp(&other), a.cmp(&b));
            } else {
                prop_assert_eq!(entry.cmp(&other), (&a, &p).cmp(&(&b, &q)));
            }
        }

        #[test]
        fn bounds_hold_what_they_should(key in keys(), p in keys(), low in keys(), high in keys(), unique: bool, kinds in 0..9u8) {
            let bound = |kind, key| match kind {
                0 => Bound::Unbounded,
                1 => Bound::Included(key),
                _ => Bound::Excluded(key),
            };
            let range = (bound(kinds % 3, &low[..]), bound(kinds / 3, &high[..]));
            let (entry, _) = encode(unique, &key, &p);
            let (from, to) = bounds(unique, range.0, range.1);
            let within = from <= entry && to.is_none_or(|to| entry < to);
            let want = std::ops::RangeBounds::<[u8]>::contains(&range, &key[..]);
            prop_assert_eq!(within, want);
            let from = prefix(unique, &low);
            let to = past_prefix(&from);
            let within = from <= entry && to.is_none_or(|to| entry < to);
            prop_assert_eq!(within, key.starts_with(&low));
        }

        #[test]
        fn any_bytes_are_an_entry_or_none(entry in proptest::collection::vec(any::<u8>(), 0..20)) {
            if let Some((key, primary)) = decode(false, &entry, &[]) {
                prop_assert_eq!(encode(false, &key, &primary).0, entry);
            }
        }
    }
}
