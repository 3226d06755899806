//! `terrace bench`: the workloads of `terrace-bench` on a database.

mod paper;
mod plan;
mod replay;
mod target;

use anyhow::{Context, Result, bail};
use indicatif::ProgressBar;
use std::process::ExitCode;
use std::time::Duration;
use terrace_bench::buckets::Bars;
use terrace_bench::numbers::{bytes, count, ratio};
use terrace_bench::plot::{Curve, course};
use terrace_bench::record_cache::Eviction;
use terrace_bench::{Event, Part, Prepared, RecordCache, Report, Target};

use crate::args::{
    BenchArgs, CacheName, DeviceFrom, HashesName, KindName, LogMode, SweepName, WorkloadName,
};
use crate::engine::{Db, Durability, Policy, Settings, TreeSettings};
use crate::output::print;
use crate::paced::Pacing;
use crate::progress;
use crate::watch;
use plan::{STRUCTURE, device, plan, policy, sweep, tiers};
use target::TreeTarget;

/// Least memory of a database behind a record cache.
const LEAST_BEHIND: u64 = 2 << 20;
/// Least memory with a record cache.
const LEAST_CACHED: u64 = 2 * LEAST_BEHIND;

/// `terrace bench`
pub fn run(args: &BenchArgs) -> Result<ExitCode> {
    let path = &args.open.db;
    let is_there = path.exists();
    if is_there && !args.skip_load {
        bail!(
            "{} is there already: give a new folder, or --skip-load to use what an earlier \
             benchmark has loaded",
            path.display()
        );
    }
    if args.hot_heap && (args.structure != KindName::Table || tiers(args) == 1) {
        bail!(
            "only a table with two tiers can have a heap as its hot tier: --hot-heap needs \
             --structure table --tiers 2"
        );
    }
    if args.exclusive && (args.structure == KindName::Lsm || tiers(args) == 1) {
        bail!(
            "only two tiers of a tree, a hash table or a table can exclude one another: --exclusive needs \
             --tiers 2, and not --structure lsm"
        );
    }
    if args.compress.is_some() && args.structure != KindName::Lsm {
        bail!("only an LSM-tree can be compressed: --compress needs --structure lsm");
    }
    if args.sweep == SweepName::Heap && !args.hot_heap {
        bail!(
            "only the rows of a heap lie in another order than that of their keys: --sweep heap needs \
             --structure table --tiers 2 --hot-heap"
        );
    }
    if args.hashes == HashesName::Own && (args.structure != KindName::Hash || tiers(args) == 1) {
        bail!(
            "only a hash table with two tiers can have a hash function for each of them: \
             --hashes own needs --structure hash --tiers 2"
        );
    }
    paper::check(args)?;
    if args.paper.table3 {
        return paper::table3(args, one);
    }
    if args.workload == WorkloadName::Replay {
        return replay::run(args);
    }
    if args.record_cache.is_some() && args.open.memory.0 < LEAST_CACHED {
        bail!(
            "a record cache needs a memory of at least {}",
            bytes(LEAST_CACHED)
        );
    }
    let scans = matches!(args.workload, WorkloadName::E | WorkloadName::Scan);
    if scans && args.structure == KindName::Hash {
        let kind = args.structure.kind();
        bail!("a {kind} keeps no order of keys: workloads e and scan need a tree or a table");
    }
    let report = one(args)?;
    // Whether or not what is printed is read.
    let plotted = match &args.plot {
        Some(file) => plot(args, &report, file),
        None => Ok(()),
    };
    let printed = if args.json {
        print(&format!("{}\n", report.to_json()))
    } else if args.histogram {
        print(&format!("{report}{}", Bars(&report.latency_histogram_ns)))
    } else {
        print(&report.to_string())
    };
    plotted?;
    printed?;
    Ok(ExitCode::SUCCESS)
}

/// Makes the database, or opens it, and measures it.
fn one(args: &BenchArgs) -> Result<Report> {
    let path = &args.open.db;
    let is_there = path.exists();
    // Everything that needs memory of its own is done before the database is opened.
    let prepared = Prepared::new(plan(args)?)?;
    let pacing = Pacing::on();
    let settings = Settings {
        memory: if args.record_cache.is_some() {
            args.open.memory.0 - cache_bytes(args)
        } else {
            args.open.memory.0
        },
        create: !args.skip_load,
        page_size: args.page_size.map(|size| size.0),
        log_limit: args.open.log_limit.map(|size| size.0),
        keep_changes: 0,
        sweep: sweep(args.sweep),
        pessimistic: args.pessimistic_locks,
        bilsm: paper::policy(args),
        progress: !args.json,
        control: true,
        device: device(args)?.map(|device| (device, pacing.clone())),
    };
    let result = measure(args, &prepared, &settings, &pacing);
    if args.remove && !is_there && path.exists() {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot delete {}; delete it by hand", path.display()))?;
    }
    result
}

