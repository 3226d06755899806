//! What can be said on the command line.

mod admin;
mod backup;
mod bench;
mod demo;
mod doctor;
mod index;
mod kind;
mod memories;
mod open;
mod paper;
mod parsers;
mod plan;
mod pm;
mod serve;
mod structures;
mod watch;

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

use crate::engine::{Compression, Index};
pub use admin::{ChangesArgs, CheckpointArgs, StatArgs, VerifyArgs};
use backup::parse_age;
pub use backup::{
    BackupCommand, BackupCreateArgs, BackupFollowArgs, BackupListArgs, BackupPruneArgs,
    BackupVerifyArgs, CompactArgs, MarkArgs, RestoreArgs, rate_of,
};
pub use bench::*;
pub use demo::{DemoArgs, Spread};
pub use doctor::DatabaseDoctorArgs;
use index::parse_index;
pub use index::{IndexCommand, IndexCreateArgs, IndexDropArgs, IndexListArgs};
pub use kind::{KindName, compression_name, parse_compression};
pub use memories::{DoctorArgs, PlaceCommand};
pub use open::{Open, Structure};
pub use paper::{PolicyName, Switch, name_of as paper_name_of};
use parsers::{key_parser, parse_delimiter};
pub use plan::PlanArgs;
pub use pm::{PmDevice, PmMakeArgs};
pub use serve::ServeArgs;
pub use structures::{DropArgs, ListArgs, RenameArgs};
pub use watch::{TopArgs, ViewArgs};

/// An embedded, durable key-value store that keeps hot records, not pages, in memory.
#[derive(Debug, Parser)]
#[command(name = "terrace", version, propagate_version = true, after_help = OVERVIEW)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

const OVERVIEW: &str = "\
Examples:
  terrace demo                                      see what it is for, in half a minute
  terrace load people.db --format csv --key email people.csv
  terrace get people.db ada@example.org
  terrace scan people.db --prefix a --limit 10
  terrace stat people.db

Numbers of bytes may have a unit: 512MiB, 1GiB, 64k, 1073741824. \
A command ends with 0 if all went well, 1 if not (or if a key was not there), 2 if it was not \
understood.";

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Load records from a file: CSV, JSON Lines, TSV, a dump; or import them from SQLite, LMDB, Redis
    #[command(visible_alias = "import")]
    Load(LoadArgs),
    /// Print the value of a key
    Get(GetArgs),
    /// Write one record
    Put(PutArgs),
    /// Delete a key
    Delete(DeleteArgs),
    /// Print the records of a range of keys
    Scan(ScanArgs),
    /// Print all records as JSON Lines, to be loaded again with `load --format dump`
    Dump(DumpArgs),
    /// Make, drop and list the indexes of a table
    #[command(subcommand)]
    Index(IndexCommand),
    /// Print the structures: name, kind and tiers
    List(ListArgs),
    /// Drop a structure with all its records
    Drop(DropArgs),
    /// Give a structure another name
    Rename(RenameArgs),
    /// Show where the records live and where the memory goes
    Stat(StatArgs),
    /// Watch the same live in a terminal
    Top(TopArgs),
    /// Watch it live in a browser
    View(ViewArgs),
    /// Read every page and check every invariant
    Verify(VerifyArgs),
    /// Say what of this machine would bite a database here, before it does
    Doctor(DatabaseDoctorArgs),
    /// Work out how much memory a database wants: page reads, files, log
    Plan(PlanArgs),
    /// Write a checkpoint now, so that the next opening has nothing to replay
    Checkpoint(CheckpointArgs),
    /// Add to, list, check and shorten a backup set
    #[command(subcommand)]
    Backup(BackupCommand),
    /// Show what is changed, commit by commit
    Changes(ChangesArgs),
    /// Mark this place in the order of changes, to be restored by its name
    Mark(MarkArgs),
    /// Make pages full and the file short
    Compact(CompactArgs),
    /// Make a new database of what a backup set has
    Restore(RestoreArgs),
    /// Measure throughput, latency, page reads and memory under standard workloads
    Bench(Box<BenchArgs>),
    /// See what it is for: few of many profiles are used, in little memory, with two tiers and with one
    Demo(DemoArgs),
    /// Serve a database to any client of Redis, on data larger than memory
    Serve(Box<ServeArgs>),
    /// Kinds of memory that this machine has
    #[command(subcommand)]
    Place(PlaceCommand),
    /// Print what completes commands and options in a shell
    #[command(
        after_help = "Example: terrace completions bash > ~/.local/share/bash-completion/completions/terrace"
    )]
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual's pages, one for each command, into a folder
    Man {
        /// The folder; it is made if it is not there
        folder: PathBuf,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Comma-separated values with quotes, the first line naming the fields
    Csv,
    /// One JSON object per line
    Jsonl,
    /// Tab-separated values without quotes, the first line naming the fields
    Tsv,
    /// What `terrace dump` prints
    Dump,
    /// A table or view of SQLite
    Sqlite,
    /// A database of LMDB: its folder, or its file
    Lmdb,
    /// A running Redis (redis://[:PASSWORD@]HOST:PORT), or a file of Redis (dump.rdb), for `terrace serve`
    Redis,
}

