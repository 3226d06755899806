//! Every command, run as a process of its own.

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod interrupted;
mod memories;
mod places;
mod pm;
mod read_only;
mod records;
mod serve;
mod structures;
mod tables;
mod watched;
mod whole;
