//! Times as people and programs read and write them: RFC 3339, in UTC, to the millisecond.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_base::{Error, Result};

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;
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

/// Year, month and day, `days` days after 1 January 1970 (Gregorian).
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

/// A time as text: `2026-11-25T12:00:00Z` in UTC, or with an offset, `2026-11-25T14:00:00+02:00`, each
/// with or without a part of a second; a day, which is its first instant in UTC; or seconds since 1970.
///
/// # Errors
/// When it is none, with how one is written.
pub fn parse_time(text: &str) -> Result<SystemTime> {
    parsed(text).ok_or_else(|| {
        Error::invalid(format!(
            "{text:?} is no time; write it in UTC as 2026-11-25T12:00:00Z, with an offset as 2026-11-25T14:00:00+02:00, as a day 2026-11-25 (its first instant in UTC), or in seconds since 1970"
        ))
    })
}

fn parsed(text: &str) -> Option<SystemTime> {
    let millis = match text.split_once(['T', 't', ' ']) {
        Some((date, time)) => {
            let (time, ahead) = without_offset(time)?;
            // An offset may lead before 1970.
            (days_of(date)? * DAY_MS + of_day(time)?).checked_sub_signed(ahead)?
        }
        None if text.contains('-') => days_of(text)? * DAY_MS,
        None => since_1970(text)?,
    };
    let end = days_of("9999-12-31")? + 1;
    (millis < end * DAY_MS).then(|| UNIX_EPOCH + Duration::from_millis(millis))
}

/// Seconds, with or without a part, as milliseconds.
fn since_1970(text: &str) -> Option<u64> {
    let (seconds, millis) = with_millis(text)?;
    let digits = seconds.len();
    // From 1973 on: fewer digits may have meant a date.
    let seconds = number(seconds, digits).filter(|_| (9..=12).contains(&digits))?;
    Some(seconds * 1000 + millis)
}

/// Milliseconds of a part of a second behind a dot, and what stands before it.
fn with_millis(text: &str) -> Option<(&str, u64)> {
    let Some((whole, part)) = text.split_once('.') else {
        return Some((text, 0));
    };
    // What is finer than a millisecond is left out.
    let all = (1..=9).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit());
    let part = part.get(..part.len().min(3)).filter(|_| all)?;
    let scale = 10u64.pow(3 - part.len() as u32);
    Some((whole, number(part, part.len())? * scale))
}

/// The time of day before its zone, and how far that is ahead of UTC, in milliseconds.
fn without_offset(time: &str) -> Option<(&str, i64)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, 0));
    }
    let (time, offset) = time.split_at_checked(time.rfind(['+', '-'])?)?;
    let (sign, offset) = offset.split_at_checked(1)?;
    let (hours, minutes) = offset.split_once(':').or(offset.split_at_checked(2))?;
    let (hours, minutes) = (number(hours, 2)?, number(minutes, 2)?);
    let ahead = (hours * 60 + minutes) as i64 * 60_000;
    let ahead = if sign == "-" { -ahead } else { ahead };
    (hours < 24 && minutes < 60).then_some((time, ahead))
}

/// Days from 1970 to a date.
fn days_of(date: &str) -> Option<u64> {
    let mut date = date.split('-');
    let (year, month, day) = (
        number(date.next()?, 4)?,
        number(date.next()?, 2)?,
        number(date.next()?, 2)?,
    );
    let length = *months(year).get(month.checked_sub(1)? as usize)?;
    let is_possible = date.next().is_none() && YEARS.contains(&year) && (1..=length).contains(&day);
    let years = (1970..year).map(|year| if is_leap(year) { 366 } else { 365 });
    let before: u64 = months(year).iter().take(month as usize - 1).sum();
    is_possible.then(|| years.sum::<u64>() + before + day - 1)
}

/// Milliseconds of a day up to a time.
fn of_day(time: &str) -> Option<u64> {
    let (time, millis) = with_millis(time)?;
    let mut time = time.split(':');
    let (hour, minute) = (number(time.next()?, 2)?, number(time.next()?, 2)?);
    let second = match time.next() {
        Some(second) => number(second, 2)?,
        None => 0,
    };
    let is_possible = time.next().is_none() && hour < 24 && minute < 60 && second < 60;
    is_possible.then(|| ((hour * 60 + minute) * 60 + second) * 1000 + millis)
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
            "2026-01-01T00:00:00.1234567890Z",
            "2026-01-01 00:00",
            "2026-01-01T00:00:00+2",
            "2026-01-01T00:00:00+24:00",
            "2026-01-01T00:00:00+02:0x",
            "1970-01-01T00:00:00+00:01",
            "2026-01",
            "20260101",
            "2026",
            "-1",
            "1764200000.",
            "99999999999999",
            "253402300800",
            "T",
            "é-01-01",
            "2026-1-01T00:00:00Z",
            "+026-01-01T00:00:00Z",
        ] {
            let told = parse_time(wrong).unwrap_err().to_string();
            assert!(told.contains("2026-11-25T12:00:00Z"), "{wrong}: {told}");
        }
    }

    #[test]
    fn a_time_is_written_in_many_ways() {
        for (written, told) in [
            ("2026-11-27T01:00:00+02:00", "2026-11-26T23:00:00.000Z"),
            ("2026-11-27 01:00:00.25-0330", "2026-11-27T04:30:00.250Z"),
            ("2026-11-27t01:00z", "2026-11-27T01:00:00.000Z"),
            ("2026-11-27T01:00:00.123456789Z", "2026-11-27T01:00:00.123Z"),
            ("2026-11-27", "2026-11-27T00:00:00.000Z"),
            ("1764205200", "2025-11-27T01:00:00.000Z"),
            ("1764205200.5", "2025-11-27T01:00:00.500Z"),
        ] {
            assert_eq!(text_of(parse_time(written).unwrap()), told, "{written}");
        }
    }
}
