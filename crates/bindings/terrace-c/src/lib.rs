//! Terrace for C: `include/terrace.h` is made of these files, docs/c.md is the guide.
//!
//! Handles are pointers that a caller may not look into: they carry the number of a handle of
//! `terrace-ffi`, so a closed one is an error. What C hands over is looked at in `raw.rs` and `structs.rs`
//! alone.

mod backup;
mod batch;
mod changes;
mod cursor;
mod database;
mod error;
mod expiring;
mod load;
mod options;
mod raw;
mod record;
mod removal;
mod snapshot;
mod status;
mod structs;
mod structure;
mod transaction;
