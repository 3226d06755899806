//! The records of a benchmark: keys of eight bytes, and values that say whose they are.

use crate::permutation::Permutation;
use crate::rng::{GOLDEN, mix};

/// The bytes of every key.
pub const KEY_BYTES: u64 = 8;

/// The fewest bytes of a value that can still carry its version and a check.
pub const LEAST_VALUE_BYTES: usize = 16;

/// Room left behind every loaded key of a spaced layout for keys that are inserted later.
const SPACING: u64 = 16;

/// How the keys of records lie in the space of 64-bit numbers (big-endian, so that their order
/// is that of the numbers).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyLayout {
    /// Loaded keys are the multiples of 16; keys inserted later fall between them, everywhere.
    Spaced,
    /// Every key is a 64-bit hash: what a prefix-truncating store finds hardest.
    Hashed,
}

impl KeyLayout {
    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            KeyLayout::Spaced => "spaced",
            KeyLayout::Hashed => "hashed",
        }
    }
}

/// From the number of a record to its key: `0..loaded` are there from the beginning, the numbers
/// from `loaded` on are inserted in order of their number, which is a random order of keys.
#[derive(Clone, Debug)]
pub struct KeySpace {
    loaded: u64,
    layout: KeyLayout,
    scatter: Permutation,
}

impl KeySpace {
    /// The keys of a benchmark with `loaded` records at the beginning.
    pub fn new(loaded: u64, layout: KeyLayout, seed: u64) -> Self {
        KeySpace {
            loaded,
            layout,
            scatter: Permutation::new(loaded, mix(seed ^ 3)),
        }
    }

    /// How many records there can ever be.
    pub fn limit(&self) -> u64 {
        match self.layout {
            KeyLayout::Spaced => self.loaded.saturating_mul(SPACING),
            KeyLayout::Hashed => u64::MAX,
        }
    }

    /// The key of a record, as a number.
    #[inline]
    pub fn number(&self, record: u64) -> u64 {
        match self.layout {
            KeyLayout::Hashed => mix(record.wrapping_add(GOLDEN)),
            KeyLayout::Spaced if record < self.loaded => record * SPACING,
            KeyLayout::Spaced => {
                let later = record - self.loaded;
                self.scatter.apply(later % self.loaded) * SPACING + 1 + later / self.loaded
            }
        }
    }

    /// What must not be: two neighbouring keys of a scan between which a loaded key is missing,
    /// or which are not in order.
    #[inline]
    pub fn scan_is_broken(&self, before: u64, after: u64) -> bool {
        after <= before
            || match self.layout {
                KeyLayout::Hashed => false,
                KeyLayout::Spaced => after.div_ceil(SPACING) - before / SPACING > 1,
            }
    }
}

/// How long values are, and how many of their bytes are random; the others are all alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueShape {
    /// Bytes of a value.
    pub bytes: usize,
    /// Of these, random ones: the first ones, the version among them.
    pub random: usize,
}

impl From<usize> for ValueShape {
    /// All of them random.
    fn from(bytes: usize) -> ValueShape {
        ValueShape {
            bytes,
            random: bytes,
        }
    }
}

/// What the bytes are that are all alike.
const ALIKE: u8 = b'.';

/// Writes the value of a key at a version: random bytes that do not compress, but all of which
/// follow from key and version, so that whoever reads them can tell whether they are right; and then bytes
/// that are all alike, if there are to be some.
pub fn fill_value(key: u64, version: u64, shape: impl Into<ValueShape>, out: &mut Vec<u8>) {
    let shape = shape.into();
    let bytes = shape.random.clamp(LEAST_VALUE_BYTES, shape.bytes);
    out.clear();
    out.reserve(shape.bytes);
    out.extend_from_slice(&(version ^ mix(key)).to_le_bytes());
    let mut stream = Stream::new(key, version);
    while out.len() + 8 <= bytes {
        out.extend_from_slice(&stream.next());
    }
    let rest = bytes - out.len();
    out.extend_from_slice(&stream.next()[..rest]);
    out.resize(shape.bytes, ALIKE);
}

