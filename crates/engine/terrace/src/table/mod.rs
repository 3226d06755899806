//! Tables: rows by a primary key, with indexes that always agree with them.
//!
//! A table is a structure of rows, and a tree of entries for each index, which no user sees. Rows and
//! entries change in one batch, which the log keeps as effects of these structures.

pub mod change;
pub mod options;
pub mod verify;
