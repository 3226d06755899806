//! Keys stored as byte strings: strings, byte vectors and arrays, 128-bit integers.

use super::index::{IndexKey, Probe};
use crate::family::ByteFamily;
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;

/// The longest encoded key, in bytes, that a map takes.
///
/// Longer ones get [`KeyTooLong`](crate::KeyTooLong) from the `try_` methods and a panic from
/// the map-like ones.
pub const MAX_KEY_LEN: usize = u16::MAX as usize;

impl IndexKey for Vec<u8> {
    type Family = ByteFamily;
    #[inline]
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    #[inline]
    fn decode(encoded: &[u8]) -> Self {
        encoded.to_vec()
    }
}

impl Probe<Vec<u8>> for [u8] {
    #[inline]
    fn probe<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
}

impl IndexKey for Box<[u8]> {
    type Family = ByteFamily;
    #[inline]
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    #[inline]
    fn decode(encoded: &[u8]) -> Self {
        encoded.into()
    }
}

impl Probe<Box<[u8]>> for [u8] {
    #[inline]
    fn probe<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
}

impl IndexKey for String {
    type Family = ByteFamily;
    #[inline]
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }
    #[inline]
    fn decode(encoded: &[u8]) -> Self {
        String::from_utf8_lossy(encoded).into_owned()
    }
}

impl Probe<String> for str {
    #[inline]
    fn probe<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self.as_bytes())
    }
}

impl<const N: usize> IndexKey for [u8; N] {
    type Family = ByteFamily;
    #[inline]
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(self)
    }
    #[inline]
    fn decode(encoded: &[u8]) -> Self {
        let mut key = [0; N];
        let n = N.min(encoded.len());
        key[..n].copy_from_slice(&encoded[..n]);
        key
    }
}

impl IndexKey for u128 {
    type Family = ByteFamily;
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&self.to_be_bytes())
    }
    fn decode(encoded: &[u8]) -> Self {
        u128::from_be_bytes(<[u8; 16]>::decode(encoded))
    }
}

impl IndexKey for i128 {
    type Family = ByteFamily;
    fn encode<R>(&self, f: impl FnOnce(&[u8]) -> R) -> R {
        f(&((*self as u128) ^ (1 << 127)).to_be_bytes())
    }
    fn decode(encoded: &[u8]) -> Self {
        (u128::decode(encoded) ^ (1 << 127)) as i128
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: IndexKey<Family = ByteFamily> + Ord + Clone + std::fmt::Debug>(keys: &[K]) {
        for a in keys {
            assert_eq!(&a.encode(K::decode), a);
            for b in keys {
                let order = a.encode(|x| b.encode(|y| x.cmp(y)));
                assert_eq!(order, a.cmp(b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn byte_keys_keep_their_order_and_come_back() {
        check(&[
            "".to_string(),
            "a".into(),
            "a\0".into(),
            "ab".into(),
            "ß".into(),
        ]);
        check(&[vec![], vec![0u8], vec![0, 0], vec![255]]);
        check(&[[0u8, 1, 2], [0, 1, 3], [255, 0, 0]]);
        check(&[0u128, 1, 1 << 64, u128::MAX]);
        check(&[i128::MIN, -1, 0, 1, i128::MAX]);
    }
}