/// The version of a value, if every byte of it is what [`fill_value`] wrote for this key.
pub fn check_value(key: u64, shape: impl Into<ValueShape>, value: &[u8]) -> Option<u64> {
    let shape = shape.into();
    if value.len() != shape.bytes {
        return None;
    }
    let random = shape
        .random
        .clamp(LEAST_VALUE_BYTES.min(shape.bytes), shape.bytes);
    let (value, alike) = value.split_at(random);
    if alike.iter().any(|byte| *byte != ALIKE) {
        return None;
    }
    let (version, body) = value.split_first_chunk::<8>()?;
    let version = u64::from_le_bytes(*version) ^ mix(key);
    let mut stream = Stream::new(key, version);
    let mut words = body.chunks_exact(8);
    let mut difference = 0;
    for word in &mut words {
        let want = u64::from_le_bytes(stream.next());
        difference |= want ^ word.try_into().map_or(!want, u64::from_le_bytes);
    }
    let rest = words.remainder();
    (difference == 0 && stream.next()[..rest.len()] == *rest).then_some(version)
}

struct Stream(u64);

impl Stream {
    fn new(key: u64, version: u64) -> Self {
        Stream(mix(key ^ mix(version.wrapping_add(GOLDEN))))
    }

    #[inline]
    fn next(&mut self) -> [u8; 8] {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0).to_le_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn keys_are_distinct_and_stay_so_when_records_are_added() {
        for layout in [KeyLayout::Spaced, KeyLayout::Hashed] {
            let keys = KeySpace::new(100, layout, 1);
            let count = keys.limit().min(1600);
            let distinct: HashSet<u64> = (0..count).map(|i| keys.number(i)).collect();
            assert_eq!(distinct.len() as u64, count);
        }
        assert_eq!(KeySpace::new(100, KeyLayout::Spaced, 1).limit(), 1600);
    }

    #[test]
    fn a_gap_in_a_scan_is_seen() {
        let keys = KeySpace::new(100, KeyLayout::Spaced, 1);
        for (before, after) in [(0, 16), (0, 1), (5, 16), (5, 7), (15, 16)] {
            assert!(!keys.scan_is_broken(before, after), "{before} {after}");
        }
        for (before, after) in [(0, 32), (0, 17), (16, 16), (17, 16), (15, 17)] {
            assert!(keys.scan_is_broken(before, after), "{before} {after}");
        }
    }

    #[test]
    fn bytes_that_are_all_alike_are_checked_too() {
        let shape = ValueShape {
            bytes: 120,
            random: 60,
        };
        let mut value = Vec::new();
        fill_value(7, 3, shape, &mut value);
        assert_eq!(value.len(), 120);
        assert!(value[60..].iter().all(|byte| *byte == value[60]));
        assert_eq!(check_value(7, shape, &value), Some(3));
        assert_eq!(check_value(7, 120, &value), None);
        for at in 0..120 {
            value[at] ^= 1;
            assert_ne!(check_value(7, shape, &value), Some(3), "byte {at}");
            value[at] ^= 1;
        }
    }

    #[test]
    fn values_tell_their_key_and_version() {
        let mut value = Vec::new();
        for bytes in [16, 17, 23, 24, 120, 1000] {
            fill_value(7, 3, bytes, &mut value);
            assert_eq!(value.len(), bytes);
            assert_eq!(check_value(7, bytes, &value), Some(3));
            assert_eq!(check_value(8, bytes, &value), None);
            assert_eq!(check_value(7, bytes + 1, &value), None);
            for at in 0..bytes {
                value[at] ^= 1;
                assert_eq!(check_value(7, bytes, &value), None, "byte {at} of {bytes}");
                value[at] ^= 1;
            }
        }
        assert_eq!(check_value(7, 4, b"abcd"), None);
    }
}
