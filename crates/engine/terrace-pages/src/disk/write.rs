//! Page writes: out of place, many at a time, from private copies.
//!
//! A page is copied under its shared latch into a batch buffer, its hints as they happen to be, its
//! checksum is computed there, the batch goes to one run of free slots, and only then is each page
//! registered, if it is still what was copied. No latch is held during the write.

use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::disk::Storage;
use crate::faults::{Planted, planted};
use crate::frames::copy::Purpose;
use crate::frames::page;
use crate::parts::data_file::{DATA_FILE, DATA_START};

impl Storage {
    /// Writes these frames' pages in batches; returns how many were registered.
    pub(crate) fn write_pages(&self, picks: &[u32], purpose: Purpose) -> Result<usize> {
        if picks.is_empty() {
            return Ok(0);
        }
        // In the order of their numbers: who reads such pages one after the other finds them side by side.
        let mut picks = picks.to_vec();
        for batch in picks.chunks_mut(self.common().layout.write_batch) {
            batch.sort_by_cached_key(|frame| self.frames.page_in(*frame));
        }
        let mut picks = picks.as_slice();
        let enters = match purpose {
            Purpose::Clean => planted(Planted::CleanerEnters),
            Purpose::ActiveCheckpoint => planted(Planted::CutWritesEnter),
        };
        let _inside = enters.then(|| self.pass_waiting());
        let mut buffer = self.buffers.take();
        let mut done = 0;
        let mut result = Ok(());
        while !picks.is_empty() && result.is_ok() {
            let n = picks.len().min(self.common().layout.write_batch);
            match self.write_batch(&picks[..n], purpose, &mut buffer) {
                Ok((consumed, registered)) => {
                    picks = &picks[consumed..];
                    done += registered;
                }
                Err(e) => result = Err(e),
            }
        }
        self.buffers.give(buffer);
        result.map(|()| done)
    }

    /// One run of slots, one write. Returns how many picks were consumed and how many registered.
    fn write_batch(
        &self,
        picks: &[u32],
        purpose: Purpose,
        buffer: &mut AlignedBuf,
    ) -> Result<(usize, usize)> {
        let page_bytes = self.common().page_bytes();
        let run = self.allocate_slots(picks.len() as u64)?;
        let mut copied = Vec::with_capacity(run.len as usize);
        let mut consumed = 0;
        for &index in picks {
            if copied.len() as u64 == run.len {
                break;
            }
            consumed += 1;
            let at = copied.len() * page_bytes;
            let into = &mut buffer[at..at + page_bytes];
            copied.extend(self.frames.copy_out(index, purpose, into));
        }
        let used = copied.len() as u64;
        let offset = DATA_START + run.first * page_bytes as u64;
        let written = if used == 0 {
            Ok(())
        } else {
            self.common().counters.page_writes.add(used);
            self.data
                .write_at(&buffer[..used as usize * page_bytes], offset)
        };
        self.frames
            .release_slots(run.first + used..run.first + run.len);
        if let Err(e) = written {
            // The slots were reserved, so this is no lack of space that could pass.
            for c in &copied {
                self.frames.end_writing(c, |_| {});
            }
            return Err(self.common().poison(&Error::io("writing", DATA_FILE, e)));
        }
        let written = copied.iter().zip(run.first..);
        let registered = |(c, slot)| usize::from(self.frames.register_copy(c, slot, purpose));
        Ok((consumed, written.map(registered).sum()))
    }

    /// Writes the first of these pages, as many as there is a run of slots for; returns how many.
    pub(crate) fn write_copies(&self, copies: &[(PageId, Box<[u8]>)], epoch: u32) -> Result<usize> {
        let run = self.allocate_slots(copies.len() as u64)?;
        let copies = &copies[..run.len as usize];
        let page_bytes = self.common().page_bytes();
        let mut buffer = self.buffers.take();
        let into = &mut buffer[..copies.len() * page_bytes];
        let mut checks = Vec::with_capacity(copies.len());
        for ((pid, copy), into) in copies.iter().zip(into.chunks_exact_mut(page_bytes)) {
            into.copy_from_slice(copy);
            checks.push(page::seal(into, *pid, epoch));
        }
        for counter in [
            &self.common().counters.page_writes,
            &self.common().counters.checkpoint_page_writes,
        ] {
            counter.add(run.len);
        }
        let written = self
            .data
            .write_at(into, DATA_START + run.first * page_bytes as u64);
        self.buffers.give(buffer);
        if let Err(e) = written {
            return Err(self.common().poison(&Error::io("writing", DATA_FILE, e)));
        }
        self.frames
            .register_freed(copies, run.first, &checks, epoch);
        Ok(copies.len())
    }
}
