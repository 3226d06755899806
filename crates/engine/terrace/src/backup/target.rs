//! A state that a backup set has: a point, and records behind it.

use terrace_base::Result;
use terrace_base::disk::Disk;

use super::verify::ClockLeap;
use crate::backup_set::archive::read_records;
use crate::backup_set::manifest::{LogFile, Manifest, Point};
use crate::backup_set::text::text_of;
use crate::effects::{Effect, Effects};
use crate::millis::time_of;

/// A state that a set has.
pub struct Target<'s> {
    /// The point to begin with.
    pub point: &'s Point,
    /// The first record behind it that counts for its time.
    pub first: u64,
    /// The last record that it has.
    pub last: u64,
    /// Files that have the records between the two.
    pub logs: Vec<&'s LogFile>,
    /// When it was so, in milliseconds since 1970: the time of the last mark or point up to there.
    pub time_ms: u64,
}

impl Target<'_> {
    /// Where the clock had gone back behind the point, up to the state.
    pub fn leaps(&self) -> Vec<ClockLeap> {
        let records = self.point.log.sequence..=self.last;
        let all = self.logs.iter().flat_map(|log| &log.leaps);
        all.filter(|leap| records.contains(&leap.sequence))
            .map(ClockLeap::of)
            .collect()
    }
}

/// Most names that an error lists.
pub const MOST_NAMES: usize = 20;

/// A point without records behind it.
pub fn alone(point: &Point) -> Target<'_> {
    Target {
        point,
        first: point.log.sequence,
        last: point.last(),
        logs: Vec::new(),
        time_ms: point.time_ms,
    }
}

/// The state after this record, from this point on, which has what it takes.
pub fn at<'s>(set: &'s Manifest, point: &'s Point, last: u64) -> Target<'s> {
    let from = point.log.sequence;
    let logs = set
        .logs
        .iter()
        .filter(|log| Some(log.chain) == point.chain && log.next > from && log.first <= last);
    Target {
        point,
        first: from,
        last,
        logs: logs.filter(|_| last >= from).collect(),
        time_ms: point.time_ms,
    }
}

/// The last mark of these records up to this time, before the first that is later: its record and its time.
pub fn last_mark(
    set: &Manifest,
    disk: &dyn Disk,
    target: &Target<'_>,
    until_ms: u64,
) -> Result<Option<(u64, u64)>> {
    let mut found = None;
    let mut past = false;
    for log in &target.logs {
        read_records(disk, set.set, log, &mut |sequence, record| {
            let inside = sequence >= target.first && sequence <= target.last;
            if let Some(Ok(Effect::Mark { time_ms, .. })) = Effects::new(record).next()
                && inside
            {
                past |= time_ms > until_ms;
                if !past {
                    found = Some((sequence, time_ms));
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// The points and the stretches of log, for an error.
pub fn what_there_is(set: &Manifest) -> String {
    if set.points.is_empty() {
        return "it has no point yet".into();
    }
    let mut texts = Vec::new();
    for point in &set.points {
        let time = text_of(time_of(point.time_ms));
        let mut text = format!("point {} (change {}, {time})", point.point, point.last());
        if let Some((_, next)) = set.behind(point) {
            let logs = set.logs.iter().filter(|log| Some(log.chain) == point.chain);
            let until = logs.map(|log| log.last_ms).next_back().unwrap_or(0);
            let until = if until == 0 { point.time_ms } else { until };
            text += &format!(
                " and all changes behind it up to {} of {}",
                next - 1,
                text_of(time_of(until))
            );
        }
        texts.push(text);
    }
    let more = texts.len().saturating_sub(MOST_NAMES);
    let shown = texts.split_off(more);
    match more {
        0 => format!("it has {}", shown.join("; ")),
        _ => format!("it has {more} older points, and {}", shown.join("; ")),
    }
}