#[derive(Args, Debug)]
#[command(after_help = LOAD_HELP)]
pub struct LoadArgs {
    #[command(flatten)]
    pub open: Open,

    #[command(flatten)]
    pub pm: PmMakeArgs,

    /// The file, or - for the standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,

    /// The structure to load into; created if it is not there ("main", if nothing is said). A dump of several says it
    /// itself
    #[arg(long, short, value_name = "NAME")]
    pub structure: Option<String>,

    /// What the file is
    #[arg(long, short, visible_alias = "from", value_enum)]
    pub format: Format,

    /// Of SQLite the table or view, of LMDB the named database; needed where there are several
    #[arg(long, value_name = "NAME")]
    pub table: Option<String>,

    /// The field whose content becomes the key; needed for csv, jsonl and tsv. Of SQLite it is the primary key, if
    /// nothing is said
    #[arg(long, short, value_name = "FIELD", required_if_eq_any = [
        ("format", "csv"), ("format", "jsonl"), ("format", "tsv"),
    ])]
    pub key: Option<String>,

    /// The field whose content becomes the value; without it, the whole record as a JSON object
    #[arg(long, value_name = "FIELD")]
    pub value: Option<String>,

    /// What separates the fields of csv or tsv, instead of a comma or a tab; \t is a tab
    #[arg(long, value_name = "CHARACTER", value_parser = parse_delimiter)]
    pub delimiter: Option<u8>,

    /// Leave malformed lines out instead of stopping at the first
    #[arg(long)]
    pub skip_bad: bool,

    /// Kind of the structure, if it is created: tree, if nothing is said. One that is there must be of it
    #[arg(long, value_enum)]
    pub kind: Option<KindName>,

    /// How pages of an LSM-tree are compressed: none, lz4 (the last level), or lz4:N (the last N levels); of
    /// one that is there, from now on
    #[arg(long, value_name = "HOW", value_parser = parse_compression)]
    pub compress: Option<Compression>,

    /// Tiers of the structure, if it is created: 2 (the default) for skewed access, 1 for none. One that is
    /// there must have so many
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=2))]
    pub tiers: Option<u8>,

    /// Keep the hot tier in pages of the file, if the structure is created: page reads under updates are 3 to 6 % fewer,
    /// and the file is up to twice as long
    #[arg(long)]
    pub hot_in_file: bool,

    /// The field that says until when a record is there: a time like 2026-11-25T12:00:00Z, or seconds since 1970;
    /// for ever, if it is empty, or not there in a line of JSON. The structure has to be one whose records may expire
    #[arg(long, value_name = "FIELD")]
    pub expires_field: Option<String>,

    /// Records of the structure may expire, if it is created; with --expires-field they may in any case
    #[arg(long)]
    pub expiring: bool,

    /// An index of the table, if it is created with --kind table: NAME=SOURCE, or NAME=unique:SOURCE;
    /// may be given several times. A table that is there must have the same indexes
    #[arg(long = "index", value_name = "INDEX", value_parser = parse_index)]
    pub indexes: Vec<Index>,

    /// Print the result as one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const LOAD_HELP: &str = "\
Records with a key that is there already replace it. Malformed lines are reported with their \
numbers; without --skip-bad the first one ends the command, and what came before it stays loaded. A \
quote that is never closed ends it always, as nobody knows where the next record begins. Input that \
gzip has compressed is read as what it was before. Ctrl-C ends it, and says what is loaded. \
When the command has ended well, everything is on the disk. Records of trees, and of tables without \
indexes, are sorted first, in files of the database's folder, so that their pages are written once and \
full: nothing of them is there before all were read.

