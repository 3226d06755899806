//! Creating, opening and recovering a database.

pub mod open;
pub mod opening;
pub mod replay;
