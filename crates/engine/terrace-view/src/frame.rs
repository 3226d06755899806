//! A frame: figures of one moment, and rates since the frame before.
//!
//! Invariants: the parts of the memory add up to its limit, or to what is in use where that is more for a
//! moment. Rates are of the time between two frames, and none of the first.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use serde::Serialize;
use terrace::{FollowStatus, Result, Stats, StructureStats, Tiers};

use crate::calls::{Called, Lately};
use crate::counted::Counted;
use crate::course::{Course, Point};
use crate::watched::Watched;

/// Frames whose page reads per operation are remembered: two minutes at two a second.
const REMEMBERED: usize = 240;

/// Figures of one moment.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Frame {
    /// What the database is called.
    pub name: String,
    /// Seconds since it was first watched.
    pub watched_seconds: f64,
    /// The memory limit.
    pub memory_limit: u64,
    /// Where the memory goes; adds up to the limit.
    pub memory: Vec<Part>,
    /// The structures, and below each its indexes.
    pub rows: Vec<Row>,
    /// Reads and writes of records a second; changes of indexes belong to those of their table.
    pub operations: f64,
    /// Pages read a second.
    pub page_reads: f64,
    /// Pages written a second.
    pub page_writes: f64,
    /// Pages read for each operation; none where there was none.
    pub reads_per_operation: Option<f64>,
    /// The same of the frames before this one, the oldest first, with this one.
    pub history: Vec<f64>,
    /// Bytes of the data file.
    pub data_bytes: u64,
    /// The log.
    pub log: Log,
    /// Checkpoints.
    pub checkpoint: Checkpoint,
    /// Times a second that a thread had to wait for a frame, or for a checkpoint.
    pub waits: f64,
    /// How long calls took in the last minute, by their kind; those that were not called are left out.
    pub calls: Vec<Called>,
    /// Bytes of the pages of the data file that hold something.
    pub live_bytes: u64,
    /// Transactions committed a second.
    pub committed: f64,
    /// Attempts of transactions a second that others were faster than.
    pub conflicts: f64,
    /// Transactions that were given up since the opening.
    pub given_up: u64,
    /// Backup sets that follow the log.
    pub followers: Vec<Follower>,
    /// Seconds since the last backup of this process; none before it.
    pub last_backup: Option<f64>,
    /// The newest point of the course of two hours.
    pub latest: Option<Point>,
    /// Figures of the program that has the database open.
    pub program: Vec<Shown>,
}

/// A backup set that follows the log.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Follower {
    /// The name of its folder.
    pub set: String,
    /// The last change that a restore of it can go to.
    pub sequence: u64,
    /// Seconds since that was found to be so.
    pub behind: Option<f64>,
    /// How often the log was given up before it was copied.
    pub breaks: u64,
    /// Why the last attempt failed, if it did.
    pub error: Option<String>,
}

/// A figure of the program.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Shown {
    /// What it is.
    pub word: String,
    /// How much; of what only grows how much a second.
    pub value: f64,
    /// Whether it is a rate.
    pub is_rate: bool,
}

/// A part of the memory.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Part {
    /// What it is for.
    pub name: &'static str,
    /// How much.
    pub bytes: u64,
}

/// A structure or an index.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Row {
    /// Its name.
    pub name: String,
    /// Whether it is an index of the table above it.
    pub is_index: bool,
    /// Its kind.
    pub kind: &'static str,
    /// In how many tiers it keeps its records.
    pub tiers: u8,
    /// Records, about.
    pub records: Option<u64>,
    /// Of them those in the hot tier.
    pub hot: Option<u64>,
    /// Those in the cold (or only) tier; a record may be in both.
    pub cold: Option<u64>,
    /// Reads a second.
    pub reads: f64,
    /// Records written and deleted a second.
    pub writes: f64,
    /// Share of the reads since the last frame that the hot tier answered.
    pub hit_rate: Option<f64>,
    /// Records a second that were promoted.
    pub up: f64,
    /// Records a second that left the hot tier, by ageing or displaced.
    pub down: f64,
}

/// The log.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Log {
    /// Bytes that a recovery would read now.
    pub since_checkpoint: u64,
    /// Bytes at which a checkpoint begins.
    pub limit: u64,
    /// Bytes that it grows by in a second.
    pub growth: f64,
}

/// Checkpoints.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct Checkpoint {
    /// How many were completed.
    pub completed: u64,
    /// How many were given up.
    pub failed: u64,
    /// How far the one that is being made has come, 0 to 1.
    pub running: Option<f64>,
    /// Seconds that the last one took.
    pub last_seconds: Option<f64>,
    /// For how long no thread could change pages during it, in seconds.
    pub last_closed_seconds: Option<f64>,
    /// Pages that it wrote.
    pub last_pages: Option<u64>,
}

/// One that watches a database.
#[derive(Debug)]
pub struct Watch {
    name: String,
    watched: Watched,
    began: Instant,
    /// How old numbers of records may be.
    survey_every: Duration,
    counted: Arc<Counted>,
    last: Option<(Instant, Stats)>,
    history: VecDeque<f64>,
    course: Course,
    lately: Lately,
}

