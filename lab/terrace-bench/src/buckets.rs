//! How many operations took how long, in few buckets: up to 1, 2, 5, 10, 20, 50 … nanoseconds.
//!
//! Percentiles do not show that there are two kinds of operation, those that find everything in memory and
//! those that wait for the disk; the two hills of a histogram do.

use std::fmt;

use crate::numbers::{count, time};

/// Characters of the longest bar.
const LONGEST_BAR: u64 = 40;

/// The largest number of the bucket that `ns` belongs to: the next of 1, 2, 5, 10 … from there on.
pub(crate) fn bound(ns: u64) -> u64 {
    let mut ten: u64 = 1;
    loop {
        for digit in [1, 2, 5] {
            // Past the largest number that fits there is one more bucket, the last.
            match ten.checked_mul(digit) {
                Some(bound) if bound < ns => {}
                bound => return bound.unwrap_or(u64::MAX),
            }
        }
        ten = ten.saturating_mul(10);
    }
}

/// Adds to the bucket of `ns`; those that are not empty are there, in their order.
pub(crate) fn add(buckets: &mut Vec<(u64, u64)>, ns: u64, count: u64) {
    let bound = bound(ns);
    match buckets.binary_search_by_key(&bound, |bucket| bucket.0) {
        Ok(at) => buckets[at].1 += count,
        Err(at) => buckets.insert(at, (bound, count)),
    }
}

/// Buckets for people: a line for each from the first to the last, the empty ones between them too.
pub struct Bars<'r>(pub &'r [(u64, u64)]);

impl fmt::Display for Bars<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else {
            return Ok(());
        };
        writeln!(f, "  latency of all operations")?;
        let most = self.0.iter().map(|bucket| bucket.1).max().unwrap_or(1);
        let all: u64 = self.0.iter().map(|bucket| bucket.1).sum();
        let mut top = first.0;
        loop {
            let found = self.0.iter().find(|bucket| bucket.0 == top);
            let counted = found.map_or(0, |bucket| bucket.1);
            // Whatever was counted is seen, also one among millions.
            let share = counted as f64 / most.max(1) as f64;
            let bar = "#".repeat((share * LONGEST_BAR as f64).ceil() as usize);
            let line = format!(
                "    up to {:>8} {:>9} {:>6.2} %  {bar}",
                whole(top),
                count(counted as f64),
                100.0 * counted as f64 / all.max(1) as f64,
            );
            writeln!(f, "{}", line.trim_end())?;
            if top >= last.0 {
                return Ok(());
            }
            top = bound(top + 1);
        }
    }
}

/// A bound without the digits that say nothing: `20 µs`, not `20.0 µs`.
fn whole(ns: u64) -> String {
    time(ns).replace(".00 ", " ").replace(".0 ", " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_go_1_2_5() {
        let bounds = [0, 1, 2, 3, 5, 6, 10, 11, 500, 501, 60_000_000_000].map(bound);
        let expected = [1, 1, 2, 5, 5, 10, 10, 20, 500, 1000, 100_000_000_000];
        assert_eq!(bounds, expected);
        assert_eq!(bound(u64::MAX), u64::MAX);
    }

    #[test]
    fn every_bucket_between_the_first_and_the_last_has_its_bar() {
        let mut buckets = Vec::new();
        for (ns, count) in [(900_000, 1), (400, 3_000_000), (300, 1_000_000), (700, 10)] {
            add(&mut buckets, ns, count);
        }
        assert_eq!(buckets, [(500, 4_000_000), (1000, 10), (1_000_000, 1)]);
        let text = Bars(&buckets).to_string();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 12, "{text}");
        let bars: Vec<usize> = lines.iter().map(|l| l.matches('#').count()).collect();
        assert_eq!(bars, [0, 40, 1, 0, 0, 0, 0, 0, 0, 0, 0, 1], "{text}");
        assert!(lines[1].contains("500 ns   4.000 M 100.00 %"), "{text}");
        assert!(lines[3].ends_with("2 µs         0   0.00 %"), "{text}");
        assert_eq!(Bars(&[]).to_string(), "");
    }
}
