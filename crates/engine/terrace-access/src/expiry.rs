//! What tells tiers and methods which of their records have expired, so that they may drop them. What such a
//! record is replaced by is a deletion, and nothing is logged for it: readers see neither.

use crate::Value;

/// Who has dropped a record that had expired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DroppedBy {
    /// Who made room in the hot tier.
    Demotion,
    /// A merge of levels.
    Merge,
    /// A round that looks for them.
    Round,
}

/// Tells which records have expired, so that tiers and methods may drop them. The values are as they are stored.
pub trait Expiry: Send + Sync {
    /// Whether a record with this value has expired. Of a large one that may not be known yet.
    fn is_over(&self, value: Value<'_>) -> bool;

    /// Whether who drops what has expired elsewhere may have dropped a record with this value.
    fn may_be_dropped(&self, value: Value<'_>) -> bool {
        self.is_over(value)
    }

    /// When a value that is to lie in pages of its own is gone for certain; see [`crate::LargeRef::gone`].
    fn gone(&self, value: &[u8]) -> u32;

    /// `records` records were dropped.
    fn note_dropped(&self, by: DroppedBy, records: u64);
}
