//! The cut of a checkpoint, and what no checkpoint needs any more: kept as long as holds have it, then put aside for
//! others that take the files, then deleted.

use std::collections::VecDeque;

use terrace_base::Result;
use terrace_base::sync::MutexGuard;

use crate::fault::Fault;
use crate::holds::Hold;
use crate::log::Log;
use crate::lsn::Position;
use crate::state::State;

impl State {
    /// The segment from which on all are kept, when a checkpoint needs none before `from`. Holds that would
    /// keep too much are broken.
    fn kept_from(&mut self, from: u64) -> u64 {
        self.holds.cut = self.holds.cut.max(from);
        let older = &self.older;
        let bytes = |hold: &Hold| -> u64 {
            let kept = older
                .range(hold.segment..)
                .take_while(|&(&n, _)| u64::from(n) < from);
            kept.map(|(_, older)| older.bytes).sum()
        };
        self.holds.held.retain(|hold| bytes(hold) <= hold.most);
        self.first_kept(from)
    }

    /// The same without breaking any.
    pub(crate) fn first_kept(&self, from: u64) -> u64 {
        let held = self.holds.held.iter();
        held.map(|hold| u64::from(hold.segment))
            .fold(self.first_retained(from), u64::min)
    }

    /// The first of the newest segments before `from` that stay for who reads them later.
    fn first_retained(&self, from: u64) -> u64 {
        let mut left = self.holds.retained;
        let before = self.older.iter().rev();
        let before = before.skip_while(|&(&n, _)| u64::from(n) >= from);
        let retained = before.take_while(|(_, older)| {
            let fits = older.bytes <= left;
            left = left.saturating_sub(older.bytes);
            fits
        });
        retained.last().map_or(from, |(&n, _)| u64::from(n))
    }

    /// Lets go of all holds, because the space is needed; whether there is something to delete now. Nothing
    /// stays for later readers either, until the next opening.
    pub(crate) fn break_holds(&mut self) -> bool {
        if self.holds.held.is_empty() && self.holds.retained == 0 {
            return false;
        }
        self.holds.held.clear();
        self.holds.retained = 0;
        let cut = self.holds.cut;
        let outdated = self.older.keys().copied();
        let outdated = outdated.take_while(|&n| u64::from(n) < cut);
        let outdated: VecDeque<u32> = outdated
            .filter(|&n| self.being_deleted != Some(n))
            .collect();
        self.dirty.retain(|s| u64::from(s.number) >= cut);
        self.asked.delete = outdated;
        self.asked.hurry = true;
        !self.asked.delete.is_empty()
    }
}

impl Log {
    /// The cut: every record appended so far lies before it, every later one behind it. To be
    /// called with no operation in flight. Does no input or output.
    pub fn position(&self) -> Position {
        let mut state = self.state.lock();
        self.close_lane(&mut state);
        state.cut(&self.options)
    }

    /// The superblock of checkpoint `generation`, whose cut is `from`, is durable. Notes that
    /// durably, so that no older superblock can be opened with this log any more, and deletes the
    /// segments before the cut; that is left to the thread in [`Log::run_background`] if there is one.
    ///
    /// To be called before anything is reused that only older checkpoints need. Needs no space.
    pub fn checkpointed(&self, from: Position, generation: u64) -> Result<()> {
        let current = {
            let mut state = self.state.lock();
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            state.generation = state.generation.max(generation);
            state.checkpointed(&self.options);
            // What lies before the cut is not needed any more, durable or not, unless a reader reads it.
            let kept = state.kept_from(from.segment);
            state.dirty.retain(|s| u64::from(s.number) >= kept);
            state.current.clone()
        };
        if !self.options.planted(Fault::NoGenerationNote) {
            let noted = current.write_note(generation);
            noted.map_err(|e| self.fail(e))?;
            self.sync_segment(&current)?;
        }
        let outdated = self.put_aside(from.segment);
        if outdated.is_empty() {
            return Ok(());
        }
        for number in outdated {
            // The checkpoint is durable all the same; what cannot be deleted only takes space, and the
            // next one tries again.
            let _: Result<()> = self.delete_segment(number);
        }
        self.sync_directory()
    }

    /// Keeps the segments before `from`, but for those that are held, for others that take their files;
    /// what is not used soon, that thread deletes. If there is none, who calls has to delete them: the list.
    fn put_aside(&self, from: u64) -> Vec<u32> {
        let mut state = self.state.lock();
        let from = state.kept_from(from);
        let older = state.older.keys().copied();
        let outdated = older.take_while(|&n| u64::from(n) < from);
        let outdated: Vec<u32> = outdated
            .filter(|&n| state.being_deleted != Some(n))
            .collect();
        if !state.has_background && !self.options.hoards() {
            return outdated;
        }
        state.asked.used |= !outdated.is_empty();
        state.asked.delete = VecDeque::from(outdated);
        self.background.notify_one();
        Vec::new()
    }

    /// Deletes the next of the segments that wait for it. The error is that of deleting it, after which
    /// the next checkpoint tries again, or that of syncing the directory after the last one.
    pub(crate) fn delete_next<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
    ) -> (MutexGuard<'a, State>, Result<()>) {
        let Some(number) = state.asked.delete.pop_front() else {
            return (state, Ok(()));
        };
        state.deleting += 1;
        state.being_deleted = Some(number);
        let last = state.asked.delete.is_empty();
        drop(state);
        let deleted = self.delete_segment(number);
        let synced = if last { self.sync_directory() } else { Ok(()) };
        let mut state = self.state.lock();
        state.deleting -= 1;
        state.being_deleted = None;
        if last {
            // There is more space now.
            state.asked.hurry = false;
            state.refused = false;
        }
        self.prepared.notify_all();
        (state, synced.and(deleted))
    }

    /// Deletes at once what lies before the last cut and waits to be deleted.
    ///
    /// # Errors
    /// Those of a poisoned log; a directory that cannot be synced poisons it. The first of those of
    /// deleting, when all was tried.
    pub fn delete_outdated(&self) -> Result<()> {
        let mut state = self.state.lock();
        let mut all = Ok(());
        while state.has_outdated() {
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            if state.asked.delete.is_empty() {
                self.prepared.wait(&mut state);
                continue;
            }
            let deleted;
            (state, deleted) = self.delete_next(state);
            all = all.and(deleted);
        }
        match state.poison_error() {
            Some(error) => Err(error),
            None => all,
        }
    }
}
