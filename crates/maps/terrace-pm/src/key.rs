//! Keys and values: numbers in a word, byte strings in blobs.

use std::borrow::Cow;
use std::fmt::Debug;
use terrace_base::checksum::{mix, seeded};

use crate::arena::{Arena, BlobRef};

/// A key as the tree keeps it in memory. Sealed: numbers and byte strings are all there are.
pub trait Own: Ord + Clone + Debug + Send + Sync + 'static {
    /// Whether keys are byte strings, and so lie in blobs.
    const BYTES: bool;

    /// The first eight bytes as a number that compares as the key does; equal for equal prefixes.
    fn word(&self) -> u64;

    /// A hash of the whole key.
    fn hash(&self) -> u64;

    /// The key of a pair.
    fn of_pair(arena: &Arena, key: u64, value: u64) -> Self;

    /// The key of this word, where it is a number.
    fn of_word(word: u64) -> Self;

    /// The key of these bytes, where it is a byte string.
    fn of_bytes(bytes: Vec<u8>) -> Self;

    /// Its bytes, where it is a byte string.
    fn bytes(&self) -> &[u8];

    /// The least key.
    fn least() -> Self;

    /// Bytes on the heap.
    fn heap_bytes(&self) -> usize;
}

impl Own for u64 {
    const BYTES: bool = false;

    #[inline]
    fn word(&self) -> u64 {
        *self
    }

    #[inline]
    fn hash(&self) -> u64 {
        mix(*self, 0x7465_7272_6163_6531)
    }

    #[inline]
    fn of_pair(_arena: &Arena, key: u64, _value: u64) -> u64 {
        key
    }

    #[inline]
    fn of_word(word: u64) -> u64 {
        word
    }

    fn of_bytes(_bytes: Vec<u8>) -> u64 {
        0
    }

    fn bytes(&self) -> &[u8] {
        &[]
    }

    fn least() -> u64 {
        0
    }

    fn heap_bytes(&self) -> usize {
        0
    }
}

impl Own for Box<[u8]> {
    const BYTES: bool = true;

    fn word(&self) -> u64 {
        let mut first = [0; 8];
        let len = self.len().min(8);
        first[..len].copy_from_slice(&self[..len]);
        u64::from_be_bytes(first)
    }

    fn hash(&self) -> u64 {
        seeded(0x7465_7272_6163_6531, self)
    }

    fn of_pair(arena: &Arena, _key: u64, value: u64) -> Box<[u8]> {
        arena.blob_key(BlobRef(value)).into()
    }

    fn of_word(_word: u64) -> Box<[u8]> {
        Box::default()
    }

    fn of_bytes(bytes: Vec<u8>) -> Box<[u8]> {
        bytes.into()
    }

    fn bytes(&self) -> &[u8] {
        self
    }

    fn least() -> Box<[u8]> {
        Box::default()
    }

    fn heap_bytes(&self) -> usize {
        self.len()
    }
}

/// The byte of a hash that leaves keep for each slot.
#[inline]
pub fn fingerprint(hash: u64) -> u8 {
    (hash >> 56) as u8
}

/// The partition of a hash among a power of two.
#[inline]
pub fn partition(hash: u64, partitions: u32) -> u32 {
    (hash >> 40) as u32 & (partitions - 1)
}

/// A value on its way in.
#[derive(Clone, Copy, Debug)]
pub enum ValueIn<'a> {
    /// A number.
    Int(u64),
    /// Bytes.
    Bytes(&'a [u8]),
}

/// A value on its way out.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ValueOut {
    /// A number.
    Int(u64),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// What keys of a map can be: numbers up to 64 bits, byte strings, text.
pub trait Key: 'static {
    /// The key by value.
    type Owned;
    #[doc(hidden)]
    type Own: Own;
    #[doc(hidden)]
    const CODE: u64;
    #[doc(hidden)]
    fn to_own(&self) -> Self::Own;
    #[doc(hidden)]
    fn from_own(own: &Self::Own) -> Option<Self::Owned>;
}

/// What values of a map can be: numbers up to 64 bits, byte strings, text.
pub trait Value: 'static {
    /// The value by itself.
    type Owned;
    #[doc(hidden)]
    const CODE: u64;
    #[doc(hidden)]
    fn to_in(&self) -> ValueIn<'_>;
    #[doc(hidden)]
    fn from_out(out: ValueOut) -> Option<Self::Owned>;
}

/// The code of byte strings in the superblock; numbers have others.
pub const BYTES_CODE: u64 = 64;
const TEXT_CODE: u64 = 65;

/// Whether a code says that pairs are in blobs.
pub fn is_bytes(code: u64) -> bool {
    code >= BYTES_CODE
}

