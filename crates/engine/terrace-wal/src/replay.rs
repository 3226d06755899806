//! Replay: follows the chain of blocks from the cut, puts records together, finds the end.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use terrace_base::codec::Reader;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{BlockHeader, CONTINUES, HEADER_BYTES, LAST, MORE, SEAL, SECTOR, next_piece};
use crate::lsn::{Lsn, Position};
use crate::options::{LogOptions, MAX_RECORD_BYTES};
use crate::progress::Progress;
use crate::reader::{BlockReader, has_blocks};
use crate::seal::Seal;
use crate::segment::{Segment, file_name};
use crate::stats::RecoveryReport;
use crate::tail::{End, GapRule, TailScan, Verdict};

pub(crate) fn missing(options: &LogOptions, number: u32) -> Error {
    Error::corrupt(
        file_name(&options.prefix, number),
        None,
        "the file is missing, though the log must be read from there",
    )
}

pub(crate) fn bad_header(options: &LogOptions, number: u32) -> Error {
    Error::corrupt(
        file_name(&options.prefix, number),
        0,
        "neither copy of the header of this log segment is valid, or the file is shorter than it says and holds no block",
    )
}

/// The state of a replay.
pub(crate) struct Replay<'a> {
    options: &'a LogOptions,
    /// Of all files of segments, readable or not.
    numbers: &'a [u32],
    segments: &'a BTreeMap<u32, Arc<Segment>>,
    from: Lsn,
    pub(crate) chain: Vec<Arc<Segment>>,
    ends: BTreeMap<u32, u64>,
    reader: BlockReader,
    scan: TailScan,
    /// The record that the last block left open.
    partial: Option<Vec<u8>>,
    sequence: u64,
    records: u64,
    record_bytes: u64,
    apply: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    /// For whoever wants to hear how far it has come.
    pub(crate) progress: Option<Progress<'a>>,
}

impl<'a> Replay<'a> {
    pub(crate) fn new(
        options: &'a LogOptions,
        numbers: &'a [u32],
        segments: &'a BTreeMap<u32, Arc<Segment>>,
        from: Position,
        mut at: Lsn,
        apply: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<Replay<'a>> {
        let first = segments
            .get(&at.segment())
            .ok_or_else(|| missing(options, at.segment()))?;
        let mut rule = GapRule::Stamps;
        if options.planted(Fault::AnyLaterBlockIsDamage) {
            rule = GapRule::AnyLaterBlock;
        }
        if options.planted(Fault::NoBlockProvesDamage) {
            rule = GapRule::Nothing;
        }
        if options.planted(Fault::ScanFromSegmentStart) {
            at = Lsn::new(at.segment(), HEADER_BYTES as u32);
        }
        Ok(Replay {
            options,
            numbers,
            segments,
            from: at,
            chain: vec![first.clone()],
            ends: BTreeMap::new(),
            reader: BlockReader::new(first.clone(), options),
            scan: TailScan::new(at, rule),
            partial: None,
            sequence: from.sequence,
            records: 0,
            record_bytes: 0,
            apply,
            progress: None,
        })
    }

    /// Follows the chain of blocks to its end.
    pub(crate) fn run(&mut self) -> Result<End> {
        loop {
            let at = self.scan.expected();
            let offset = at.offset() as u64;
            // Both borrow the window, so the header is copied out and the payload replayed at once.
            let header = match self.reader.block(offset)? {
                Some((header, payload)) if !header.is(SEAL) => {
                    let mut records = Records {
                        partial: &mut self.partial,
                        sequence: &mut self.sequence,
                        records: &mut self.records,
                        record_bytes: &mut self.record_bytes,
                        apply: &mut *self.apply,
                    };
                    records.replay(&header, payload, &self.options.prefix, at)?;
                    header
                }
                _ => match self.seal_behind(at)? {
                    None if self.reader.segment().has_successor => {
                        return Err(self.no_seal(at));
                    }
                    None => return Ok(self.end(at, false)),
                    Some(tail) => {
                        self.partial = None;
                        if !self.goes_on()? {
                            // Sealed, and nothing was begun since.
                            self.scan.chain(tail, tail);
                            return Ok(self.end(tail, true));
                        }
                        self.next_segment(tail, tail)?;
                        continue;
                    }
                },
            };
            let next = Lsn::new(at.segment(), header.next_offset(offset) as u32);
            if let Some(progress) = &mut self.progress {
                progress.is_at(next);
            }
            if header.is(LAST) {
                self.next_segment(header.synced, next)?;
            } else {
                self.scan.chain(header.synced, next);
            }
        }
    }

