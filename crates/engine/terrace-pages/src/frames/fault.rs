//! Page faults: bringing a page from disk into a frame.

use std::io::IoSliceMut;

use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_base::{Error, PageId, Result};

use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::enter::interrupt::Interrupt;
use crate::frames::ahead::Ahead;
use crate::frames::cause::Cause;
use crate::frames::frame::Class;
use crate::frames::page;
use crate::map::Place;
use crate::parts::signals::WAIT;
use crate::store::PageStore;
use crate::table::Word;

/// Threads that read pages together: what a disk answers at once without getting slower.
const FETCHERS: usize = 8;
/// Fewer pages are read one after the other: to start threads takes as long as a read.
const FETCHED_ALONE: usize = 3;

/// A page that a thread has taken to read it. Whoever waits for the page looks again when this goes: the page is
/// in memory then, or where it was, also after a panic.
struct Claimed<'s> {
    store: &'s PageStore,
    pid: PageId,
    place: Place,
    slot: u64,
    frame: u32,
    is_in: bool,
}

impl Claimed<'_> {
    /// The end of filling the frame.
    fn end(mut self, done: Result<()>) -> Result<()> {
        self.is_in = done.is_ok();
        done
    }
}

impl Drop for Claimed<'_> {
    fn drop(&mut self) {
        if !self.is_in {
            self.store.give_up_loading(self.pid);
            self.store.free_frames.lock().push(self.frame);
        }
        self.store.end_of_read(self.pid);
    }
}

impl PageStore {
    /// Brings a page into memory. Blocking; the caller holds nothing. Returns at once if it is
    /// there, or if it was freed meanwhile.
    ///
    /// # Errors
    /// I/O errors, and damage when the bytes are not those of this page.
    pub fn fault_in(&self, pid: PageId) -> Result<()> {
        self.bring_in(pid, &|place, slot, frame| {
            self.read_page(pid, place, slot, frame)
        })
    }

    /// Frees a page that nobody owns, whatever is in it, also if it cannot be read. Blocking; the caller holds
    /// nothing, and nobody else uses the page.
    ///
    /// # Errors
    /// Those of the store.
    pub fn free_unowned(&self, pid: PageId) -> Result<()> {
        loop {
            if !self.exists(pid) {
                return Ok(());
            }
            self.bring_in(pid, &|_, _, frame| {
                // SAFETY: as in `read_page`: the frame is this thread's alone.
                let bytes = unsafe { self.pool.bytes_mut(frame) };
                bytes.fill(0);
                page::begin(bytes, pid, Class::Cold);
                self.put_in(pid, Class::Cold, frame)
            })?;
            let door = self.enter_to_free()?;
            let freed = self.exclusive(pid, &door).map(|page| page.free());
            drop(door);
            match freed {
                Ok(()) => return Ok(()),
                Err(interrupt) => self.settle_unread(interrupt)?,
            }
        }
    }

    /// As [`PageStore::settle`], but reads no page.
    fn settle_unread(&self, interrupt: Interrupt) -> Result<()> {
        match interrupt {
            Interrupt::Miss(_) => self.back_off(),
            other => self.settle(other),
        }
    }

    /// Sees to it that a page is in memory: `fill` puts it into a frame if it is not.
    pub(crate) fn bring_in(
        &self,
        pid: PageId,
        fill: &dyn Fn(Place, u64, u32) -> Result<()>,
    ) -> Result<()> {
        let (lock, signal) = self.signals.read_of(pid);
        loop {
            match self.table.load(pid) {
                Word::Resident(_) => return Ok(()),
                Word::Loading(_) => {
                    let mut held = lock.lock();
                    if matches!(self.table.load(pid), Word::Loading(_)) {
                        signal.wait_for(&mut held, WAIT);
                    }
                }
                Word::Out(place) => {
                    let Some(slot) = place.slot() else {
                        return Ok(());
                    };
                    let frame = self.take_frame()?;
                    let Some(claimed) = self.claim(pid, place, frame) else {
                        continue;
                    };
                    return claimed.end(fill(place, slot, frame));
                }
            }
        }
    }

