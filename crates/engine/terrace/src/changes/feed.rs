//! Reading the changes: over the log, as who follows it to a backup set does.
//!
//! Invariants: each commit is given out once, in the order of the log, and only when no power cut can take it
//! back; who writes never waits for who reads: past [`crate::Options::archive_lag`], or when the disk is full,
//! the log is put aside, and the reader is told so.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::{Error, Result};
use terrace_wal::{Follower, HoldId};

use super::commit::Commit;
use super::options::ChangesOptions;
use super::place::Place;
use super::structures::Structures;
use crate::core::Core;
use crate::gentle::Cancel;
use crate::handle::database::Database;
use crate::planted::{Fault, planted};

/// Bytes of records that are read ahead: some thousand small commits, or one of any size.
const AHEAD_BYTES: u64 = 1 << 20;
/// So soon a cancel is heard.
const SLICE: Duration = Duration::from_millis(50);

/// The commits of a database, one after the other; see [`Database::changes`]. It keeps the database open,
/// and the part of the log that it has not given out yet.
pub struct Changes {
    core: Arc<Core>,
    /// Keeps it open.
    _db: Option<Database>,
    hold: HoldId,
    reader: Follower,
    structures: Structures,
    ready: VecDeque<Commit>,
    /// Behind what was given out.
    place: Place,
    options: ChangesOptions,
    /// Commits before this one are not given out. They say what structures there are.
    behind: u64,
    /// The first commit that is not given out any more, if there is an end.
    until: Option<u64>,
    synced: Instant,
    ended: bool,
}

impl Changes {
    /// See [`Database::changes`].
    pub(crate) fn kept_open(db: &Database, options: ChangesOptions) -> Result<Changes> {
        let mut changes = read(db.core(), options)?;
        changes._db = Some(db.clone());
        Ok(changes)
    }

    /// Reads what is durable by now, as much as is read at once.
    fn refill(&mut self) -> Result<()> {
        let core = self.core.clone();
        let _pass = core.passes().enter()?;
        let before = self.reader.place();
        let gone_for = |cause: &str, next| Error::ChangesGone {
            from: next,
            cause: cause.into(),
        };
        let gone = |next| {
            let cause = "more of it was to be kept than may be, or its space was needed";
            gone_for(cause, next)
        };
        if !core.log().is_held(self.hold) {
            return Err(gone(self.reader.next().max(self.behind)));
        }
        // All before it was given out.
        core.log().move_hold(self.hold, &before);
        let (ready, structures) = (&mut self.ready, &mut self.structures);
        let (behind, until) = (self.behind, self.until);
        let mut take = |sequence: u64, record: &[u8]| {
            if until.is_some_and(|until| sequence >= until) {
                return Ok(());
            }
            let changes = structures.changes_of(record)?;
            if sequence >= behind && !changes.is_empty() {
                let next = sequence.saturating_add(1);
                ready.push_back(Commit {
                    sequence,
                    place: Place { log: before, next },
                    record: record.to_vec(),
                    changes,
                });
            }
            Ok(())
        };
        let read = core
            .log()
            .follow_some(&mut self.reader, AHEAD_BYTES, &mut take);
        if self.ready.is_empty() {
            // Nothing that a reader sees.
            let next = self.reader.next();
            self.place = Place {
                log: before,
                next: until
                    .map_or(next, |until| until.min(next))
                    .max(self.place.next),
            };
        }
        match read {
            // It was deleted under the reader.
            Err(_) if !core.log().is_held(self.hold) => {
                self.ready.clear();
                Err(gone(before.sequence))
            }
            Err(e) => {
                self.ready.clear();
                if e.is_unreadable() && core.log().is_before_opening(&self.reader) {
                    let cause = "a crash took a part of it that was only kept for who reads it";
                    return Err(gone_for(cause, self.reader.next().max(self.behind)));
                }
                Err(core.failed(e))
            }
            Ok(()) => Ok(()),
        }
    }

    /// Whether the end that was asked for is read.
    fn is_through(&self) -> bool {
        self.until.is_some_and(|until| self.reader.next() >= until)
    }

    /// Gives out nothing up to this commit. What it says of structures, which were made, renamed or dropped meanwhile,
    /// is read all the same.
    pub(crate) fn begin_behind(&mut self, sequence: u64) {
        self.place.next = sequence.saturating_add(1).max(self.place.next);
        self.behind = self.place.next;
        self.until = self.until.map(|_| self.core.log().next_sequence());
    }

    fn is_cancelled(&self) -> bool {
        let cancel = &self.options.cancel;
        cancel.as_ref().is_some_and(Cancel::is_cancelled)
    }

    /// Nothing durable is left: has it made durable, or waits. Whether it goes on.
    fn wait(&mut self) -> Result<bool> {
        let core = self.core.clone();
        let next = core.log().next_sequence();
        if self.is_through() || self.is_cancelled() {
            return Ok(false);
        }
        let is_late = |every: Duration| self.synced.elapsed() >= every;
        let due = match self.options.waits {
            true => self.options.sync_every.is_some_and(is_late),
            false => true,
        };
        if next > self.reader.next() && due {
            let _pass = core.passes().enter()?;
            core.heard(core.log().sync())?;
            self.synced = Instant::now();
        } else {
            core.log().wait_for_more(&self.reader, SLICE);
        }
        Ok(true)
    }

