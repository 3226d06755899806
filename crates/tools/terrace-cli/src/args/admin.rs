//! What is said to `terrace stat`, `terrace verify` and `terrace checkpoint`.

use clap::Args;

use super::open::Open;

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
