//! A structure with two tiers: reads, writes, promotion, demotion.
//!
//! Rule 1: every live key is in at least one tier at every instant, and where it is in both, the hot
//! one (a tombstone too) is right. Rule 2: only the holder of a record's lock changes or moves it.
//! Rule 10: a blind put touches no cold page.

mod entry;
mod expired;
mod faults;
mod flush;
mod hand;
mod leaves;
mod levels;
mod loading;
mod long_down;
mod look;
mod migrate;
mod phase;
mod promote;
mod purge;
mod put;
mod room;
mod save;
mod scan;
mod sorted;
mod state;
mod stored;
mod sweep;
mod tiers;
mod verify;
mod warm;
mod write_through;

pub use state::Tiered;
pub use tiers::{OnHotRoot, TierOptions};