fn measure(
    args: &BenchArgs,
    prepared: &Prepared,
    settings: &Settings,
    pacing: &Pacing,
) -> Result<Report> {
    let db = Db::open(&args.open.db, settings)?;
    let wanted = TreeSettings {
        kind: args.structure.kind(),
        tiers: tiers(args),
        policy: match args.paper.promote {
            Some(_) => Policy::Paper,
            None => policy(args.policy),
        },
        logged: args.log != LogMode::Off,
        own_hashes: args.hashes == HashesName::Own,
        inclusive: args.exclusive.then_some(false),
        hot_heap: args.hot_heap.then_some(true),
        in_memory: args.hot_in_file.then_some(false),
        compression: args.compress,
        ..TreeSettings::default()
    };
    let tree = if args.skip_load {
        db.tree_as(STRUCTURE, &wanted)?
    } else {
        db.tree_or_create(STRUCTURE, &wanted)?
    };
    let durability = match args.log {
        LogMode::Sync => Durability::Sync,
        LogMode::Buffered | LogMode::Off => Durability::Buffered,
    };
    let page = args.http.map(|http| watch::page(&db, &args.open.db, http));
    let page = page.transpose()?;
    let target = TreeTarget::new(&db, &tree, durability);
    if let Some(name) = args.record_cache {
        let eviction = match name {
            CacheName::Lru => Eviction::Lru,
            CacheName::Treeline => Eviction::Clock,
        };
        let cached = RecordCache::new(target, cache_bytes(args), eviction);
        let report = run_on(args, prepared, &cached, pacing)?;
        // What was changed in the cache alone is to be there for --skip-load.
        cached.settle().map_err(|e| anyhow::anyhow!("{e}"))?;
        drop(page);
        db.close()?;
        return Ok(report);
    }
    let report = run_on(args, prepared, &target, pacing)?;
    if args.unclean {
        replay::wait_for_the_end(&report)?;
    }
    drop(page);
    db.close()?;
    Ok(report)
}

/// What a record cache takes of the memory: nine tenths, as in the paper, or all, as TreeLine does; the
/// store needs pages to read and write through.
fn cache_bytes(args: &BenchArgs) -> u64 {
    let memory = args.open.memory.0;
    let most = memory.saturating_sub(LEAST_BEHIND);
    match args.record_cache {
        Some(CacheName::Treeline) => most,
        _ => most.min(memory / 10 * 9),
    }
}

fn run_on(
    args: &BenchArgs,
    prepared: &Prepared,
    target: &impl Target,
    pacing: &Pacing,
) -> Result<Report> {
    let mut bar = Bar {
        quiet: args.json,
        bar: ProgressBar::hidden(),
    };
    let report = prepared.run(target, &mut |event| {
        if let Event::Begin { part, .. } = event {
            pacing.set(args.device_from <= DeviceFrom::of(part));
        }
        bar.show(event);
    });
    Ok(report?)
}

impl DeviceFrom {
    /// When a part of a run begins.
    fn of(part: Part) -> DeviceFrom {
        match part {
            Part::Load => DeviceFrom::Load,
            Part::Warmup => DeviceFrom::Warmup,
            Part::Measure | Part::Moved => DeviceFrom::Measure,
        }
    }
}

fn plot(args: &BenchArgs, report: &Report, file: &std::path::Path) -> Result<()> {
    let label = if args.record_cache.is_some() {
        "record cache"
    } else if args.tiers == 1 {
        "one tier"
    } else {
        "two tiers"
    };
    let title = format!(
        "workload {}, {} records, {}",
        report.workload,
        count(report.records as f64),
        bytes(report.memory_bytes)
    );
    course(file, &title, Curve::Throughput, &[(label, report)])?;
    let stem = file.file_stem().unwrap_or_default().to_string_lossy();
    let reads = file.with_file_name(format!("{stem}-reads.svg"));
    course(&reads, &title, Curve::Reads, &[(label, report)])?;
    Ok(())
}

/// Shows the parts of a run as bars, one after the other.
struct Bar {
    quiet: bool,
    bar: ProgressBar,
}

impl Bar {
    fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Begin { part, ops, time } => {
                self.bar.finish_and_clear();
                let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
                let total = ops.or(time.map(millis)).unwrap_or(0);
                self.bar = progress::things(total, self.quiet);
                self.bar.set_prefix(match part {
                    Part::Load => "loading  ",
                    Part::Warmup => "warming up",
                    Part::Measure => "measuring",
                    Part::Moved => "hot set moved",
                });
            }
            Event::Progress {
                part,
                ops,
                elapsed,
                window,
            } => {
                let done = match part {
                    Part::Load => ops,
                    _ => u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX),
                };
                self.bar.set_position(done);
                if let Some(window) = window {
                    self.bar.set_message(format!(
                        "{} operations/s, {} page reads each",
                        count(window.ops_per_second()),
                        ratio(window.page_reads_per_op())
                    ));
                }
            }
            Event::Settle => {
                self.bar.set_message("writing a checkpoint");
            }
            Event::Audit { done, of } => {
                if done <= 1000 {
                    self.bar.finish_and_clear();
                    self.bar = progress::things(of, self.quiet);
                    self.bar.set_prefix("checking all");
                }
                self.bar.set_position(done);
            }
            Event::End => self.bar.finish_and_clear(),
        }
    }
}
