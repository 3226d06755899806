//! Other placements, by counting: of pages, which nothing but a table says where they lie, and of
//! oracles. The tree tells of its nodes through [`terrace_place::Model`].
//!
//! A rival is told of every node that is made and of every touch, in a tree whose nodes do not
//! move, and says where each would lie. The pages are those of an allocator that hands out
//! addresses one after the other, as a heap does while it grows.

mod known;
mod pages;
mod table;

pub use known::{Known, Training};
pub use pages::{Caption, Memtis, PAGE_2M, PAGE_4K, Tpp};
pub use table::{Rival, Table};
