//! Which point, and which records behind it, are the state that somebody asks for.
//!
//! Invariant: what is chosen is exactly the state that was asked for, or an error that says what there is.

use std::time::SystemTime;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use super::archive::read_records;
use super::manifest::{LogFile, Manifest, Point};
use super::text::text_of;
use crate::effects::{Effect, Effects};
use crate::mark::{millis, time_of};
use crate::planted::{Fault, planted};

/// Which state is restored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum RestoreTo {
    /// The newest that there is: the newest point, and all archived changes behind it.
    #[default]
    Latest,
    /// That of a point.
    Point(u64),
    /// That of this time: of the last point, or second of an archived log, up to it. An error where the set
    /// does not know what was so then: before the first point, behind the end, or where no log is archived.
    Time(SystemTime),
    /// That after the change of this number, and before the next.
    Sequence(u64),
    /// That of the newest mark of this name ([`crate::Database::mark`], [`crate::BackupOptions::mark`]).
    Mark(String),
}

/// A state that a set has.
pub struct Target<'s> {
    /// The point to begin with.
    pub point: &'s Point,
    /// The last record that it has.
    pub last: u64,
    /// Files that have the records between the two.
    pub logs: Vec<&'s LogFile>,
    /// When it was so, in milliseconds since 1970: the time of the last mark or point up to there.
    pub time_ms: u64,
}

/// Most names that an error lists.
const MOST_NAMES: usize = 20;

/// Finds the state that is asked for.
///
/// # Errors
/// `Invalid` with what there is; `Corrupt` where the archived log had to be read and is damaged.
pub fn select<'s>(set: &'s Manifest, disk: &dyn Disk, to: &RestoreTo) -> Result<Target<'s>> {
    match to {
        RestoreTo::Point(number) => {
            let point = set.point(*number)?;
            Ok(alone(point))
        }
        RestoreTo::Latest => {
            let point = set.points.last();
            let point = point.ok_or_else(|| Error::invalid("the backup set has no point yet"))?;
            let last = behind(set, point).map_or(point.last(), |(_, next)| next - 1);
            let mut target = at(set, point, last);
            target.time_ms = target
                .time_ms
                .max(last_mark(set, disk, &target, u64::MAX)?.1);
            Ok(target)
        }
        RestoreTo::Sequence(wanted) => {
            let mut target = find(set, *wanted, |_| true).ok_or_else(|| {
                Error::invalid(format!(
                    "the backup set does not have the state after change {wanted}; {}",
                    what_there_is(set)
                ))
            })?;
            target.time_ms = target
                .time_ms
                .max(last_mark(set, disk, &target, u64::MAX)?.1);
            Ok(target)
        }
        RestoreTo::Mark(name) => {
            let of_log = |log: &'s LogFile| log.marks.iter().map(move |mark| (log.chain, mark));
            let of_logs = set.logs.iter().flat_map(of_log);
            let of_logs = of_logs.filter(|(_, mark)| mark.name == *name);
            let newest = of_logs.max_by_key(|(_, mark)| (mark.time_ms, mark.sequence));
            let point = set.points.iter().rev();
            let point = { point }.find(|point| point.mark.as_deref() == Some(name));
            let is_newer = |point: &&Point| newest.is_none_or(|(_, m)| point.time_ms > m.time_ms);
            match (point.filter(is_newer), newest) {
                (Some(point), _) => Ok(alone(point)),
                // Another chain may have another change of the same number.
                (None, Some((chain, mark))) => {
                    let target = find(set, mark.sequence, |point| point.chain == Some(chain));
                    let mut target = target.ok_or_else(|| {
                        Error::invalid(format!(
                            "the newest mark named \"{name}\" is at change {}, and no point that is left leads there; {}",
                            mark.sequence,
                            what_there_is(set)
                        ))
                    })?;
                    target.time_ms = mark.time_ms;
                    Ok(target)
                }
                (None, None) => Err(Error::invalid(format!(
                    "the backup set has no mark named \"{name}\"; it has {}",
                    names(set)
                ))),
            }
        }
        RestoreTo::Time(time) => at_time(set, disk, millis(*time)),
    }
}

/// A point without records behind it.
fn alone(point: &Point) -> Target<'_> {
    Target {
        point,
        last: point.last(),
        logs: Vec::new(),
        time_ms: point.time_ms,
    }
}

/// The records that the set has behind a point, without a gap: the first, and the one behind the last.
fn behind(set: &Manifest, point: &Point) -> Option<(u64, u64)> {
    let (first, next) = set.records_of(point.chain?)?;
    let from = point.log.sequence;
    (first <= from && from < next).then_some((from, next))
}

