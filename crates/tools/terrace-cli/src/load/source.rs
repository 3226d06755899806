//! A file that is loaded, whatever its format.

use anyhow::{Result, anyhow};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use terrace::StructureInfo;

use crate::engine::Entry;

/// The number of a line, with what it holds or what is wrong with it.
pub(crate) type Numbered<T> = (u64, Result<T>);

/// A file being read, record by record.
pub(crate) trait Source {
    /// The next record; `None` at the end. An error is one of reading, after which there is no next.
    fn next(&mut self) -> Result<Option<Numbered<Entry>>>;

    /// Until when the record is there that came last, if the file says it.
    fn expires(&self) -> Option<SystemTime> {
        None
    }

    /// Before the first record, and where there is no next one: what the records behind are of, if the file
    /// says it.
    fn part(&mut self) -> Result<Option<StructureInfo>> {
        Ok(None)
    }
}

/// Milliseconds since 1970, as a dump has them.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
    })
}

/// This many milliseconds after 1970.
pub(crate) fn time_of(millis: u64) -> Result<SystemTime> {
    UNIX_EPOCH
        .checked_add(Duration::from_millis(millis))
        .ok_or_else(|| anyhow!("{millis} milliseconds since 1970 are no time"))
}

/// Digits of seconds since 1970: from 1973 on, and for 30,000 years.
const SECONDS_DIGITS: std::ops::RangeInclusive<usize> = 9..=12;

/// What a field says of when a record expires: a time, seconds since 1970, or nothing.
pub(crate) fn parse_expires(name: &str, text: &[u8]) -> Result<Option<SystemTime>> {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    if text.is_empty() || text == "null" {
        return Ok(None);
    }
    if let Ok(time) = terrace::parse_time(text) {
        return Ok(Some(time));
    }
    // Fewer digits may be a date, more are milliseconds.
    let whole = text.split('.').next().unwrap_or_default();
    let seconds = text
        .parse()
        .ok()
        .filter(|_| SECONDS_DIGITS.contains(&whole.len()));
    let since = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let time = since.and_then(|since| UNIX_EPOCH.checked_add(since));
    let time = time.ok_or_else(|| {
        anyhow!(
            "the field {name:?} is no time: write it as 2026-11-25T12:00:00Z, or as seconds since 1970, which have 9 to 12 digits"
        )
    })?;
    Ok(Some(time))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_text_seconds_or_nothing() {
        let of = |text: &str| parse_expires("until", text.as_bytes()).unwrap().map(millis);
        assert_eq!(of("2026-11-25T12:00:00Z"), Some(1_795_608_000_000));
        assert_eq!(of("1795608000.25"), Some(1_795_608_000_250));
        assert_eq!((of(""), of("null")), (None, None));
        assert_eq!(of(" 100000007 "), Some(100_000_007_000));
        for bad in [
            "soon",
            "-1",
            "1e30",
            "NaN",
            "7",
            "20261125",
            "1795608000000",
        ] {
            assert!(parse_expires("until", bad.as_bytes()).is_err(), "{bad}");
        }
        assert_eq!(millis(time_of(7).unwrap()), 7);
    }
}