    /// The next commit if there is one before the deadline.
    fn advance(&mut self, deadline: Option<Instant>) -> Result<Option<Commit>> {
        loop {
            if let Some(commit) = self.ready.pop_front() {
                self.place = commit.place();
                return Ok(Some(commit));
            }
            // Others may go on for ever behind the end, or with what no reader sees.
            if self.is_through() {
                self.ended = true;
                return Ok(None);
            }
            let before = self.reader.next();
            self.refill()?;
            if !self.ready.is_empty() {
                continue;
            }
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return Ok(None);
            }
            if self.reader.next() != before && !self.is_cancelled() {
                continue;
            }
            if !self.wait()? {
                self.ended = true;
                return Ok(None);
            }
        }
    }

    /// The next commit, if one comes within this time, about; else `None`, also once there are no more
    /// ([`Changes::is_at_end`]).
    ///
    /// # Errors
    /// As the iterator's; after one there is no more.
    pub fn next_within(&mut self, most: Duration) -> Result<Option<Commit>> {
        if self.ended {
            return Ok(None);
        }
        let next = self.advance(Some(Instant::now() + most));
        self.ended |= next.is_err();
        next
    }

    /// The place behind what was given out so far.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Whether there are no more: the end that was asked for has come, or an error.
    pub fn is_at_end(&self) -> bool {
        self.ended
    }
}

impl Iterator for Changes {
    type Item = Result<Commit>;

    /// The next commit; waits for it, unless there is an end. After an error there is no more.
    fn next(&mut self) -> Option<Result<Commit>> {
        if self.ended {
            return None;
        }
        let next = self.advance(None).transpose();
        self.ended = !matches!(next, Some(Ok(_)));
        next
    }
}

impl std::iter::FusedIterator for Changes {}

impl Drop for Changes {
    fn drop(&mut self) {
        // A child process that was forked has no share in it.
        if self.core.passes().is_mine() {
            self.core.log().let_go(self.hold);
        }
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes")
            .field("next", &self.reader.next())
            .finish_non_exhaustive()
    }
}

/// The commits of an open database, which this does not keep open; see [`Database::changes`].
pub(crate) fn read(core: &Arc<Core>, options: ChangesOptions) -> Result<Changes> {
    core.store().check_writable()?;
    // Who makes a structure has that in the log before it is found in the registry: none may be in neither.
    let naming = core.definitions().hold_names();
    let pass = core.passes().enter()?;
    let most = core.options().effective_archive_lag();
    let (hold, place) = match options.from {
        None => {
            let (hold, log) = core.log().hold(most);
            let next = log.sequence;
            (hold, Place { log, next })
        }
        Some(place) => {
            let hold = core.heard(core.log().hold_from(place.log, most))?;
            let hold = hold.ok_or_else(|| Error::ChangesGone {
                from: place.next,
                cause:
                    "that part of it was given up behind a checkpoint, or is of another database"
                        .into(),
            })?;
            (hold, place)
        }
    };
    let until = (!options.waits).then(|| core.log().next_sequence());
    let changes = Changes {
        core: core.clone(),
        _db: None,
        hold,
        reader: Follower::new(place.log, place.next),
        structures: Structures::of(core.registry()),
        ready: VecDeque::new(),
        place,
        options,
        behind: place.next,
        until,
        synced: Instant::now(),
        ended: false,
    };
    drop((pass, naming));
    // Who begins here is given a place, which is to be one after a power cut, too.
    if changes.options.from.is_none() && !planted(Fault::PlaceBeforeSync) {
        let _pass = core.passes().enter()?;
        core.heard(core.log().sync())?;
    }
    Ok(changes)
}

#[cfg(test)]
mod tests {
    use terrace_sim::SimDisk;

    use super::*;
    use crate::{Change, Options};

    /// What is made between the beginning of the changes and the instant of the snapshot is in the snapshot, and what
    /// happens in it afterwards is in the changes.
    #[test]
    fn a_structure_that_is_made_before_the_snapshot_is_known_behind_it() {
        let options = Options::new().memory(4 << 20).page_size(4096);
        let options = options.foreground(true).seed(1);
        let db = Database::open_on(SimDisk::new(1).shared(), options).unwrap();
        let named = db.tree("named").unwrap();
        let mut changes = db.changes(ChangesOptions::new().until_now()).unwrap();
        let made = db.tree("made").unwrap();
        made.put("a", "1").unwrap();
        db.rename_structure("named", "renamed").unwrap();
        let snapshot = db.snapshot().unwrap();
        made.put("b", "2").unwrap();
        named.put("c", "3").unwrap();
        changes.begin_behind(snapshot.sequence());
        let seen: Vec<Commit> = changes.collect::<Result<_>>().unwrap();
        let seen = seen.iter().flat_map(Commit::changes);
        let seen: Vec<_> = seen
            .map(|change| match change {
                Change::Put { structure, key, .. } => (structure.name.clone().unwrap(), key),
                other => panic!("{other:?}"),
            })
            .collect();
        let expected = [("made", &b"b"[..]), ("renamed", &b"c"[..])];
        let expected = expected.map(|(name, key)| (name.to_owned(), key));
        assert_eq!(seen, expected);
    }
}
