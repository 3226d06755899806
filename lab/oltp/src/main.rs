//! `oltp-bench`: the experiments of the papers with transactions, each a command.

#![forbid(unsafe_code)]

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use terrace_oltp::commands;

#[derive(Parser)]
#[command(about = "TPC-C, Voter, Articles and YCSB over tables of the engine")]
struct Arguments {
    /// One object in JSON for each run, instead of words.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
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
    let Arguments { json, command } = Arguments::parse();
    match command {
        Command::Tables {
            dir,
            warehouses,
            memory,
            seconds,
            scale,
        } => commands::tables::run(&dir, warehouses, memory << 20, seconds, scale, json),
    }
}
