//! Pinned images: the last checkpoint, readable for as long as somebody holds it.
//!
//! Invariants:
//! * An image is pinned while no checkpoint is in progress, so that it is one checkpoint's.
//! * What gives a pin up says so before the first of its slots can be written again; whoever reads a slot
//!   of it asks afterwards. So nobody ever takes bytes of another page for its own.
//! * No writer waits for a pin: past the space that pins may keep, or on a full disk, the oldest goes.

use std::sync::Arc;

use terrace_base::sync::atomic::Ordering;
use terrace_base::{AlignedBuf, Error, PageId, Result};

use crate::disk::data_file::{DATA_FILE, DATA_START};
use crate::frames::page;
use crate::map::{FoldCursor, PinId, Place, STEP, SlotSet, Superblock};
use crate::parts::pinned::{Known, PinState};
use crate::store::PageStore;

/// Slots whose pages are put in order at a time when all of them are read: a list of four mebibytes.
const WINDOW: u64 = 256 << 10;

/// Pins and those who read them have one part in so many of the memory at most, all together: more frames
/// are never lent.
const MEMORY_PART: u64 = 4;

/// A page of a pinned image.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImagePage {
    /// Its number.
    pub page: PageId,
    /// Where it lies; may be used for others once the pin is gone.
    pub slot: u64,
    /// 16 bits of its checksum.
    check: u16,
}

/// The image of a checkpoint, kept until this is dropped or given up for want of space.
pub struct PinnedImage {
    store: Arc<PageStore>,
    id: PinId,
    state: Arc<PinState>,
    superblock: Superblock,
    places: Vec<Place>,
    live: u64,
    bytes: u64,
}

impl PageStore {
    /// Pins the image of the last checkpoint; waits for one that is being made. O(pages), in steps between
    /// which others go on.
    ///
    /// # Errors
    /// With too many pins; `Poisoned`.
    pub fn pin_image(self: &Arc<Self>) -> Result<PinnedImage> {
        self.pin_tracked(None).map(|(image, _)| image)
    }

    /// The same for a backup to the set of this name: also answers the slots that were written since the
    /// last one to it, if this process made it, and begins to note them anew.
    ///
    /// # Errors
    /// As [`PageStore::pin_image`].
    pub fn pin_image_for(self: &Arc<Self>, set: u64) -> Result<(PinnedImage, Option<SlotSet>)> {
        self.pin_tracked(Some(set))
    }

    /// The backup to this set, whose image was pinned last with these slots, has failed.
    pub fn backup_failed(&self, set: u64, written: Option<SlotSet>) {
        self.map.lock().track_again(set, written);
    }

    fn pin_tracked(self: &Arc<Self>, set: Option<u64>) -> Result<(PinnedImage, Option<SlotSet>)> {
        let durable = self.durable.lock();
        self.check_poison()?;
        self.check_writable()?;
        let superblock = durable.superblock.clone();
        let pages = superblock.pages;
        let bytes = pages * size_of::<Place>() as u64;
        self.check_pin_bytes(bytes)?;
        let mut places = Vec::with_capacity(pages as usize);
        let mut cursor = FoldCursor::default();
        let mut done = pages == 0;
        while !done {
            let map = self.map.lock();
            done = map.fold_base(&**self, &mut cursor, pages, &mut places, STEP)?;
        }
        let mut changes: Vec<(PageId, Place)> = Vec::new();
        let mut done = false;
        while !done {
            changes.clear();
            done = {
                let map = self.map.lock();
                map.fold_overrides(&mut cursor, pages, &mut changes, STEP)?
            };
            for (pid, place) in &changes {
                if let Some(at) = places.get_mut(pid.0 as usize) {
                    *at = *place;
                }
            }
        }
        let (mut slots, mut live) = (SlotSet::default(), 0);
        for slot in places.iter().filter_map(|place| place.slot()) {
            slots.insert(slot);
            live += 1;
        }
        let state = Arc::new(PinState::new());
        let (id, written) = {
            let mut pins = self.pinned.pins.lock();
            let mut map = self.map.lock();
            let id = map.pin(slots)?;
            pins.push(Known {
                id,
                live,
                state: state.clone(),
            });
            (id, set.and_then(|set| map.track(set)))
        };
        drop(durable);
        self.take_pin_bytes(bytes);
        // From here on it is given back, whatever fails.
        let image = PinnedImage {
            store: self.clone(),
            id,
            state,
            superblock,
            places,
            live,
            bytes,
        };
        self.make_room_for_extra()?;
        Ok((image, written))
    }

    /// Sets how many slots may be kept for pins, all together; 0 for as many as the largest pinned image has
    /// pages.
    pub fn limit_pins(&self, slots: u64) {
        self.pinned.limit.store(slots, Ordering::Relaxed);
    }

    /// Whether pins and those who read them may take so many bytes more.
    ///
    /// # Errors
    /// `MemoryTooSmall`.
    pub(crate) fn check_pin_bytes(&self, more: u64) -> Result<()> {
        let wanted = self.pin_bytes() + more;
        match wanted <= self.options.memory / MEMORY_PART {
            true => Ok(()),
            false => Err(Error::MemoryTooSmall {
                what: "one more snapshot or backup, or one of so much data (all of them have a quarter)"
                    .into(),
                given: self.options.memory,
                needed: wanted * MEMORY_PART,
            }),
        }
    }

    pub(crate) fn take_pin_bytes(&self, bytes: u64) {
        self.pinned.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.take_extra_bytes(bytes);
    }