A row of SQLite becomes a JSON object, or with --value the bytes of one column. A database of Redis becomes one \
that `terrace serve` serves, with keys of all its kinds.

Where an index finds the key of a row:
  json:/POINTER         in a JSON row: what --format csv, tsv and jsonl make without --value
  json-or-empty:/POINTER  the same, but an empty text is a key too
  csv:COLUMN            a field of a row of comma-separated values, counted from 1
  csv:COLUMN:DELIMITER  the same with another delimiter; \\t is a tab
  bytes:FROM..TO        these bytes of the row, counted from 0, without the last
  number:SOURCE         what json: or csv: finds, as a number, in the order of numbers
  each:SOURCE           every element of an array that json: finds, also each:number:json:/POINTER
A row without the field, or with nothing in it, is not in the index; one with a key that another row has in a unique index, \
or that is no JSON where it should be, is refused like a malformed line.

Examples:
  terrace load people.db --format csv --key email people.csv
  terrace load staff.db --kind table --index city=json:/city --index badge=unique:json:/badge \\
      --format csv --key email people.csv
  terrace load events.db --format jsonl --key id --skip-bad events.jsonl
  terrace load words.db -s counts --format tsv --key word --value count words.tsv.gz
  terrace load prices.db --format csv --delimiter ';' --key id prices.csv
  terrace load sessions.db --kind hash --format csv --key id --expires-field until sessions.csv
  terrace dump --all old.db | terrace load new.db --format dump -
  terrace import people.db --from sqlite people.sqlite --table people --key email
  terrace import people.db --from lmdb people.lmdb --table users
  terrace import people.db --from redis redis://127.0.0.1:6380";

#[derive(Args, Debug)]
pub struct GetArgs {
    #[command(flatten)]
    pub open: Open,

    /// The key
    #[arg(value_parser = key_parser())]
    pub key: String,

    #[command(flatten)]
    pub structure: Structure,

    /// The key is one of this index of a table: print all rows that have it, as `scan` does
    #[arg(long, value_name = "INDEX")]
    pub index: Option<String>,

    /// The key is given in hexadecimal, and the value is printed so; without, the bytes of the value are
    /// printed as they are, and a line end behind them
    #[arg(long)]
    pub hex: bool,

    /// Print an object with key and value
    #[arg(long, conflicts_with = "hex")]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct PutArgs {
    #[command(flatten)]
    pub open: Open,

    /// The key
    #[arg(value_parser = key_parser())]
    pub key: String,

    #[command(flatten)]
    pub pm: PmMakeArgs,

    /// The value, or - to read it from the standard input, all of it, with its line end if it has one
    #[arg(value_parser = key_parser())]
    pub value: String,

    /// The structure; created if it is not there
    #[arg(long, short, value_name = "NAME")]
    pub structure: Option<String>,

    /// Kind of the structure, if it is created: tree, if nothing is said. One that is there must be of it
    #[arg(long, value_enum)]
    pub kind: Option<KindName>,

    /// How pages of an LSM-tree are compressed: none, lz4 (the last level), or lz4:N (the last N levels); of
    /// one that is there, from now on
    #[arg(long, value_name = "HOW", value_parser = parse_compression)]
    pub compress: Option<Compression>,

    /// For how long the record is there, like 30m, 12h or 7d; the structure has to be one whose records may expire
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub expires: Option<std::time::Duration>,

    /// Records of the structure may expire, if it is created; with --expires they may in any case
    #[arg(long)]
    pub expiring: bool,

    /// Key and value are given in hexadecimal, also the value from the standard input
    #[arg(long)]
    pub hex: bool,

    /// Print an object that says what was written
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = DELETE_HELP)]
pub struct DeleteArgs {
    #[command(flatten)]
    pub open: Open,

    /// The key
    #[arg(value_parser = key_parser(), required_unless_present_any = ["prefix", "from", "to"])]
    pub key: Option<String>,

    #[command(flatten)]
    pub structure: Structure,

    /// All keys that begin so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["key", "from", "to"], value_parser = key_parser())]
    pub prefix: Option<String>,

