//! The B+tree: records in key order, found through inner nodes from a root that does not move.
//!
//! Invariants:
//! * The root keeps its page number; when it splits, its content moves to two new children, and
//!   when one child is left, that one's content moves back.
//! * Every node covers `low <= key < high` and stores both; children tile their parent exactly.
//! * Nothing refers to a leaf but its parent: leaves are not chained, so a merge touches three
//!   pages.
//! * A page is changed only under its exclusive latch; a change of structure holds the latches of
//!   all pages it changes until it is complete.
//! * The membership counter of a leaf changes whenever a record comes, goes or moves to another
//!   page; a new page starts at a number of its own, so that a page number that is used again does
//!   not look like the old page.

mod clear;
pub(crate) mod descend;
mod edit;
mod fences;
mod get;
pub(crate) mod image;
mod insert;
pub(crate) mod layout;
mod leaf;
mod method;
mod nodes;
mod predecessor;
mod range_delete;
mod remove;
mod rooted;
pub(crate) mod run;
mod sample;
pub(crate) mod scan;
mod search;
mod share;
mod spill;
mod split;
mod sweep;
mod through;
mod tree;
pub(crate) mod verify;

pub(crate) use get::record_in;
pub use layout::max_inline;
pub(crate) use predecessor::Predecessor;
pub(crate) use range_delete::{RangeDelete, Wanted};
pub use tree::BTree;
pub use verify::verify_node;
