//! Recovery: replays the log from the cut of a checkpoint, judges its end, and seals it.
//!
//! The order of the last steps is what makes a second crash harmless: what was replayed is made
//! durable, then what lies behind the tail is durably deleted, then the seal is durably written;
//! only then may a new block exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::codec::{Reader, u64_at};
use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::{BLOCK_HEADER, BlockHeader, CONTINUES, HEADER_BYTES, LAST, MORE, SEAL, SECTOR};
use crate::layout::{next_piece, seal_block};
use crate::log::Log;
use crate::lsn::{Lsn, Position};
use crate::options::{LogOptions, MAX_RECORD_BYTES};
use crate::reader::BlockReader;
use crate::segment::{self, Segment, file_name};
use crate::state::State;
use crate::tail::{GapRule, TailScan, Verdict};

/// What a recovery found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RecoveryReport {
    /// Records replayed.
    pub records: u64,
    /// Their bytes.
    pub record_bytes: u64,
    /// Segments that they lay in.
    pub segments: u64,
    /// Where the log was found to end, and the sequence number of the next record.
    pub end: Position,
    /// Whether valid blocks behind the end were dropped, or a record that was not complete: never
    /// acknowledged as durable, and lost to a power cut.
    pub dropped_tail: bool,
}

/// A seal's payload: the address of the cut, and the next sequence number.
const SEAL_PAYLOAD: usize = 16;

/// Bytes read and written again at a time.
const REWRITE_BYTES: u64 = 256 << 10;

/// What the seal at the end of a segment says.
struct Seal {
    cut: Lsn,
    sequence: u64,
}

impl Seal {
    fn decode(payload: &[u8]) -> Option<Seal> {
        Some(Seal {
            cut: Lsn::from_raw(u64_at(payload, 0)?),
            sequence: u64_at(payload, 8)?,
        })
    }
}

impl Log {
    /// Opens the log after the checkpoint whose superblock names the cut `from` and `generation`:
    /// gives every record from exactly `from` on to `apply`, in order, then cuts and durably seals
    /// the tail. Needs no space on the disk.
    ///
    /// Refuses with [`Error::Corrupt`] where a block is damaged that a later valid block says was
    /// durable, and where a segment names a newer durable generation than `generation`. An error of
    /// `apply` ends the recovery, before anything is changed.
    ///
    /// Takes about a mebibyte of memory while it runs, and that of the longest record.
    pub fn recover(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        from: Position,
        generation: u64,
        apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
    ) -> Result<(Log, RecoveryReport)> {
        options.check()?;
        let numbers = segment::list(&*disk, &options)?;
        let at = from.lsn().filter(|at| at.offset() as u64 >= HEADER_BYTES).ok_or_else(|| {
            Error::invalid(format!(
                "segment {} byte {} cannot be a cut of the log; the superblock that names it is not of this database",
                from.segment, from.offset
            ))
        })?;
        let segments = open_segments(&*disk, &options, &numbers, at.segment(), generation)?;
        let mut replay = Replay::new(&options, &segments, from, at, apply)?;
        let mut end = replay.run()?;
        replay.judge(&mut end)?;
        let chain = std::mem::take(&mut replay.chain);
        let report = replay.report(&end);

        make_durable(&options, &chain, at, &end)?;
        let last = chain
            .last()
            .cloned()
            .ok_or_else(|| missing(&options, at.segment()))?;
        // The checkpoint that is opened is durable, whether or not its own note was written.
        if !options.planted(Fault::NoNoteAtRecovery) {
            last.note(generation)?;
        }
        let seal_first = options.planted(Fault::SealBeforeDelete);
        if seal_first {
            seal(&options, &last, &mut end)?;
        }
        let gone = numbers
            .iter()
            .copied()
            .filter(|&n| n < at.segment() || n > last.number);
        delete(&*disk, &options, gone)?;
        if !seal_first {
            seal(&options, &last, &mut end)?;
        }

        let mut state = State::new(&options, last, true, end.tail, end.sequence);
        state.generation = generation;
        state.older = replay_ends(&chain, &end);
        Ok((Log::with_state(disk, options, state), report))
    }
}

