//! How long calls take.

use terrace::Stats;

use crate::text::Kind::Histogram;
use crate::text::{BOUNDS, SECOND, Text, cumulated};

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
            &cumulated(&BOUNDS[..24], &one.buckets),
            one.latency.count,
            sum,
        );
    }
}
