//! Page faults: bringing a page from disk into a frame; and what else an attempt needs before it can
//! start over.

use std::io::IoSliceMut;

use terrace_base::{PageId, Result};

use crate::enter::retry::Retry;
use crate::frames::frame::Class;
use crate::frames::page::{self, read_error};
use crate::frames::page_in::Claimed;
use crate::frames::table::Word;
use crate::pager::Pager;
use crate::parts::cause::Cause;
use crate::parts::data_file::DATA_START;
use crate::parts::signals::WAIT;

/// What is to be read with a page: a number of those that follow it in the numbers, upwards or downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub down: bool,
    pub pages: usize,
}

/// Attempts that may fail for want of a page before pages are cleaned to make room for all at once.
const TRIES_BEFORE_CLEANING: u32 = 4;

impl Pager {
    pub fn settle(&self, interrupt: Retry) -> Result<()> {
        match interrupt {
            Retry::Miss(pid) => self.fault_in(pid),
            Retry::Conflict | Retry::HotFull => self.common().back_off(),
            Retry::NoFrame => self.storage.make_frames(),
            Retry::Fail(e) => Err(e),
        }
    }

    pub fn settle_many(&self, interrupt: Retry, tries: &mut u32) -> Result<()> {
        self.settle(interrupt)?;
        *tries = tries.wrapping_add(1);
        match tries.is_multiple_of(TRIES_BEFORE_CLEANING) {
            true => self.settle(Retry::NoFrame),
            false => Ok(()),
        }
    }

    /// As [`crate::PageStore::settle`], but reads no page.
    pub(super) fn settle_unread(&self, interrupt: Retry) -> Result<()> {
        match interrupt {
            Retry::Miss(_) => self.common().back_off(),
            other => self.settle(other),
        }
    }

    pub fn fault_in(&self, pid: PageId) -> Result<()> {
        self.bring_in(pid, &|claimed| self.read_alone(claimed))
    }

