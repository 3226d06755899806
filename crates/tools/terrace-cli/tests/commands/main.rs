//! Every command, run as a process of its own.

#[path = "../common/mod.rs"]
mod common;

mod backups;
mod changes;
mod doctor;
mod expiring;
mod guide;
mod importing;
mod interrupted;
mod memories;
mod places;
mod pm;
mod read_only;
mod records;
mod serve;
mod structures;
mod tables;
mod told;
mod watched;
mod whole;
