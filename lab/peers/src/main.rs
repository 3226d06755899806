//! The stores that people know beside Terrace: `terrace-peers run`, `page`, and `one` for a single run.

mod group;
mod runs;
mod store;
mod stores;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Parser, Subcommand};
use terrace_bench::device::Device;
use terrace_bench::{Distribution, Event, Load, Part, Prepared, StoreLabels, Warmup, Workload};
use terrace_papers::results::{Results, write_whole};

use runs::Plan;
use store::{Measured, Opening, Paced};

/// The stores that people know beside Terrace: the same workloads, memory and promises.
#[derive(Parser)]
#[command(name = "terrace-peers", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// The stores, and how each is opened
    List,
    /// Runs all, or some, goes on where it was cut off, and writes the page
    Run(Size),
    /// Writes the page of what was run
    Page(Size),
    /// Runs of one store, which print an object each
    One(One),
}

#[derive(Args)]
struct Size {
    /// Over ten million records of 128 bytes
    #[arg(long, default_value_t = 0.1)]
    scale: f64,
    /// Memory of each store, over the bytes of the data
    #[arg(long, default_value_t = 0.31)]
    memory_share: f64,
    /// Seconds of warming up, and of measuring, of each run
    #[arg(long, default_value_t = 10.0)]
    seconds: f64,
    /// Threads
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Letters of YCSB's workloads
    #[arg(long, value_delimiter = ',', default_value = "c,b,a,f,e,d")]
    workloads: Vec<String>,
    /// zipf (exact), ycsb, uniform
    #[arg(long, value_delimiter = ',', default_value = "zipf,ycsb")]
    distributions: Vec<String>,
    /// Only these stores
    #[arg(long, value_delimiter = ',')]
    stores: Vec<String>,
    /// Where results are kept
    #[arg(long, default_value = "peers.out")]
    out: PathBuf,
    /// Where databases are made, on a disk: what it reads and writes is counted
    #[arg(long, default_value = "peers.out/scratch")]
    scratch: PathBuf,
    /// The program `terrace`, built with --release
    #[arg(long, default_value = "../../target/release/terrace")]
    terrace: PathBuf,
    /// A folder of control groups, such as /sys/fs/cgroup/mine, where groups may be made: bounds the system's cache
    #[arg(long, value_name = "DIR")]
    cgroup: Option<PathBuf>,
    /// Where the page goes
    #[arg(long, default_value = "peers.html")]
    to: PathBuf,
}

#[derive(Args)]
struct One {
    /// Its name
    store: String,
    /// A folder for it, which is made
    folder: PathBuf,
    /// Letters of YCSB's workloads, and m for reads of some records together: one after the other, over what is
    /// loaded once
    #[arg(long, value_delimiter = ',', required = true)]
    workload: Vec<String>,
    #[arg(long)]
    distribution: String,
    #[arg(long)]
    records: u64,
    #[arg(long)]
    memory: u64,
    #[arg(long)]
    threads: usize,
    #[arg(long)]
    seconds: f64,
    /// Of m: how many records are read together
    #[arg(long, default_value_t = 64)]
    together: usize,
    /// While it is measured the disk is as slow as one that serves so many requests of 16 KiB a second: F2 alone
    #[arg(long)]
    device_iops: Option<u32>,
    /// The least that each request to that disk takes, in microseconds
    #[arg(long, default_value_t = 100)]
    device_latency: u64,
    /// A request of fewer bytes takes as long as one of so many; with 16384 requests alone count
    #[arg(long, default_value_t = 4096)]
    device_least: u64,
}

impl One {
    fn paced(&self) -> Result<Option<Paced>> {
        let Some(rate) = self.device_iops else {
            return Ok(None);
        };
        if self.store != "f2" {
            bail!("--device-iops is for f2 alone");
        }
        let device = Device::new(rate, Duration::from_micros(self.device_latency));
        Ok(Some(Paced {
            device: device.map_err(|problem| anyhow!("--device-iops: {problem}"))?,
            least_bytes: self.device_least,
        }))
    }
}

