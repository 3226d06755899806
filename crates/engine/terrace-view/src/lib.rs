//! A database watched live: where its records live, what moves, where its memory goes.
//!
//! A [`Watched`] is a database of this process, or one that another process has open with
//! [`terrace::Options::control`]. A [`Watch`] makes a [`Frame`] of it as often as one likes: figures,
//! and rates since the frame before. [`top::lines`] draws a frame for a terminal, and [`http::serve`] has it as a
//! page, as JSON and as metrics.
//!
//! ```
//! use std::time::Duration;
//! use terrace::{Database, Options};
//! use terrace_view::{Watch, Watched, top};
//! # let dir = tempfile::tempdir().unwrap();
//! let db = Database::open(dir.path(), Options::new().memory(16 << 20))?;
//! db.tree("users")?.put("alice", "Berlin")?;
//! let mut watch = Watch::new("my.db", Watched::Own(db), Duration::from_secs(10));
//! let frame = watch.frame()?;
//! let drawn = top::lines(&frame, &top::Look::plain(80, 24)).join("\n");
//! assert!(drawn.contains("users"), "{drawn}");
//! # Ok::<(), terrace::Error>(())
//! ```

#![forbid(unsafe_code)]

mod calls;
mod counted;
mod course;
mod frame;
pub mod http;
mod request;
pub mod top;
mod watched;

pub use calls::Called;
pub use course::Point;
pub use frame::{Checkpoint, Follower, Frame, Log, Part, Row, Shown, Watch};
pub use watched::Watched;
