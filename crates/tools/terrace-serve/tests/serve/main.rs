//! The server as clients see it.

mod client;
mod differential;
mod documents;
mod dumps;
mod exact;
mod expired;
mod faults_are_caught;
mod functions;
mod histories;
mod imported;
mod killed;
mod leases;
mod limits;
mod misses;
mod oracle;
mod random_commands;
mod removals;
mod scenarios;
mod scripts;
mod slow_syncs;
#[cfg(feature = "tls")]
mod tls;
mod together;
mod whole;
