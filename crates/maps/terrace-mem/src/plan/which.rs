//! The static stages that there are, by name.

/// A static stage, to ask for or to be told of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Stage {
    /// Chosen for each segment by its keys; see the rule in the guide.
    #[default]
    Auto,
    /// Full nodes without pointers. All keys.
    CompactBTree,
    /// The same with every sixteenth key a level higher, as the towers of a skip list have it. All keys.
    #[cfg(feature = "pairs")]
    CompactSkipList,
    /// Layers of words of seven bytes. All keys.
    #[cfg(feature = "pairs")]
    CompactMasstree,
    /// A radix tree without room to grow. All keys.
    #[cfg(feature = "pairs")]
    CompactArt,
    /// Blocks searched by vector compares. Integers.
    STree,
    /// A bit for each number of a chunk of 256. Integers.
    Bitmap,
    /// A table of ranks by high bits, low bits packed. Integers without crowded buckets; others
    /// get Elias-Fano.
    Buckets,
    /// High bits in unary, low bits packed. Integers.
    EliasFano,
    /// Blocks of keys without what they share with their predecessor. Byte strings.
    FrontCoded,
    /// Leaves under lz4 with a cache of decompressed ones. All keys.
    #[cfg(feature = "compressed")]
    Compressed,
}

impl Stage {
    /// Whether it is one of the compact tries.
    pub(crate) fn is_trie(self) -> bool {
        match self {
            #[cfg(feature = "pairs")]
            Stage::CompactMasstree | Stage::CompactArt => true,
            _ => false,
        }
    }

    /// Whether it takes any number of keys.
    pub(crate) fn may_be_whole(self) -> bool {
        // As those do that take keys of either form.
        !matches!(
            self,
            Stage::Auto
                | Stage::STree
                | Stage::Bitmap
                | Stage::Buckets
                | Stage::EliasFano
                | Stage::FrontCoded
        )
    }
}
