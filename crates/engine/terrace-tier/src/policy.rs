//! Which records the hot tier takes in and which it lets go: one small trait, two policies.
//!
//! The figures behind the default come from simulating the state that decides page reads
//! (docs/decisions/policies.md).

use terrace_access::Flags;

/// What is known when a record was read from the cold tier and could be promoted.
#[derive(Clone, Copy, Debug)]
pub struct Admission {
    /// The hot tier is at its cap.
    pub full: bool,
    /// 32 random bits.
    pub random: u32,
    /// Levels that were asked for it; 0 where there are none, and in what lies above them.
    pub depth: u8,
    /// Whether a page was read from disk for it.
    pub missed: bool,
}

/// The choices that differ between policies.
pub trait Policy: Send + Sync {
    /// Its name, as options and statistics show it.
    fn name(&self) -> &'static str;
    /// Whether to try to promote.
    fn admit(&self, admission: Admission) -> bool;
    /// Use count of a record that comes in, of which it is known that it was asked for so often.
    fn newcomer(&self, asked: u8) -> u8;
    /// Highest use count that matters.
    fn most_uses(&self) -> u8;
    /// Whether a record that comes to a full leaf displaces one of the same leaf.
    fn replaces_in_leaf(&self) -> bool;
    /// Whether a record that was only read, and asked for so often, displaces one with this use count.
    fn displaces(&self, asked: u8, uses: u8) -> bool;
    /// Share of the records that count as idle even if they were used: those used least.
    fn idle_share(&self) -> f64;
    /// Fill up to which the sweep packs leaves; 0 when it does not pack.
    fn pack_fill(&self) -> f64;
    /// Accesses to the whole structure, in multiples of its number of records, in which the ageing
    /// looks once at all hot leaves; infinite when only need drives the sweep.
    fn accesses_per_look(&self) -> f64;
    /// Misses of the hot tier, in multiples of the number of records of the whole structure, in which
    /// every use count falls by one.
    fn misses_per_ageing(&self) -> f64;
    /// Idle dirty records of one cold page that make it worth while to write them when the page has
    /// been read anyway; 0 for never.
    fn write_along(&self) -> usize;

    /// Whether the hot tier is a memtable: what makes room goes down, clean records too, but for those that
    /// may stay, which are at most such a share of a leaf. `None` where clean records are just dropped.
    fn flushes(&self) -> Option<f64> {
        None
    }
    /// Share of the memory, in per mille of the most, that the hot tier has for good; `None` where the misses
    /// decide.
    fn hot_share(&self) -> Option<u32> {
        None
    }
    /// Whether who has read a record makes room for it in a full hot tier, as who writes one does.
    fn makes_room(&self) -> bool {
        false
    }
    /// A record of this hash was looked up, in `_depth` levels; `missed` where a page was read for it. Called
    /// only where [`Policy::observes`].
    fn note_lookup(&self, _hash: u64, _depth: u8, _missed: bool) {}
    /// Whether lookups and the course of time matter.
    fn observes(&self) -> bool {
        false
    }
    /// Some time has passed; the structure has as many levels as `_levels` says.
    fn pass_time(&self, _levels: &dyn Fn() -> usize) {}
}

/// The default: three-bit counts, a cold record displaces a hot one of its leaf if it was asked for
/// more often, ageing by misses, packing, writing along.
///
/// By misses, so that what was learned lasts as long as it is right: when other records become hot,
/// there are more misses, and the old ones are forgotten that much faster.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeafLocal;

impl Policy for LeafLocal {
    fn name(&self) -> &'static str {
        "default"
    }

    fn admit(&self, _: Admission) -> bool {
        true
    }

    fn newcomer(&self, asked: u8) -> u8 {
        asked.min(Flags::MAX_USE)
    }

    fn most_uses(&self) -> u8 {
        Flags::MAX_USE
    }

    fn replaces_in_leaf(&self) -> bool {
        true
    }

    fn displaces(&self, asked: u8, uses: u8) -> bool {
        asked > uses
    }

    fn idle_share(&self) -> f64 {
        0.2
    }

    fn pack_fill(&self) -> f64 {
        0.95
    }

    fn accesses_per_look(&self) -> f64 {
        3.0
    }

    fn misses_per_ageing(&self) -> f64 {
        0.4
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

    fn newcomer(&self, _: u8) -> u8 {
        1
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
}
