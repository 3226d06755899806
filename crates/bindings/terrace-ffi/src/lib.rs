//! What bindings of other languages to Terrace stand on: handles instead of pointers, failures with a kind that
//! has a number, and one encoding for what crosses the border in bulk.
//!
//! How to write a binding with it:
//! - **Handles** are `u64` and never 0. Hand them to the other language as they are. One that was closed, that
//!   never was one, or that is of something else, is the failure [`Kind::Closed`]; closing twice is nothing.
//!   [`database::close`] closes all that was opened through a database; [`snapshot::close`] what is of a
//!   snapshot. Handles may be used by any thread, also by several at once.
//! - **Failures** are a [`Failure`]: a [`Kind`] with a number and a word that stay, and a text for people.
//! - **Panics** do not cross: a panic is [`Kind::Defect`], and so is every later call of that database.
//! - **Forks**: in a child everything that the parent opened is [`Kind::Forked`].
//! - **Bytes in** are slices: copy them out of the other language's heap first, if it may move them. **Bytes
//!   out**: [`map::get_with`] lends the value to a closure in which nothing is held, so it may call the other
//!   language; [`map::get`] gives a `Vec`.
//! - **In bulk**: [`batch::write_encoded`], [`cursor::window`], [`changes::next`] and [`encoding`].
//! - **Callbacks** ([`transaction::run`], [`map::update`], progress): nothing is held while they run; they may
//!   use other handles, and answer a failure, which is passed on. [`Failure::aborted`] is for who keeps what
//!   was thrown elsewhere. They must not unwind.
//! - Calls may wait for a disk. Nothing of the other language may be pinned meanwhile.
//!
//! ```
//! use terrace_ffi::{Kind, batch, cursor, database, encoding, map};
//! # let dir = tempfile::tempdir().unwrap();
//! let options = terrace::Options::new().memory(16 << 20);
//! let db = database::open(dir.path(), options, false)?;
//! let users = database::structure(db, terrace::Kind::Tree, "users", terrace::MapOptions::new())?;
//! map::put(users, b"alice", b"1", None)?;
//!
//! let mut changes = encoding::BatchWriter::default();
//! changes.put(0, b"bob", b"2");
//! changes.delete(0, b"alice");
//! batch::write_encoded(db, &[users], &changes.finish(), None)?;
//! assert_eq!(map::get_with(users, b"bob", |value| value.len())?, Some(1));
//!
//! use std::ops::Bound::Unbounded;
//! let all = cursor::range(users, Unbounded, Unbounded, false)?;
//! let mut window = Vec::new();
//! assert_eq!(cursor::window(all, cursor::MOST_BYTES, &mut window)?, 1);
//! assert_eq!(encoding::record_at(&window, 4), Some((&b"bob"[..], &b"2"[..], window.len())));
//! database::close(db)?;
//! assert_eq!(map::get(users, b"bob").unwrap_err().kind, Kind::Closed);
//! # Ok::<(), terrace_ffi::Failure>(())
//! ```

#![forbid(unsafe_code)]

pub mod backup;
pub mod batch;
pub mod changes;
pub mod cursor;
pub mod database;
pub mod encoding;
mod enter;
pub mod expiring;
mod failure;
mod handles;
pub mod load;
pub mod map;
mod object;
mod planted;
mod shared;
pub mod snapshot;
pub mod transaction;
mod window;

pub use failure::{Failure, Kind, Result};
pub use terrace;

/// Faults that tests plant.
#[cfg(feature = "planted-faults")]
#[doc(hidden)]
pub mod fault {
    pub use crate::planted::{Fault, plant};
}
