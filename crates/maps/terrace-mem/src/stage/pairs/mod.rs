//! The compact forms of the pairs that are there to compare: of a skip list, of Masstree and of ART.

mod towers;
mod trie;

pub use towers::Towers;
pub use trie::{ON, Radix, Trie, Words, word};
