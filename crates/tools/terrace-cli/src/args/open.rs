//! Which database, and which structure of it.

use std::path::PathBuf;

use clap::Args;

use crate::size::{Size, parse_size};

/// Which database, and how to open it.
#[derive(Args, Clone, Debug)]
pub struct Open {
    /// The folder of the database, or the file of a map in persistent memory
    #[arg(value_name = "DB")]
    pub db: PathBuf,

    /// The memory that it may use, for everything
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// The log may grow to this size before a checkpoint: on a small disk less than the 256 MiB, or twice
    /// the memory, that it may otherwise
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub log_limit: Option<Size>,
}

/// Which structure of the database.
#[derive(Args, Debug)]
pub struct Structure {
    /// The structure; not needed if there is only one
    #[arg(long, short, value_name = "NAME")]
    pub structure: Option<String>,
}
