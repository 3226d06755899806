//! What is said to `terrace plan`.

use clap::Args;

use crate::size::{Size, parse_count, parse_size};
use crate::skew::{Skew, parse_skew};

#[derive(Args, Debug)]
#[command(after_help = PLAN_HELP)]
pub struct PlanArgs {
    /// How many records there are to be, such as 10M
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub records: u64,

    /// Bytes of a key, in the mean
    #[arg(long, value_name = "BYTES", default_value = "16", value_parser = parse_size)]
    pub key: Size,

    /// Bytes of a value, in the mean
    #[arg(long, value_name = "BYTES", value_parser = parse_size)]
    pub value: Size,

    /// The memory that the database may use
    #[arg(long, value_name = "SIZE", default_value = "256MiB", value_parser = parse_size)]
    pub memory: Size,

    /// How unevenly records are used: 80/20 (80 % of the accesses go to 20 % of the records), or the exponent of
    /// Zipf's law: 0 for all alike, 0.9 for what is usual, 0.99 for very uneven
    #[arg(long, value_name = "SKEW", default_value = "0.9", value_parser = parse_skew)]
    pub skew: Skew,

    /// The log may grow to this size before a checkpoint; 256 MiB, or twice the memory if that is more
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub log_limit: Option<Size>,

    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const PLAN_HELP: &str = "\
Opens nothing and measures nothing: it works the figures out, by a model that was fitted to measurements of a \
tree with 10 million records of 128 bytes. There it is within 5 % where up to half of the data fits into memory, \
and says up to a fifth too much where nearly all does. Other structures read up to a third more. It holds once \
memory is full of what is used: after a crash that takes some minutes, after a close some seconds. Measure your own data with `terrace bench`.

Examples:
  terrace plan --records 10M --key 8 --value 120 --memory 512MiB
  terrace plan --records 200M --value 300 --memory 4GiB --skew 80/20";
