//! The lane: records that go to the file without the mutex of the log, each a block of its own.
//!
//! Where the file of the segment can be written by copying, a part of it behind the tail is opened. Space there is
//! promised and taken with one addition each, and all that have taken some seal and copy their blocks at once.
//!
//! Invariants:
//! - While it is open, nothing is staged and no thread writes: it begins where the log is written to.
//! - All that is reserved fits into it: what was reserved when it was opened, and what it can promise. So who has a
//!   reservation never finds it full, and who needs another kind of space closes it first.
//! - Its order is the order of commits. Whoever else is to have a place in that holds the mutex, and has closed it
//!   or keeps it frozen.
//! - A record is written when it and all that were taken before it are done. Everything else that has to do with
//!   how far the log is written closes the lane, which waits until all of it is.

use terrace_base::Error;
use terrace_base::lane::{Frozen, LEAST_SPACE, MOST_SPACE, Piece};
use terrace_base::sync::atomic::Ordering;
use terrace_base::sync::yield_now;

use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, length_bytes, put_length_at, seal_block};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::{RECORD_OVERHEAD_BYTES, data_limit};
use crate::record::{Appended, NO_PIECE, NOWHERE, Reservation};
use crate::state::{Course, Open, State};

/// No lane is opened for less: closing it would cost more than it saves.
const LEAST_LANE: u64 = 1 << 10;

/// Blocks up to this long are put together on the stack.
const SHORT: usize = 512;

const _: () = assert!(RECORD_OVERHEAD_BYTES >= LEAST_SPACE);

impl Log {
    /// Opens the lane behind the tail, if nothing is in the way.
    pub(crate) fn open_lane(&self, state: &mut State) {
        let reserved = state.reserved;
        let is_quiet = state.staging.is_empty()
            && !state.writing
            // What goes to the lane gives room in the buffer back without the mutex, and would wake no thread.
            && state.buffer_waiters == 0
            // Pages that a sync writes must not change under copies, which would wait for the device then.
            && state.syncs_of_current == 0
            && state.marks.written_to() == state.tail
            // What is streamed is reserved without room in the buffer.
            && reserved == state.reserved_buffer as u64;
        if !is_quiet
            || state.lane.is_some()
            || state.sealed
            || state.closed
            || state.poisoned.is_some()
        {
            return;
        }
        // Twice the margin: who reserves must be able to ask for the next segment in time.
        let room = state.room();
        let room = room.saturating_sub(reserved + 2 * state.margin(&self.options));
        let half = (self.options.half() as u64).saturating_sub(reserved);
        let most = room
            .min(half)
            .min(MOST_SPACE as u64 - reserved.min(MOST_SPACE as u64));
        if most < LEAST_LANE {
            return;
        }
        let offset = u64::from(state.tail.offset());
        let file = &state.current.file;
        let Some(part) = file.take_part(offset) else {
            return;
        };
        let end = part.range().end.min(data_limit(state.current.bytes));
        let space = most.min(end.saturating_sub(offset + reserved));
        if space < LEAST_LANE {
            file.give_part(part, offset..offset);
            return;
        }
        let course = Course {
            salt: state.current.salt(&self.options),
            segment: state.current.clone(),
            start: state.tail,
            sequence: state.sequence,
        };
        if let Err((part, _)) = self.lane.open(part, offset, course, space) {
            file.give_part(part, offset..offset);
            return;
        }
        state.note_dirty();
        state.reserved += space;
        state.reserved_buffer += space as usize;
        state.lane = Some(Open {
            space,
            seen: Default::default(),
        });
    }

    /// Closes the lane, if it is open: all that was taken of it is written then, or the log is poisoned.
    pub(crate) fn close_lane(&self, state: &mut State) {
        let Some(open) = state.lane.take() else {
            return;
        };
        if self.options.planted(Fault::WrittenBeforeDone)
            && let Some(taken) = self.lane.taken()
        {
            let start = state.tail.offset() + (taken.bytes - open.seen.bytes) as u32;
            self.publish_written(Lsn::new(state.tail.segment(), start));
        }
        let Some(closed) = self.lane.close() else {
            return;
        };
        state.settle(open, &closed);
        match closed.rest {
            Some((part, course)) => {
                let end = state.tail;
                let written = u64::from(course.start.offset())..u64::from(end.offset());
                course.segment.file.give_part(part, written);
                state.marks.append(end);
                state.marks.wrote(end);
                self.publish_written(end);
                self.ask_for_hand_over(state, end);
            }
            None => self.stop(
                state,
                &Error::invalid("a record has a place in the log and was not written there"),
            ),
        }
    }

