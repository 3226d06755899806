//! The two forms keys are stored in: which containers each has, and how its keys are told apart.

use crate::dynamic::{ByteKeys, CAP, FANOUT, IntKeys};
use crate::family::{ByteFamily, Family, IntFamily};
use crate::fences::{ByteFences, IntFences};
use crate::prefix::common_prefix;
use crate::shortcuts::{ByteShortcuts, NoShortcuts};
use crate::stage::{ByteRun, ByteStage, FixedBytes, IntStage};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::cmp::Ordering;

impl Family for IntFamily {
    type Ref<'a> = u64;
    type Buf = u64;
    type LeafKeys = IntKeys<CAP>;
    type InnerKeys = IntKeys<FANOUT>;
    type Run = Vec<u64>;
    type Fixed = Box<[u64]>;
    type Fences = IntFences;
    type Stage = IntStage;
    type Shortcuts = NoShortcuts;
    #[cfg(feature = "pairs")]
    type Whole = crate::dynamic::pairs::Inline;

    #[inline]
    fn as_bytes<'k: 'r, 'r>(key: u64, room: &'r mut [u8; 8]) -> &'r [u8] {
        *room = key.to_be_bytes();
        room
    }
    #[inline]
    fn of_bytes(bytes: &[u8]) -> u64 {
        bytes.first_chunk().map_or(0, |b| u64::from_be_bytes(*b))
    }

    #[cfg(feature = "place")]
    const KEY_WORDS: usize = 1;
    #[cfg(feature = "place")]
    #[inline]
    fn pack(key: u64, into: &mut [u64]) -> bool {
        into[0] = key;
        true
    }
    #[cfg(feature = "place")]
    fn packed_hash(words: &[u64]) -> u64 {
        Self::hash(words[0])
    }
    #[cfg(feature = "place")]
    type CopyKey = u64;
    #[cfg(feature = "place")]
    #[inline]
    fn copy_key(key: u64) -> Option<u64> {
        Some(key)
    }
    #[cfg(feature = "place")]
    fn copy_hash(key: &u64) -> u64 {
        Self::hash(*key)
    }

    #[inline]
    fn cmp(a: u64, b: u64) -> Ordering {
        a.cmp(&b)
    }
    #[inline]
    fn hash(key: u64) -> u64 {
        let wide = u128::from(key ^ 0x9E37_79B9_7F4A_7C15) * 0xD6E8_FEB8_6659_FD93_u128;
        (wide as u64) ^ ((wide >> 64) as u64)
    }
    #[inline]
    fn size(_: u64) -> usize {
        8
    }
    #[inline]
    fn store(key: u64, into: &mut u64) {
        *into = key;
    }
    #[inline]
    fn load(buf: &u64) -> u64 {
        *buf
    }
    fn shorten(_: u64, _: &mut u64) {}
    fn successor(key: &mut u64) -> bool {
        match key.checked_add(1) {
            Some(next) => {
                *key = next;
                true
            }
            None => false,
        }
    }
    fn heap(_: &u64) -> usize {
        0
    }
}

impl ByteFamily {
    /// Digits of pi, as good as any. The hash is the same in each program, so keys can be chosen
    /// that have one hash, and are looked for in many blocks of their segment.
    const WORDS: [u64; 4] = [
        0x243F_6A88_85A3_08D3,
        0x1319_8A2E_0370_7344,
        0xA409_3822_299F_31D0,
        0x082E_FA98_EC4E_6C89,
    ];
}

impl Family for ByteFamily {
    type Ref<'a> = &'a [u8];
    type Buf = Vec<u8>;
    type LeafKeys = ByteKeys<CAP>;
    type InnerKeys = ByteKeys<FANOUT>;
    type Run = ByteRun;
    type Fixed = FixedBytes;
    type Fences = ByteFences;
    type Stage = ByteStage;
    type Shortcuts = ByteShortcuts;
    #[cfg(feature = "pairs")]
    type Whole = crate::dynamic::pairs::Classes;

    #[inline]
    fn as_bytes<'k: 'r, 'r>(key: &'k [u8], _: &'r mut [u8; 8]) -> &'r [u8] {
        key
    }
    #[inline]
    fn of_bytes(bytes: &[u8]) -> &[u8] {
        bytes
    }

