//! What time it is for records that expire.
//!
//! Invariants: it never goes back: whoever asks after another was answered is answered no less. A step of the
//! wall clock of more than an hour forward, against the monotonic clock, is believed only once it has stood
//! for ten minutes: a bad answer of a time server must not empty a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Instant, SystemTime};

use terrace_base::sync::Mutex;

use crate::millis::millis;
use crate::planted::{Fault, planted};

/// Where the time comes from, in milliseconds.
#[doc(hidden)]
pub trait TimeSource: Send + Sync {
    /// The wall clock: since 1970. It may jump.
    fn wall(&self) -> u64;

    /// The monotonic clock: since any instant. It runs evenly.
    fn monotonic(&self) -> u64;
}

/// The clocks of the system.
struct System(Instant);

impl TimeSource for System {
    fn wall(&self) -> u64 {
        millis(SystemTime::now())
    }

    fn monotonic(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }
}

/// Clocks that stand.
struct Standing(u64);

impl TimeSource for Standing {
    fn wall(&self) -> u64 {
        self.0
    }

    fn monotonic(&self) -> u64 {
        0
    }
}

/// A source of time that options carry.
#[derive(Clone)]
pub(crate) struct Source(pub Arc<dyn TimeSource>);

impl Source {
    /// The clocks of the system.
    pub fn system() -> Source {
        Source(Arc::new(System(Instant::now())))
    }

    /// Clocks that stand at this time.
    pub fn standing(time: u64) -> Source {
        Source(Arc::new(Standing(time)))
    }

    /// What the wall clock says.
    pub fn now(&self) -> u64 {
        self.0.wall()
    }
}

impl std::fmt::Debug for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Source")
    }
}

/// Where a superblock has the time of its checkpoint, among what was learnt; see `docs/format-data.md`.
pub const TIME_AT: std::ops::Range<usize> = 12..20;
/// A step forward of more than this is not believed at once.
const DOUBTED_STEP_MS: u64 = 3_600_000;
/// How long it has to stand.
const DOUBTED_FOR_MS: u64 = 600_000;
/// How far the wall clock may run on until it is compared with the monotonic one again.
const COMPARED_EACH_MS: u64 = 60_000;
/// A step back of less is nothing to tell of: clocks are corrected all the time.
const TOLD_STEP_MS: u64 = 2_000;

/// See the module's text.
pub struct Clock {
    source: Source,
    /// What was answered last.
    floor: AtomicU64,
    /// The wall clock is believed without a look at the other one as long as it is below this.
    believed_until: AtomicU64,
    /// Whether it is what it was for good: that of a snapshot.
    is_fixed: bool,
    compared: Mutex<Compared>,
    steps: AtomicU64,
}

/// When the two clocks were compared last, and what is held against the wall clock.
struct Compared {
    wall: u64,
    monotonic: u64,
    /// When a step forward was seen that is not believed yet.
    doubted_since: Option<u64>,
    /// Whether the wall clock is known to be behind.
    is_behind: bool,
}

impl Clock {
    /// Runs on from `floor`, or from what the wall clock says now if that is later.
    pub fn running(source: Source, floor: u64) -> Clock {
        let (wall, monotonic) = (source.0.wall(), source.0.monotonic());
        let floor = if planted(Fault::ClockBack) { 0 } else { floor };
        let now = wall.max(floor);
        Clock {
            source,
            floor: AtomicU64::new(now),
            believed_until: AtomicU64::new(now.saturating_add(COMPARED_EACH_MS)),
            is_fixed: false,
            compared: Mutex::new(Compared {
                wall: now,
                monotonic,
                doubted_since: None,
                is_behind: wall + TOLD_STEP_MS < floor,
            }),
            steps: AtomicU64::new(0),
        }
    }

    /// Stands at this time.
    pub fn fixed(now: u64) -> Clock {
        Clock {
            is_fixed: true,
            floor: AtomicU64::new(now),
            ..Clock::running(Source::system(), 0)
        }
    }

    /// The time now, in milliseconds since 1970.
    #[inline]
    pub fn now(&self) -> u64 {
        let floor = self.floor.load(Ordering::Acquire);
        if self.is_fixed {
            return floor;
        }
        let wall = self.source.0.wall();
        if wall == floor {
            return floor;
        }
        if wall > floor && wall < self.believed_until.load(Ordering::Acquire) {
            return self.floor.fetch_max(wall, Ordering::AcqRel).max(wall);
        }
        self.compare(wall)
    }

    /// No answer from now on is less than this.
    pub fn not_before(&self, time: u64) {
        if !planted(Fault::ClockBack) {
            self.floor.fetch_max(time, Ordering::AcqRel);
        }
    }

    /// Steps of the wall clock, forward and back, that were seen.
    pub fn steps(&self) -> u64 {
        self.steps.load(Ordering::Relaxed)
    }

