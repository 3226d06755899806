//! The calls of a database: each asks a part below. Those of its structures stand in `structures/`.

#[cfg(feature = "backup")]
mod backup;
mod changes;
mod database;
mod open;
mod structures;
mod write;
