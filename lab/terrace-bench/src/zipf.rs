//! The exact Zipf distribution in constant memory: a sampler, and sums of its probabilities.

use crate::rng::Rng;

/// Draws ranks `0..n` with probability proportional to `(rank + 1)^-theta`, exactly.
///
/// Rejection-inversion (W. Hörmann and G. Derflinger, "Rejection-inversion to generate variates
/// from monotone discrete distributions", 1996): inversion of the continuous hat, and a rejection
/// that is rarely needed. No tables, any `theta >= 0`, one included.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    theta: f64,
    /// The hat's integral at its right end, and at its left end less the mass of the first rank.
    right: f64,
    left: f64,
    /// Within this distance below an integer every point is accepted without another look.
    sure: f64,
}

impl Zipf {
    /// The distribution over `n >= 1` ranks.
    pub fn new(n: u64, theta: f64) -> Self {
        debug_assert!(n > 0 && theta >= 0.0);
        let n = n as f64;
        Zipf {
            n,
            theta,
            right: integral(n + 0.5, theta),
            left: integral(1.5, theta) - 1.0,
            sure: 2.0 - inverse(integral(2.5, theta) - density(2.0, theta), theta),
        }
    }

    /// A rank, 0 the most likely.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        loop {
            let u = self.right + rng.unit() * (self.left - self.right);
            let x = inverse(u, self.theta);
            let k = (x + 0.5).floor().clamp(1.0, self.n);
            if k - x <= self.sure || u >= integral(k + 0.5, self.theta) - density(k, self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

fn density(x: f64, theta: f64) -> f64 {
    (-theta * x.ln()).exp()
}

/// The integral of `x^-theta` from 1 to `x`; smooth in theta around 1, where it is the logarithm.
fn integral(x: f64, theta: f64) -> f64 {
    let log = x.ln();
    let t = (1.0 - theta) * log;
    let ratio = if t.abs() > 1e-8 {
        t.exp_m1() / t
    } else {
        1.0 + t / 2.0 + t * t / 6.0
    };
    ratio * log
}

fn inverse(y: f64, theta: f64) -> f64 {
    let t = (y * (1.0 - theta)).max(-1.0);
    let ratio = if t.abs() > 1e-8 {
        t.ln_1p() / t
    } else {
        1.0 - t / 2.0 + t * t / 3.0
    };
    (ratio * y).exp()
}

/// The sum of `k^-theta` for `k` in `1..=n`: the first thousand terms one by one, the rest by
/// Euler and Maclaurin's formula, whose error there is far below that of adding up floats.
pub fn harmonic(n: u64, theta: f64) -> f64 {
    const DIRECT: u64 = 1000;
    let direct = n.min(DIRECT);
    // From the smallest term up, so that little is lost to rounding.
    let mut sum: f64 = (1..=direct).rev().map(|k| (k as f64).powf(-theta)).sum();
    if n > DIRECT {
        let (a, b) = (DIRECT as f64, n as f64);
        let first = |x: f64| -theta * x.powf(-theta - 1.0);
        let third = |x: f64| -theta * (theta + 1.0) * (theta + 2.0) * x.powf(-theta - 3.0);
        sum += integral(b, theta) - integral(a, theta);
        sum += (density(b, theta) - density(a, theta)) / 2.0;
        sum += (first(b) - first(a)) / 12.0;
        sum -= (third(b) - third(a)) / 720.0;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_is_plausible;

    #[test]
    fn draws_follow_the_exact_probabilities() {
        for (seed, theta) in [0.0, 0.3, 0.9, 0.99, 1.0, 1.1, 2.0].into_iter().enumerate() {
            for n in [1u64, 2, 7, 1000, 100_000] {
                let zipf = Zipf::new(n, theta);
                let total = harmonic(n, theta);
                let mut rng = Rng::new(seed as u64 * 31 + n);
                let expected = |rank: u64| (rank as f64 + 1.0).powf(-theta) / total;
                chi_square_is_plausible(n, 400_000, expected, || zipf.draw(&mut rng));
            }
        }
    }

    #[test]
    fn a_wrong_exponent_is_noticed() {
        let zipf = Zipf::new(1000, 0.92);
        let total = harmonic(1000, 0.9);
        let mut rng = Rng::new(1);
        let expected = |rank: u64| (rank as f64 + 1.0).powf(-0.9) / total;
        let plausible = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            chi_square_is_plausible(1000, 400_000, expected, || zipf.draw(&mut rng));
        }));
        assert!(
            plausible.is_err(),
            "the test of the distribution must be able to fail"
        );
    }

    #[test]
    fn sums_agree_with_adding_up() {
        for theta in [0.0, 0.5, 0.9, 0.99, 1.0, 1.0 + 1e-10, 1.3] {
            for n in [1u64, 2, 999, 1000, 1001, 50_000, 2_000_000] {
                let plain: f64 = (1..=n).rev().map(|k| (k as f64).powf(-theta)).sum();
                let sum = harmonic(n, theta);
                assert!(
                    (sum / plain - 1.0).abs() < 1e-11,
                    "theta {theta} n {n}: {sum} {plain}"
                );
            }
        }
    }

    #[test]
    fn an_enormous_domain_is_no_trouble() {
        let n = 1u64 << 40;
        let zipf = Zipf::new(n, 0.9);
        let mut rng = Rng::new(9);
        let below = (0..200_000)
            .filter(|_| zipf.draw(&mut rng) < n / 1000)
            .count() as f64
            / 2e5;
        let share = harmonic(n / 1000, 0.9) / harmonic(n, 0.9);
        assert!((below - share).abs() < 0.005, "{below} {share}");
    }
}
