//! Keys as bytes in the same order, of which none begins another.

/// A key that a radix tree can hold. Encoded it has at most 512 bytes; a longer one is
/// refused.
pub trait ArtKey: Ord {
    /// Appends bytes that are in the order of the keys, and of which none is the beginning of
    /// another's.
    fn bytes(&self, into: &mut Vec<u8>);
}

/// Encoded bytes of the longest key: as deep may a tree be, and so often its functions call
/// themselves.
pub const MOST_KEY: usize = 512;

macro_rules! unsigned {
    ($($kind:ty)*) => {
        $(impl ArtKey for $kind {
            fn bytes(&self, into: &mut Vec<u8>) {
                into.extend(self.to_be_bytes());
            }
        })*
    };
}

macro_rules! signed {
    ($($kind:ty, $half:expr;)*) => {
        $(impl ArtKey for $kind {
            fn bytes(&self, into: &mut Vec<u8>) {
                // The sign is the other way round in the order of bytes.
                into.extend((*self ^ $half).to_be_bytes());
            }
        })*
    };
}

unsigned!(u8 u16 u32 u64 u128 usize);
signed!(i8, i8::MIN; i16, i16::MIN; i32, i32::MIN; i64, i64::MIN; i128, i128::MIN;);

impl ArtKey for [u8] {
    /// A zero is followed by a one, and two zeros are the end.
    fn bytes(&self, into: &mut Vec<u8>) {
        for &byte in self {
            into.push(byte);
            if byte == 0 {
                into.push(1);
            }
        }
        into.extend([0, 0]);
    }
}

impl ArtKey for str {
    fn bytes(&self, into: &mut Vec<u8>) {
        self.as_bytes().bytes(into);
    }
}

impl ArtKey for String {
    fn bytes(&self, into: &mut Vec<u8>) {
        self.as_bytes().bytes(into);
    }
}

impl ArtKey for &str {
    fn bytes(&self, into: &mut Vec<u8>) {
        self.as_bytes().bytes(into);
    }
}

impl ArtKey for Vec<u8> {
    fn bytes(&self, into: &mut Vec<u8>) {
        self.as_slice().bytes(into);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of<K: ArtKey + ?Sized>(key: &K) -> Vec<u8> {
        let mut bytes = vec![];
        key.bytes(&mut bytes);
        bytes
    }

    proptest! {
        #[test]
        fn bytes_are_in_the_order_of_strings_and_none_begins_another(
            a in prop::collection::vec(0u8..3, 0..6),
            b in prop::collection::vec(0u8..3, 0..6),
        ) {
            prop_assert_eq!(of(&a).cmp(&of(&b)), a.cmp(&b));
            prop_assert!(a == b || !of(&b).starts_with(&of(&a)));
        }

        #[test]
        fn bytes_are_in_the_order_of_numbers(a: i64, b: i64, c: u128, d: u128) {
            prop_assert_eq!(of(&a).cmp(&of(&b)), a.cmp(&b));
            prop_assert_eq!(of(&c).cmp(&of(&d)), c.cmp(&d));
        }
    }
}
