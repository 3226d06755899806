//! What was overwritten since the cut: old bytes of changed ranges, per frame, and whole pages that
//! were freed.
//!
//! A page that must still be written as it was at the cut may be changed at once; the range about
//! to be overwritten is saved here first, and the checkpointer applies the saved ranges, newest
//! first, to its private copy. So a hot leaf with a thousand updates during a checkpoint costs the
//! records that were changed, not copies of the page.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use terrace_base::PageId;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU64, Ordering};

use crate::parts::blocks::{Blocks, Chain};

/// Locks over which frames spread, at most.
const MOST_SHARDS: u64 = 64;
/// Mappings that the memory for all of it is divided into, so that little of each shard is taken for
/// nothing.
const SLABS: u64 = 256;
/// Slabs that each shard has if all of the memory is used.
const SLABS_PER_SHARD: u64 = 8;
/// Least and most bytes of a slab.
const SLAB_BYTES: (u64, u64) = (4096, 1 << 20);
/// What a list costs besides its blocks: its share of a node of the tree, which are half full at least.
const LIST_BYTES: usize = 2 * size_of::<(u32, Chain)>() + 8;
/// What a kept page costs besides its bytes.
const PAGE_BYTES: usize = 48;

/// A range of a frame, ahead of its bytes: where it begins, and one less than its length.
const RANGE: usize = 4;

fn encode_range(at: usize, len: usize) -> [u8; RANGE] {
    let [a, b] = (at as u16).to_le_bytes();
    let [c, d] = ((len - 1) as u16).to_le_bytes();
    [a, b, c, d]
}

fn decode_range([a, b, c, d]: [u8; RANGE]) -> (usize, usize) {
    let number = |low, high| usize::from(u16::from_le_bytes([low, high]));
    (number(a, b), number(c, d) + 1)
}

/// What keeping this page takes.
pub(crate) fn page_memory(page: &[u8]) -> u64 {
    (page.len() + PAGE_BYTES) as u64
}

/// Some of the frames.
struct Shard {
    blocks: Blocks,
    /// What was saved of each frame; ordered, so that the same run writes the same pages first.
    lists: BTreeMap<u32, Chain>,
}

impl Shard {
    fn memory(&self) -> usize {
        self.blocks.memory() + self.lists.len() * LIST_BYTES
    }
}

/// Saved ranges of all frames.
pub struct Undo {
    shards: Box<[Mutex<Shard>]>,
    /// Pages that were freed after the cut, as they were at the cut.
    pages: Mutex<Vec<(PageId, Box<[u8]>)>>,
    /// Bytes that are needed.
    used: AtomicU64,
    /// Bytes that are held, for what is needed and for what was.
    held: AtomicU64,
    /// Frames of which something was saved.
    frames: AtomicU64,
}

impl Undo {
    /// For `most` bytes at most.
    pub fn new(most: u64) -> Undo {
        let (least_slab, most_slab) = SLAB_BYTES;
        let slab = (most / SLABS).clamp(least_slab, most_slab) / least_slab * least_slab;
        let shards = (most / (slab * SLABS_PER_SHARD)).clamp(1, MOST_SHARDS);
        let shards = (0..shards).map(|_| {
            Mutex::new(Shard {
                blocks: Blocks::new(slab as usize),
                lists: BTreeMap::new(),
            })
        });
        Undo {
            shards: shards.collect(),
            pages: Mutex::default(),
            used: AtomicU64::new(0),
            held: AtomicU64::new(0),
            frames: AtomicU64::new(0),
        }
    }

    /// What `f` does with the shard of a frame; what it came to hold more or less is counted.
    fn with_shard<T>(&self, frame: u32, f: impl FnOnce(&mut Shard) -> T) -> T {
        let mut shard = self.shards[frame as usize % self.shards.len()].lock();
        let before = shard.memory();
        let done = f(&mut shard);
        // The sum wraps when it falls, and is right again.
        let change = (shard.memory() as u64).wrapping_sub(before as u64);
        self.held.fetch_add(change, Ordering::Relaxed);
        done
    }

