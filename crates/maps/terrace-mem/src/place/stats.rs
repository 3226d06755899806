//! Where a map lies, for people and programs.

use std::fmt;

/// Where the bytes of a map lie, what its lookups found there, and what was moved.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct MapPlacement {
    /// Names of the memories, fast and slow; none if there is one kind.
    pub memories: Vec<String>,
    /// What there is to say, as that a machine has one kind.
    pub notes: Vec<String>,
    /// Fast bytes that are allowed; none: all.
    pub limit: Option<u64>,
    /// Bytes of the dynamic stage, the headers and the bounds, which are always fast.
    pub always_fast: u64,
    /// Bytes of segments in fast memory.
    pub fast_segments: u64,
    /// Of these, keys of segments whose values are slow: some stages cannot place theirs.
    pub fast_keys: u64,
    /// Bytes of segments in slow memory.
    pub slow_segments: u64,
    /// Bytes of copies of hot entries, in fast memory.
    pub copies: u64,
    /// The most fast bytes that were ever seen.
    pub peak: u64,
    /// Bytes that were asked of slow memory, with what is free in them.
    pub committed: u64,
    /// Reads of the static stage that were noted, one in eight: of fast segments, of slow ones, and
    /// answered by copies. A piece of a range that is read at once counts as one.
    pub noted: [u64; 3],
    /// Segments that went to fast memory.
    pub promoted: u64,
    /// Segments that went to slow memory.
    pub demoted: u64,
    /// How often a segment stayed in fast memory since slow memory was refused or full: beyond the
    /// limit, if need be.
    pub refused: u64,
    /// Moves put off because a part was being merged.
    pub busy: u64,
    /// How often the bytes were divided anew.
    pub periods: u64,
    /// Copies of entries that were made, or given up for hotter ones.
    pub copied: u64,
}

impl MapPlacement {
    /// Fast bytes in use.
    pub fn fast(&self) -> u64 {
        self.always_fast + self.fast_segments + self.copies
    }

    /// The share of noted lookups of the static stage that waited for slow memory.
    pub fn slow_share(&self) -> f64 {
        let [fast, slow, copies] = self.noted;
        slow as f64 / (fast + slow + copies).max(1) as f64
    }
}

impl fmt::Display for MapPlacement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = |bytes: u64| bytes as f64 / (1 << 20) as f64;
        match &self.memories[..] {
            [fast, slow] => {
                write!(f, "fast: {fast}, {:.1} MiB", mib(self.fast()))?;
                if let Some(limit) = self.limit {
                    write!(f, " of {:.1} allowed", mib(limit))?;
                }
                writeln!(
                    f,
                    " (always fast {:.1}, segments {:.1}, copies {:.1}); slow: {slow}, {:.1} MiB",
                    mib(self.always_fast),
                    mib(self.fast_segments),
                    mib(self.copies),
                    mib(self.slow_segments)
                )?;
                writeln!(
                    f,
                    "noted lookups that waited for slow memory: {:.1} %; segments moved: {} up, {} \
                     down, in {} periods; put off: {} busy, {} refused",
                    self.slow_share() * 100.0,
                    self.promoted,
                    self.demoted,
                    self.periods,
                    self.busy,
                    self.refused
                )?;
            }
            _ => writeln!(f, "one kind of memory")?,
        }
        for note in &self.notes {
            writeln!(f, "{note}")?;
        }
        Ok(())
    }
}
