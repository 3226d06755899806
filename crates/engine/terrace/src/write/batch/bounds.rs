//! A range that goes with a batch, and its place among the changes.

/// The range that goes with a batch.
pub(super) struct Range {
    /// The number of its structure in the batch.
    pub(super) structure: u32,
    pub(super) low: Vec<u8>,
    pub(super) high: Option<Vec<u8>>,
    /// Bytes of the payload that come before it.
    pub(super) payload: usize,
    /// Changes that come before it.
    pub(super) operations: usize,
}

impl Range {
    /// The number of its structure in the batch, and its first key.
    pub(super) fn place(&self) -> (u32, &[u8]) {
        (self.structure, &self.low)
    }

    /// Whether a key lies in it.
    pub(super) fn covers(&self, key: &[u8]) -> bool {
        self.low.as_slice() <= key && self.high.as_deref().is_none_or(|high| key < high)
    }
}
