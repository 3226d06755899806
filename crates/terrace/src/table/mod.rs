//! Tables: rows by a primary key, with indexes that always agree with them.
//!
//! A table is a structure of rows, and a tree of entries for each index, which no user sees. Rows and
//! entries change in one batch, which the log keeps as effects of these structures.

mod change;
pub mod entry;
pub mod extract;
mod handle;
pub mod index;
mod options;
mod read;
mod rows;
pub mod state;
mod verify;

pub use handle::Table;
pub use index::{Index, IndexEntry, IndexInfo, KeySource, Stored};
pub use options::{MAX_INDEXES, TableOptions};
pub use read::{IndexHandle, Keys, Rows};
pub use rows::{Expected, Round};
pub use verify::{Listener, check_indexes};
