//! Which records a workload asks for, and the best that any store could do about it.

use crate::permutation::Permutation;
use crate::rng::{Rng, mix};
use crate::ycsb::Zipfian;
use crate::zipf::{Zipf, harmonic};

/// How accesses are spread over the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Exact Zipf; every record has its own rank, given by a permutation.
    Zipf {
        /// The exponent: 0 is uniform, 0.9 is what the literature uses most.
        theta: f64,
    },
    /// YCSB's scrambled Zipfian, with its collisions. Needs `theta < 1`.
    Ycsb {
        /// The exponent.
        theta: f64,
    },
    /// Every record equally often.
    Uniform,
    /// A share of the records gets a share of the accesses, evenly within each of the two sets.
    Hotspot {
        /// The share of the records that are hot.
        records: f64,
        /// The share of the accesses that go to them.
        accesses: f64,
    },
}

impl Distribution {
    /// The name used on the command line and in reports.
    pub fn name(&self) -> &'static str {
        match self {
            Distribution::Zipf { .. } => "zipf",
            Distribution::Ycsb { .. } => "ycsb",
            Distribution::Uniform => "uniform",
            Distribution::Hotspot { .. } => "hotspot",
        }
    }

    /// The exponent, where there is one.
    pub fn theta(&self) -> Option<f64> {
        match *self {
            Distribution::Zipf { theta } | Distribution::Ycsb { theta } => Some(theta),
            Distribution::Uniform | Distribution::Hotspot { .. } => None,
        }
    }

    /// What is wrong with the parameters, if anything.
    pub fn problem(&self) -> Option<String> {
        match *self {
            Distribution::Zipf { theta } if !(0.0..=10.0).contains(&theta) => Some(format!(
                "the exponent of zipf must lie between 0 and 10, not at {theta}"
            )),
            Distribution::Ycsb { theta } if !(0.0..=0.9999).contains(&theta) => Some(format!(
                "YCSB's generator is defined for exponents from 0 to 0.9999, not {theta}; \
                 use the distribution zipf for more skew"
            )),
            Distribution::Hotspot { records, accesses }
                if !(records > 0.0 && records <= 1.0 && (0.0..=1.0).contains(&accesses)) =>
            {
                Some(format!(
                    "a hot spot needs shares between 0 and 1, not {records} of the records \
                     with {accesses} of the accesses"
                ))
            }
            _ => None,
        }
    }

    /// The share of accesses that fall outside the best set of `best` records out of `n`: page
    /// reads per operation of a store that holds exactly those records, and reads one page for
    /// each of the others. No static choice of records does better.
    pub fn share_outside(&self, n: u64, best: u64) -> f64 {
        let share = |part: u64, whole: u64| part as f64 / whole as f64;
        if best >= n {
            return 0.0;
        }
        match *self {
            Distribution::Zipf { theta } => 1.0 - harmonic(best, theta) / harmonic(n, theta),
            Distribution::Ycsb { theta } => Zipfian::new(n, theta).share_outside(best),
            Distribution::Uniform => 1.0 - share(best, n),
            Distribution::Hotspot { records, accesses } => {
                let hot = hot_records(n, records);
                let cold = n - hot;
                let (hot_mass, cold_mass) = if cold == 0 {
                    (1.0, 0.0)
                } else {
                    (accesses, 1.0 - accesses)
                };
                // The denser of the two sets first, which need not be the one called hot.
                let mut sets = [(hot, hot_mass), (cold, cold_mass)];
                if hot_mass * (cold as f64) < cold_mass * hot as f64 {
                    sets.swap(0, 1);
                }
                let mut room = best;
                let mut outside = 0.0;
                for (count, mass) in sets {
                    let taken = room.min(count);
                    room -= taken;
                    if count > 0 {
                        outside += mass * share(count - taken, count);
                    }
                }
                outside
            }
        }
    }
}

fn hot_records(n: u64, share: f64) -> u64 {
    ((n as f64 * share).round() as u64).clamp(1, n)
}

/// How often the hot set can move: three phases, as in "Tiered-Indexing", section 7.7.
pub const MOST_MOVES: usize = 2;

/// Draws records from a distribution; can move the hot set elsewhere in mid-run.
///
/// Shared by all threads: it holds no state but what was computed at its making.
#[derive(Clone, Debug)]
pub struct Chooser {
    n: u64,
    kind: Kind,
    /// From rank to record, before the hot set has moved and after each move.
    places: [Permutation; MOST_MOVES + 1],
}

#[derive(Clone, Debug)]
enum Kind {
    Zipf(Zipf),
    Ycsb(Zipfian),
    Uniform,
    Hotspot { hot: u64, accesses: f64 },
}

impl Chooser {
    /// A chooser over `n >= 1` records.
    pub fn new(distribution: Distribution, n: u64, seed: u64) -> Self {
        let kind = match distribution {
            Distribution::Zipf { theta } => Kind::Zipf(Zipf::new(n, theta)),
            Distribution::Ycsb { theta } => Kind::Ycsb(Zipfian::new(n, theta)),
            Distribution::Uniform => Kind::Uniform,
            Distribution::Hotspot { records, accesses } => Kind::Hotspot {
                hot: hot_records(n, records),
                accesses,
            },
        };
        // Four is the order of loading.
        let places = [1, 2, 3].map(|k| Permutation::new(n, mix(seed ^ k)));
        Chooser { n, kind, places }
    }