    /// Whether the log goes on behind the seal of this segment. A next one without a block, and without
    /// the mark that it is durably there, may have been made by a process that failed to make it so: it
    /// is deleted like all that lies behind an end, and made anew when it is needed.
    fn goes_on(&self) -> Result<bool> {
        let segment = self.reader.segment();
        if segment.has_successor {
            return Ok(true);
        }
        let next = segment.number.checked_add(1);
        match next.and_then(|next| self.segments.get(&next)) {
            Some(next) => has_blocks(next, self.options),
            None => Ok(false),
        }
    }

    fn next_segment(&mut self, synced: Lsn, end: Lsn) -> Result<()> {
        let Some(number) = end.segment().checked_add(1) else {
            return Err(Error::corrupt(
                &self.reader.segment().name,
                end.offset() as u64,
                "the log goes on behind the segment with the largest number there is",
            ));
        };
        // A segment is durable before a block goes there, and the mark that the log goes on there
        // is such a block's neighbour.
        let Some(segment) = self.segments.get(&number) else {
            let there = self.numbers.contains(&number);
            let why = if there { bad_header } else { missing };
            return Err(why(self.options, number));
        };
        self.ends.insert(end.segment(), end.offset() as u64);
        self.chain.push(segment.clone());
        self.reader.turn_to(segment.clone(), self.options);
        self.scan
            .chain(synced, Lsn::new(number, HEADER_BYTES as u32));
        Ok(())
    }

    /// The seal for a chain that ends at `at`, if there is one: where it stands.
    fn seal_behind(&mut self, at: Lsn) -> Result<Option<Lsn>> {
        let name = self.reader.segment().name.clone();
        let place = (at.offset() as u64).next_multiple_of(SECTOR);
        let from_here = self.from == at;
        let Some((header, payload)) = self.reader.block(place)? else {
            return Ok(None);
        };
        if !header.is(SEAL) {
            return Ok(None);
        }
        let seal = Seal::decode(payload)
            .ok_or_else(|| Error::corrupt(&name, place, "the seal of the log is too short"))?;
        // A cut may also be the place of the seal itself: that is where a log stands that has been
        // opened and not written to.
        let fits = seal.cut == at || from_here && at.offset() as u64 == place && seal.cut <= at;
        if !fits {
            return Err(Error::corrupt(
                &name,
                at.offset() as u64,
                format!(
                    "the block here is not valid, but the log was sealed later, at byte {}",
                    seal.cut.offset()
                ),
            ));
        }
        if seal.sequence != self.sequence {
            return Err(Error::corrupt(
                &name,
                place,
                format!(
                    "the log was sealed before record {}, but {} come before it",
                    seal.sequence, self.sequence
                ),
            ));
        }
        Ok(Some(Lsn::new(at.segment(), place as u32)))
    }

    /// The segment says that it was sealed and that the log goes on behind it: what ends here without
    /// the seal is no tail, whatever the next segment still holds.
    fn no_seal(&self, at: Lsn) -> Error {
        Error::corrupt(
            &self.reader.segment().name,
            at.offset() as u64,
            format!(
                "there is neither a valid block here nor the seal of the log behind it, though the log goes on in {}",
                file_name(&self.options.prefix, at.segment().saturating_add(1))
            ),
        )
    }

