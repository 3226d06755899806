//! Rivals of the map in persistent memory, and what tells them apart: fences, lines, units of the medium,
//! lines read, memory; with delays, time.
#![forbid(unsafe_code)]

pub mod experiments;
pub mod picture;
pub mod rivals;
pub mod workload;
