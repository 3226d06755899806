//! Marks: places in the log that a restore can go back to.
//!
//! Invariant: a mark has the time that the clock showed at its place in the log. If the clock goes back, so do the
//! times of marks: who keeps them says where.

use std::time::SystemTime;

use terrace_base::Result;
use terrace_wal::{Appended, Durability};

use crate::core::Core;
use crate::effects::encode_mark;
use crate::kinds::spec::check_named;
use crate::millis::{millis, time_of};
use crate::planted::now;

/// A place in the log; see [`crate::Database::mark`].
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
        self.store().check_writable()?;
        let _pass = self.passes().enter()?;
        // More than the longest number takes.
        let mut reservation = self.heard(self.log().reserve(name.len() + 32))?;
        let mut time_ms = 0;
        // The clock is read when it has its place: what was begun later lies behind it.
        let appended = self.log().append_made(&mut reservation, || {
            time_ms = millis(now());
            let mut payload = Vec::with_capacity(name.len() + 32);
            encode_mark(time_ms, name, &mut payload);
            payload
        });
        Ok((time_ms, appended))
    }

    /// See [`crate::Database::mark`].
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
