//! Keys of several parts in one call, and back.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::fixed::{Composed, Parts, parts};

/// What can be a part of a key: numbers, texts, bytes, truth values, times.
pub trait KeyPart {
    /// The key so far, and this part.
    fn add_to(&self, key: Composed) -> Composed;
}

/// What a part of a key can be read as.
pub trait FromKeyPart: Sized {
    /// The next part, if it can be one of these.
    fn take_from(parts: &mut Parts<'_>) -> Option<Self>;
}

macro_rules! numbers {
    ($($number:ident)*) => {$(
        impl KeyPart for $number {
            fn add_to(&self, key: Composed) -> Composed {
                key.$number(*self)
            }
        }

        impl FromKeyPart for $number {
            fn take_from(parts: &mut Parts<'_>) -> Option<Self> {
                parts.$number()
            }
        }
    )*};
}

numbers! { u8 u16 u32 u64 u128 i8 i16 i32 i64 i128 f64 }

impl KeyPart for str {
    fn add_to(&self, key: Composed) -> Composed {
        key.text(self)
    }
}

impl KeyPart for String {
    fn add_to(&self, key: Composed) -> Composed {
        key.text(self)
    }
}

impl FromKeyPart for String {
    fn take_from(parts: &mut Parts<'_>) -> Option<Self> {
        parts.text().map(|text| text.into_owned())
    }
}

impl KeyPart for [u8] {
    fn add_to(&self, key: Composed) -> Composed {
        key.bytes(self)
    }
}

impl<const N: usize> KeyPart for [u8; N] {
    fn add_to(&self, key: Composed) -> Composed {
        key.bytes(self)
    }
}

impl KeyPart for Vec<u8> {
    fn add_to(&self, key: Composed) -> Composed {
        key.bytes(self)
    }
}

impl FromKeyPart for Vec<u8> {
    fn take_from(parts: &mut Parts<'_>) -> Option<Self> {
        parts.bytes().map(|bytes| bytes.into_owned())
    }
}

/// A byte: 0 for no, 1 for yes.
impl KeyPart for bool {
    fn add_to(&self, key: Composed) -> Composed {
        key.u8(u8::from(*self))
    }
}

impl FromKeyPart for bool {
    fn take_from(parts: &mut Parts<'_>) -> Option<Self> {
        match parts.u8()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
}

/// Nanoseconds since 1970 as a signed number of 128 bits, so that times before are in order too.
impl KeyPart for SystemTime {
    fn add_to(&self, key: Composed) -> Composed {
        let nanoseconds = |time: Duration| time.as_nanos() as i128;
        key.i128(match self.duration_since(UNIX_EPOCH) {
            Ok(since) => nanoseconds(since),
            Err(before) => -nanoseconds(before.duration()),
        })
    }
}

impl FromKeyPart for SystemTime {
    fn take_from(parts: &mut Parts<'_>) -> Option<Self> {
        let nanoseconds = parts.i128()?;
        let away = nanoseconds.unsigned_abs();
        let seconds = u64::try_from(away / 1_000_000_000).ok()?;
        let away = Duration::new(seconds, (away % 1_000_000_000) as u32);
        match nanoseconds < 0 {
            false => UNIX_EPOCH.checked_add(away),
            true => UNIX_EPOCH.checked_sub(away),
        }
    }
}

impl<P: KeyPart + ?Sized> KeyPart for &P {
    fn add_to(&self, key: Composed) -> Composed {
        (**self).add_to(key)
    }
}

/// All parts of a key.
pub trait KeyParts {
    /// The key of them.
    fn compose(&self) -> Composed;
}

/// What a key can be taken apart into.
pub trait FromKeyParts: Sized {
    /// All of them, in order; none where something else is there, or more.
    fn decompose(key: &[u8]) -> Option<Self>;
}

macro_rules! tuples {
    ($(($($part:ident $at:tt),+))*) => {$(
        impl<$($part: KeyPart),+> KeyParts for ($($part,)+) {
            fn compose(&self) -> Composed {
                let key = Composed::new();
                $(let key = self.$at.add_to(key);)+
                key
            }
        }

        impl<$($part: FromKeyPart),+> FromKeyParts for ($($part,)+) {
            fn decompose(key: &[u8]) -> Option<Self> {
                let mut parts = parts(key);
                let all = ($($part::take_from(&mut parts)?,)+);
                parts.is_at_end().then_some(all)
            }
        }
    )*};
}

tuples! {
    (A 0)
    (A 0, B 1)
    (A 0, B 1, C 2)
    (A 0, B 1, C 2, D 3)
    (A 0, B 1, C 2, D 3, E 4)
    (A 0, B 1, C 2, D 3, E 4, F 5)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6)
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7)
}

/// The key of several parts, in the order of the first part, then of the second, and so on. The same bytes as
/// [`Composed`] makes; in Python `encode.key`.
///
/// ```
/// use terrace::encode;
/// let key = encode::key(("kitchen", -5i64, true));
/// assert!(key < encode::key(("kitchen", 3i64, false)));
/// assert!(key.starts_with(&encode::key(("kitchen",))));
/// assert_eq!(encode::from_key(&key), Some(("kitchen".to_owned(), -5i64, true)));
/// assert_eq!(encode::from_key::<(String,)>(&key), None);
/// ```
pub fn key(parts: impl KeyParts) -> Vec<u8> {
    parts.compose().finish()
}

/// The parts of which [`key`] made these bytes, if they can be such: they do not say their types.
pub fn from_key<P: FromKeyParts>(key: &[u8]) -> Option<P> {
    P::decompose(key)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    type Parts3 = (String, i64, Vec<u8>);

    proptest! {
        #[test]
        fn keys_compare_as_their_parts_and_come_back(a: Parts3, b: Parts3) {
            let [x, y] = [&a, &b].map(|p| key((&p.0, &p.1, &p.2)));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(from_key::<Parts3>(&x), Some(a));
        }

        #[test]
        fn truth_and_times_do_too(a: (bool, i64, u32), b: (bool, i64, u32)) {
            let time = |seconds: i64, nanos: u32| {
                let away = Duration::new(seconds.unsigned_abs() >> 12, nanos % 1_000_000_000);
                match seconds < 0 {
                    true => UNIX_EPOCH - away,
                    false => UNIX_EPOCH + away,
                }
            };
            let (a, b) = ((a.0, time(a.1, a.2)), (b.0, time(b.1, b.2)));
            let [x, y] = [&a, &b].map(|p| key((p.0, p.1)));
            prop_assert_eq!(x.cmp(&y), a.cmp(&b));
            prop_assert_eq!(from_key::<(bool, SystemTime)>(&x), Some(a));
        }

        #[test]
        fn any_bytes_are_parts_or_none(bytes: Vec<u8>) {
            if let Some((text, number, rest)) = from_key::<Parts3>(&bytes) {
                prop_assert_eq!(&key((text, number, rest)), &bytes);
            }
            let _ = from_key::<(bool, SystemTime, f64, u128)>(&bytes);
        }
    }
}