    /// Saves `old`, the bytes at `at`, but for what a range saved before has of both ends: the first one
    /// saved is what the cut had. O(ranges of the frame).
    pub fn save(&self, frame: u32, at: usize, old: &[u8]) {
        let (mut from, mut to) = (at, at + old.len());
        self.with_shard(frame, |shard| {
            let mut chain = shard.lists.get(&frame).copied().unwrap_or(Chain::EMPTY);
            let before = chain.memory();
            let mut saved = shard.blocks.read(&chain);
            while !saved.is_at_end() {
                let mut range = [0; RANGE];
                saved.fill(&mut range);
                let (start, len) = decode_range(range);
                let end = start + len;
                saved.skip(len);
                if start <= from && from < end {
                    from = end.min(to);
                }
                if start < to && to <= end {
                    to = start.max(from);
                }
            }
            let Some(old) = old.get(from - at..to - at).filter(|old| !old.is_empty()) else {
                return;
            };
            let range = encode_range(from, old.len());
            shard.blocks.append(&mut chain, &range);
            shard.blocks.append(&mut chain, old);
            let mut grown = chain.memory() - before;
            if shard.lists.insert(frame, chain).is_none() {
                grown += LIST_BYTES;
                self.frames.fetch_add(1, Ordering::Relaxed);
            }
            self.used.fetch_add(grown as u64, Ordering::Relaxed);
        });
    }

    /// Turns `page`, a copy of the frame's content, back into what it was at the cut, and forgets
    /// the frame. The caller holds the frame's latch.
    pub fn apply(&self, frame: u32, page: &mut [u8]) {
        self.take(frame, |blocks, chain| {
            let mut bytes = vec![0; chain.len()];
            blocks.read(chain).fill(&mut bytes);
            let mut ranges = Vec::new();
            let mut rest = bytes.as_slice();
            while let Some((range, behind)) = rest.split_first_chunk() {
                let (at, len) = decode_range(*range);
                let (old, behind) = behind.split_at(len);
                ranges.push((at, old));
                rest = behind;
            }
            for (at, old) in ranges.into_iter().rev() {
                page[at..at + old.len()].copy_from_slice(old);
            }
        });
    }

    /// Forgets what was saved of a frame.
    pub fn forget(&self, frame: u32) {
        self.take(frame, |_, _| {});
    }

    fn take(&self, frame: u32, look: impl FnOnce(&Blocks, &Chain)) {
        self.with_shard(frame, |shard| {
            let Some(chain) = shard.lists.remove(&frame) else {
                return;
            };
            look(&shard.blocks, &chain);
            shard.blocks.give(chain);
            if shard.lists.is_empty() {
                shard.blocks.clear();
            }
            let bytes = (chain.memory() + LIST_BYTES) as u64;
            self.used.fetch_sub(bytes, Ordering::Relaxed);
            self.frames.fetch_sub(1, Ordering::Relaxed);
        });
    }

    /// Frames of which something was saved.
    pub fn frames(&self) -> u64 {
        self.frames.load(Ordering::Relaxed)
    }

    /// The frames, `most` at most, of which most was saved: the checkpointer writes them first. A page
    /// that was rewritten as a whole holds as much as fifty others of which a record was changed, and
    /// to write it is the same work. O(frames + those that come to be among them · log most).
    pub fn fullest_frames(&self, out: &mut Vec<u32>, most: usize) {
        let mut fullest = BinaryHeap::with_capacity(most + 1);
        for shard in &self.shards {
            for (&frame, chain) in &shard.lock().lists {
                let this = Reverse((chain.len(), frame));
                if fullest.len() < most {
                    fullest.push(this);
                } else if fullest.peek().is_some_and(|least| this < *least) {
                    fullest.pop();
                    fullest.push(this);
                }
            }
        }
        let sorted = fullest.into_sorted_vec();
        out.extend(sorted.into_iter().map(|Reverse((_, frame))| frame));
    }

    /// Keeps the content at the cut of a page that is being freed.
    pub fn save_page(&self, pid: PageId, page: Box<[u8]>) {
        for bytes in [&self.used, &self.held] {
            bytes.fetch_add(page_memory(&page), Ordering::Relaxed);
        }
        self.keep_page(pid, page);
    }

    /// Hands out one of the pages kept. It counts as held until [`Undo::page_done`] or
    /// [`Undo::keep_page`].
    pub fn take_page(&self) -> Option<(PageId, Box<[u8]>)> {
        self.pages.lock().pop()
    }

