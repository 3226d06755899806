//! What a user holds: the database, and the handles of structures and of what is read from them. Each says how one
//! comes to it.

pub mod database;
pub mod expiring;
pub mod handle;
pub mod hash;
pub mod hash_scan;
pub mod index;
pub mod map;
mod open;
pub mod ordered;
pub mod range;
mod resident;
pub mod table;
pub mod tree;
pub mod unordered;
