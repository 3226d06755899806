//! The server as clients see it.

mod client;
mod differential;
mod oracle;
mod random_commands;
mod whole;
