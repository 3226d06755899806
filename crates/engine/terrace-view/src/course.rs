//! The course of the figures: a point every few seconds, for as long as an engineer on call looks back.
//!
//! Invariants: points are in the order of their times; there are never more than were asked for. Rates are of the
//! time since the point before, and none of the first, nor where a counter is less than before: behind a restart of
//! the other process, or where a structure was dropped.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace::{Call, CallStats, Stats};

use crate::calls::since;

/// Time between two points.
pub const EVERY: Duration = Duration::from_secs(5);
/// Points that are kept: two hours of them, a few hundred KiB as JSON.
const KEPT: usize = 1440;

/// Figures of one moment, and rates since the point before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Point {
    /// Seconds since it was first watched.
    pub at: f64,
    /// Reads and writes of records a second.
    pub operations: f64,
    /// Pages read for each operation; none where there was none.
    pub reads_per_operation: Option<f64>,
    /// Share of the reads that the hot tier answered; none where there was none.
    pub hit_rate: Option<f64>,
    /// Pages read a second.
    pub page_reads: f64,
    /// Pages written a second.
    pub page_writes: f64,
    /// Bytes of hot pages in memory.
    pub hot_bytes: u64,
    /// Bytes of the data file.
    pub data_bytes: u64,
    /// Bytes of the pages of it that hold something.
    pub live_bytes: u64,
    /// Bytes of log since the last checkpoint.
    pub log_bytes: u64,
    /// Transactions committed a second.
    pub committed: f64,
    /// Attempts of transactions a second that others were faster than.
    pub conflicts: f64,
    /// Times a second that a thread had to wait for a frame or for a checkpoint.
    pub waits: f64,
    /// What 99 % of the gets since the point before took at most, in seconds; none where none was timed.
    pub get_p99: Option<f64>,
    /// The same of puts and deletes.
    pub put_p99: Option<f64>,
    /// The same of transactions.
    pub transaction_p99: Option<f64>,
}

/// What only grows, of one moment, or since another one.
#[derive(Clone, Copy, Debug)]
struct Counted {
    when: Instant,
    hot_hits: u64,
    other_reads: u64,
    writes: u64,
    page_reads: u64,
    page_writes: u64,
    committed: u64,
    conflicts: u64,
    waits: u64,
}

impl Counted {
    fn of(when: Instant, stats: &Stats) -> Counted {
        let each = || {
            let all = stats.structures.iter();
            all.flat_map(|one| std::iter::once(one).chain(&one.by_index))
        };
        Counted {
            when,
            hot_hits: each().map(|one| one.hot_hits).sum(),
            other_reads: each().map(|one| one.cold_hits + one.misses).sum(),
            // Changes of indexes belong to those of their table.
            writes: stats.structures.iter().map(|one| one.writes).sum(),
            page_reads: stats.pages.reads,
            page_writes: stats.pages.writes,
            committed: stats.transactions.committed,
            conflicts: stats.transactions.conflicts,
            waits: stats.pages.waits_for_frames + stats.pages.waits_for_cut,
        }
    }

    /// What has come since then; nothing where something is less, as behind a restart of the other process, or where
    /// a structure was dropped.
    fn since(&self, last: &Counted) -> Option<Counted> {
        let grown = |of: fn(&Counted) -> u64| of(self).checked_sub(of(last));
        Some(Counted {
            when: last.when,
            hot_hits: grown(|counted| counted.hot_hits)?,
            other_reads: grown(|counted| counted.other_reads)?,
            writes: grown(|counted| counted.writes)?,
            page_reads: grown(|counted| counted.page_reads)?,
            page_writes: grown(|counted| counted.page_writes)?,
            committed: grown(|counted| counted.committed)?,
            conflicts: grown(|counted| counted.conflicts)?,
            waits: grown(|counted| counted.waits)?,
        })
    }
}

/// The points so far.
#[derive(Debug)]
pub struct Course {
    began: Instant,
    kept: usize,
    points: VecDeque<Point>,
    last: Option<Counted>,
    last_calls: Vec<CallStats>,
}

impl Course {
    /// None yet.
    pub fn new(began: Instant) -> Course {
        Course {
            began,
            kept: KEPT,
            points: VecDeque::new(),
            last: None,
            last_calls: Vec::new(),
        }
    }

    /// Whether it is time for another one.
    pub fn is_due(&self, now: Instant) -> bool {
        self.last
            .is_none_or(|last| now.duration_since(last.when) >= EVERY)
    }

    /// The newest one.
    pub fn latest(&self) -> Option<Point> {
        self.points.back().copied()
    }