/// End offsets of all segments of the chain but the last.
fn replay_ends(chain: &[Arc<Segment>], end: &End) -> BTreeMap<u32, u64> {
    let older = &chain[..chain.len().saturating_sub(1)];
    older
        .iter()
        .map(|s| {
            (
                s.number,
                end.ends.get(&s.number).copied().unwrap_or(s.bytes),
            )
        })
        .collect()
}

/// Opens the segments from `first` on; those without a valid header are left out.
fn open_segments(
    disk: &dyn Disk,
    options: &LogOptions,
    numbers: &[u32],
    first: u32,
    generation: u64,
) -> Result<BTreeMap<u32, Arc<Segment>>> {
    if !numbers.contains(&first) {
        return Err(missing(options, first));
    }
    let mut segments = BTreeMap::new();
    for &number in numbers.iter().filter(|&&n| n >= first) {
        let Some(segment) = Segment::open(disk, options, number)? else {
            continue;
        };
        if segment.generation > generation {
            return Err(Error::corrupt(
                &segment.name,
                0,
                format!(
                    "it says that checkpoint {} was durable, but the newest superblock found is of checkpoint {generation}; opening that one would lose what the newer one holds",
                    segment.generation
                ),
            ));
        }
        let segment = Arc::new(segment);
        if !segment.complete {
            if number == first || segment::has_blocks(&segment, options)? {
                return Err(Error::corrupt(
                    &segment.name,
                    segment.bytes,
                    "the file ends there, before the end that its header names",
                ));
            }
            // A crash came while it was made.
            continue;
        }
        segments.insert(number, segment);
    }
    if !segments.contains_key(&first) {
        return Err(bad_header(options, first));
    }
    Ok(segments)
}

fn missing(options: &LogOptions, number: u32) -> Error {
    Error::corrupt(
        file_name(&options.prefix, number),
        0,
        "the file is missing, though the log must be read from there",
    )
}

fn bad_header(options: &LogOptions, number: u32) -> Error {
    Error::corrupt(
        file_name(&options.prefix, number),
        0,
        "neither copy of the header of this log segment is valid",
    )
}

/// The end of the log.
struct End {
    /// Where the chain of blocks ends.
    at: Lsn,
    /// Where the seal is or will be: the tail of the log from now on.
    tail: Lsn,
    sealed: bool,
    sequence: u64,
    dropped: bool,
    /// How far blocks say that the log is durable.
    known_durable: Option<Lsn>,
    /// End offsets of the segments before the last.
    ends: BTreeMap<u32, u64>,
}

/// The state of a replay.
struct Replay<'a> {
    options: &'a LogOptions,
    segments: &'a BTreeMap<u32, Arc<Segment>>,
    from: Lsn,
    chain: Vec<Arc<Segment>>,
    ends: BTreeMap<u32, u64>,
    reader: BlockReader,
    scan: TailScan,
    /// The record that the last block left open.
    partial: Option<Vec<u8>>,
    sequence: u64,
    records: u64,
    record_bytes: u64,
    apply: &'a mut dyn FnMut(u64, &[u8]) -> Result<()>,
}

