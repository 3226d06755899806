//! How unevenly records are used, as people say it.

use terrace_bench::zipf::harmonic;

/// How unevenly records are used.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Skew {
    /// Zipf's law with this exponent.
    Zipf(f64),
    /// The first number: percent of the accesses. The second: percent of the records to which they
    /// go.
    Share(f64, f64),
}

/// Reads `0.9` or `80/20`.
pub fn parse_skew(text: &str) -> Result<Skew, String> {
    let wrong = || {
        format!(
            "{text} is no skew: give an exponent from 0 to 2, such as 0.9, or a share of the accesses and of the \
             records, such as 80/20"
        )
    };
    let number = |text: &str| text.trim().parse::<f64>().map_err(|_| wrong());
    if let Some((accesses, records)) = text.split_once('/') {
        let (accesses, records) = (number(accesses)?, number(records)?);
        let sound = records > 0.0 && records <= accesses && accesses < 100.0;
        return sound
            .then_some(Skew::Share(accesses / 100.0, records / 100.0))
            .ok_or_else(wrong);
    }
    let theta = number(text)?;
    (0.0..=2.0)
        .contains(&theta)
        .then_some(Skew::Zipf(theta))
        .ok_or_else(wrong)
}

impl Skew {
    /// The exponent of Zipf's law over this many records.
    pub fn theta(self, records: u64) -> f64 {
        let (accesses, part) = match self {
            Skew::Zipf(theta) => return theta,
            Skew::Share(accesses, part) => (accesses, part),
        };
        let first = ((records as f64 * part) as u64).max(1);
        let (mut low, mut high) = (0.0, 2.0);
        for _ in 0..60 {
            let middle: f64 = (low + high) / 2.0;
            match mass(first, records, middle) < accesses {
                true => low = middle,
                false => high = middle,
            }
        }
        low
    }
}

/// The part of all accesses that goes to the `first` records that are used most.
pub fn mass(first: u64, records: u64, theta: f64) -> f64 {
    match first >= records {
        true => 1.0,
        false => harmonic(first, theta) / harmonic(records, theta),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_an_exponent() {
        let records = 1_000_000;
        let theta = parse_skew("80/20").unwrap().theta(records);
        assert!((mass(200_000, records, theta) - 0.8).abs() < 1e-6);
        assert!(Skew::Share(0.2, 0.2).theta(records) < 1e-6);
        assert_eq!(parse_skew("0.9").unwrap(), Skew::Zipf(0.9));
        for wrong in ["", "x", "-1", "3", "20/80", "100/20", "80/0", "80/20/1"] {
            assert!(parse_skew(wrong).is_err(), "{wrong}");
        }
    }
}
