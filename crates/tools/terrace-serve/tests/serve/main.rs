//! The server as clients see it.

mod client;
mod differential;
mod documents;
mod dumps;
mod functions;
mod histories;
mod imported;
mod killed;
mod leases;
mod limits;
mod oracle;
mod random_commands;
mod scripts;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod whole;
