//! Where steps go on.

use super::root::MOST_LEVELS;

/// Where the next step from the top and from each level begins. Hints: lost at an opening.
#[derive(Default)]
pub(crate) struct Cursors {
    pub at: [Vec<u8>; MOST_LEVELS + 1],
    pub purging: Purging,
    /// Steps since the last one from the top.
    pub below: u32,
    /// The level that steps take from now.
    pub run: usize,
}

/// Where a round that takes tombstones down stands. A hint: lost at an opening, where what is left waits for the next one.
#[derive(Default)]
pub(crate) struct Purging {
    pub at: Option<Vec<u8>>,
    /// Deletes before the last round began.
    pub deletes: u64,
    /// Tombstones that the top had then.
    pub of_top: u64,
    /// Whether one has begun since the opening: what the top has from before is not counted.
    pub has_begun: bool,
}
