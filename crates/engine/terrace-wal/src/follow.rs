//! Reading the log while it is written, for who keeps a copy of it: what is durable, record by record.
//!
//! Invariants: nothing is given out that a crash could take back; segments that a hold has are neither
//! deleted nor used again, until it is moved on, let go of, or broken because it keeps too much.

use std::sync::Arc;
use std::time::{Duration, Instant};

use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::holds::HoldId;
use crate::layout::{HEADER_BYTES, LAST, SEAL, SECTOR};
use crate::log::Log;
use crate::lsn::{Lsn, Position};
use crate::reader::BlockReader;
use crate::replay::Records;
use crate::seal::Seal;
use crate::segment::{Segment, file_name};
use crate::state::State;

/// A place in the log where reading can be taken up again, by another process, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// Number of the segment.
    pub segment: u32,
    /// What that segment was given when it was made, so that another one of this number is not taken for it.
    pub incarnation: u64,
    /// Where a block begins, or will begin.
    pub offset: u32,
    /// Sequence number of the first record that begins there.
    pub sequence: u64,
}

impl State {
    /// Whether the log never came to this place, or was cut in front of it.
    fn is_behind_end(&self, place: &Place) -> bool {
        match self.older.get(&place.segment) {
            Some(older) => u64::from(place.offset) > older.end.next_multiple_of(SECTOR),
            None => Lsn::new(place.segment, place.offset) > self.marks.written_to(),
        }
    }
}

impl Log {
    /// Keeps all segments from the one in use on, as long as those that only this keeps have at most `most`
    /// bytes; and the place where the next record begins.
    pub fn hold(&self, most: u64) -> (HoldId, Place) {
        let mut state = self.state.lock();
        self.close_lane(&mut state);
        let at = state.cut(&self.options);
        let place = Place {
            segment: state.current.number,
            incarnation: state.current.incarnation,
            offset: at.offset as u32,
            sequence: at.sequence,
        };
        let id = state.holds.add(place.segment, most);
        (id, place)
    }

    /// Whether a reader reads, or may come to read, what lies before a cut.
    pub fn is_kept(&self) -> bool {
        let state = self.state.lock();
        !state.holds.held.is_empty() || state.holds.retained > 0
    }

    /// Keeps the segments from this place on, if they are all still there.
    ///
    /// # Errors
    /// When the segment cannot be read.
    pub fn hold_from(&self, place: Place, most: u64) -> Result<Option<HoldId>> {
        let id = {
            let mut state = self.state.lock();
            let number = place.segment;
            let is_there = number == state.current.number || state.older.contains_key(&number);
            let waits = state.asked.delete.contains(&number);
            let is_kept = u64::from(number) >= state.first_kept(state.holds.cut);
            // What is not kept and waits for nothing is being deleted; a place behind the end is one of before a
            // crash, which took back what led there.
            if !is_there || !waits && !is_kept || state.is_behind_end(&place) {
                return Ok(None);
            }
            state.asked.delete.retain(|&n| n < number);
            state.holds.add(number, most)
        };
        match Segment::open(&*self.disk, &self.options, place.segment) {
            Ok(Some(segment)) if segment.incarnation == place.incarnation => Ok(Some(id)),
            Ok(_) => {
                self.let_go(id);
                Ok(None)
            }
            Err(e) => {
                self.let_go(id);
                Err(e)
            }
        }
    }

    /// Whether the hold still keeps what it was given for.
    pub fn is_held(&self, id: HoldId) -> bool {
        self.state.lock().holds.held.iter().any(|h| h.id == id)
    }

    /// What lies before this place is not needed any more.
    pub fn move_hold(&self, id: HoldId, place: &Place) {
        let mut state = self.state.lock();
        if let Some(hold) = state.holds.held.iter_mut().find(|h| h.id == id) {
            hold.segment = hold.segment.max(place.segment);
        }
    }

    /// Ends a hold. What it kept goes with the next checkpoint.
    pub fn let_go(&self, id: HoldId) {
        self.state.lock().holds.held.retain(|h| h.id != id);
    }

    /// Breaks all holds, because the disk is full, and has what they kept deleted.
    pub fn break_holds(&self) {
        let any = self.state.lock().break_holds();
        if any {
            self.background.notify_one();
        }
    }

    /// Whether the follower stands before the cut from which the log was recovered when it was opened. A gap there is no
    /// damage: a checkpoint has all of that, and may be durable although the log is not.
    pub fn is_before_opening(&self, follower: &Follower) -> bool {
        follower.at < self.state.lock().holds.opened_at
    }

    /// Sequence number of the next record.
    pub fn next_sequence(&self) -> u64 {
        self.look().sequence
    }

    /// Gives every record that is durable, and that `follower` has not given out yet, to `apply`, in order.
    /// The caller has a hold that keeps them. After an error the follower is of no use any more; make one of
    /// the last place that is known to be good.
    ///
    /// # Errors
    /// [`Error::Corrupt`] when the log has a gap there; those of the disk and of `apply`.
    pub fn follow(
        &self,
        follower: &mut Follower,
        apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        self.follow_some(follower, u64::MAX, apply)
    }