impl Watch {
    /// Watches a database, and counts its records again after `survey_every`, or later if that takes long.
    pub fn new(name: impl Into<String>, watched: Watched, survey_every: Duration) -> Watch {
        let began = Instant::now();
        Watch {
            name: name.into(),
            counted: Arc::new(Counted::new(watched.again())),
            watched,
            began,
            survey_every,
            last: None,
            history: VecDeque::new(),
            course: Course::new(began),
            lately: Lately::default(),
        }
    }

    /// What counts the records, for who wants that done before the watch is needed.
    pub(crate) fn counted(&self) -> (Arc<Counted>, Duration) {
        (self.counted.clone(), self.survey_every)
    }

    /// The figures, with numbers of records that are at most so old, or as old as it takes to count them
    /// only a small part of the time.
    ///
    /// # Errors
    /// As [`Watched::stats`]. Numbers of records that cannot be had are none.
    pub fn stats(&mut self, at_most: Duration) -> Result<Stats> {
        // A closed or a failing database has none, and says so below.
        let survey = self.counted.at_most(at_most).ok();
        let mut stats = self.watched.stats()?;
        if let Some(survey) = &survey {
            let counted: HashMap<u32, &StructureStats> =
                each(survey).map(|one| (one.info.id, one)).collect();
            for one in stats.structures.iter_mut() {
                fill(one, &counted);
                one.by_index
                    .iter_mut()
                    .for_each(|index| fill(index, &counted));
            }
        }
        Ok(stats)
    }

    /// Figures of a database that answers, and from which pages could be read lately; or why that is not so.
    ///
    /// # Errors
    /// As [`Watched::check`] and [`Watched::survey`].
    pub fn check(&mut self, at_most: Duration) -> Result<Stats> {
        self.counted.at_most(at_most)?;
        self.watched.check()
    }

    /// Adds a point to the course, if it is time for one; reads nothing.
    ///
    /// # Errors
    /// As [`Watched::stats`].
    pub(crate) fn note(&mut self) -> Result<()> {
        let now = Instant::now();
        if self.course.is_due(now) {
            let stats = self.watched.stats()?;
            self.course.add(now, &stats);
            // Whether or not a client looks: a frame tells of the minute before it.
            self.lately.look(now, &stats.calls);
        }
        Ok(())
    }

    /// The course so far.
    pub(crate) fn course(&self) -> &Course {
        &self.course
    }

    /// A frame of now.
    ///
    /// # Errors
    /// As [`Watched::stats`].
    pub fn frame(&mut self) -> Result<Frame> {
        let stats = self.stats(self.survey_every)?;
        let now = Instant::now();
        let since = self.last.as_ref().map(|(then, before)| {
            let seconds = now.duration_since(*then).as_secs_f64().max(1e-3);
            Since { seconds, before }
        });
        let mut frame = Frame::of(&self.name, &stats, since.as_ref());
        frame.watched_seconds = now.duration_since(self.began).as_secs_f64();
        if let Some(reads) = frame.reads_per_operation {
            self.history.push_back(reads);
            if self.history.len() > REMEMBERED {
                self.history.pop_front();
            }
        }
        frame.history = self.history.iter().copied().collect();
        frame.latest = self.course.latest();
        frame.calls = self.lately.look(now, &stats.calls);
        self.last = Some((now, stats));
        Ok(frame)
    }
}

fn each(stats: &Stats) -> impl Iterator<Item = &StructureStats> {
    stats
        .structures
        .iter()
        .flat_map(|one| std::iter::once(one).chain(&one.by_index))
}

fn fill(one: &mut StructureStats, counted: &HashMap<u32, &StructureStats>) {
    if let Some(found) = counted.get(&one.info.id) {
        one.records = found.records;
        one.hot_records = found.hot_records;
        one.cold_records = found.cold_records;
    }
}

/// What was before.
struct Since<'s> {
    seconds: f64,
    before: &'s Stats,
}

/// How much a figure grows by in a second. A database that was opened again counts from nothing.
fn rate(since: Option<&Since<'_>>, now: u64, before: impl Fn(&Stats) -> u64) -> f64 {
    since.map_or(0.0, |since| {
        now.saturating_sub(before(since.before)) as f64 / since.seconds
    })
}

