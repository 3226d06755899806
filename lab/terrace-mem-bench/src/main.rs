//! Compares ordered maps: bytes per entry, throughput, longest pause; and repeats the experiments of
//! the paper on hybrid indexes.

mod alloc;
mod counted;
mod emails;
mod keys;
mod paper;
mod random;
mod report;
mod rivals;
mod table2;
mod threads;
mod turns;
mod workload;

use clap::{Parser, Subcommand};
use emails::Emails;
use paper::Experiment;
use rivals::Maker;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use threads::Threaded;
use workload::{Plan, Probes, Row};

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

/// Compares ordered maps in memory: bytes per entry, inserts, lookups, scans.
#[derive(Parser)]
#[command(name = "mem-bench", version, after_help = maps(), args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    compare: Compare,
}

#[derive(Subcommand)]
enum Command {
    /// An experiment of the paper on hybrid indexes, as a table.
    Paper {
        /// Which one.
        experiment: Experiment,
        /// Entries of each map [default: 10000000].
        #[arg(long, value_parser = number)]
        entries: Option<usize>,
        /// One million entries: about ten minutes for all experiments.
        #[arg(long, conflicts_with = "entries")]
        quick: bool,
        /// The figures as JSON, too.
        #[arg(long)]
        json: Option<PathBuf>,
        /// Pictures, and a page with all of them, too.
        #[arg(long)]
        out: Option<PathBuf>,
    },
    /// Experiments with fast and slow memory: `place --help` says which.
    #[command(disable_help_flag = true)]
    Place {
        /// What `place-bench` takes.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        args: Vec<OsString>,
    },
    /// Lookups alone, for cachegrind, which `paper table2` runs.
    #[command(hide = true)]
    Lookups {
        /// Which of the paper's structures.
        pair: usize,
        /// Its entries.
        entries: usize,
        /// How many lookups.
        lookups: usize,
    },
    /// The workloads of one map alone, for callgrind.
    #[command(hide = true)]
    Counted {
        /// The set of keys.
        #[arg(value_parser = SETS)]
        keys: String,
        /// Which map.
        map: String,
        /// Its entries.
        #[arg(value_parser = number)]
        entries: usize,
        /// How many operations.
        #[arg(value_parser = number)]
        ops: usize,
    },
}

#[derive(clap::Args)]
struct Compare {
    /// Entries of each map, 1000 or more.
    #[arg(long, value_parser = number, default_value = "10000000")]
    entries: usize,
    /// Operations of each workload, 1000 or more.
    #[arg(long, value_parser = number, default_value = "4000000")]
    ops: usize,
    /// Sets of keys.
    #[arg(long, value_delimiter = ',', value_parser = SETS, default_values = SETS)]
    keys: Vec<String>,
    /// Names of maps, or all [default: the usual ones].
    #[arg(long, value_delimiter = ',')]
    maps: Option<Vec<String>>,
    /// Maps by turns, in slices: for a machine with other work; a table alone.
    #[arg(long, conflicts_with_all = ["pause", "json", "plots"])]
    in_turns: bool,
    /// The concurrent map, and a skip list, by one thread and by so many at once, by the clock.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024),
          conflicts_with_all = ["in_turns", "pause", "json", "plots", "maps"])]
    threads: Option<u16>,
    /// The longest pauses of inserts, of three loads.
    #[arg(long)]
    pause: bool,
    /// Results as JSON, too.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Plots, too.
    #[arg(long)]
    plots: Option<PathBuf>,
}

/// Names of the key sets.
const SETS: [&str; 4] = ["random", "monotonic", "clustered", "email"];

fn number(text: &str) -> Result<usize, String> {
    match text.replace('_', "").parse::<usize>() {
        Ok(n) if n >= 1000 => Ok(n),
        _ => Err("a number of 1000 or more is needed".into()),
    }
}

/// Whether there is a map of this name for a set of keys.
fn has_map(set: &str, name: &str) -> bool {
    match set {
        "email" => rivals::for_bytes().iter().any(|maker| maker.name == name),
        _ => rivals::for_ints().iter().any(|maker| maker.name == name),
    }
}

/// Names of all maps, those of byte strings alone behind the others.
fn names() -> Vec<&'static str> {
    let mut names: Vec<_> = rivals::for_ints().iter().map(|maker| maker.name).collect();
    let others = rivals::for_bytes();
    names.extend(others.iter().map(|maker| maker.name));
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(*name));
    names
}

fn maps() -> String {
    format!("Maps: {}", names().join(", "))
}

struct Args {
    plan: Plan,
    keys: Vec<String>,
    maps: Option<Vec<String>>,
    in_turns: bool,
    threads: Option<usize>,
    json: Option<PathBuf>,
    plots: Option<PathBuf>,
}

impl TryFrom<Compare> for Args {
    type Error = String;