/// The name of a code, for messages.
pub fn code_name(code: u64) -> Cow<'static, str> {
    match code {
        BYTES_CODE => "byte strings".into(),
        TEXT_CODE => "text".into(),
        1..=8 => format!("unsigned numbers of {} bits", code * 8).into(),
        17..=24 => format!("signed numbers of {} bits", (code - 16) * 8).into(),
        other => format!("kind {other}").into(),
    }
}

macro_rules! unsigned {
    ($($int:ty)*) => {$(
        impl Key for $int {
            type Owned = $int;
            type Own = u64;
            const CODE: u64 = size_of::<$int>() as u64;
            #[inline]
            fn to_own(&self) -> u64 {
                *self as u64
            }
            #[inline]
            fn from_own(own: &u64) -> Option<$int> {
                <$int>::try_from(*own).ok()
            }
        }

        impl Value for $int {
            type Owned = $int;
            const CODE: u64 = size_of::<$int>() as u64;
            #[inline]
            fn to_in(&self) -> ValueIn<'_> {
                ValueIn::Int(*self as u64)
            }
            #[inline]
            fn from_out(out: ValueOut) -> Option<$int> {
                match out {
                    ValueOut::Int(int) => <$int>::try_from(int).ok(),
                    ValueOut::Bytes(_) => None,
                }
            }
        }
    )*};
}

macro_rules! signed {
    ($($int:ty)*) => {$(
        impl Key for $int {
            type Owned = $int;
            type Own = u64;
            const CODE: u64 = 16 + size_of::<$int>() as u64;
            #[inline]
            fn to_own(&self) -> u64 {
                // Negative ones come first.
                (*self as i64 as u64) ^ 1 << 63
            }
            #[inline]
            fn from_own(own: &u64) -> Option<$int> {
                <$int>::try_from((*own ^ 1 << 63) as i64).ok()
            }
        }

        impl Value for $int {
            type Owned = $int;
            const CODE: u64 = 16 + size_of::<$int>() as u64;
            #[inline]
            fn to_in(&self) -> ValueIn<'_> {
                ValueIn::Int(*self as i64 as u64)
            }
            #[inline]
            fn from_out(out: ValueOut) -> Option<$int> {
                match out {
                    ValueOut::Int(int) => <$int>::try_from(int as i64).ok(),
                    ValueOut::Bytes(_) => None,
                }
            }
        }
    )*};
}

unsigned!(u8 u16 u32 u64);
signed!(i8 i16 i32 i64);

impl Key for [u8] {
    type Owned = Vec<u8>;
    type Own = Box<[u8]>;
    const CODE: u64 = BYTES_CODE;
    fn to_own(&self) -> Box<[u8]> {
        self.into()
    }
    fn from_own(own: &Box<[u8]>) -> Option<Vec<u8>> {
        Some(own.to_vec())
    }
}

impl Value for [u8] {
    type Owned = Vec<u8>;
    const CODE: u64 = BYTES_CODE;
    fn to_in(&self) -> ValueIn<'_> {
        ValueIn::Bytes(self)
    }
    fn from_out(out: ValueOut) -> Option<Vec<u8>> {
        match out {
            ValueOut::Bytes(bytes) => Some(bytes),
            ValueOut::Int(_) => None,
        }
    }
}

impl Key for str {
    type Owned = String;
    type Own = Box<[u8]>;
    const CODE: u64 = TEXT_CODE;
    fn to_own(&self) -> Box<[u8]> {
        self.as_bytes().into()
    }
    fn from_own(own: &Box<[u8]>) -> Option<String> {
        String::from_utf8(own.to_vec()).ok()
    }
}

impl Value for str {
    type Owned = String;
    const CODE: u64 = TEXT_CODE;
    fn to_in(&self) -> ValueIn<'_> {
        ValueIn::Bytes(self.as_bytes())
    }
    fn from_out(out: ValueOut) -> Option<String> {
        match out {
            ValueOut::Bytes(bytes) => String::from_utf8(bytes).ok(),
            ValueOut::Int(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_compare_as_the_keys_do() {
        let numbers = [i64::MIN, -5, -1, 0, 1, 7, i64::MAX];
        for pair in numbers.windows(2) {
            assert!(pair[0].to_own() < pair[1].to_own());
            assert_eq!(i64::from_own(&pair[0].to_own()), Some(pair[0]));
        }
        let texts: [&[u8]; 5] = [b"", b"a", b"a\0", b"abcdefgh", b"abcdefghi"];
        for pair in texts.windows(2) {
            let (a, b) = (pair[0].to_own(), pair[1].to_own());
            assert!(a < b && a.word() <= b.word());
        }
    }

    #[test]
    fn negative_values_come_back() {
        let ValueIn::Int(word) = (-3i16).to_in() else {
            panic!("a number")
        };
        assert_eq!(<i16 as Value>::from_out(ValueOut::Int(word)), Some(-3));
    }
}
