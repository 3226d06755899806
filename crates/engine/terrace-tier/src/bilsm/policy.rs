//! The policy made of its parts.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use terrace_base::sync::Mutex;

use super::control::{Control, Decision, Law};
use super::rates::Rates;
use super::working_set::WorkingSet;
use crate::policy::{Admission, Policy};

/// Share of the memory that the memtable gets, in per mille: the paper's has a twentieth.
const MEMTABLE: u32 = 50;
/// Share of a leaf that may stay in memory when it is written down (path 2).
const KEPT: f64 = 0.5;

/// What is switched on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BiLsmOptions {
    /// How many of the records read come in.
    pub rates: Rates,
    /// Whether what was read since stays in memory when its leaf is written down.
    pub early: bool,
    /// When promotion ends and begins; always on without.
    pub control: Option<Law>,
    /// The period of the control.
    pub period: Duration,
    /// Whether promotion goes on until as many records have come in as the working set has.
    pub working_set: bool,
}

impl Default for BiLsmOptions {
    /// All of it.
    fn default() -> BiLsmOptions {
        BiLsmOptions {
            rates: Rates::Exponential,
            early: true,
            control: Some(Law::default()),
            period: Duration::from_secs(1),
            working_set: true,
        }
    }
}

/// Tells the time that has passed.
pub type Clock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// Lookups since the last sample.
#[derive(Default)]
struct Lookups {
    all: AtomicU64,
    missed: AtomicU64,
    depth: AtomicU64,
    admitted: AtomicU64,
}

struct Course {
    control: Control,
    sampled: Duration,
    turns: Vec<(Duration, Decision)>,
}

/// See [`BiLsmOptions`].
pub struct BiLsm {
    options: BiLsmOptions,
    clock: Clock,
    on: AtomicBool,
    lookups: Lookups,
    course: Mutex<Course>,
    working_set: Mutex<WorkingSet>,
}

impl fmt::Debug for BiLsm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BiLsm")
            .field("options", &self.options)
            .field("on", &self.on)
            .finish_non_exhaustive()
    }
}

impl BiLsm {
    /// A policy that goes by the clock of the machine.
    pub fn new(options: BiLsmOptions) -> BiLsm {
        let began = Instant::now();
        BiLsm::by_clock(options, Arc::new(move || began.elapsed()))
    }

    /// A policy that goes by another clock.
    pub fn by_clock(options: BiLsmOptions, clock: Clock) -> BiLsm {
        BiLsm {
            options,
            on: AtomicBool::new(true),
            lookups: Lookups::default(),
            course: Mutex::new(Course {
                control: Control::new(options.control.unwrap_or_default()),
                sampled: clock(),
                turns: Vec::new(),
            }),
            working_set: Mutex::default(),
            clock,
        }
    }

    /// When the control has switched promotion off and on again.
    pub fn turns(&self) -> Vec<(Duration, Decision)> {
        self.course.lock().turns.clone()
    }
}

impl Policy for BiLsm {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn admit(&self, a: Admission) -> bool {
        let rates = self.options.rates;
        let admitted = self.on.load(Ordering::Relaxed) && rates.admits(a.depth, a.missed, a.random);
        if admitted && self.observes() {
            self.lookups.admitted.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }

    /// No reader has read it yet where it is now.
    fn newcomer(&self, _: u8) -> u8 {
        0
    }

    fn most_uses(&self) -> u8 {
        1
    }

    fn replaces_in_leaf(&self) -> bool {
        false
    }

    fn displaces(&self, _: u8, _: u8) -> bool {
        false
    }

    fn idle_share(&self) -> f64 {
        0.0
    }

    fn pack_fill(&self) -> f64 {
        0.95
    }

    fn accesses_per_look(&self) -> f64 {
        f64::INFINITY
    }

    fn misses_per_ageing(&self) -> f64 {
        f64::INFINITY
    }

    fn write_along(&self) -> usize {
        0
    }

    fn flushes(&self) -> Option<f64> {
        Some(if self.options.early { KEPT } else { 0.0 })
    }

    fn hot_share(&self) -> Option<u32> {
        Some(MEMTABLE)
    }

