//! The protocol of Redis: requests read, answers written.

pub mod parse;
pub mod reply;
