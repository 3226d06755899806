//! What its callers have to know of a method before they call it.

/// Known when the code is compiled, so a question costs nothing while it runs, and what does not apply is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Whether a change is made without looking for what was there before: then an edit knows of a record
    /// only if it is where changes are gathered, and erases by a mark, whether there is anything to erase or
    /// not. A large value that is replaced further below is freed by the method itself.
    pub blind: bool,
    /// Pages that a change makes dirty where the records lie: a leaf. Others that may come to it now and then,
    /// above it or beside it, are not counted.
    pub dirty_each: u64,
    /// Bytes of a position that come before the key.
    pub position_prefix: usize,
    /// Whether it can be gone through in the order of positions. Where it cannot, a position is a range
    /// by itself, and whoever asks for a window of records gets an error.
    pub scans: bool,
    /// Whether an index leads to the records, which lie on other pages than its leaves: so in a heap. The
    /// leaves that lead to a record of a lower tier are of no use as soon as it is found above.
    pub indexed: bool,
    /// Whether what a record leaves is room for any other, wherever that lies in the order: so in a
    /// heap. Else it is room for the other records of the same page alone.
    pub shares_room: bool,
    /// Whether ranges can be cut out of it; see [`crate::RangeDeletes`].
    pub cuts: bool,
}

impl Capabilities {
    /// Those of a method that finds records by key, in the order of the keys, on the pages where they lie.
    pub const PLAIN: Capabilities = Capabilities {
        blind: false,
        dirty_each: 1,
        position_prefix: 0,
        scans: true,
        indexed: false,
        shares_room: false,
        cuts: false,
    };
}
