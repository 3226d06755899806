//! What operations of several threads share: `cores-bench count` counts lines of the cache, `model` reckons what
//! they cost on many cores, `scale` measures.
#![forbid(unsafe_code)]

mod count;
mod model;
mod operation;
mod scale;

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context, Result};
use clap::{Parser, Subcommand};

use operation::{Operation, Structure};

/// What threads on many cores share.
#[derive(Parser)]
#[command(name = "cores-bench", version)]
struct Cli {
    #[command(subcommand)]
    command: What,
}

#[derive(Subcommand)]
enum What {
    /// Counts the lines of the cache that operations write and others touch, step by step (x86-64, ptrace)
    Count {
        /// Over which structures; all if none is named
        #[arg(long)]
        structure: Vec<Structure>,
        /// Which operations; all if none is named
        #[arg(long)]
        operation: Vec<Operation>,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// From what `count --json` has printed: the throughput on 1 to 128 cores over that on one
    Model {
        /// What `count --json` has printed
        counts: PathBuf,
        /// Nanoseconds that a line takes from one core to another
        #[arg(long, default_value_t = model::TRANSFER_NS)]
        transfer: f64,
    },
    /// Measures threads beside one, in memory; beside them a map in shards and a skip list
    Scale {
        /// Threads of each run
        #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4, 8, 16])]
        threads: Vec<usize>,
        /// Seconds of each run
        #[arg(long, default_value_t = 1.0)]
        seconds: f64,
        /// Records
        #[arg(long, default_value_t = 200_000)]
        records: u64,
        /// Where databases are made: memory (/dev/shm) is best
        #[arg(long, default_value = "/dev/shm")]
        folder: PathBuf,
        /// Print a JSON object
        #[arg(long)]
        json: bool,
    },
    /// What `count` counts: two threads that take turns
    #[command(hide = true)]
    Subject {
        structure: Structure,
        operation: Operation,
        folder: PathBuf,
    },
}

fn run(cli: Cli) -> Result<()> {
    match cli.command {
        What::Count {
            structure,
            operation,
            json,
        } => {
            let program = std::env::current_exe()?;
            let counts = count::all(&program, &structure, &operation)?;
            if json {
                println!("{}", serde_json::to_string_pretty(&counts)?);
            } else {
                count::print(&counts);
            }
            Ok(())
        }
        What::Model { counts, transfer } => {
            let text = std::fs::read_to_string(&counts)
                .with_context(|| format!("cannot read {}", counts.display()))?;
            let counts: Vec<count::Count> = serde_json::from_str(&text)
                .with_context(|| format!("{} is not what count --json prints", counts.display()))?;
            model::print(&counts, transfer);
            Ok(())
        }
        What::Scale {
            threads,
            seconds,
            records,
            folder,
            json,
        } => scale::run(&threads, seconds, records, &folder, json),
        What::Subject {
            structure,
            operation,
            folder,
        } => count::subject(structure, operation, &folder),
    }
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("cores-bench: {error:#}");
            ExitCode::FAILURE
        }
    }
}
