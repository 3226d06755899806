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

/// Locks over which frames spread.
const SHARDS: usize = 64;
/// What a list costs besides its two arrays: itself, its share of a node of the tree (which are half full
/// at least), and what an allocator adds to three allocations.
const LIST_BYTES: usize = 2 * size_of::<(u32, List)>() + 3 * 16;
/// What a kept page costs besides its bytes.
const PAGE_BYTES: usize = 48;
/// Arrays grow by a part in so many of what they have, so that little is taken for nothing.
const GROWTH_PART: usize = 4;

/// A range of a frame; its bytes lie behind those of the ranges saved before it.
#[derive(Clone, Copy)]
struct Saved {
    at: u32,
    len: u32,
}

/// What was saved of one frame.
#[derive(Default)]
struct List {
    ranges: Vec<Saved>,
    bytes: Vec<u8>,
}

impl List {
    fn push(&mut self, at: usize, old: &[u8]) {
        if self.ranges.len() == self.ranges.capacity() {
            self.ranges
                .reserve_exact(4 + self.ranges.len() / GROWTH_PART);
        }
        let missing = (self.bytes.len() + old.len()).saturating_sub(self.bytes.capacity());
        if missing > 0 {
            let more = old.len() + self.bytes.len() / GROWTH_PART;
            self.bytes.reserve_exact(more);
        }
        self.ranges.push(Saved {
            at: at as u32,
            len: old.len() as u32,
        });
        self.bytes.extend_from_slice(old);
    }

    /// Memory that it takes.
    fn memory(&self) -> usize {
        LIST_BYTES + self.ranges.capacity() * size_of::<Saved>() + self.bytes.capacity()
    }

    /// Each range with its bytes, the newest first.
    fn newest_first(&self) -> impl Iterator<Item = (usize, &[u8])> {
        let mut rest = self.bytes.as_slice();
        self.ranges.iter().rev().map(move |saved| {
            let (before, bytes) = rest.split_at(rest.len() - saved.len as usize);
            rest = before;
            (saved.at as usize, bytes)
        })
    }
}

/// What keeping this page takes.
pub(crate) fn page_memory(page: &[u8]) -> u64 {
    (page.len() + PAGE_BYTES) as u64
}

/// Lists by frame; ordered, so that the same run writes the same pages first.
type Shard = Mutex<BTreeMap<u32, List>>;

/// Saved ranges of all frames.
pub struct Undo {
    shards: Box<[Shard]>,
    /// Pages that were freed after the cut, as they were at the cut.
    pages: Mutex<Vec<(PageId, Box<[u8]>)>>,
    used: AtomicU64,
}

impl Undo {
    pub fn new() -> Undo {
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        Undo {
            shards,
            pages: Mutex::default(),
            used: AtomicU64::new(0),
        }
    }

    fn shard(&self, frame: u32) -> &Shard {
        &self.shards[frame as usize % SHARDS]
    }

    /// Saves `old`, the bytes at `at`, but for what a range saved before has of both ends: the first one
    /// saved is what the cut had. O(ranges of the frame).
    pub fn save(&self, frame: u32, at: usize, old: &[u8]) {
        let (mut from, mut to) = (at, at + old.len());
        let mut shard = self.shard(frame).lock();
        if let Some(list) = shard.get(&frame) {
            for saved in &list.ranges {
                let (start, end) = (saved.at as usize, (saved.at + saved.len) as usize);
                if start <= from && from < end {
                    from = end.min(to);
                }
                if start < to && to <= end {
                    to = start.max(from);
                }
            }
        }
        let Some(old) = old.get(from - at..to - at).filter(|old| !old.is_empty()) else {
            return;
        };
        let mut before = 0;
        let list = shard
            .entry(frame)
            .and_modify(|list| before = list.memory())
            .or_default();
        list.push(from, old);
        let grown = list.memory() - before;
        self.used.fetch_add(grown as u64, Ordering::Relaxed);
    }

