//! What time it is for records that expire.
//!
//! Invariants: it never goes back: whoever asks after another was answered is answered no less. A step of the
//! wall clock of more than an hour forward, against the monotonic clock, is believed only once it has stood
//! for ten minutes: a bad answer of a time server must not empty a store.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

use terrace_base::lease::Lease;
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
#[cfg(feature = "backup")]
struct Standing(u64);

#[cfg(feature = "backup")]
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
    #[cfg(feature = "backup")]
    pub fn standing(time: u64) -> Source {
        Source(Arc::new(Standing(time)))
    }

    /// What the wall clock says.
    #[cfg(feature = "backup")]
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
/// No thread is still about to act on a time that it was told longer ago than this.
const LONG_MS: u64 = 60_000;
/// A step back of less is nothing to tell of: clocks are corrected all the time.
const TOLD_STEP_MS: u64 = 2_000;

/// The clock that records expire by.
pub struct Clock {
    source: Source,
    /// What was answered last.
    floor: AtomicU64,
    /// The wall clock is believed without a look at the other one as long as it is below this.
    believed_until: AtomicU64,
    /// Whether it is what it was for good: that of a snapshot.
    is_fixed: bool,
    /// Whether the wall clock is known to be behind. What is below the floor is not looked at then.
    is_behind: AtomicBool,
    /// What the wall clock said when it was doubted last: no thread looks again within the millisecond. 0 if it is not.
    doubted_at: AtomicU64,
    compared: Mutex<Compared>,
    steps: AtomicU64,
    /// See [`Clock::long_ago`].
    long_ago: AtomicU64,
}

/// When the two clocks were compared last, and what is held against the wall clock.
struct Compared {
    wall: u64,
    monotonic: u64,
    /// A step forward that is not believed yet.
    doubted: Option<Doubted>,
    /// What the wall clock said at an earlier comparison, and the monotonic one: the next for [`Clock::long_ago`].
    earlier: (u64, u64),
}

/// See [`Compared::doubted`].
#[derive(Clone, Copy)]
struct Doubted {
    /// When it was seen, by the monotonic clock.
    since: u64,
    /// How far the wall clock was ahead: one that is ahead by something else has stepped again.
    ahead: u64,
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
            is_behind: AtomicBool::new(is_step_back(wall, floor)),
            doubted_at: AtomicU64::new(0),
            compared: Mutex::new(Compared {
                wall: now,
                monotonic,
                doubted: None,
                earlier: (now, monotonic),
            }),
            steps: AtomicU64::new(0),
            long_ago: AtomicU64::new(now),
        }
    }

    /// Stands at this time.
    pub fn fixed(now: u64) -> Clock {
        Clock {
            is_fixed: true,
            floor: AtomicU64::new(now),
            long_ago: AtomicU64::new(now),
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
        if wall < floor && self.is_behind.load(Ordering::Relaxed) {
            return floor;
        }
        if wall == self.doubted_at.load(Ordering::Relaxed) {
            return floor;
        }
        self.compare(wall)
    }

    /// The lease of so long from now on.
    pub fn lease_for(&self, duration: Duration) -> Lease {
        let ms = duration.as_nanos().div_ceil(1_000_000);
        Lease::until(
            self.now()
                .saturating_add(u64::try_from(ms).unwrap_or(u64::MAX)),
        )
    }

    /// What this said at least [`LONG_MS`] ago, by the monotonic clock, or when it was made: a minute or some before
    /// now, and earlier where the wall clock has stepped since.
    #[inline]
    pub fn long_ago(&self) -> u64 {
        self.long_ago.load(Ordering::Acquire)
    }

    /// No answer from now on is less than this.
    pub fn not_before(&self, time: u64) {
        if !planted(Fault::ClockBack) {
            self.floor.fetch_max(time, Ordering::AcqRel);
        }
    }

    /// The last time that is believed at once, if a caller says that it is now.
    pub fn believed_at_once(&self) -> u64 {
        self.now().saturating_add(DOUBTED_STEP_MS)
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
            if is_step_back(wall, floor) && !self.is_behind.swap(true, Ordering::Relaxed) {
                self.steps.fetch_add(1, Ordering::Relaxed);
            }
            // What was doubted was taken back.
            compared.doubted = None;
            self.doubted_at.store(0, Ordering::Relaxed);
            return floor;
        }
        self.is_behind.store(false, Ordering::Relaxed);
        let monotonic = self.source.0.monotonic();
        let passed = monotonic.saturating_sub(compared.monotonic);
        let expected = compared.wall.saturating_add(passed);
        let ahead = wall.saturating_sub(expected);
        if ahead > DOUBTED_STEP_MS {
            let same = |doubted: &Doubted| doubted.ahead.abs_diff(ahead) <= DOUBTED_STEP_MS;
            let since = match compared.doubted.filter(same) {
                Some(doubted) => doubted.since,
                None => {
                    self.steps.fetch_add(1, Ordering::Relaxed);
                    let since = monotonic;
                    compared.doubted = Some(Doubted { since, ahead });
                    since
                }
            };
            if monotonic.saturating_sub(since) < DOUBTED_FOR_MS {
                // If it is taken back that is to be seen here.
                self.believed_until.store(0, Ordering::Release);
                let now = self.floor.fetch_max(expected, Ordering::AcqRel);
                self.doubted_at.store(wall, Ordering::Relaxed);
                return now.max(expected);
            }
        }
        let (said, at) = compared.earlier;
        if monotonic.saturating_sub(at) >= LONG_MS {
            self.long_ago.store(said, Ordering::Release);
            compared.earlier = (wall, monotonic);
        }
        compared.wall = wall;
        compared.monotonic = monotonic;
        compared.doubted = None;
        self.doubted_at.store(0, Ordering::Relaxed);
        let until = wall.saturating_add(COMPARED_EACH_MS);
        self.believed_until.store(until, Ordering::Release);
        self.floor.fetch_max(wall, Ordering::AcqRel).max(wall)
    }
}