    /// This key and all those after it
    #[arg(long, value_name = "KEY", conflicts_with = "key", value_parser = key_parser())]
    pub from: Option<String>,

    /// All keys before this one
    #[arg(long, value_name = "KEY", conflicts_with = "key", value_parser = key_parser())]
    pub to: Option<String>,

    /// All of a range of a tree or an LSM-tree at once, or nothing of it, with few pages written; otherwise it goes in steps
    #[arg(long, conflicts_with = "key")]
    pub atomic: bool,

    /// Keys are given in hexadecimal
    #[arg(long)]
    pub hex: bool,

    /// Print an object that says whether the key was there, or how many were removed
    #[arg(long)]
    pub json: bool,
}

const DELETE_HELP: &str = "\
Examples:
  terrace delete people.db ada
  terrace delete events.db --to 2026 --structure events
  terrace delete events.db --prefix 2025-12 --atomic";

#[derive(Args, Debug)]
#[command(after_help = SCAN_HELP)]
pub struct ScanArgs {
    #[command(flatten)]
    pub open: Open,

    #[command(flatten)]
    pub structure: Structure,

    /// Rows of a table by this index: keys are those of the index, and rows come in their order
    #[arg(long, value_name = "INDEX")]
    pub index: Option<String>,

    /// Only keys that begin so
    #[arg(long, value_name = "KEY", conflicts_with_all = ["from", "to"], value_parser = key_parser())]
    pub prefix: Option<String>,

    /// Only this key and those after it
    #[arg(long, value_name = "KEY", value_parser = key_parser())]
    pub from: Option<String>,

    /// Only keys before this one
    #[arg(long, value_name = "KEY", value_parser = key_parser())]
    pub to: Option<String>,

    /// At most so many records
    #[arg(long, short, value_name = "N")]
    pub limit: Option<u64>,

    /// From the last to the first
    #[arg(long, short)]
    pub reverse: bool,

    /// Print no values; with --index, keys of the index, each with the primary key
    #[arg(long)]
    pub keys_only: bool,

    /// Print only how many there are
    #[arg(long, conflicts_with = "keys_only")]
    pub count: bool,

    /// Keys are given and printed in hexadecimal, and values too
    #[arg(long)]
    pub hex: bool,

    /// Print JSON: one object per record, on a line of its own
    #[arg(long, conflicts_with = "hex")]
    pub json: bool,
}

const SCAN_HELP: &str = "\
A line holds a key, a tab and a value. Tabs, line ends, backslashes and bytes that are no text are \
printed as \\t, \\n, \\\\ and \\xNN; a value that is an object of JSON on one line is printed as it is.

Examples:
  terrace scan people.db --prefix ada
  terrace scan people.db --from m --to n --keys-only
  terrace scan staff.db --index city --prefix Lo
  terrace scan events.db --reverse --limit 1 --json";

#[derive(Args, Debug)]
#[command(after_help = DUMP_HELP)]
pub struct DumpArgs {
    #[command(flatten)]
    pub open: Open,

    #[command(flatten)]
    pub structure: Structure,

    /// All structures, each after a line that says its name, what it is and its indexes: `terrace load
    /// --format dump` makes them again
    #[arg(long, conflicts_with = "structure")]
    pub all: bool,
}

const DUMP_HELP: &str = "\
Of a table the rows are printed, those of one tier in no order; without --all, `terrace load --index` \
makes its indexes again.

Examples:
  terrace dump people.db > people.jsonl
  terrace dump --all people.db | gzip > people.dump.gz
  terrace load copy.db --format dump people.dump.gz

Of a damaged structure the records before the damage are printed, and then those behind it, from the \
last one on; of a table with one tier only the former. What is wrong is said on the standard error, and \
the command ends with 1: what was printed can be loaded, but is not all.";

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn paragraphs_of_the_help_are_broken_by_the_terminal_alone() {
        fn look(command: &clap::Command) {
            let help = command.get_after_help().map(ToString::to_string);
            let help = help.unwrap_or_default();
            let lines: Vec<&str> = help.lines().collect();
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            let mut pairs = lines.windows(2);
            let broken = pairs.find(|two| two.iter().all(|line| is_text(line)));
            let name = command.get_name();
            assert!(
                broken.is_none(),
                "{name}: a paragraph is broken between {broken:?}"
            );
            command.get_subcommands().for_each(look);
        }
        look(&Cli::command());
    }
}
