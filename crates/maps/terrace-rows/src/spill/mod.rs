//! Beyond memory: rows that are not used leave it for trees of a database, with their index entries, in key order.

pub mod cold;
pub mod fetched;
pub mod filter;
pub mod sketch;
