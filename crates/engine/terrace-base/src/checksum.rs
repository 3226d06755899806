//! Checksums: XXH3 with a seed, so that the place a block belongs to is part of its checksum.

/// 64-bit XXH3 of `bytes` under `seed`.
pub fn seeded(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// What [`seeded`] gives of bytes that come a part at a time.
#[derive(Clone)]
pub struct Sum(xxhash_rust::xxh3::Xxh3);

impl Sum {
    /// Of no bytes so far.
    pub fn new(seed: u64) -> Sum {
        Sum(xxhash_rust::xxh3::Xxh3::with_seed(seed))
    }

    /// Further bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// That of all so far.
    pub fn value(&self) -> u64 {
        self.0.digest()
    }
}

/// 128-bit XXH3 of `bytes`: equal ones are taken for equal bytes where they were not made so on purpose.
pub fn wide(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

/// 64-bit mix of two numbers, to make one seed of them (a page number and a generation, say).
#[inline]
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sum_of_parts_is_that_of_the_whole() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i * 7 / 3) as u8).collect();
        for step in [1, 36, 255, 4096, 70_000] {
            let mut sum = Sum::new(77);
            bytes.chunks(step).for_each(|part| sum.add(part));
            assert_eq!(sum.value(), seeded(77, &bytes), "{step} bytes at a time");
        }
        assert_eq!(Sum::new(5).value(), seeded(5, b""));
    }
}
