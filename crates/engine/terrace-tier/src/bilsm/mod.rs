//! The policy of the paper for LSM-trees (X. Zhou and others, "Tiered-Indexing"), for comparison with
//! the default: a memtable of fixed size above, into which records that were read are put like those that
//! users write.
//!
//! What is not the paper's: the memtable is written down leaf by leaf, and not frozen as a whole, so "at most
//! half of it stays" holds for each leaf; promotions are not logged; levels are merged in steps.

mod control;
mod policy;
mod rates;
mod working_set;

pub use control::{Control, Decision, Law};
pub use policy::{BiLsm, BiLsmOptions, Clock};
pub use rates::Rates;
pub use working_set::WorkingSet;