    #[cold]
    fn compare(&self, wall: u64) -> u64 {
        let mut compared = self.compared.lock();
        let floor = self.floor.load(Ordering::Acquire);
        if wall <= floor {
            // Or another thread has just looked at a later clock.
            let is_behind = wall + TOLD_STEP_MS < floor;
            if is_behind && !compared.is_behind {
                self.steps.fetch_add(1, Ordering::Relaxed);
            }
            compared.is_behind |= is_behind;
            return floor;
        }
        compared.is_behind = false;
        let monotonic = self.source.0.monotonic();
        let expected = compared.wall + monotonic.saturating_sub(compared.monotonic);
        let mut now = wall;
        if wall > expected.saturating_add(DOUBTED_STEP_MS) {
            let since = *compared.doubted_since.get_or_insert_with(|| {
                self.steps.fetch_add(1, Ordering::Relaxed);
                monotonic
            });
            if monotonic.saturating_sub(since) < DOUBTED_FOR_MS {
                now = expected;
            }
        }
        if now == wall {
            compared.wall = wall;
            compared.monotonic = monotonic;
            compared.doubted_since = None;
            let until = wall.saturating_add(COMPARED_EACH_MS);
            self.believed_until.store(until, Ordering::Release);
        }
        self.floor.fetch_max(now, Ordering::AcqRel).max(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Hands {
        wall: AtomicU64,
        monotonic: AtomicU64,
    }

    impl Hands {
        fn pass(&self, ms: u64) {
            self.wall.fetch_add(ms, Ordering::Relaxed);
            self.monotonic.fetch_add(ms, Ordering::Relaxed);
        }
    }

    impl TimeSource for Hands {
        fn wall(&self) -> u64 {
            self.wall.load(Ordering::Relaxed)
        }

        fn monotonic(&self) -> u64 {
            self.monotonic.load(Ordering::Relaxed)
        }
    }

    const BEGIN: u64 = 1_700_000_000_000;

    fn at(wall: u64) -> Arc<Hands> {
        let hands = Hands::default();
        hands.wall.store(wall, Ordering::Relaxed);
        Arc::new(hands)
    }

    fn clock(hands: &Arc<Hands>, floor: u64) -> Clock {
        Clock::running(Source(hands.clone()), floor)
    }

    #[test]
    fn it_goes_with_the_wall_clock_and_never_back() {
        let hands = at(BEGIN);
        let clock = clock(&hands, 0);
        for step in [1, 10, 59_000, 3_000_000, 90_000_000] {
            let before = clock.now();
            hands.pass(step);
            assert_eq!(clock.now(), before + step);
        }
        let before = clock.now();
        hands.wall.fetch_sub(5_000_000, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.steps()), (before, 1));
        hands.pass(4_999_999);
        assert_eq!((clock.now(), clock.steps()), (before, 1));
        hands.pass(2);
        assert_eq!(clock.now(), before + 1);
    }

    #[test]
    fn what_was_answered_before_the_opening_counts() {
        let hands = at(BEGIN);
        let clock = clock(&hands, BEGIN + 500);
        assert_eq!(clock.now(), BEGIN + 500);
        hands.pass(501);
        assert_eq!(clock.now(), BEGIN + 501);
        clock.not_before(BEGIN + 900);
        assert_eq!(clock.now(), BEGIN + 900);
        assert_eq!(Clock::fixed(7).now(), 7);
    }

    #[test]
    fn a_leap_is_believed_when_it_has_stood_for_ten_minutes() {
        let hands = at(BEGIN);
        let clock = clock(&hands, 0);
        hands.wall.fetch_add(DOUBTED_STEP_MS + 1, Ordering::Relaxed);
        assert_eq!(clock.now(), BEGIN);
        hands.pass(DOUBTED_FOR_MS - 1);
        assert_eq!(
            (clock.now(), clock.steps()),
            (BEGIN + DOUBTED_FOR_MS - 1, 1)
        );
        hands.pass(1);
        let believed = BEGIN + DOUBTED_FOR_MS + DOUBTED_STEP_MS + 1;
        assert_eq!((clock.now(), clock.steps()), (believed, 1));
        // One that is taken back was nothing.
        hands.wall.fetch_add(1 << 40, Ordering::Relaxed);
        assert_eq!(clock.now(), believed);
        hands.wall.fetch_sub(1 << 40, Ordering::Relaxed);
        hands.pass(60_000);
        assert_eq!((clock.now(), clock.steps()), (believed + 60_000, 2));
        // An hour at a time is believed at once.
        hands.wall.fetch_add(DOUBTED_STEP_MS, Ordering::Relaxed);
        assert_eq!(clock.now(), believed + 60_000 + DOUBTED_STEP_MS);
    }
}
