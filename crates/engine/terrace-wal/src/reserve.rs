//! Reserving: space in the segment and in the buffer, had before a record is appended.

use terrace_base::lane::Promised;
use terrace_base::{Error, Result};

use crate::layout::{BLOCK_HEADER, MAX_BLOCK_PAYLOAD};
use crate::log::Log;
use crate::options::{
    LogOptions, MAX_RECORD_BYTES, MIN_SEGMENT_BYTES, RECORD_OVERHEAD_BYTES, record_space,
    shortest_ordinary, usable,
};
use crate::record::Reservation;

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
    /// To be called before anything is changed, holding nothing: it may wait for the disk, and answers
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
            true => Promised::Shut,
            false => self.lane.promise(space as usize),
        };
        if promise == Promised::Made {
            return Ok(Reservation::new(self, space, buffer, streamed));
        }
        let mut state = self.state.lock();
        let had_lane = state.lane.is_some() || promise == Promised::Counted;
        if promise == Promised::Counted {
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
            return Ok(Reservation::new(self, space, buffer, streamed));
        }
    }
}
