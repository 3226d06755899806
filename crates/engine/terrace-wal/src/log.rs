//! What the log consists of: making one, how it stops for good, what is asked of the thread in the background, its
//! statistics.
//!
//! Invariant: nothing here needs what works on the log, which is in the other files.

use std::ops::Deref;
use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::lane::Lane;
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::sync::{Condvar, Mutex, MutexGuard};
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
    pub(crate) directory: Mutex<()>,
    /// Held while a segment is synced.
    pub(crate) syncs: Mutex<()>,
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

    /// Poisons the log; the error that callers get from now on.
    pub(crate) fn fail(&self, error: Error) -> Error {
        let mut state = self.state.lock();
        self.stop(&mut state, &error);
        state.poison_error().unwrap_or(error)
    }

    /// The state of the log as it is now.
    pub(crate) fn look(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock();
        if let (Some(open), Some(taken)) = (&mut state.lane, self.lane.taken()) {
            let seen = std::mem::replace(&mut open.seen, taken);
            state.saw(seen, taken);
        }
        state
    }

    /// The log is poisoned: nothing more goes to the lane.
    fn give_up_lane(&self, state: &mut State) {
        let closed = self.lane.give_up();
        if let (Some(open), Some(closed)) = (state.lane.take(), closed) {
            state.settle(open, &closed);
        }
    }

    pub(crate) fn publish_written(&self, end: Lsn) {
        self.written_to.store(end.raw(), Ordering::Release);
    }

    /// After a failure: nothing more is written, and all are told.
    pub(crate) fn stop(&self, state: &mut State, error: &Error) {
        state.poison(error);
        self.give_up_lane(state);
        self.wake_all();
    }

    pub(crate) fn wake_all(&self) {
        self.written.notify_all();
        self.synced.notify_all();
        self.prepared.notify_all();
        self.background.notify_all();
    }

    /// Asks the thread in [`Log::run_background`] for a segment if the caller `can_wait` for it; whether there is one to ask.
    pub(crate) fn ask_for_segment(&self, state: &mut State, can_wait: bool) -> bool {
        if !state.has_background || !can_wait || self.options.planted(Fault::NobodyAsked) {
            return false;
        }
        if !state.asked.segment {
            state.asked.segment = true;
            self.background.notify_one();
        }
        true
    }

    /// Asks it to hand over what was written up to `end`, if that has become much.
    pub(crate) fn ask_for_hand_over(&self, state: &mut State, end: Lsn) {
        let written_to = u64::from(end.offset());
        if state.has_background
            && state.asked.hand_over.is_none()
            && state.current.number == end.segment()
            && state.current.is_to_hand_over(written_to)
        {
            state.asked.hand_over = Some((state.current.clone(), written_to));
            self.background.notify_one();
        }
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
