//! Times as numbers: milliseconds since 1970.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Milliseconds since 1970; the largest number for a time that is past all numbers.
pub fn millis(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// The time `millis` milliseconds after 1970 began.
pub fn time_of(millis: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(millis)
}
