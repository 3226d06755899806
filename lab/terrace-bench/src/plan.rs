//! What is to be measured, and what is computed before the store is opened.

use std::time::Duration;

use crate::device::Device;
use crate::distribution::{Distribution, MOST_MOVES};
use crate::records::{KEY_BYTES, KeyLayout, LEAST_VALUE_BYTES, ValueShape};
use crate::resident;
use crate::workload::{MANY, MOST_TOGETHER, Workload};

/// Everything that defines a benchmark.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What is run.
    pub workload: Workload,
    /// Which records it asks for.
    pub distribution: Distribution,
    /// How many records are loaded.
    pub records: u64,
    /// The bytes of a value; at least [`LEAST_VALUE_BYTES`].
    pub value_bytes: usize,
    /// The share of them that is random; the rest is all alike, so that it compresses.
    pub value_random: f64,
    /// How keys lie.
    pub layout: KeyLayout,
    /// The memory that the store was given, from which the static optimum follows.
    pub memory_bytes: u64,
    /// How many threads run operations.
    pub threads: usize,
    /// How many records one multi-get asks for.
    pub together: usize,
    /// How long to measure.
    pub duration: Duration,
    /// With the workload `shift`: how often the hot set moves in that time, at the same distances; from 1 to
    /// [`MOST_MOVES`].
    pub moves: usize,
    /// How long to run before measuring.
    pub warmup: Warmup,
    /// Whether and how to load.
    pub load: Load,
    /// Whether a checkpoint is made after loading.
    pub settle: bool,
    /// Whether updates first look whether the record is there.
    pub checked_updates: bool,
    /// Whether to read all records at the end and check them, and that no update was lost.
    pub audit: bool,
    /// The length of a window of the curve.
    pub window: Duration,
    /// From which the records and how often each is asked for follow, and with `draws` all random
    /// numbers.
    pub seed: u64,
    /// Which sequence of requests of that kind: two runs one after the other over the same records
    /// are to differ in it, or the second asks again for what the first has brought into memory.
    pub draws: u64,
    /// What the report says about the store.
    pub store: StoreLabels,
}

/// What the report says about the store; nothing here changes what is done.
#[derive(Clone, Debug, Default)]
pub struct StoreLabels {
    /// The structure, such as `tree`.
    pub structure: String,
    /// How many tiers it has.
    pub tiers: u8,
    /// The policy of the tiers.
    pub policy: String,
    /// How pages are compressed, such as `lz4`, if they are.
    pub compression: Option<String>,
    /// What a write promises, such as `buffered`.
    pub durability: String,
    /// The device that the disk is made to be as fast as, if it is.
    pub device: Option<Device>,
}

/// How long to run before measuring.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Warmup {
    /// Until it is steady, but no longer than this.
    Steady {
        /// The limit.
        at_most: Duration,
    },
    /// This long.
    Fixed(Duration),
}

/// Whether and how to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// In random order of keys, by all threads.
    Random,
    /// In order of keys, by one thread: an order is a property of one writer.
    Sorted,
    /// In random order of keys, given to the store by one thread as records to be loaded together: see
    /// [`Target::load`](crate::Target::load). Latencies are those of handing a record over; the time that the
    /// store takes behind the last one is in the throughput.
    Together,
    /// The records are there already.
    Skip,
}

impl Plan {
    /// How values look.
    pub fn values(&self) -> ValueShape {
        ValueShape {
            bytes: self.value_bytes,
            random: (self.value_bytes as f64 * self.value_random).round() as usize,
        }
    }

    /// A plan with the usual settings for a workload.
    pub fn new(workload: Workload, records: u64, memory_bytes: u64) -> Self {
        let distribution = match workload {
            Workload::Hotspot => Distribution::Hotspot {
                records: 0.1,
                accesses: 0.9,
            },
            _ => Distribution::Zipf { theta: 0.9 },
        };
        Plan {
            workload,
            distribution,
            records,
            value_bytes: 120,
            value_random: 1.0,
            layout: KeyLayout::Spaced,
            memory_bytes,
            threads: 4,
            together: MANY,
            duration: Duration::from_secs(30),
            moves: 1,
            warmup: Warmup::Steady {
                at_most: Duration::from_secs(600),
            },
            load: Load::Random,
            settle: true,
            checked_updates: false,
            audit: false,
            window: Duration::from_secs(1),
            seed: 1,
            draws: 0,
            store: StoreLabels::default(),
        }
    }

    /// The bytes of a key with its value.
    pub fn record_bytes(&self) -> u64 {
        KEY_BYTES + self.value_bytes as u64
    }

