//! The map itself, for keys as they are kept in memory: what `PmMap` puts types around.
//!
//! Order of latches: node latches from left to right, then a partition of the log, then the arena. The
//! lock of the directory is taken by who holds latches, and never the other way round.

mod budget;
mod clean;
mod core;
mod drains;
mod hand;
mod range;
mod read;
mod room;
mod window;
mod write;

pub use budget::Budget;
pub use core::{Settings, Tree};
pub use range::Cursor;
pub use write::{Change, Group, Wanted};
