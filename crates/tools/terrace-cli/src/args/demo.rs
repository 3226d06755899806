//! The demonstration on the command line.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::size::{Size, parse_size};

#[derive(Args, Debug)]
#[command(after_help = DEMO_HELP)]
pub struct DemoArgs {
    /// Text to count: files or folders (plain text, Markdown, HTML, source code); without any, the
    /// documentation of the Rust toolchain or other text found on this machine
    #[arg(value_name = "PATH")]
    pub paths: Vec<PathBuf>,

    /// Where to put the databases; deleted at the end
    #[arg(long, value_name = "FOLDER", default_value = "terrace-demo")]
    pub dir: PathBuf,

    /// About how long all of it may take
    // A year is more than anybody wants to wait; it also keeps arithmetic on moments safe.
    #[arg(long, value_name = "N", default_value_t = 120,
          value_parser = clap::value_parser!(u64).range(..=31_536_000))]
    pub seconds: u64,

    /// At most so much text
    #[arg(long, value_name = "SIZE", default_value = "192MiB", value_parser = parse_size)]
    pub text: Size,

    /// Stop reading text when its records would be so many bytes
    #[arg(long, value_name = "SIZE", default_value = "24MiB", value_parser = parse_size)]
    pub data: Size,

    /// Threads that count; as many as there are processors, up to four, if not given
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
Counts how often each word, each pair and each triple of neighbouring words occurs, and notes where \
it was seen last: three updates for every word, many to the few words that are everywhere, few to \
most. The store gets a fifth of the memory that these records need. The same is then done with one \
tier, which keeps pages in memory as other stores do, and in redb with a cache of the same size, and \
the three are compared; all counts must be the same. No network is used; \
what is written to the disk is deleted at the end, also if the command is interrupted.

Examples:
  terrace demo
  terrace demo --view
  terrace demo ~/books --seconds 60
  terrace demo --keep && terrace scan terrace-demo/two-tiers -s words --prefix tier";
