//! Times as Python has them: seconds, as numbers with a fraction.

use std::time::{Duration, SystemTime};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use terrace::Expires;

/// In so many seconds from now on, by the clock of the database.
pub fn in_seconds(map: &terrace::Map, seconds: f64) -> PyResult<Expires> {
    // No number is none of them, and an error.
    let seconds = if seconds < 0.0 { 0.0 } else { seconds };
    let duration = Duration::try_from_secs_f64(seconds);
    let time = duration
        .ok()
        .and_then(|d| map.database().time().checked_add(d));
    time.map(Expires::At)
        .ok_or_else(|| PyValueError::new_err(format!("{seconds} seconds are no time to expire in")))
}

/// A time in seconds since 1970; 0 for one before.
pub fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}
