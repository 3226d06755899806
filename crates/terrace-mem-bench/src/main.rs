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

  --entries N       entries of each map, 1000 or more [default: 10000000]
  --ops N           operations of each workload, 1000 or more [default: 4000000]
  --keys LIST       of random, monotonic, clustered, email [default: all of them]
  --maps LIST       names of maps, or all [default: the usual ones]
  --in-turns        maps by turns, in slices: for a machine with other work; a table alone
  --pause           the longest pauses of inserts, of three loads
  --json FILE       results as JSON, too
  --plots DIR       plots, too
  --help            this";

/// Names of the key sets.
const SETS: [&str; 4] = ["random", "monotonic", "clustered", "email"];

/// Whether there is a map of this name for a set of keys.
fn has_map(set: &str, name: &str) -> bool {
    match set {
        "email" => rivals::for_bytes().iter().any(|maker| maker.name == name),
        _ => rivals::for_ints().iter().any(|maker| maker.name == name),
    }
}

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
        keys: SETS.map(String::from).into(),
        maps: None,
        in_turns: false,
        json: None,
        plots: None,
    };
    let mut given = std::env::args().skip(1);
    while let Some(flag) = given.next() {
        let mut value = || given.next().ok_or(format!("{flag} needs a value"));
        let list = |text: String| text.split(',').map(String::from).collect::<Vec<_>>();
        let number = |text: String| match text.replace('_', "").parse::<usize>() {
            Ok(n) if n >= 1000 => Ok(n),
            _ => Err(format!("{flag} needs a number of 1000 or more, not {text}")),
        };
        match flag.as_str() {
            "--entries" => args.plan.entries = number(value()?)?,
            "--ops" => args.plan.ops = number(value()?)?,
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
    if let Some(other) = args.keys.iter().find(|set| !SETS.contains(&set.as_str())) {
        return Err(format!("unknown keys {other}"));
    }
    for name in args.maps.iter().flatten() {
        if name != "all" && !args.keys.iter().any(|set| has_map(set, name)) {
            return Err(format!("no map {name} for these keys"));
        }
    }
    if args.in_turns && (args.plan.pause || args.json.is_some() || args.plots.is_some()) {
        return Err("--in-turns measures no pauses and writes no files".into());
    }
    Ok(args)
}

fn compare<S: KeySet>(
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

fn main() -> ExitCode {
    let args = match parse() {
        Ok(args) => args,
        Err(error) => {
            eprintln!("{error}\n{USAGE}");
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
                    &keys::emails(n),
                    rivals::for_bytes(),
                    &args,
                    &mut rows,
                );
            }
            other => unreachable!("{other} was not refused"),
        }
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
