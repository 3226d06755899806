//! Making the next segment, by one thread for all that wait for it, of a file that is not needed any more if there is one.

use std::sync::Arc;

use terrace_base::disk::DiskFile;
use terrace_base::sync::MutexGuard;
use terrace_base::{Error, Result};

use crate::fault::Fault;
use crate::log::Log;
use crate::lsn::Lsn;
use crate::options::usable;
use crate::segment::{PrepareError, Segment, Size, file_name};
use crate::state::{Older, State};

impl Log {
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

    /// The file of the segment `old`, which is not needed any more, as that of segment `number`, and its
    /// length; `None` if that cannot be had, or is shorter than `least` or longer than segments are. Then
    /// it is deleted, because others may need the space.
    fn reuse(
        &self,
        (old, known): (u32, Older),
        number: u32,
        least: u64,
    ) -> Option<(Arc<dyn DiskFile>, u64)> {
        let bytes = known.bytes.max(least).min(self.options.segment_bytes);
        let [from, to] = [old, number].map(|n| file_name(&self.options.prefix, n));
        let reused = self.disk.reuse_buffered(&from, &to, bytes);
        if reused.is_err() && self.delete_segment(old).is_err() {
            // It only takes space; the next checkpoint tries again.
            self.state.lock().older.insert(old, known);
        }
        reused.ok().map(|file| (file, bytes))
    }
}
