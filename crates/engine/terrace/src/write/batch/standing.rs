//! What a batch rests on that is not locked while it is written: what a transaction has read.

use std::sync::Arc;

use terrace_tier::{Watch, WriteReservation};

/// Asked while a batch is written.
pub trait Standing {
    /// Whether all that was read is still so. Asked just before the batch has its place in the order of
    /// commits, while no other thread gets one: it must not wait. `ours` says of a record lock whether the
    /// batch holds it.
    fn stands(&self, ours: &dyn Fn(usize) -> bool) -> bool;

    /// Whether it is the one that claims this, which then is no hindrance.
    fn claims(&self, claim: &Arc<WriteReservation>) -> bool;

    /// The batch itself writes in this watched range, which may be one of what it rests on.
    fn writes_in(&self, watch: &Arc<Watch>);
}
