//! A thread that does for the writers what would make them wait: making segments ahead of the tail,
//! telling the device to begin with what was written, deleting what lies before a checkpoint and was not
//! used again.
//!
//! Without one the writers do the first themselves, no thread does the second, and who makes the
//! checkpoint does the third.

use std::time::{Duration, Instant};

use terrace_base::Error;
use terrace_base::sync::MutexGuard;

use crate::log::Log;
use crate::options::shortest_ordinary;
use crate::state::{Asked, State};

/// Pause after a segment of the usual 64 MiB was deleted, less after smaller ones. File systems may tell
/// the device of the space that became free (they are mounted so in many clouds), and devices have been
/// seen to do nothing else meanwhile, a tenth of a second for some segments at once.
const DELETE_PAUSE: Duration = Duration::from_millis(250);
const DELETE_PAUSE_BYTES: u64 = 64 << 20;
/// Segments that are not needed any more are kept so long for others that take their files, since the
/// last one was taken or came to them.
const KEPT_FOR: Duration = Duration::from_secs(30);
/// More than this many are not put off, so that the log stays near its limit.
const MOST_PUT_OFF: usize = 16;
/// With less free space than this many segments none is put off: others may need it.
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
                // is poisoned, every caller is.
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

    /// Lets the thread in [`Log::run_background`] go, for good.
    pub fn dismiss(&self) {
        self.state.lock().dismissed = true;
        self.background.notify_all();
    }
}
