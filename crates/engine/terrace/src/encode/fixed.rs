//! Numbers of fixed lengths as bytes that compare as the numbers do, and keys of several parts.

use std::borrow::Cow;

/// What stands for a zero byte within a part of any length: above the end of a part, below every other byte.
const ZERO: [u8; 2] = [0, 0xFF];
/// The end of a part of any length.
const END: [u8; 2] = [0, 0];

macro_rules! unsigned {
    ($($number:ident $to:ident $bytes:literal;)*) => {$(
        #[doc = concat!("The bytes of an unsigned number: ", stringify!($bytes), ".")]
        pub fn $number(number: std::primitive::$number) -> [u8; $bytes] {
            number.to_be_bytes()
        }

        #[doc = concat!("The number of which [`", stringify!($number), "`](fn@", stringify!($number), ") made these bytes; none if they are not so many.")]
        pub fn $to(bytes: &[u8]) -> Option<std::primitive::$number> {
            bytes.try_into().ok().map(std::primitive::$number::from_be_bytes)
        }
    )*};
}

macro_rules! signed {
    ($($number:ident $to:ident $bytes:literal;)*) => {$(
        #[doc = concat!("The bytes of a signed number, negative ones below: ", stringify!($bytes), ".")]
        pub fn $number(number: std::primitive::$number) -> [u8; $bytes] {
            (number ^ std::primitive::$number::MIN).to_be_bytes()
        }

        #[doc = concat!("The number of which [`", stringify!($number), "`](fn@", stringify!($number), ") made these bytes; none if they are not so many.")]
        pub fn $to(bytes: &[u8]) -> Option<std::primitive::$number> {
            let bytes = bytes.try_into().ok()?;
            Some(std::primitive::$number::from_be_bytes(bytes) ^ std::primitive::$number::MIN)
        }
    )*};
}

unsigned! {
    u8 to_u8 1;
    u16 to_u16 2;
    u32 to_u32 4;
    u64 to_u64 8;
    u128 to_u128 16;
}

signed! {
    i8 to_i8 1;
    i16 to_i16 2;
    i32 to_i32 4;
    i64 to_i64 8;
    i128 to_i128 16;
}

/// The sign of a 64-bit number.
const SIGN: std::primitive::u64 = 1 << 63;

/// The bytes of a floating-point number, in the order of IEEE 754's `totalOrder` ([`f64::total_cmp`]): -0.0
/// is before 0.0, and what is no number before or behind all, by its sign.
///
/// [`f64::total_cmp`]: std::primitive::f64::total_cmp
pub fn f64(number: std::primitive::f64) -> [u8; 8] {
    let bits = number.to_bits();
    // Of negative numbers those with more bits are lower.
    let ordered = if bits & SIGN == 0 { bits | SIGN } else { !bits };
    ordered.to_be_bytes()
}

/// The number of which [`f64`](fn@f64) made these bytes, bit for bit; none if they are not eight.
pub fn to_f64(bytes: &[u8]) -> Option<std::primitive::f64> {
    let ordered = std::primitive::u64::from_be_bytes(bytes.try_into().ok()?);
    let bits = if ordered & SIGN == 0 {
        !ordered
    } else {
        ordered & !SIGN
    };
    Some(std::primitive::f64::from_bits(bits))
}

/// A key of several parts, which compare one after the other. What begins with the same parts lies together,
/// so that the bytes of the first parts are a prefix to look for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Composed(Vec<u8>);

macro_rules! parts {
    ($($number:ident $to:ident;)*) => {
        impl Composed {
            $(
                #[doc = concat!("And a number as [`", stringify!($number), "`](fn@", stringify!($number), ") writes it.")]
                #[must_use]
                pub fn $number(mut self, number: std::primitive::$number) -> Composed {
                    self.0.extend_from_slice(&$number(number));
                    self
                }
            )*
        }

        impl Parts<'_> {
            $(
                #[doc = concat!("The next part, if it can be one of [`Composed::", stringify!($number), "`].")]
                pub fn $number(&mut self) -> Option<std::primitive::$number> {
                    let (part, rest) = self.0.split_at_checked(size_of::<std::primitive::$number>())?;
                    self.0 = rest;
                    $to(part)
                }
            )*
        }
    };
}

parts! {
    u8 to_u8;
    u16 to_u16;
    u32 to_u32;
    u64 to_u64;
    u128 to_u128;
    i8 to_i8;
    i16 to_i16;
    i32 to_i32;
    i64 to_i64;
    i128 to_i128;
    f64 to_f64;
}

impl Composed {
    /// No part.
    pub fn new() -> Composed {
        Composed::default()
    }

    /// And any bytes, in their order: two more than they are, and one more for each zero among them.
    #[must_use]
    pub fn bytes(mut self, bytes: impl AsRef<[u8]>) -> Composed {
        for &byte in bytes.as_ref() {
            match byte {
                0 => self.0.extend_from_slice(&ZERO),
                byte => self.0.push(byte),
            }
        }
        self.0.extend_from_slice(&END);
        self
    }

    /// And a text, in the order of its bytes; see [`Composed::bytes`].
    #[must_use]
    pub fn text(self, text: impl AsRef<str>) -> Composed {
        self.bytes(text.as_ref())
    }

