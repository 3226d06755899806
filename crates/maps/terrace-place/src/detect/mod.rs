//! Which memories a machine has, and which of them a map may use: pure over files of text.

mod candidates;
mod files;
mod machine;

pub use candidates::{Candidate, Found, candidates};
pub use files::{Files, Fixture, System};
pub use machine::{Machine, Node};

#[cfg(test)]
mod tests;