    /// What is wrong with it, if anything, and what to do.
    pub fn problem(&self) -> Option<String> {
        if let Some(problem) = self.distribution.problem() {
            return Some(problem);
        }
        if self.records == 0 || self.records > 1 << 48 {
            return Some(format!(
                "the number of records must be from 1 to 2^48, not {}",
                self.records
            ));
        }
        if self.value_bytes < LEAST_VALUE_BYTES || self.value_bytes > 64 << 20 {
            return Some(format!(
                "values must have from {LEAST_VALUE_BYTES} bytes (a version and a check, so that \
                 wrong reads are noticed) to 64 MiB, not {}",
                self.value_bytes
            ));
        }
        if !(0.0..=1.0).contains(&self.value_random) {
            return Some(format!(
                "the random share of a value must be from 0 to 1, not {}",
                self.value_random
            ));
        }
        if self.threads == 0 || self.threads > 1024 {
            return Some(format!(
                "the number of threads must be from 1 to 1024, not {}",
                self.threads
            ));
        }
        if !(1..=MOST_TOGETHER).contains(&self.together) {
            return Some(format!(
                "the number of records that are read together must be from 1 to {MOST_TOGETHER}, not {}",
                self.together
            ));
        }
        if !(1..=MOST_MOVES).contains(&self.moves) {
            return Some(format!(
                "the hot set moves from 1 to {MOST_MOVES} times, not {}",
                self.moves
            ));
        }
        if self.window < Duration::from_millis(10) {
            return Some("a window of the curve must be at least 10 ms long".into());
        }
        if self.workload == Workload::Load && self.load == Load::Skip {
            return Some("the workload load cannot skip loading; choose another workload".into());
        }
        if self.load == Load::Sorted && self.layout == KeyLayout::Hashed {
            return Some("hashed keys cannot be loaded in order; use spaced keys".into());
        }
        if self.workload != Workload::Load && self.duration.is_zero() {
            return Some("the time to measure must be longer than zero seconds".into());
        }
        None
    }

    /// Page reads per operation that no choice of records to hold in memory can beat.
    pub fn static_optimum(&self) -> Option<f64> {
        let best = self.memory_bytes / self.record_bytes();
        self.workload
            .has_static_optimum()
            .then(|| self.distribution.share_outside(self.records, best))
    }
}

/// A plan with what had to be computed *before* the store is opened, so that the memory that this
/// took is not mistaken for the store's.
#[derive(Clone, Debug)]
pub struct Prepared {
    pub(crate) plan: Plan,
    pub(crate) static_optimum: Option<f64>,
    pub(crate) resident_before_open: Option<u64>,
    pub(crate) peak_is_from_open: bool,
}

impl Prepared {
    /// Checks the plan, computes the optimum, and notes how much memory the process has so far.
    /// Open the store after this.
    pub fn new(plan: Plan) -> Result<Self, crate::Error> {
        if let Some(problem) = plan.problem() {
            return Err(crate::Error::Plan(problem));
        }
        let static_optimum = plan.static_optimum();
        let peak_is_from_open = resident::reset_peak();
        Ok(Prepared {
            plan,
            static_optimum,
            resident_before_open: resident::now(),
            peak_is_from_open,
        })
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_senseless_plan_is_refused_with_a_reason() {
        let good = Plan::new(Workload::C, 1000, 1 << 20);
        assert_eq!(good.problem(), None);
        type Spoil = fn(&mut Plan);
        let bad: [(&str, Spoil); 9] = [
            ("moves", |p| p.moves = 3),
            ("spaced", |p| {
                (p.load, p.layout) = (Load::Sorted, KeyLayout::Hashed)
            }),
            ("records", |p| p.records = 0),
            ("values", |p| p.value_bytes = 3),
            ("random share", |p| p.value_random = 1.5),
            ("threads", |p| p.threads = 0),
            ("window", |p| p.window = Duration::ZERO),
            ("seconds", |p| p.duration = Duration::ZERO),
            ("exponent", |p| {
                p.distribution = Distribution::Ycsb { theta: 1.2 }
            }),
        ];
        for (word, spoil) in bad {
            let mut plan = good.clone();
            spoil(&mut plan);
            let error = Prepared::new(plan).unwrap_err().to_string();
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn the_optimum_counts_keys_and_values() {
        let mut plan = Plan::new(Workload::C, 1000, 64_000);
        plan.distribution = Distribution::Uniform;
        assert_eq!(plan.static_optimum(), Some(0.5));
        plan.workload = Workload::E;
        assert_eq!(plan.static_optimum(), None);
    }
}