    fn try_from(given: Compare) -> Result<Self, String> {
        for name in given.maps.iter().flatten() {
            if name != "all" && !given.keys.iter().any(|set| has_map(set, name)) {
                let names = names().join(", ");
                return Err(format!("no map {name} for these keys; maps are {names}"));
            }
        }
        Ok(Args {
            plan: Plan {
                entries: given.entries,
                ops: given.ops,
                pause: given.pause,
            },
            keys: given.keys,
            maps: given.maps,
            in_turns: given.in_turns,
            threads: given.threads.map(usize::from),
            json: given.json,
            plots: given.plots,
        })
    }
}

fn compare<S: Threaded>(
    name: &'static str,
    keys: &S,
    makers: Vec<Maker<S::Key>>,
    args: &Args,
    rows: &mut Vec<Row>,
) {
    let loaded = args.plan.entries;
    eprintln!(
        "{name}: {loaded} keys of {:.1} bytes",
        keys.bytes() as f64 / keys.len() as f64
    );
    let probes = Probes::new(keys, &args.plan);
    if let Some(threads) = args.threads {
        return keys.threads(name, &probes, &args.plan, threads);
    }
    let wanted = |maker: &Maker<S::Key>| match &args.maps {
        None => maker.usual,
        Some(names) => names.iter().any(|n| n == "all" || n == maker.name),
    };
    let makers: Vec<_> = makers.iter().filter(|maker| wanted(maker)).collect();
    if args.in_turns {
        return turns::run(name, keys, &probes, makers.into_iter(), &args.plan);
    }
    for maker in makers {
        let row = workload::run(name, keys, &probes, maker, &args.plan);
        eprintln!(
            "{}",
            report::table(std::slice::from_ref(&row))
                .lines()
                .last()
                .unwrap_or("")
        );
        rows.push(row);
    }
}

/// The experiments with fast and slow memory.
#[cfg(feature = "place")]
fn place(args: Vec<OsString>) -> ExitCode {
    terrace_place_bench::main_of(std::iter::once("mem-bench place".into()).chain(args))
}

/// They are not here.
#[cfg(not(feature = "place"))]
fn place(_: Vec<OsString>) -> ExitCode {
    eprintln!("build mem-bench with `--features place` for these, or use place-bench");
    ExitCode::FAILURE
}

fn counted(set: &str, map: &str, how: (usize, usize)) -> ExitCode {
    let n = how.0 + how.0 / 10;
    let ints = || rivals::for_ints().into_iter();
    let done = match set {
        "random" => counted::run(&keys::random(n), ints(), map, how),
        "monotonic" => counted::run(&keys::monotonic(n), ints(), map, how),
        "clustered" => counted::run(&keys::clustered(n), ints(), map, how),
        _ => counted::run(
            &Emails::generate(n),
            rivals::for_bytes().into_iter(),
            map,
            how,
        ),
    };
    match done {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Some(Command::Place { args }) = cli.command {
        return place(args);
    }
    if let Some(Command::Lookups {
        pair,
        entries,
        lookups,
    }) = cli.command
    {
        table2::lookups(pair, entries, lookups);
        return ExitCode::SUCCESS;
    }
    if let Some(Command::Counted {
        keys,
        map,
        entries,
        ops,
    }) = cli.command
    {
        return counted(&keys, &map, (entries, ops));
    }
    if let Some(Command::Paper {
        experiment,
        entries,
        quick,
        json,
        out,
    }) = cli.command
    {
        let usual = if quick { 1_000_000 } else { 10_000_000 };
        let files = (json.as_deref(), out.as_deref());
        return match paper::main(experiment, entries.unwrap_or(usual), table2::rows, files) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("the report could not be written: {error}");
                ExitCode::FAILURE
            }
        };
    }
    let args = match Args::try_from(cli.compare) {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let mut rows = Vec::new();
    let n = args.plan.entries + args.plan.entries / 10;
    for set in &args.keys {
        match set.as_str() {
            "random" => {
                compare(
                    "random",
                    &keys::random(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "monotonic" => {
                compare(
                    "monotonic",
                    &keys::monotonic(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "clustered" => {
                compare(
                    "clustered",
                    &keys::clustered(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "email" => {
                compare(
                    "email",
                    &Emails::generate(n),
                    rivals::for_bytes(),
                    &args,
                    &mut rows,
                );
            }
            other => unreachable!("{other} was not refused"),
        }
    }
    if args.in_turns || args.threads.is_some() {
        return ExitCode::SUCCESS;
    }
    println!("{}", report::table(&rows));
    let written = args
        .json
        .iter()
        .try_for_each(|file| std::fs::write(file, report::json(&rows, args.plan.entries)));
    let plotted = args
        .plots
        .iter()
        .try_for_each(|dir| report::plots(&rows, dir));
    if let Err(error) = written.and(plotted) {
        eprintln!("the report could not be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
