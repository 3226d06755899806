//! What a user holds: a database, and a structure of one. What is done with them lies above: `structures/`, `api/`.

pub mod database;
pub mod latest;
pub mod map;
pub mod shared;
