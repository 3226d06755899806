//! Clients and threads.

pub mod event_loop;
pub mod peer;
pub mod pool;
pub mod server;