impl Frame {
    fn of(name: &str, stats: &Stats, since: Option<&Since<'_>>) -> Frame {
        let done = |stats: &Stats| {
            let writes = stats.structures.iter().map(|one| one.writes);
            each(stats).map(read).sum::<u64>() + writes.sum::<u64>()
        };
        let operations = rate(since, done(stats), done);
        let page_reads = rate(since, stats.pages.reads, |before| before.pages.reads);
        let waits = |stats: &Stats| stats.pages.waits_for_frames + stats.pages.waits_for_cut;
        let c = &stats.checkpoints;
        Frame {
            name: name.into(),
            watched_seconds: 0.0,
            memory_limit: stats.memory.limit,
            memory: parts(stats),
            rows: rows(stats, since),
            operations,
            page_reads,
            page_writes: rate(since, stats.pages.writes, |before| before.pages.writes),
            reads_per_operation: (operations > 0.0).then(|| page_reads / operations),
            history: Vec::new(),
            data_bytes: stats.pages.data_file_bytes,
            log: Log {
                since_checkpoint: stats.log.bytes_since_checkpoint,
                limit: stats.log.limit,
                growth: rate(since, stats.log.bytes, |before| before.log.bytes),
            },
            checkpoint: Checkpoint {
                completed: c.completed,
                failed: c.failed,
                running: c.running.map(|at| at.done as f64 / at.total.max(1) as f64),
                last_seconds: c.last.map(|last| last.seconds),
                last_closed_seconds: c.last.map(|last| last.closed_seconds),
                last_pages: c.last.map(|last| last.pages),
            },
            waits: rate(since, waits(stats), waits),
            calls: Vec::new(),
            live_bytes: stats.pages.live * stats.pages.page_bytes,
            committed: rate(since, stats.transactions.committed, |before| {
                before.transactions.committed
            }),
            conflicts: rate(since, stats.transactions.conflicts, |before| {
                before.transactions.conflicts
            }),
            given_up: stats.transactions.given_up,
            followers: stats.following.iter().map(follower).collect(),
            last_backup: stats.last_backup.as_ref().and_then(|last| ago(last.time)),
            latest: None,
            program: program(stats, since),
        }
    }
}

/// Seconds since a time, by the wall clock; none if it is still to come.
fn ago(time: SystemTime) -> Option<f64> {
    let since = SystemTime::now().duration_since(time);
    since.ok().map(|since| since.as_secs_f64())
}

fn follower(status: &FollowStatus) -> Follower {
    let name = status.set.as_ref().and_then(|set| set.file_name());
    Follower {
        set: name.map_or_else(String::new, |name| name.to_string_lossy().into_owned()),
        sequence: status.sequence,
        behind: status.time.and_then(ago),
        breaks: status.breaks,
        error: status.error.clone(),
    }
}

fn program(stats: &Stats, since: Option<&Since<'_>>) -> Vec<Shown> {
    let shown = stats.program.iter().filter_map(|figure| {
        let before = since.and_then(|since| {
            let mut all = since.before.program.iter();
            all.find(|one| one.name == figure.name && one.labels == figure.labels)
        });
        let grown = before.map_or(0.0, |before| (figure.value - before.value).max(0.0));
        Some(Shown {
            word: figure.word.clone()?,
            value: match figure.counts {
                true => grown / since.map_or(1.0, |since| since.seconds),
                false => figure.value,
            },
            is_rate: figure.counts,
        })
    });
    shown.collect()
}

/// The parts of the memory, those together that are of one kind.
fn parts(stats: &Stats) -> Vec<Part> {
    let m = &stats.memory;
    let part = |name, bytes| Part { name, bytes };
    vec![
        part("hot pages", m.hot_pages),
        part("inner pages", m.inner_pages),
        part("cold pages", m.cold_pages),
        part("page table", m.frame_headers + m.page_table + m.page_map),
        part("locks and counters", m.locks + m.sketch + m.structures),
        part(
            "buffers",
            m.cut_copies + m.write_buffers + m.log_buffers + m.loaders + m.snapshots,
        ),
        part("unused", m.unused),
    ]
}

fn read(one: &StructureStats) -> u64 {
    one.hot_hits + one.cold_hits + one.misses
}

fn rows(stats: &Stats, since: Option<&Since<'_>>) -> Vec<Row> {
    let before: HashMap<u32, &StructureStats> = since
        .into_iter()
        .flat_map(|since| each(since.before))
        .map(|one| (one.info.id, one))
        .collect();
    let seconds = since.map_or(1.0, |since| since.seconds);
    let row = |one: &StructureStats, is_index: bool| {
        // What was made since counts from nothing; before the first frame there is no rate.
        let grown = |figure: fn(&StructureStats) -> u64| match since {
            None => 0,
            Some(_) => {
                let before = before.get(&one.info.id).map_or(0, |before| figure(before));
                figure(one).saturating_sub(before)
            }
        };
        let reads = grown(read);
        Row {
            name: one.info.name.clone(),
            is_index,
            kind: match one.info.kind {
                _ if is_index => "index",
                kind => kind.as_str(),
            },
            tiers: if one.info.tiers == Tiers::One { 1 } else { 2 },
            records: one.records,
            hot: one.hot_records.filter(|_| one.info.tiers == Tiers::Two),
            cold: one.cold_records,
            reads: reads as f64 / seconds,
            writes: grown(|s| s.writes) as f64 / seconds,
            hit_rate: (reads > 0).then(|| grown(|s| s.hot_hits) as f64 / reads as f64),
            up: grown(|s| s.promotions) as f64 / seconds,
            down: grown(|s| s.demotions + s.replacements) as f64 / seconds,
        }
    };
    let mut rows = Vec::new();
    for one in &stats.structures {
        rows.push(row(one, false));
        rows.extend(one.by_index.iter().map(|index| row(index, true)));
    }
    rows
}
