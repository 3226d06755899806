//! Indexes on the command line.

use clap::{Args, Subcommand};

use super::open::Open;
use crate::engine::Index;

/// An index as it is said on the command line.
pub fn parse_index(text: &str) -> Result<Index, String> {
    text.parse()
        .map_err(|e: crate::engine::Error| e.to_string())
}

#[derive(Debug, Subcommand)]
pub enum IndexCommand {
    /// Make an index over the rows that are there
    Create(IndexCreateArgs),
    /// Drop an index
    Drop(IndexDropArgs),
    /// Print the indexes of a table
    List(IndexListArgs),
}

#[derive(Args, Debug)]
#[command(after_help = INDEX_HELP)]
pub struct IndexCreateArgs {
    #[command(flatten)]
    pub open: Open,

    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,

    /// NAME=SOURCE, or NAME=unique:SOURCE
    #[arg(value_name = "INDEX", value_parser = parse_index)]
    pub index: Index,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const INDEX_HELP: &str = "\
A SOURCE is json:/POINTER, json-or-empty:/POINTER, csv:COLUMN, csv:COLUMN:DELIMITER or bytes:FROM..TO, also behind number: or each:, as \
`terrace load --help` says. If two rows have the same key in a unique index, both are named, and there is no index.

Examples:
  terrace index create staff.db main city=json:/city
  terrace index create staff.db main badge=unique:json:/badge
  terrace index create staff.db main skill=each:json:/skills";

#[derive(Args, Debug)]
pub struct IndexDropArgs {
    #[command(flatten)]
    pub open: Open,

    /// The table
    #[arg(value_name = "TABLE")]
    pub table: String,

    /// The name of the index
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct IndexListArgs {
    #[command(flatten)]
    pub open: Open,

    /// The table; not needed if there is only one
    #[arg(value_name = "TABLE")]
    pub table: Option<String>,

    /// Print a JSON object for each, on a line of its own
    #[arg(long)]
    pub json: bool,
}
