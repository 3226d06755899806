//! Checksums: XXH3 with a seed, so that the place a block belongs to is part of its checksum.

/// 64-bit XXH3 of `bytes` under `seed`.
pub fn seeded(seed: u64, bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(bytes, seed)
}

/// 128-bit XXH3 of `bytes`: equal ones are taken for equal bytes where nobody makes them so on purpose.
pub fn wide(bytes: &[u8]) -> u128 {
    xxhash_rust::xxh3::xxh3_128(bytes)
}

/// 64-bit mix of two numbers, to make one seed of them (a page number and a generation, say).
pub fn mix(a: u64, b: u64) -> u64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.rotate_left(32);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}
