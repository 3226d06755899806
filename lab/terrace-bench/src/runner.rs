//! A benchmark from beginning to end: load, settle, warm up, measure, audit.

use std::sync::atomic::Ordering;
use std::thread;
use std::time::{Duration, Instant};

use crate::latency::Latencies;
use crate::plan::{Load, Plan, Prepared, Warmup};
use crate::report::{Outcome, Report, Span, WarmupSummary};
use crate::steady::{Detector, Sample};
use crate::target::{Counters, Target};
use crate::timeline::{Part, Timeline, Window};
use crate::worker::{Shared, Worker, audit};
use crate::workload::Workload;
use crate::{Error, resident};

/// How often memory and progress are looked at.
const TICK: Duration = Duration::from_millis(10);
/// How often the observer hears of progress.
const TELL: Duration = Duration::from_millis(100);

/// What goes on, for a progress bar.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A part begins, with the number of operations or the time that it takes at most.
    Begin {
        /// Which.
        part: Part,
        /// Operations, if their number is known.
        ops: Option<u64>,
        /// Time, if it is known.
        time: Option<Duration>,
    },
    /// About ten times a second.
    Progress {
        /// In which part.
        part: Part,
        /// Operations since the part began.
        ops: u64,
        /// Time since the part began.
        elapsed: Duration,
        /// The last whole window, if there is one yet.
        window: Option<&'a Window>,
    },
    /// Everything written so far is being made durable in its final place.
    Settle,
    /// Everything is being read and checked; how many records are done, and of how many.
    Audit {
        /// Done.
        done: u64,
        /// Of how many.
        of: u64,
    },
    /// All is done.
    End,
}

impl Prepared {
    /// Runs the benchmark on a store. `observer` is called on this thread as things go on.
    pub fn run(
        &self,
        target: &dyn Target,
        observer: &mut dyn FnMut(Event<'_>),
    ) -> Result<Report, Error> {
        let plan = self.plan();
        let shared = Shared::new(target, plan);
        let first = counters(target)?;
        let timeline = Timeline::new(&first);
        let mut run = Run {
            first: first.clone(),
            shared: &shared,
            plan,
            timeline,
            observer,
        };

        let mut load = None;
        if plan.load != Load::Skip {
            let (span, latencies) = run.load()?;
            let user_bytes = span.user_bytes;
            let began = Instant::now();
            if plan.settle {
                (run.observer)(Event::Settle);
                target
                    .settle()
                    .map_err(Error::target("make a checkpoint"))?;
            }
            let settle_seconds = began.elapsed().as_secs_f64();
            let settled = Span::between(&first, counters(target)?, 0, user_bytes, settle_seconds);
            load = Some((span, latencies, settled));
        }
        let mut outcome = match (plan.workload, load.take()) {
            (Workload::Load, Some((span, latencies, settled))) => Outcome {
                load: None,
                ..Outcome::of_load(span, latencies, settled)
            },
            (_, load) => {
                let mut outcome = run.operate()?;
                outcome.load = load;
                outcome
            }
        };
        if plan.audit {
            let of = shared.newest.finished();
            outcome.audit = Some(audit(&shared, |done| {
                (run.observer)(Event::Audit { done, of })
            })?);
        }
        (run.observer)(Event::End);
        outcome.sampled_peak = run.timeline.sampled_peak();
        outcome.peak = if self.peak_is_from_open {
            resident::peak()
        } else {
            outcome.sampled_peak
        };
        outcome.windows = run.timeline.into_windows();
        outcome.checked = shared.total(|t| &t.checked);
        Ok(Report::new(self, outcome))
    }
}

fn counters(target: &dyn Target) -> Result<Counters, Error> {
    target
        .counters()
        .map_err(Error::target("give its counters"))
}

struct Run<'a, 'o> {
    /// How the store stood before anything was done.
    first: Counters,
    shared: &'a Shared<'a>,
    plan: &'a Plan,
    timeline: Timeline,
    observer: &'o mut dyn FnMut(Event<'_>),
}

impl Run<'_, '_> {
    fn load(&mut self) -> Result<(Span, Latencies), Error> {
        let shared = self.shared;
        let threads = match self.plan.load {
            Load::Sorted | Load::Together => 1,
            _ => self.plan.threads,
        };
        let (span, latencies) = thread::scope(|scope| {
            shared.running.store(threads, Ordering::Relaxed);
            let workers: Vec<_> = (0..threads)
                .map(|number| {
                    scope.spawn(move || Worker::new(shared, number, Workload::Load).load())
                })
                .collect();
            let span = self.part(Part::Load, Some(self.plan.records), None, &mut |_| false);
            // Whatever went wrong out here, the threads must end before the scope does.
            if span.is_err() {
                shared.stop.store(true, Ordering::Relaxed);
            }
            (span, join(workers, Workload::Load))
        });
        shared.take_failure()?;
        Ok((span?, latencies))
    }

