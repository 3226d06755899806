//! Figure 9 of the paper on hybrid indexes, and the two-tree of the slides: more than memory holds, against anti-caching.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Serialize;

use super::on_device;
use crate::drive::{Course, Outcome, run as drive};
use crate::engines::anti::{AntiCache, Way};
use crate::engines::rows::{Maps, Rows};
use crate::txn::Engine;
use crate::work::Work;
use crate::ycsb::{Operation, Plan, Skew};

const PARTITIONS: usize = 2;

/// The three that are compared.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    AntiBTree,
    AntiHybrid,
    Spill,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::AntiBTree => "anti-caching, B+tree",
            Kind::AntiHybrid => "anti-caching, hybrid",
            Kind::Spill => "spill, hybrid",
        }
    }

    fn open(
        self,
        dir: &Path,
        work: &Work,
        memory: u64,
        partitions: usize,
    ) -> anyhow::Result<Box<dyn Engine>> {
        let schema = work.schema();
        Ok(match self {
            Kind::Spill => Box::new(Rows::spilling(
                dir,
                memory,
                schema,
                Maps::Hybrid,
                partitions,
            )?),
            Kind::AntiBTree => Box::new(AntiCache::open(
                dir,
                Way::new(memory),
                schema,
                Maps::BTree,
                partitions,
            )?),
            Kind::AntiHybrid => Box::new(AntiCache::open(
                dir,
                Way::new(memory),
                schema,
                Maps::Hybrid,
                partitions,
            )?),
        })
    }
}

fn folder(dir: &Path, name: &str) -> anyhow::Result<PathBuf> {
    let dir = dir.join(name);
    if dir.exists() {
        std::fs::remove_dir_all(&dir)?;
    }
    Ok(dir)
}

