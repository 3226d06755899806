//! Places in the log: a byte address, and the position where recovery starts.

use terrace_base::codec::Reader;

/// Address of a byte in the log: the segment's number above, the offset in its file below, so that
/// addresses compare as the log runs. (They are not dense: no segment is 4 GiB long.)
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// The byte at `offset` of segment `segment`.
    pub fn new(segment: u32, offset: u32) -> Lsn {
        Lsn((segment as u64) << 32 | offset as u64)
    }

    /// As it stands in the log.
    pub const fn from_raw(raw: u64) -> Lsn {
        Lsn(raw)
    }

    /// As it stands in the log.
    pub fn raw(self) -> u64 {
        self.0
    }

    /// The segment's number.
    pub fn segment(self) -> u32 {
        (self.0 >> 32) as u32
    }

    /// The offset in the segment's file.
    pub fn offset(self) -> u32 {
        self.0 as u32
    }
}

impl std::fmt::Debug for Lsn {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:x}:{}", self.segment(), self.offset())
    }
}

/// Where recovery starts: the cut C of a checkpoint.
///
/// It may lie behind the durable end of the log, since a checkpoint does not wait for the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Position {
    /// Number of the segment.
    pub segment: u64,
    /// Byte offset in its file, where a block begins or will begin.
    pub offset: u64,
    /// Sequence number of the first record there.
    pub sequence: u64,
}

impl Position {
    /// Bytes that [`Position::encode`] gives.
    pub const ENCODED_BYTES: usize = 24;

    /// Three little-endian numbers: segment, offset, sequence.
    pub fn encode(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut out = [0; Self::ENCODED_BYTES];
        out[..8].copy_from_slice(&self.segment.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..].copy_from_slice(&self.sequence.to_le_bytes());
        out
    }

    /// What [`Position::encode`] made; `None` if `bytes` is too short.
    pub fn decode(bytes: &[u8]) -> Option<Position> {
        let mut reader = Reader::new(bytes);
        Some(Position {
            segment: reader.u64()?,
            offset: reader.u64()?,
            sequence: reader.u64()?,
        })
    }

    /// The address, or `None` if no log can have it.
    pub(crate) fn lsn(&self) -> Option<Lsn> {
        Some(Lsn::new(
            u32::try_from(self.segment).ok()?,
            u32::try_from(self.offset).ok()?,
        ))
    }

    pub(crate) fn new(at: Lsn, sequence: u64) -> Position {
        Position {
            segment: at.segment() as u64,
            offset: at.offset() as u64,
            sequence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_comes_back_from_its_bytes() {
        let position = Position {
            segment: 3,
            offset: 1 << 20,
            sequence: u64::MAX,
        };
        assert_eq!(Position::decode(&position.encode()), Some(position));
        assert_eq!(Position::decode(&position.encode()[..23]), None);
    }

    #[test]
    fn addresses_compare_as_the_log_runs() {
        assert!(Lsn::new(1, u32::MAX) < Lsn::new(2, 0));
        assert_eq!(Lsn::new(7, 9).segment(), 7);
        assert_eq!(Lsn::new(7, 9).offset(), 9);
    }
}
