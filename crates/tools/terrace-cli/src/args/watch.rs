//! What looks at a database on the command line, also at one that a program has open.

use clap::Args;
use std::net::SocketAddr;
use std::path::PathBuf;

use super::open::Open;

#[derive(Args, Debug)]
#[command(after_help = TOP_HELP)]
pub struct TopArgs {
    #[command(flatten)]
    pub open: Open,

    /// Print one frame, with rates of half a second, and end
    #[arg(long)]
    pub once: bool,

    /// Print frames as JSON, one a line, each half second; with --once one
    #[arg(long)]
    pub json: bool,
}

const TOP_HELP: &str = "\
Keys: q ends it, s sorts by name, reads, moves or records, enter hides and shows indexes, p pauses.

The database is that of a program that has it open with Options::control, or of `terrace bench` or \
`terrace demo`; one that nobody has open is opened.";

#[derive(Args, Debug)]
#[command(after_help = VIEW_HELP)]
pub struct ViewArgs {
    #[command(flatten)]
    pub open: Open,

    /// Where the page is; port 0 chooses one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8480")]
    pub http: SocketAddr,

    /// Answer requests for this host, too; may be given several times
    #[arg(long, value_name = "HOST")]
    pub allow_host: Vec<String>,

    /// Everybody has to show what is in the first line of this file; needed for an address that other machines
    /// reach
    #[arg(long, value_name = "FILE")]
    pub token_file: Option<PathBuf>,
}

const VIEW_HELP: &str = "\
Serves a page that shows live where the records live, what moves, and where the memory goes; and for \
programs /api/stats, /api/events, /metrics (Prometheus) and /healthz. It only reads. Ctrl-C ends it.

The database is that of a program that has it open with Options::control, or of `terrace bench` or \
`terrace demo`; one that nobody has open is opened.";
