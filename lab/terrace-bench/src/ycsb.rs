//! YCSB's "scrambled Zipfian", as YCSB draws it: Gray's approximation, then a hash of the rank.
//!
//! Two things make it a poor yardstick, which is why it is not the default. The hash is taken
//! modulo the number of records, so that ranks collide: about a third of the records are never asked
//! for. And the approximation is not quite Zipf. Both are reproduced here, and the best that
//! any store could do with it is computed from what it really draws.

use crate::rng::Rng;
use crate::zipf::harmonic;

/// The Zipfian generator of Gray and others, "Quickly generating billion-record synthetic
/// databases" (1994), as YCSB has it. Needs `0 <= theta < 1`.
#[derive(Clone, Debug)]
pub struct Zipfian {
    n: u64,
    zeta_n: f64,
    second: f64,
    alpha: f64,
    eta: f64,
}

impl Zipfian {
    /// The generator over `n >= 1` ranks.
    pub fn new(n: u64, theta: f64) -> Self {
        debug_assert!(n > 0 && (0.0..1.0).contains(&theta));
        let zeta_n = harmonic(n, theta);
        let second = 1.0 + 0.5f64.powf(theta);
        let eta = (1.0 - (2.0 / n as f64).powf(1.0 - theta)) / (1.0 - second / zeta_n);
        Zipfian {
            n,
            zeta_n,
            second,
            alpha: 1.0 / (1.0 - theta),
            eta,
        }
    }

    /// A rank, 0 the most likely.
    #[inline]
    pub fn draw(&self, rng: &mut Rng) -> u64 {
        let u = rng.unit();
        let uz = u * self.zeta_n;
        if uz < 1.0 || self.n == 1 {
            return 0;
        }
        if uz < self.second || self.n == 2 {
            return 1;
        }
        let rank = self.n as f64 * (self.eta * u - self.eta + 1.0).powf(self.alpha);
        (rank as u64).min(self.n - 1)
    }

    /// The record of a draw: the rank hashed onto `0..n`, collisions and all.
    #[inline]
    pub fn draw_record(&self, rng: &mut Rng) -> u64 {
        record_of(self.draw(rng), self.n)
    }

    /// Calls `visit` with each rank and the probability with which [`Zipfian::draw`] gives it.
    fn probabilities(&self, mut visit: impl FnMut(u64, f64)) {
        let first = (1.0 / self.zeta_n).min(1.0);
        visit(0, if self.n == 1 { 1.0 } else { first });
        if self.n == 1 {
            return;
        }
        let second = (self.second / self.zeta_n).min(1.0);
        visit(
            1,
            if self.n == 2 {
                1.0 - first
            } else {
                second - first
            },
        );
        // The u at which the formula of `draw` reaches a rank.
        let exponent = 1.0 / self.alpha;
        let reaches = |rank: u64| {
            let y = (rank as f64 / self.n as f64).powf(exponent);
            ((y - 1.0) / self.eta + 1.0).clamp(second, 1.0)
        };
        let mut at = second;
        for rank in 2..self.n {
            let next = if rank + 1 == self.n {
                1.0
            } else {
                reaches(rank + 1)
            };
            visit(rank, (next - at).max(0.0));
            at = next;
        }
    }

    /// The share of draws that fall outside the `best` records that are asked for most.
    ///
    /// Works through the records in slices, so that it never takes more than about 70 MiB, which
    /// are given back when it returns; a histogram of probabilities, 2^-11 fine, stands in for
    /// sorting them.
    pub fn share_outside(&self, best: u64) -> f64 {
        const SLICE: u64 = 1 << 24;
        const DROPPED: u32 = 12;
        let mut bins = vec![(0u64, 0.0f64); 1 << (31 - DROPPED)];
        let mut from = 0;
        while from < self.n {
            let until = (from + SLICE).min(self.n);
            let mut mass = vec![0.0f32; (until - from) as usize];
            self.probabilities(|rank, p| {
                let record = record_of(rank, self.n);
                if (from..until).contains(&record) {
                    mass[(record - from) as usize] += p as f32;
                }
            });
            for p in mass {
                let bin = &mut bins[(p.to_bits() >> DROPPED) as usize];
                bin.0 += 1;
                bin.1 += f64::from(p);
            }
            from = until;
        }
        let (mut room, mut inside, mut total) = (best, 0.0, 0.0);
        for &(count, sum) in bins.iter().rev() {
            total += sum;
            if count > 0 {
                let taken = room.min(count);
                inside += sum * (taken as f64 / count as f64);
                room -= taken;
            }
        }
        (1.0 - inside / total).max(0.0)
    }
}

/// The record that YCSB asks for when it draws a rank: FNV-1a of the rank's eight bytes, modulo n.
#[inline]
fn record_of(rank: u64, n: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325u64;
    for byte in rank.to_le_bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    // YCSB takes the absolute value of a signed number here.
    (hash as i64).unsigned_abs() % n
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_is_plausible;

    #[test]
    fn hashes_as_ycsb_does() {
        // From Utils.fnvhash64 of YCSB 0.17.
        assert_eq!(record_of(0, u64::MAX), 6_284_781_860_667_377_211);
        assert_eq!(record_of(1, u64::MAX), 8_517_097_267_634_966_620);
        assert_eq!(record_of(2, u64::MAX), 1_820_151_046_732_198_393);
    }

    #[test]
    fn the_probabilities_are_those_of_the_draws() {
        for n in [1, 2, 3, 50, 5000] {
            let zipfian = Zipfian::new(n, 0.9);
            let mut p = Vec::new();
            zipfian.probabilities(|rank, mass| {
                assert_eq!(rank, p.len() as u64);
                p.push(mass);
            });
            let mut rng = Rng::new(n);
            chi_square_is_plausible(n, 300_000, |r| p[r as usize], || zipfian.draw(&mut rng));
        }
    }

    #[test]
    fn the_optimum_agrees_with_sorting() {
        let n = 20_000;
        let zipfian = Zipfian::new(n, 0.9);
        let mut mass = vec![0.0; n as usize];
        zipfian.probabilities(|rank, p| mass[record_of(rank, n) as usize] += p);
        mass.sort_by(|a, b| f64::total_cmp(b, a));
        for best in [0, 1, 100, 5000, 12_000, n, 2 * n] {
            let outside: f64 = mass.iter().skip(best as usize).sum();
            let computed = zipfian.share_outside(best);
            assert!(
                (outside - computed).abs() < 1e-4,
                "best {best}: {outside} {computed}"
            );
        }
    }

    /// 36.5 % at ten million; FNV of small numbers has enough structure to make it vary with n.
    #[test]
    fn many_records_are_never_asked_for() {
        for n in [100_000u64, 1_000_000] {
            let mut asked = vec![false; n as usize];
            Zipfian::new(n, 0.9).probabilities(|rank, _| asked[record_of(rank, n) as usize] = true);
            let never = asked.iter().filter(|&&x| !x).count() as f64 / n as f64;
            assert!((0.25..0.45).contains(&never), "{n}: {never}");
        }
    }
}
