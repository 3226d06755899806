//! Random numbers that are the same in every run, and Zipf-distributed ranks.

/// SplitMix64: each state gives one number, and `mix` alone is a permutation of 64 bits.
pub struct Random(pub u64);

/// A permutation of all 64-bit numbers.
pub fn mix(x: u64) -> u64 {
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

impl Random {
    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n as u128) >> 64) as usize
    }

    /// A number from 0 to 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Shuffles a slice.
pub fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for i in (1..items.len()).rev() {
        items.swap(i, random.below(i + 1));
    }
}

/// Ranks below `n` with the probability of rank `r` proportional to `1 / (r + 1)^theta`, by the
/// inversion that YCSB uses; ranks are scattered over `0..n` by a fixed permutation.
pub struct Zipf {
    n: usize,
    theta: f64,
    zeta: f64,
    eta: f64,
    scatter: u64,
}

impl Zipf {
    /// Ranks below `n`.
    pub fn new(n: usize, theta: f64) -> Self {
        let zeta: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
        let two = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - two / zeta);
        // A multiplier without a common factor permutes 0..n.
        let mut scatter = (n as f64 * 0.618_033_988) as u64 | 1;
        while gcd(scatter, n as u64) != 1 {
            scatter += 2;
        }
        Zipf {
            n,
            theta,
            zeta,
            eta,
            scatter,
        }
    }

    /// A place below `n`.
    pub fn next(&self, random: &mut Random) -> usize {
        let u = random.unit();
        let uz = u * self.zeta;
        let rank = if uz < 1.0 {
            0
        } else if uz < 1.0 + 0.5f64.powf(self.theta) {
            1
        } else {
            (self.n as f64 * (self.eta * u - self.eta + 1.0).powf(1.0 / (1.0 - self.theta))) as u64
        };
        ((u128::from(rank.min(self.n as u64 - 1)) * u128::from(self.scatter)) % self.n as u128)
            as usize
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
