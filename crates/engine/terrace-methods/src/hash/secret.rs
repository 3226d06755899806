//! The hash: SipHash-1-3 with a secret of 128 bits that every table draws for itself.
//!
//! A keyed pseudo-random function (Aumasson and Bernstein, "SipHash: a fast short-input PRF"): who
//! does not know the secret cannot find keys that fall on one bucket, so no choice of keys makes a
//! table slow. All 64 bits are well mixed; the table uses them from the top.

/// The secret of a table, and with it its hash function. Two tiers of one structure share it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Secret(pub [u64; 2]);

/// The four words of state.
struct State(u64, u64, u64, u64);

impl State {
    #[inline(always)]
    fn round(&mut self) {
        let State(a, b, c, d) = self;
        *a = a.wrapping_add(*b);
        *c = c.wrapping_add(*d);
        *b = b.rotate_left(13) ^ *a;
        *d = d.rotate_left(16) ^ *c;
        *a = a.rotate_left(32);
        *c = c.wrapping_add(*b);
        *a = a.wrapping_add(*d);
        *b = b.rotate_left(17) ^ *c;
        *d = d.rotate_left(21) ^ *a;
        *c = c.rotate_left(32);
    }
}

impl Secret {
    /// The hash of a key. O(bytes).
    #[inline]
    pub fn hash(&self, key: &[u8]) -> u64 {
        #[cfg(test)]
        if self.0[0] == Secret::POOR {
            return self.sip::<1, 3>(key) & 7 << 61;
        }
        self.sip::<1, 3>(key)
    }

    /// Begins a secret with eight hashes in all, for tests of buckets that cannot be split.
    #[cfg(test)]
    pub const POOR: u64 = 0xBAD;

    /// SipHash with `C` rounds for each word of input and `D` at the end.
    #[inline(always)]
    fn sip<const C: usize, const D: usize>(&self, bytes: &[u8]) -> u64 {
        let [k0, k1] = self.0;
        let mut state = State(
            k0 ^ 0x736f_6d65_7073_6575,
            k1 ^ 0x646f_7261_6e64_6f6d,
            k0 ^ 0x6c79_6765_6e65_7261,
            k1 ^ 0x7465_6462_7974_6573,
        );
        let mut absorb = |word: u64| {
            state.3 ^= word;
            for _ in 0..C {
                state.round();
            }
            state.0 ^= word;
        };
        let (words, rest) = bytes.as_chunks::<8>();
        for word in words {
            absorb(u64::from_le_bytes(*word));
        }
        let mut last = (bytes.len() as u64) << 56;
        for (i, &byte) in rest.iter().enumerate() {
            last |= u64::from(byte) << (8 * i);
        }
        absorb(last);
        state.2 ^= 0xFF;
        for _ in 0..D {
            state.round();
        }
        state.0 ^ state.1 ^ state.2 ^ state.3
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::hash::{DefaultHasher, Hasher};

    #[test]
    fn it_is_the_published_function() {
        // Appendix A of the paper: SipHash-2-4 of 00 01 .. 0e under the key 00 01 .. 0f.
        let secret = Secret([0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908]);
        let input: Vec<u8> = (0..15).collect();
        assert_eq!(secret.sip::<2, 4>(&input), 0xa129_ca61_49be_45e5);
        // The standard library has SipHash-1-3 with the key 0.
        let bytes: Vec<u8> = (0..100u8).map(|i| i.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            let mut hasher = DefaultHasher::new();
            hasher.write(&bytes[..len]);
            assert_eq!(
                Secret([0, 0]).hash(&bytes[..len]),
                hasher.finish(),
                "{len} bytes"
            );
        }
    }
}