impl<'a> Replay<'a> {
    fn new(
        options: &'a LogOptions,
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
        })
    }

    /// Follows the chain of blocks to its end.
    fn run(&mut self) -> Result<End> {
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
                    None => return Ok(self.end(at, false)),
                    Some(tail) => {
                        self.partial = None;
                        if !self.segments.contains_key(&(at.segment() + 1)) {
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
            if header.is(LAST) {
                self.next_segment(header.synced, next)?;
            } else {
                self.scan.chain(header.synced, next);
            }
        }
    }

    fn next_segment(&mut self, synced: Lsn, end: Lsn) -> Result<()> {
        let number = end.segment().saturating_add(1);
        // A segment is durable before a block goes there, and the mark that the log goes on there
        // is such a block's neighbour.
        let Some(segment) = self.segments.get(&number) else {
            return Err(bad_header(self.options, number));
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
    fn judge(&mut self, end: &mut End) -> Result<()> {
        let mut seen = 0u64;
        let scan = &mut self.scan;
        let mut found = |at: Lsn, header: BlockHeader| {
            seen += 1;
            scan.later(at, header.synced);
        };
        if !end.sealed {
            self.reader.search(end.at.offset() as u64, &mut found)?;
        }
        for (_, segment) in self.segments.range(end.at.segment().saturating_add(1)..) {
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

    fn report(&self, end: &End) -> RecoveryReport {
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
struct Records<'r> {
    partial: &'r mut Option<Vec<u8>>,
    sequence: &'r mut u64,
    records: &'r mut u64,
    record_bytes: &'r mut u64,
    apply: &'r mut dyn FnMut(u64, &[u8]) -> Result<()>,
}

impl Records<'_> {
    /// Replays the pieces of one block.
    fn replay(
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

/// Makes everything that was replayed durable, before the seal says that it is.
///
/// A process that died may have left blocks with the operating system that were never synced; or,
/// if a sync had failed, blocks that the cache still shows but takes for clean, so that no sync
/// will ever write them. What no block says is durable is therefore written again, as it is.
fn make_durable(options: &LogOptions, chain: &[Arc<Segment>], from: Lsn, end: &End) -> Result<()> {
    if options.planted(Fault::NoResync) {
        return Ok(());
    }
    let start = end.known_durable.map_or(from, |known| known.max(from));
    for segment in chain.iter().filter(|s| s.number >= start.segment()) {
        let first = if segment.number == start.segment() {
            start.offset() as u64
        } else {
            HEADER_BYTES
        };
        let last = end
            .ends
            .get(&segment.number)
            .copied()
            .unwrap_or(end.tail.offset() as u64);
        if !options.planted(Fault::NoRewrite) {
            rewrite(
                segment,
                first / SECTOR * SECTOR,
                last.next_multiple_of(SECTOR).min(segment.bytes),
            )?;
        }
        segment
            .file
            .sync()
            .map_err(|e| Error::io("syncing", &segment.name, e))?;
    }
    Ok(())
}

fn rewrite(segment: &Segment, mut offset: u64, end: u64) -> Result<()> {
    let mut chunk = Vec::new();
    while offset < end {
        chunk.resize((end - offset).min(REWRITE_BYTES) as usize, 0);
        segment
            .file
            .read_at(&mut chunk, offset)
            .map_err(|e| Error::io("reading", &segment.name, e))?;
        segment
            .file
            .write_at(&chunk, offset)
            .map_err(|e| Error::io("writing", &segment.name, e))?;
        offset += chunk.len() as u64;
    }
    Ok(())
}

/// Durably ends the log at `end` in `segment`.
fn seal(options: &LogOptions, segment: &Segment, end: &mut End) -> Result<()> {
    if end.sealed || options.planted(Fault::NoSeal) {
        return Ok(());
    }
    let place = end.tail.offset() as u64;
    if place + SECTOR > segment.bytes {
        return Err(Error::corrupt(
            &segment.name,
            place,
            "the log reaches into the space that every segment keeps free for its seal",
        ));
    }
    let mut sector = vec![0; SECTOR as usize];
    let block = &mut sector[..BLOCK_HEADER + SEAL_PAYLOAD];
    block[BLOCK_HEADER..BLOCK_HEADER + 8].copy_from_slice(&end.at.raw().to_le_bytes());
    block[BLOCK_HEADER + 8..].copy_from_slice(&end.sequence.to_le_bytes());
    seal_block(block, segment.salt(options), end.tail, end.at, SEAL);
    segment
        .file
        .write_at(&sector, place)
        .map_err(|e| Error::io("writing", &segment.name, e))?;
    segment
        .file
        .sync()
        .map_err(|e| Error::io("syncing", &segment.name, e))
}

fn delete(disk: &dyn Disk, options: &LogOptions, numbers: impl Iterator<Item = u32>) -> Result<()> {
    let mut any = false;
    for number in numbers {
        let name = file_name(&options.prefix, number);
        disk.delete(&name)
            .map_err(|e| Error::io("deleting", &name, e))?;
        any = true;
    }
    if any {
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
    }
    Ok(())
}
