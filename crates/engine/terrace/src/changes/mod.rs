//! The changes of a database, commit by commit, for who keeps something beside it: a search index, a cache,
//! a second database.

mod commit;
mod feed;
mod line;
mod options;
mod place;
mod structures;

pub use commit::{Change, ChangedStructure, Commit};
pub use feed::Changes;
#[cfg(feature = "control")]
pub(crate) use feed::read;
#[cfg(feature = "control")]
pub(crate) use line::WrittenCommit;
pub use line::{ChangeLine, CommitLine};
pub use options::ChangesOptions;
pub use place::Place;
