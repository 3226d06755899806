//! Opening a database that must be there, for a command that writes or one that only reads.

use anyhow::Result;

use crate::args::Open;
use crate::engine::{Db, Error, Settings};

impl Db {
    /// Opens what must be there; `quiet` if a program reads what comes of it.
    pub fn open_existing(open: &Open, quiet: bool) -> Result<Self> {
        Db::open(
            &open.db,
            &Settings {
                memory: open.memory.0,
                log_limit: open.log_limit.map(|size| size.0),
                progress: !quiet,
                ..Settings::default()
            },
        )
    }

    /// Opens what must be there for a command that only reads: so that it works beside others that do, on
    /// a file system that takes no writes, and on the files of others. Where the log has to be replayed, or
    /// anything else is in the way, as [`Db::open_existing`].
    pub fn open_to_read(open: &Open, quiet: bool) -> Result<Self> {
        let options = terrace::Options::new().memory(open.memory.0);
        let first = match terrace::Database::open_read_only(&open.db, options) {
            Ok(inner) => return Ok(Db { inner, place: None }),
            Err(error) => error,
        };
        match Db::open_existing(open, quiet) {
            // Why it cannot be read is told, and not what the system says to who tries to write.
            Err(refused) if may_not_write(&refused) && !matches!(first, Error::Locked { .. }) => {
                Err(anyhow::Error::new(first)
                    .context(format!("cannot open the database {}", open.db.display())))
            }
            opened => opened,
        }
    }

    /// Opens what must be there to be backed up: also on a file system that takes no writes.
    pub fn open_to_back_up(open: &Open, quiet: bool) -> Result<Self> {
        match Db::open_existing(open, quiet) {
            Err(refused) if may_not_write(&refused) => Db::open_to_read(open, quiet),
            opened => opened,
        }
    }
}

/// Whether the system has refused to let files be written.
fn may_not_write(error: &anyhow::Error) -> bool {
    use std::io::ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    let kind = match error.downcast_ref() {
        Some(Error::Io { source, .. }) => source.kind(),
        _ => return false,
    };
    matches!(kind, PermissionDenied | ReadOnlyFilesystem)
}
