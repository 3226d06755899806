//! Backup, restore and compaction on the command line.

use clap::{Args, Subcommand};
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use super::open::Open;
use crate::engine::backups::{Rate, parse_time};
use crate::size::{Size, parse_size};

/// A number of bytes a second, or a word.
fn parse_rate(text: &str) -> Result<Rate, String> {
    match text {
        "gentle" => Ok(Rate::Gentle),
        "fast" => Ok(Rate::Fast),
        _ => match parse_size(text) {
            Ok(Size(0)) => Err("at no bytes a second nothing is ever done".into()),
            Ok(Size(bytes)) => Ok(Rate::BytesPerSecond(bytes)),
            Err(_) => Err(format!(
                "{text} is no rate: say a number of bytes a second such as 100MiB, or gentle, or fast"
            )),
        },
    }
}

/// How fast it is where nothing is said: who has the database open has other things to do.
pub fn rate_of(said: Option<Rate>, is_open_elsewhere: bool) -> Rate {
    said.unwrap_or(match is_open_elsewhere {
        true => Rate::Gentle,
        false => Rate::Fast,
    })
}

#[derive(Subcommand, Debug)]
pub enum BackupCommand {
    /// Add a point to a backup set
    Create(BackupCreateArgs),
    /// Have the log of an open database copied to a backup set, or say who does that and how far it is
    Follow(BackupFollowArgs),
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

    /// Read so many bytes a second, or `gentle`, so that others hardly notice, or as `fast` as it goes.
    /// Without, gentle if another process has the database open, else fast
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rate: Option<Rate>,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const CREATE_HELP: &str = "\
A point is the whole database as it was at one instant. Pages that the set has already are not stored \
again. The set is as it was until the command has ended well; what a backup leaves that was cut off is \
deleted by the next one. Keep the set on another disk than the database.

A database that another process has open with Options::control is backed up by that process, which \
this command asks. When the command is interrupted it ends there, too. A copy of the folder of an open database is no backup: its files change while they \
are copied.

With --follow that process makes a point, and from then on copies what is written once a second, so \
that a restore can go back to any change, second or mark (`terrace mark`). It needs a database that is \
open: nobody writes to another one. The command ends at once; the copying ends with the database, or with \
`terrace backup follow people.db /backup/people --stop`.

Examples:
  terrace backup create people.db /backup/people
  terrace backup create people.db /backup/people --follow
  terrace backup create people.db /backup/people --rate 100MiB
  terrace backup list /backup/people
  terrace restore /backup/people people-again.db";

#[derive(Args, Debug)]
#[command(after_help = FOLLOW_HELP)]
pub struct BackupFollowArgs {
    #[command(flatten)]
    pub open: Open,

    /// The folder of the backup set; without, all that is followed to is printed
    #[arg(value_name = "SET")]
    pub set: Option<PathBuf>,

    /// Copy the rest and end what was begun from outside
    #[arg(long, requires = "set", conflicts_with_all = ["every", "point_after", "rate"])]
    pub stop: bool,

    /// Copy the log every so many seconds
    #[arg(long, value_name = "SECONDS", requires = "set", value_parser = parse_seconds)]
    pub every: Option<Duration>,

    /// Make a new point after so many bytes of log, so that a restore need not replay more; without, when the
    /// log is longer than the database and than 64 MiB
    #[arg(long, value_name = "SIZE", requires = "set", value_parser = parse_size)]
    pub point_after: Option<Size>,

    /// Make points at so many bytes a second, or `gentle`, so that others hardly notice, or as `fast` as it goes
    #[arg(long, value_name = "SIZE", requires = "set", value_parser = parse_rate)]
    pub rate: Option<Rate>,

    /// Print a JSON object for each set, on a line of its own
    #[arg(long)]
    pub json: bool,
}

/// The fewest seconds between two copies: more of them only make the log sync all the time.
const LEAST_SECONDS: f64 = 0.01;

fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds: Option<f64> = text.parse().ok().filter(|s: &f64| *s >= LEAST_SECONDS);
    let time = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    time.ok_or_else(|| format!("{text} is not a number of seconds from {LEAST_SECONDS} on"))
}

const FOLLOW_HELP: &str = "\
The process that has the database open with Options::control makes a point, and from then on copies what \
is written to the set, so that a restore can go back to any change, second or mark (`terrace mark`). The \
command ends at once; the copying ends with the database or with --stop.

