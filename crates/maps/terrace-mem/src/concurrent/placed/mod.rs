//! Two kinds of memory under the concurrent map: where its segments lie, the copies of hot entries that threads
//! share, and the engine that moves both.

mod chunk;
mod copies;
mod engine;
mod ledger;
mod map;
mod pass;
mod placing;
#[cfg(all(test, feature = "shuttle"))]
mod scenes;
mod set;
mod table;

pub(crate) use ledger::Seat;
pub(crate) use placing::Placing;