    /// As [`Log::follow`], but ends behind the block with which it has given out `most` bytes of records.
    ///
    /// # Errors
    /// As [`Log::follow`].
    pub fn follow_some(
        &self,
        follower: &mut Follower,
        most: u64,
        apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let durable = {
            let state = self.state.lock();
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            match self.options.planted(Fault::FollowedUnsynced) {
                true => state.marks.written_to(),
                false => state.marks.synced_to(),
            }
        };
        follower.read(self, durable, most, apply)
    }

    /// Waits until something is durable that the follower has not read, at most so long, or until the log is
    /// closed or poisoned.
    pub fn wait_for_more(&self, follower: &Follower, most: Duration) {
        let deadline = Instant::now() + most;
        let mut state = self.state.lock();
        let nothing_new = |state: &State| state.marks.synced_to() <= follower.at;
        while nothing_new(&state) && !state.closed && state.poisoned.is_none() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            self.synced.wait_for(&mut state, left);
        }
    }
}

/// Reads a log that is being written, from a place on.
pub struct Follower {
    /// Where a reading that begins anew would begin.
    place: Place,
    at: Lsn,
    sequence: u64,
    /// Number of the next record that is given out.
    next: u64,
    partial: Option<Vec<u8>>,
    reader: Option<BlockReader>,
}

impl Follower {
    /// From this place on; records before `next` are passed over.
    pub fn new(place: Place, next: u64) -> Follower {
        Follower {
            place,
            at: Lsn::new(place.segment, place.offset),
            sequence: place.sequence,
            next: next.max(place.sequence),
            partial: None,
            reader: None,
        }
    }

    /// Where to take up the reading.
    pub fn place(&self) -> Place {
        self.place
    }

    /// Number of the next record.
    pub fn next(&self) -> u64 {
        self.next
    }

    fn read(
        &mut self,
        log: &Log,
        durable: Lsn,
        most: u64,
        apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let mut given = 0u64;
        while self.at < durable && given < most {
            let mut reader = self.open(log)?;
            self.note(reader.segment().incarnation);
            let offset = u64::from(self.at.offset());
            let sealed_to = match reader.block(offset)? {
                Some((header, payload)) if !header.is(SEAL) => {
                    let next = &mut self.next;
                    let mut apply = |sequence, record: &[u8]| {
                        if sequence < *next {
                            return Ok(());
                        }
                        apply(sequence, record)?;
                        given = given.saturating_add(record.len() as u64);
                        *next = sequence + 1;
                        Ok(())
                    };
                    let mut records = Records {
                        partial: &mut self.partial,
                        sequence: &mut self.sequence,
                        records: &mut 0,
                        record_bytes: &mut 0,
                        apply: &mut apply,
                    };
                    records.replay(&header, payload, &log.options.prefix, self.at)?;
                    let to = header.next_offset(offset) as u32;
                    self.at = match header.is(LAST) {
                        true => self.next_segment(),
                        false => Lsn::new(self.at.segment(), to),
                    };
                    None
                }
                _ => Some(offset.next_multiple_of(SECTOR)),
            };
            if let Some(place) = sealed_to {
                if !self.is_sealed(&mut reader, place)? {
                    return Err(Error::corrupt(
                        file_name(&log.options.prefix, self.at.segment()),
                        offset,
                        "the log has a gap here: a part before a checkpoint was never written",
                    ));
                }
                self.partial = None;
                self.at = self.next_segment();
            }
            let incarnation = reader.segment().incarnation;
            if self.at.segment() == reader.segment().number {
                self.note(incarnation);
                self.reader = Some(reader);
            }
        }
        // Windows hold what was there when they were read, and the last block may be followed by more.
        self.reader = None;
        Ok(())
    }

    fn next_segment(&self) -> Lsn {
        Lsn::new(self.at.segment().saturating_add(1), HEADER_BYTES as u32)
    }

    /// Notes where to take up the reading, unless a record is open.
    fn note(&mut self, incarnation: u64) {
        if self.partial.is_none() {
            self.place = Place {
                segment: self.at.segment(),
                incarnation,
                offset: self.at.offset(),
                sequence: self.sequence,
            };
        }
    }

    fn open(&mut self, log: &Log) -> Result<BlockReader> {
        if let Some(reader) = self.reader.take() {
            return Ok(reader);
        }
        let number = self.at.segment();
        let segment = Segment::open(&*log.disk, &log.options, number)?;
        let is_right = |segment: &Segment| {
            number != self.place.segment || segment.incarnation == self.place.incarnation
        };
        match segment.filter(is_right) {
            Some(segment) => Ok(BlockReader::new(Arc::new(segment), &log.options)),
            None => Err(Error::corrupt(
                file_name(&log.options.prefix, number),
                0,
                "this log segment is not the one that was read before",
            )),
        }
    }

    /// Whether a recovery has sealed the log where it stands.
    fn is_sealed(&self, reader: &mut BlockReader, place: u64) -> Result<bool> {
        let Some((header, payload)) = reader.block(place)? else {
            return Ok(false);
        };
        if !header.is(SEAL) {
            return Ok(false);
        }
        let fits = |seal: Seal| {
            let here = u64::from(self.at.offset()) == place && seal.cut <= self.at;
            (seal.cut == self.at || here) && seal.sequence == self.sequence
        };
        Ok(Seal::decode(payload).is_some_and(fits))
    }
}

impl From<Place> for Position {
    fn from(place: Place) -> Position {
        Position::new(Lsn::new(place.segment, place.offset), place.sequence)
    }
}
