//! The `terrace` command.
#![forbid(unsafe_code)]

mod admin;
mod args;
mod bench;
mod demo;
mod engine;
mod entries;
mod index;
mod load;
mod output;
mod paced;
mod place;
mod progress;
mod size;
mod structures;
mod text;

use clap::Parser;
use std::process::ExitCode;

use args::{Cli, Command};

fn main() -> ExitCode {
    let cli = Cli::parse();
    match run(&cli) {
        Ok(code) => code,
        // Whoever read our output has seen enough of it, as `head` does: not an error.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::tell(&format!("terrace: {}", output::told_once(&error)));
            ExitCode::FAILURE
        }
    }
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Load(args) => load::run(args),
        Command::Get(args) => entries::get(args),
        Command::Put(args) => entries::put(args),
        Command::Delete(args) => entries::delete(args),
        Command::Scan(args) => entries::scan(args),
        Command::Dump(args) => entries::dump(args),
        Command::Index(command) => index::run(command),
        Command::List(args) => structures::list(args),
        Command::Drop(args) => structures::drop_structure(args),
        Command::Rename(args) => structures::rename(args),
        Command::Stat(args) => admin::stat(args),
        Command::Verify(args) => admin::verify(args),
        Command::Checkpoint(args) => admin::checkpoint(args),
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(args),
    }
}
