//! Kinds of memory on the command line.

use clap::{Args, Subcommand};

#[derive(Debug, Subcommand)]
pub enum PlaceCommand {
    /// Print which memories this machine has, how slow each is, and which a map would take
    Doctor(DoctorArgs),
}

#[derive(Args, Debug)]
#[command(after_help = DOCTOR_HELP)]
pub struct DoctorArgs {
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

const DOCTOR_HELP: &str = "\
Reads what the system tells of its memory nodes, and follows pointers through 64 MiB of each that may be \
used, for 20 ms. Changes nothing.

Examples:
  terrace place doctor
  terrace place doctor --json";
