//! How many of the records that are read come into the memtable (path 1).

/// Of records that no page was read for, by exponential sampling: B_hit.
const BASE_HIT: f64 = 0.01;
/// Of those that one was read for: B_miss.
const BASE_MISS: f64 = 0.1;
/// What each further level multiplies that by: R.
const GROWTH: f64 = 1.5;
/// The most: C.
const MOST: f64 = 0.3;
/// With UpLSM's constant rates, of records that no page was read for.
const UPLSM_HIT: f64 = 0.02;

/// Shares of the records read that are promoted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rates {
    /// None: a plain LSM-tree.
    Never,
    /// All.
    All,
    /// This one of all.
    Constant(f64),
    /// This one of those that a page was read for, two in a hundred of the others.
    UpLsm(f64),
    /// min(B R^depth, C), with another B where no page was read.
    Exponential,
}

impl Rates {
    /// The share of those that lie so deep; `missed` where a page was read. What lies above all levels is not
    /// promoted.
    pub fn share(self, depth: u8, missed: bool) -> f64 {
        if depth == 0 {
            return 0.0;
        }
        match self {
            Rates::Never => 0.0,
            Rates::All => 1.0,
            Rates::Constant(share) => share,
            Rates::UpLsm(share) if missed => share,
            Rates::UpLsm(_) => UPLSM_HIT,
            Rates::Exponential => {
                let base = if missed { BASE_MISS } else { BASE_HIT };
                (base * GROWTH.powi(i32::from(depth))).min(MOST)
            }
        }
    }

    /// Whether one of that share is promoted, for which this number was drawn.
    pub fn admits(self, depth: u8, missed: bool, random: u32) -> bool {
        f64::from(random) < self.share(depth, missed) * 4_294_967_296.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rates_are_those_of_the_paper() {
        let shares = |rates: Rates, missed| [0, 1, 2, 3, 4, 9].map(|d| rates.share(d, missed));
        let near = |a: [f64; 6], b: [f64; 6]| {
            assert!(a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-9), "{a:?}");
        };
        let exponential = Rates::Exponential;
        near(shares(exponential, true), [0.0, 0.15, 0.225, 0.3, 0.3, 0.3]);
        let hits = [0.0, 0.015, 0.0225, 0.03375, 0.050625, 0.3];
        near(shares(exponential, false), hits);
        near(shares(Rates::Never, true), [0.0; 6]);
        near(shares(Rates::All, false), [0.0, 1.0, 1.0, 1.0, 1.0, 1.0]);
        let third = [0.0, 0.3, 0.3, 0.3, 0.3, 0.3];
        near(shares(Rates::Constant(0.3), true), third);
        near(shares(Rates::Constant(0.3), false), third);
        near(shares(Rates::UpLsm(0.3), true), third);
        let few = [0.0, 0.02, 0.02, 0.02, 0.02, 0.02];
        near(shares(Rates::UpLsm(0.3), false), few);
    }

    #[test]
    fn as_many_are_admitted_as_the_share_says() {
        let drawn = |rates: Rates, depth, missed| {
            let all = (0..1000).map(|n| (n << 22) + 1);
            all.filter(|&n| rates.admits(depth, missed, n)).count()
        };
        assert_eq!(drawn(Rates::All, 1, false), 1000);
        assert_eq!(drawn(Rates::All, 0, true), 0);
        assert_eq!(drawn(Rates::Never, 3, true), 0);
        assert!(Rates::All.admits(1, false, u32::MAX));
        assert!(!Rates::Never.admits(1, true, 0));
        // Of the first 1000 of 1024 steps.
        assert_eq!(drawn(Rates::Constant(0.5), 2, true), 512);
        assert_eq!(drawn(Rates::Exponential, 1, true), 154);
    }
}
