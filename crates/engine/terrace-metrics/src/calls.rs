//! How long calls take.

use terrace::Stats;

use crate::text::Kind::Histogram;
use crate::text::{SECOND, Text, cumulated};

/// Bounds of the buckets, in nanoseconds: three to each power of ten, from a hot read to ten seconds.
const BOUNDS: [u64; 24] = [
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
    2_500_000_000,
    5_000_000_000,
    10_000_000_000,
];

/// Writes the family.
pub fn families(stats: &Stats, text: &mut Text) {
    text.family(
        "call_duration_seconds",
        Histogram,
        "How long calls took: all batches and transactions, and one in 64 of the others.",
    );
    for one in &stats.calls {
        let sum = one.latency.mean_ns as f64 * one.latency.count as f64 / SECOND;
        text.histogram(
            &[("call", one.call.as_str())],
            &cumulated(&BOUNDS, &one.buckets),
            one.latency.count,
            sum,
        );
    }
}
