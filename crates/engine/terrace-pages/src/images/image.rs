//! A second page store that reads a pinned image: other frames over the same file, and nothing is written.
//!
//! Invariants: no thread gets a write guard of it; a page in memory was read while the pin held, and stays good
//! when it holds no more.

use std::sync::Arc;

use terrace_base::disk::Disk;
use terrace_base::sync::atomic::{AtomicU64, Ordering};
use terrace_base::{Error, PageId, Result};

use crate::disk::Storage;
use crate::frames::Frames;
use crate::frames::table::{FreePages, Table, Word};
use crate::images::pin::PinnedImage;
use crate::map::PageMap;
use crate::parts::common::Common;
use crate::parts::durable::Durable;
use crate::parts::options::{Layout, StoreOptions};
use crate::parts::pinned::PinState;
use crate::parts::source::Source;
use crate::store::PageStore;

/// Fewest frames of one: paths from root to leaf for some threads.
const LEAST_FRAMES: u64 = 64;
/// It has one part in this many of the memory, so that as many as can be pinned have less together than all of
/// them may.
const MEMORY_PART: u64 = 40;

/// Memory that opening takes for one that is only read: pages of the fewest frames and of write buffers, and
/// bytes for each page that there is.
const OPENING_PAGES: u64 = 160;
const OPENING_EACH: u64 = 80;

/// What keeps an image readable.
struct Image {
    pin: PinnedImage,
    /// Taken from the memory of the store that the image is of.
    taken: AtomicU64,
    /// Whether it is of a store that no process writes to.
    alone: bool,
}

impl Drop for Image {
    fn drop(&mut self) {
        let (main, taken) = (self.pin.store(), self.taken.load(Ordering::Relaxed));
        main.storage().give_pin_bytes(taken);
    }
}

impl Source for Image {
    fn is_alone(&self) -> bool {
        self.alone
    }

    fn state(&self) -> &Arc<PinState> {
        self.pin.state()
    }

    fn count_bytes(&self, bytes: u64) {
        if !self.alone {
            self.taken.fetch_add(bytes, Ordering::Relaxed);
            self.pin.store().storage().take_pin_bytes(bytes);
        }
    }

    fn copy(&self, pid: PageId, slot: u64, into: &mut [u8]) -> bool {
        if self.alone {
            return false;
        }
        self.pin
            .store()
            .storage()
            .frames()
            .copy_clean(pid, slot, into)
    }

    fn has_in_memory(&self, pid: PageId) -> bool {
        !self.alone && self.pin.store().is_resident(pid)
    }
}

impl PageStore {
    /// A store that reads this image, with frames that the image's store lends.
    ///
    /// # Errors
    /// `MemoryTooSmall` when those that there are leave too little.
    pub fn open_image(pin: PinnedImage) -> Result<PageStore> {
        let memory = pin.store().storage().common().options.memory / MEMORY_PART;
        PageStore::image_of(pin, memory, false)
    }

    /// Opens the last checkpoint to be read only, with a memory of its own: nothing is written, not even to
    /// say that it was opened. No other process may write to it meanwhile. Also the store that it is an image of, whose
    /// image can be pinned once more.
    ///
    /// # Errors
    /// As [`PageStore::open`].
    pub fn open_read_only(
        disk: Arc<dyn Disk>,
        options: StoreOptions,
    ) -> Result<(PageStore, Arc<PageStore>)> {
        let superblock = PageStore::read_superblock(&*disk)?.newest;
        // What opening takes; no page is ever in a frame of it.
        let page = u64::from(superblock.page_bytes);
        let least = OPENING_PAGES * page + superblock.pages * OPENING_EACH;
        let memory = options.memory.saturating_sub(least);
        if memory < LEAST_FRAMES * (page + crate::parts::options::FRAME_BYTES) {
            return Err(Error::MemoryTooSmall {
                what: format!("a page store with pages of {page} bytes, to be read only"),
                given: options.memory,
                needed: least + LEAST_FRAMES * (page + crate::parts::options::FRAME_BYTES),
            });
        }
        let opening = StoreOptions {
            memory: least,
            ..options
        };
        let store = Arc::new(PageStore::open(disk, opening)?);
        let image = PageStore::image_of(store.pin_image()?, memory, true)?;
        Ok((image, store))
    }

    fn image_of(mut pin: PinnedImage, memory: u64, alone: bool) -> Result<PageStore> {
        let store = pin.store().clone();
        let main = store.storage();
        let page = main.common().page_bytes();
        let frames =
            (memory / (page as u64 + crate::parts::options::FRAME_BYTES)).max(LEAST_FRAMES);
        let superblock = pin.superblock().clone();
        let mut layout = Layout::of_image(page, frames, superblock.pages);
        if alone {
            // What is known of each page is in what opening takes; for all else frames are lent.
            layout.aside = superblock.pages * OPENING_EACH;
        }
        let options = StoreOptions {
            page_bytes: page,
            memory,
        };
        let table = Table::new(layout.max_pages)?;
        let (mut free, places) = (FreePages::default(), pin.take_places());
        for (pid, place) in places.iter().enumerate() {
            table.store(PageId(pid as u64), Word::Out(*place));
            free.count += u64::from(place.is_free());
        }
        table.set_count(places.len() as u64);
        drop(places);
        let durable = Durable {
            epoch: 1,
            superblock,
            map_file: main.durable().map_file.clone(),
        };
        // The table takes the place of the list of places, which is counted.
        let taken = match alone {
            true => 0,
            false => {
                frames * (page as u64 + crate::parts::options::FRAME_BYTES)
                    + layout.buffer_bytes(page)
            }
        };
        if !alone {
            main.check_pin_bytes(taken)?;
        }
        main.take_pin_bytes(taken);
        // If too little can be had at once, hot records leave meanwhile.
        let room = match alone {
            true => Ok(()),
            false => main.make_room_for_extra(),
        };
        let image = Image {
            pin,
            taken: AtomicU64::new(taken),
            alone,
        };
        room?;
        let common = Common::new(options, layout, Some(Box::new(image)));
        let frames = Frames::new(common, table, PageMap::new(0), free)?;
        let (disk, data) = (main.disk().clone(), main.data().clone());
        Ok(PageStore::over(Storage::new(frames, disk, data, durable)))
    }
}
