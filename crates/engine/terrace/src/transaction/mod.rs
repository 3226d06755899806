//! Transactions: reads and writes over any structures of a database as if nothing else were under way.
//!
//! Optimistic. Nothing is held while user code runs: what is read is noted (`reads.rs`), what is written
//! is staged (`overlay.rs`, and a [`crate::Batch`]). A commit (`commit.rs`) looks whether all that was read is
//! still so at the instant at which the batch gets its place in the log; if not, the closure runs again
//! (`retry.rs`). So the order of the log is a serial order of all transactions, and every prefix of it,
//! which is what a crash leaves, is a state that was there.
//!
//! Source: Silo (Tu et al., SOSP 2013) for validation by versions; ranges are watched instead of
//! validated leaf by leaf, because leaves say nothing of a writer that is in the log and not yet in the leaf.

mod commit;
mod expiring;
mod index;
mod open;
mod options;
mod overlay;
mod pop;
mod print;
mod range;
mod reader;
mod reads;
mod retry;
mod time;

pub use index::{TransactionIndex, TransactionRows};
pub use open::{Savepoint, Transaction};
pub use options::{Committed, TransactionOptions};
pub use range::TransactionRange;
pub use reader::Reader;
pub use retry::{Attempted, Attempts};
