//! A thread that does for the writers what would make them wait: making segments ahead of the tail,
//! telling the device to begin with what was written, deleting what lies before a checkpoint.
//!
//! Without one the writers do the first themselves, nobody does the second, and who makes the
//! checkpoint does the third.

use std::time::{Duration, Instant};

use terrace_base::Result;

use crate::fault::Fault;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::state::State;

/// Pause between two segments that are deleted. File systems may tell the device of the space that
/// became free (they are mounted so in many clouds), and devices have been seen to do nothing else
/// meanwhile, a tenth of a second for some segments at once.
const DELETE_PAUSE: Duration = Duration::from_millis(250);
/// With less free space than so many segments they are deleted at once: others may need it.
const FREE_SEGMENTS: u64 = 64;

impl Log {
    /// Serves the writers until [`Log::dismiss`] or [`Log::close`] is called or the log is poisoned.
    /// To be called by one thread, which does nothing else.
    pub fn attend(&self) {
        let mut deleted = None;
        let mut state = self.state.lock();
        while !state.dismissed && !state.closed && state.poisoned.is_none() {
            state.attended = true;
            let pause = deleted.map_or(Duration::ZERO, |at: Instant| {
                DELETE_PAUSE.saturating_sub(at.elapsed())
            });
            if let Some((segment, to)) = state.asked.hand_over.take() {
                drop(state);
                segment.hand_over(to);
                state = self.state.lock();
            } else if state.asked.segment && !state.preparing {
                match self.prepare(state) {
                    // If there is no space now, who needs the segment tries again and says so.
                    Ok((now, made)) => {
                        state = now;
                        state.refused = made.is_err();
                    }
                    // The log is poisoned.
                    Err(_) => state = self.state.lock(),
                }
            } else if let Some(&number) = state.asked.delete.front() {
                if pause.is_zero() {
                    state.asked.delete.pop_front();
                    let last = state.asked.delete.is_empty();
                    drop(state);
                    deleted = self.delete_outdated(number, last).then(Instant::now);
                    state = self.state.lock();
                } else {
                    self.attendant.wait_for(&mut state, pause);
                }
            } else {
                state.asked.segment = false;
                self.attendant.wait(&mut state);
            }
        }
        state.attended = false;
        state.asked.delete.clear();
    }

    /// Deletes one segment; whether there is time until the next one.
    fn delete_outdated(&self, number: u32, last: bool) -> bool {
        // What cannot be deleted only takes space, until the next opening.
        let deleted = self.delete_segment(number);
        if last {
            // If it fails the log is poisoned, and everyone is told.
            let _: Result<()> = self.sync_directory();
        }
        let kept_free = FREE_SEGMENTS * self.options.segment_bytes;
        deleted.is_ok() && self.disk.free_bytes().is_ok_and(|free| free > kept_free)
    }

    /// Lets the thread in [`Log::attend`] go, for good.
    pub fn dismiss(&self) {
        self.state.lock().dismissed = true;
        self.attendant.notify_all();
    }

    /// Asks that thread for a segment if the caller `can_wait` for it; whether there is one to ask.
    pub(crate) fn ask_for_segment(&self, state: &mut State, can_wait: bool) -> bool {
        if !state.attended || !can_wait || self.options.planted(Fault::NobodyAsked) {
            return false;
        }
        if !state.asked.segment {
            state.asked.segment = true;
            self.attendant.notify_one();
        }
        true
    }

    /// Asks it to hand over what was written up to `end`, if that has become much.
    pub(crate) fn ask_for_hand_over(&self, state: &mut State, end: Lsn) {
        let written_to = u64::from(end.offset());
        if state.attended
            && state.asked.hand_over.is_none()
            && state.current.number == end.segment()
            && state.current.is_to_hand_over(written_to)
        {
            state.asked.hand_over = Some((state.current.clone(), written_to));
            self.attendant.notify_one();
        }
    }

    /// Asks it to delete these segments; whether there is one to ask.
    pub(crate) fn ask_to_delete(&self, outdated: &[u32]) -> bool {
        let mut state = self.state.lock();
        if state.attended {
            state.asked.delete = outdated.iter().copied().collect();
            self.attendant.notify_one();
        }
        state.attended
    }
}