    // 39 bytes and the length: most keys are shorter, and two such records fill a set.
    #[cfg(feature = "place")]
    const KEY_WORDS: usize = 5;
    #[cfg(feature = "place")]
    #[inline]
    fn pack(key: &[u8], into: &mut [u64]) -> bool {
        let mut bytes = [0; Self::KEY_WORDS * 8];
        let most = bytes.len() - 1;
        let Some(start) = bytes[..most].get_mut(..key.len()) else {
            return false;
        };
        start.copy_from_slice(key);
        bytes[most] = key.len() as u8;
        for (word, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        true
    }
    #[cfg(feature = "place")]
    fn packed_hash(words: &[u64]) -> u64 {
        let key = words.first_chunk();
        key.map_or(0, Self::copy_hash)
    }
    #[cfg(feature = "place")]
    type CopyKey = [u64; Self::KEY_WORDS];
    #[cfg(feature = "place")]
    fn copy_key(key: &[u8]) -> Option<Self::CopyKey> {
        let mut words = Self::CopyKey::default();
        Self::pack(key, &mut words).then_some(words)
    }
    #[cfg(feature = "place")]
    fn copy_hash(key: &Self::CopyKey) -> u64 {
        let mut bytes = [0; Self::KEY_WORDS * 8];
        for (word, bytes) in key.iter().zip(bytes.as_chunks_mut().0) {
            *bytes = word.to_le_bytes();
        }
        let most = bytes.len() - 1;
        Self::hash(&bytes[..usize::from(bytes[most]).min(most)])
    }

    #[inline]
    fn cmp(a: &[u8], b: &[u8]) -> Ordering {
        a.cmp(b)
    }
    #[inline]
    fn hash(key: &[u8]) -> u64 {
        const K: [u64; 4] = ByteFamily::WORDS;
        /// Their sum is in the result beside their product, or nothing but 0 would be left of one of
        /// them where the other one is 0.
        #[inline]
        fn fold(a: u64, b: u64) -> u64 {
            let wide = u128::from(a) * u128::from(b);
            (wide as u64) ^ ((wide >> 64) as u64) ^ a.wrapping_add(b)
        }
        let word = |bytes: &[u8]| bytes.first_chunk().map_or(0, |b| u64::from_le_bytes(*b));
        let (mut state, n) = (K[3] ^ key.len() as u64, key.len());
        // Two words of the beginning and two of the end, which may overlap, are all of most keys.
        let (a, b) = match n {
            16.. => {
                let mut rest = key;
                while rest.len() > 32 {
                    state = fold(word(rest) ^ K[0], word(&rest[8..]) ^ state);
                    rest = &rest[16..];
                }
                state = fold(word(rest) ^ K[0], word(&rest[8..]) ^ state);
                (word(&key[n - 16..]), word(&key[n - 8..]))
            }
            8.. => (word(key), word(&key[n - 8..])),
            4.. => {
                let half = |at: usize| {
                    let bytes = key[at..].first_chunk().copied().unwrap_or_default();
                    u64::from(u32::from_le_bytes(bytes))
                };
                (half(0), half(n - 4))
            }
            1.. => {
                let ends = u64::from(key[0]) << 8 | u64::from(key[n - 1]);
                (ends, u64::from(key[n / 2]))
            }
            0 => (0, 0),
        };
        // Added, since the last words may be in the state as well, and would cancel out.
        let mixed = fold(a ^ K[1], b.wrapping_add(state));
        let wide = u128::from(mixed ^ K[2]) * u128::from(K[0]);
        (wide as u64) ^ ((wide >> 64) as u64)
    }
    #[inline]
    fn size(key: &[u8]) -> usize {
        key.len()
    }
    fn store(key: &[u8], into: &mut Vec<u8>) {
        into.clear();
        into.extend_from_slice(key);
    }
    #[inline]
    fn load(buf: &Vec<u8>) -> &[u8] {
        buf
    }
    fn shorten(left: &[u8], buf: &mut Vec<u8>) {
        buf.truncate(common_prefix(left, buf) + 1);
    }
    fn successor(key: &mut Vec<u8>) -> bool {
        key.push(0);
        true
    }
    fn heap(buf: &Vec<u8>) -> usize {
        buf.capacity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words that make a factor 0, wherever they stand, beside bytes that differ.
    #[test]
    fn no_word_of_a_key_hides_the_others_from_its_hash() {
        for word in ByteFamily::WORDS {
            for (before, behind) in [(0, 8), (8, 0), (8, 8), (16, 16), (8, 24)] {
                let mut hashes: Vec<u64> = (0..500u64)
                    .map(|i| {
                        let mut key = vec![0; before + 8 + behind];
                        key[before..before + 8].copy_from_slice(&word.to_le_bytes());
                        let at = if before > 0 { 0 } else { 8 };
                        key[at..at + 8].copy_from_slice(&i.to_be_bytes());
                        ByteFamily::hash(&key)
                    })
                    .collect();
                hashes.sort_unstable();
                hashes.dedup();
                // A word that stands in both factors may leave a few with one hash.
                assert!(hashes.len() > 100, "{word:x} behind {before} bytes");
            }
        }
    }

    /// Keys of all lengths that differ in one byte, in their length or in their order.
    #[test]
    fn hashes_of_near_keys_differ_in_all_their_parts() {
        let mut keys = vec![Vec::new()];
        for n in 1..if cfg!(miri) { 36 } else { 80 } {
            for at in 0..n {
                let mut key = vec![b'a'; n];
                key[at] = b'b';
                keys.push(key);
            }
            keys.push(vec![b'a'; n]);
        }
        let n = keys.len();
        for part in [0, 8, 16, 32, 48] {
            let mut used = vec![0; 1 << 16];
            for key in &keys {
                used[(ByteFamily::hash(key) >> part) as usize & 0xFFFF] += 1;
            }
            let met: usize = used
                .iter()
                .map(|&k: &usize| k * k.saturating_sub(1) / 2)
                .sum();
            // As many as by chance: n (n - 1) / 2 pairs, one in 65536 of them.
            assert!(met < n * n / 65536, "{met} of {n} meet at bit {part}");
        }
    }
}
