//! The files of the segments: they and their names are made durable, by one thread at a time, and deleted.
//!
//! Invariant: a sync that failed has poisoned the log, and is never tried again.

use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::log::Log;
use crate::segment::{Segment, file_name};

/// While it lives no lane is opened.
struct LaneShut<'l>(&'l Log);

impl Drop for LaneShut<'_> {
    fn drop(&mut self) {
        self.0.state.lock().syncs_of_current -= 1;
    }
}

impl Log {
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
}
