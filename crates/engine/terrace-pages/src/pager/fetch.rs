//! Pages brought in at the same time: by one call of the disk, which has many reads under way.
//!
//! Invariants:
//! * Who has claimed a page waits for nothing but the disk: for frames only who has claimed none, or two of them could
//!   wait for each other.
//! * What goes wrong with a page is its own error; all others are in memory.

use std::io::IoSliceMut;
use std::ops::Range;

use terrace_base::disk::DiskRead;
use terrace_base::{PageId, Result};

use crate::faults::{Planted, planted};
use crate::frames::page::read_error;
use crate::frames::page_in::Claimed;
use crate::frames::table::Word;
use crate::pager::{Pager, REQUEST_BYTES};
use crate::parts::data_file::DATA_START;

/// Pages that are wanted together, at most: what a device answers at once twice over. Whoever wants more asks again, and
/// has used the first ones by then.
const MOST: u64 = 64;
/// And one part in this many of the frames that are always for cold pages, so that they do not push each other out.
const FLOOR_PART: u64 = 2;

impl Pager {
    pub fn most_together(&self) -> usize {
        let floor = match self.common().is_image() {
            true => self.common().frames(),
            false => self.common().layout.floor(),
        };
        (floor / FLOOR_PART).clamp(1, MOST) as usize
    }

    pub fn fetch(&self, pages: &mut Vec<PageId>) -> Result<()> {
        pages.sort_unstable();
        pages.dedup();
        let (mut left, mut done, mut apart) = (&pages[..], Ok(()), Vec::new());
        while !left.is_empty() {
            done = done.and(self.fetch_some(&mut left, &mut apart)?);
        }
        // What others read, what an image's store has, and what stood in the way of its neighbours.
        apart
            .iter()
            .fold(done, |done, page| done.and(self.fault_in(*page)))
    }

    /// Brings in the first of these pages, and those behind it for which there are frames that take no waiting; they are
    /// taken off the front. The inner error is that of a page.
    fn fetch_some(&self, left: &mut &[PageId], apart: &mut Vec<PageId>) -> Result<Result<()>> {
        let mut claimed = Vec::new();
        if let Some((first, others)) = left.split_first() {
            if let Some(page) = self.take(*first, apart, || self.storage.take_frame().map(Some))? {
                claimed.extend(page);
            }
            *left = others;
        }
        while let Some((next, others)) = left.split_first() {
            let Some(page) = self.take(*next, apart, || Ok(self.frames().spare_frame()))? else {
                break;
            };
            claimed.extend(page);
            *left = others;
        }
        Ok(self.read_claimed(claimed, apart))
    }

    pub fn read_ahead(&self, pages: impl IntoIterator<Item = PageId>) {
        let mut pages = pages.into_iter();
        if let Some(first) = pages.next()
            && matches!(self.table_word(first), Some(Word::Out(_)))
        {
            let others = pages.take(self.most_together() - 1);
            let mut all: Vec<PageId> = std::iter::once(first).chain(others).collect();
            all.retain(|page| self.table_word(*page).is_some());
            let _ = self.fetch_some(&mut &all[..], &mut Vec::new());
        }
    }

    /// What the table says of a page, if there is such a number.
    fn table_word(&self, pid: PageId) -> Option<Word> {
        (pid.0 < self.frames().page_numbers()).then(|| self.frames().word(pid))
    }

    /// Takes a page to read it into a frame that `frame` gives, if it is not in memory. Those of others go to `apart`.
    /// `None` if there is no frame.
    fn take(
        &self,
        pid: PageId,
        apart: &mut Vec<PageId>,
        frame: impl FnOnce() -> Result<Option<u32>>,
    ) -> Result<Option<Option<Claimed<'_>>>> {
        match self.frames().word(pid) {
            Word::Out(place) if place.slot().is_some() && !self.is_in_main(pid) => {
                let Some(frame) = frame()? else {
                    return Ok(None);
                };
                let claimed = self.frames().claim(pid, place, frame);
                if claimed.is_none() {
                    apart.push(pid);
                }
                Ok(Some(claimed))
            }
            Word::Resident(_) => Ok(Some(None)),
            Word::Out(place) if place.slot().is_none() => Ok(Some(None)),
            _ => {
                apart.push(pid);
                Ok(Some(None))
            }
        }
    }

    /// Reads pages, those that lie side by side by one request. Each of them is in memory afterwards, or out again. Of
    /// those that were read with others and may not be the ones that stood in the way the numbers go to `apart`.
    fn read_claimed(&self, mut claimed: Vec<Claimed<'_>>, apart: &mut Vec<PageId>) -> Result<()> {
        if claimed.len() <= 1 {
            return claimed.pop().map_or(Ok(()), |page| self.read_alone(page));
        }
        claimed.sort_unstable_by_key(|page| page.slot);
        let runs = runs(&claimed, REQUEST_BYTES / self.common().page_bytes());
        let mut reads = Vec::with_capacity(runs.len());
        for run in &runs {
            let pages = &claimed[run.clone()];
            let mut bufs = Vec::with_capacity(pages.len());
            for page in pages {
                // SAFETY: these are the only ones. Each is looked at once more when it was read, and not after its
                // page is in.
                bufs.push(IoSliceMut::new(unsafe { page.bytes() }));
            }
            reads.push(DiskRead {
                offset: DATA_START + pages[0].slot * self.common().page_bytes() as u64,
                bufs,
            });
        }
        let mut claimed: Vec<Option<Claimed<'_>>> = claimed.into_iter().map(Some).collect();
        let mut all = Ok(());
        self.storage
            .data()
            .read_together(&mut reads, &mut |i, read, made| {
                let run = &mut claimed[runs[i].clone()];
                let mut made = made.map_err(Some);
                for (page, bytes) in run.iter_mut().zip(&read.bufs) {
                    // Of each run is told once.
                    let Some(page) = page.take() else { continue };
                    let done = match &mut made {
                        Ok(()) => self.filled(page, bytes),
                        Err(_) if planted(Planted::ErrorsAreForgotten) => Ok(()),
                        Err(why) if read.bufs.len() == 1 => {
                            // A slot that is given up meanwhile says so, and not what is there now.
                            self.class_read(bytes).and_then(|_| {
                                why.take()
                                    .map_or(Ok(()), |e| Err(read_error(page.pid, read.offset, e)))
                            })
                        }
                        Err(_) => {
                            apart.push(page.pid);
                            Ok(())
                        }
                    };
                    if all.is_ok() {
                        all = done;
                    }
                }
            });
        all
    }
}

/// Which of these pages, in the order of their slots, lie side by side, at most `most`.
fn runs(pages: &[Claimed<'_>], most: usize) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::with_capacity(pages.len());
    for (i, page) in pages.iter().enumerate() {
        match runs.last_mut() {
            Some(run) if run.len() < most && pages[i - 1].slot + 1 == page.slot => run.end = i + 1,
            _ => runs.push(i..i + 1),
        }
    }
    runs
}
