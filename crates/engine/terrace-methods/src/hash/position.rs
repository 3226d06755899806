//! Positions: where keys stand in the order of hashes.

use terrace_access::Edge;

/// Bytes of a position in front of the key: the hash, highest byte first.
pub const HASH_BYTES: usize = 8;

/// The hash that a position begins with; what is missing of it counts as zero.
pub(super) fn hash_at(position: &[u8]) -> u64 {
    let mut bytes = [0; HASH_BYTES];
    let len = position.len().min(HASH_BYTES);
    bytes[..len].copy_from_slice(&position[..len]);
    u64::from_be_bytes(bytes)
}

/// A hash whose bucket covers the positions at an edge.
pub(super) fn hash_of_edge(edge: Edge<'_>) -> u64 {
    match edge {
        Edge::From(position) => hash_at(position),
        // The empty key has the lowest position of its hash: below it is the hash before.
        Edge::Below(position) if position.len() <= HASH_BYTES => {
            hash_at(position).saturating_sub(1)
        }
        Edge::Below(position) => hash_at(position),
        Edge::End => u64::MAX,
    }
}