impl Size {
    fn plan(self) -> Result<Plan> {
        if !(self.scale > 0.0 && self.scale <= 10.0 && self.memory_share > 0.0) {
            bail!("--scale takes a number above 0, up to 10, and --memory-share one above 0");
        }
        for name in &self.stores {
            if !runs::names().contains(&name.as_str()) {
                bail!("there is no store {name:?}: {}", runs::names().join(", "));
            }
        }
        for letter in &self.workloads {
            workload(letter)?;
        }
        let records = (10e6 * self.scale) as u64;
        Ok(Plan {
            records,
            memory: (runs::data_bytes(records) as f64 * self.memory_share) as u64,
            seconds: self.seconds,
            threads: self.threads,
            workloads: self.workloads,
            distributions: self.distributions,
            stores: self.stores,
            results: Results::new(self.out),
            scratch: self.scratch,
            terrace: self.terrace,
            groups: self.cgroup,
        })
    }
}

fn workload(letter: &str) -> Result<Workload> {
    Ok(match letter {
        "a" => Workload::A,
        "b" => Workload::B,
        "c" => Workload::C,
        "d" => Workload::D,
        "e" => Workload::E,
        "f" => Workload::F,
        "m" => Workload::MultiGet,
        _ => bail!("there is no workload {letter:?}: a, b, c, d, e, f, m"),
    })
}

/// The plan of a run of a store.
fn plan_of(known: &stores::Known, args: &One, letter: &str) -> Result<terrace_bench::Plan> {
    let mut plan = terrace_bench::Plan::new(workload(letter)?, args.records, args.memory);
    plan.distribution = match args.distribution.as_str() {
        "zipf" => Distribution::Zipf { theta: 0.9 },
        "ycsb" => Distribution::Ycsb { theta: 0.9 },
        "uniform" => Distribution::Uniform,
        other => bail!("there is no distribution {other:?}: zipf, ycsb, uniform"),
    };
    plan.threads = args.threads;
    plan.together = args.together;
    plan.duration = Duration::from_secs_f64(args.seconds);
    plan.warmup = Warmup::Fixed(plan.duration);
    plan.store = StoreLabels {
        structure: args.store.clone(),
        tiers: 1,
        policy: known.options.into(),
        durability: "as its options say".into(),
        ..StoreLabels::default()
    };
    Ok(plan)
}

/// Runs a store and prints the reports.
fn one(args: &One) -> Result<()> {
    let known = stores::ALL.iter().find(|known| known.name == args.store);
    let known = known.with_context(|| format!("there is no store {:?}", args.store))?;
    let plans: Result<Vec<_>> = args
        .workload
        .iter()
        .map(|letter| plan_of(known, args, letter))
        .collect();
    std::fs::create_dir_all(&args.folder)?;
    let opening = Opening {
        folder: &args.folder,
        memory: args.memory,
        data: runs::data_bytes(args.records),
        threads: args.threads,
        paced: args.paced()?,
    };
    let mut opened = None;
    for (i, mut plan) in plans?.into_iter().enumerate() {
        // None asks again for what the one before it has brought into memory.
        plan.draws = i as u64;
        if opened.is_some() {
            plan.load = Load::Skip;
        }
        // What this needs for itself is there before the store is opened.
        let prepared = Prepared::new(plan)?;
        if opened.is_none() {
            let store =
                (known.open)(&opening).map_err(|error| anyhow!("cannot open it: {error}"))?;
            opened = Some(Measured::new(store, &args.folder, known.load_batch));
        }
        if let Some(store) = &opened {
            let report = prepared.run(store, &mut |event| {
                if let Event::Begin { part, .. } = event {
                    store.pace(matches!(part, Part::Measure | Part::Moved));
                }
            })?;
            println!("{}", report.to_json());
        }
    }
    Ok(())
}

fn write_page(plan: &Plan, to: &std::path::Path) -> Result<()> {
    write_whole(to, &plan.page())?;
    println!("the page is {}", to.display());
    Ok(())
}

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        What::List => {
            for known in stores::ALL {
                println!("{:14} {}", known.name, known.options);
            }
            Ok(true)
        }
        What::Run(size) => {
            let to = size.to.clone();
            size.plan().and_then(|plan| {
                let whole = plan.run_all();
                write_page(&plan, &to)?;
                Ok(whole)
            })
        }
        What::Page(size) => {
            let to = size.to.clone();
            size.plan()
                .and_then(|plan| write_page(&plan, &to).map(|()| true))
        }
        What::One(args) => one(&args).map(|()| true),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("terrace-peers: {error:#}");
            ExitCode::FAILURE
        }
    }
}
