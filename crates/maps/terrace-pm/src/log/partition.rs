//! What is known of a partition of the log.

use std::collections::VecDeque;

use super::format::Segment;

/// What is known of a partition.
#[derive(Default)]
pub struct Partition {
    /// From the tail to the head.
    pub segments: VecDeque<Segment>,
    /// Ordinal of the newest segment that ever was.
    pub last: u64,
    /// Records of the head.
    pub fill: u32,
    /// Records of the head that are durable.
    pub durable: u32,
    /// Blobs that are free once the tail has passed this ordinal: as long as a record refers to a blob its
    /// place is not used again, or an old record could be taken for a newer one (rule 12).
    pub(super) limbo: VecDeque<(u64, Vec<u64>)>,
    /// How many these are.
    pub(super) in_limbo: usize,
    /// Segments that the tail has passed; free once it is durable, with the next fence of the partition.
    pub(super) passed: VecDeque<Segment>,
}
