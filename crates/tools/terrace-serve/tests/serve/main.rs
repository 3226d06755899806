//! The server as clients see it.

mod client;
mod differential;
mod documents;
mod imported;
mod killed;
mod limits;
mod oracle;
mod random_commands;
mod scripts;
mod together;
mod whole;