fn mib(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

#[derive(Serialize)]
struct Line {
    work: String,
    engine: &'static str,
    memory: u64,
    outcome: Outcome,
    misses_an_operation: f64,
    bytes_read_an_operation: f64,
    on_device: f64,
}

fn line(work: String, kind: Kind, memory: u64, outcome: Outcome) -> Line {
    let n = outcome.done.max(1) as f64;
    let bytes = (outcome.figures.read_bytes + outcome.figures.written_bytes) as f64;
    Line {
        work,
        engine: kind.name(),
        memory,
        misses_an_operation: outcome.figures.misses as f64 / n,
        bytes_read_an_operation: outcome.figures.read_bytes as f64 / n,
        on_device: on_device(outcome.rate, n, bytes),
        outcome,
    }
}

fn show(line: &Line, json: bool) -> anyhow::Result<()> {
    if json {
        println!("{}", serde_json::to_string(line)?);
        return Ok(());
    }
    println!(
        "  {:21} {:9} done, {:8.0} a second ({:8.0} on the device), first eviction after {:>9}, {:.4} misses and {:8.0} bytes read \
         each, most memory {:.1} of {:.1} MiB, longest {:.1} ms{}",
        line.engine,
        line.outcome.done,
        line.outcome.rate,
        line.on_device,
        line.outcome
            .before_eviction
            .map_or("-".into(), |n| n.to_string()),
        line.misses_an_operation,
        line.bytes_read_an_operation,
        mib(line.outcome.peak),
        mib(line.memory),
        line.outcome.longest / 1e3,
        line.outcome
            .ended
            .as_ref()
            .map_or(String::new(), |why| format!(", ended: {why}")),
    );
    Ok(())
}

/// Figure 9: each workload for a time, in memory that its first rows fill to two thirds (Voter begins with none).
/// With `spill` only rows that spill.
///
/// # Errors
/// Those of the engines while they load.
pub fn fig9(
    dir: &Path,
    quick: bool,
    json: bool,
    seconds: u64,
    plot: Option<&Path>,
    spill: bool,
) -> anyhow::Result<()> {
    let mut bars = Vec::new();
    for (work, _) in super::in_memory::works(quick) {
        let sample = Rows::in_memory(work.schema(), Maps::BTree, true, PARTITIONS)?;
        work.load(&sample)?;
        let least = if quick { 48 << 20 } else { 512 << 20 };
        let memory = (sample.store().stats().memory() * 3 / 2).max(least);
        drop(sample);
        if !json {
            println!("{}, {:.0} MiB, {seconds} s:", work.name(), mib(memory));
        }
        let kinds = [Kind::AntiBTree, Kind::AntiHybrid, Kind::Spill];
        for kind in kinds
            .into_iter()
            .filter(|&kind| !spill || kind == Kind::Spill)
        {
            let dir = folder(dir, "fig9")?;
            let engine = kind.open(&dir, &work, memory, PARTITIONS)?;
            work.load(&*engine)?;
            let time = Duration::from_secs(seconds);
            let course = Course {
                clients: PARTITIONS,
                time,
                transactions: u64::MAX,
                seed: 1,
                watch: true,
            };
            let outcome = drive(&*engine, &work, course);
            if outcome.ended.is_none() && quick {
                work.check(&*engine, outcome.changed)?;
            }
            drop(engine);
            std::fs::remove_dir_all(&dir)?;
            let line = line(work.name().into(), kind, memory, outcome);
            show(&line, json)?;
            bars.push((
                format!("{} {}", line.work, line.engine),
                line.outcome.done as f64,
            ));
        }
    }
    plot.map_or(Ok(()), |path| {
        super::plot::bars(path, "Transactions done", &bars)
    })
}

/// The two-tree: single operations at the same memory.
///
/// # Errors
/// Those of the engines.
pub fn two_tree(
    dir: &Path,
    quick: bool,
    json: bool,
    seconds: u64,
    plot: Option<&Path>,
) -> anyhow::Result<()> {
    let data: u64 = if quick { 256 << 20 } else { 2560 << 20 };
    let zipf = Skew::Zipf(0.9);
    let mut cases = vec![
        (1024, 2.5, zipf.clone(), Operation::Read),
        (1024, 5.0, zipf.clone(), Operation::Read),
        (1024, 5.0, zipf.clone(), Operation::Change),
        (128, 5.0, zipf.clone(), Operation::Read),
    ];
    if !quick {
        for bytes in [1024, 128] {
            cases.push((bytes, 5.0, Skew::Hotspot(0.2), Operation::Read));
            cases.push((bytes, 5.0, Skew::Hotspot(0.2), Operation::Change));
            cases.push((bytes, 5.0, zipf.clone(), Operation::Range));
        }
    }
    let mut bars = Vec::new();
    for (bytes, times, skew, operation) in cases {
        let name = format!("{bytes} B, {times} x memory, {skew:?}, {operation:?}");
        let memory = (data as f64 / times) as u64;
        let work = Work::Ycsb(Plan {
            rows: data / bytes,
            bytes: bytes as usize,
            skew,
            operation,
        });
        if !json {
            println!("{name}:");
        }
        let mut lines = Vec::new();
        for kind in [Kind::AntiHybrid, Kind::Spill] {
            let dir = folder(dir, "two-tree")?;
            let engine = kind.open(&dir, &work, memory, 1)?;
            let outcome = match work.load(&*engine) {
                Ok(()) => {
                    let time = Duration::from_secs(seconds);
                    let course = Course {
                        clients: 1,
                        time,
                        transactions: u64::MAX,
                        seed: 1,
                        watch: true,
                    };
                    drive(&*engine, &work, Course { seed: 2, ..course });
                    drive(&*engine, &work, course)
                }
                Err(error) => {
                    if !json {
                        println!("  {:21} ended while it was loaded: {error:#}", kind.name());
                    }
                    continue;
                }
            };
            drop(engine);
            std::fs::remove_dir_all(&dir)?;
            let line = line(name.clone(), kind, memory, outcome);
            show(&line, json)?;
            bars.push((format!("{name} {}", line.engine), line.on_device));
            lines.push(line);
        }
        if let ([rival, ours], false) = (&lines[..], json) {
            println!(
                "  misses {:.2} x, bytes read {:.3} x, operations on the device {:.1} x",
                ours.misses_an_operation / rival.misses_an_operation,
                ours.bytes_read_an_operation / rival.bytes_read_an_operation,
                ours.on_device / rival.on_device,
            );
        }
    }
    plot.map_or(Ok(()), |path| {
        super::plot::bars(path, "Operations a second on the device", &bars)
    })
}
