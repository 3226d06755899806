//! Backup, restore and compaction on the command line.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::SystemTime;

use super::{Open, Size, parse_size};
use crate::engine::backups::parse_time;

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

    /// Have the process that has the database open copy its log to the set too, until it closes the
    /// database
    #[arg(long, conflicts_with_all = ["full", "rate", "mark"])]
    pub follow: bool,

    /// Give the point a name, to be restored with --to-mark
    #[arg(long, value_name = "NAME")]
    pub mark: Option<String>,

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

With --follow that process makes a point, and from then on copies what is written once a second, so
that a restore can go back to any change, second or mark (`terrace mark`). It needs a database that is
open: nobody writes to another one. The command ends at once; the copying ends with the database.

Examples:
  terrace backup create people.db /backup/people
  terrace backup create people.db /backup/people --follow
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
#[command(after_help = MARK_HELP)]
pub struct MarkArgs {
    #[command(flatten)]
    pub open: Open,

    /// What it is called
    #[arg(value_name = "NAME")]
    pub name: String,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const MARK_HELP: &str = "\
Every change that was made before lies before the mark. A backup set has it once the log is copied there,
which `backup create --follow` does: so mark while the database is open and followed. For a database that
nobody has open, `backup create --mark NAME` gives a point a name.

Examples:
  terrace mark people.db before-migration
  terrace restore /backup/people people-then.db --to-mark before-migration";

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

    /// The point; without, the newest state that the set has
    #[arg(long, value_name = "N", group = "state")]
    pub point: Option<u64>,

    /// The state of this time, in UTC, as 2026-11-25T12:00:00Z
    #[arg(long, value_name = "TIME", group = "state", value_parser = parse_time)]
    pub to_time: Option<SystemTime>,

    /// The state after the change of this number
    #[arg(long, value_name = "N", group = "state")]
    pub to_sequence: Option<u64>,

    /// The state of the newest mark of this name
    #[arg(long, value_name = "NAME", group = "state")]
    pub to_mark: Option<String>,

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

A time, a change or a mark between two points needs the log that `backup create --follow` copies. What
the set does not have is an error that says what it has; `terrace backup list` shows it, too.

Examples:
  terrace restore /backup/people people-again.db
  terrace restore /backup/people people-then.db --point 3
  terrace restore /backup/people people-then.db --to-time 2026-11-25T12:00:00Z
  terrace restore /backup/people people-then.db --to-mark before-migration
  terrace restore /backup/people users.db --structure users";