    /// Brings pages in, several at a time, and returns once all of them are there, as far as they exist. `pages` is
    /// in any order afterwards. As many as there are cold frames push each other out again: the caller looks.
    pub fn fetch(&self, pages: &mut Vec<PageId>) -> Result<()> {
        pages.sort_unstable();
        pages.dedup();
        if pages.len() < FETCHED_ALONE {
            return pages.iter().try_for_each(|page| self.fault_in(*page));
        }
        let next = AtomicUsize::new(0);
        let cause = Cause::now();
        let work = || {
            let _because = cause.begin();
            while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                self.fault_in(*page)?;
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let helpers = pages.len().min(FETCHERS) - 1;
            let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, work);
            // Whoever could not be started is not missed: this thread does all that is left.
            let helpers: Vec<_> = (0..helpers).filter_map(|i| spawn(i).ok()).collect();
            let mut done = work();
            for helper in helpers {
                let helped = helper.join().unwrap_or_else(|_| {
                    Err(Error::invalid("a thread that reads pages has panicked"))
                });
                done = done.and(helped);
            }
            done
        })
    }

    /// Whoever waits for this page looks again.
    pub(crate) fn end_of_read(&self, pid: PageId) {
        let (lock, signal) = self.signals.read_of(pid);
        drop(lock.lock());
        signal.notify_all();
    }

    /// Brings a page in, and with the same request those that follow it in the numbers of pages, as far as they
    /// lie beside it in the file and there are frames for them without waiting. Returns how many of these; an
    /// error is one of the page itself. Otherwise as [`PageStore::fault_in`].
    ///
    /// # Errors
    /// As [`PageStore::fault_in`].
    pub(crate) fn fault_in_run(&self, pid: PageId, ahead: Ahead) -> Result<usize> {
        let alone = || self.fault_in(pid).map(|()| 0);
        if ahead.pages == 0 || self.is_in_main(pid) {
            return alone();
        }
        let Word::Out(place) = self.table.load(pid) else {
            return alone();
        };
        let frame = self.take_frame()?;
        let Some(first) = self.claim(pid, place, frame) else {
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
                    .filter(|next| *next < self.table.count()),
            };
            let Some((next, Word::Out(place))) =
                next.map(|n| (PageId(n), self.table.load(PageId(n))))
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
            let Some(frame) = self.spare_frame() else {
                break;
            };
            let Some(claimed) = self.claim(next, place, frame) else {
                break;
            };
            step = beside;
            run.push(claimed);
        }
        let ahead = run.len() - 1;
        self.read_run(run).map(|()| ahead)
    }

    /// Takes a page that is not in memory for this thread to read it into this frame, which is given back if
    /// somebody was faster.
    fn claim(&self, pid: PageId, place: Place, frame: u32) -> Option<Claimed<'_>> {
        let slot = place.slot();
        let taken = slot.is_some() && self.table.swap(pid, Word::Out(place), Word::Loading(place));
        match slot {
            Some(slot) if taken => Some(Claimed {
                store: self,
                pid,
                place,
                slot,
                frame,
                is_in: false,
            }),
            _ => {
                self.free_frames.lock().push(frame);
                None
            }
        }
    }

    /// Reads pages that lie side by side; the first one is the one that is needed. Each of them is in memory
    /// afterwards, or out again.
    fn read_run(&self, run: Vec<Claimed<'_>>) -> Result<()> {
        let down = run.len() > 1 && run[1].slot < run[0].slot;
        let lowest = if down { run.len() - 1 } else { 0 };
        let offset = DATA_START + run[lowest].slot * self.page_bytes() as u64;
        let read = {
            let mut bytes = Vec::with_capacity(run.len());
            for claimed in &run {
                // SAFETY: as in `read_page`: this thread took the frame, and nobody else has it; no two of
                // these are the same.
                let page = unsafe { self.pool.bytes_mut(claimed.frame) };
                bytes.push(IoSliceMut::new(page));
            }
            if down {
                bytes.reverse();
            }
            self.data.read_many_at(&mut bytes, offset)
        };
        let mut needed = Ok(());
        for (i, claimed) in run.into_iter().enumerate() {
            let (pid, place, slot, frame) =
                (claimed.pid, claimed.place, claimed.slot, claimed.frame);
            let done = match &read {
                Ok(()) => {
                    self.count_read();
                    // SAFETY: the frame is still this thread's alone, and the slices above are gone.
                    let bytes = unsafe { self.pool.bytes(frame) };
                    let offset = DATA_START + slot * self.page_bytes() as u64;
                    let opened = page::open(bytes, pid, place.check(), offset);
                    let class = self
                        .class_read(bytes)
                        .and_then(|class| opened.map(|()| class));
                    class.and_then(|class| self.put_in(pid, class, frame))
                }
                // What stands in the way may be one of the others.
                Err(_) if i == 0 => self.read_page(pid, place, slot, frame),
                Err(_) => Err(Error::invalid("a page that was read ahead could not be")),
            };
            let done = claimed.end(done);
            if i == 0 {
                needed = done;
            }
        }
        needed
    }

    fn count_read(&self) {
        let reads = &self.counters.page_reads[Cause::now() as usize];
        reads.fetch_add(1, Ordering::Relaxed);
    }

    /// The class of a page that was read, here.
    fn class_read(&self, bytes: &[u8]) -> Result<Class> {
        match &self.image {
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

    fn read_page(&self, pid: PageId, place: Place, slot: u64, frame: u32) -> Result<()> {
        // SAFETY: the frame was taken off the free list or emptied by this thread, so it is this
        // thread's alone: whoever comes here with an outdated word finds no page and lets go. No
        // latch is needed, and none is held during the read, so that nobody waits for a disk here.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        if self.copy_from_main(pid, slot, bytes) {
            let class = self.class_read(bytes)?;
            return self.put_in(pid, class, frame);
        }
        let offset = DATA_START + slot * self.page_bytes() as u64;
        self.count_read();
        let read = self
            .data
            .read_at(bytes, offset)
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let what = format!("{pid} should be here, but the file ends");
                    Error::corrupt(DATA_FILE, offset, what)
                }
                _ => Error::io("reading", DATA_FILE, e),
            })
            .and_then(|()| page::open(bytes, pid, place.check(), offset));
        // A slot that is given up meanwhile says so, and not what is there now.
        let class = self.class_read(bytes)?;
        read?;
        self.put_in(pid, class, frame)
    }

    /// The page is in this frame from now on.
    fn put_in(&self, pid: PageId, class: Class, frame: u32) -> Result<()> {
        let header = self.pool.frame(frame);
        if !header.latch.exclusive_while(|| !self.is_halted()) {
            return self.check_poison();
        }
        header.class.store(class as u8, Ordering::Relaxed);
        header.used.store(
            u8::from(matches!(class, Class::Inner | Class::Top)),
            Ordering::Relaxed,
        );
        header.flags.store(0, Ordering::Release);
        header.dirty.store(0, Ordering::Release);
        self.count_class(frame, class);
        header.page.store(pid.0, Ordering::Release);
        // The place may be retagged while the word still shows it, so it is taken from there.
        while let Word::Loading(now) = self.table.load(pid) {
            header.place.store(now.bits(), Ordering::Release);
            if self
                .table
                .swap(pid, Word::Loading(now), Word::Resident(frame))
            {
                break;
            }
        }
        header.latch.release_exclusive();
        Ok(())
    }

    /// The page stays where it was, whatever its place is called by now.
    fn give_up_loading(&self, pid: PageId) {
        while let Word::Loading(place) = self.table.load(pid) {
            if self.table.swap(pid, Word::Loading(place), Word::Out(place)) {
                return;
            }
        }
    }
}
