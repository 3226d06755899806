//! What the mutex of the log guards: the tail, the buffer, the watermarks, what is reserved.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use terrace_base::Error;
use terrace_base::lane::{Closed, Taken};

use crate::fault::Fault;
use crate::holds::Holds;
use crate::layout::{
    BLOCK_HEADER, CONTINUES, HEADER_BYTES, LAST, MAX_BLOCK_PAYLOAD, MORE, SECTOR, SECTOR_END,
};
use crate::layout::{length_bytes, put_length};
use crate::lsn::{Lsn, Position};
use crate::options::{LogOptions, RECORD_OVERHEAD_BYTES, data_limit, usable};
use crate::segment::Segment;
use crate::staging::Staging;
use crate::stats::LogStats;
use crate::tail::Watermarks;

/// Fewest bytes of room worth splitting a record for.
const MIN_PIECE: usize = 16;

/// Fewer segments than this between two checkpoints are few.
const FEW_MADE: u32 = 2;

/// The state of a log.
///
/// What every append changes comes first and lies close together, behind the word of the mutex: another core that
/// appends brings each of these lines along, one after the other, while it holds the mutex.
#[repr(C)]
pub(crate) struct State {
    /// Sequence number of the next record.
    pub(crate) sequence: u64,
    /// Where the next byte goes.
    pub(crate) tail: Lsn,
    /// Segment bytes promised to reservations.
    pub(crate) reserved: u64,
    /// Buffer bytes promised to reservations.
    pub(crate) reserved_buffer: usize,
    /// Threads that wait for room in the buffer.
    pub(crate) buffer_waiters: usize,
    /// Syncs of the current segment under way, while which no lane is opened.
    pub(crate) syncs_of_current: u32,
    /// Threads in a sync commit.
    pub(crate) sync_waiters: u64,
    /// Whether a leader is writing, syncing, or making a segment.
    pub(crate) writing: bool,
    pub(crate) syncing: bool,
    pub(crate) preparing: bool,
    /// Whether a segment could not be had ahead of time, so that it is not tried again before it
    /// has to be.
    pub(crate) refused: bool,
    pub(crate) closed: bool,
    /// Whether the tail has been given out as a cut, so that no padding may move it.
    pub(crate) pinned: bool,
    /// Whether `current` takes no more blocks: recovery has sealed it.
    pub(crate) sealed: bool,
    /// Whether there is a thread in [`crate::Log::run_background`], and whether it is to go.
    pub(crate) has_background: bool,
    pub(crate) staging: Staging,
    pub(crate) current: Arc<Segment>,
    pub(crate) marks: Watermarks,
    pub(crate) stats: LogStats,
    /// The other half of the buffer; not here while a leader writes it.
    pub(crate) other: Option<Staging>,
    /// Segments made ahead, in order.
    pub(crate) spares: VecDeque<Arc<Segment>>,
    pub(crate) dismissed: bool,
    /// What that thread is asked to do.
    pub(crate) asked: Asked,
    /// Segments that are being deleted, by that thread or by who needs the space now.
    pub(crate) deleting: u32,
    /// The one that the thread in the background deletes.
    pub(crate) being_deleted: Option<u32>,
    /// Segments with blocks that may not be synced, in order.
    pub(crate) dirty: Vec<Arc<Segment>>,
    /// Segments before the current one that are still there.
    pub(crate) older: BTreeMap<u32, Older>,
    /// Who keeps segments that no checkpoint needs.
    pub(crate) holds: Holds,
    /// Newest durable checkpoint generation.
    pub(crate) generation: u64,
    /// Length of the next segment, and how many were made since the last checkpoint.
    next_bytes: u64,
    made: u32,
    pub(crate) poisoned: Option<String>,
    /// The lane, while it is open: the tail is where it was when a thread looked last.
    pub(crate) lane: Option<Open>,
}

/// What is known of a lane that is open.
pub(crate) struct Open {
    /// Bytes that it can promise; all of them are reserved as long as it is open.
    pub(crate) space: u64,
    /// What of it the tail, the sequence and the statistics know.
    pub(crate) seen: Taken,
}