    /// A page that was handed out is not needed any more.
    pub fn page_done(&self, page: Box<[u8]>) {
        let bytes = page_memory(&page);
        drop(page);
        self.used.fetch_sub(bytes, Ordering::Relaxed);
        self.held.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Takes back a page that was handed out.
    pub fn keep_page(&self, pid: PageId, page: Box<[u8]>) {
        self.pages.lock().push((pid, page));
    }

    /// Bytes that are needed for what has not been written yet.
    pub fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Memory that is held, until what is needed has come down to nothing.
    pub fn memory_bytes(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_undone_newest_first() {
        let undo = Undo::new(1 << 20);
        let mut page = *b"0123456789";
        let cut = page;
        for (at, new) in [
            (2, &b"abc"[..]),
            (0, b"xyz"),
            (2, b"QQQ"),
            (4, b"ffff"),
            (5, b"g"),
        ] {
            undo.save(7, at, &page[at..at + new.len()]);
            page[at..at + new.len()].copy_from_slice(new);
        }
        assert!(undo.bytes() > 0);
        undo.apply(7, &mut page);
        assert_eq!(page, cut);
        assert_eq!(undo.bytes(), 0);
    }
    /// A row of slots that grows by one at its end each time, and moves: each byte is saved once.
    #[test]
    fn what_is_saved_is_not_saved_again() {
        let undo = Undo::new(1 << 20);
        let mut page: Vec<u8> = (0..2000).map(|i| i as u8).collect();
        let cut = page.clone();
        for round in 0..300usize {
            let (at, end) = (round * 7 % 900, 1000 + 3 * round);
            undo.save(1, at, &page[at..end]);
            page[at..end]
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(round as u8));
        }
        // With what says where each range was.
        let saved = undo.shards[1 % undo.shards.len()].lock().lists[&1].len();
        assert!(saved <= 2000 + 300 * RANGE, "{saved}");
        undo.apply(1, &mut page);
        assert_eq!(page, cut);
    }

    #[test]
    fn what_is_counted_is_what_is_taken() {
        // A few bytes of many frames, and many small ranges of one.
        for (frames, ranges, len) in [(1000, 1, 4), (1, 1000, 4), (50, 20, 100)] {
            let undo = Undo::new(64 << 10);
            for frame in 0..frames {
                for i in 0..ranges {
                    undo.save(frame, i * 2 * len, &vec![1; len]);
                }
            }
            let held: usize = undo.shards.iter().map(|s| s.lock().memory()).sum();
            assert_eq!(undo.memory_bytes(), held as u64);
            assert!(undo.bytes() <= undo.memory_bytes());
            assert_eq!(undo.frames(), u64::from(frames));
            // And little of it for nothing: less than a block for each list, and a slab.
            let needed = frames as usize * (LIST_BYTES + ranges * (len + RANGE) * 132 / 128 + 128);
            let (used, slab) = (undo.bytes() as usize, undo.shards.len() * 4096);
            assert!(used <= needed, "{used} for {needed}");
            assert!(held <= needed + slab, "{held} for {needed}");
            // Half of it is written: what was needed for that is used again.
            (0..frames / 2).for_each(|frame| undo.forget(frame));
            (0..frames / 2).for_each(|frame| undo.save(frame, 0, &vec![2; len]));
            assert!(undo.memory_bytes() <= held as u64);
            (0..frames).for_each(|frame| undo.forget(frame));
            assert_eq!(
                (undo.bytes(), undo.memory_bytes(), undo.frames()),
                (0, 0, 0)
            );
        }
    }

    #[test]
    fn the_ends_of_the_largest_page_are_saved() {
        let undo = Undo::new(1 << 20);
        let mut page: Vec<u8> = (0..65536u32).map(|i| (i % 251) as u8).collect();
        let cut = page.clone();
        for (at, len) in [(65535, 1), (0, 1), (0, 65536)] {
            undo.save(3, at, &page[at..at + len]);
            page[at..at + len].fill(9);
        }
        undo.apply(3, &mut page);
        assert!(page == cut);
        assert_eq!(undo.memory_bytes(), 0);
    }

    #[test]
    fn frames_of_which_most_was_saved_come_first() {
        let undo = Undo::new(1 << 20);
        for frame in 0..200 {
            // One in fifty was rewritten as a whole, the others hold a record or two.
            undo.save(frame, 0, &[0; 100]);
            match frame % 50 {
                7 => undo.save(frame, 0, &[0; 4096]),
                9 => undo.save(frame, 200, &[0; 100]),
                _ => {}
            }
        }
        let mut picks = Vec::new();
        undo.fullest_frames(&mut picks, 6);
        let kinds: Vec<u32> = picks.iter().map(|frame| frame % 50).collect();
        assert_eq!(kinds, [7, 7, 7, 7, 9, 9], "{picks:?}");
        // All of them once, if that number is wanted; none that was written meanwhile.
        undo.forget(3);
        picks.clear();
        undo.fullest_frames(&mut picks, 1000);
        picks.sort_unstable();
        assert!(picks.iter().copied().eq((0..200).filter(|&f| f != 3)));
        picks.into_iter().for_each(|frame| undo.forget(frame));
        assert_eq!(undo.bytes(), 0);
    }
}
