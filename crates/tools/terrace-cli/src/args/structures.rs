//! Structures as wholes on the command line.

use clap::Args;

use super::open::Open;

#[derive(Args, Debug)]
pub struct ListArgs {
    #[command(flatten)]
    pub open: Open,

    /// Print a JSON object for each, on a line of its own
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = DROP_HELP)]
pub struct DropArgs {
    #[command(flatten)]
    pub open: Open,

    /// The name of the structure
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const DROP_HELP: &str = "\
All records of the structure go, and all indexes of a table. This cannot be undone: `terrace dump` saves \
them before. The space is used again for other records.

Examples:
  terrace drop people.db old
  terrace dump people.db -s old > old.jsonl && terrace drop people.db old";

#[derive(Args, Debug)]
pub struct RenameArgs {
    #[command(flatten)]
    pub open: Open,

    /// The name that the structure has
    #[arg(value_name = "FROM")]
    pub from: String,

    /// The name that it is to have; no other structure may have it
    #[arg(value_name = "TO")]
    pub to: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
