//! The log: logical, redo-only, segmented; group commit, the tail rule, replay.
//!
//! The payload of a record is opaque here. What holds at every moment:
//!
//! - Sequence numbers are the commit order; what survives a crash is a prefix of it, which holds
//!   every record whose `Sync` commit returned, and, if only the process died, every record whose
//!   `Buffered` commit returned.
//! - A byte that a sync has covered is never written again with another value, and no block that
//!   is written later shares its sector (`docs/format-log.md` names the one exception, a full disk).
//! - Space is reserved before a record is appended, so that appending can neither fail nor wait.
//! - After a write or sync that failed nothing more is written.

#![forbid(unsafe_code)]

mod append;
mod background;
mod checkpoint;
mod commit;
mod fault;
mod files;
mod follow;
mod holds;
mod lane;
mod layout;
mod leading;
mod log;
mod lsn;
mod options;
mod prepare;
mod progress;
mod reader;
mod record;
mod recover;
mod replay;
mod reserve;
mod seal;
mod segment;
mod staging;
mod state;
mod stats;
mod tail;

#[cfg(test)]
mod tests;

pub use follow::{Follower, Place};
pub use holds::HoldId;
pub use layout::{DecodedBlock, DecodedSegment, decode_segment};
pub use log::Log;
pub use lsn::{Lsn, Position};
pub use options::{LOG_SEGMENTS, LogOptions, MAX_RECORD_BYTES, RECORD_OVERHEAD_BYTES};
pub use record::{Appended, Reservation};
pub use stats::{LogStats, RecoveryReport};
pub use terrace_base::Durability;