    /// The key, or what all keys with these first parts begin with.
    pub fn finish(self) -> Vec<u8> {
        self.0
    }
}

impl AsRef<[u8]> for Composed {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The parts of a key that [`Composed`] has made; they are asked for in the same order.
pub fn parts(key: &[u8]) -> Parts<'_> {
    Parts(key)
}

/// What is left of a key; see [`parts`].
#[derive(Clone, Copy, Debug)]
pub struct Parts<'k>(&'k [u8]);

impl<'k> Parts<'k> {
    /// The next part, if it can be one of [`Composed::bytes`].
    pub fn bytes(&mut self) -> Option<Cow<'k, [u8]>> {
        let mut out: Option<Vec<u8>> = None;
        let mut from = 0;
        loop {
            let zero = from + self.0.get(from..)?.iter().position(|&byte| byte == 0)?;
            let second = *self.0.get(zero + 1)?;
            let before = &self.0[from..zero];
            match [0, second] {
                END => {
                    let part = match out {
                        None => Cow::Borrowed(before),
                        Some(mut out) => {
                            out.extend_from_slice(before);
                            Cow::Owned(out)
                        }
                    };
                    self.0 = &self.0[zero + 2..];
                    return Some(part);
                }
                ZERO => {
                    let out = out.get_or_insert_default();
                    out.extend_from_slice(before);
                    out.push(0);
                    from = zero + 2;
                }
                _ => return None,
            }
        }
    }

    /// The next part, if it can be one of [`Composed::text`].
    pub fn text(&mut self) -> Option<Cow<'k, str>> {
        let mut after = *self;
        let text = match after.bytes()? {
            Cow::Borrowed(bytes) => Cow::Borrowed(std::str::from_utf8(bytes).ok()?),
            Cow::Owned(bytes) => Cow::Owned(String::from_utf8(bytes).ok()?),
        };
        *self = after;
        Some(text)
    }

    /// What is behind the parts that were asked for, as it is in the key: other parts, or bytes that no part is.
    pub fn rest(&self) -> &'k [u8] {
        self.0
    }

    /// Whether there is no more.
    pub fn is_at_end(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    macro_rules! numbers {
        ($($number:ident $to:ident;)*) => {
            proptest! {$(
                #[test]
                fn $number(a: std::primitive::$number, b: std::primitive::$number) {
                    let of = super::$number;
                    prop_assert_eq!($to(&of(a)), Some(a));
                    prop_assert_eq!(of(a).cmp(&of(b)), a.cmp(&b));
                    prop_assert_eq!($to(&[0; 17]), None);
                }
            )*}
        };
    }

    numbers! {
        u8 to_u8;
        u16 to_u16;
        u32 to_u32;
        u64 to_u64;
        u128 to_u128;
        i8 to_i8;
        i16 to_i16;
        i32 to_i32;
        i64 to_i64;
        i128 to_i128;
    }

    /// Few different bytes, those that matter among them.
    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![Just(0), Just(1), Just(254), Just(255)], 0..5)
    }

    proptest! {
        #[test]
        fn floating_point(a: [u8; 8], b: [u8; 8]) {
            let [a, b] = [a, b].map(std::primitive::f64::from_le_bytes);
            prop_assert_eq!(super::f64(a).cmp(&super::f64(b)), a.total_cmp(&b));
            let bits = to_f64(&super::f64(a)).map(std::primitive::f64::to_bits);
            prop_assert_eq!(bits, Some(a.to_bits()));
        }

        #[test]
        fn composed(a: (std::primitive::i16, std::primitive::u8), x in (bytes(), bytes()), b: (std::primitive::i16, std::primitive::u8), y in (bytes(), bytes())) {
            let key = |(i, u): (std::primitive::i16, std::primitive::u8), (s, t): &(Vec<u8>, Vec<u8>)| {
                Composed::new().bytes(s).i16(i).bytes(t).u8(u).finish()
            };
            let (one, other) = (key(a, &x), key(b, &y));
            prop_assert_eq!(one.cmp(&other), (&x.0, a.0, &x.1, a.1).cmp(&(&y.0, b.0, &y.1, b.1)));
            let mut parts = parts(&one);
            prop_assert!(parts.bytes().is_some_and(|bytes| *bytes == *x.0));
            prop_assert_eq!(parts.i16(), Some(a.0));
            prop_assert!(parts.bytes().is_some_and(|bytes| *bytes == *x.1));
            prop_assert_eq!(parts.u8(), Some(a.1));
            prop_assert!(parts.is_at_end() && parts.u8().is_none() && parts.bytes().is_none());
        }

        #[test]
        fn any_bytes_are_parts_or_none(key: Vec<u8>) {
            let mut parts = parts(&key);
            while parts.text().is_some() || parts.bytes().is_some() || parts.u8().is_some() {}
        }
    }

    #[test]
    fn known_floating_point_is_in_order() {
        let all = [
            std::primitive::f64::NEG_INFINITY,
            -1e300,
            -1.5,
            -0.0,
            0.0,
            5e-324,
            1.0,
            1e300,
            std::primitive::f64::INFINITY,
            std::primitive::f64::NAN,
        ];
        assert!(
            all.windows(2)
                .all(|pair| super::f64(pair[0]) < super::f64(pair[1]))
        );
    }
}
