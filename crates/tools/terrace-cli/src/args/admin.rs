//! What is said to `terrace stat`, `terrace verify`, `terrace checkpoint` and `terrace changes`.

use clap::Args;

use super::open::Open;
use crate::size::{Size, parse_size};

#[derive(Args, Debug)]
pub struct StatArgs {
    #[command(flatten)]
    pub open: Open,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct VerifyArgs {
    #[command(flatten)]
    pub open: Open,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,

    /// Get back space that belongs to nobody, if nothing is damaged
    #[arg(long)]
    pub reclaim: bool,
}

#[derive(Args, Debug)]
pub struct CheckpointArgs {
    #[command(flatten)]
    pub open: Open,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct ChangesArgs {
    #[command(flatten)]
    pub open: Open,

    /// Go on behind this place, which is what `place` was in a line of --json
    #[arg(long, value_name = "PLACE")]
    pub from: Option<terrace::Place>,

    /// End with the last commit that there is now, instead of waiting for more
    #[arg(long)]
    pub until_now: bool,

    /// Keep so much of the log for the next time, if no other process has the database open
    #[arg(long, value_name = "SIZE", default_value = "64MiB", value_parser = parse_size)]
    pub keep: Size,

    /// Print a JSON object for each commit, behind one without changes that says the place where it begins
    #[arg(long)]
    pub json: bool,
}