/// What the threads that fill a lane must know.
pub(crate) struct Course {
    pub(crate) segment: Arc<Segment>,
    pub(crate) salt: u64,
    /// Where the lane begins, and the sequence number of the first record there.
    pub(crate) start: Lsn,
    pub(crate) sequence: u64,
}

/// A segment before the current one.
#[derive(Clone, Copy)]
pub(crate) struct Older {
    /// Where its records end.
    pub(crate) end: u64,
    /// Length of its file: those of an earlier opening may have another one than those made now.
    pub(crate) bytes: u64,
}

/// What the thread in [`crate::Log::run_background`] is asked to do.
#[derive(Default)]
pub(crate) struct Asked {
    /// To make a segment.
    pub(crate) segment: bool,
    /// To hand over what was written to one, up to here.
    pub(crate) hand_over: Option<(Arc<Segment>, u64)>,
    /// To delete these, which lie before the last cut, unless they are used again before.
    pub(crate) delete: VecDeque<u32>,
    /// Whether some have come to them, or one was used, since that thread has looked.
    pub(crate) used: bool,
    /// To delete them without pauses.
    pub(crate) hurry: bool,
}

impl State {
    /// A log that ends durably at `tail` in `current`. If `current` is sealed, the seal stands there and
    /// is durable too: the blocks of the next segment say so, and prove it should it rot.
    pub(crate) fn new(
        options: &LogOptions,
        current: Arc<Segment>,
        sealed: bool,
        tail: Lsn,
        sequence: u64,
    ) -> State {
        let durable = match sealed {
            true => Lsn::new(tail.segment(), tail.offset() + SECTOR as u32),
            false => tail,
        };
        State {
            staging: Staging::with_capacity(options.half()),
            other: Some(Staging::with_capacity(options.half())),
            tail,
            generation: current.generation,
            current,
            sealed,
            spares: VecDeque::new(),
            sequence,
            marks: Watermarks::new(durable),
            reserved: 0,
            reserved_buffer: 0,
            writing: false,
            syncing: false,
            preparing: false,
            refused: false,
            has_background: false,
            dismissed: false,
            asked: Asked::default(),
            deleting: 0,
            being_deleted: None,
            pinned: false,
            buffer_waiters: 0,
            syncs_of_current: 0,
            sync_waiters: 0,
            dirty: Vec::new(),
            older: BTreeMap::new(),
            holds: Holds::retaining(options.retained_bytes),
            next_bytes: options.shortest(),
            made: 0,
            poisoned: None,
            closed: false,
            stats: LogStats::default(),
            lane: None,
        }
    }

    /// The last of the segments that there are.
    pub(crate) fn newest(&self) -> &Arc<Segment> {
        self.spares.back().unwrap_or(&self.current)
    }

    /// How long the next segment is to be.
    pub(crate) fn next_bytes(&self, options: &LogOptions) -> u64 {
        let most = options.segment_bytes;
        self.next_bytes.clamp(options.shortest(), most)
    }

    /// A segment was made: the next one is twice as long, or again as short as the disk has space for.
    pub(crate) fn made(&mut self, segment: &Segment) {
        self.next_bytes = segment.bytes.saturating_mul(2);
        self.made = self.made.saturating_add(1);
    }

    /// A checkpoint was made. If the log did not get on much since the one before, the next segments need
    /// not be as long.
    pub(crate) fn checkpointed(&mut self, options: &LogOptions) {
        if self.made < FEW_MADE {
            self.next_bytes = (self.next_bytes(options) / 2 / 4096 * 4096).max(options.shortest());
        }
        self.made = 0;
    }

    /// Bytes that can still be appended to the segments there are.
    pub(crate) fn room(&self) -> u64 {
        let current = if self.sealed {
            0
        } else {
            data_limit(self.current.bytes)
                .saturating_sub(self.tail.offset() as u64)
                .saturating_sub(RECORD_OVERHEAD_BYTES as u64)
        };
        let spares = self.spares.iter().map(|spare| usable(spare.bytes));
        current + spares.sum::<u64>()
    }

