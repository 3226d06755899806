//! Runs clients in closed loops, for a time or for a number of transactions, and measures them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use serde::Serialize;

use terrace_bench::resident::processor_us;

use crate::txn::{Engine, Figures};
use crate::work::Work;

/// When a run ends, and how many clients it has.
#[derive(Clone, Copy, Debug)]
pub struct Course {
    /// Clients, each a thread.
    pub clients: usize,
    /// The longest that it takes.
    pub time: Duration,
    /// The most transactions, of all clients together.
    pub transactions: u64,
    /// Where all random numbers come from.
    pub seed: u64,
    /// Whether memory is looked at in between, ten times a second.
    pub watch: bool,
}

/// What a run came to.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// Transactions that were done.
    pub done: u64,
    /// How long it took.
    pub seconds: f64,
    /// Transactions a second.
    pub rate: f64,
    /// Microseconds of processors for each, the program's own threads all counted; says the same beside other work.
    pub processor_us: f64,
    /// Half of them took no longer, in microseconds.
    pub p50: f64,
    /// Of a hundred 99 took no longer, in microseconds.
    pub p99: f64,
    /// The longest, in microseconds.
    pub longest: f64,
    /// Rows that were changed by YCSB.
    pub changed: u64,
    /// Where the bytes are at the end; counts are of this run.
    pub figures: Figures,
    /// The most bytes in memory that were seen.
    pub peak: u64,
    /// Transactions done when a row first left memory.
    pub before_eviction: Option<u64>,
    /// Why it ended before its time.
    pub ended: Option<String>,
    /// Transactions in each tenth of a second.
    pub course: Vec<u64>,
}

/// How often is looked.
const TICK: Duration = Duration::from_millis(100);
/// Transactions that a client takes of the number that is to be done, at once.
const SOME: u64 = 64;

fn since(after: Figures, before: Figures) -> Figures {
    Figures {
        restarts: after.restarts - before.restarts,
        misses: after.misses - before.misses,
        reads: after.reads - before.reads,
        read_bytes: after.read_bytes - before.read_bytes,
        written_bytes: after.written_bytes - before.written_bytes,
        evicted: after.evicted - before.evicted,
        ..after
    }
}

/// The longest latency that is told from longer ones: an hour.
const LONGEST: u64 = 3600 * 1_000_000_000;

/// Nanoseconds, by three digits. With bounds, as one without grows by what is recorded, and only `record` lets it.
fn latencies_of_none() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST, 3).expect("three digits are possible")
}

/// Runs a workload that is loaded. A client that fails ends the run, and the outcome says why.
pub fn run(engine: &dyn Engine, work: &Work, course: Course) -> Outcome {
    let before = engine.figures();
    let processor = || processor_us().unwrap_or_default();
    let (begin, began_at) = (Instant::now(), processor());
    let end = begin + course.time;
    let (taken, done, changed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    let failed: Mutex<Option<String>> = Mutex::new(None);
    let latencies = Mutex::new(latencies_of_none());
    let (mut peak, mut before_eviction, mut ticks) = (0, None, Vec::new());
    std::thread::scope(|scope| {
        let client = |n: usize| {
            let (taken, done, failed, latencies, changed) =
                (&taken, &done, &failed, &latencies, &changed);
            scope.spawn(move || {
                let mut client = work.client(n, engine.partitions(), course.seed);
                let mut own = latencies_of_none();
                let mut now = Instant::now();
                'run: while taken.fetch_add(SOME, Ordering::Relaxed) < course.transactions {
                    for _ in 0..SOME {
                        if let Err(error) = client.step(engine) {
                            *failed.lock().expect("nobody panics with it") =
                                Some(format!("{error:#}"));
                            break 'run;
                        }
                        let then = Instant::now();
                        own.saturating_record((then - now).as_nanos() as u64);
                        now = then;
                        done.fetch_add(1, Ordering::Relaxed);
                    }
                    if now >= end || failed.lock().expect("nobody panics with it").is_some() {
                        break;
                    }
                }
                changed.fetch_add(client.changed(), Ordering::Relaxed);
                latencies
                    .lock()
                    .expect("nobody panics with it")
                    .add(own)
                    .expect("of the same kind");
            })
        };
        let clients: Vec<_> = (0..course.clients).map(client).collect();
        while course.watch && clients.iter().any(|client| !client.is_finished()) {
            std::thread::sleep(TICK);
            let figures = engine.figures();
            peak = peak.max(figures.memory());
            let so_far = done.load(Ordering::Relaxed);
            ticks.push(so_far);
            if before_eviction.is_none() && figures.evicted > before.evicted {
                before_eviction = Some(so_far);
            }
        }
    });
    let seconds = begin.elapsed().as_secs_f64();
    let spent = processor().saturating_sub(began_at);
    let latencies = latencies.into_inner().expect("nobody panics with it");
    let micros = |nanos: u64| nanos as f64 / 1e3;
    let figures = engine.figures();
    let done = done.into_inner();
    Outcome {
        done,
        seconds,
        rate: done as f64 / seconds,
        processor_us: spent as f64 / done.max(1) as f64,
        p50: micros(latencies.value_at_quantile(0.5)),
        p99: micros(latencies.value_at_quantile(0.99)),
        longest: micros(latencies.max()),
        changed: changed.into_inner(),
        figures: since(figures, before),
        peak: peak.max(figures.memory()),
        before_eviction,
        ended: failed.into_inner().expect("nobody panics with it"),
        course: ticks
            .iter()
            .scan(0, |last, &now| Some(now - std::mem::replace(last, now)))
            .collect(),
    }
}
