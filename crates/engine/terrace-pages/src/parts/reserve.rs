//! Frames that are kept for what a checkpoint borrows.
//!
//! What is saved for a cut comes within seconds and takes up to a thirty-second of the memory. If hot pages
//! made room for it only then, they would leave page by page, and records that are in use would have to be
//! read again at once. So their cap falls before: little by little when a checkpoint is near, by as much as
//! the last one needed, and for some time after it, because where there was one there will soon be another.
//! Until they are borrowed the frames serve as a cache of cold pages.

use std::time::{Duration, Instant};

use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU64, Ordering};

/// How long after a checkpoint the frames are kept for the next one.
const LINGER: Duration = Duration::from_secs(60);
/// Of a step, what is done at once, no more often than in the time below: one part in this many of the frames,
/// so that a hundredth of them takes about a second.
pub(crate) const LITTLE_PART: u64 = 4096;
const STEP: Duration = Duration::from_millis(20);
/// What is known of earlier checkpoints loses one part in this many with each.
const FORGET_PART: u64 = 32;
/// Beyond what earlier ones needed, one part in this many: no two need the same, and records that go while a
/// checkpoint is being made have to be saved for it in their turn.
const MARGIN_PART: u64 = 8;

/// The frames that are kept for what the next checkpoint borrows.
#[derive(Default)]
pub(crate) struct CheckpointReserve {
    /// Frames that hot pages may not have, lent or not.
    frames: AtomicU64,
    /// Frames that are lent at least: while a checkpoint is being made, what earlier ones needed.
    lent_ahead: AtomicU64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// Most frames that were lent while a checkpoint was being made, of late.
    most: u64,
    /// When there was one last, or was said to come.
    last: Option<Instant>,
    /// How near the next one is: 0 not at all, at 1 as if it were there.
    near: f64,
    /// When it came closer to what is to be kept.
    stepped: Option<Instant>,
}

impl CheckpointReserve {
    /// How many frames there are.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// A checkpoint is so near, which may borrow `guess` frames if nothing is known of earlier ones.
    pub fn expect(&self, near: f64, guess: u64, now: Instant) {
        let mut state = self.state.lock();
        state.last = Some(now);
        // Where there was one a moment ago, what it needed is kept for the next one anyway.
        state.near = state.near.max(near.clamp(0.0, 1.0));
        if state.most == 0 {
            state.most = guess;
        }
    }

    /// A cut is about to begin: what was needed long ago says less and less. As much as is left of that is to
    /// be lent by then, or what is saved at once would be beyond the limit of the memory.
    pub fn cut(&self) {
        let mut state = self.state.lock();
        state.most -= state.most.div_ceil(FORGET_PART);
        let ahead = (state.most as f64 * state.near) as u64;
        // Not more than what room was made for, or pages of records would be without any.
        let ahead = ahead.min(self.frames());
        self.lent_ahead.store(ahead, Ordering::Relaxed);
    }

    /// The checkpoint is over; whether any were lent ahead of it.
    pub fn end(&self) -> bool {
        self.lent_ahead.swap(0, Ordering::Relaxed) > 0
    }

    /// How many frames are to be lent at least.
    pub fn lent_ahead(&self) -> u64 {
        self.lent_ahead.load(Ordering::Relaxed)
    }

    /// Comes `little` closer to what is to be kept, upwards only if hot pages `made_room` for what is kept
    /// already. `lent` frames are lent now, `borrowed` of them are needed, and a checkpoint is being made, or
    /// not.
    pub fn follow(
        &self,
        (lent, borrowed): (u64, u64),
        in_cut: bool,
        little: u64,
        made_room: bool,
        now: Instant,
    ) {
        let mut state = self.state.lock();
        if in_cut {
            state.last = Some(now);
            state.near = 1.0;
            state.most = state.most.max(borrowed);
        }
        let little = match state.stepped {
            Some(stepped) if now.saturating_duration_since(stepped) < STEP => 0,
            _ => {
                state.stepped = Some(now);
                little
            }
        };
        let is_kept = |last: Instant| now.saturating_duration_since(last) < LINGER;
        if !state.last.is_some_and(is_kept) {
            *state = State::default();
        }
        let needed = (state.most + state.most / MARGIN_PART) as f64;
        let (kept, target) = (self.frames(), lent.max((needed * state.near) as u64));
        let next = if kept > target {
            kept.saturating_sub(little).max(target)
        } else if made_room {
            (kept + little).min(target)
        } else {
            kept
        };
        self.frames.store(next, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    /// Steps until nothing changes any more, each time with hot pages that have made room.
    fn settle(kept: &CheckpointReserve, lent: u64, in_cut: bool, now: Instant) -> u64 {
        for _ in 0..2000 {
            kept.state.lock().stepped = None;
            kept.follow((lent, lent), in_cut, 1, true, now);
        }
        kept.frames()
    }

    #[test]
    fn room_is_made_little_by_little_as_a_checkpoint_comes_near() {
        let (kept, now) = (CheckpointReserve::default(), Instant::now());
        assert_eq!(settle(&kept, 0, false, now), 0);
        kept.expect(0.5, 800, now);
        kept.follow((0, 0), false, 3, true, now);
        assert_eq!(kept.frames(), 3);
        // However often a thread looks.
        kept.follow((0, 0), false, 3, true, now + STEP / 2);
        assert_eq!(kept.frames(), 3);
        // Hot pages have not made room for what is kept already.
        kept.follow((0, 0), false, 3, false, now + STEP);
        assert_eq!(kept.frames(), 3);
        kept.follow((0, 0), false, 3, true, now + 2 * STEP);
        assert_eq!(kept.frames(), 6);
        assert_eq!(settle(&kept, 0, false, now), 450);
        kept.expect(1.0, 800, now);
        // A caller that tells later that it is less near has looked at an older figure.
        kept.expect(0.7, 800, now);
        assert_eq!(settle(&kept, 0, false, now), 900);
    }

    #[test]
    fn what_a_checkpoint_needed_is_kept_for_the_next_and_not_for_good() {
        let (kept, start) = (CheckpointReserve::default(), Instant::now());
        kept.cut();
        assert_eq!(settle(&kept, 800, true, start), 900);
        // It gave them back, and the cap stays where it is: another one may come at once.
        assert_eq!(settle(&kept, 0, false, start + MINUTE / 2), 900);
        kept.cut();
        assert!(settle(&kept, 640, true, start + MINUTE / 2) > 800);
        assert_eq!(settle(&kept, 10, false, start + 2 * MINUTE), 10);
        assert_eq!(settle(&kept, 0, false, start + 2 * MINUTE), 0);
    }

    #[test]
    fn what_a_checkpoint_needs_is_lent_before_it_begins() {
        let (kept, now) = (CheckpointReserve::default(), Instant::now());
        kept.cut();
        assert_eq!(kept.lent_ahead(), 0);
        settle(&kept, 640, true, now);
        kept.cut();
        assert_eq!(kept.lent_ahead(), 620);
        // What is lent and not needed says nothing of what was.
        kept.follow((620, 100), true, 1, true, now);
        kept.cut();
        assert_eq!(kept.lent_ahead(), 600);
    }

    #[test]
    fn checkpoints_that_need_less_make_it_forget() {
        let (kept, now) = (CheckpointReserve::default(), Instant::now());
        settle(&kept, 1000, true, now);
        for _ in 0..300 {
            kept.cut();
        }
        let left = settle(&kept, 100, true, now);
        assert!((100..150).contains(&left), "{left}");
    }
}
