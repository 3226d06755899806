//! Which point, and which records behind it, are the state that is asked for.
//!
//! Invariant: what is chosen is exactly the state that was asked for, or an error that says what there is.

use std::time::SystemTime;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use super::target::{MOST_NAMES, Target, alone, at, last_mark, what_there_is};
use super::times::at_time;
use crate::backup_set::manifest::{LogFile, Manifest, Point};
use crate::backup_set::text::text_of;
use crate::millis::{millis, time_of};
use crate::planted::{Fault, planted};

/// Which state is restored.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum RestoreTo {
    /// The newest that there is: the newest point, and all archived changes behind it. An error where the
    /// set has newer changes to which no point leads, unless [`crate::RestoreOptions::up_to_break`] says so.
    #[default]
    Latest,
    /// That of a point.
    Point(u64),
    /// That of this time: of the last point, or second of an archived log, up to it. An error where the set
    /// does not know what was so then: before the first point, behind the end, or where no log is archived; and
    /// where that time was twice, because the clock had gone back: then it names both changes.
    Time(SystemTime),
    /// That after the change of this number, and before the next.
    Sequence(u64),
    /// That of the newest mark of this name ([`crate::Database::mark`], [`crate::BackupOptions::mark`]).
    Mark(String),
}

/// Finds the state that is asked for.
///
/// # Errors
/// `Invalid` with what there is, also when the newest is asked for, the newest records are behind a break, and
/// `up_to_break` does not say that what lies before will do; `Corrupt` where the archived log had to be read and is damaged.
pub fn select<'s>(
    set: &'s Manifest,
    disk: &dyn Disk,
    to: &RestoreTo,
    up_to_break: bool,
) -> Result<Target<'s>> {
    match to {
        RestoreTo::Point(number) => {
            let point = set.point(*number)?;
            Ok(alone(point))
        }
        RestoreTo::Latest => {
            let newest = set.newest();
            let (point, last) =
                newest.ok_or_else(|| Error::invalid("the backup set has no point yet"))?;
            let mut target = at(set, point, last);
            if let Some((_, time_ms)) = last_mark(set, disk, &target, u64::MAX)? {
                target.time_ms = time_ms;
            }
            match set.unreached() {
                Some((first, end)) if !up_to_break => Err(Error::invalid(format!(
                    "the newest changes of the backup set, {first} to {end}, cannot be restored: the log was given up before them, and no point has been made since; the newest state that can be restored is that after change {last}, of {}: ask for it by RestoreOptions::up_to_break(true) (`--up-to-break`), or let the database make a point first",
                    text_of(time_of(target.time_ms))
                ))),
                _ => Ok(target),
            }
        }
        RestoreTo::Sequence(wanted) => {
            let mut target = find(set, *wanted, |_| true).ok_or_else(|| {
                Error::invalid(format!(
                    "the backup set does not have the state after change {wanted}; {}",
                    what_there_is(set)
                ))
            })?;
            if let Some((_, time_ms)) = last_mark(set, disk, &target, u64::MAX)? {
                target.time_ms = time_ms;
            }
            Ok(target)
        }
        RestoreTo::Mark(name) => {
            let of_log = |log: &'s LogFile| log.marks.iter().map(move |mark| (log.chain, mark));
            let of_logs = set.logs.iter().flat_map(of_log);
            let mut of_logs = of_logs.filter(|(_, mark)| mark.name == *name);
            // In the order in which they were made, whatever the clock showed.
            let newest = of_logs.next_back();
            let point = set.points.iter().rev();
            let point = { point }.find(|point| point.mark.as_deref() == Some(name));
            let is_newer = |point: &&Point| {
                newest.is_none_or(|(chain, mark)| match point.archived {
                    _ if point.chain == Some(chain) => point.last() > mark.sequence,
                    Some(then) => (chain, mark.sequence) < then,
                    None => point.time_ms > mark.time_ms,
                })
            };
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

/// The state after this record, from the newest of these points that leads there.
fn find(set: &Manifest, wanted: u64, of: impl Fn(&Point) -> bool) -> Option<Target<'_>> {
    let leads = |point: &&Point| {
        let reaches = |(_, next)| wanted < next;
        let leads = point.last() == wanted
            || point.last() < wanted && set.behind(point).is_some_and(reaches);
        of(point) && leads
    };
    let point = set.points.iter().rev().find(leads)?;
    Some(at(
        set,
        point,
        wanted + u64::from(planted(Fault::RestoredTooFar)),
    ))
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
