//! Keys and collections as records of a database.

pub mod codec;
pub mod keyspace;
pub mod locks;
pub mod reaper;
pub mod work;
