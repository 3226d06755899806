//! What is done for the length of the file while hardly anything is written: a checkpoint gives back what the
//! last one alone holds, and pages at the end of a file that is much longer than they need move to its front.
//!
//! Invariants: it goes on only while no other thread writes much; what it writes itself is at most what it gives
//! back, and each page is moved a bounded number of times until another thread has written again.

use terrace_pages::SpaceSeen;

/// Idle rounds before anything is done: five seconds.
const CALM_ROUNDS: u32 = 250;
/// It is idle while others write no more than one page in this many of the live ones in a round.
const CALM_PART: u64 = 4096;
/// What is beyond that in one round, and less in others: this many rounds' worth. Pages are written many at once.
const BURST_ROUNDS: u64 = 32;
/// A checkpoint is worth its while when the last one alone holds one slot for this many live pages, and at least
/// as many as it will write.
const HELD_PART: u64 = 16;
/// The file may be longer than its live pages by one part in this many of them.
const LONGER_PART: u64 = 16;
/// And what is less than this is not worth the work, in slots.
const LITTLE: u64 = 256;
/// Times that the pages are gone through: slots are free only after both superblocks name others.
const MOST_PASSES: u32 = 4;
/// Pages moved in a round: some six mebibytes a second each way.
pub const MOVED_AT_ONCE: u64 = 8;

/// Whether a file is longer than its pages, and what is kept for pins, need, by one part in `part` of them.
pub fn is_long(seen: &SpaceSeen, part: u64) -> bool {
    seen.slots > seen.live + seen.pinned + seen.live / part + 2 * LITTLE
}

/// What to do in this round.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Task {
    /// Nothing; what was begun has ended.
    Nothing,
    /// A checkpoint.
    Checkpoint,
    /// Moves some pages, from this number on, to slots below `below`.
    Move { from: u64, below: u64 },
}

/// What is done while the database is idle.
#[derive(Default)]
pub struct Idle {
    /// Page writes so far.
    written: u64,
    /// Of the moved pages those whose writing was not seen yet.
    own: u64,
    rounds: u32,
    /// Pages that others have written beyond what counts as idle, less what they have not written since.
    beyond: u64,
    /// Pages that others have written since the passes began to be counted.
    others: u64,
    /// Passes over the pages, and where the one that is going on is.
    passes: u32,
    from: Option<u64>,
    /// Whether it has moved anything, and whether the last one had.
    moved: bool,
    moved_before: bool,
    /// Free slots at the end of the file, when it was looked last, and slots that were kept for pins.
    tail: u64,
    pinned: u64,
}

impl Idle {
    /// Looks what there is to be done. O(1).
    pub fn look(&mut self, seen: &SpaceSeen) -> Task {
        let new = seen.page_writes.saturating_sub(self.written);
        self.written = seen.page_writes;
        let own = new.min(self.own);
        self.own -= own;
        let calm = seen.live / CALM_PART + 1;
        self.beyond = (self.beyond + new - own).saturating_sub(calm);
        if self.beyond > calm * BURST_ROUNDS {
            *self = Idle {
                written: self.written,
                pinned: seen.pinned,
                ..Idle::default()
            };
            return Task::Nothing;
        }
        self.tail = seen.slots.saturating_sub(seen.used_end);
        if self.from.is_none() && seen.pinned < self.pinned {
            // A snapshot has gone: what it kept is free now, and what lay beyond that can be moved.
            self.passes = 0;
        }
        self.pinned = seen.pinned;
        self.others += new - own;
        if self.from.is_none() && self.others > seen.live / LONGER_PART {
            // Little by little so much that the file may be longer again.
            (self.others, self.passes) = (0, 0);
        }
        self.rounds = self.rounds.saturating_add(1);
        if self.rounds < CALM_ROUNDS {
            return Task::Nothing;
        }
        if let Some(from) = self.from {
            return self.go_on(from, seen);
        }
        if seen.image_only > seen.live / HELD_PART + LITTLE && seen.image_only >= seen.dirty {
            return Task::Checkpoint;
        }
        if is_long(seen, LONGER_PART) && self.passes < MOST_PASSES {
            self.passes += 1;
            self.moved_before = std::mem::take(&mut self.moved);
            return self.go_on(0, seen);
        }
        Task::Nothing
    }

