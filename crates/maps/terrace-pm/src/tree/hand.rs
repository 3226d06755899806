//! Where the cleaner of the log stands.

use crate::log::Segment;

/// Where the cleaner stands.
#[derive(Default)]
pub struct Hand {
    pub at: Option<(u32, Segment)>,
    pub next: u32,
    /// Writes for which it has waited until copies are durable.
    pub waited: u32,
}
