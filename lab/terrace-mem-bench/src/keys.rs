//! The key sets: what they can do, and the random, monotonic and clustered integers.

use crate::random::{Random, mix, shuffle};

/// A set of distinct keys in the order they are inserted.
pub trait KeySet {
    /// One key.
    type Key: ?Sized + 'static;
    /// How many there are.
    fn len(&self) -> usize;
    /// Key `i`.
    fn get(&self, i: usize) -> &Self::Key;
    /// Bytes of all keys.
    fn bytes(&self) -> usize;
    /// The keys at these places, copied so that they lie in order of use.
    fn pick(&self, places: &[usize]) -> Self;
}

impl KeySet for Vec<u64> {
    type Key = u64;
    fn len(&self) -> usize {
        Vec::len(self)
    }
    fn get(&self, i: usize) -> &u64 {
        &self[i]
    }
    fn bytes(&self) -> usize {
        self.len() * 8
    }
    fn pick(&self, places: &[usize]) -> Self {
        places.iter().map(|&i| self[i]).collect()
    }
}

/// Uniform over all 64-bit numbers.
pub fn random(n: usize) -> Vec<u64> {
    (0..n as u64)
        .map(|i| mix(i.wrapping_mul(0x9E37_79B9_7F4A_7C15)))
        .collect()
}

/// One after the other.
pub fn monotonic(n: usize) -> Vec<u64> {
    (0..n as u64).collect()
}

/// Runs of up to 512 consecutive numbers that start anywhere, in random order.
pub fn clustered(n: usize) -> Vec<u64> {
    let mut random = Random(7);
    let mut keys = Vec::with_capacity(n + 512);
    while keys.len() < n {
        // The starts are 2^12 apart at least, so that no run meets another.
        let start = random.next() & !0xFFF;
        let len = 1 + random.below(512) as u64;
        keys.extend(start..start + len);
    }
    keys.sort_unstable();
    keys.dedup();
    keys.truncate(n);
    shuffle(&mut keys, &mut random);
    keys
}
