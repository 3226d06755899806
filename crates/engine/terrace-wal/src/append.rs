//! Appending: a place in the order, and a copy. Neither fails nor waits; while the lane is open, neither takes the
//! mutex.

use terrace_base::sync::MutexGuard;
use terrace_base::{Error, Result};

use crate::log::Log;
use crate::record::{Appended, NO_PIECE, NOWHERE, Reservation};
use crate::state::State;

impl Log {
    /// Appends a record, the concatenation of `parts`, using up space of the reservation. The
    /// sequence number is its place in the commit order.
    ///
    /// Neither fails nor waits. (If the log is poisoned the record goes nowhere, and its commit
    /// says so; the same if the reservation does not cover it.) The exception is a record that is
    /// too long for the buffer, [`Reservation::is_streamed`]: it is written here, while this call
    /// holds the whole log.
    pub fn append(&self, reservation: &mut Reservation<'_>, parts: &[&[u8]]) -> Appended {
        let len = parts.iter().map(|p| p.len()).sum();
        if let Some(piece) = self.take(reservation, len) {
            return self.fill(piece, parts, len);
        }
        let mut state = self.state_for(reservation);
        // It may have been opened again.
        if let Some(piece) = self.take(reservation, len) {
            drop(state);
            return self.fill(piece, parts, len);
        }
        self.append_now(&mut state, reservation, parts)
    }

    /// [`Log::append`], if `check` says so just before the record has its place in the commit order;
    /// otherwise nothing is done, and the reservation is as it was. No other thread appends between the two, so
    /// `check` must be short, must not wait, and must not use the log.
    pub fn append_if(
        &self,
        reservation: &mut Reservation<'_>,
        parts: &[&[u8]],
        check: impl FnOnce() -> bool,
    ) -> Option<Appended> {
        let mut state = self.state_for(reservation);
        let frozen = self.freeze(reservation);
        if !check() {
            return None;
        }
        let len = parts.iter().map(|p| p.len()).sum();
        if let Some(piece) = self.take_of(frozen, reservation, len) {
            drop(state);
            return Some(self.fill(piece, parts, len));
        }
        Some(self.append_now(&mut state, reservation, parts))
    }

    /// [`Log::append`] of a record that is made when it has its place in the commit order. No other thread appends
    /// meanwhile, so `make` must be short, must not wait, and must not use the log.
    pub fn append_made(
        &self,
        reservation: &mut Reservation<'_>,
        make: impl FnOnce() -> Vec<u8>,
    ) -> Appended {
        let mut state = self.state_for(reservation);
        let frozen = self.freeze(reservation);
        let record = make();
        if let Some(piece) = self.take_of(frozen, reservation, record.len()) {
            drop(state);
            return self.fill(piece, &[&record], record.len());
        }
        self.append_now(&mut state, reservation, &[&record])
    }

    /// The log, once nothing has to be waited for any more.
    #[inline(always)]
    fn state_for(&self, reservation: &Reservation<'_>) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        // Before the record has its place in the order, because the mutex is let go of.
        while reservation.is_streamed() && state.writing {
            self.written.wait(&mut state);
        }
        state
    }

    #[inline(always)]
    fn append_now(
        &self,
        state: &mut State,
        reservation: &mut Reservation<'_>,
        parts: &[&[u8]],
    ) -> Appended {
        // Only what its reservation does not cover comes here while the lane is open.
        self.close_lane(state);
        let len: usize = parts.iter().map(|p| p.len()).sum();
        let covered = reservation.consume(state, len);
        let sequence = state.sequence;
        state.sequence += 1;
        let mut end = NOWHERE;
        if state.poisoned.is_none() {
            let result = if !covered {
                Err(Error::invalid(format!(
                    "a record of {len} bytes was appended to the log with a smaller reservation"
                )))
            } else if reservation.is_streamed() {
                self.stream(state, parts)
            } else {
                state.put(parts, self.options.half(), |_| {
                    Err(Error::invalid(
                        "the log buffer is too small for what was reserved",
                    ))
                })
            };
            match result {
                Ok(()) => {
                    state.stats.records += 1;
                    state.stats.record_bytes += len as u64;
                    end = state.tail;
                }
                Err(e) => self.stop(state, &e),
            }
        }
        if state.buffer_waiters > 0 {
            self.written.notify_all();
        }
        Appended {
            sequence,
            end,
            piece: NO_PIECE,
        }
    }

    /// Writes a long record through the buffer, which is empty afterwards.
    fn stream(&self, state: &mut State, parts: &[&[u8]]) -> Result<()> {
        state.put(parts, self.options.half(), |state| {
            self.write_holding(state)
        })?;
        self.write_holding(state)
    }

    /// Writes what is staged without letting go of the mutex.
    fn write_holding(&self, state: &mut State) -> Result<()> {
        let stamp = state.marks.stamp();
        if !state.is_to_be_written(false) {
            return Ok(());
        }
        if let Some(mut batch) = state.take() {
            let end = state.tail;
            let result = batch.write(&self.options, stamp);
            batch.clear();
            state.other = Some(batch);
            state.stats.writes += result?;
            state.marks.wrote(end);
            self.publish_written(end);
            self.ask_for_hand_over(state, end);
        }
        Ok(())
    }
}
