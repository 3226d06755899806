//! Times as people and programs read and write them: RFC 3339, in UTC, to the millisecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_base::{Error, Result};

/// Years that a time may have.
const YEARS: std::ops::RangeInclusive<u64> = 1970..=9999;

/// A time as text.
pub fn text_of(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let (seconds, millis) = (since.as_secs(), since.subsec_millis());
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = date_of(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{millis:03}Z",
        of_day / 3600,
        of_day / 60 % 60,
        of_day % 60
    )
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

fn months(year: u64) -> [u64; 12] {
    let february = if is_leap(year) { 29 } else { 28 };
    [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]
}

/// Year, month and day, so many days after 1 January 1970 (Gregorian).
fn date_of(days: u64) -> (u64, u64, u64) {
    let (mut year, mut left) = (1970, days);
    loop {
        let length = if is_leap(year) { 366 } else { 365 };
        if left < length || year >= *YEARS.end() {
            break;
        }
        left -= length;
        year += 1;
    }
    for (month, length) in months(year).into_iter().enumerate() {
        if left < length {
            return (year, month as u64 + 1, left + 1);
        }
        left -= length;
    }
    (year, 12, 31)
}

/// A time that somebody wrote: `2026-11-25T12:00:00Z`, with or without milliseconds.
///
/// # Errors
/// When it is none, with how one is written.
pub fn parse_time(text: &str) -> Result<SystemTime> {
    parsed(text).ok_or_else(|| {
        Error::invalid(format!(
            "{text:?} is no time; write it in UTC as 2026-11-25T12:00:00Z, with milliseconds as 2026-11-25T12:00:00.250Z"
        ))
    })
}

fn parsed(text: &str) -> Option<SystemTime> {
    let text = text.strip_suffix('Z')?;
    let (date, time) = text.split_once('T')?;
    let (time, millis) = match time.split_once('.') {
        None => (time, 0),
        Some((time, part)) if (1..=3).contains(&part.len()) => {
            let scale = 10u64.pow(3 - part.len() as u32);
            (time, number(part, part.len())? * scale)
        }
        Some(_) => return None,
    };
    let mut date = date.split('-');
    let (year, month, day) = (
        number(date.next()?, 4)?,
        number(date.next()?, 2)?,
        number(date.next()?, 2)?,
    );
    let mut time = time.split(':');
    let (hour, minute, second) = (
        number(time.next()?, 2)?,
        number(time.next()?, 2)?,
        number(time.next()?, 2)?,
    );
    let length = *months(year).get(month.checked_sub(1)? as usize)?;
    let is_possible = date.next().is_none()
        && time.next().is_none()
        && YEARS.contains(&year)
        && (1..=length).contains(&day)
        && hour < 24
        && minute < 60
        && second < 60;
    if !is_possible {
        return None;
    }
    let years = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 });
    let before: u64 = months(year).iter().take(month as usize - 1).sum();
    let days = years.sum::<u64>() + before + day - 1;
    let seconds = days * 86_400 + hour * 3600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_millis(seconds * 1000 + millis))
}

fn number(text: &str, digits: usize) -> Option<u64> {
    let all = text.len() == digits && text.bytes().all(|b| b.is_ascii_digit());
    all.then(|| text.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_told_in_utc_and_read_again() {
        for (seconds, told) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!(text_of(time), told);
            assert_eq!(parse_time(told).unwrap(), time);
            assert_eq!(parse_time(&told.replace(".000", "")).unwrap(), time);
            let half = time + Duration::from_millis(500);
            assert_eq!(parse_time(&told.replace(".000", ".5")).unwrap(), half);
        }
        for wrong in [
            "",
            "now",
            "2026-02-29T00:00:00Z",
            "2026-01-01T24:00:00Z",
            "2026-01-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "1969-12-31T00:00:00Z",
            "2026-01-01T00:00:00.Z",
            "2026-01-01T00:00:00.1234Z",
            "2026-1-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            let told = parse_time(wrong).unwrap_err().to_string();
            assert!(told.contains("2026-11-25T12:00:00Z"), "{wrong}: {told}");
        }
    }
}
