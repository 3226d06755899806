//! How long operations took: one histogram per kind of operation, kept by each thread for itself.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

use crate::buckets;
use crate::workload::{Operation, Workload};

/// Longer than this counts as this.
const LONGEST_NS: u64 = 60_000_000_000;

/// The latencies of one thread, or of all after [`Latencies::add`]. About 220 KiB for each kind
/// of operation in the workload.
#[derive(Clone, Debug, Default)]
pub struct Latencies {
    kinds: [Option<Histogram<u64>>; Operation::ALL.len()],
}

impl Latencies {
    /// Room for the operations of a workload.
    pub fn new(workload: Workload) -> Self {
        let kinds = Operation::ALL.map(|operation| {
            let wanted = workload.mix().iter().any(|m| m.0 == operation);
            // Three digits up to a minute: bounds that the crate always accepts.
            wanted
                .then(|| Histogram::new_with_bounds(1, LONGEST_NS, 3).ok())
                .flatten()
        });
        Latencies { kinds }
    }

    /// Counts one operation.
    #[inline]
    pub fn record(&mut self, operation: Operation, took: Duration) {
        if let Some(histogram) = &mut self.kinds[operation as usize] {
            let ns = u64::try_from(took.as_nanos()).unwrap_or(LONGEST_NS);
            histogram.saturating_record(ns.max(1));
        }
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.kinds.iter_mut().flatten().for_each(Histogram::reset);
    }

    /// Adds the latencies of another thread.
    pub fn add(&mut self, other: &Latencies) {
        for (mine, theirs) in self.kinds.iter_mut().zip(&other.kinds) {
            match (mine, theirs) {
                (Some(mine), Some(theirs)) => {
                    // Equal bounds, so nothing can be out of range.
                    let added = mine.add(theirs);
                    debug_assert!(added.is_ok());
                }
                (mine @ None, Some(theirs)) => *mine = Some(theirs.clone()),
                (_, None) => {}
            }
        }
    }

    /// Percentiles over all kinds of operation together.
    pub fn summary(&self) -> LatencySummary {
        let mut all: Option<Histogram<u64>> = None;
        for histogram in self.kinds.iter().flatten() {
            match &mut all {
                None => all = Some(histogram.clone()),
                Some(all) => {
                    let added = all.add(histogram);
                    debug_assert!(added.is_ok());
                }
            }
        }
        all.as_ref().map(LatencySummary::of).unwrap_or_default()
    }

    /// How many took how long, over all kinds: for each bucket of 1, 2, 5, 10 … nanoseconds that is not
    /// empty its largest duration and its count. As exact as the percentiles: what is less than a thousandth
    /// longer than a bound may count with what is not.
    pub fn buckets(&self) -> Vec<(u64, u64)> {
        let mut list = Vec::new();
        for histogram in self.kinds.iter().flatten() {
            for found in histogram.iter_recorded() {
                let ns = histogram.lowest_equivalent(found.value_iterated_to());
                buckets::add(&mut list, ns, found.count_at_value());
            }
        }
        list
    }

    /// Percentiles of each kind that occurred.
    pub fn by_operation(&self) -> Vec<(Operation, LatencySummary)> {
        let mut list = Vec::new();
        for (operation, histogram) in Operation::ALL.into_iter().zip(&self.kinds) {
            if let Some(histogram) = histogram.as_ref().filter(|h| !h.is_empty()) {
                list.push((operation, LatencySummary::of(histogram)));
            }
        }
        list
    }
}

/// Percentiles in nanoseconds, exact to three digits; all zero if nothing was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct LatencySummary {
    /// The median.
    pub p50: u64,
    /// 99 of 100 took at most this.
    pub p99: u64,
    /// 999 of 1000 took at most this.
    pub p999: u64,
    /// The longest.
    pub max: u64,
    /// The mean.
    pub mean: f64,
    /// How many were counted.
    pub count: u64,
}

impl LatencySummary {
    fn of(histogram: &Histogram<u64>) -> Self {
        LatencySummary {
            p50: histogram.value_at_quantile(0.5),
            p99: histogram.value_at_quantile(0.99),
            p999: histogram.value_at_quantile(0.999),
            max: histogram.max(),
            mean: histogram.mean(),
            count: histogram.len(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_threads_add_up() {
        let mut all = Latencies::new(Workload::A);
        for thread in 0..4u64 {
            let mut mine = Latencies::new(Workload::A);
            for i in 0..250 {
                let took = Duration::from_nanos((thread * 250 + i + 1) * 1000);
                mine.record(Operation::Read, took);
            }
            mine.record(Operation::Update, Duration::from_secs(600));
            all.add(&mine);
        }
        let by_operation = all.by_operation();
        assert_eq!(by_operation.len(), 2);
        let reads = by_operation[0].1;
        assert_eq!(reads.count, 1000);
        assert!(reads.p50.abs_diff(500_000) < 1000, "{reads:?}");
        assert!(reads.p999.abs_diff(999_000) < 1000, "{reads:?}");
        assert!(all.summary().max >= LONGEST_NS);
        assert_eq!(all.summary().count, 1004);
        let up_to = |us: u64, count: u64| (us * 1000, count);
        let first = [
            (1, 1),
            (2, 1),
            (5, 3),
            (10, 5),
            (20, 10),
            (50, 30),
            (100, 50),
        ];
        let mut expected = first.map(|(us, count)| up_to(us, count)).to_vec();
        expected.extend([(200, 100), (500, 300), (1000, 500)].map(|(us, count)| up_to(us, count)));
        expected.push((100_000_000_000, 4));
        assert_eq!(all.buckets(), expected);
        all.clear();
        assert_eq!(all.summary(), LatencySummary::default());
    }

    #[test]
    fn operations_outside_the_workload_are_ignored() {
        let mut reads = Latencies::new(Workload::C);
        reads.record(Operation::Scan, Duration::from_nanos(5));
        assert_eq!(reads.summary().count, 0);
    }
}
