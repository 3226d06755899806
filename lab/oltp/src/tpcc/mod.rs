//! TPC-C: 45/43/4/4/4, remote payments 15 %, remote items 1 %.

mod check;
mod load;
mod mix;
mod schema;

pub use check::check;
pub use load::load;
pub use mix::{Client, KINDS};
pub use schema::*;
