//! Recovery: replays the log from the cut of a checkpoint, judges its end, and seals it.
//!
//! The order of the last steps is what makes a second crash harmless: what was replayed is made
//! durable, then what lies behind the tail is durably deleted, then the seal is durably written;
//! only then may a new block exist.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::HEADER_BYTES;
use crate::log::Log;
use crate::lsn::{Lsn, Position};
use crate::options::LogOptions;
use crate::progress::Progress;
use crate::reader::has_blocks;
use crate::replay::{Replay, bad_header, missing};
use crate::seal::{delete, make_durable, seal};
use crate::segment::{self, Segment};
use crate::state::{Older, State};
use crate::stats::RecoveryReport;
use crate::tail::End;

/// Sequence numbers lie below: no log has this number of records, and one more is still a number.
const SEQUENCE_LIMIT: u64 = 1 << 62;

impl Log {
    /// Whether the log says that the checkpoint of this generation was durable. It says so only after that
    /// one's superblock was synced; where it does not, or cannot be read, that is not known.
    pub fn has_noted(disk: &dyn Disk, options: &LogOptions, generation: u64) -> bool {
        let says = |&number: &u32| {
            let segment = Segment::open(disk, options, number);
            matches!(segment, Ok(Some(segment)) if segment.generation >= generation)
        };
        segment::list(disk, options).is_ok_and(|numbers| numbers.iter().any(says))
    }

    /// Whether there is a record from exactly `from` on, the cut of the checkpoint `generation`. Reads only.
    ///
    /// # Errors
    /// As [`Log::recover`].
    pub fn has_records(
        disk: &dyn Disk,
        options: &LogOptions,
        from: Position,
        generation: u64,
    ) -> Result<bool> {
        options.check()?;
        let numbers = segment::list(disk, options)?;
        let at = checked(from)?;
        let segments = open_segments(disk, options, &numbers, at.segment(), generation)?;
        let mut apply = |_: u64, _: &[u8]| Ok(());
        let mut replay = Replay::new(options, &numbers, &segments, from, at, &mut apply)?;
        let mut end = replay.run()?;
        replay.judge(&mut end)?;
        Ok(replay.report(&end).records > 0)
    }

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
        Log::recover_with(disk, options, from, generation, apply, None)
    }

    /// As [`Log::recover`]. After every block `seen` hears how many bytes of the log have been read, and
    /// how many there are at most: it is not known before where in its last file the log ends.
    pub fn recover_with(
        disk: Arc<dyn Disk>,
        options: LogOptions,
        from: Position,
        generation: u64,
        apply: &mut dyn FnMut(u64, &[u8]) -> Result<()>,
        seen: Option<&mut dyn FnMut(u64, u64)>,
    ) -> Result<(Log, RecoveryReport)> {
        options.check()?;
        let numbers = segment::list(&*disk, &options)?;
        let at = checked(from)?;
        let segments = open_segments(&*disk, &options, &numbers, at.segment(), generation)?;
        let mut replay = Replay::new(&options, &numbers, &segments, from, at, apply)?;
        replay.progress = seen.map(|seen| Progress::new(&options, &segments, at, seen));
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
        let (retained, unread) = retained(&*disk, &options, &numbers, at.segment());
        let first = retained.keys().next().copied().unwrap_or(at.segment());
        // The next opening may be able to read it.
        let gone = numbers
            .iter()
            .copied()
            .filter(|&n| n < first || n > last.number)
            .filter(|&n| unread.is_none_or(|unread| n > unread));
        delete(&*disk, &options, gone)?;
        if !seal_first {
            seal(&options, &last, &mut end)?;
        }

        let mut state = State::new(&options, last, true, end.tail, end.sequence);
        state.generation = generation;
        state.older = older(&chain, &end);
        state.older.extend(retained);
        state.holds.cut = u64::from(at.segment());
        state.holds.opened_at = at;
        Ok((Log::with_state(disk, options, state), report))
    }
}

/// The place of a cut.
fn checked(from: Position) -> Result<Lsn> {
    let possible = |at: &Lsn| at.offset() as u64 >= HEADER_BYTES && from.sequence < SEQUENCE_LIMIT;
    from.lsn().filter(possible).ok_or_else(|| {
        Error::invalid(format!(
            "segment {} byte {} cannot be a cut of the log; the superblock that names it is not of this database",
            from.segment, from.offset
        ))
    })
}

/// All segments of the chain but the last.
fn older(chain: &[Arc<Segment>], end: &End) -> BTreeMap<u32, Older> {
    let older = &chain[..chain.len().saturating_sub(1)];
    let known = older.iter().map(|s| {
        let older = Older {
            end: end.ends.get(&s.number).copied().unwrap_or(s.bytes),
            bytes: s.bytes,
        };
        (s.number, older)
    });
    known.collect()
}

/// The newest segments before the cut, without a gap, that stay for who reads them later; and the one before them if
/// the disk did not give it.
fn retained(
    disk: &dyn Disk,
    options: &LogOptions,
    numbers: &[u32],
    cut: u32,
) -> (BTreeMap<u32, Older>, Option<u32>) {
    let (mut retained, mut left) = (BTreeMap::new(), options.retained_bytes);
    for number in (0..cut).rev() {
        // What is of no use to a reader is none, and neither is what lies before it.
        if left == 0 || !numbers.contains(&number) {
            break;
        }
        // The database needs none of them: what cannot be read does no harm.
        let segment = match Segment::open(disk, options, number) {
            Ok(Some(segment)) => segment,
            Ok(None) => break,
            Err(_) => return (retained, Some(number)),
        };
        if !segment.complete || segment.bytes > left {
            break;
        }
        left -= segment.bytes;
        let (end, bytes) = (segment.bytes, segment.bytes);
        retained.insert(number, Older { end, bytes });
    }
    (retained, None)
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
                None,
                format!(
                    "it says that checkpoint {} was durable, but the newest superblock found is of checkpoint {generation}; opening that one would lose what the newer one holds",
                    segment.generation
                ),
            ));
        }
        let segment = Arc::new(segment);
        if !segment.complete {
            if number == first || has_blocks(&segment, options)? {
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
