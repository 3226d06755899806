//! The `terrace` command.
#![deny(unsafe_code)]

mod admin;
mod args;
mod backup;
mod bench;
mod changes;
mod demo;
mod doctor;
mod engine;
mod entries;
mod hints;
mod index;
mod load;
mod manual;
mod memories;
mod other;
mod output;
mod paced;
mod place;
mod plan;
mod pm;
mod progress;
mod serve;
mod size;
mod skew;
mod structures;
mod text;
mod to_read;
mod watch;

use clap::{ArgMatches, CommandFactory, FromArgMatches};
use std::path::PathBuf;
use std::process::ExitCode;

use args::{Cli, Command, Format, KindName};

fn main() -> ExitCode {
    let understood = Cli::command()
        .try_get_matches()
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match understood {
        Ok(understood) => understood,
        Err(error) => match hints::of_arguments(&error) {
            Some(text) => {
                output::tell(text.trim_end());
                return ExitCode::from(2);
            }
            None => error.exit(),
        },
    };
    match run(&cli) {
        Ok(code) => code,
        // Whoever read our output has seen enough of it, as `head` does: not an error.
        Err(error) if output::is_closed_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            output::tell(&format!("terrace: {}", output::told_once(&error)));
            if let Some(next) = folder(&matches).and_then(|db| hints::of_error(&error, &db)) {
                output::tell(&format!("  next: {next}"));
            }
            ExitCode::FAILURE
        }
    }
}

/// The folder of the database that a command is about.
fn folder(matches: &ArgMatches) -> Option<PathBuf> {
    let mut matches = matches;
    while let Some((_, inner)) = matches.subcommand() {
        matches = inner;
    }
    matches.try_get_one::<PathBuf>("db").ok()?.cloned()
}

fn run(cli: &Cli) -> anyhow::Result<ExitCode> {
    match &cli.command {
        Command::Load(args) if args.format == Format::Redis => serve::import(args),
        Command::Load(args) if pm::is_map(&args.open.db) || args.kind == Some(KindName::Pm) => {
            pm::load(args)
        }
        Command::Load(args) => load::run(args),
        Command::Get(args) if pm::is_map(&args.open.db) => pm::get(args),
        Command::Get(args) => entries::get(args),
        Command::Put(args) if pm::is_map(&args.open.db) || args.kind == Some(KindName::Pm) => {
            pm::put(args)
        }
        Command::Put(args) => entries::put(args),
        Command::Delete(args) if pm::is_map(&args.open.db) => pm::delete(args),
        Command::Delete(args) => entries::delete(args),
        Command::Scan(args) if pm::is_map(&args.open.db) => pm::scan(args),
        Command::Scan(args) => entries::scan(args),
        Command::Dump(args) if pm::is_map(&args.open.db) => pm::dump(args),
        Command::Dump(args) => entries::dump(args),
        Command::Index(command) => index::run(command),
        Command::List(args) => structures::list(args),
        Command::Drop(args) => structures::drop_structure(args),
        Command::Rename(args) => structures::rename(args),
        Command::Stat(args) if pm::is_map(&args.open.db) => pm::stat(args),
        Command::Stat(args) => admin::stat(args),
        Command::Top(args) => watch::top(args),
        Command::View(args) => watch::view(args),
        Command::Verify(args) if pm::is_map(&args.open.db) => pm::verify(args),
        Command::Verify(args) => admin::verify(args),
        Command::Changes(args) => changes::run(args),
        Command::Checkpoint(args) => admin::checkpoint(args),
        Command::Backup(command) => backup::run(command),
        Command::Mark(args) => backup::mark(args),
        Command::Compact(args) => backup::compact(args),
        Command::Restore(args) => backup::restore(args),
        Command::Bench(args) if args.structure == KindName::Pm => pm::bench(args),
        Command::Bench(args) => bench::run(args),
        Command::Demo(args) => demo::run(args),
        Command::Serve(args) => serve::run(args),
        Command::Place(command) => memories::run(command),
        Command::Doctor(args) => doctor::run(args),
        Command::Plan(args) => plan::run(args),
        Command::Completions { shell } => manual::completions(*shell),
        Command::Man { folder } => manual::pages(folder),
    }
}
