//! Rows as bytes: fields one after the other, numbers in little endian, texts behind their length.

/// A field of a row.
pub trait Field: Sized {
    /// Appends it.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads it, and moves on; what is missing reads as zeros.
    fn read(from: &mut &[u8]) -> Self;
}

fn take<const N: usize>(from: &mut &[u8]) -> [u8; N] {
    let mut bytes = [0; N];
    let n = N.min(from.len());
    bytes[..n].copy_from_slice(&from[..n]);
    *from = &from[n..];
    bytes
}

macro_rules! numbers {
    ($($t:ty),*) => {$(
        impl Field for $t {
            fn write(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            fn read(from: &mut &[u8]) -> Self {
                <$t>::from_le_bytes(take(from))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64);

impl Field for String {
    fn write(&self, out: &mut Vec<u8>) {
        (self.len() as u16).write(out);
        out.extend_from_slice(self.as_bytes());
    }
    fn read(from: &mut &[u8]) -> Self {
        let n = usize::from(u16::read(from)).min(from.len());
        let (text, rest) = from.split_at(n);
        *from = rest;
        String::from_utf8_lossy(text).into_owned()
    }
}

/// A type of rows.
macro_rules! row {
    ($(#[$doc:meta])* $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$doc])*
        #[allow(missing_docs)]
        #[derive(Clone, Debug, Default, PartialEq)]
        pub struct $name { $(pub $field: $type),* }

        impl $name {
            /// The row as bytes.
            pub fn bytes(&self) -> Vec<u8> {
                let mut out = Vec::new();
                $($crate::row::Field::write(&self.$field, &mut out);)*
                out
            }

            /// The row of these bytes.
            pub fn of(mut bytes: &[u8]) -> $name {
                let from = &mut bytes;
                $(let $field = $crate::row::Field::read(from);)*
                $name { $($field),* }
            }
        }
    };
}
pub(crate) use row;

/// A text of this many letters that follows from a number.
pub fn text(rng: &mut terrace_bench::rng::Rng, shortest: u64, longest: u64) -> String {
    let len = shortest + rng.below(longest - shortest + 1);
    (0..len)
        .map(|_| char::from(b'a' + rng.below(26) as u8))
        .collect()
}

/// A key of parts, filled up with zeros to 8 bytes.
pub fn key(parts: &[&[u8]]) -> [u8; 8] {
    let mut key = [0; 8];
    let mut at = 0;
    for part in parts {
        key[at..at + part.len()].copy_from_slice(part);
        at += part.len();
    }
    key
}

/// The next greater key of the same length: the end of the range of all that begin with these.
pub fn past(prefix: &[u8]) -> Vec<u8> {
    let mut past = prefix.to_vec();
    while let Some(last) = past.last_mut() {
        if *last < 0xff {
            *last += 1;
            return past;
        }
        past.pop();
    }
    vec![0xff; 9]
}

#[cfg(test)]
mod tests {
    use super::*;

    row!(
        /// A row.
        Sample { a: u8, b: i64, c: String, d: u16 }
    );

    #[test]
    fn rows_come_back_and_torn_ones_do_not_panic() {
        let row = Sample {
            a: 7,
            b: -5,
            c: "Riga".into(),
            d: 300,
        };
        let bytes = row.bytes();
        assert_eq!(Sample::of(&bytes), row);
        for n in 0..bytes.len() {
            Sample::of(&bytes[..n]);
        }
        assert_eq!(past(&[1, 0xff]), [2]);
    }
}
