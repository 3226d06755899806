//! What the writer of a record holds: the space for it before it is appended, and its place in the log afterwards.

use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::record_space;
use crate::state::State;

/// Space for records, held until it is used up or dropped.
#[must_use = "space is held only as long as the reservation lives"]
pub struct Reservation<'a> {
    log: &'a Log,
    /// Segment bytes left of it.
    space: u64,
    /// Buffer bytes left of it; none if the record is streamed.
    buffer: usize,
    streamed: bool,
}

impl<'a> Reservation<'a> {
    /// What was promised under the mutex, or by the lane.
    #[inline(always)]
    pub(crate) fn new(log: &'a Log, space: u64, buffer: usize, streamed: bool) -> Reservation<'a> {
        Reservation {
            log,
            space,
            buffer,
            streamed,
        }
    }
}

impl Reservation<'_> {
    /// Whether the records are written while they are appended, because they are too long for the
    /// buffer. Appending then takes as long as writing does and holds the whole log.
    pub fn is_streamed(&self) -> bool {
        self.streamed
    }

    /// Space of one record of `len` bytes that goes to the lane; `None` if there is too little.
    #[inline(always)]
    pub(crate) fn in_lane(&self, len: usize) -> Option<usize> {
        let wanted = record_space(len);
        (!self.streamed && wanted <= self.space).then_some(wanted as usize)
    }

    /// A record with this space went to the lane, which counts what was used up.
    #[inline(always)]
    pub(crate) fn went_to_lane(&mut self, space: usize) {
        self.space -= space as u64;
        self.buffer -= space;
    }

    /// Takes the space of one record; `false` if there is too little.
    pub(crate) fn consume(&mut self, state: &mut State, len: usize) -> bool {
        let wanted = record_space(len);
        let covered = wanted <= self.space;
        // What the block headers of a streamed record take is given back with the rest.
        let space = if self.streamed {
            self.space
        } else {
            wanted.min(self.space)
        };
        self.give_back(state, space);
        covered
    }

    fn give_back(&mut self, state: &mut State, space: u64) {
        state.reserved -= space;
        self.space -= space;
        let buffer = self.buffer.min(space as usize);
        state.reserved_buffer -= buffer;
        self.buffer -= buffer;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if self.space > 0 {
            let mut state = self.log.state.lock();
            let space = self.space;
            self.give_back(&mut state, space);
            if state.buffer_waiters > 0 {
                self.log.written.notify_all();
            }
        }
    }
}

impl std::fmt::Debug for Reservation<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reservation")
            .field("space", &self.space)
            .field("streamed", &self.streamed)
            .finish()
    }
}

/// A record that is in the buffer; hand it to [`Log::commit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[must_use = "a record is acknowledged only by a commit"]
pub struct Appended {
    /// Its place in the commit order.
    pub sequence: u64,
    /// Where it ends in the log.
    pub end: Lsn,
    /// How many pieces of a lane were taken before it, if it is one.
    pub(crate) piece: u16,
}

/// It is no piece of a lane.
pub(crate) const NO_PIECE: u16 = u16::MAX;

/// The end of a record that was not appended: no commit ever reaches it.
pub(crate) const NOWHERE: Lsn = Lsn::from_raw(u64::MAX);
