//! The figures of docs/pm.md, counted and by the time of the processor; an opening by the clock:
//! `cargo run --release -p terrace-pm-bench --example bars -- counts|times|opening|tmpfs [RECORDS]`. An opening
//! may be told how many threads it has, and times of one work can be asked for.
//!
//! `bars cost RECORDS STRUCTURE WORK` runs one structure alone, with fences that take no time and nothing
//! counted, for a profiler (docs/pm.md has the command).

use std::path::Path;
use std::time::Duration;

use terrace_pm::{Error, Options, PmMap, Result};
use terrace_pm_bench::rivals::Name;
use terrace_pm_bench::workload::{Plan, Work, key_of, recovery, run, run_in_turns, spent, table};

/// Turns of those that are timed.
const TURNS: u64 = 40;
/// Runs on tmpfs.
const RUNS: usize = 5;
/// Threads on tmpfs.
const THREADS: u64 = 2;
const BYTES_PER_KEY: f64 = 3.5;

fn main() -> Result<()> {
    let mut args = std::env::args().skip(1);
    let what = args.next().unwrap_or_default();
    let records = args
        .next()
        .and_then(|n| n.parse().ok())
        .unwrap_or(1_000_000);
    let mut plan = Plan {
        records,
        bytes_per_key: BYTES_PER_KEY,
        fences: None,
        is_hotness_off: false,
    };
    match &*what {
        "counts" => {
            let mut outcomes = Vec::new();
            for work in [Work::Insert, Work::Update, Work::Batch, Work::Search] {
                for name in Name::ALL {
                    outcomes.push(run(&plan, name, work)?);
                }
            }
            print!("{}", table(&outcomes));
            plan.is_hotness_off = true;
            for work in [Work::Insert, Work::InsertSkewed] {
                let on = run(
                    &Plan {
                        is_hotness_off: false,
                        ..plan
                    },
                    Name::Paper,
                    work,
                )?;
                let off = run(&plan, Name::Paper, work)?;
                print!(
                    "split in more when hot, then always in two\n{}",
                    table(&[on, off])
                );
            }
        }
        "times" => {
            plan.fences = Some((Duration::from_nanos(130), Duration::from_nanos(254)));
            let names = [
                Name::Elastic,
                Name::Paper,
                Name::FastFair,
                Name::Plain,
                Name::DpTree,
            ];
            let one = args.next();
            let works = [
                Work::Insert,
                Work::Search,
                Work::Mix,
                Work::MixFourOne,
                Work::Range,
            ];
            let is_asked = |work: &Work| one.as_deref().is_none_or(|one| one == work.name());
            for work in works.into_iter().filter(is_asked) {
                let outcomes = run_in_turns(&plan, &names, work, TURNS)?;
                print!("{}", table(&outcomes));
            }
        }
        "opening" => {
            let one: Option<usize> = args.next().and_then(|n| n.parse().ok());
            for threads in one.map_or(vec![1, 2], |one| vec![one]) {
                let took = recovery(records, BYTES_PER_KEY, threads)?;
                println!(
                    "{} keys, {} records, {threads} threads: {:.3} s, {:.3} s of the first one's processor",
                    took.keys, took.replayed, took.seconds, took.spent
                );
            }
        }
        "tmpfs" => tmpfs(records)?,
        "cost" => {
            plan.fences = Some((Duration::ZERO, Duration::ZERO));
            let unknown = || Error::invalid("cost RECORDS STRUCTURE WORK");
            let (structure, work) = (args.next(), args.next());
            let name = Name::ALL
                .into_iter()
                .find(|n| structure.as_deref() == Some(n.name()));
            let work = Work::ALL
                .into_iter()
                .find(|w| work.as_deref() == Some(w.name()));
            let (name, work) = name.zip(work).ok_or_else(unknown)?;
            print!("{}", table(&[run(&plan, name, work)?]));
        }
        _ => return Err(Error::invalid("counts, times, opening, tmpfs or cost")),
    }
    Ok(())
}

/// Puts and gets of a map that is Buffered on tmpfs, by two threads, some times over: microseconds of the
/// processor.
fn tmpfs(records: u64) -> Result<()> {
    let path = Path::new("/dev/shm").join(format!("terrace-bars-{}.pm", std::process::id()));
    let (mut puts, mut gets) = (Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let options = Options::new()
            .memory(64 << 20)
            .capacity(records * 200 + (256 << 20));
        let map = PmMap::<u64, u64>::open(&path, options)?;
        puts.push(timed(records, |i| map.put(key_of(i), i))?);
        gets.push(timed(records, |i| map.get(key_of(i)).map(|_| ()))?);
        drop(map);
        std::fs::remove_file(&path).map_err(|e| Error::io("deleting", "the map", e))?;
    }
    for (what, mut times) in [("put", puts), ("get", gets)] {
        times.sort_by(f64::total_cmp);
        let (least, middle) = (times[0], times[times.len() / 2]);
        println!("{what}: {middle:.3} µs in the median of {RUNS} runs, {least:.3} in the best");
    }
    Ok(())
}

/// Microseconds of the processor for each operation, with all threads at work.
fn timed(records: u64, work: impl Fn(u64) -> Result<()> + Sync) -> Result<f64> {
    let each = records / THREADS;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|t| {
                let work = &work;
                scope.spawn(move || {
                    let began = spent();
                    (t * each..(t + 1) * each).try_for_each(work)?;
                    Ok(spent() - began)
                })
            })
            .collect();
        let ended = |_| Error::invalid("a thread has ended early");
        let seconds = threads.into_iter().map(|t| t.join().map_err(ended)?);
        let seconds: f64 = seconds.sum::<Result<f64>>()?;
        Ok(seconds * 1e6 / (each * THREADS) as f64)
    })
}
