//! Where the clocks stand that go over all frames.

use terrace_base::sync::atomic::{AtomicU32, AtomicU64};

/// Hints, in relaxed numbers.
#[derive(Default)]
pub(crate) struct Clock {
    /// Of who looks for a page that can leave.
    pub hand: AtomicU32,
    /// Inner pages that it passed by.
    pub passes: AtomicU64,
    /// Of who looks for a page to be written.
    pub clean_hand: AtomicU32,
}
