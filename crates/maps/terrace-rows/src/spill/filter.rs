//! What may be cold: a Bloom filter whose bits of a key lie in one cache line, ten bits for each key.

/// Bits for each key: one of a hundred keys that are not there is looked for in vain.
const BITS: u64 = 10;
/// Bits that are set for a key.
const SET: u32 = 6;
/// Keys for which there is room at the beginning.
const LEAST: u64 = 4096;

/// The filter.
pub struct Filter {
    lines: Vec<[u64; 8]>,
    keys: u64,
}

/// The hash of a key of some kind.
pub fn hash(kind: u64, key: &[u8]) -> u64 {
    let mut hash = mix(kind ^ (key.len() as u64) << 32);
    let (words, rest) = key.as_chunks::<8>();
    for word in words {
        hash = mix(hash ^ u64::from_le_bytes(*word));
    }
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(hash ^ u64::from_le_bytes(last))
}

fn mix(mut x: u64) -> u64 {
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x = (x ^ (x >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^ (x >> 32)
}

impl Filter {
    /// One with room for so many keys.
    pub fn new(keys: u64) -> Filter {
        let lines = (keys.max(LEAST) * BITS).div_ceil(512) as usize;
        Filter {
            lines: vec![[0; 8]; lines],
            keys: 0,
        }
    }

    fn line(&self, hash: u64) -> usize {
        ((u128::from(hash) * self.lines.len() as u128) >> 64) as usize
    }

    /// Adds a key; whether it was not known.
    pub fn add(&mut self, hash: u64) -> bool {
        let at = self.line(hash);
        let line = &mut self.lines[at];
        let mut new = false;
        for n in 0..SET {
            let bit = (mix(hash) >> (n * 9)) & 511;
            let mask = 1 << (bit & 63);
            new |= line[(bit >> 6) as usize] & mask == 0;
            line[(bit >> 6) as usize] |= mask;
        }
        self.keys += u64::from(new);
        new
    }

    /// Whether a key may be in it.
    pub fn may(&self, hash: u64) -> bool {
        let line = &self.lines[self.line(hash)];
        (0..SET).all(|n| {
            let bit = (mix(hash) >> (n * 9)) & 511;
            line[(bit >> 6) as usize] & 1 << (bit & 63) != 0
        })
    }

    /// Whether it holds as many keys as it has room for.
    pub fn is_full(&self) -> bool {
        self.keys * BITS >= self.lines.len() as u64 * 512
    }

    /// The keys that it has seen.
    pub fn keys(&self) -> u64 {
        self.keys
    }

    /// Its bytes.
    pub fn memory(&self) -> usize {
        self.lines.capacity() * 64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_and_little_else() {
        let mut filter = Filter::new(20_000);
        (0..20_000u64).for_each(|n| {
            filter.add(hash(0, &n.to_be_bytes()));
        });
        assert!((0..20_000u64).all(|n| filter.may(hash(0, &n.to_be_bytes()))));
        let wrong = (0..20_000u64)
            .filter(|n| filter.may(hash(1, &n.to_be_bytes())))
            .count();
        assert!(wrong < 600, "{wrong}");
    }
}
