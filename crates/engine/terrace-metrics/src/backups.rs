//! The families of backup: the last point, and who follows the log.

use terrace::{FollowStatus, Stats};

use crate::text::Kind::{Counter, Gauge};
use crate::text::{Number, Text};

/// Seconds since 1970.
fn seconds(time: std::time::SystemTime) -> f64 {
    let since = time.duration_since(std::time::UNIX_EPOCH);
    since.map_or(0.0, |since| since.as_secs_f64())
}

/// The last backup since the opening, if there was one, and each set that the log is copied to.
pub(crate) fn families(stats: &Stats, text: &mut Text) {
    let last = stats.last_backup.as_ref();
    let mut of_last = |name, help, number: Option<Number>| {
        text.family(name, Gauge, help);
        if let Some(number) = number {
            text.sample(&[], number);
        }
    };
    of_last(
        "backup_last_timestamp_seconds",
        "The instant that the last point shows, in seconds since 1970.",
        last.map(|last| seconds(last.time).into()),
    );
    of_last(
        "backup_last_point",
        "The number of the last point.",
        last.map(|last| last.point.into()),
    );
    of_last(
        "backup_last_sequence",
        "The last change that the last point has.",
        last.map(|last| last.sequence.into()),
    );
    of_last(
        "backup_last_seconds",
        "How long the last point took.",
        last.map(|last| last.seconds.into()),
    );
    of_last(
        "backup_last_stored_bytes",
        "Bytes that the last point added to its set.",
        last.map(|last| last.stored_bytes.into()),
    );
    text.family(
        "backup_last_pages",
        Gauge,
        "Pages of the last point: all that it has, those that were read, and those that its set did not have.",
    );
    if let Some(last) = last {
        for (what, pages) in [
            ("live", last.live_pages),
            ("read", last.read_pages),
            ("stored", last.stored_pages),
        ] {
            text.sample(&[("what", what)], pages);
        }
    }
    type Figure = fn(&FollowStatus) -> Number;
    let mut each = |name, kind, help, figure: Figure| {
        text.family(name, kind, help);
        for follower in &stats.following {
            let set = follower.set.as_ref();
            let set = set.map_or(String::new(), |set| set.display().to_string());
            text.sample(&[("set", &set)], figure(follower));
        }
    };
    each(
        "follow_sequence",
        Gauge,
        "The last change that a backup set has by following the log.",
        |f| f.sequence.into(),
    );
    each(
        "follow_timestamp_seconds",
        Gauge,
        "When that was found to be so, in seconds since 1970; 0 before the first time.",
        |f| f.time.map_or(0.0, seconds).into(),
    );
    each(
        "follow_point",
        Gauge,
        "The newest point that was made by following; 0 before the first one.",
        |f| f.point.unwrap_or(0).into(),
    );
    each(
        "follow_log_bytes",
        Counter,
        "Bytes of log that were copied to a backup set.",
        |f| f.log_bytes.into(),
    );
    each(
        "follow_breaks",
        Counter,
        "Times that the log was given up before it was copied.",
        |f| f.breaks.into(),
    );
    each(
        "follow_clock_leaps",
        Counter,
        "Times that the clock had gone back between two copies of the log.",
        |f| f.clock_leaps.into(),
    );
    each(
        "follow_failing",
        Gauge,
        "Whether the last attempt to copy the log failed.",
        |f| u64::from(f.error.is_some()).into(),
    );
}
