//! Numbers with a meaning: pages and structures.

/// The number of a page: logical, so a page keeps its number wherever it lies.
///
/// At most 40 bits are used (see [`PageId::MAX`]); the page table word has no room for more.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PageId(pub u64);

impl PageId {
    /// The largest page number: 2⁴⁰ − 2 (the last one is kept as "no page").
    pub const MAX: PageId = PageId((1 << 40) - 2);
    /// Stands for "no page", for example at the end of a chain.
    pub const NONE: PageId = PageId((1 << 40) - 1);

    /// Whether this is [`PageId::NONE`].
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }
}

impl std::fmt::Debug for PageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.is_none() {
            f.write_str("page -")
        } else {
            write!(f, "page {}", self.0)
        }
    }
}

impl std::fmt::Display for PageId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(self, f)
    }
}

/// The number of a named structure; given out once and never again, so a log record can never
/// reach a structure that was made later.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct StructureId(pub u32);

impl std::fmt::Display for StructureId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "structure {}", self.0)
    }
}