/// The state after this record, from this point on, which has what it takes.
fn at<'s>(set: &'s Manifest, point: &'s Point, last: u64) -> Target<'s> {
    let from = point.log.sequence;
    let logs = set
        .logs
        .iter()
        .filter(|log| Some(log.chain) == point.chain && log.next > from && log.first <= last);
    Target {
        point,
        last,
        logs: logs.filter(|_| last >= from).collect(),
        time_ms: point.time_ms,
    }
}

/// The state after this record, from the newest of these points that leads there.
fn find(set: &Manifest, wanted: u64, of: impl Fn(&Point) -> bool) -> Option<Target<'_>> {
    let leads = |point: &&Point| {
        let reaches = |(_, next)| wanted < next;
        let leads = point.last() == wanted
            || point.last() < wanted && behind(set, point).is_some_and(reaches);
        of(point) && leads
    };
    let point = set.points.iter().rev().find(leads)?;
    Some(at(
        set,
        point,
        wanted + u64::from(planted(Fault::RestoredTooFar)),
    ))
}

/// The last mark of these records up to this time: its record and its time, zeros if there is none.
fn last_mark(
    set: &Manifest,
    disk: &dyn Disk,
    target: &Target<'_>,
    until_ms: u64,
) -> Result<(u64, u64)> {
    let mut found = (0, 0);
    let mut past = false;
    for log in &target.logs {
        read_records(disk, set.set, log, &mut |sequence, record| {
            let inside = sequence >= target.point.log.sequence && sequence <= target.last;
            if let Some(Ok(Effect::Mark { time_ms, .. })) = Effects::new(record).next()
                && inside
            {
                past |= time_ms > until_ms;
                if !past {
                    found = (sequence, time_ms);
                }
            }
            Ok(())
        })?;
    }
    Ok(found)
}

/// The state at a time: that of the last point or mark up to it, if the set knows what came next.
fn at_time<'s>(set: &'s Manifest, disk: &dyn Disk, wanted: u64) -> Result<Target<'s>> {
    for point in set.points.iter().rev() {
        if point.time_ms > wanted {
            continue;
        }
        // The newest point up to that time. Behind it only its own log says what was so then.
        if let Some((_, next)) = behind(set, point) {
            let mut target = at(set, point, next - 1);
            let end_ms = target.logs.iter().map(|log| log.last_ms).max();
            if end_ms.is_some_and(|end_ms| wanted <= end_ms) {
                let (last, time_ms) = last_mark(set, disk, &target, wanted)?;
                target.last = last.max(point.last());
                target.time_ms = time_ms.max(point.time_ms);
                let last = target.last;
                target.logs.retain(|log| log.first <= last);
                return Ok(target);
            }
        }
        if point.time_ms == wanted {
            return Ok(alone(point));
        }
        break;
    }
    let wanted = text_of(time_of(wanted));
    Err(Error::invalid(format!(
        "the backup set does not have the state of {wanted}; {}",
        what_there_is(set)
    )))
}

/// The points and the stretches of log, for an error.
fn what_there_is(set: &Manifest) -> String {
    if set.points.is_empty() {
        return "it has no point yet".into();
    }
    let mut texts = Vec::new();
    for point in &set.points {
        let time = text_of(time_of(point.time_ms));
        let mut text = format!("point {} (change {}, {time})", point.point, point.last());
        if let Some((_, next)) = behind(set, point) {
            let logs = set.logs.iter().filter(|log| Some(log.chain) == point.chain);
            let until = logs.map(|log| log.last_ms).max().unwrap_or(0);
            text += &format!(
                " and all changes behind it up to {} of {}",
                next - 1,
                text_of(time_of(until.max(point.time_ms)))
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

/// The names of its marks, for an error.
fn names(set: &Manifest) -> String {
    let of_logs = set.logs.iter().flat_map(|log| &log.marks);
    let of_points = set.points.iter().filter_map(|point| point.mark.as_ref());
    let names = of_logs.map(|mark| &mark.name).chain(of_points);
    let mut names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    names.sort_unstable();
    names.dedup();
    let more = names.len().saturating_sub(MOST_NAMES);
    names.truncate(MOST_NAMES);
    match (names.is_empty(), more) {
        (true, _) => "none: only what is archived by following the log, and points that were given a name, can be found so".into(),
        (false, 0) => names.join(", "),
        (false, more) => format!("{} and {more} more", names.join(", ")),
    }
}
