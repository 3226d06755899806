//! Reserving: space in the segment and in the buffer, had before a record is appended.

use std::sync::Arc;

use terrace_base::lane::Promise;
use terrace_base::sync::MutexGuard;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, MAX_BLOCK_PAYLOAD};
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::{
    LogOptions, MAX_RECORD_BYTES, MIN_SEGMENT_BYTES, RECORD_OVERHEAD_BYTES, record_space,
    shortest_ordinary, usable,
};
use crate::segment::{PrepareError, Segment, Size};
use crate::state::{Older, State};

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

/// Longest record that goes through the buffer: it must leave room for others there, and in a segment of
/// full length.
fn longest_buffered(options: &LogOptions) -> u64 {
    (options.half() as u64 / 2)
        .min(usable(options.segment_bytes) / 2)
        .min(MAX_BLOCK_PAYLOAD as u64 / 2)
}

/// What a record takes beyond [`record_space`] where segments are short and it lies in several: of each
/// further one a block and a length.
fn split_space(len: usize, options: &LogOptions) -> u64 {
    // What fits into the shortest of all is not divided; most records are far shorter.
    if (len as u64) < usable(MIN_SEGMENT_BYTES) {
        return 0;
    }
    // Half of the shortest is what a full disk may leave.
    len as u64 / usable(shortest_ordinary(options)).max(1) * RECORD_OVERHEAD_BYTES as u64
}

/// Longest records that are reserved without the mutex.
const LONGEST_IN_LANE: usize = 4 << 10;

/// And beside twice the space that is wanted so short, to serve what frees space.
const SHORTEST_URGENT: u64 = 16 << 10;

