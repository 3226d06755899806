//! The demonstration on the command line.

use clap::{Args, ValueEnum};
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::size::{Size, parse_count, parse_size};

/// Who visits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Spread {
    /// 3 of 100 people make 95 of 100 visits
    Hot,
    /// The second comes half as often as the first, the third a third as often, and so on
    Zipf,
    /// Everybody comes equally often
    Even,
}

#[derive(Args, Debug)]
#[command(after_help = DEMO_HELP)]
pub struct DemoArgs {
    /// Where to put the databases; deleted at the end
    #[arg(long, value_name = "FOLDER", default_value = "terrace-demo")]
    pub dir: PathBuf,

    /// About how long all of it may take; what is not done by then is said
    // A year is longer than any user waits; it also keeps arithmetic on moments safe.
    #[arg(long, value_name = "N", default_value_t = 60,
          value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    pub seconds: u64,

    /// How many people have a profile, of about 100 bytes
    #[arg(long, value_name = "N", default_value = "250k", value_parser = parse_count)]
    pub people: u64,

    /// Memory of each store, for everything
    #[arg(long, value_name = "SIZE", default_value = "3MiB", value_parser = parse_size)]
    pub memory: Size,

    /// How many visits there are
    #[arg(long, value_name = "N", default_value = "60k", value_parser = parse_count)]
    pub visits: u64,

    /// Who visits
    #[arg(long, value_enum, default_value = "hot")]
    pub spread: Spread,

    /// Threads that visit; as many as there are processors, up to four, if not given
    #[arg(long, value_name = "N")]
    pub threads: Option<usize>,

    /// Serve a page that shows live what goes on, at 127.0.0.1:8480 if nothing is said
    #[arg(long, value_name = "ADDRESS", num_args = 0..=1, require_equals = true,
          default_missing_value = "127.0.0.1:8480")]
    pub view: Option<SocketAddr>,

    /// Keep the databases
    #[arg(long)]
    pub keep: bool,

    /// Delete the databases in this folder when the standard input ends
    #[arg(long, value_name = "FOLDER", hide = true)]
    pub janitor: Option<PathBuf>,

    /// Print one JSON object, and no progress
    #[arg(long)]
    pub json: bool,
}

const DEMO_HELP: &str = "\
Keeps profiles of many people in little memory. Few of them are here today; each visit reads a profile, and every \
second one counts itself in it. How often the device is read, and how much is written, is counted: with two tiers, \
with one, which keeps pages in memory as other stores do, and in redb if the command was built with the feature \
peers-demo. All make the same visits, and at the end every profile is read and compared with what it must be. No \
network is used; what is written to the disk is deleted at the end, also if the command is interrupted.

Examples:
  terrace demo
  terrace demo --view
  terrace demo --spread even
  terrace demo --keep && terrace scan terrace-demo/two-tiers --prefix bako";
