//! What placements of a tree's nodes in fast and slow memory are worth, by counts, with waiting made
//! up, or on real memories: the command `place-bench`, and `mem-bench place`.
#![forbid(unsafe_code)]

mod bars;
mod contender;
mod figures;
mod model;
mod picture;
mod random;
mod report;
mod rival;
mod row;
mod run;
mod workload;

use anyhow::{Result, bail, ensure};
use clap::{Parser, ValueEnum};
use contender::Contender;
use run::WhichTree;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use terrace_place::Memory;
use terrace_place::detect::{Machine, candidates};

/// Measures placements of a tree's nodes in fast and slow memory.
#[derive(Debug, Parser)]
#[command(name = "place-bench", version, after_help = HELP)]
struct Args {
    /// Which experiments: names of figures of the paper, `bars`, or `all`
    #[arg(value_name = "FIGURE", required = true)]
    figures: Vec<String>,

    /// What a touch costs: counted, made to wait, or that of two memories of this machine
    #[arg(long, value_enum, default_value_t = Model::Count)]
    model: Model,

    /// Latencies of slow memory over fast, for modelled times
    #[arg(long, value_delimiter = ',', default_value = "2,3,4")]
    r: Vec<f64>,

    /// Nanoseconds of a read of fast memory, with --model delay
    #[arg(long, value_name = "NS", default_value_t = 100)]
    latency: u64,

    /// Only these policies
    #[arg(long, value_delimiter = ',')]
    policy: Vec<String>,

    /// With records: only these workloads
    #[arg(long, value_delimiter = ',')]
    workload: Vec<String>,

    /// Which kind of tree; records is of a B+tree beside the compact map
    #[arg(long, value_enum, default_value_t = WhichTree::BTree)]
    tree: WhichTree,

    /// With fig21: a trace of a block device, lines of device,R or W,offset,length,time
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,

    /// Size of the run: 1 is two million entries and twenty million operations, ten times as many
    /// with a radix tree
    #[arg(long, default_value_t = 0.1)]
    scale: f64,

    /// Nodes that the processor's cache is taken to hold, of all
    #[arg(long, default_value_t = 0.02)]
    cache: f64,

    /// Write the rows to this file, a JSON object a line
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,

    /// Write a picture a figure and a page with all of them to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

const HELP: &str = "\
Figures: fig2 fig5 fig6 fig8 fig13 fig14 fig15a fig15b fig15c fig16 fig17 fig18 fig19 fig20 table2 fig21 records steps bars all

Examples:
  place-bench fig14 --scale 0.05
  place-bench bars --json bars.json
  place-bench all --scale 0.05 --out pictures

`missing` is the share of touches that a cache of 2 % of the nodes does not have and that were in fast
memory; `of best` is that over what the best placement of nodes reaches on the same tree and trace.";

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Model {
    Count,
    Delay,
    Real,
}

/// How an experiment is to be run.
#[derive(Debug)]
struct Setting {
    scale: f64,
    cache: f64,
    rs: Vec<f64>,
    policies: Vec<Contender>,
    delay: Option<Duration>,
    memories: (Memory, Memory),
    timed: bool,
    tree: WhichTree,
    trace: Option<Arc<workload::Trace>>,
    workloads: Vec<String>,
}

/// The command with these arguments, of which the first one is its name.
pub fn main_of(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match measure(&Args::parse_from(args)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("place-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure(args: &Args) -> Result<()> {
    ensure!(
        args.scale > 0.0 && args.scale <= 100.0,
        "--scale takes a number above 0, up to 100"
    );
    ensure!(
        (0.0..=1.0).contains(&args.cache),
        "--cache takes a share from 0 to 1"
    );
    ensure!(
        args.r.iter().all(|r| (1.0..=100.0).contains(r)),
        "--r takes numbers from 1 to 100"
    );
    let mut policies = vec![];
    for name in &args.policy {
        match Contender::named(name) {
            Some(contender) => policies.push(contender),
            None => {
                let known: Vec<String> = contender::ALL.iter().map(|c| c.name()).collect();
                bail!("there is no policy `{name}`: {}", known.join(", "));
            }
        }
    }
    let memories = match args.model {
        Model::Real => {
            let found = candidates(&Machine::here());
            match found.slow {
                Some(slow) => (Memory::Heap, Memory::Node(slow)),
                None => bail!(
                    "{}; --model delay makes memory slow",
                    found.notes.join("; ")
                ),
            }
        }
        _ => (Memory::Heap, Memory::Heap),
    };
    let trace = match &args.trace {
        Some(path) => {
            ensure!(
                args.figures.iter().any(|f| f == "fig21" || f == "all"),
                "--trace is for fig21"
            );
            // As many blocks as the run has operations.
            let most = (figures::OPERATIONS * args.scale) as u64;
            Some(Arc::new(workload::Trace::read(path, most)?))
        }
        None => None,
    };
    let r = args.r.first().copied().unwrap_or(2.0);
    let delay = (args.model == Model::Delay)
        .then(|| Duration::from_nanos(((r - 1.0) * args.latency as f64) as u64));
    let setting = Setting {
        scale: args.scale,
        cache: args.cache,
        rs: args.r.clone(),
        policies,
        delay,
        memories,
        timed: args.model != Model::Count,
        tree: args.tree,
        trace,
        workloads: args.workload.clone(),
    };
    let names: Vec<&str> = if args.figures.iter().any(|f| f == "all") {
        figures::ALL.to_vec()
    } else {
        args.figures.iter().map(String::as_str).collect()
    };
    let mut rows = vec![];
    for name in names {
        let of = match name {
            "bars" => bars::measure(&setting)?,
            _ => figures::measure(name, &setting)?,
        };
        print!("{}", report::table(&of));
        rows.extend(of);
    }
    if let Some(path) = &args.json {
        report::write_json(&rows, path)?;
    }
    if let Some(folder) = &args.out {
        report::write_pictures(&rows, folder)?;
    }
    Ok(())
}
