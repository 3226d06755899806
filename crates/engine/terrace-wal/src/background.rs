//! A thread that does for the writers what would make them wait: making segments ahead of the tail,
//! telling the device to begin with what was written, deleting what lies before a checkpoint and was not
//! used again.
//!
//! Without one the writers do the first themselves, nobody does the second, and who makes the
//! checkpoint does the third.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::disk::DiskFile;
use terrace_base::sync::MutexGuard;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::shortest_ordinary;
use crate::segment::file_name;
use crate::state::{Asked, Older, State};

/// Pause after a segment of the usual 64 MiB was deleted, less after smaller ones. File systems may tell
/// the device of the space that became free (they are mounted so in many clouds), and devices have been
/// seen to do nothing else meanwhile, a tenth of a second for some segments at once.
const DELETE_PAUSE: Duration = Duration::from_millis(250);
const DELETE_PAUSE_BYTES: u64 = 64 << 20;
/// Segments that are not needed any more are kept so long for others that take their files, since the
/// last one was taken or came to them.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// More than so many are not put off, so that the log stays near its limit.
const MOST_PUT_OFF: usize = 16;
/// With less free space than so many segments none is put off: others may need it.
const FREE_SEGMENTS: u64 = 64;

/// Ends what the thread promised, however it ends.
struct Background<'l>(&'l Log);

impl Drop for Background<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.has_background = false;
        // What was to be deleted is among the older segments: the next checkpoint, or opening, does it.
        state.asked = Asked::default();
        state.being_deleted = None;
        if std::thread::panicking() {
            state.preparing = false;
            let error = Error::invalid("the thread in the background of the log has panicked");
            self.0.stop(&mut state, &error);
        }
        self.0.wake_all();
    }
}

impl Log {
    /// Serves the writers until [`Log::dismiss`] or [`Log::close`] is called or the log is poisoned.
    /// To be called by one thread, which does nothing else.
    pub fn run_background(&self) {
        let _running = Background(self);
        let mut not_before = Instant::now();
        let mut state = self.state.lock();
        while !state.dismissed && !state.closed && state.poisoned.is_none() {
            state.has_background = true;
            if std::mem::take(&mut state.asked.used) {
                drop(state);
                not_before = Instant::now() + self.kept_for();
                state = self.state.lock();
                continue;
            }
            let put_off = not_before.saturating_duration_since(Instant::now());
            let all_at_once = state.asked.hurry || state.asked.delete.len() > MOST_PUT_OFF;
            if state.asked.segment && !state.preparing {
                state = self.prepare_asked(state);
            } else if !state.asked.delete.is_empty() && (all_at_once || put_off.is_zero()) {
                // If it cannot be deleted it only takes space, and who waits for that is told. If the log
                // is poisoned, everyone is.
                (state, _) = self.delete_next(state);
                drop(state);
                not_before = Instant::now() + self.pause();
                state = self.state.lock();
            } else if let Some((segment, to)) = state.asked.hand_over.take() {
                drop(state);
                segment.hand_over(to);
                state = self.state.lock();
            } else if !state.asked.delete.is_empty() {
                self.background.wait_for(&mut state, put_off);
            } else {
                state.asked.segment = false;
                self.background.wait(&mut state);
            }
        }
    }

    fn prepare_asked<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        match self.prepare(state, shortest_ordinary(&self.options), 0) {
            Ok((mut state, made)) => {
                // If there is no space now, who needs the segment tries again and says so.
                state.refused = made.is_err();
                state.asked.hurry = made.is_err();
                state
            }
            // The log is poisoned.
            Err(_) => self.state.lock(),
        }
    }

    /// Deletes the next of the segments that wait for it. The error is that of deleting it, after which
    /// the next checkpoint tries again, or that of syncing the directory after the last one.
    fn delete_next<'a>(
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

    /// How long to wait after a segment was deleted.
    fn pause(&self) -> Duration {
        let bytes = self.options.segment_bytes.min(DELETE_PAUSE_BYTES);
        if self.has_free_space() {
            DELETE_PAUSE.mul_f64(bytes as f64 / DELETE_PAUSE_BYTES as f64)
        } else {
            Duration::ZERO
        }
    }

    /// How long to keep segments that may be used again.
    fn kept_for(&self) -> Duration {
        if self.has_free_space() {
            KEPT_FOR
        } else {
            Duration::ZERO
        }
    }

    fn has_free_space(&self) -> bool {
        let kept_free = FREE_SEGMENTS * self.options.segment_bytes;
        self.disk.free_bytes().is_ok_and(|free| free > kept_free)
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

    /// Lets the thread in [`Log::run_background`] go, for good.
    pub fn dismiss(&self) {
        self.state.lock().dismissed = true;
        self.background.notify_all();
    }

    /// Asks that thread for a segment if the caller `can_wait` for it; whether there is one to ask.
    pub(crate) fn ask_for_segment(&self, state: &mut State, can_wait: bool) -> bool {
        if !state.has_background || !can_wait || self.options.planted(Fault::NobodyAsked) {
            return false;
        }
        if !state.asked.segment {
            state.asked.segment = true;
            self.background.notify_one();
        }
        true
    }

    /// Asks it to hand over what was written up to `end`, if that has become much.
    pub(crate) fn ask_for_hand_over(&self, state: &mut State, end: Lsn) {
        let written_to = u64::from(end.offset());
        if state.has_background
            && state.asked.hand_over.is_none()
            && state.current.number == end.segment()
            && state.current.is_to_hand_over(written_to)
        {
            state.asked.hand_over = Some((state.current.clone(), written_to));
            self.background.notify_one();
        }
    }

    /// Keeps the segments before `from`, but for those that are held, for others that take their files;
    /// what is not used soon, that thread deletes. If there is none, who calls has to delete them: the list.
    pub(crate) fn put_aside(&self, from: u64) -> Vec<u32> {
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

    /// The file of the segment `old`, which nobody needs any more, as that of segment `number`, and its
    /// length; `None` if that cannot be had, or is shorter than `least` or longer than segments are. Then
    /// it is deleted, because somebody may need the space.
    pub(crate) fn reuse(
        &self,
        (old, known): (u32, Older),
        number: u32,
        least: u64,
    ) -> Option<(Arc<dyn DiskFile>, u64)> {
        let bytes = known.bytes.max(least).min(self.options.segment_bytes);
        let [from, to] = [old, number].map(|n| file_name(&self.options.prefix, n));
        let reused = self.disk.reuse_buffered(&from, &to, bytes);
        if reused.is_err() && self.delete_segment(old).is_err() {
            // It only takes space; the next checkpoint tries again.
            self.state.lock().older.insert(old, known);
        }
        reused.ok().map(|file| (file, bytes))
    }
}
