//! Where the bytes of a map are.

/// Heap bytes of a map by part, without what values own outside of their own size.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemoryUsage {
    /// Nodes of the dynamic stage: keys, values and slack.
    pub dynamic: usize,
    /// Keys of the static stage.
    pub static_keys: usize,
    /// Values of the static stage.
    pub static_values: usize,
    /// Bounds and headers of the segments.
    pub directory: usize,
    /// The Bloom filter.
    pub filter: usize,
    /// Where keys that were looked up are, of byte strings.
    pub shortcuts: usize,
    /// Decompressed nodes.
    pub cache: usize,
    /// Copies of hot entries, of a map over two kinds of memory.
    pub copies: usize,
}

impl MemoryUsage {
    /// All of it.
    pub fn total(&self) -> usize {
        self.dynamic
            + self.static_keys
            + self.static_values
            + self.directory
            + self.filter
            + self.shortcuts
            + self.cache
            + self.copies
    }
}
