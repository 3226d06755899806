//! Pinned images: the last checkpoint, readable for as long as a caller holds it.
//!
//! Invariants:
//! * An image is pinned while no checkpoint is in progress, so that it is one checkpoint's.
//! * Whoever reads a slot of it asks afterwards whether it holds. So no reader ever takes bytes of another page for its
//!   own.
//! * No writer waits for a pin: past the space that pins may keep, or on a full disk, the oldest goes.

use std::io::IoSliceMut;
use std::sync::Arc;

use terrace_base::disk::DiskRead;
use terrace_base::{AlignedBuf, PageId, Result};

use crate::disk::pins::Pin;
use crate::frames::page::{self, read_error};
use crate::map::{Place, SlotSet, Superblock};
use crate::parts::data_file::DATA_START;
use crate::parts::pinned::PinState;
use crate::store::PageStore;

/// Slots whose pages are put in order at a time when all of them are read: a list of four mebibytes.
const WINDOW: u64 = 256 << 10;

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
    pin: Pin,
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

    fn pin_tracked(self: &Arc<Self>, set: Option<u64>) -> Result<(PinnedImage, Option<SlotSet>)> {
        let (pin, written) = self.storage().pin(set)?;
        // From here on it is given back, whatever fails.
        let image = PinnedImage {
            store: self.clone(),
            pin,
        };
        self.storage().make_room_for_extra()?;
        Ok((image, written))
    }
}

impl PinnedImage {
    /// What its checkpoint left in the superblock.
    pub fn superblock(&self) -> &Superblock {
        &self.pin.superblock
    }

    /// Pages that it has.
    pub fn live_pages(&self) -> u64 {
        self.pin.live
    }

    /// Whether it still holds.
    pub fn state(&self) -> &Arc<PinState> {
        &self.pin.state
    }

    /// The store that it is an image of.
    pub fn store(&self) -> &Arc<PageStore> {
        &self.store
    }

    /// Where a page lies, if it has such a page.
    pub fn page(&self, page: PageId) -> Option<ImagePage> {
        let place = self.pin.places.get(page.0 as usize)?;
        Some(ImagePage {
            page,
            slot: place.slot()?,
            check: place.check(),
        })
    }

    /// Takes the places, for a store that reads the image.
    pub(crate) fn take_places(&mut self) -> Vec<Place> {
        std::mem::take(&mut self.pin.places)
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
        let end = self
            .pin
            .places
            .iter()
            .filter_map(|place| place.slot())
            .max();
        let Some(end) = end else { return Ok(()) };
        let mut window = Vec::new();
        for from in (0..=end).step_by(WINDOW as usize) {
            window.clear();
            for at in 0..self.pin.places.len() as u64 {
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

    /// Reads pages, as many as fit the buffer, and checks each of them: those that lie one behind the other by one
    /// request, and several requests at a time. Returns how many, at least one.
    ///
    /// # Errors
    /// `Corrupt` with the name of a page that is not what it should be, [`terrace_base::Error::SnapshotGone`], those of the
    /// disk.
    pub fn read(&self, pages: &[ImagePage], buffer: &mut AlignedBuf) -> Result<usize> {
        let page_bytes = self.store.page_bytes();
        let count = pages.len().min((buffer.len() / page_bytes).max(1));
        let pages = &pages[..count];
        let offset = |page: &ImagePage| DATA_START + page.slot * page_bytes as u64;
        let runs: Vec<&[ImagePage]> = pages.chunk_by(|a, b| a.slot + 1 == b.slot).collect();
        let mut reads = Vec::with_capacity(runs.len());
        let mut left = &mut buffer[..];
        for run in &runs {
            let (into, behind) = left.split_at_mut(run.len() * page_bytes);
            left = behind;
            reads.push(DiskRead {
                offset: offset(&run[0]),
                bufs: vec![IoSliceMut::new(into)],
            });
        }
        let mut failed: Option<(usize, std::io::Error)> = None;
        let mut done = |i: usize, _: &DiskRead<'_>, made: std::io::Result<()>| {
            // Of several errors the first in the file.
            if let Err(e) = made
                && failed.as_ref().is_none_or(|(first, _)| i < *first)
            {
                failed = Some((i, e));
            }
        };
        self.store
            .storage()
            .data()
            .read_together(&mut reads, &mut done);
        drop(reads);
        let checked = match failed {
            Some((i, e)) => Err(read_error(runs[i][0].page, offset(&runs[i][0]), e)),
            None => {
                let mut bytes = buffer.chunks_exact(page_bytes);
                pages.iter().zip(&mut bytes).try_for_each(|(page, bytes)| {
                    page::open(bytes, page.page, page.check, offset(page)).map(drop)
                })
            }
        };
        // Only now is it known whether these were its slots.
        self.pin.state.check()?;
        checked.map(|()| count)
    }
}

impl Drop for PinnedImage {
    fn drop(&mut self) {
        self.pin.state.give_up("it was dropped");
        self.store.storage().unpin(self.pin.id);
        self.store.storage().give_pin_bytes(self.pin.bytes);
    }
}
