//! Redis' own form of values, in its files (RDB) and in what DUMP answers: read into the commands that make a value
//! anew, and written.

pub mod crc;
pub mod file;
pub mod packed;
pub mod read;
pub mod source;
pub mod write;

/// The version of the format that is written; Redis 7.0's.
pub const WRITTEN: u16 = 10;
/// The version from which on fields of a hash may expire.
pub const WITH_LEASES: u16 = 12;
/// The newest version that is read.
pub const NEWEST: u16 = 12;

/// The kinds of values, as their first byte says them.
pub mod kind {
    /// A string.
    pub const TEXT: u8 = 0;
    /// A list, element by element.
    pub const LIST: u8 = 1;
    /// A set, member by member.
    pub const SET: u8 = 2;
    /// A sorted set whose scores are text.
    pub const SORTED_TEXT: u8 = 3;
    /// A hash, field by field.
    pub const HASH: u8 = 4;
    /// A sorted set.
    pub const SORTED: u8 = 5;
    /// A hash in one string, of before 2.6.
    pub const HASH_ZIPMAP: u8 = 9;
    /// A list in one ziplist.
    pub const LIST_ZIPLIST: u8 = 10;
    /// A set of whole numbers.
    pub const SET_NUMBERS: u8 = 11;
    /// A sorted set in one ziplist.
    pub const SORTED_ZIPLIST: u8 = 12;
    /// A hash in one ziplist.
    pub const HASH_ZIPLIST: u8 = 13;
    /// A list of ziplists.
    pub const LIST_ZIPLISTS: u8 = 14;
    /// A stream.
    pub const STREAM_1: u8 = 15;
    /// A hash in one listpack.
    pub const HASH_LISTPACK: u8 = 16;
    /// A sorted set in one listpack.
    pub const SORTED_LISTPACK: u8 = 17;
    /// A list of listpacks and large elements.
    pub const LIST_LISTPACKS: u8 = 18;
    /// A stream that knows how many entries it has had.
    pub const STREAM_2: u8 = 19;
    /// A set in one listpack.
    pub const SET_LISTPACK: u8 = 20;
    /// A stream that knows when its consumers were last given something.
    pub const STREAM_3: u8 = 21;
    /// A hash whose fields may expire.
    pub const HASH_LEASES: u8 = 24;
    /// The same in one listpack.
    pub const HASH_LEASES_LISTPACK: u8 = 25;
}
