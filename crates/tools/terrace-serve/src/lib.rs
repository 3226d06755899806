//! Serves a database of Terrace to any client of Redis: `terrace serve`.
//!
//! Keys, hashes, sets, sorted sets, lists and transactions in Redis' protocol, on data larger than memory, with
//! every write in a log. docs/server.md says what is as in Redis and what is not.
//!
//! Layers, downwards: clients and threads (`net`), the order of commands and answers (`dispatch`), the commands
//! (`command`), keys and collections as records (`store`). Only the public interface of [`terrace`] is used.

#![forbid(unsafe_code)]

mod channels;
mod command;
mod counts;
mod dispatch;
mod figures;
mod glob;
mod host;
mod import;
#[cfg(feature = "lua")]
mod json;
mod kind;
#[cfg(feature = "lua")]
mod library;
mod line;
mod mailbox;
mod net;
mod options;
mod planted;
#[doc(hidden)]
pub mod proto;
mod random;
#[doc(hidden)]
pub mod rdb;
#[cfg(feature = "lua")]
mod script;
#[cfg(feature = "lua")]
mod scripts;
mod session;
mod signals;
mod socket;
mod stop;
mod store;
mod syncs;
mod text;

pub use command::table::{COMMANDS, Command, NOT_THERE};
pub use import::{Imported, import, import_file};
pub use net::server::{Clock, Server, wall_clock};
pub use options::{AppendFsync, ServeOptions, TlsOptions};
#[cfg(feature = "planted-faults")]
#[doc(hidden)]
pub use planted::{Fault, plant};
