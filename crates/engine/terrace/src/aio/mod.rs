//! Terrace for programs that run on Tokio (feature `tokio`): nothing here makes a thread of the runtime wait for a
//! disk.
//!
//! A read that memory answers returns at once: so it is with nearly all where accesses are skewed. One that needs a page
//! from the disk waits without a thread, whatever the runtime: one thread of the database reads for all of them, up to
//! 64 pages at the same time. Where too many wait (4,096; with less than 320 MiB of memory fewer, down to 204), where
//! pages leave memory again before the future is polled, for a record that an opening has not brought back yet, and for
//! a database without threads in the background, it is a call as all others. Those, writes among them, run on the
//! runtime's threads for blocking work, [`MOST_THREADS`] calls at a time unless another number is said.
//!
//! ```
//! use terrace::{Options, aio};
//! # let dir = tempfile::tempdir().unwrap();
//! # let folder = dir.path().to_owned();
//! # let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
//! # runtime.block_on(async move {
//! let db = aio::Database::open(folder, Options::new().memory(16 << 20)).await?;
//! let users = db.tree("users").await?;
//! users.put("alice", "Berlin").await?;
//! assert_eq!(users.get("alice").await?.as_deref(), Some(&b"Berlin"[..]));
//! let mut all = users.iter();
//! while let Some(record) = all.next().await {
//!     let (key, value) = record?;
//!     println!("{} lives in {}", key.escape_ascii(), value.escape_ascii());
//! }
//! db.close().await?;
//! # Ok::<(), terrace::Error>(())
//! # }).unwrap();
//! ```
//!
//! **A future that is dropped**: before it has a thread, nothing has happened, but that a page may be read in vain.
//! After that the call goes on by itself
//! and is done wholly or not at all, as one whose answer is lost on its way. A stream keeps its place when the future
//! of its `next` is dropped: no record is left out, and none comes twice. Nothing is locked while a future waits. But poll
//! what you have begun: a call that was given its place and is not polled keeps it from others.
//!
//! Say [`Database::close`] at the end: who drops the last handle closes the database on that thread, and waits for
//! the disk there.

mod changes;
mod database;
mod map;
mod pool;
mod reads;
mod records;

pub use changes::Changes;
pub use database::Database;
pub use map::Map;
pub use pool::MOST_THREADS;
pub use records::Records;