    fn makes_room(&self) -> bool {
        true
    }

    fn observes(&self) -> bool {
        self.options.control.is_some()
    }

    fn note_lookup(&self, hash: u64, depth: u8, missed: bool) {
        let add = |n: &AtomicU64, by| n.fetch_add(by, Ordering::Relaxed);
        add(&self.lookups.all, 1);
        if missed {
            add(&self.lookups.missed, 1);
        }
        if depth > 0 {
            add(&self.lookups.depth, u64::from(depth));
        }
        if self.options.working_set && WorkingSet::may_count(hash) {
            self.working_set.lock().note(hash);
        }
    }

    fn pass_time(&self, levels: &dyn Fn() -> usize) {
        let mut course = self.course.lock();
        let now = (self.clock)();
        if now.saturating_sub(course.sampled) < self.options.period {
            return;
        }
        course.sampled = now;
        let take = |n: &AtomicU64| n.swap(0, Ordering::Relaxed);
        let of = &self.lookups;
        let (all, missed) = (take(&of.all), take(&of.missed));
        let (depth, admitted) = (take(&of.depth), take(&of.admitted));
        if all == 0 {
            // Nothing is known of a time in which nothing was asked for.
            return;
        }
        let (all, levels) = (all as f64, levels().max(1) as f64);
        let benefit = missed as f64 / all + depth as f64 / all / levels;
        let least = || match self.options.working_set {
            true => self.working_set.lock().size(),
            false => 0,
        };
        if let Some(turn) = course.control.sample(benefit, admitted, least) {
            self.on.store(turn == Decision::On, Ordering::Relaxed);
            course.turns.push((now, turn));
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn admission(depth: u8) -> Admission {
        Admission {
            full: true,
            random: 0,
            depth,
            missed: true,
        }
    }

    /// A clock that stands where it was set, and the policy that goes by it.
    fn policy(options: BiLsmOptions) -> (Arc<AtomicU64>, BiLsm) {
        let seconds = Arc::new(AtomicU64::new(0));
        let read = seconds.clone();
        let clock: Clock = Arc::new(move || Duration::from_secs(read.load(Ordering::Relaxed)));
        (seconds, BiLsm::by_clock(options, clock))
    }

    #[test]
    fn promotion_ends_on_a_plateau_and_comes_back_after_a_shift() {
        let (clock, policy) = policy(BiLsmOptions {
            working_set: false,
            ..BiLsmOptions::default()
        });
        let pass = |seconds: u64, missed_of_ten: u64| {
            for _ in 0..seconds {
                for n in 0..10 {
                    let missed = n < missed_of_ten;
                    policy.note_lookup(n, if missed { 3 } else { 0 }, missed);
                }
                // Whoever comes more often than once in a period changes nothing.
                policy.pass_time(&|| 3);
                clock.fetch_add(1, Ordering::Relaxed);
                policy.pass_time(&|| 3);
            }
            policy.admit(admission(3))
        };
        assert!(pass(100, 2), "too early to tell");
        assert!(!pass(20, 2), "{:?}", policy.turns());
        assert!(!pass(1000, 2));
        assert!(pass(200, 9), "{:?}", policy.turns());
        let turns: Vec<_> = policy.turns().into_iter().map(|(_, turn)| turn).collect();
        assert_eq!(turns[..2], [Decision::Off, Decision::On]);
    }

    #[test]
    fn time_in_which_nobody_asks_says_nothing() {
        let (clock, policy) = policy(BiLsmOptions::default());
        for _ in 0..1000 {
            clock.fetch_add(1, Ordering::Relaxed);
            policy.pass_time(&|| 3);
        }
        assert!(policy.admit(admission(1)) && policy.turns().is_empty());
        assert!(!policy.admit(admission(0)));
    }

    #[test]
    fn without_control_lookups_are_not_counted() {
        let (_, policy) = policy(BiLsmOptions {
            control: None,
            early: false,
            ..BiLsmOptions::default()
        });
        assert!(!policy.observes());
        assert_eq!(policy.flushes(), Some(0.0));
    }
}
