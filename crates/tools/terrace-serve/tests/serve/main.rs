//! The server as clients see it.

mod client;
mod differential;
mod documents;
mod dumps;
mod exact;
mod expired;
mod functions;
mod histories;
mod imported;
mod killed;
mod leases;
mod limits;
mod oracle;
mod random_commands;
mod removals;
mod scripts;
#[path = "../scenarios/slow_syncs.rs"]
mod slow_syncs;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod whole;