    /// A rank, 0 the most likely. For YCSB's distribution this is the rank before it is hashed.
    #[inline]
    pub fn rank(&self, rng: &mut Rng) -> u64 {
        match &self.kind {
            Kind::Zipf(zipf) => zipf.draw(rng),
            Kind::Ycsb(zipfian) => zipfian.draw(rng),
            Kind::Uniform => rng.below(self.n),
            &Kind::Hotspot { hot, accesses } => {
                if hot == self.n || rng.unit() < accesses {
                    rng.below(hot)
                } else {
                    hot + rng.below(self.n - hot)
                }
            }
        }
    }

    /// A record, with the hot set where it is after this many moves, of [`MOST_MOVES`] at most.
    #[inline]
    pub fn record(&self, rng: &mut Rng, moves: usize) -> u64 {
        let places = &self.places[moves];
        match &self.kind {
            Kind::Ycsb(zipfian) => {
                let record = zipfian.draw_record(rng);
                if moves > 0 {
                    places.apply(record)
                } else {
                    record
                }
            }
            Kind::Uniform => rng.below(self.n),
            Kind::Zipf(_) | Kind::Hotspot { .. } => places.apply(self.rank(rng)),
        }
    }

    /// The rank of a record under a distribution that gives each record one.
    pub fn rank_of(&self, record: u64, moves: usize) -> Option<u64> {
        match self.kind {
            Kind::Ycsb(_) => None,
            Kind::Uniform => Some(record),
            _ => Some(self.places[moves].invert(record)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::chi_square_is_plausible;

    const ALL: [Distribution; 4] = [
        Distribution::Zipf { theta: 0.9 },
        Distribution::Ycsb { theta: 0.9 },
        Distribution::Uniform,
        Distribution::Hotspot {
            records: 0.1,
            accesses: 0.9,
        },
    ];

    /// The optimum by counting draws: what falls outside the records drawn most often.
    #[test]
    fn the_optimum_is_what_draws_show() {
        let (n, draws) = (500u64, 2_000_000u64);
        for distribution in ALL {
            let chooser = Chooser::new(distribution, n, 3);
            let mut rng = Rng::new(4);
            let mut seen = vec![0u64; n as usize];
            for _ in 0..draws {
                seen[chooser.record(&mut rng, 0) as usize] += 1;
            }
            seen.sort_unstable_by(|a, b| b.cmp(a));
            for best in [0, 10, 60, 250, 499, 500, 1000] {
                let counted: u64 = seen.iter().skip(best as usize).sum();
                let counted = counted as f64 / draws as f64;
                let exact = distribution.share_outside(n, best);
                let name = distribution.name();
                // Sorting by counts favours the lucky ones a little; hence the one-sided slack.
                assert!(
                    counted < exact + 0.002 && counted > exact - 0.012,
                    "{name} best {best}: counted {counted}, computed {exact}"
                );
            }
        }
    }

    #[test]
    fn moving_the_hot_set_keeps_the_shape() {
        let n = 1000;
        for distribution in ALL {
            let chooser = Chooser::new(distribution, n, 3);
            let mut rng = Rng::new(4);
            let mut tops = Vec::new();
            for moves in 0..=MOST_MOVES {
                let mut seen = vec![0u64; n as usize];
                (0..200_000).for_each(|_| seen[chooser.record(&mut rng, moves) as usize] += 1);
                let mut order: Vec<usize> = (0..n as usize).collect();
                order.sort_by_key(|&i| std::cmp::Reverse(seen[i]));
                let share = order[..100].iter().map(|&i| seen[i]).sum::<u64>() as f64 / 2e5;
                tops.push((order[..100].to_vec(), share));
            }
            for pair in tops.windows(2) {
                let common = pair[0].0.iter().filter(|i| pair[1].0.contains(i)).count();
                assert!(
                    common < 40,
                    "{}: {common} of 100 stayed hot",
                    distribution.name()
                );
                assert!((pair[0].1 - pair[1].1).abs() < 0.02, "{tops:?}");
            }
        }
    }

    #[test]
    fn records_of_zipf_have_exact_probabilities() {
        let n = 3000;
        let chooser = Chooser::new(Distribution::Zipf { theta: 0.9 }, n, 8);
        let total = harmonic(n, 0.9);
        let mut rng = Rng::new(5);
        let expected = |record| {
            let rank = chooser.rank_of(record, 0).unwrap();
            (rank as f64 + 1.0).powf(-0.9) / total
        };
        chi_square_is_plausible(n, 500_000, expected, || chooser.record(&mut rng, 0));
    }

    /// Ten million records of 128 bytes in 512 MiB. Computed beside this crate by adding up and
    /// sorting; a hash without structure in the place of YCSB's would give 0.0375.
    #[test]
    fn known_optima_come_out() {
        let (n, best) = (10_000_000, 512 * 1024 * 1024 / 128);
        let zipf = Distribution::Zipf { theta: 0.9 }.share_outside(n, best);
        assert!((zipf - 0.1025).abs() < 0.0001, "{zipf}");
        let ycsb = Distribution::Ycsb { theta: 0.9 }.share_outside(n, best);
        assert!((ycsb - 0.0400).abs() < 0.0004, "{ycsb}");
    }

    #[test]
    fn senseless_parameters_are_named() {
        assert!(Distribution::Zipf { theta: -1.0 }.problem().is_some());
        assert!(Distribution::Zipf { theta: f64::NAN }.problem().is_some());
        assert!(
            Distribution::Ycsb { theta: 1.0 }
                .problem()
                .unwrap()
                .contains("zipf")
        );
        assert!(
            Distribution::Hotspot {
                records: 0.0,
                accesses: 0.9
            }
            .problem()
            .is_some()
        );
        assert!(ALL.iter().all(|d| d.problem().is_none()));
    }
}
