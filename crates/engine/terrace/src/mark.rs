//! Marks: places in the log that a restore can go back to.
//!
//! Invariant: a mark has the time that the clock showed at its place in the log. If the clock goes back, so do the
//! times of marks: who keeps them says where.

use std::time::SystemTime;

use terrace_base::Result;
use terrace_wal::{Appended, Durability};

use crate::api::database::Database;
use crate::core::Core;
use crate::effects::encode_mark;
use crate::kinds::spec::check_named;
use crate::millis::{millis, time_of};
use crate::planted::now;

/// A place in the log; see [`Database::mark`].
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[non_exhaustive]
pub struct Mark {
    /// Its name.
    pub name: String,
    /// When it was made.
    pub time: SystemTime,
    /// Its number in the order of changes: those before it have smaller ones.
    pub sequence: u64,
}

impl Mark {
    #[cfg(feature = "backup")]
    pub(crate) fn new(name: String, time_ms: u64, sequence: u64) -> Mark {
        Mark {
            name,
            time: time_of(time_ms),
            sequence,
        }
    }
}

impl Core {
    /// Appends a mark, which is not durable yet. The caller holds nothing.
    pub fn append_mark(&self, name: &str) -> Result<(u64, Appended)> {
        self.store.check_writable()?;
        let _pass = self.passes.enter()?;
        // More than the longest number takes.
        let reservation = self.log.reserve(name.len() + 32);
        let mut reservation = reservation.map_err(|e| self.failed(e))?;
        let mut time_ms = 0;
        // The clock is read when it has its place: what was begun later lies behind it.
        let appended = self.log.append_made(&mut reservation, || {
            time_ms = millis(now());
            let mut payload = Vec::with_capacity(name.len() + 32);
            encode_mark(time_ms, name, &mut payload);
            payload
        });
        Ok((time_ms, appended))
    }

    /// See [`Database::mark`].
    pub fn mark(&self, name: &str) -> Result<Mark> {
        check_named(name, "mark")?;
        let (time_ms, appended) = self.append_mark(name)?;
        self.commit(appended, Durability::Sync)?;
        Ok(Mark {
            name: name.to_owned(),
            time: time_of(time_ms),
            sequence: appended.sequence,
        })
    }
}

impl Database {
    /// Marks this place in the order of changes, durably, so that a restore can go back to it: before a
    /// migration, say. Every change of structures with log that returned before the call lies before the
    /// mark. A backup set has the mark once the log up to it was archived, which [`Database::follow`] does.
    /// Where several have one name, a restore takes the newest.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let mark = db.mark("before-migration")?;
    /// assert_eq!(mark.name, "before-migration");
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// A name that is empty, longer than 255 bytes, or has control characters; those of a write.
    pub fn mark(&self, name: &str) -> Result<Mark> {
        self.handle.core.mark(name)
    }
}