    fn go_on(&mut self, from: u64, seen: &SpaceSeen) -> Task {
        self.from = Some(from);
        Task::Move {
            from,
            below: seen.live + seen.live / LONGER_PART,
        }
    }

    /// `pages` pages were moved, and at `next` it goes on. At the end of the pages a checkpoint is due if any were,
    /// and one more after that: the file is cut when neither superblock names its end.
    pub fn moved(&mut self, pages: u64, next: Option<u64>) -> Task {
        self.own += pages;
        self.moved |= pages > 0;
        self.from = next;
        match (next, self.moved) {
            (Some(_), _) => Task::Nothing,
            (None, true) => Task::Checkpoint,
            // It is free, and is cut once both superblocks name the end of what is in front of it.
            (None, false) if self.tail > LITTLE => Task::Checkpoint,
            (None, false) => {
                // What lies at the end now cannot be moved.
                self.passes = MOST_PASSES;
                match self.moved_before {
                    true => Task::Checkpoint,
                    false => Task::Nothing,
                }
            }
        }
    }

    /// Whether a pass over the pages is going on.
    pub fn is_moving(&self) -> bool {
        self.from.is_some()
    }

    /// A checkpoint was made, and this is what was written by then.
    pub fn checkpointed(&mut self, page_writes: u64) {
        self.written = page_writes;
        self.own = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(page_writes: u64) -> SpaceSeen {
        SpaceSeen {
            page_writes,
            live: 8192,
            image_only: 0,
            dirty: 100,
            slots: 8192,
            pinned: 0,
            used_end: u64::MAX,
        }
    }

    /// What a snapshot kept is given back once it is gone, though all that could be moved was before.
    #[test]
    fn a_snapshot_that_has_gone_is_a_reason_to_look_again() {
        let kept = SpaceSeen {
            slots: 24_000,
            pinned: 4000,
            ..seen(5)
        };
        let mut calm = lasting(&kept);
        assert!(matches!(calm.look(&kept), Task::Move { .. }));
        assert_eq!(calm.moved(0, None), Task::Nothing);
        assert_eq!(calm.look(&kept), Task::Nothing);
        let gone = SpaceSeen {
            pinned: 0,
            used_end: 8000,
            ..kept
        };
        assert!(matches!(calm.look(&gone), Task::Move { .. }));
        // Nothing is to be moved; two checkpoints, and both superblocks name a shorter file.
        assert_eq!(calm.moved(0, None), Task::Checkpoint);
        assert!(matches!(calm.look(&gone), Task::Move { .. }));
        assert_eq!(calm.moved(0, None), Task::Checkpoint);
        let cut = SpaceSeen {
            slots: 8100,
            ..gone
        };
        assert_eq!(calm.look(&cut), Task::Nothing);
    }

    /// An idle time that has lasted.
    fn lasting(what: &SpaceSeen) -> Idle {
        let mut calm = Idle::default();
        for _ in 1..CALM_ROUNDS {
            assert_eq!(calm.look(what), Task::Nothing);
        }
        calm
    }

    #[test]
    fn nothing_is_done_while_others_write() {
        let mut calm = Idle::default();
        for round in 0..10 * u64::from(CALM_ROUNDS) {
            let what = SpaceSeen {
                image_only: 8000,
                slots: 40_000,
                ..seen(round * 4)
            };
            assert_eq!(calm.look(&what), Task::Nothing);
        }
    }

    #[test]
    fn some_pages_at_once_now_and_then_are_calm() {
        let (mut calm, mut written) = (Idle::default(), 0);
        let mut tasks = (0..2 * u64::from(CALM_ROUNDS)).map(|round| {
            // Half as many as it takes, on average.
            written += if round % 20 == 0 { 30 } else { 0 };
            calm.look(&SpaceSeen {
                image_only: 8000,
                ..seen(written)
            })
        });
        assert!(tasks.any(|task| task == Task::Checkpoint));
        // Little by little they make the file longer: it is drawn in again.
        let mut calm = lasting(&seen(5));
        calm.passes = MOST_PASSES;
        let long = |round: u64| SpaceSeen {
            slots: 20_000,
            ..seen(5 + 2 * round)
        };
        assert!((0..200).all(|round| calm.look(&long(round)) == Task::Nothing));
        let mut later = (200..300).map(|round| calm.look(&long(round)));
        assert!(later.any(|task| matches!(task, Task::Move { .. })));
        // A great many at once are none.
        let mut calm = lasting(&seen(5));
        let what = |page_writes| SpaceSeen {
            image_only: 8000,
            ..seen(page_writes)
        };
        assert_eq!(calm.look(&what(500)), Task::Nothing);
        assert_eq!(calm.look(&what(500)), Task::Nothing);
    }

    #[test]
    fn what_the_last_image_holds_is_given_back_if_that_is_more_than_it_costs() {
        let held = |image_only, dirty| SpaceSeen {
            image_only,
            dirty,
            ..seen(5)
        };
        let mut calm = lasting(&seen(5));
        assert_eq!(calm.look(&held(700, 100)), Task::Nothing);
        assert_eq!(calm.look(&held(800, 900)), Task::Nothing);
        assert_eq!(calm.look(&held(800, 100)), Task::Checkpoint);
        // Its own writes do not end the idle time.
        calm.checkpointed(105);
        assert_eq!(calm.look(&seen(105)), Task::Nothing);
        let what = SpaceSeen {
            image_only: 800,
            ..seen(105)
        };
        assert_eq!(calm.look(&what), Task::Checkpoint);
    }

    #[test]
    fn a_long_file_is_drawn_in_and_only_so_often() {
        let what = SpaceSeen {
            slots: 20_000,
            ..seen(5)
        };
        let mut calm = lasting(&what);
        let below = 8192 + 512;
        let mut moved = 0;
        for pass in 0..MOST_PASSES {
            let now = SpaceSeen {
                page_writes: 5 + moved,
                ..what
            };
            assert_eq!(calm.look(&now), Task::Move { from: 0, below });
            assert_eq!(calm.moved(8, Some(4000)), Task::Nothing);
            moved += 8;
            // Its own writes do not end the idle time.
            let then = SpaceSeen {
                page_writes: 5 + moved,
                ..what
            };
            assert_eq!(calm.look(&then), Task::Move { from: 4000, below });
            assert_eq!(calm.moved(0, None), Task::Checkpoint, "pass {pass}");
            calm.checkpointed(5 + moved);
        }
        assert_eq!(
            calm.look(&SpaceSeen {
                page_writes: 5 + moved,
                ..what
            }),
            Task::Nothing
        );
        // A pass that finds nothing is the last one; if the one before moved something, with a checkpoint.
        let mut calm = lasting(&what);
        calm.look(&what);
        assert_eq!(calm.moved(8, None), Task::Checkpoint);
        calm.checkpointed(13);
        let then = SpaceSeen {
            page_writes: 13,
            ..what
        };
        assert_eq!(calm.look(&then), Task::Move { from: 0, below });
        assert_eq!(calm.moved(0, None), Task::Checkpoint);
        calm.checkpointed(13);
        assert_eq!(calm.look(&then), Task::Nothing);
        let mut calm = lasting(&what);
        assert_eq!(calm.look(&what), Task::Move { from: 0, below });
        assert_eq!(calm.moved(0, None), Task::Nothing);
        assert_eq!(calm.look(&what), Task::Nothing);
        // Until others have written.
        assert_eq!(
            calm.look(&SpaceSeen {
                page_writes: 500,
                ..what
            }),
            Task::Nothing
        );
        assert_eq!((calm.passes, calm.rounds), (0, 0));
    }
}