    /// Space that ordinary reservations leave for those that must go through on a full disk: a quarter of the
    /// newest segment, and never less than of one that the disk had space for.
    pub(crate) fn margin(&self, options: &LogOptions) -> u64 {
        usable(self.newest().bytes.max(options.shortest())) / 4
    }

    /// Notes what was taken of the lane.
    pub(crate) fn saw(&mut self, seen: Taken, taken: Taken) {
        let pieces = taken.pieces - seen.pieces;
        self.advance((taken.bytes - seen.bytes) as usize);
        self.sequence += pieces;
        self.stats.records += pieces;
        self.stats.record_bytes += taken.used - seen.used - pieces * RECORD_OVERHEAD_BYTES as u64;
        self.stats.writes += pieces;
    }

    /// Notes what a lane has come to that is shut: what it promised and was not used up is what is reserved of it.
    pub(crate) fn settle(&mut self, open: Open, closed: &Closed<Course>) {
        self.saw(open.seen, closed.taken);
        let outstanding = (closed.promised)
            .wrapping_sub(closed.taken.used)
            .wrapping_sub(open.space);
        self.reserved = self.reserved.wrapping_add(outstanding);
        self.reserved_buffer = self.reserved_buffer.wrapping_add(outstanding as usize);
    }

    /// Whether there are segments that only wait to be deleted.
    pub(crate) fn has_outdated(&self) -> bool {
        self.deleting > 0 || !self.asked.delete.is_empty()
    }

    /// A segment that is not needed any more, whose file another one may take. All that was ever to be
    /// written there is: who writes with the old handle later would write into the new segment.
    /// Its number, and what is known of it.
    pub(crate) fn take_outdated(&mut self, options: &LogOptions) -> Option<(u32, Older)> {
        let &number = self.asked.delete.front()?;
        let written = self.marks.written_to().segment() > number;
        if !written && !options.planted(Fault::ReusedUnwritten) {
            return None;
        }
        self.asked.delete.pop_front();
        self.asked.used = true;
        Some((number, self.older.remove(&number)?))
    }

    /// Remembers the first failure.
    pub(crate) fn poison(&mut self, cause: &Error) {
        self.poisoned.get_or_insert_with(|| cause.to_string());
    }

    pub(crate) fn poison_error(&self) -> Option<Error> {
        self.poisoned.clone().map(|cause| Error::Poisoned { cause })
    }

    fn advance(&mut self, bytes: usize) {
        self.tail = Lsn::new(self.tail.segment(), self.tail.offset() + bytes as u32);
        self.stats.log_bytes += bytes as u64;
    }

    /// Room for record bytes in the block that is open (0 if none is).
    fn open_room(&self, limit: usize) -> usize {
        if !self.staging.is_open() {
            return 0;
        }
        let segment =
            data_limit(self.current.bytes).saturating_sub(self.tail.offset() as u64) as usize;
        let block = MAX_BLOCK_PAYLOAD - self.staging.open_payload();
        segment
            .min(block)
            .min(limit.saturating_sub(self.staging.len()))
    }

    /// Makes sure that a block is open, in the next segment if this one is full. `limit` is how
    /// long the buffer may become.
    fn open_block(&mut self, flags: u32) -> Result<(), Error> {
        let end = data_limit(self.current.bytes);
        let full = self.tail.offset() as u64 + (BLOCK_HEADER + MIN_PIECE) as u64 > end;
        if full && !self.sealed {
            if self.staging.is_open() {
                self.staging.close(LAST);
            } else {
                self.staging.begin(&self.current, self.tail.offset(), LAST);
                self.staging.close(0);
                self.advance(BLOCK_HEADER);
            }
        } else {
            self.staging.close(0);
        }
        if full || self.sealed {
            let Some(next) = self.spares.pop_front() else {
                return Err(Error::invalid(
                    "a record was appended without space reserved for it in the log",
                ));
            };
            let older = Older {
                end: self.tail.offset() as u64,
                bytes: self.current.bytes,
            };
            self.older.insert(self.current.number, older);
            self.tail = Lsn::new(next.number, HEADER_BYTES as u32);
            self.current = next;
            self.sealed = false;
        }
        self.note_dirty();
        self.pinned = false;
        self.staging.begin(&self.current, self.tail.offset(), flags);
        self.advance(BLOCK_HEADER);
        Ok(())
    }

