//! What is kept of a value that was read, to tell later whether it is still the same.

use std::hash::{BuildHasher, RandomState};
use std::sync::OnceLock;

use siphasher::sip128::{Hasher128, SipHasher24};

/// Longer values are kept as a hash.
const MOST_KEPT_BYTES: usize = 32;

/// A value, a hash of it, or that there was none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Print {
    /// There was no such record.
    Absent,
    /// The value.
    Value(Box<[u8]>),
    /// SipHash-2-4 of 128 bits with a secret of the process: two values that have the same cannot be made on purpose.
    Hash(u128),
}

impl Print {
    /// Of this value.
    pub fn of(value: Option<&[u8]>) -> Print {
        match value {
            None => Print::Absent,
            Some(value) if value.len() <= MOST_KEPT_BYTES => Print::Value(value.into()),
            Some(value) => {
                let (a, b) = *secret();
                let mut hasher = SipHasher24::new_with_keys(a, b);
                std::hash::Hasher::write(&mut hasher, value);
                Print::Hash(hasher.finish128().as_u128())
            }
        }
    }
}

fn secret() -> &'static (u64, u64) {
    static SECRET: OnceLock<(u64, u64)> = OnceLock::new();
    SECRET.get_or_init(|| {
        // What cannot be guessed, as for the standard library's maps.
        (
            RandomState::new().hash_one(1u8),
            RandomState::new().hash_one(2u8),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_that_differ_have_prints_that_differ() {
        let long = [7u8; 100];
        let mut other = long;
        other[99] = 8;
        let all = [
            Print::of(None),
            Print::of(Some(b"")),
            Print::of(Some(b"a")),
            Print::of(Some(&long)),
            Print::of(Some(&other)),
        ];
        for (i, a) in all.iter().enumerate() {
            for (j, b) in all.iter().enumerate() {
                assert_eq!(a == b, i == j);
            }
        }
        assert_eq!(Print::of(Some(&long)), Print::of(Some(&[7; 100])));
    }
}
