//! Looking a record up without waiting, and having the page that is missing brought in meanwhile: for futures and for
//! event loops.
//!
//! Invariant: who goes on so counts for hot tiers, and for the share of the memory that they have, as one who waits on
//! a thread does.

use terrace_base::Result;
use terrace_tier::Missing;

use crate::handle::map::Map;
use crate::kinds::spec::Tiers;
use crate::state::reader::Waiter;

/// Pages that are brought in for one look at most, until it is made by a thread that waits: a path from the root has
/// four pages as a rule, so it may be lost once, where pages push each other out.
const MOST_MISSES: u32 = 8;

/// An event loop that looks again.
struct Then<F>(F);

impl<F: FnOnce() + Send> Waiter for Then<F> {
    fn tell(self: Box<Self>, _: Result<()>) {
        // Who looks again is told what stands in the way.
        (self.0)();
    }
}

/// What a look came to that waits for nothing.
#[cfg_attr(not(feature = "tokio"), allow(dead_code))] // Event loops look again in any case.
pub(crate) enum InMemory {
    /// Whether there is a value.
    Found(bool),
    /// A page is missing, and is being brought in: the waiter is told.
    Asked,
    /// It is for a thread that waits, and the waiter is gone.
    No,
}

impl Map {
    /// Replaces `value` by the value of a key, as [`Map::get_if_resident`]. If a page is missing it is brought in for
    /// the waiter, which is told when it is worth to look again. `missed` pages were brought in for this call before.
    ///
    /// # Errors
    /// As [`Map::get`].
    pub(crate) fn look_or_ask(
        &self,
        key: &[u8],
        value: &mut Vec<u8>,
        missed: u32,
        waiter: impl FnOnce() -> Box<dyn Waiter>,
    ) -> Result<InMemory> {
        let core = self.core();
        let (mut asked, mut refused) = (false, None);
        let found = self.look_up_in_memory(key, value, missed, |lacks| {
            // More than one page is for a thread.
            let Missing::Page(page) = lacks else {
                return;
            };
            if missed >= MOST_MISSES {
                return;
            }
            match core.reader().ask(page, waiter()) {
                Ok(()) => asked = true,
                Err(waiter) => refused = Some(waiter),
            }
            if asked {
                match self.open.spec.tiers {
                    Tiers::Two => core.tiers().note_missed(page),
                    Tiers::One => core.tiers().note_missed_page(page),
                }
            }
        })?;
        // What others have given does not run, not even by being dropped, while an operation is held.
        drop(refused);
        Ok(match found {
            Some(found) => InMemory::Found(found),
            None if asked => InMemory::Asked,
            None => InMemory::No,
        })
    }

    /// For event loops: has the page brought in that [`Map::get_if_resident`] misses for a key, and calls `then` when it
    /// is worth to look again: at once if nothing is missing, or else from a thread of the database, which reads for
    /// many at the same time and must not be kept waiting. The page may have left memory again, or may not be readable,
    /// so who looks often in vain goes by [`Map::get`]. False, and `then` is dropped, where only that way is open:
    /// pages of a long value are missing, too many wait, or the database has no threads in the background. `then` must
    /// not close the database.
    ///
    /// ```
    /// # let dir = tempfile::tempdir().unwrap();
    /// # let db = terrace::Database::open(dir.path(), terrace::Options::new().memory(16 << 20))?;
    /// let users = db.hash("users")?;
    /// users.put("ada", "1815")?;
    /// let (look, looks) = std::sync::mpsc::channel();
    /// assert!(users.when_resident("ada", move || look.send("ada").unwrap())?);
    /// assert_eq!(looks.recv(), Ok("ada"));
    /// # Ok::<(), terrace::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Map::get`]; `then` is dropped.
    pub fn when_resident(
        &self,
        key: impl AsRef<[u8]>,
        then: impl FnOnce() + Send + 'static,
    ) -> Result<bool> {
        let mut then = Some(then);
        let waiter = || -> Box<dyn Waiter> {
            match then.take() {
                Some(then) => Box::new(Then(then)),
                None => Box::new(Then(|| ())),
            }
        };
        match self.look_or_ask(key.as_ref(), &mut Vec::new(), 0, waiter)? {
            InMemory::Asked => Ok(true),
            InMemory::No => Ok(false),
            InMemory::Found(_) => {
                if let Some(then) = then {
                    then();
                }
                Ok(true)
            }
        }
    }
}
