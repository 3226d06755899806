//! The log as a whole: making one, the cut, what a checkpoint allows to delete, its statistics.

use std::ops::Deref;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::lane::Lane;
use terrace_base::sync::atomic::AtomicU64;
use terrace_base::sync::{Condvar, Mutex};
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::layout::HEADER_BYTES;
use crate::lsn::{Lsn, Position};
use crate::options::{LogOptions, shortest_ordinary};
use crate::reader::has_blocks;
use crate::segment::{self, PrepareError, Segment, Size, file_name};
use crate::state::{Course, State};
use crate::stats::LogStats;

/// A log of opaque records in segment files.
///
/// The way of a record: [`Log::reserve`] (may wait, may fail), [`Log::append`] (neither),
/// [`Log::commit`] (waits for the disk).
pub struct Log {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) options: LogOptions,
    pub(crate) state: OwnLine<Mutex<State>>,
    /// Signals: a write has ended, or room was given back; a sync has ended; a segment was made.
    pub(crate) written: Condvar,
    pub(crate) synced: Condvar,
    pub(crate) prepared: Condvar,
    /// The thread in [`Log::run_background`] is asked for something, or to go.
    pub(crate) background: Condvar,
    /// Held while the directory is synced.
    directory: Mutex<()>,
    /// Held while a segment is synced.
    syncs: Mutex<()>,
    /// How far the log is written and synced; they follow the watermarks under the mutex.
    pub(crate) written_to: AtomicU64,
    pub(crate) synced_to: AtomicU64,
    /// What can be appended without the mutex.
    pub(crate) lane: Lane<Course>,
}

/// Begins a line of the cache.
#[repr(align(64))]
pub(crate) struct OwnLine<T>(T);

impl<T> Deref for OwnLine<T> {
    type Target = T;

    #[inline(always)]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// While it lives no lane is opened.
struct LaneShut<'l>(&'l Log);

impl Drop for LaneShut<'_> {
    fn drop(&mut self) {
        self.0.state.lock().syncs_of_current -= 1;
    }
}

impl Log {
    /// Makes a new log; `generation` is the newest durable checkpoint. Refused where there is a log
    /// with records; what an earlier attempt left half-made is replaced.
    pub fn create(disk: Arc<dyn Disk>, options: LogOptions, generation: u64) -> Result<Log> {
        options.check()?;
        for number in segment::list(&*disk, &options)? {
            let name = file_name(&options.prefix, number);
            let in_use = match Segment::open(&*disk, &options, number)? {
                Some(segment) => has_blocks(&Arc::new(segment), &options)?,
                None => false,
            };
            if number != FIRST_SEGMENT || in_use {
                return Err(Error::invalid(format!(
                    "there is a log already ({name}); open it, or choose an empty directory"
                )));
            }
            disk.delete(&name)
                .map_err(|e| Error::io("deleting", &name, e))?;
        }
        let size = Size {
            bytes: options.shortest(),
            least: shortest_ordinary(&options),
            file: None,
        };
        let first = Segment::prepare(&*disk, &options, FIRST_SEGMENT, generation, size);
        let first = first.map_err(|e| match e {
            PrepareError::Refused(e) | PrepareError::Fatal(e) => e,
        })?;
        disk.sync_directory()
            .map_err(|e| Error::io("syncing", "the directory", e))?;
        let tail = Lsn::new(first.number, HEADER_BYTES as u32);
        let mut state = State::new(&options, Arc::new(first), false, tail, FIRST_SEQUENCE);
        let first = state.current.clone();
        state.made(&first);
        Ok(Log::with_state(disk, options, state))
    }

    pub(crate) fn with_state(disk: Arc<dyn Disk>, options: LogOptions, state: State) -> Log {
        Log {
            disk,
            options,
            written_to: AtomicU64::new(state.marks.written_to().raw()),
            synced_to: AtomicU64::new(state.marks.synced_to().raw()),
            lane: Lane::default(),
            state: OwnLine(Mutex::new(state)),
            written: Condvar::new(),
            synced: Condvar::new(),
            prepared: Condvar::new(),
            background: Condvar::new(),
            directory: Mutex::new(()),
            syncs: Mutex::new(()),
        }
    }

    /// The cut: every record appended so far lies before it, every later one behind it. To be
    /// called with no operation in flight. Does no input or output.
    pub fn position(&self) -> Position {
        let mut state = self.state.lock();
        self.close_lane(&mut state);
        state.cut(&self.options)
    }

    /// The superblock of checkpoint `generation`, whose cut is `from`, is durable. Notes that
    /// durably, so that no older superblock can be opened with this log any more, and deletes the
    /// segments before the cut; that is left to the thread in [`Log::run_background`] if there is one.
    ///
    /// To be called before anything is reused that only older checkpoints need. Needs no space.
    pub fn checkpointed(&self, from: Position, generation: u64) -> Result<()> {
        let current = {
            let mut state = self.state.lock();
            if let Some(error) = state.poison_error() {
                return Err(error);
            }
            state.generation = state.generation.max(generation);
            state.checkpointed(&self.options);
            // What lies before the cut nobody needs any more, durable or not, unless somebody reads it.
            let kept = state.kept_from(from.segment);
            state.dirty.retain(|s| u64::from(s.number) >= kept);
            state.current.clone()
        };
        if !self.options.planted(Fault::NoGenerationNote) {
            let noted = current.write_note(generation);
            noted.map_err(|e| self.fail(e))?;
            self.sync_segment(&current)?;
        }
        let outdated = self.put_aside(from.segment);
        if outdated.is_empty() {
            return Ok(());
        }
        for number in outdated {
            // The checkpoint is durable all the same; what cannot be deleted only takes space, and the
            // next one tries again.
            let _: Result<()> = self.delete_segment(number);
        }
        self.sync_directory()
    }