impl Log {
    /// Space for records of `bytes` bytes together; for more than one record add
    /// [`crate::RECORD_OVERHEAD_BYTES`] for each further one.
    ///
    /// To be called at the door, holding nothing: it may wait for the disk, and answers
    /// [`Error::DiskFull`] if there is no space for a further segment. A reservation for a single
    /// record longer than a quarter of the buffer is for exactly that record.
    pub fn reserve(&self, bytes: usize) -> Result<Reservation<'_>> {
        self.reserve_leaving(bytes, true)
    }

    /// As [`Log::reserve`], but may take the last quarter of a segment that ordinary reservations
    /// leave: for deletes, and whatever else frees space on a full disk.
    pub fn reserve_urgent(&self, bytes: usize) -> Result<Reservation<'_>> {
        self.reserve_leaving(bytes, false)
    }

    fn reserve_leaving(&self, bytes: usize, ordinary: bool) -> Result<Reservation<'_>> {
        if bytes > MAX_RECORD_BYTES {
            return Err(Error::invalid(format!(
                "a log record of {bytes} bytes is longer than the limit of {MAX_RECORD_BYTES} bytes; write it in several batches"
            )));
        }
        let streamed = record_space(bytes) > longest_buffered(&self.options);
        let mut space = record_space(bytes) + split_space(bytes, &self.options);
        if streamed {
            let block = self.options.half().min(MAX_BLOCK_PAYLOAD) / 2;
            // Every block has its header and a length; twice that, because ends are ragged.
            space += (bytes / block + 1) as u64 * 4 * BLOCK_HEADER as u64;
        }
        let buffer = if streamed { 0 } else { space as usize };
        let promise = match streamed || bytes > LONGEST_IN_LANE {
            true => Promise::Shut,
            false => self.lane.promise(space as usize),
        };
        if promise == Promise::Made {
            return Ok(Reservation {
                log: self,
                space,
                buffer,
                streamed,
            });
        }
        let mut state = self.state.lock();
        let had_lane = state.lane.is_some() || promise == Promise::Counted;
        if promise == Promise::Counted {
            // It is reserved once the lane is shut, by whomever.
            self.close_lane(&mut state);
            state.reserved -= space;
            state.reserved_buffer -= buffer;
            if state.buffer_waiters > 0 {
                self.written.notify_all();
            }
        }
        loop {
            // All that can be reserved while it is open is what it promises.
            self.close_lane(&mut state);
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            if state.closed {
                return Err(Error::invalid("the log is closed"));
            }
            let room = state.room();
            let margin = if ordinary {
                state.margin(&self.options)
            } else {
                0
            };
            let wanted = state.reserved + space + margin;
            if room < wanted && state.preparing {
                self.prepared.wait(&mut state);
                continue;
            }
            // The next segment is made while there is still room, by one of those that need some:
            // making one takes syncs, and all others would wait for them.
            let early = ordinary && !state.refused && room < wanted + margin && !state.preparing;
            let early = early && !self.ask_for_segment(&mut state, room >= wanted);
            if room < wanted || early {
                let made;
                // Who frees space takes what there is.
                let least = if ordinary {
                    shortest_ordinary(&self.options)
                } else {
                    2 * wanted + SHORTEST_URGENT
                };
                // What it has room for already is not to be given back: it would be made again at once.
                let has = if room < wanted { 0 } else { wanted };
                (state, made) = self.prepare(state, least, has)?;
                match made {
                    Ok(()) => state.refused = false,
                    Err(_) if early && room >= wanted => state.refused = true,
                    Err(e) if e.is_disk_full() && (state.break_holds() || state.has_outdated()) => {
                        drop(state);
                        self.delete_outdated()?;
                        state = self.state.lock();
                    }
                    Err(e) => return Err(e),
                }
                continue;
            }
            if buffer > 0
                && state.staging.len() + state.reserved_buffer + buffer > self.options.half()
            {
                if !state.writing && !state.staging.is_empty() {
                    state = self.write_out(state, false);
                } else {
                    state.buffer_waiters += 1;
                    self.written.wait(&mut state);
                    state.buffer_waiters -= 1;
                }
                continue;
            }
            state.reserved += space;
            state.reserved_buffer += buffer;
            if had_lane {
                self.open_lane(&mut state);
            }
            return Ok(Reservation {
                log: self,
                space,
                buffer,
                streamed,
            });
        }
    }

    /// Makes one more segment, of `least` bytes at least if the disk has no space for a whole one. The
    /// inner error is that it could not be had; then what was made for nothing is given back, as long as
    /// there is room for `keep` bytes.
    pub(crate) fn prepare<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        least: u64,
        keep: u64,
    ) -> Result<(MutexGuard<'a, State>, Result<()>)> {
        state.preparing = true;
        state.asked.segment = false;
        let number = state.newest().number;
        let generation = state.generation;
        // Segments that are full are synced now and then, so that a lot of buffered commits does
        // not leave the whole log without a proof of what is durable.
        let full = state.dirty.len() > 1;
        let from = Lsn::new(state.current.number, 0);
        let old = state.take_outdated(&self.options);
        let bytes = state.next_bytes(&self.options);
        let sealed = (state.sealed && state.spares.is_empty()).then(|| state.current.clone());
        drop(state);
        let leading = self.lead(|state| state.preparing = false);
        let made = self.make_segment(number, generation, old, sealed, (bytes, least));
        leading.done();
        let reused = matches!(made, Ok((_, true)));
        let made = made.map(|(segment, _)| segment);
        state = self.state.lock();
        if let Err(PrepareError::Refused(_)) = made {
            state = self.release_surplus(state, keep);
        }
        state.preparing = false;
        self.prepared.notify_all();
        let mut refused = Ok(());
        match made {
            Ok(segment) => {
                state.stats.segments_created += 1;
                state.stats.segments_reused += u64::from(reused);
                state.made(&segment);
                state.spares.push_back(Arc::new(segment));
            }
            Err(PrepareError::Refused(e)) => refused = Err(e),
            Err(PrepareError::Fatal(e)) => {
                self.stop(&mut state, &e);
            }
        }
        if full && refused.is_ok() {
            drop(state);
            self.sync_to(from)?;
            state = self.state.lock();
        }
        Ok((state, refused))
    }

    /// Gives back segments that were made for a reservation that could not be had after all, so that
    /// a record too long for the disk does not leave it full.
    fn release_surplus<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        keep: u64,
    ) -> MutexGuard<'a, State> {
        let mut surplus = Vec::new();
        let kept =
            keep.max(state.reserved + state.margin(&self.options)) + usable(state.newest().bytes);
        while state.spares.len() > 1 && state.room() >= kept {
            surplus.extend(state.spares.pop_back());
        }
        drop(state);
        for segment in surplus {
            // If this fails the file only takes space, until its number is used or the next opening.
            let _ = self.disk.delete(&segment.name);
        }
        self.state.lock()
    }

    /// The segment behind `after`, and whether it took the file of `old`. That one says so first, if it is
    /// `sealed`.
    fn make_segment(
        &self,
        after: u32,
        generation: u64,
        old: Option<(u32, Older)>,
        sealed: Option<Arc<Segment>>,
        (bytes, least): (u64, u64),
    ) -> std::result::Result<(Segment, bool), PrepareError> {
        let number = after.checked_add(1).ok_or_else(|| {
            PrepareError::Refused(Error::invalid(
                "the log has used up its segment numbers; dump the database into a new one",
            ))
        })?;
        let file = old.and_then(|old| self.reuse(old, number, bytes));
        let reused = file.is_some();
        let size = Size { bytes, least, file };
        let segment = Segment::prepare(&*self.disk, &self.options, number, generation, size)?;
        if !self.options.planted(Fault::NoDirectorySync) {
            self.sync_directory().map_err(PrepareError::Fatal)?;
        }
        if let Some(sealed) = sealed
            && !self.options.planted(Fault::NoSuccessorMark)
        {
            let marked = sealed.mark_successor();
            let marked = marked.and_then(|()| self.sync_segment(&sealed));
            marked.map_err(PrepareError::Fatal)?;
        }
        Ok((segment, reused))
    }
}
