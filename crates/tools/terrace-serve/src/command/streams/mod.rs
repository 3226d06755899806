//! Streams, and groups of consumers.

pub mod entries;
pub mod groups;
pub mod id;
pub mod pending;
pub mod read;
pub mod records;
