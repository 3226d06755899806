//! The heap: rows in pages in no order, and an index, which is a tree, that says where each one is.
//!
//! An index record has the key and the flags of a row and its location, seven bytes, or the reference
//! of a large value. So whoever walks the records, counts uses down or chooses victims touches no
//! heap page. Rows stay where they are when others come and go.
//!
//! Invariants:
//! * The root keeps its page number, and so does the root of the index, which it names. Both go when
//!   the structure goes.
//! * Each row is named by exactly one index record, with its key; each index record with a location
//!   has its row there. A tombstone without a value has no row.
//! * A row, and the location that the index has of it, is changed only under the exclusive latches of
//!   the index leaf and of its heap page. So whoever holds the leaf knows where its rows are.
//! * Each heap page is listed once in the directory. One without rows is freed, or waits for rows.
//! * The membership counter of a window is that of the index leaf.

mod clear;
mod directory;
mod edit;
mod layout;
mod method;
mod order;
mod pack;
mod page;
mod read;
mod records;
mod room;
mod rooted;
mod run;
mod scans;
mod sides;
mod space;
mod state;
mod verify;

pub use crate::btree::layout::max_inline;
pub use state::Heap;
pub use verify::verify_page;
