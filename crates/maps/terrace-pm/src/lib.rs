//! A durable ordered map in byte-addressable memory.
//!
//! [`PmMap`] keeps its leaves and a log in a file that is mapped, and everything else in ordinary memory.
//! A write goes to the log, one fence, and to a buffer in front of the leaves; many buffered pairs go into
//! a leaf together. On persistent memory a write is durable when it returns. On any other file it survives
//! its process, without a system call.
//!
//! # Rules
//!
//! The heads of the files name them by number. They hold where after a crash each word has any value that
//! was stored to it since it was last durable.
//!
//! 1. *One switch*: what a reader may see hangs on one word (a leaf's word, a tail, a record's check, a
//!    superblock's checksum). What it makes visible is durable before it is stored, or covered by the check.
//! 2. *Two phases* of a drain: slots, values, the next pointer that does not count, a new leaf; fence; word;
//!    fence.
//! 3. A slot is written only if the durable word has it free, or with a new value of the same key.
//! 4. *Log before leaf, leaf before tail*: a record is dead when what replaced it is durable.
//! 5. *Acknowledged is fenced*, and a partition of the log becomes durable in order.
//! 6. A key has one partition, by its hash, and is appended under its node's latch.
//! 7. The log is freed from the tail only.
//! 8. Segments have headers that are durable before their records, ordinals without gaps, and records
//!    checks that cover their place.
//! 9. Recovery cuts off what lies behind a hole before anything is appended there.
//! 10. A split moves residents first; a merge is durable before its switch.
//! 11. A place is used again only after the switch that dropped it is fenced.
//! 12. A record with a right check and a wrong blob is passed over, if it may be, and void from then on. A
//!     blob's check covers the record by which it came.
//! 13. Replay frees nothing until all of it is done.
//! 14. Readers hold the node's latch, and every place read from the medium is checked.
//! 15. Cleaning and growth come first, with nothing held; the work of one call is bounded.
//! 16. A failed fence stops all writing.

#![deny(unsafe_code)]

mod arena;
#[cfg_attr(not(feature = "planted-faults"), allow(dead_code))]
#[doc(hidden)]
pub mod faults;
mod key;
mod last;
mod leaf;
mod log;
mod map;
mod options;
pub mod pm;
mod recover;
mod stats;
mod superblock;
mod threads;
mod tree;
mod verify;

pub use key::{Key, Value};
pub use last::Buffers;
pub use map::{PmMap, Range, kinds};
pub use options::{DEFAULT_CAPACITY, DEFAULT_MEMORY, Options};
pub use pm::Domain;
pub use stats::Stats;
pub use terrace_base::{Durability, Error, Result};
pub use verify::Report;