    fn end(&mut self, at: Lsn, sealed: bool) -> End {
        let place = (at.offset() as u64).next_multiple_of(SECTOR);
        End {
            at,
            tail: Lsn::new(at.segment(), place as u32),
            sealed,
            sequence: self.sequence,
            dropped: self.partial.is_some(),
            known_durable: self.scan.known_durable(),
            ends: std::mem::take(&mut self.ends),
        }
    }

    /// Looks at everything behind the end: is it the tail, or damage?
    pub(crate) fn judge(&mut self, end: &mut End) -> Result<()> {
        let mut seen = 0u64;
        let scan = &mut self.scan;
        let mut found = |at: Lsn, header: BlockHeader| {
            seen += 1;
            scan.later(at, header.synced);
        };
        if !end.sealed {
            self.reader.search(end.at.offset() as u64, &mut found)?;
        }
        let behind = (Bound::Excluded(end.at.segment()), Bound::Unbounded);
        for (_, segment) in self.segments.range(behind) {
            self.reader.turn_to(segment.clone(), self.options);
            self.reader.search(HEADER_BYTES, &mut found)?;
        }
        end.dropped |= seen > 0;
        match self.scan.verdict() {
            Verdict::Tail(_) => Ok(()),
            Verdict::Damage {
                gap,
                witness,
                synced,
            } => Err(Error::corrupt(
                file_name(&self.options.prefix, gap.segment()),
                gap.offset() as u64,
                format!(
                    "the block here is not valid, but the one at byte {} of {} was written when the log was durable up to byte {} of {}",
                    witness.offset(),
                    file_name(&self.options.prefix, witness.segment()),
                    synced.offset(),
                    file_name(&self.options.prefix, synced.segment()),
                ),
            )),
        }
    }

    pub(crate) fn report(&self, end: &End) -> RecoveryReport {
        RecoveryReport {
            records: self.records,
            record_bytes: self.record_bytes,
            segments: end.ends.len() as u64 + 1,
            end: Position::new(end.at, end.sequence),
            dropped_tail: end.dropped,
        }
    }
}

/// Puts records together from the pieces of blocks.
pub(crate) struct Records<'r> {
    pub(crate) partial: &'r mut Option<Vec<u8>>,
    pub(crate) sequence: &'r mut u64,
    pub(crate) records: &'r mut u64,
    pub(crate) record_bytes: &'r mut u64,
    pub(crate) apply: &'r mut dyn FnMut(u64, &[u8]) -> Result<()>,
}

impl Records<'_> {
    /// Replays the pieces of one block.
    pub(crate) fn replay(
        &mut self,
        header: &BlockHeader,
        payload: &[u8],
        prefix: &str,
        at: Lsn,
    ) -> Result<()> {
        // The block is as it was written, so what makes no sense was written so.
        let nonsense = |what: &str| {
            Err(Error::corrupt(
                file_name(prefix, at.segment()),
                at.offset() as u64,
                what,
            ))
        };
        if payload.is_empty() {
            return Ok(());
        }
        if header.is(CONTINUES) != self.partial.is_some() {
            return nonsense(
                "the block does not go on with the record that the one before it left open",
            );
        }
        let mut rest = Reader::new(payload);
        while let Some(piece) = next_piece(&mut rest) {
            let Some(piece) = piece else {
                return nonsense("the length of a record reaches past the end of its block");
            };
            let open = header.is(MORE) && rest.rest().is_empty();
            match self.partial {
                None if open => *self.partial = Some(piece.to_vec()),
                None => self.record(piece)?,
                Some(partial) => {
                    if partial.len() + piece.len() > MAX_RECORD_BYTES {
                        return nonsense("the record is longer than any that can be written");
                    }
                    partial.extend_from_slice(piece);
                    if !open {
                        let whole = self.partial.take().unwrap_or_default();
                        self.record(&whole)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn record(&mut self, bytes: &[u8]) -> Result<()> {
        (self.apply)(*self.sequence, bytes)?;
        *self.sequence = self.sequence.wrapping_add(1);
        *self.records += 1;
        *self.record_bytes += bytes.len() as u64;
        Ok(())
    }
}
