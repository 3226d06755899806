//! Which dynamic structure takes the writes of a map, and which compact form it becomes.

use crate::plan::Stage;

/// A pair of structures (section 4 of the paper): the dynamic one that takes all writes, and the
/// compact static one that its entries move to, where [`Options::stage`](crate::Options::stage) is
/// [`Stage::Auto`]. Any other stage may be named under any pair.
///
/// | pair | dynamic stage | static stage |
/// | --- | --- | --- |
/// | `Auto` | B+tree | chosen for each segment by its keys |
/// | `BTree` | B+tree | [`Stage::CompactBTree`] |
/// | `SkipList` | paged skip list | [`Stage::CompactSkipList`] |
/// | `Masstree` | layers of words of seven bytes | [`Stage::CompactMasstree`] |
/// | `Art` | adaptive radix tree | [`Stage::CompactArt`] |
///
/// The last three are there with the feature `pairs`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Pair {
    /// What is best for most: take this.
    #[default]
    Auto,
    /// The B+tree of the paper.
    BTree,
    /// The skip list of the paper, of pages. On one thread it has no advantage over `BTree`.
    #[cfg(feature = "pairs")]
    SkipList,
    /// The trie of B+trees. For integers, which are one word, it is the B+tree.
    #[cfg(feature = "pairs")]
    Masstree,
    /// The adaptive radix tree.
    #[cfg(feature = "pairs")]
    Art,
}

impl Pair {
    /// All pairs that there are in this build.
    pub const ALL: &[Pair] = &[
        Pair::Auto,
        Pair::BTree,
        #[cfg(feature = "pairs")]
        Pair::SkipList,
        #[cfg(feature = "pairs")]
        Pair::Masstree,
        #[cfg(feature = "pairs")]
        Pair::Art,
    ];

    /// The static stage that a map of this pair has where `asked` is asked for.
    pub(crate) fn stage(self, asked: Stage) -> Stage {
        match (asked, self) {
            (Stage::Auto, Pair::Auto) => Stage::Auto,
            (Stage::Auto, Pair::BTree) => Stage::CompactBTree,
            #[cfg(feature = "pairs")]
            (Stage::Auto, Pair::SkipList) => Stage::CompactSkipList,
            #[cfg(feature = "pairs")]
            (Stage::Auto, Pair::Masstree) => Stage::CompactMasstree,
            #[cfg(feature = "pairs")]
            (Stage::Auto, Pair::Art) => Stage::CompactArt,
            (stage, _) => stage,
        }
    }
}
