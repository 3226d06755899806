//! Who keeps segments of the log from being put aside, and which.

use crate::lsn::Lsn;

/// Keeps segments of the log from being put aside.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub struct HoldId(u64);

/// What a hold keeps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) id: HoldId,
    /// The first segment that it keeps.
    pub(crate) segment: u32,
    /// Bytes of files before the last cut that it may keep.
    pub(crate) most: u64,
}

/// All holds of a log.
#[derive(Default)]
pub(crate) struct Holds {
    pub(crate) held: Vec<Hold>,
    given_out: u64,
    /// Segments before this one only holds keep.
    pub(crate) cut: u64,
    /// Bytes of files before the cut that stay for who reads them later.
    pub(crate) retained: u64,
    /// The cut from which the log was recovered.
    pub(crate) opened_at: Lsn,
}

impl Holds {
    /// None, but `retained` bytes before the cut stay.
    pub(crate) fn retaining(retained: u64) -> Holds {
        Holds {
            retained,
            ..Holds::default()
        }
    }

    pub(crate) fn add(&mut self, segment: u32, most: u64) -> HoldId {
        self.given_out += 1;
        let id = HoldId(self.given_out);
        self.held.push(Hold { id, segment, most });
        id
    }
}
