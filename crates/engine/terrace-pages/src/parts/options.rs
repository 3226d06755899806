//! What a store is opened with, and how its memory is laid out.

use terrace_base::{Error, Result};

use crate::parts::space_quota::Space;

/// Page sizes that a database can be created with.
pub const PAGE_SIZES: [usize; 5] = [4096, 8192, 16384, 32768, 65536];

/// Most frames: they are numbered with 32 bits in the page table.
const MAX_FRAMES: u64 = 1 << 31;
/// Fewest frames that a store can work with: a few operations at work at once, each with a path
/// from root to leaf and a split, and the cleaner's batch.
pub const MIN_FRAMES: u64 = 64;
/// Bytes of cold frames that the hot class always leaves: an input and output buffer for several threads. Page reads
/// over the static optimum at 80 % memory with pages of 16 KiB: 1.834 with twice as many, 1.788 so.
const COLD_BYTES: u64 = 1 << 20;
/// How many frames that are, at least and at most. With fewer small ones cold pages are less full, for fewer records come
/// to each at a time, and who reads in order makes more requests.
const LEAST_COLD: u64 = 64;
const MOST_COLD: u64 = 128;
/// Share of the frames beyond the floor that hot pages may take, in per mille. Simulated page reads
/// over the static optimum at 80 % memory: 1.85 with 970, 1.76 with 985; less of a buffer for cold
/// pages gains no more.
const HOT_PER_MILLE: u64 = 985;
/// Hot pages have at least one part in this many of the frames, whatever their share: every write
/// lands there.
const LEAST_HOT_PART: u64 = 16;
/// The share at which hot pages have all of their cap, in per mille.
pub const WHOLE_SHARE: u32 = 1000;
/// Bytes of a frame beside its page: header, ghost, its place in the list of free frames, and a byte for
/// its bit and for what of it is in the list of lent ones.
pub(crate) const FRAME_BYTES: u64 = 32 + 1 + 4 + 1;
/// Share of the memory that the page table may take: one part in this many.
const TABLE_PART: u64 = 8;
/// Share of the memory that copies for the cut may take: one part in this many.
const UNDO_PART: u64 = 32;
/// Buffers for batches of page writes: cleaner, checkpointer, one helper.
pub const WRITE_BUFFERS: usize = 3;
/// Most pages in a batch: a megabyte with 16 KiB pages, past which no device gains.
const MAX_BATCH: u64 = 64;
/// Free slots beyond the dirty pages that an ordinary operation must leave.
const ORDINARY_SLACK: u64 = 96;
/// Free slots that records on the move between tiers must leave, so that what goes on in the
/// background does not use up what deletes need.
const MIGRATION_SLACK: u64 = 64;
/// Free slots beyond the dirty pages that even deletes must leave: what one of them may make dirty, a few
/// times over.
const RESERVE_SLACK: u64 = 32;
/// The same for who saves what lies in memory alone: a few records under one write guard, where slots are few.
const SAVING_SLACK: u64 = 24;
/// One part in this many of the page table is kept back from ordinary operations: a delete may need pages for what it
/// leaves behind, and merging needs new ones before it gives old ones back. Of that a half is kept back from records on
/// the move, and an eighth from all operations: what is split while a step becomes visible.
const NUMBERS_PART: u64 = 64;
/// The same in a small table: a step of the smallest kind, a few times over.
const LEAST_NUMBERS: u64 = 512;
/// And never more than one part in this many.
const MOST_NUMBERS_PART: u64 = 8;
/// Pages that a thread inside the gate may still make dirty: a leaf, what it is split into or joined with,
/// and the same above it.
pub(crate) const DIRTY_EACH: u64 = 8;

/// What a store is opened with.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Size of a page in bytes; one of [`PAGE_SIZES`]. Fixed when the store is created.
    pub page_bytes: usize,
    /// Memory for everything in this crate, in bytes.
    pub memory: u64,
}

impl StoreOptions {
    /// The defaults with this much memory.
    pub fn new(memory: u64) -> StoreOptions {
        StoreOptions {
            page_bytes: 16384,
            memory,
        }
    }
}

/// How the memory is divided.
#[derive(Clone, Debug)]
pub struct Layout {
    /// Frames in the pool.
    pub frames: usize,
    /// Most pages the table can hold.
    pub max_pages: u64,
    /// Pages in a batch of writes.
    pub write_batch: usize,
    /// Most bytes of old content kept for a cut before writers wait.
    pub undo_bytes: u64,
    /// Frames above the hot cap that structure changes in progress may take.
    pub hot_slack: u64,
    /// Bytes beside frames that were set aside when the layout was made; what is used beyond is
    /// taken from the frames by lending.
    pub aside: u64,
    floor: u64,
}