Look at it now and then: an error is tried again, and a break means that changes were lost between two \
points, because the log was given up. `terrace stat` and the metrics show the same.

Examples:
  terrace backup follow people.db /backup/people
  terrace backup follow people.db
  terrace backup follow people.db /backup/people --stop";

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
#[command(after_help = PRUNE_HELP)]
pub struct BackupPruneArgs {
    /// The folder of the backup set
    #[arg(value_name = "SET")]
    pub set: PathBuf,

    /// How many of the newest points stay; at least one does
    #[arg(long, value_name = "N", required_unless_present = "keep_for")]
    pub keep: Option<usize>,

    /// What is needed to restore any time of the last so many days (`7d`), hours (`12h`) or minutes (`30m`)
    /// stays: the points of that time and the last one before
    #[arg(long, value_name = "TIME", value_parser = parse_age)]
    pub keep_for: Option<Duration>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const PRUNE_HELP: &str = "\
What only the forgotten points needed is deleted. Of a file of pages of which less than half is still needed \
that is copied to a new one first, where there is room for it.

Example:
  terrace backup prune /backup/people --keep 7
  terrace backup prune /backup/people --keep-for 7d --keep 3";

/// A time such as `7d`.
pub fn parse_age(text: &str) -> Result<Duration, String> {
    let seconds = |unit| match unit {
        'd' => Some(86_400),
        'h' => Some(3_600),
        'm' => Some(60),
        _ => None,
    };
    let unit = text.chars().last().and_then(seconds);
    let number = text.get(..text.len().saturating_sub(1));
    let number = number.and_then(|number| number.parse::<u64>().ok());
    let all = unit.zip(number).and_then(|(unit, n)| n.checked_mul(unit));
    all.map(Duration::from_secs)
        .ok_or_else(|| format!("{text:?} is no time: say 7d, 12h or 30m"))
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
Every change that was made before lies before the mark. A backup set has it once the log is copied there, \
which `backup create --follow` does: so mark while the database is open and followed. For a database that \
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

    /// Go through so many bytes a second, or `gentle`, so that others hardly notice, or as `fast` as it goes.
    /// Without, gentle if another process has the database open, else fast
    #[arg(long, value_name = "SIZE", value_parser = parse_rate)]
    pub rate: Option<Rate>,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const COMPACT_HELP: &str = "\
Records of neighbouring pages are brought together, pages at the end of the file are moved to its \
front, and the file is cut. It goes in small steps, each of which is whole: a compaction that is cut off \
has done a part of it. Where keys come in any order later, full pages are split again. A database that \
another process has open with Options::control is compacted there, until the command is interrupted.

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

    /// The state of this time: 2026-11-25T12:00:00Z in UTC, 2026-11-25T14:00:00+02:00, 2026-11-25 for the
    /// first instant of that day in UTC, or seconds since 1970
    #[arg(long, value_name = "TIME", group = "state", value_parser = parse_time)]
    pub to_time: Option<SystemTime>,

    /// The state after the change of this number
    #[arg(long, value_name = "N", group = "state")]
    pub to_sequence: Option<u64>,

    /// The state of the newest mark of this name
    #[arg(long, value_name = "NAME", group = "state")]
    pub to_mark: Option<String>,

    /// Take the newest state before a break, where the newest changes of the set cannot be restored: the log
    /// was given up before them, and no point has been made since
    #[arg(long, conflicts_with = "state")]
    pub up_to_break: bool,

    /// Only this structure, a table with its indexes
    #[arg(long, short, value_name = "NAME")]
    pub structure: Option<String>,

    /// Do not check every page and structure of the new database once more
    #[arg(long)]
    pub no_verify: bool,

    /// The memory that the verification may use
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const RESTORE_HELP: &str = "\
Every page is checked on its way, and the new database is verified as a whole before it gets its name: \
until then it lies in a folder that ends in .restoring, beside it or, if its own is there already (a mounted \
device, say), inside. Nothing that is there is touched. With --structure everything is copied first and the \
rest dropped, so it needs the space of all.

A time, a change or a mark between two points needs the log that `backup create --follow` copies. What \
the set does not have is an error that says what it has; `terrace backup list` shows it, too.

Examples:
  terrace restore /backup/people people-again.db
  terrace restore /backup/people people-then.db --point 3
  terrace restore /backup/people people-then.db --to-time 2026-11-25T12:00:00Z
  terrace restore /backup/people people-then.db --to-mark before-migration
  terrace restore /backup/people users.db --structure users";