    /// Sees to it that a page is in memory: `fill` puts it into a frame if it is not.
    pub(crate) fn bring_in(
        &self,
        pid: PageId,
        fill: &dyn Fn(Claimed<'_>) -> Result<()>,
    ) -> Result<()> {
        let (lock, signal) = self.common().signals.read_of(pid);
        loop {
            match self.frames().word(pid) {
                Word::Resident(_) => return Ok(()),
                Word::Loading(_) => {
                    let mut held = lock.lock();
                    if matches!(self.frames().word(pid), Word::Loading(_)) {
                        signal.wait_for(&mut held, WAIT);
                    }
                }
                Word::Out(place) => {
                    if place.slot().is_none() {
                        return Ok(());
                    }
                    let frame = self.storage.take_frame()?;
                    let Some(claimed) = self.frames().claim(pid, place, frame) else {
                        continue;
                    };
                    return fill(claimed);
                }
            }
        }
    }

    /// Brings a page in, and with the same request those that follow it in the numbers of pages, as far as they
    /// lie beside it in the file and there are frames for them without waiting. Returns how many of these; an
    /// error is one of the page itself. Otherwise as [`Pager::fault_in`].
    ///
    /// # Errors
    /// As [`Pager::fault_in`].
    pub(crate) fn fault_in_run(&self, pid: PageId, ahead: Ahead) -> Result<usize> {
        let alone = || self.fault_in(pid).map(|()| 0);
        if ahead.pages == 0 || self.is_in_main(pid) {
            return alone();
        }
        let Word::Out(place) = self.frames().word(pid) else {
            return alone();
        };
        let frame = self.storage.take_frame()?;
        let Some(first) = self.frames().claim(pid, place, frame) else {
            return alone();
        };
        let mut run = vec![first];
        let mut step = None;
        for i in 1..=ahead.pages as u64 {
            let next = match ahead.down {
                true => pid.0.checked_sub(i),
                false => pid
                    .0
                    .checked_add(i)
                    .filter(|next| *next < self.frames().page_numbers()),
            };
            let Some((next, Word::Out(place))) =
                next.map(|n| (PageId(n), self.frames().word(PageId(n))))
            else {
                break;
            };
            let last = run[run.len() - 1].slot;
            let beside = place
                .slot()
                .map(|slot| slot.cast_signed() - last.cast_signed());
            if !matches!(beside, Some(1 | -1)) || step.is_some_and(|step| Some(step) != beside) {
                break;
            }
            let Some(frame) = self.frames().spare_frame() else {
                break;
            };
            let Some(claimed) = self.frames().claim(next, place, frame) else {
                break;
            };
            step = beside;
            run.push(claimed);
        }
        let ahead = run.len() - 1;
        self.read_run(run).map(|()| ahead)
    }

    /// Reads pages that lie side by side; the first one is the one that is needed. Each of them is in memory
    /// afterwards, or out again.
    fn read_run(&self, run: Vec<Claimed<'_>>) -> Result<()> {
        let down = run.len() > 1 && run[1].slot < run[0].slot;
        let lowest = if down { run.len() - 1 } else { 0 };
        let offset = DATA_START + run[lowest].slot * self.common().page_bytes() as u64;
        let read = {
            let mut bytes = Vec::with_capacity(run.len());
            for claimed in &run {
                // SAFETY: these are the only ones, and gone before any page is in.
                bytes.push(IoSliceMut::new(unsafe { claimed.bytes() }));
            }
            if down {
                bytes.reverse();
            }
            self.storage.data().read_many_at(&mut bytes, offset)
        };
        let mut needed = Ok(());
        for (i, claimed) in run.into_iter().enumerate() {
            let done = match &read {
                Ok(()) => {
                    // SAFETY: the slices above are gone.
                    let bytes = unsafe { claimed.bytes() };
                    self.filled(claimed, bytes)
                }
                // What stands in the way may be one of the others.
                Err(_) if i == 0 => self.read_alone(claimed),
                Err(_) => continue,
            };
            if i == 0 {
                needed = done;
            }
        }
        needed
    }

    fn count_read(&self) {
        let reads = &self.common().counters.page_reads[Cause::now() as usize];
        reads.add(1);
    }

    /// The class of a page that was read, here.
    pub(crate) fn class_read(&self, bytes: &[u8]) -> Result<Class> {
        match &self.common().image {
            None => Ok(page::class(bytes)),
            Some(image) => {
                // Only now is it known whether this was its slot.
                image.state().check()?;
                // Hot pages pass through like others: nothing is promoted here.
                Ok(match page::class(bytes) {
                    Class::Inner | Class::Top => Class::Inner,
                    _ => Class::Cold,
                })
            }
        }
    }

    /// Reads this page alone.
    pub(super) fn read_alone(&self, claimed: Claimed<'_>) -> Result<()> {
        // SAFETY: these are the only ones, and gone before the page is in.
        let bytes = unsafe { claimed.bytes() };
        if self.copy_from_main(claimed.pid, claimed.slot, bytes) {
            let class = self.class_read(bytes)?;
            return claimed.put_in(class, 0);
        }
        let offset = self.offset(&claimed);
        self.count_read();
        let read = self
            .storage
            .data()
            .read_at(bytes, offset)
            .map_err(|e| read_error(claimed.pid, offset, e))
            .and_then(|()| page::open(bytes, claimed.pid, claimed.place.check(), offset));
        // A slot that is given up meanwhile says so, and not what is there now.
        let class = self.class_read(bytes)?;
        read?;
        claimed.put_in(class, 0)
    }

    /// These bytes were read into the frame: the page is in memory from now on, or out again.
    pub(super) fn filled(&self, claimed: Claimed<'_>, bytes: &[u8]) -> Result<()> {
        self.count_read();
        let opened = page::open(
            bytes,
            claimed.pid,
            claimed.place.check(),
            self.offset(&claimed),
        );
        // A slot that is given up meanwhile says so, and not what is there now.
        let class = self.class_read(bytes)?;
        opened?;
        // Who asks for it may come after many others were read: it must not be the first to go.
        claimed.put_in(class, 1)
    }

    fn offset(&self, claimed: &Claimed<'_>) -> u64 {
        DATA_START + claimed.slot * self.common().page_bytes() as u64
    }

    /// The bytes of a page of an image, where the image's store has them in memory as they lie in this slot. Whether
    /// they were had; they are the image's if the pin holds after it.
    fn copy_from_main(&self, pid: PageId, slot: u64, into: &mut [u8]) -> bool {
        let image = self.common().image.as_ref();
        image.is_some_and(|image| image.copy(pid, slot, into))
    }

    /// Whether the image's store is likely to have a page in memory.
    pub(super) fn is_in_main(&self, pid: PageId) -> bool {
        let image = self.common().image.as_ref();
        image.is_some_and(|image| image.has_in_memory(pid))
    }
}
