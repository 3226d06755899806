//! How much is tested, and with how much memory.

use super::Fixture;

/// How much is tested.
#[derive(Clone, Copy, Debug)]
pub struct Effort {
    /// Operations of each random run.
    pub operations: usize,
    /// Records of each load.
    pub records: usize,
    /// Page sizes.
    pub page_sizes: &'static [usize],
    /// Seeds begin here.
    pub seed: u64,
}

impl Effort {
    /// A few seconds.
    pub const SHORT: Effort = Effort {
        operations: 3_000,
        records: 3_000,
        page_sizes: &[4096, 16384],
        seed: 1,
    };
    /// A minute or so.
    pub const FULL: Effort = Effort {
        operations: 12_000,
        records: 12_000,
        page_sizes: &[4096, 8192, 16384, 65536],
        seed: 1,
    };
}

/// Frames for a test: everything for a tier that stays in memory, or else so few that pages come
/// and go.
pub(super) fn memory_pages<F: Fixture>(fixture: &F, page_bytes: usize, effort: Effort) -> usize {
    if fixture.resident() {
        plenty_of_pages(page_bytes, effort)
    } else {
        160
    }
}

/// Frames for everything that a test makes, and more.
pub(super) fn plenty_of_pages(page_bytes: usize, effort: Effort) -> usize {
    // A kilobyte for each record is more than any test has, twice over.
    400 + effort.records * 2048 / page_bytes
}