    pub(crate) fn give_pin_bytes(&self, bytes: u64) {
        self.pinned.bytes.fetch_sub(bytes, Ordering::Relaxed);
        self.give_extra_bytes(bytes);
    }

    /// Bytes of memory that pinned images and their readers take.
    pub(crate) fn pin_bytes(&self) -> u64 {
        self.pinned.bytes.load(Ordering::Relaxed)
    }

    /// Frees what was kept for a pin alone.
    fn unpin(&self, id: PinId) {
        self.pinned.pins.lock().retain(|pin| pin.id != id);
        loop {
            let mut map = self.map.lock();
            let done = map.unpin_step(id, STEP / 64);
            self.note_slots(&map);
            if done {
                break;
            }
        }
        self.note_progress();
    }

    /// Gives up the oldest pin, if any slot is kept for pins; tells whether it did.
    pub(crate) fn give_up_oldest_pin(&self, cause: &'static str) -> bool {
        if self.map.lock().counts().kept == 0 {
            return false;
        }
        let oldest = {
            let pins = self.pinned.pins.lock();
            pins.first().map(|pin| (pin.id, pin.state.clone()))
        };
        let Some((id, state)) = oldest else {
            return false;
        };
        state.give_up(cause);
        self.unpin(id);
        true
    }

    /// Gives up pins until no more is kept for them than may be.
    pub(crate) fn keep_pins_small(&self) {
        loop {
            let kept = self.map.lock().counts().kept;
            let limit = match self.pinned.limit.load(Ordering::Relaxed) {
                0 => {
                    let pins = self.pinned.pins.lock();
                    pins.iter().map(|pin| pin.live).max().unwrap_or(0)
                }
                limit => limit,
            };
            if kept <= limit
                || !self
                    .give_up_oldest_pin("it kept more space than Options::snapshot_space allows")
            {
                return;
            }
        }
    }
}

impl PinnedImage {
    /// What its checkpoint left in the superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.superblock
    }

    /// Pages that it has.
    pub fn live_pages(&self) -> u64 {
        self.live
    }

    /// Whether it still holds.
    pub fn state(&self) -> &Arc<PinState> {
        &self.state
    }

    /// The store that it is an image of.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Where a page lies, if it has such a page.
    pub fn page(&self, page: PageId) -> Option<ImagePage> {
        let place = self.places.get(page.0 as usize)?;
        Some(ImagePage {
            page,
            slot: place.slot()?,
            check: place.check(),
        })
    }

    /// Takes the places, for a store that reads the image.
    pub(crate) fn take_places(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.places)
    }

    /// All pages that `wanted` chooses, in the order in which they lie in the file: calls `each` with some
    /// of them at a time, in ascending order of slots.
    ///
    /// # Errors
    /// Those of `each`.
    pub fn in_file_order(
        &self,
        mut wanted: impl FnMut(&ImagePage) -> bool,
        mut each: impl FnMut(&[ImagePage]) -> Result<()>,
    ) -> Result<()> {
        let end = self.places.iter().filter_map(|place| place.slot()).max();
        let Some(end) = end else { return Ok(()) };
        let mut window = Vec::new();
        for from in (0..=end).step_by(WINDOW as usize) {
            window.clear();
            for at in 0..self.places.len() as u64 {
                let Some(page) = self.page(PageId(at)) else {
                    continue;
                };
                if (from..from + WINDOW).contains(&page.slot) && wanted(&page) {
                    window.push(page);
                }
            }
            window.sort_unstable_by_key(|page| page.slot);
            each(&window)?;
        }
        Ok(())
    }

    /// Reads pages that lie one behind the other, as many as fit the buffer, and checks each of them.
    /// Returns how many, at least one.
    ///
    /// # Errors
    /// `Corrupt` with the name of a page that is not what it should be, [`Error::SnapshotGone`], those of the
    /// disk.
    pub fn read(&self, pages: &[ImagePage], buffer: &mut AlignedBuf) -> Result<usize> {
        let page_bytes = self.store.page_bytes();
        let Some(first) = pages.first() else {
            return Ok(0);
        };
        let most = pages.len().min(buffer.len() / page_bytes).max(1);
        let follows = |(at, page): &(usize, &ImagePage)| page.slot == first.slot + *at as u64;
        let count = pages[..most].iter().enumerate().take_while(follows).count();
        let offset = DATA_START + first.slot * page_bytes as u64;
        let into = &mut buffer[..count * page_bytes];
        let read = self.store.data.read_at(into, offset);
        let checked = read
            .map_err(|e| match e.kind() {
                std::io::ErrorKind::UnexpectedEof => {
                    let what = format!("{} should be here, but the file ends", first.page);
                    Error::corrupt(DATA_FILE, offset, what)
                }
                _ => Error::io("reading", DATA_FILE, e),
            })
            .and_then(|()| {
                for (at, page) in pages[..count].iter().enumerate() {
                    let bytes = &buffer[at * page_bytes..(at + 1) * page_bytes];
                    let offset = offset + (at * page_bytes) as u64;
                    page::open(bytes, page.page, page.check, offset)?;
                }
                Ok(count)
            });
        // Only now is it known whether these were its slots.
        self.state.check()?;
        checked
    }
}

impl Drop for PinnedImage {
    fn drop(&mut self) {
        self.state.give_up("it was dropped");
        self.store.unpin(self.id);
        self.store.give_pin_bytes(self.bytes);
    }
}
