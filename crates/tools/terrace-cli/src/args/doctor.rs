//! What is said to `terrace doctor`.

use std::path::PathBuf;

use clap::Args;

use crate::size::{Size, parse_size};

#[derive(Args, Debug)]
pub struct DatabaseDoctorArgs {
    /// The folder of the database; it need not be there yet
    #[arg(value_name = "DB")]
    pub db: PathBuf,

    /// The memory that it is to have
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}
