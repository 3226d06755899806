//! A histogram of durations: sixteen buckets to each doubling, so that a figure is off by at most
//! a sixteenth.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Buckets to a doubling, as a power of two.
const FINE_BITS: u32 = 4;
const FINE: usize = 1 << FINE_BITS;
/// Buckets for all of 64 bits of nanoseconds.
const BUCKETS: usize = (64 - FINE_BITS as usize + 1) * FINE;

/// Counts of durations; see the module's text.
#[derive(Clone)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
    count: u64,
    sum: u128,
    max: u64,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram {
            counts: Box::new([0; BUCKETS]),
            count: 0,
            sum: 0,
            max: 0,
        }
    }
}

impl std::fmt::Debug for Histogram {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&self.summary(), f)
    }
}

fn bucket(nanos: u64) -> usize {
    if nanos < FINE as u64 {
        return nanos as usize;
    }
    let doubling = nanos.ilog2() - FINE_BITS;
    (doubling as usize + 1) * FINE + ((nanos >> doubling) as usize & (FINE - 1))
}

/// Largest value of a bucket.
fn bound(bucket: usize) -> u64 {
    let (doubling, fine) = (bucket / FINE, (bucket % FINE) as u64);
    if doubling == 0 {
        return fine;
    }
    let shift = doubling as u32 - 1;
    let low = (FINE as u64 + fine) << shift;
    low + ((1 << shift) - 1)
}

/// Figures of a histogram.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// How many durations.
    pub count: u64,
    /// Their mean, in nanoseconds, as everything that follows.
    pub mean_ns: u64,
    /// Half of them are at most this.
    pub p50_ns: u64,
    /// All but one in a hundred are at most this.
    #[serde(default)]
    pub p99_ns: u64,
    /// All but one in a thousand are at most this.
    pub p999_ns: u64,
    /// The longest, exactly.
    pub max_ns: u64,
}

impl Histogram {
    /// Counts one.
    pub fn record(&mut self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.counts[bucket(nanos)] += 1;
        self.count += 1;
        self.sum += u128::from(nanos);
        self.max = self.max.max(nanos);
    }

    /// The usual figures.
    pub fn summary(&self) -> Summary {
        let buckets = self.buckets();
        let at_most = |share| quantile(&buckets, share).min(self.max);
        Summary {
            count: self.count,
            mean_ns: self.sum.checked_div(u128::from(self.count)).unwrap_or(0) as u64,
            p50_ns: at_most(0.5),
            p99_ns: at_most(0.99),
            p999_ns: at_most(0.999),
            max_ns: self.max,
        }
    }

    /// The buckets that are not empty: the largest duration that each counts, in nanoseconds, and
    /// how many it has counted.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let counted = self
            .counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0);
        counted.map(|(i, &count)| (bound(i), count)).collect()
    }
}

/// What `share` of all are at most, in nanoseconds, of buckets as [`Histogram::buckets`] has them.
pub fn quantile(buckets: &[(u64, u64)], share: f64) -> u64 {
    let count: u64 = buckets.iter().map(|(_, count)| count).sum();
    let wanted = (count as f64 * share).ceil() as u64;
    let mut seen = 0;
    let mut all = buckets.iter();
    let found = all.find(|(_, count)| {
        seen += count;
        seen >= wanted
    });
    found.or(buckets.last()).map_or(0, |(bound, _)| *bound)
}

/// A histogram that many threads count in at once, without waiting for each other.
pub struct Shared {
    counts: Box<[AtomicU64; BUCKETS]>,
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            counts: Box::new([const { AtomicU64::new(0) }; BUCKETS]),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

impl Shared {
    /// Counts one.
    pub fn record(&self, duration: Duration) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.max.fetch_max(nanos, Ordering::Relaxed);
        self.sum.fetch_add(nanos, Ordering::Relaxed);
        self.counts[bucket(nanos)].fetch_add(1, Ordering::Relaxed);
    }

    /// All that was counted so far, about: who counts meanwhile may be in one figure and not yet in another.
    pub fn snapshot(&self) -> Histogram {
        let mut all = Histogram::default();
        for (to, from) in all.counts.iter_mut().zip(self.counts.iter()) {
            *to = from.load(Ordering::Relaxed);
            all.count += *to;
        }
        all.sum = self.sum.load(Ordering::Relaxed).into();
        all.max = self.max.load(Ordering::Relaxed);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_tile_all_numbers() {
        let mut last = None;
        for i in 0..BUCKETS {
            let top = bound(i);
            assert_eq!(bucket(top), i);
            if let Some(last) = last {
                assert_eq!(bucket(last + 1u64), i);
            }
            last = Some(top);
        }
        assert_eq!(last, Some(u64::MAX));
    }

    #[test]
    fn quantiles_are_off_by_a_sixteenth_at_most() {
        let mut h = Histogram::default();
        assert_eq!(h.summary(), Summary::default());
        for n in 1..=10_000u64 {
            h.record(Duration::from_nanos(n * 100));
        }
        let s = h.summary();
        assert_eq!((s.count, s.max_ns, s.mean_ns), (10_000, 1_000_000, 500_050));
        for (got, exact) in [
            (s.p50_ns, 500_000),
            (s.p99_ns, 990_000),
            (s.p999_ns, 999_000),
        ] {
            assert!(
                got >= exact && got <= exact + exact / 16,
                "{got} for {exact}"
            );
        }
        let shared = Shared::default();
        (1..=10_000u64).for_each(|n| shared.record(Duration::from_nanos(n * 100)));
        assert_eq!(shared.snapshot().summary(), s);
        assert_eq!(h.buckets().iter().map(|b| b.1).sum::<u64>(), 10_000);
    }
}