impl Layout {
    /// Divides the memory for a store that has `pages` page numbers so far.
    pub fn new(options: &StoreOptions, pages: u64) -> Result<Layout> {
        let page = options.page_bytes as u64;
        if !PAGE_SIZES.contains(&options.page_bytes) {
            return Err(Error::invalid(format!(
                "a page size of {page} bytes is not possible; choose one of {PAGE_SIZES:?}"
            )));
        }
        let memory = options.memory;
        let batch = (memory / 256 / page).clamp(4, MAX_BATCH);
        let buffers = (batch * page + 4096) * WRITE_BUFFERS as u64;
        let aside = (pages * 8).next_multiple_of(4096) + pages / 2;
        let frames = memory.saturating_sub(buffers + aside) / (page + FRAME_BYTES);
        if frames > MAX_FRAMES {
            return Err(Error::invalid(format!(
                "a memory of {memory} bytes would be {frames} pages of {page} bytes, and {MAX_FRAMES} are the most: take larger pages or less memory"
            )));
        }
        if frames < MIN_FRAMES {
            return Err(Error::MemoryTooSmall {
                what: format!("a page store with pages of {page} bytes"),
                given: memory,
                needed: (MIN_FRAMES * (page + FRAME_BYTES) + buffers + aside) * 256 / 250,
            });
        }
        let max_pages = memory / TABLE_PART / 8;
        if pages > max_pages {
            return Err(Error::MemoryTooSmall {
                what: "the page table (an eighth of the memory)".into(),
                given: memory,
                needed: pages * 8 * TABLE_PART,
            });
        }
        Ok(Layout {
            frames: frames as usize,
            max_pages,
            write_batch: batch as usize,
            undo_bytes: memory / UNDO_PART,
            hot_slack: (frames / 256).clamp(4, 64),
            aside,
            floor: (COLD_BYTES / page)
                .clamp(LEAST_COLD, MOST_COLD)
                .min(frames / 4),
        })
    }

    /// That of a store that only reads: `frames` frames for an image of `pages` pages.
    pub fn of_image(page_bytes: usize, frames: u64, pages: u64) -> Layout {
        Layout {
            frames: frames.min(MAX_FRAMES) as usize,
            max_pages: pages,
            write_batch: 1,
            undo_bytes: page_bytes as u64,
            hot_slack: 0,
            aside: u64::MAX,
            floor: 0,
        }
    }

    /// Bytes of the buffers for writing pages.
    pub fn buffer_bytes(&self, page_bytes: usize) -> u64 {
        (self.write_batch * page_bytes * WRITE_BUFFERS) as u64
    }

    /// Frames that are never for hot pages.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// Most hot frames when `taken` frames are lent or for inner pages, at this share (in per
    /// mille) of the cap.
    pub fn hot_cap(&self, taken: u64, share: u32) -> u64 {
        let frames = self.frames as u64;
        let beyond = frames.saturating_sub(taken + self.floor);
        let most = (beyond * HOT_PER_MILLE / 1000).max(frames / 4);
        (most * u64::from(share) / 1000).max(frames / LEAST_HOT_PART)
    }

    /// Numbers of pages that must remain for those who may reach deeper.
    pub fn kept_numbers(&self, space: Space) -> u64 {
        let kept = (self.max_pages / NUMBERS_PART).max(LEAST_NUMBERS);
        let kept = kept.min(self.max_pages / MOST_NUMBERS_PART);
        match space {
            Space::Ordinary => kept,
            Space::Migration => kept / 2,
            Space::Reserve | Space::Saving => kept / 8,
        }
    }

    /// Free slots that must remain beyond one for each dirty page.
    pub fn slack(&self, space: Space) -> u64 {
        match space {
            Space::Ordinary => ORDINARY_SLACK,
            Space::Migration => MIGRATION_SLACK,
            Space::Reserve => RESERVE_SLACK,
            Space::Saving => SAVING_SLACK,
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;
    use crate::frames::frame::Frame;

    #[test]
    fn frames_and_what_is_kept_of_each_fit_into_the_memory() {
        for (page_bytes, memory) in [(4096, 1 << 20), (4096, 256 << 20), (16384, 1 << 30)] {
            let options = StoreOptions { page_bytes, memory };
            let layout = Layout::new(&options, 0).unwrap();
            let frames = layout.frames;
            // The list of free ones has them all at first; a word has the bits of 64; one byte is for a
            // page that has left.
            let each = page_bytes + size_of::<Frame>() + size_of::<u32>() + 1;
            let lists = frames.div_ceil(64) * 8;
            let buffers = WRITE_BUFFERS * (layout.write_batch * page_bytes + 4096);
            let sum = (frames * each + lists + buffers) as u64 + layout.aside;
            assert!(sum <= memory, "{sum} of {memory}");
            assert!(sum > memory - memory / 100, "{sum} of {memory}");
        }
    }
}
