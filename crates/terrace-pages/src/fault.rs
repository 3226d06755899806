//! Page faults: bringing a page from disk into a frame.

use terrace_base::sync::atomic::{AtomicUsize, Ordering};
use terrace_base::{Error, PageId, Result};

use crate::frame::Class;
use crate::interrupt::Interrupt;
use crate::map::Place;
use crate::page;
use crate::store::{DATA_FILE, DATA_START, PageStore, READ_STRIPES, WAIT};
use crate::table::Word;

/// Threads that read pages together: what a disk answers at once without getting slower.
const FETCHERS: usize = 8;
/// Fewer pages are read one after the other: to start threads takes as long as a read.
const FETCHED_ALONE: usize = 3;

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
    fn bring_in(&self, pid: PageId, fill: &dyn Fn(Place, u64, u32) -> Result<()>) -> Result<()> {
        let (lock, signal) = &self.reads[pid.0 as usize % READ_STRIPES];
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
                    if !self.table.swap(pid, Word::Out(place), Word::Loading(place)) {
                        self.free_frames.lock().push(frame);
                        continue;
                    }
                    let done = fill(place, slot, frame);
                    if done.is_err() {
                        self.give_up_loading(pid);
                        self.free_frames.lock().push(frame);
                    }
                    self.end_of_read(pid);
                    return done;
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
        let work = || {
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
        let (lock, signal) = &self.reads[pid.0 as usize % READ_STRIPES];
        drop(lock.lock());
        signal.notify_all();
    }

    fn read_page(&self, pid: PageId, place: Place, slot: u64, frame: u32) -> Result<()> {
        // SAFETY: the frame was taken off the free list or emptied by this thread, so it is this
        // thread's alone: whoever comes here with an outdated word finds no page and lets go. No
        // latch is needed, and none is held during the read, so that nobody waits for a disk here.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        let offset = DATA_START + slot * self.page_bytes() as u64;
        self.counters.page_reads.fetch_add(1, Ordering::Relaxed);
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
        let class = match &self.image {
            None => page::class(bytes),
            Some(image) => {
                // Only now is it known whether this was its slot.
                image.pin.state().check()?;
                // Hot pages pass through like others: nothing is promoted here.
                match page::class(bytes) {
                    Class::Inner => Class::Inner,
                    _ => Class::Cold,
                }
            }
        };
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
        header
            .used
            .store(u8::from(class == Class::Inner), Ordering::Relaxed);
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
