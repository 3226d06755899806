//! Compares ordered maps: bytes per entry, throughput, longest pause.
//!
//! ```text
//! mem-bench [--entries N] [--ops N] [--keys random,monotonic,clustered,email]
//!           [--maps all | NAME,NAME] [--pause] [--in-turns] [--json FILE] [--plots DIR]
//! ```

mod alloc;
mod emails;
mod keys;
mod random;
mod report;
mod rivals;
mod turns;
mod workload;

use keys::KeySet;
use rivals::Maker;
use std::process::ExitCode;
use workload::{Plan, Probes, Row};

#[global_allocator]
static COUNTING: alloc::Counting = alloc::Counting;

const USAGE: &str = "\
Compares ordered maps in memory: bytes per entry, inserts, lookups, scans.

mem-bench [OPTIONS]

  --entries N       entries of each map [default: 10000000]
  --ops N           operations of each workload [default: 4000000]
  --keys LIST       of random, monotonic, clustered, email [default: all of them]
  --maps LIST       names of maps, or all [default: the usual ones]
  --in-turns        maps by turns, in slices: for a machine with other work; a table alone
  --pause           the longest pauses of inserts, of three loads
  --json FILE       results as JSON, too
  --plots DIR       plots, too
  --help            this";

struct Args {
    plan: Plan,
    keys: Vec<String>,
    maps: Option<Vec<String>>,
    in_turns: bool,
    json: Option<String>,
    plots: Option<String>,
}

fn parse() -> Result<Args, String> {
    let mut args = Args {
        plan: Plan {
            entries: 10_000_000,
            ops: 4_000_000,
            pause: false,
        },
        keys: ["random", "monotonic", "clustered", "email"]
            .map(String::from)
            .into(),
        maps: None,
        in_turns: false,
        json: None,
        plots: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or(format!("{flag} needs a value"));
        let list = |text: String| text.split(',').map(String::from).collect::<Vec<_>>();
        let number = |text: String| {
            text.replace('_', "")
                .parse::<usize>()
                .map_err(|e| format!("{text}: {e}"))
        };
        match flag.as_str() {
            "--entries" => args.plan.entries = number(value()?)?.max(1000),
            "--ops" => args.plan.ops = number(value()?)?.max(1000),
            "--keys" => args.keys = list(value()?),
            "--maps" => args.maps = Some(list(value()?)),
            "--pause" => args.plan.pause = true,
            "--in-turns" => args.in_turns = true,
            "--json" => args.json = Some(value()?),
            "--plots" => args.plots = Some(value()?),
            "--help" | "-h" => {
                println!("{USAGE}");
                std::process::exit(0);
            }
            _ => return Err(format!("unknown option {flag}")),
        }
    }
    if args.in_turns && (args.plan.pause || args.json.is_some() || args.plots.is_some()) {
        return Err("--in-turns measures no pauses and writes no files".into());
    }
    Ok(args)
}

/// Returns how many maps have been measured.
fn compare<S: KeySet>(
    name: &'static str,
    keys: &S,
    makers: Vec<Maker<S::Key>>,
    args: &Args,
    rows: &mut Vec<Row>,
) -> usize {
    let loaded = args.plan.entries;
    eprintln!(
        "{name}: {loaded} keys of {:.1} bytes",
        keys.bytes() as f64 / keys.len() as f64
    );
    let probes = Probes::new(keys, &args.plan);
    let wanted = |maker: &Maker<S::Key>| match &args.maps {
        None => maker.usual,
        Some(names) => names.iter().any(|n| n == "all" || n == maker.name),
    };
    let makers: Vec<_> = makers.iter().filter(|maker| wanted(maker)).collect();
    let measured = makers.len();
    if args.in_turns {
        turns::run(name, keys, &probes, makers.into_iter(), &args.plan);
        return measured;
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
    measured
}

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
            return ExitCode::FAILURE;
        }
    };
    let (mut rows, mut measured) = (Vec::new(), 0);
    let n = args.plan.entries + args.plan.entries / 10;
    for set in &args.keys {
        match set.as_str() {
            "random" => {
                measured += compare(
                    "random",
                    &keys::random(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "monotonic" => {
                measured += compare(
                    "monotonic",
                    &keys::monotonic(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "clustered" => {
                measured += compare(
                    "clustered",
                    &keys::clustered(n),
                    rivals::for_ints(),
                    &args,
                    &mut rows,
                );
            }
            "email" => {
                measured += compare(
                    "email",
                    &keys::emails(n),
                    rivals::for_bytes(),
                    &args,
                    &mut rows,
                );
            }
            other => {
                eprintln!("unknown keys {other}\n{USAGE}");
                return ExitCode::FAILURE;
            }
        }
    }
    if measured == 0 {
        eprintln!("no such map\n{USAGE}");
        return ExitCode::FAILURE;
    }
    if args.in_turns {
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
        .try_for_each(|dir| report::plots(&rows, std::path::Path::new(dir)));
    if let Err(error) = written.and(plotted) {
        eprintln!("the report could not be written: {error}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