    /// Syncs a segment, or poisons. One at a time: where two threads sync a file at the same moment and
    /// it fails, the system says so to one of them, and "done" to the other.
    pub(crate) fn sync_segment(&self, segment: &Segment) -> Result<()> {
        let _turn = (!self.options.planted(Fault::SyncsAtOnce)).then(|| self.syncs.lock());
        let _shut = self.shut_lane(segment)?;
        let mut synced = segment.file.sync();
        if synced.is_err() && self.options.planted(Fault::RetrySync) {
            synced = segment.file.sync();
        }
        // Never tried again: the operating system may have dropped what it could not write, and would
        // answer "done" the second time.
        synced.map_err(|e| self.fail(Error::io("syncing", &segment.name, e)))
    }

    /// Keeps the lane shut while this segment is synced, if it is the current one.
    fn shut_lane(&self, segment: &Segment) -> Result<Option<LaneShut<'_>>> {
        let mut state = self.state.lock();
        if let Some(error) = state.poison_error() {
            return Err(error);
        }
        if state.current.number != segment.number {
            return Ok(None);
        }
        self.close_lane(&mut state);
        state.syncs_of_current += 1;
        Ok(Some(LaneShut(self)))
    }

    pub(crate) fn delete_segment(&self, number: u32) -> Result<()> {
        let name = file_name(&self.options.prefix, number);
        match self.disk.delete(&name) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => return Err(Error::io("deleting", name, e)),
        }
        let mut state = self.state.lock();
        state.older.remove(&number);
        state.stats.segments_deleted += 1;
        Ok(())
    }

    /// Makes the names of files durable, or poisons. One at a time: a sync that fails may drop what
    /// another thread has pending, whose own sync would then say "done".
    pub(crate) fn sync_directory(&self) -> Result<()> {
        let _turn = self.directory.lock();
        match self.poisoned() {
            Some(error) => Err(error),
            None => self
                .disk
                .sync_directory()
                .map_err(|e| self.fail(Error::io("syncing", "the directory", e))),
        }
    }

    /// Poisons the log; the error that callers get from now on.
    fn fail(&self, error: Error) -> Error {
        let mut state = self.state.lock();
        self.stop(&mut state, &error);
        state.poison_error().unwrap_or(error)
    }

    /// Stops the log for good, because of a failure elsewhere after which nothing more may be
    /// written.
    pub fn poison(&self, cause: &str) {
        let mut state = self.state.lock();
        state.poisoned.get_or_insert_with(|| cause.to_owned());
        self.give_up_lane(&mut state);
        self.wake_all();
    }

    /// The failure that stopped the log, if there was one.
    pub fn poisoned(&self) -> Option<Error> {
        self.state.lock().poison_error()
    }

    /// Bytes of log from `position` to the tail: what recovery from there would read.
    pub fn bytes_since(&self, position: Position) -> u64 {
        let state = self.look();
        let tail = state.tail;
        if position.segment >= tail.segment() as u64 {
            return (tail.offset() as u64).saturating_sub(position.offset);
        }
        let older = state
            .older
            .range(position.segment.min(u32::MAX as u64) as u32..);
        let before: u64 = older
            .map(|(&number, older)| {
                let from = if number as u64 == position.segment {
                    position.offset
                } else {
                    HEADER_BYTES
                };
                older.end.saturating_sub(from)
            })
            .sum();
        before + (tail.offset() as u64).saturating_sub(HEADER_BYTES)
    }

    /// Bytes of the segment files that are there.
    pub fn disk_bytes(&self) -> u64 {
        let state = self.state.lock();
        let older = state.older.values().map(|older| older.bytes);
        let spares = state.spares.iter().map(|spare| spare.bytes);
        older.sum::<u64>() + state.current.bytes + spares.sum::<u64>()
    }

    /// Memory that the log keeps for itself.
    pub fn memory_bytes(&self) -> usize {
        self.options.half() * 2
    }

    /// What the log has done since it was opened.
    pub fn stats(&self) -> LogStats {
        self.look().stats
    }

    /// Makes everything durable and takes no further records.
    pub fn close(&self) -> Result<()> {
        let end = {
            let mut state = self.state.lock();
            state.closed = true;
            self.background.notify_all();
            self.synced.notify_all();
            self.close_lane(&mut state);
            state.tail
        };
        self.sync_to(end)
    }
}

impl std::fmt::Debug for Log {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.look();
        f.debug_struct("Log")
            .field("tail", &state.tail)
            .field("sequence", &state.sequence)
            .finish_non_exhaustive()
    }
}

/// Number of the first segment: an address of 0 is none.
const FIRST_SEGMENT: u32 = 1;

/// Sequence number of the first record.
const FIRST_SEQUENCE: u64 = 1;
