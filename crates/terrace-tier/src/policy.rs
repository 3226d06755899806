//! Which records the hot tier takes in and which it lets go: one small trait, two policies.
//!
//! The figures behind the default come from simulating the state that decides page reads
//! (ARCHITECTURE.md, "Policies"): leaf-local replacement with local ageing, and a slow ageing pass
//! over all hot leaves, are worth more than any cleverer estimate of frequency.

use terrace_base::{Error, Result};

/// What is known when a record was read from the cold tier and could be promoted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The hot tier is at its cap.
    pub full: bool,
    /// 32 random bits.
    pub random: u32,
}

/// The choices that differ between policies.
pub trait Policy: Send + Sync {
    /// Its name, as options and statistics show it.
    fn name(&self) -> &'static str;
    /// Whether to promote.
    fn admit(&self, admission: Admission) -> bool;
    /// Use count of a record that comes in.
    fn newcomer(&self) -> u8;
    /// Highest use count that matters.
    fn most_uses(&self) -> u8;
    /// Whether a record that comes to a full leaf displaces one of the same leaf.
    fn replaces_in_leaf(&self) -> bool;
    /// Fill up to which the sweep packs leaves; 0 when it does not pack.
    fn pack_fill(&self) -> f64;
    /// Reads of the whole structure, in multiples of its number of records, in which an ageing
    /// pass goes once over all hot leaves; infinite when only need drives the sweep.
    fn ageing_reads_per_record(&self) -> f64;
    /// Unused dirty records of one cold page that make it worth while to write them when the page
    /// has been read anyway; 0 for never.
    fn write_along(&self) -> usize;
}

/// The default: two-bit counts, every cold read promotes but newcomers start at 0, leaf-local
/// replacement, packing, writing along.
///
/// A newcomer that nobody uses again is the next to go, so admitting costs little, and it is the
/// cheapest memory of a first access there is. (A touch bit in the cold page cannot be that memory:
/// the page has left before the second access in 99 of 100 cases.)
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafLocal;

impl Policy for LeafLocal {
    fn name(&self) -> &'static str {
        "default"
    }

    fn admit(&self, _: Admission) -> bool {
        true
    }

    fn newcomer(&self) -> u8 {
        0
    }

    fn most_uses(&self) -> u8 {
        3
    }

    fn replaces_in_leaf(&self) -> bool {
        true
    }

    fn pack_fill(&self) -> f64 {
        0.95
    }

    fn ageing_reads_per_record(&self) -> f64 {
        3.0
    }

    fn write_along(&self) -> usize {
        5
    }
}

/// The paper's: admission by a coin, one reference bit, a clock over the leaves that evicts what is
/// not referenced and merges neighbours.
#[derive(Clone, Copy, Debug)]
pub struct Sampled {
    /// Share of cold reads that promote, in per mille.
    pub admit_per_mille: u32,
}

impl Default for Sampled {
    fn default() -> Self {
        // The paper's rate F for its main experiments.
        Sampled {
            admit_per_mille: 300,
        }
    }
}

impl Policy for Sampled {
    fn name(&self) -> &'static str {
        "paper"
    }

    fn admit(&self, a: Admission) -> bool {
        a.random % 1000 < self.admit_per_mille
    }

    fn newcomer(&self) -> u8 {
        1
    }

    fn most_uses(&self) -> u8 {
        1
    }

    fn replaces_in_leaf(&self) -> bool {
        false
    }

    fn pack_fill(&self) -> f64 {
        0.95
    }

    fn ageing_reads_per_record(&self) -> f64 {
        f64::INFINITY
    }

    fn write_along(&self) -> usize {
        0
    }
}

/// The policy of this name: `default` or `paper`.
pub fn policy_named(name: &str) -> Result<Box<dyn Policy>> {
    match name {
        "default" => Ok(Box::new(LeafLocal)),
        "paper" => Ok(Box::new(Sampled::default())),
        other => Err(Error::invalid(format!(
            "there is no policy named \"{other}\"; choose \"default\" or \"paper\""
        ))),
    }
}
