//! Page faults: bringing a page from disk into a frame.

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::frame::Class;
use crate::map::Place;
use crate::page;
use crate::store::{DATA_FILE, DATA_START, PageStore, READ_STRIPES, WAIT};
use crate::table::Word;

impl PageStore {
    /// Brings a page into memory. Blocking; the caller holds nothing. Returns at once if it is
    /// there, or if it was freed meanwhile.
    ///
    /// # Errors
    /// I/O errors, and damage when the bytes are not those of this page.
    pub fn fault_in(&self, pid: PageId) -> Result<()> {
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
                    let done = self.read_page(pid, place, slot, frame);
                    if done.is_err() {
                        self.give_up_loading(pid);
                        self.free_frames.lock().push(frame);
                    }
                    drop(lock.lock());
                    signal.notify_all();
                    return done;
                }
            }
        }
    }

    fn read_page(&self, pid: PageId, place: Place, slot: u64, frame: u32) -> Result<()> {
        let header = self.pool.frame(frame);
        // SAFETY: the frame was taken off the free list or emptied by this thread, so it is this
        // thread's alone: whoever comes here with an outdated word finds no page and lets go. No
        // latch is needed, and none is held during the read, so that nobody waits for a disk here.
        let bytes = unsafe { self.pool.bytes_mut(frame) };
        let offset = DATA_START + slot * self.page_bytes() as u64;
        self.counters.page_reads.fetch_add(1, Ordering::Relaxed);
        self.data
            .read_at(bytes, offset)
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let what = format!("{pid} should be here, but the file ends");
                    Error::corrupt(DATA_FILE, offset, what)
                }
                _ => Error::io("reading", DATA_FILE, e),
            })
            .and_then(|()| page::open(bytes, pid, place.check(), offset))?;
        let class = page::class(bytes);
        header.latch.exclusive();
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