/// Whether it is worth telling of.
fn is_step_back(wall: u64, floor: u64) -> bool {
    wall.saturating_add(TOLD_STEP_MS) < floor
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
    fn what_was_said_long_ago_was_said_a_minute_before_at_least() {
        let hands = at(BEGIN);
        let clock = clock(&hands, 0);
        assert_eq!(clock.long_ago(), BEGIN);
        let mut said = vec![(0, BEGIN)];
        for round in 0..200 {
            hands.pass([1, 700, 20_000, 61_000][round % 4]);
            // Steps that are believed at once.
            let step = if round % 7 == 0 { 120_000 } else { 0 };
            hands.wall.fetch_add(step, Ordering::Relaxed);
            let now = clock.now();
            let monotonic = hands.monotonic.load(Ordering::Relaxed);
            let long = said.iter().rev().find(|(at, _)| at + LONG_MS <= monotonic);
            let most = long.map_or(BEGIN, |(_, said)| *said);
            assert!(clock.long_ago() <= most, "round {round}");
            said.push((monotonic, now));
        }
        let far = said[said.len() - 30].1;
        assert!(clock.long_ago() > far, "{} {far}", clock.long_ago());
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
    fn each_leap_has_to_stand_by_itself() {
        let hands = at(BEGIN);
        let clock = clock(&hands, 0);
        let week = 7 * 86_400_000;
        hands.wall.fetch_add(week, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.steps()), (BEGIN, 1));
        // It is taken back and no caller asks; a quarter of an hour later there is another.
        hands.wall.fetch_sub(week, Ordering::Relaxed);
        hands.pass(900_000);
        hands.wall.fetch_add(50 * week, Ordering::Relaxed);
        assert_eq!((clock.now(), clock.steps()), (BEGIN + 900_000, 2));
        // It is taken back and a caller asks, soon and while the clock is behind; it comes again.
        let mut steps = 2;
        let mut floor = BEGIN + 900_000;
        for (back, wait) in [(0, 1_000), (5_000_000, 1_000)] {
            hands.wall.fetch_sub(50 * week + back, Ordering::Relaxed);
            hands.pass(wait);
            floor += if back == 0 { wait } else { 0 };
            assert_eq!(clock.now(), floor);
            hands.pass(900_000);
            hands.wall.fetch_add(50 * week + back, Ordering::Relaxed);
            floor += if back == 0 { 900_000 } else { 901_000 };
            steps += if back == 0 { 1 } else { 2 };
            assert_eq!((clock.now(), clock.steps()), (floor, steps));
        }
        hands.pass(DOUBTED_FOR_MS);
        assert_eq!(clock.now(), floor + DOUBTED_FOR_MS + 50 * week);
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
