//! The protocol of Redis: requests read, answers written.

pub mod parse;
pub mod reply;

/// The version of Redis whose commands are understood.
pub const VERSION: &str = "7.0.15";
