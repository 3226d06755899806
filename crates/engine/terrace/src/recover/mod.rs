//! Creating, opening and recovering a database.

mod nothing;
pub mod open;
pub mod replay;
