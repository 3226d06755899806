//! Which point leads to which archived records: how chains and points belong together.
//!
//! Invariants: a point is of a chain only if the chain has, or will have, every record behind it; what is said
//! to be in a set is what a restore to the newest state gives; of archived records to which no point leads that
//! is said.

use crate::backup_set::manifest::{Manifest, Point};

impl Manifest {
    /// Whether a chain has, or will have, all records from this one on that come before its end.
    fn covers(&self, chain: u64, sequence: u64) -> bool {
        let archived = self.records_of(chain).map(|(first, _)| first);
        let end = self.end.filter(|end| end.chain == chain);
        let first = archived.or(end.map(|end| end.next));
        first.is_some_and(|first| first <= sequence)
    }

    /// The chain that leads on from a point whose records begin at `sequence`: that which is written now, or
    /// that which was written when its image was pinned, if the log was given up in between.
    pub fn chain_behind(&self, sequence: u64, then: Option<u64>, now: Option<u64>) -> Option<u64> {
        let reaches = |chain: &u64| {
            let archived = self.records_of(*chain);
            archived.is_some_and(|(_, next)| sequence <= next)
        };
        let now = now.filter(|chain| self.covers(*chain, sequence));
        let then = then.filter(|chain| self.covers(*chain, sequence));
        now.or(then.filter(reaches))
    }

    /// Whether the newest point leads to the end of the archived log. If not, a point has to be made.
    pub fn is_led_to(&self) -> bool {
        let (Some(end), Some(last)) = (self.end, self.points.last()) else {
            return self.end.is_none();
        };
        last.chain == Some(end.chain) && self.covers(end.chain, last.log.sequence)
    }

    /// The records that the set has behind a point, without a gap: the first, and the one behind the last.
    pub fn behind(&self, point: &Point) -> Option<(u64, u64)> {
        let (first, next) = self.records_of(point.chain?)?;
        let from = point.log.sequence;
        (first <= from && from < next).then_some((from, next))
    }

    /// The newest state that can be restored: the point to begin with, and the last record.
    pub fn newest(&self) -> Option<(&Point, u64)> {
        let last = self.points.last()?;
        let older = self.points.iter().rev().find(|point| self.leads(point));
        let point = match older {
            // Records that were archived after the newest point, behind an older one.
            Some(older) if self.went_on_after(last) => older,
            _ => last,
        };
        let reach = self
            .behind(point)
            .map_or(point.last(), |(_, next)| next - 1);
        Some((point, reach))
    }

    /// The newest archived records, the first and the last, if no point leads to them.
    pub fn unreached(&self) -> Option<(u64, u64)> {
        let (first, next) = self.records_of(self.end?.chain)?;
        let is_old = self.points.last().is_some_and(|p| !self.went_on_after(p));
        let is_led_to = self.points.iter().any(|point| self.leads(point));
        (first < next && !is_old && !is_led_to).then_some((first, next - 1))
    }

    fn leads(&self, point: &Point) -> bool {
        let chain = self.end.map(|end| end.chain);
        point
            .chain
            .is_some_and(|of| Some(of) == chain && self.covers(of, point.log.sequence))
    }

    /// Whether log was archived since this point was made.
    fn went_on_after(&self, point: &Point) -> bool {
        let Some(end) = self.end else { return false };
        match point.archived {
            Some(then) => then != (end.chain, end.next),
            // Of a point that says nothing of it the time has to do.
            None => self
                .logs
                .last()
                .is_some_and(|log| log.last_ms > point.time_ms),
        }
    }
}