    /// A place in the lane for a record of `len` bytes, if it is open.
    #[inline(always)]
    pub(crate) fn take(
        &self,
        reservation: &mut Reservation<'_>,
        len: usize,
    ) -> Option<Piece<'_, Course>> {
        let space = reservation.in_lane(len)?;
        let piece = self.lane.take(block_bytes(len), space)?;
        reservation.went_to_lane(space);
        Some(piece)
    }

    /// Keeps the lane from being taken of, if it is open. To be called with the mutex held.
    pub(crate) fn freeze(&self, reservation: &Reservation<'_>) -> Option<Frozen<'_, Course>> {
        if reservation.is_streamed() || self.options.planted(Fault::CheckedBesideAppends) {
            return None;
        }
        self.lane.freeze()
    }

    /// A place in a lane that was frozen, which goes on then.
    pub(crate) fn take_of<'l>(
        &'l self,
        frozen: Option<Frozen<'l, Course>>,
        reservation: &mut Reservation<'_>,
        len: usize,
    ) -> Option<Piece<'l, Course>> {
        if self.options.planted(Fault::CheckedBesideAppends) {
            return self.take(reservation, len);
        }
        let (frozen, space) = (frozen?, reservation.in_lane(len)?);
        let piece = frozen.take(block_bytes(len), space)?;
        reservation.went_to_lane(space);
        Some(piece)
    }

    /// Seals the record as a block, and copies it to its place.
    #[inline(always)]
    pub(crate) fn fill(&self, piece: Piece<'_, Course>, parts: &[&[u8]], len: usize) -> Appended {
        let bytes = block_bytes(len);
        let (mut short, mut long) = ([0; SHORT], Vec::new());
        let block = match short.get_mut(..bytes) {
            Some(block) => block,
            None => {
                long.resize(bytes, 0);
                &mut long[..]
            }
        };
        self.fill_with(piece, parts, len, block)
    }

    #[inline(always)]
    fn fill_with(
        &self,
        piece: Piece<'_, Course>,
        parts: &[&[u8]],
        len: usize,
        block: &mut [u8],
    ) -> Appended {
        let Some(course) = piece.about() else {
            // Who closes the lane waits for it, with the mutex.
            drop(piece);
            return self.not_written();
        };
        let number = piece.number();
        let at = course.start.offset() + piece.at() as u32;
        let at = Lsn::new(course.start.segment(), at);
        let mut to = BLOCK_HEADER + put_length_at(&mut block[BLOCK_HEADER..], len as u32);
        for part in parts {
            block[to..to + part.len()].copy_from_slice(part);
            to += part.len();
        }
        let synced = Lsn::from_raw(self.synced_to.load(Ordering::Acquire));
        seal_block(block, course.salt, at, synced, 0);
        let appended = Appended {
            sequence: course.sequence + number as u64,
            end: Lsn::new(at.segment(), at.offset() + block.len() as u32),
            piece: number as u16,
        };
        if self.options.planted(Fault::DoneBeforeCopied) {
            let segment = course.segment.clone();
            piece.fill(&vec![0; block.len()]);
            yield_now();
            let _ = segment.file.write_at(block, u64::from(at.offset()));
            return appended;
        }
        match piece.fill(block) {
            true => appended,
            false => self.not_written(),
        }
    }

    /// A record that has its place and cannot be written there.
    #[cold]
    fn not_written(&self) -> Appended {
        self.poison("a record has a place in the log and was not written there");
        Appended {
            sequence: self.look().sequence,
            end: NOWHERE,
            piece: NO_PIECE,
        }
    }
}

/// Bytes of a block of one record.
#[inline(always)]
fn block_bytes(len: usize) -> usize {
    BLOCK_HEADER + length_bytes(len as u32) + len
}
