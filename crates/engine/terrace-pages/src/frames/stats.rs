//! Figures of a store.

use crate::frames::Frames;
use crate::map::SlotCounts;
use crate::parts::cause::Cause;
use crate::parts::counters::{Count, HITS_BELOW};

/// Pages of records that have left memory, and how often they were asked for while they were there (each up to 63
/// times). An operation asks for a page that it needs a few times, so two or three are one use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PagesLeft {
    /// Number of pages.
    pub pages: u64,
    /// How often they were asked for, all together.
    pub hits: u64,
    /// Those that were not asked for, once, twice, up to four times, up to eight times, more often.
    pub by_hits: [u64; HITS_BELOW.len() + 1],
}

/// A snapshot of the store's figures; counts are since opening.
#[derive(Clone, Copy, Debug, Default)]
pub struct StoreStats {
    /// Size of a page.
    pub page_bytes: u64,
    /// Pages read from disk.
    pub page_reads: u64,
    /// Of them by demotion.
    pub demotion_reads: u64,
    /// By the ageing of hot tiers, which closes pages up too.
    pub ageing_reads: u64,
    /// By merging.
    pub merging_reads: u64,
    /// For who goes through pages in order: ranges, large values.
    pub order_reads: u64,
    /// Pages written to disk, those of checkpoints included.
    pub page_writes: u64,
    /// Of them those that checkpoints wrote.
    pub checkpoint_page_writes: u64,
    /// And of these the hot ones.
    pub checkpoint_hot_writes: u64,
    /// Pages that the checkpoint that is being made has to write, about; none while there is none.
    pub cut_pages: u64,
    /// Of them those that it has written.
    pub cut_pages_written: u64,
    /// Bytes written to map files.
    pub map_bytes: u64,
    /// Checkpoints completed.
    pub checkpoints: u64,
    /// Pages evicted.
    pub evictions: u64,
    /// Of them pages of records: those that came for one record that was asked for, for who goes through pages in order,
    /// for work of the engine's own, and those that were made in memory.
    pub left: [PagesLeft; 4],
    /// Writes whose page had changed meanwhile.
    pub discarded_writes: u64,
    /// Times a thread had to wait for a free frame.
    pub waits_for_frames: u64,
    /// Times a thread had to wait because too much was saved for the cut.
    pub waits_for_undo: u64,
    /// Frames in the pool.
    pub frames: u64,
    /// Of them with hot pages.
    pub hot_frames: u64,
    /// Most that may have hot pages.
    pub hot_cap: u64,
    /// With inner pages of cold tiers.
    pub inner_frames: u64,
    /// Reserved for other consumers of the memory.
    pub lent_frames: u64,
    /// Writes that dirty pages owe: two for one that a checkpoint has still to write and that has changed
    /// since its cut.
    pub dirty_frames: u64,
    /// Pages that exist.
    pub live_pages: u64,
    /// Slots of the data file by use.
    pub slots: SlotCounts,
    /// Bytes of the page table.
    pub table_bytes: u64,
    /// Bytes of the page map.
    pub map_memory_bytes: u64,
    /// Bytes saved for the cut in progress.
    pub undo_bytes: u64,
    /// Bytes of the write buffers.
    pub buffer_bytes: u64,
    /// Bytes for pinned images and those who read them.
    pub snapshot_bytes: u64,
}

impl Frames {
    pub fn stats(&self, snapshot_bytes: u64) -> StoreStats {
        let c = &self.common.counters;
        let get = Count::get;
        let (slots, map_memory_bytes) = {
            let map = self.map.lock();
            (map.counts(), map.memory_bytes() as u64)
        };
        let (cut_pages_written, cut_pages) = self.cut.progress.get(get(&c.checkpoint_page_writes));
        StoreStats {
            page_bytes: self.common.page_bytes() as u64,
            page_reads: c.page_reads.iter().map(get).sum(),
            demotion_reads: get(&c.page_reads[Cause::Demotion as usize]),
            ageing_reads: get(&c.page_reads[Cause::Ageing as usize]),
            merging_reads: get(&c.page_reads[Cause::Merging as usize]),
            order_reads: get(&c.page_reads[Cause::Order as usize]),
            page_writes: get(&c.page_writes),
            checkpoint_page_writes: get(&c.checkpoint_page_writes),
            checkpoint_hot_writes: get(&c.checkpoint_hot_writes),
            cut_pages,
            cut_pages_written,
            map_bytes: get(&c.map_bytes),
            checkpoints: get(&c.checkpoints),
            evictions: get(&c.evictions),
            left: std::array::from_fn(|i| PagesLeft {
                pages: get(&c.left[i].pages),
                hits: get(&c.left[i].hits),
                by_hits: std::array::from_fn(|by| get(&c.left[i].by_hits[by])),
            }),
            discarded_writes: get(&c.discarded_writes),
            waits_for_frames: get(&c.waits_for_frames),
            waits_for_undo: get(&c.waits_for_undo),
            frames: self.pool.len() as u64,
            hot_frames: self.hot_frames(),
            hot_cap: self.hot_cap(),
            inner_frames: get(&c.inner),
            lent_frames: self.lent.count(),
            dirty_frames: get(&c.dirty),
            live_pages: self.live_pages(),
            slots,
            table_bytes: self.table.memory_bytes() as u64,
            map_memory_bytes,
            undo_bytes: self.undo.memory_bytes(),
            snapshot_bytes,
            buffer_bytes: self.common.layout.buffer_bytes(self.common.page_bytes()),
        }
    }
}
