//! A file that is much longer than its pages need is drawn in before it is closed: it may stay closed for long.

use std::time::{Duration, Instant};

use super::idle::is_long;
use crate::core::Core;
use crate::state::checkpoints::Speed;

/// The file may be longer than its pages by one part in this many of them: less is not worth that a caller waits.
const LONGER_PART: u64 = 4;
/// And is then to be as long as they are, and one part in this many of them.
const ROOM_PART: u64 = 16;
/// What is moved at most: less than a second's work of any device that one would keep a database on.
const MOST_BYTES: u64 = 64 << 20;
/// And once this much time has gone by nothing more is begun.
const LONGEST: Duration = Duration::from_millis(500);
/// Pages moved at once.
const AT_ONCE: u64 = 64;

impl Core {
    /// Moves pages from the end of a long file to its front, as far as there is time, so that the checkpoint after this
    /// one, which is the last, cuts it. No other thread is at work. What does not work is left to the next opening.
    pub fn draw_in(&self) {
        let began = Instant::now();
        // Where there are no threads all that happens is to depend on the calls alone.
        let is_late = || !self.options().foreground && began.elapsed() > LONGEST;
        // What the last checkpoint alone holds is free behind the next one.
        let is_long = || is_long(&self.store().space_seen(), LONGER_PART);
        if !is_long() || self.checkpoint(Speed::Fast, false).is_err() || !is_long() || is_late() {
            return;
        }
        // Nobody writes any more, and all is saved.
        self.store().all_is_saved();
        self.store().cut_tightly();
        let live = self.store().live_pages();
        let most = MOST_BYTES / self.store().page_bytes() as u64;
        let (mut moved, mut from) = (0, Some(0));
        while let Some(next) = from.filter(|_| moved < most && !is_late()) {
            match self
                .store()
                .compact_some_below(next, AT_ONCE, live + live / ROOM_PART)
            {
                Ok((some, then)) => (moved, from) = (moved + some, then),
                Err(_) => return,
            }
        }
        // The last one is the second that names the shorter file.
        let _ = self.checkpoint(Speed::Fast, false);
    }
}
