//! Which state a time means, where the clock may have gone back while the log was archived.
//!
//! Invariant: a time that was twice is never taken for one of the two: that is an error that names both.

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use super::target::{Target, alone, at, last_mark, what_there_is};
use crate::backup_set::manifest::{Leap, LogFile, Manifest, Point};
use crate::backup_set::text::text_of;
use crate::millis::time_of;
use crate::planted::{Fault, planted};

/// How far a clock may go back unnoted: a restore to a time is no more exact than a second.
const UNNOTED_MS: u64 = 1000;

impl LogFile {
    /// Notes the time of a mark; whether the clock has gone back since the one before.
    pub fn note_time(&mut self, sequence: u64, time_ms: u64) -> bool {
        let is_back = time_ms.saturating_add(UNNOTED_MS) < self.last_ms;
        if is_back {
            self.leaps.push(Leap {
                sequence,
                from_ms: self.last_ms,
                to_ms: time_ms,
            });
        }
        // What goes back by less is not later than what was before.
        self.last_ms = match is_back {
            true => time_ms,
            false => self.last_ms.max(time_ms),
        };
        is_back
    }
}

/// A part of a chain in which the clock did not go back.
struct Stretch {
    /// Its first record, and the one behind its last.
    first: u64,
    next: u64,
    /// Its first time, and its last one.
    from_ms: u64,
    to_ms: u64,
}

/// The stretches of a chain from this point on.
fn stretches(set: &Manifest, point: &Point) -> Vec<Stretch> {
    let Some((first, next)) = set.behind(point) else {
        return Vec::new();
    };
    let logs = || set.logs.iter().filter(|log| Some(log.chain) == point.chain);
    let end_ms = logs().next_back().map_or(0, |log| log.last_ms);
    let mut all = vec![Stretch {
        first,
        next,
        from_ms: point.time_ms,
        to_ms: end_ms,
    }];
    let leaps = logs().flat_map(|log| &log.leaps);
    for leap in leaps.filter(|leap| (first..next).contains(&leap.sequence)) {
        if let Some(last) = all.last_mut() {
            // The clock went on for a while before it went back.
            (last.next, last.to_ms) = (leap.sequence, leap.from_ms + UNNOTED_MS);
        }
        all.push(Stretch {
            first: leap.sequence,
            next,
            from_ms: leap.to_ms,
            to_ms: end_ms,
        });
    }
    if planted(Fault::LeapsForgotten) {
        all.truncate(1);
    }
    all
}

/// The state at a time: that of the last point or mark up to it, if the set knows what came next.
///
/// # Errors
/// `Invalid` with what there is, also where the time was twice; those of reading the archived log.
pub fn at_time<'s>(set: &'s Manifest, disk: &dyn Disk, wanted: u64) -> Result<Target<'s>> {
    let mut found: Vec<Target<'_>> = Vec::new();
    let mut seen = Vec::new();
    for first in &set.points {
        // The first point that leads into a chain leads to all of it that can be had.
        if first.chain.is_none() || seen.contains(&first.chain) || set.behind(first).is_none() {
            continue;
        }
        seen.push(first.chain);
        for part in stretches(set, first) {
            if !(part.from_ms..=part.to_ms).contains(&wanted) {
                continue;
            }
            let target = in_stretch(set, disk, first, &part, wanted)?;
            if found
                .iter()
                .all(|other| other.last != target.last || other.point.chain != target.point.chain)
            {
                found.push(target);
            }
        }
    }
    let exact = set
        .points
        .iter()
        .rev()
        .find(|point| point.time_ms == wanted);
    match (found.pop(), exact) {
        (None, Some(point)) => Ok(alone(point)),
        (Some(target), _) if found.is_empty() => Ok(target),
        (Some(last), _) => Err(twice(wanted, &found, &last)),
        (None, None) => Err(Error::invalid(format!(
            "the backup set does not have the state of {}; {}",
            text_of(time_of(wanted)),
            what_there_is(set)
        ))),
    }
}

/// The state at a time that a stretch of the chain of this point has.
fn in_stretch<'s>(
    set: &'s Manifest,
    disk: &dyn Disk,
    first: &'s Point,
    part: &Stretch,
    wanted: u64,
) -> Result<Target<'s>> {
    // The newest point up to there: from inside of the stretch, or else before it.
    let of_chain = |point: &&Point| point.chain == first.chain && point.last() < part.next;
    let is_before = |point: &Point| point.log.sequence <= part.first || point.time_ms <= wanted;
    let mut points = set.points.iter().rev().filter(of_chain);
    let point = points.find(|point| is_before(point)).unwrap_or(first);
    let mut target = at(set, point, part.next - 1);
    target.first = part.first.max(point.log.sequence);
    (target.last, target.time_ms) =
        last_mark(set, disk, &target, wanted)?.unwrap_or((point.last(), point.time_ms));
    let last = target.last;
    target.logs.retain(|log| log.first <= last);
    Ok(target)
}

fn twice(wanted: u64, found: &[Target<'_>], last: &Target<'_>) -> Error {
    let wanted = text_of(time_of(wanted));
    let each = found.iter().chain([last]).map(|target| {
        let time = text_of(time_of(target.time_ms));
        format!("after change {} (noted at {time})", target.last)
    });
    let each: Vec<String> = each.collect();
    Error::invalid(format!(
        "the clock went back while the log was archived, so {wanted} was more than once: {}; say which is meant by its change, with RestoreTo::Sequence (`--to-sequence`)",
        each.join(", and ")
    ))
}
