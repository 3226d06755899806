//! `oltp-bench`: the experiments of the papers with transactions, each a command.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use terrace_oltp::commands;

#[derive(Parser)]
#[command(about = "TPC-C, Voter, Articles and YCSB over tables of the engine and rows in memory")]
struct Arguments {
    /// One object in JSON for each run, instead of words.
    #[arg(long, global = true)]
    json: bool,
    /// A tenth of the size.
    #[arg(long, global = true)]
    quick: bool,
    /// A picture of the result, as SVG in this file.
    #[arg(long, global = true)]
    plot: Option<PathBuf>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// What indexes take of the memory, with the B+tree.
    Table1,
    /// Speed and memory of three workloads over B+tree and hybrid indexes.
    Fig8 {
        /// Turns of each kind of index; the best of each counts.
        #[arg(long, default_value_t = 2)]
        rounds: usize,
        /// All six kinds of indexes.
        #[arg(long)]
        all: bool,
    },
    /// Latencies of TPC-C over B+tree and hybrid indexes.
    Table3 {
        /// Turns of each kind of index; the best of each counts.
        #[arg(long, default_value_t = 2)]
        rounds: usize,
    },
    /// More than memory holds: three workloads over anti-caching with both indexes, and over rows that spill.
    Fig9 {
        /// Where files are to lie, in folders of their own that are removed at the end.
        #[arg(long)]
        dir: PathBuf,
        /// Seconds of each run; 120, or with --quick 12, where it is not said.
        #[arg(long)]
        seconds: Option<u64>,
        /// Rows that spill alone.
        #[arg(long)]
        spill: bool,
    },
    /// Rows that spill beside anti-caching at the same memory, single operations.
    TwoTree {
        /// Where files are to lie, in folders of their own that are removed at the end.
        #[arg(long)]
        dir: PathBuf,
        /// Seconds of each run, after the same to settle.
        #[arg(long, default_value_t = 5)]
        seconds: u64,
    },
    /// One operation on rows in memory and on the engine's table, everything in memory, one thread.
    Single {
        /// Where the engine's database is to lie, in a folder of its own that is removed at the end.
        #[arg(long)]
        dir: PathBuf,
        /// Rows; three millions, or with --quick a tenth, where it is not said.
        #[arg(long)]
        rows: Option<u64>,
        /// Operations of each kind.
        #[arg(long, default_value_t = 1_000_000)]
        operations: u64,
    },
    /// Rows in memory beside the crate multi_index_map, and what a row on the disk costs of the memory.
    Rows {
        /// Where files are to lie, in a folder of their own that is removed at the end.
        #[arg(long)]
        dir: PathBuf,
        /// Rows; a million, or with --quick a fifth, where it is not said.
        #[arg(long)]
        rows: Option<u64>,
    },
    /// TPC-C on the engine's own tables: new orders a second with two tiers and with one, conditions 1 to 12.
    Tables {
        /// Where the database is to lie, in a folder of its own that is removed at the end.
        #[arg(long)]
        dir: PathBuf,
        /// Warehouses.
        #[arg(long, default_value_t = 8)]
        warehouses: u16,
        /// Memory of the database, in MiB.
        #[arg(long, default_value_t = 1024)]
        memory: u64,
        /// Seconds of each run, after half of it to settle.
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// Customers and items are divided by this.
        #[arg(long, default_value_t = 1)]
        scale: u32,
    },
}

fn main() -> anyhow::Result<()> {
    let Arguments {
        json,
        quick,
        plot,
        command,
    } = Arguments::parse();
    let plot = plot.as_deref();
    match command {
        Command::Table1 => commands::in_memory::table1(quick, json),
        Command::Fig8 { rounds, all } => {
            commands::in_memory::fig8(quick, json, rounds, all, false, plot)
        }
        Command::Table3 { rounds } => {
            commands::in_memory::fig8(quick, json, rounds, false, true, plot)
        }
        Command::Fig9 {
            dir,
            seconds,
            spill,
        } => commands::beyond::fig9(
            &dir,
            quick,
            json,
            seconds.unwrap_or(if quick { 12 } else { 120 }),
            plot,
            spill,
        ),
        Command::TwoTree { dir, seconds } => {
            commands::beyond::two_tree(&dir, quick, json, seconds, plot)
        }
        Command::Single {
            dir,
            rows,
            operations,
        } => {
            let rows = rows.unwrap_or(if quick { 300_000 } else { 3_000_000 });
            commands::single::run(&dir, rows, operations, json)
        }
        Command::Rows { dir, rows } => {
            let rows = rows.unwrap_or(if quick { 200_000 } else { 1_000_000 });
            commands::rows::run(&dir, rows, json)
        }
        Command::Tables {
            dir,
            warehouses,
            memory,
            seconds,
            scale,
        } => commands::tables::run(&dir, warehouses, memory << 20, seconds, scale, json),
    }
}
