//! S: about how many records take nine tenths of the accesses.
//!
//! Keys of a fixed part of all hashes are counted, all of them or none; the counts are halved now and then, so
//! that what was asked for long ago is forgotten.

use std::collections::HashMap;

/// Share of the accesses that the working set takes.
const SHARE: f64 = 0.9;
/// Of this many keys one is counted, at first.
const FIRST_PART: u64 = 64;
/// Most keys that are counted: with more of them one of twice as many is.
const MOST_KEYS: usize = 16 << 10;
/// Accesses to each key, in the mean, after which the counts are halved.
const MOST_EACH: u64 = 32;

/// An estimate of how many records take nine tenths of the accesses.
#[derive(Debug)]
pub struct WorkingSet {
    part: u64,
    counts: HashMap<u64, u32>,
    total: u64,
}

impl Default for WorkingSet {
    fn default() -> WorkingSet {
        WorkingSet {
            part: FIRST_PART,
            counts: HashMap::new(),
            total: 0,
        }
    }
}

impl WorkingSet {
    /// Whether a key with this hash may be one that is counted, whatever the set has seen.
    pub fn may_count(hash: u64) -> bool {
        hash.is_multiple_of(FIRST_PART)
    }

    /// A key with this hash was asked for.
    pub fn note(&mut self, hash: u64) {
        if !hash.is_multiple_of(self.part) {
            return;
        }
        *self.counts.entry(hash).or_default() += 1;
        self.total += 1;
        if self.counts.len() > MOST_KEYS {
            self.part *= 2;
            self.keep(|hash, part, _| hash.is_multiple_of(part));
        }
        if self.total > MOST_EACH * self.counts.len() as u64 {
            self.counts.values_mut().for_each(|count| *count /= 2);
            self.keep(|_, _, count| count > 0);
        }
    }

    fn keep(&mut self, keep: impl Fn(u64, u64, u32) -> bool) {
        let part = self.part;
        self.counts.retain(|&hash, count| keep(hash, part, *count));
        self.total = self.counts.values().map(|&count| u64::from(count)).sum();
    }

    /// About how many keys take nine tenths of the accesses: the fewest that do.
    pub fn size(&self) -> u64 {
        let mut counts: Vec<u32> = self.counts.values().copied().collect();
        counts.sort_unstable_by(|a, b| b.cmp(a));
        let wanted = self.total as f64 * SHARE;
        let mut taken = 0.0;
        let needed = counts.iter().take_while(|&&count| {
            let more = taken < wanted;
            taken += f64::from(count);
            more
        });
        needed.count() as u64 * self.part
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace_base::checksum::mix;

    /// Draws keys by Zipf's law and counts them; the size over the number of keys.
    fn drawn(keys: usize, theta: f64, accesses: usize) -> f64 {
        let weights = (1..=keys).map(|rank| (rank as f64).powf(-theta));
        let sums: Vec<f64> = weights
            .scan(0.0, |sum, weight| {
                *sum += weight;
                Some(*sum)
            })
            .collect();
        let mut set = WorkingSet::default();
        for n in 0..accesses {
            let at = mix(n as u64, 7) as f64 / 2_f64.powi(64) * sums[keys - 1];
            let rank = sums.partition_point(|&sum| sum < at);
            set.note(mix(rank as u64, 3));
        }
        set.size() as f64 / keys as f64
    }

    #[test]
    fn nine_tenths_of_the_accesses_go_to_about_a_third_of_the_records() {
        // The paper's figure for a large number of records; with fewer of them the law is flatter.
        let exact = |keys: usize| {
            let weights: Vec<f64> = (1..=keys).map(|rank| (rank as f64).powf(-0.9)).collect();
            let all: f64 = weights.iter().sum();
            let mut sum = 0.0;
            let needed = weights.iter().take_while(|weight| {
                sum += *weight;
                sum < SHARE * all
            });
            needed.count() as f64 / keys as f64
        };
        let keys = 200_000;
        let seen = drawn(keys, 0.9, 4_000_000);
        assert!(
            (seen / exact(keys) - 1.0).abs() < 0.2,
            "{seen} {}",
            exact(keys)
        );
        let all = drawn(50_000, 0.0, 1_000_000);
        assert!((0.7..1.0).contains(&all), "{all}");
    }

    #[test]
    fn it_stays_small_and_forgets() {
        let mut set = WorkingSet::default();
        for n in 0..4_000_000 {
            set.note(mix(n, 1));
        }
        assert!(set.counts.len() <= MOST_KEYS && set.part > FIRST_PART);
        // Only those that are counted.
        let other = (0..20_000).map(|n| mix(n, 2));
        let other: Vec<u64> = other.filter(|&hash| WorkingSet::may_count(hash)).collect();
        for _ in 0..10_000 {
            other.iter().for_each(|&hash| set.note(hash));
        }
        assert!((8_000..30_000).contains(&set.size()), "{}", set.size());
        assert_eq!(WorkingSet::default().size(), 0);
    }
}