    /// All of them, the oldest first.
    pub fn points(&self) -> impl Iterator<Item = &Point> {
        self.points.iter()
    }

    /// One more, of the figures of now.
    pub fn add(&mut self, now: Instant, stats: &Stats) {
        let counted = Counted::of(now, stats);
        let page = stats.pages.page_bytes;
        let mut point = Point {
            at: now.duration_since(self.began).as_secs_f64(),
            hot_bytes: stats.memory.hot_pages,
            data_bytes: stats.pages.data_file_bytes,
            live_bytes: stats.pages.live * page,
            log_bytes: stats.log.bytes_since_checkpoint,
            ..Point::default()
        };
        if let Some(grown) = self.last.and_then(|last| counted.since(&last)) {
            let seconds = now.duration_since(grown.when).as_secs_f64().max(1e-3);
            let reads = grown.hot_hits + grown.other_reads;
            let operations = (reads + grown.writes) as f64;
            let share = |part: u64, of: f64| (of > 0.0).then(|| part as f64 / of);
            point.operations = operations / seconds;
            point.reads_per_operation = share(grown.page_reads, operations);
            point.hit_rate = share(grown.hot_hits, reads as f64);
            point.page_reads = grown.page_reads as f64 / seconds;
            point.page_writes = grown.page_writes as f64 / seconds;
            point.committed = grown.committed as f64 / seconds;
            point.conflicts = grown.conflicts as f64 / seconds;
            point.waits = grown.waits as f64 / seconds;
            let called = since(&stats.calls, &self.last_calls);
            let p99 = |call: Call| {
                let one = called.iter().find(|one| one.call == call.as_str());
                one.map(|one| one.latency.p99_ns as f64 / 1e9)
            };
            point.get_p99 = p99(Call::Get);
            point.put_p99 = p99(Call::Put);
            point.transaction_p99 = p99(Call::Transaction);
        }
        self.last_calls.clone_from(&stats.calls);
        self.last = Some(counted);
        self.points.push_back(point);
        if self.points.len() > self.kept {
            self.points.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use terrace::{Database, Options};

    #[test]
    fn rates_are_of_the_time_between_two_points_and_old_ones_go() {
        let dir = tempfile::tempdir().unwrap();
        let db = Database::open(dir.path(), Options::new().memory(16 << 20)).unwrap();
        let users = db.tree("users").unwrap();
        let began = Instant::now();
        let mut course = Course::new(began);
        assert!(course.is_due(began) && course.latest().is_none());
        course.add(began, &db.stats());
        assert_eq!(course.latest().unwrap().operations, 0.0);
        assert!(!course.is_due(began + EVERY - Duration::from_millis(1)));
        assert!(course.is_due(began + EVERY));

        for n in 0..40u8 {
            users.put([n], "x").unwrap();
        }
        for n in 0..10u8 {
            users.get([n]).unwrap();
        }
        db.transaction(|t| t.put(&users, "a", "b")).unwrap();
        course.add(began + EVERY, &db.stats());
        let point = course.latest().unwrap();
        // 41 writes and 10 reads in five seconds, all of them of hot records.
        assert_eq!((point.at, point.operations), (5.0, 51.0 / 5.0));
        assert_eq!(point.hit_rate, Some(1.0));
        assert_eq!((point.committed, point.conflicts), (0.2, 0.0));
        assert!(point.transaction_p99.is_some_and(|seconds| seconds > 0.0));
        assert!(point.hot_bytes > 0 && point.live_bytes > 0 && point.log_bytes > 0);

        // Nothing happened: no rate, and no share of nothing.
        course.kept = 2;
        course.add(began + 2 * EVERY, &db.stats());
        let point = course.latest().unwrap();
        assert_eq!((point.operations, point.hit_rate), (0.0, None));
        assert_eq!((point.get_p99, point.transaction_p99), (None, None));
        let times: Vec<f64> = course.points().map(|point| point.at).collect();
        assert_eq!(times, [5.0, 10.0]);

        // What was counted of a structure goes with it, so nothing is said of the time in between.
        let others = db.tree("others").unwrap();
        (0..10u8).for_each(|n| assert_eq!(others.get([n]).unwrap(), None));
        db.drop_structure("users").unwrap();
        course.add(began + 3 * EVERY, &db.stats());
        let point = course.latest().unwrap();
        assert_eq!((point.operations, point.hit_rate), (0.0, None));
    }

    #[test]
    fn two_hours_are_kept() {
        assert_eq!(EVERY * KEPT as u32, Duration::from_secs(2 * 3600));
    }
}
