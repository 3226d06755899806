//! Figures of a store.

use terrace_base::sync::atomic::Ordering;

use crate::frames::cause::Cause;
use crate::map::SlotCounts;
use crate::store::PageStore;

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
    /// Writes whose page had changed meanwhile.
    pub discarded_writes: u64,
    /// Times somebody had to wait for a free frame.
    pub waits_for_frames: u64,
    /// Times somebody had to wait because too much was saved for the cut.
    pub waits_for_undo: u64,
    /// Frames in the pool.
    pub frames: u64,
    /// Of them with hot pages.
    pub hot_frames: u64,
    /// Most that may have hot pages.
    pub hot_cap: u64,
    /// With inner pages of cold tiers.
    pub inner_frames: u64,
    /// Lent to other consumers of the memory.
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

impl PageStore {
    /// A snapshot of the figures. Takes the map mutex for an instant.
    pub fn stats(&self) -> StoreStats {
        let c = &self.counters;
        let get = |a: &terrace_base::sync::atomic::AtomicU64| a.load(Ordering::Relaxed);
        let (slots, map_memory_bytes) = {
            let map = self.map.lock();
            (map.counts(), map.memory_bytes() as u64)
        };
        let (cut_pages_written, cut_pages) = self.cut.progress.get(get(&c.checkpoint_page_writes));
        StoreStats {
            page_bytes: self.page_bytes() as u64,
            page_reads: c.page_reads.iter().map(get).sum(),
            demotion_reads: get(&c.page_reads[Cause::Demotion as usize]),
            ageing_reads: get(&c.page_reads[Cause::Ageing as usize]),
            merging_reads: get(&c.page_reads[Cause::Merging as usize]),
            page_writes: get(&c.page_writes),
            checkpoint_page_writes: get(&c.checkpoint_page_writes),
            checkpoint_hot_writes: get(&c.checkpoint_hot_writes),
            cut_pages,
            cut_pages_written,
            map_bytes: get(&c.map_bytes),
            checkpoints: get(&c.checkpoints),
            evictions: get(&c.evictions),
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
            snapshot_bytes: self.pin_bytes(),
            buffer_bytes: (self.layout.write_batch * self.page_bytes()) as u64
                * crate::options::WRITE_BUFFERS as u64,
        }
    }
}
