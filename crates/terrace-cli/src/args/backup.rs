//! Backup, restore and compaction on the command line.

use clap::{Args, Subcommand};
use std::path::PathBuf;

use super::{Open, Size, parse_size};

#[derive(Subcommand, Debug)]
pub enum BackupCommand {
    /// Add a point to a backup set
    Create(BackupCreateArgs),
    /// Print the points of a backup set
    List(BackupListArgs),
    /// Read a whole backup set and check every page of it
    Verify(BackupVerifyArgs),
    /// Forget old points of a backup set
    Prune(BackupPruneArgs),
}

#[derive(Args, Debug)]
#[command(after_help = CREATE_HELP)]
pub struct BackupCreateArgs {
    #[command(flatten)]
    pub open: Open,

    /// The folder of the backup set; made if it is not there
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// Store every page again, whatever the set has
    #[arg(long)]
    pub full: bool,

    /// Read so many bytes a second; without, as fast as it goes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub rate: Option<Size>,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const CREATE_HELP: &str = "\
A point is the whole database as it was at one instant. Pages that the set has already are not stored
again. The set is as it was until the command has ended well; what a backup leaves that was cut off is
deleted by the next one. Keep the set on another disk than the database.

A database that another process has open with Options::control is backed up by that process, which
this command asks. A copy of the folder of an open database is no backup: its files change while they
are copied.

Examples:
  terrace backup create people.db /backup/people
  terrace backup create people.db /backup/people --rate 100MiB
  terrace backup list /backup/people
  terrace restore /backup/people people-again.db";

#[derive(Args, Debug)]
pub struct BackupListArgs {
    /// The folder of the backup set
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// Print a JSON object for each point, on a line of its own
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct BackupVerifyArgs {
    /// The folder of the backup set
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = "Example:\n  terrace backup prune /backup/people --keep 7")]
pub struct BackupPruneArgs {
    /// The folder of the backup set
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// How many of the newest points stay; at least one does
    #[arg(long, value_name = "N")]
    pub keep: usize,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
#[command(after_help = COMPACT_HELP)]
pub struct CompactArgs {
    #[command(flatten)]
    pub open: Open,

    /// How full pages are to be, in per cent, from 50 to 100
    #[arg(long, value_name = "PERCENT", default_value_t = 95, value_parser = clap::value_parser!(u8).range(50..=100))]
    pub fill: u8,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const COMPACT_HELP: &str = "\
Records of neighbouring pages are brought together, pages at the end of the file are moved to its
front, and the file is cut. It goes in small steps, each of which is whole: a compaction that is cut off
has done a part of it. Where keys come in any order later, full pages are split again.

Example:
  terrace compact people.db";

#[derive(Args, Debug)]
#[command(after_help = RESTORE_HELP)]
pub struct RestoreArgs {
    /// The folder of the backup set
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// The folder of the new database; must be empty, or not there
    #[arg(value_name = "DB")]
    pub db: PathBuf,

    /// The point; without, the newest
    #[arg(long, value_name = "N")]
    pub point: Option<u64>,

    /// Only this structure, a table with its indexes
    #[arg(long, short, value_name = "NAME")]
    pub structure: Option<String>,

    /// The memory that the verification may use
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const RESTORE_HELP: &str = "\
Every page is checked on its way, and the new database is verified as a whole before it gets its name:
until then it lies beside it, in a folder that ends in .restoring. Nothing that is there is touched.

Examples:
  terrace restore /backup/people people-again.db
  terrace restore /backup/people people-then.db --point 3
  terrace restore /backup/people users.db --structure users";
