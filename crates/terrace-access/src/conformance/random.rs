//! A small random generator that is the same on every machine and in every version.

/// SplitMix64.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next 64 bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound` (0 when that is 0).
    pub fn below(&mut self, bound: usize) -> usize {
        (self.bits() % bound.max(1) as u64) as usize
    }

    /// True in `percent` of 100 cases.
    pub fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// `len` random bytes.
    pub fn bytes(&mut self, len: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(len + 8);
        while out.len() < len {
            out.extend_from_slice(&self.bits().to_le_bytes());
        }
        out.truncate(len);
        out
    }
}
