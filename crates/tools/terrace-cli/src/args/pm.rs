//! What can be said of maps in persistent memory.

use clap::{Args, ValueEnum};

use crate::size::{Size, parse_size};

/// What lies below a map in persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PmDevice {
    /// Ordinary memory, counted: fences, lines, units of the medium
    Count,
    /// The same
    Sim,
    /// A file, by the clock
    File,
    /// A file on persistent memory, by the clock
    Dax,
}

/// How a map in persistent memory is made, or begun anew.
#[derive(Args, Debug)]
pub struct PmMakeArgs {
    /// With --kind pm: the most bytes that the file of a new map will ever have
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<Size>,

    /// Of a map in persistent memory that a power cut has left without protection: begin with an empty one
    #[arg(long)]
    pub discard_after_power_loss: bool,
}

/// Options of `terrace bench --structure pm`.
#[derive(Args, Clone, Debug)]
pub struct PmBenchArgs {
    /// With --structure pm: what lies below; with count and sim the path may be -
    #[arg(long, value_enum, value_name = "DEVICE", default_value = "count")]
    pub device: PmDevice,

    /// With --structure pm: what to compare with: fast-fair, dptree, betree, plain, paper, literal, or all
    #[arg(long, value_name = "NAME")]
    pub rival: Option<String>,

    /// With --structure pm: insert, insert-skewed, update, batch, batch-update, search, mix, mix-1-2,
    /// mix-80-20, range, rise, or all
    #[arg(long, value_name = "WORK")]
    pub work: Option<String>,

    /// With --structure pm: how long fences take, in nanoseconds: next to the last line, and elsewhere
    #[arg(long, value_name = "NEXT,FAR")]
    pub fence_ns: Option<String>,

    /// With --structure pm: bytes of memory for each key; 3.5 if nothing is said
    #[arg(long, value_name = "N")]
    pub bytes_per_key: Option<f64>,

    /// With --structure pm, in the paper's mode: nodes always split in two, not in more when they are hot
    #[arg(long)]
    pub always_two: bool,

    /// With --structure pm: how long it takes to open the map after a crash, too
    #[arg(long)]
    pub recovery: bool,

    /// With --structure pm: the paper's experiments that counts can show, all of them
    #[arg(long, conflicts_with_all = ["rival", "work", "fence_ns", "always_two", "recovery"])]
    pub experiments: bool,
}