    /// Blocks go to the current segment that may not be synced.
    pub(crate) fn note_dirty(&mut self) {
        if self
            .dirty
            .last()
            .is_none_or(|s| s.number != self.current.number)
        {
            self.dirty.push(self.current.clone());
        }
    }

    /// Puts a record into the buffer, split over blocks and segments where it has to be. `full` is
    /// called when the buffer has reached `limit`, and empties it.
    pub(crate) fn put(
        &mut self,
        parts: &[&[u8]],
        limit: usize,
        mut full: impl FnMut(&mut State) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let mut left: usize = parts.iter().map(|p| p.len()).sum();
        let mut parts = parts.iter().copied();
        let mut part: &[u8] = &[];
        let mut continues = 0;
        loop {
            let mut room = self.open_room(limit);
            let fits = left + length_bytes(left as u32) <= room || room >= MIN_PIECE;
            if !fits || continues != 0 {
                if self.staging.len() + BLOCK_HEADER + MIN_PIECE > limit {
                    self.staging.close(0);
                    full(self)?;
                }
                self.open_block(continues)?;
                room = self.open_room(limit);
            }
            // A length of up to four bytes may be needed for what fits; five would be 2^28.
            let piece = if left + length_bytes(left as u32) <= room {
                left
            } else {
                room - 4
            };
            let payload = self.staging.payload();
            let before = payload.len();
            put_length(payload, piece as u32);
            let mut wanted = piece;
            while wanted > 0 {
                if part.is_empty() {
                    let Some(next) = parts.next() else { break };
                    part = next;
                    continue;
                }
                let (now, later) = part.split_at(part.len().min(wanted));
                payload.extend_from_slice(now);
                wanted -= now.len();
                part = later;
            }
            let grown = payload.len() - before;
            self.advance(grown);
            left -= piece;
            if left == 0 {
                return Ok(());
            }
            // The mark that the segment ends may have to be added: the next block decides.
            self.staging.flag_last(MORE);
            continues = CONTINUES;
        }
    }

    /// Closes what is staged; whether there is anything to write, and no thread writes. Before a sync, the next block
    /// is moved to a sector of its own, so that no later write touches a sector with synced records.
    pub(crate) fn is_to_be_written(&mut self, before_sync: bool) -> bool {
        self.staging.close(0);
        if before_sync && !self.sealed {
            self.pad();
        }
        if self.staging.is_empty() || self.other.is_none() {
            return false;
        }
        self.marks.append(self.tail);
        true
    }

    /// Takes what is to be written; the other half of the buffer takes its place.
    pub(crate) fn take(&mut self) -> Option<Staging> {
        let other = self.other.take()?;
        Some(std::mem::replace(&mut self.staging, other))
    }

    fn pad(&mut self) {
        let own_block = self.staging.is_empty() || self.pinned;
        if self.staging.is_empty() && self.marks.written_to() == self.marks.synced_to() {
            return;
        }
        let header = if own_block { BLOCK_HEADER as u64 } else { 0 };
        let end = self.tail.offset() as u64 + header;
        let grown = end.next_multiple_of(SECTOR) - self.tail.offset() as u64;
        if self.room() < self.reserved + grown {
            // Only when a full disk has kept further segments from being made. The sector is then
            // written again with the same bytes in front, which the loss of whole sectors cannot
            // damage.
            return;
        }
        if own_block {
            self.staging.begin(&self.current, self.tail.offset(), 0);
            self.staging.close(0);
            self.pinned = false;
        }
        self.staging.flag_last(SECTOR_END);
        self.advance(grown as usize);
    }

    /// The tail as a cut.
    pub(crate) fn cut(&mut self, options: &LogOptions) -> Position {
        self.staging.close(0);
        self.pinned = !options.planted(Fault::MovePinnedCut);
        Position::new(self.tail, self.sequence)
    }
}