    fn operate(&mut self) -> Result<Outcome, Error> {
        let (shared, plan) = (self.shared, self.plan);
        let (outcome, latencies) = thread::scope(|scope| {
            shared.running.store(plan.threads, Ordering::Relaxed);
            let workers: Vec<_> = (0..plan.threads)
                .map(|number| scope.spawn(move || Worker::new(shared, number, plan.workload).run()))
                .collect();
            let outcome = self.phases();
            shared.stop.store(true, Ordering::Relaxed);
            (outcome, join(workers, plan.workload))
        });
        shared.take_failure()?;
        Ok(Outcome {
            latencies,
            ..outcome?
        })
    }

    fn phases(&mut self) -> Result<Outcome, Error> {
        let plan = self.plan;
        let warmup = self.warm_up()?;
        self.shared.epoch.fetch_add(1, Ordering::Relaxed);
        if plan.workload != Workload::Shift {
            let measured = self.part(Part::Measure, None, Some(plan.duration), &mut |_| false)?;
            return Ok(Outcome {
                warmup,
                ..Outcome::of(measured)
            });
        }
        let each = plan.duration / (plan.moves as u32 + 1);
        let mut spans = vec![self.part(Part::Measure, None, Some(each), &mut |_| false)?];
        for moves in 1..=plan.moves {
            self.shared.moves.store(moves, Ordering::Relaxed);
            spans.push(self.part(Part::Moved, None, Some(each), &mut |_| false)?);
        }
        Ok(Outcome {
            warmup,
            ..Outcome::of_shift(spans)
        })
    }

    fn warm_up(&mut self) -> Result<WarmupSummary, Error> {
        match self.plan.warmup {
            Warmup::Fixed(time) if time.is_zero() => Ok(WarmupSummary::default()),
            Warmup::Fixed(time) => {
                let span = self.part(Part::Warmup, None, Some(time), &mut |_| false)?;
                Ok(WarmupSummary {
                    seconds: span.seconds,
                    ops: span.ops,
                    steady: None,
                })
            }
            Warmup::Steady { at_most } => {
                let mut detector = Detector::new(self.plan.records.saturating_mul(2));
                let mut steady = false;
                let span = self.part(Part::Warmup, None, Some(at_most), &mut |window| {
                    steady = detector.push(Sample {
                        ops: window.ops,
                        seconds: window.seconds,
                        pages: window.page_reads + window.page_writes,
                    });
                    steady
                })?;
                Ok(WarmupSummary {
                    seconds: span.seconds,
                    ops: span.ops,
                    steady: Some(steady),
                })
            }
        }
    }

    /// Watches one part of the run until its time is over, its threads have ended, or `enough`
    /// says so at the end of a window.
    fn part(
        &mut self,
        part: Part,
        ops_limit: Option<u64>,
        time: Option<Duration>,
        enough: &mut dyn FnMut(&Window) -> bool,
    ) -> Result<Span, Error> {
        let shared = self.shared;
        (self.observer)(Event::Begin {
            part,
            ops: ops_limit,
            time,
        });
        // A load begins with its threads: what they did before this line is part of it.
        let first = match part {
            Part::Load => self.first.clone(),
            _ => counters(shared.target)?,
        };
        let began = Instant::now();
        let (ops_before, bytes_before) =
            (shared.total(|t| &t.ops), shared.total(|t| &t.user_bytes));
        let scanned_before = shared.total(|t| &t.scanned);
        let ops_before = if part == Part::Load { 0 } else { ops_before };
        let bytes_before = if part == Part::Load { 0 } else { bytes_before };
        self.timeline.begin_part(began, ops_before, &first);
        let mut told = began;
        let mut windows = 0;
        let mut last_window = None;
        loop {
            thread::park_timeout(TICK);
            let now = Instant::now();
            // Before the counts: what the last thread has done is in them then.
            let over = shared.stop.load(Ordering::Relaxed)
                || shared.running.load(Ordering::Acquire) == 0
                || time.is_some_and(|time| now.duration_since(began) >= time);
            let ops = shared.total(|t| &t.ops);
            let resident = resident::now();
            self.timeline.tick(now, ops, resident);
            let mut end = over;
            if over || self.timeline.open_for(now) >= self.plan.window {
                let counters = counters(shared.target)?;
                let window = self
                    .timeline
                    .close_window(part, now, ops, &counters, resident);
                windows += 1;
                end |= enough(window);
                last_window = Some(window.clone());
                if end {
                    let seconds = now.duration_since(began).as_secs_f64();
                    let bytes = shared.total(|t| &t.user_bytes) - bytes_before;
                    let mut span =
                        Span::between(&first, counters, ops - ops_before, bytes, seconds);
                    span.windows = windows;
                    span.worst_tenth = self.timeline.worst_tenth();
                    span.scanned = shared.total(|t| &t.scanned) - scanned_before;
                    return Ok(span);
                }
            }
            if now.duration_since(told) >= TELL {
                told = now;
                (self.observer)(Event::Progress {
                    part,
                    ops: ops - ops_before,
                    elapsed: now.duration_since(began),
                    window: last_window.as_ref(),
                });
            }
        }
    }
}

fn join(workers: Vec<thread::ScopedJoinHandle<'_, Latencies>>, workload: Workload) -> Latencies {
    let mut all = Latencies::new(workload);
    for worker in workers {
        match worker.join() {
            Ok(latencies) => all.add(&latencies),
            // A panic of the store is a panic of the benchmark: the message has been printed.
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
    all
}
