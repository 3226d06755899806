//! A random-looking permutation of `0..n` in constant memory.
//!
//! A table would cost eight bytes per record of the benchmark's own memory and so spoil the very
//! number that the benchmark is there to measure: how much memory the store needs.

use crate::rng::mix;

const ROUNDS: usize = 4;

/// A bijection of `0..n`: a Feistel network over the next power of two, walked until it lands
/// inside (less than two rounds of walking on average, since at least half of the domain is
/// inside).
#[derive(Clone, Debug)]
pub struct Permutation {
    n: u64,
    low_bits: u32,
    low_mask: u64,
    high_mask: u64,
    keys: [u64; ROUNDS],
}

impl Permutation {
    /// The permutation of `0..n` that belongs to `seed`.
    pub fn new(n: u64, seed: u64) -> Self {
        let bits = match n {
            0 | 1 => 0,
            _ => 64 - (n - 1).leading_zeros(),
        };
        let low_bits = bits / 2;
        let high_bits = bits - low_bits;
        let mask = |bits: u32| {
            if bits == 0 {
                0
            } else {
                u64::MAX >> (64 - bits)
            }
        };
        let mut keys = [0; ROUNDS];
        for (round, key) in keys.iter_mut().enumerate() {
            *key = mix(seed ^ mix(round as u64 + 1));
        }
        Permutation {
            n,
            low_bits,
            low_mask: mask(low_bits),
            high_mask: mask(high_bits),
            keys,
        }
    }

    /// How many numbers it permutes.
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Whether there is nothing to permute.
    pub fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Where `i` goes. `i` must be below `n`.
    #[inline]
    pub fn apply(&self, i: u64) -> u64 {
        debug_assert!(i < self.n);
        let mut x = i;
        loop {
            x = self.forward(x);
            if x < self.n {
                return x;
            }
        }
    }

    /// What comes to `j`: the inverse of [`Permutation::apply`].
    #[inline]
    pub fn invert(&self, j: u64) -> u64 {
        debug_assert!(j < self.n);
        let mut x = j;
        loop {
            x = self.backward(x);
            if x < self.n {
                return x;
            }
        }
    }

    fn forward(&self, x: u64) -> u64 {
        let (mut low, mut high) = (x & self.low_mask, x >> self.low_bits);
        for (round, key) in self.keys.iter().enumerate() {
            if round % 2 == 0 {
                low ^= mix(high ^ key) & self.low_mask;
            } else {
                high ^= mix(low ^ key) & self.high_mask;
            }
        }
        high << self.low_bits | low
    }

    fn backward(&self, x: u64) -> u64 {
        let (mut low, mut high) = (x & self.low_mask, x >> self.low_bits);
        for (round, key) in self.keys.iter().enumerate().rev() {
            if round % 2 == 0 {
                low ^= mix(high ^ key) & self.low_mask;
            } else {
                high ^= mix(low ^ key) & self.high_mask;
            }
        }
        high << self.low_bits | low
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_a_bijection_for_every_small_size() {
        for n in 1..300 {
            let p = Permutation::new(n, 42);
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let j = p.apply(i);
                assert!(
                    !std::mem::replace(&mut seen[j as usize], true),
                    "n {n}: {j} twice"
                );
                assert_eq!(p.invert(j), i);
            }
        }
    }

    #[test]
    fn inverts_near_the_largest_sizes() {
        for n in [1u64 << 40, (1 << 40) + 1, u64::MAX] {
            let p = Permutation::new(n, 1);
            for i in [0, 1, n / 3, n - 1] {
                assert_eq!(p.invert(p.apply(i)), i);
            }
        }
    }

    #[test]
    fn neighbours_are_torn_apart() {
        let n = 1_000_000;
        let p = Permutation::new(n, 5);
        let near = (0..10_000)
            .filter(|&i| p.apply(i).abs_diff(p.apply(i + 1)) < n / 100)
            .count();
        // Two random points lie within a hundredth of each other with a chance of about 2 %.
        assert!((120..280).contains(&near), "{near}");
    }

    #[test]
    fn seeds_give_different_permutations() {
        let (a, b) = (Permutation::new(100_000, 1), Permutation::new(100_000, 2));
        let same = (0..100_000).filter(|&i| a.apply(i) == b.apply(i)).count();
        assert!(same < 10, "{same}");
    }
}
