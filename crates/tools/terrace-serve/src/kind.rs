//! The kinds of values: the store keeps them, and clients wait for a value of one of them.
//!
//! Invariant: the number of a kind is in every record of a key, so it never changes.

/// What a key holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// A string, its bytes in the head.
    Text = 1,
    /// A hash.
    Hash = 2,
    /// A set.
    Set = 3,
    /// A sorted set.
    Sorted = 4,
    /// A list.
    List = 5,
    /// A stream.
    Stream = 6,
}

impl Kind {
    /// As `TYPE` says it.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Text => "string",
            Kind::Hash => "hash",
            Kind::Set => "set",
            Kind::Sorted => "zset",
            Kind::List => "list",
            Kind::Stream => "stream",
        }
    }

    /// The kind that a byte of a record says, if any.
    pub fn of(byte: u8) -> Option<Kind> {
        [
            Kind::Text,
            Kind::Hash,
            Kind::Set,
            Kind::Sorted,
            Kind::List,
            Kind::Stream,
        ]
        .into_iter()
        .find(|kind| *kind as u8 == byte)
    }
}
