//! What an index is, what finds its keys, and which ones an open table has.

pub mod definition;
pub mod entry;
pub mod extract;
pub mod state;