    /// Turns `page`, a copy of the frame's content, back into what it was at the cut, and forgets
    /// the frame. The caller holds the frame's latch.
    pub fn apply(&self, frame: u32, page: &mut [u8]) {
        for (at, bytes) in self.take(frame).newest_first() {
            page[at..at + bytes.len()].copy_from_slice(bytes);
        }
    }

    /// Forgets what was saved of a frame.
    pub fn forget(&self, frame: u32) {
        drop(self.take(frame));
    }

    fn take(&self, frame: u32) -> List {
        let Some(list) = self.shard(frame).lock().remove(&frame) else {
            return List::default();
        };
        self.used.fetch_sub(list.memory() as u64, Ordering::Relaxed);
        list
    }

    /// The frames, `most` at most, of which most was saved: the checkpointer writes them first. A page
    /// that was rewritten as a whole holds as much as fifty others of which a record was changed, and
    /// to write it is the same work. O(frames · log most).
    pub fn fullest_frames(&self, out: &mut Vec<u32>, most: usize) {
        let mut fullest = BinaryHeap::with_capacity(most + 1);
        for shard in &self.shards {
            for (&frame, list) in shard.lock().iter() {
                fullest.push(Reverse((list.bytes.len(), frame)));
                if fullest.len() > most {
                    fullest.pop();
                }
            }
        }
        let sorted = fullest.into_sorted_vec();
        out.extend(sorted.into_iter().map(|Reverse((_, frame))| frame));
    }

    /// Keeps the content at the cut of a page that is being freed.
    pub fn save_page(&self, pid: PageId, page: Box<[u8]>) {
        self.used.fetch_add(page_memory(&page), Ordering::Relaxed);
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
    }

    /// Takes back a page that was handed out.
    pub fn keep_page(&self, pid: PageId, page: Box<[u8]>) {
        self.pages.lock().push((pid, page));
    }

    /// Bytes held.
    pub fn bytes(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn overlapping_ranges_are_undone_newest_first() {
        let undo = Undo::new();
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
        let undo = Undo::new();
        let mut page: Vec<u8> = (0..2000).map(|i| i as u8).collect();
        let cut = page.clone();
        for round in 0..300usize {
            let (at, end) = (round * 7 % 900, 1000 + 3 * round);
            undo.save(1, at, &page[at..end]);
            page[at..end]
                .iter_mut()
                .for_each(|byte| *byte = byte.wrapping_add(round as u8));
        }
        let saved = undo.shard(1).lock()[&1].bytes.len();
        assert!(saved <= 2000, "{saved}");
        undo.apply(1, &mut page);
        assert_eq!(page, cut);
    }

    #[test]
    fn what_is_counted_is_what_is_taken() {
        // A few bytes of many frames, and many small ranges of one.
        for (frames, ranges, len) in [(1000, 1, 4), (1, 1000, 4), (50, 20, 100)] {
            let undo = Undo::new();
            for frame in 0..frames {
                for i in 0..ranges {
                    undo.save(frame, i * 2 * len, &vec![1; len]);
                }
            }
            let mut arrays = 0;
            for shard in &undo.shards {
                for list in shard.lock().values() {
                    arrays += list.ranges.capacity() * size_of::<Saved>() + list.bytes.capacity();
                }
            }
            let counted = undo.bytes() as usize;
            assert_eq!(counted, arrays + frames as usize * LIST_BYTES);
            // And little of it for nothing.
            let held = frames as usize * (LIST_BYTES + ranges * (len + size_of::<Saved>()));
            assert!(
                counted <= held * 13 / 10 + frames as usize * 32,
                "{counted} for {held}"
            );
        }
    }

    #[test]
    fn frames_of_which_most_was_saved_come_first() {
        let undo = Undo::new();
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
        // All of them once, if so many are wanted; none that was written meanwhile.
        undo.forget(3);
        picks.clear();
        undo.fullest_frames(&mut picks, 1000);
        picks.sort_unstable();
        assert!(picks.iter().copied().eq((0..200).filter(|&f| f != 3)));
        picks.into_iter().for_each(|frame| undo.forget(frame));
        assert_eq!(undo.bytes(), 0);
    }
}
