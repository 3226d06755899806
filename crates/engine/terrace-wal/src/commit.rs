//! Group commit: one leader writes, or writes and syncs, for all that wait.

use std::sync::atomic::Ordering;

use terrace_base::sync::{MutexGuard, pause};
use terrace_base::{Durability, Result};

use crate::fault::Fault;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::record::{Appended, NO_PIECE};
use crate::state::State;

/// So often who commits a record looks whether those before it are done; then the lane is closed.
const MOST_ROUNDS: u32 = 256;

impl Log {
    /// Waits until the record, and with it every one before it, is as durable as asked.
    ///
    /// If a write or sync has failed the record may or may not be there after the next opening,
    /// and this returns [`terrace_base::Error::Poisoned`].
    pub fn commit(&self, appended: Appended, durability: Durability) -> Result<()> {
        match durability {
            Durability::Buffered if appended.piece == NO_PIECE => self.write_to(appended.end),
            Durability::Buffered => self.wait_for_pieces(appended.piece + 1, appended.end),
            Durability::Sync => self.sync_to(appended.end),
        }
    }

    /// Hands everything that was appended to the operating system.
    pub fn flush(&self) -> Result<()> {
        match self.lane.taken() {
            Some(taken) if taken.pieces == 0 => return Ok(()),
            Some(taken) if self.lane.are_done(taken.pieces as usize) => return Ok(()),
            _ => {}
        }
        let end = self.look().tail;
        self.write_to(end)
    }

    /// Makes everything that was appended durable.
    pub fn sync(&self) -> Result<()> {
        let end = self.look().tail;
        self.sync_to(end)
    }

    /// Makes everything durable and takes no further records.
    pub fn close(&self) -> Result<()> {
        let end = {
            let mut state = self.state.lock();
            state.closed = true;
            self.background.notify_all();
            self.synced.notify_all();
            self.close_lane(&mut state);
            state.tail
        };
        self.sync_to(end)
    }

    pub(crate) fn write_to(&self, end: Lsn) -> Result<()> {
        // Another thread's write may have taken it along already.
        if self.written_to.load(Ordering::Acquire) >= end.raw() {
            return Ok(());
        }
        let mut state = self.state.lock();
        loop {
            if state.marks.written_to() >= end {
                return Ok(());
            }
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            if state.lane.is_some() {
                // What was taken of it is written when it is shut, unless that fails.
                self.close_lane(&mut state);
            } else if state.writing {
                self.written.wait(&mut state);
            } else {
                state = self.write_out(state, false);
            }
        }
    }

    /// Writes what is staged, as the leader: no other thread may be writing. On failure the log is
    /// poisoned.
    pub(crate) fn write_out<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        before_sync: bool,
    ) -> MutexGuard<'a, State> {
        debug_assert!(!state.writing);
        self.close_lane(&mut state);
        if state.poisoned.is_some() {
            return state;
        }
        let stamp = if self.options.planted(Fault::StampWritten) {
            state.marks.written_to()
        } else {
            state.marks.stamp()
        };
        if !state.is_to_be_written(before_sync) {
            return state;
        }
        let end = state.tail;
        // Where it lies, so that no other core has to bring the other half along.
        if state.staging.write_now(&self.options, stamp) {
            // No thread has had to wait for it.
            state.staging.clear();
            state.stats.writes += 1;
            state.marks.wrote(end);
            self.publish_written(end);
            if state.buffer_waiters > 0 {
                self.written.notify_all();
            }
            if !before_sync {
                self.open_lane(&mut state);
            }
            return state;
        }
        let Some(mut batch) = state.take() else {
            return state;
        };
        state.writing = true;
        drop(state);
        let leading = self.lead(|state| state.writing = false);
        let result = batch.write(&self.options, stamp);
        leading.done();
        batch.clear();
        let mut state = self.state.lock();
        state.other = Some(batch);
        state.writing = false;
        match result {
            Ok(writes) => {
                state.stats.writes += writes;
                state.marks.wrote(end);
                self.publish_written(end);
            }
            Err(e) => {
                self.stop(&mut state, &e);
            }
        }
        self.ask_for_hand_over(&mut state, end);
        self.written.notify_all();
        state
    }

    pub(crate) fn sync_to(&self, end: Lsn) -> Result<()> {
        let mut state = self.state.lock();
        state.sync_waiters += 1;
        let result = loop {
            if state.marks.synced_to() >= end {
                break Ok(());
            }
            if let Some(error) = state.poison_error() {
                break Err(error);
            }
            if state.syncing {
                self.synced.wait(&mut state);
                continue;
            }
            state.syncing = true;
            let leading = self.lead(|state| {
                state.syncing = false;
                state.sync_waiters -= 1;
            });
            state = self.lead_sync(state);
            leading.done();
            state.syncing = false;
            self.synced.notify_all();
        };
        state.sync_waiters -= 1;
        result
    }

    /// Writes and syncs everything that is staged, for all that wait.
    fn lead_sync<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        while state.writing {
            self.written.wait(&mut state);
        }
        if state.poisoned.is_some() {
            return state;
        }
        state = self.write_out(state, true);
        if state.poisoned.is_some() {
            return state;
        }
        let target = state.marks.written_to();
        let mut segments: Vec<_> = state
            .dirty
            .iter()
            .filter(|s| s.number <= target.segment())
            .cloned()
            .collect();
        if self.options.planted(Fault::NewestSegmentOnly) {
            segments.drain(..segments.len().saturating_sub(1));
        }
        if self.options.planted(Fault::AcknowledgeUnsynced) {
            segments.clear();
        }
        let group = state.sync_waiters;
        drop(state);
        // In order: a segment is durable before its successor.
        let result = segments
            .iter()
            .try_for_each(|segment| self.sync_segment(segment));
        let mut state = self.state.lock();
        // If it failed the log is poisoned.
        if result.is_ok() {
            state.marks.synced(target);
            let synced = state.marks.synced_to().raw();
            self.synced_to.store(synced, Ordering::Release);
            state.dirty.retain(|s| s.number >= target.segment());
            state.stats.syncs += 1;
            state.stats.sync_commits += group;
            state.stats.largest_group = state.stats.largest_group.max(group);
        }
        state
    }

    /// Waits until the first `pieces` pieces of the lane are done, the last of which ends at `end`.
    fn wait_for_pieces(&self, pieces: u16, end: Lsn) -> Result<()> {
        if self.options.planted(Fault::DoneAlone) {
            return Ok(());
        }
        for round in 0..MOST_ROUNDS {
            // Whenever it was closed, all of it was written first; if it is open again, this speaks of other pieces,
            // and is as right.
            let is_written = || self.written_to.load(Ordering::Acquire) >= end.raw();
            if self.lane.are_done(usize::from(pieces)) || is_written() {
                return Ok(());
            }
            pause(round);
        }
        self.write_to(end)
    }
}
