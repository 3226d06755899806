//! The log: what was put and deleted, one record of 32 bytes each, in partitions by hash of the key.
//!
//! A segment is 4096 bytes: `magic | partition << 32`, ordinal, map id, check of these three, zeros up to
//! byte 64; then records: key, value, `sequence << 2 | copy << 1 | op`, check. The check covers the sequence
//! number, so a record of an earlier life of the place is no record (rule 8).
//!
//! All records of a key lie in one partition, in the order of its node's latch (rule 6), and a partition is
//! freed from its tail only (rule 7): what is left is always the end of each key's history. Records become
//! durable in order: who fences flushes everything from the durable mark on (rule 5).

mod append;
mod format;
mod partition;
mod replay;

pub use append::{Flushed, GROUP, Log};
pub use format::{Op, Segment, record_at, tail_word};
pub use partition::Partition;
pub use replay::{Found, Record, Replayed};
