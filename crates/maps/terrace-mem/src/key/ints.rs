//! Keys of at most 64 bits, stored as a `u64` of the same order.

use super::index::IndexKey;
use crate::family::IntFamily;

macro_rules! unsigned {
    ($($t:ty),*) => {$(
        impl IndexKey for $t {
            type Family = IntFamily;
            #[inline]
            fn encode<R>(&self, f: impl FnOnce(u64) -> R) -> R {
                f(*self as u64)
            }
            #[inline]
            fn decode(encoded: u64) -> Self {
                encoded as $t
            }
        }
    )*};
}

/// Signed integers: flipping the sign bit of the widened number keeps the order.
macro_rules! signed {
    ($($t:ty),*) => {$(
        impl IndexKey for $t {
            type Family = IntFamily;
            #[inline]
            fn encode<R>(&self, f: impl FnOnce(u64) -> R) -> R {
                f((*self as i64 as u64) ^ (1 << 63))
            }
            #[inline]
            fn decode(encoded: u64) -> Self {
                (encoded ^ (1 << 63)) as i64 as $t
            }
        }
    )*};
}

unsigned!(u8, u16, u32, u64, usize);
signed!(i8, i16, i32, i64, isize);

impl IndexKey for bool {
    type Family = IntFamily;
    fn encode<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        f(u64::from(*self))
    }
    fn decode(encoded: u64) -> Self {
        encoded != 0
    }
}

impl IndexKey for char {
    type Family = IntFamily;
    fn encode<R>(&self, f: impl FnOnce(u64) -> R) -> R {
        f(u64::from(u32::from(*self)))
    }
    fn decode(encoded: u64) -> Self {
        char::from_u32(encoded as u32).unwrap_or(char::REPLACEMENT_CHARACTER)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<K: IndexKey<Family = IntFamily> + Ord + Copy + std::fmt::Debug>(keys: &[K]) {
        for &a in keys {
            assert_eq!(a.encode(K::decode), a);
            for &b in keys {
                let (ea, eb) = (a.encode(|x| x), b.encode(|x| x));
                assert_eq!(ea.cmp(&eb), a.cmp(&b), "{a:?} {b:?}");
            }
        }
    }

    #[test]
    fn integers_keep_their_order_and_come_back() {
        check(&[0u8, 1, 127, 128, 255]);
        check(&[0u64, 1, u64::MAX / 2, u64::MAX - 1, u64::MAX]);
        check(&[i8::MIN, -1, 0, 1, i8::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[i32::MIN, -7, 0, 7, i32::MAX]);
        check(&[false, true]);
        check(&['\0', 'a', 'ß', '\u{10FFFF}']);
    }
}
