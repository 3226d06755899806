//! Pages in memory: frames and their latches, how they are found and held, which of them leave; and where all
//! other pages are. What is public of it is told at [`crate::PageStore`].
//!
//! Invariants:
//! * A page is in at most one frame; its page table word says which.
//! * A frame is owned by exactly one of: the free list, those that are lent, a page, the thread that is filling or
//!   emptying it (which holds its exclusive latch or took it off the list).
//! * Nothing here waits for a disk.

pub(crate) mod allocate;
pub(crate) mod copy;
pub(crate) mod find;
pub(crate) mod frame;
pub(crate) mod guard;
pub(crate) mod latch;
pub(crate) mod page;
pub(crate) mod page_in;
pub(crate) mod places;
pub(crate) mod prefetch;
pub(crate) mod quota;
pub(crate) mod region;
pub(crate) mod release;
pub(crate) mod replace;
pub(crate) mod reserving;
pub(crate) mod stats;
pub(crate) mod stay;
pub(crate) mod table;
pub(crate) mod verify;
pub(crate) mod view;

use terrace_base::sync::{Mutex, MutexGuard};
use terrace_base::{PageId, Result};

use crate::map::PageMap;
use crate::parts::active_checkpoint::ActiveCheckpoint;
use crate::parts::clock::Clock;
use crate::parts::common::Common;
use crate::parts::frame_reservation::FrameReservation;
use crate::parts::ghosts::Ghosts;
use crate::parts::shares::Shares;
use crate::parts::undo::Undo;

use frame::Pool;
use table::{FreePages, Table, Word};

/// The pages in memory: the frames, the page table, and the figures by which frames are given out.
pub(crate) struct Frames {
    pool: Pool,
    table: Table,
    map: Mutex<PageMap>,
    /// First of the chain of free page numbers; the links are in their words. Under the map mutex.
    free_pages: Mutex<FreePages>,
    free: Mutex<Vec<u32>>,
    lent: FrameReservation,
    clock: Clock,
    shares: Shares,
    ghosts: Ghosts,
    cut: ActiveCheckpoint,
    undo: Undo,
    /// Last: what an image takes is given back when its frames are gone.
    common: Common,
}

impl Frames {
    /// No page is in memory yet.
    pub fn new(
        common: Common,
        table: Table,
        map: PageMap,
        free_pages: FreePages,
    ) -> Result<Frames> {
        let layout = &common.layout;
        let frames = Frames {
            pool: Pool::new(layout.frames, common.page_bytes())?,
            free: Mutex::new((0..layout.frames as u32).rev().collect()),
            ghosts: Ghosts::new(layout.frames),
            undo: Undo::new(layout.undo_bytes),
            table,
            map: Mutex::new(map),
            free_pages: Mutex::new(free_pages),
            lent: FrameReservation::default(),
            clock: Clock::default(),
            shares: Shares::new(),
            cut: ActiveCheckpoint::new(),
            common,
        };
        frames.note_slots(&frames.map.lock());
        Ok(frames)
    }

    /// What all parts go by.
    #[inline]
    pub fn common(&self) -> &Common {
        &self.common
    }

    /// Whether a panic has left something half done.
    #[inline]
    fn is_halted(&self) -> bool {
        self.common.health.is_halted()
    }

    /// The cut whose pages are being written.
    #[inline]
    pub fn cut(&self) -> &ActiveCheckpoint {
        &self.cut
    }

    /// What is saved for it.
    #[inline]
    pub fn undo(&self) -> &Undo {
        &self.undo
    }

    /// What frames give up for others.
    pub fn lent(&self) -> &FrameReservation {
        &self.lent
    }

    /// What was said of their division.
    pub fn shares(&self) -> &Shares {
        &self.shares
    }

    /// Where pages lie on disk, and which slots are free.
    pub fn lock_map(&self) -> MutexGuard<'_, PageMap> {
        self.map.lock()
    }

    /// What the table says of a page.
    pub fn word(&self, pid: PageId) -> Word {
        self.table.load(pid)
    }

    /// Page numbers that were never given out.
    pub fn numbers_left(&self) -> u64 {
        self.table.limit().saturating_sub(self.table.count())
    }

    /// Says to all threads how many slots are free.
    pub fn note_slots(&self, map: &PageMap) {
        let free = &self.common.counters.free_slots;
        free.set(map.counts().free);
    }

    /// A frame that is free, for the caller.
    pub fn take_free(&self) -> Option<u32> {
        self.free.lock().pop()
    }

    /// A frame is free from now on.
    pub fn give(&self, frame: u32) {
        self.free.lock().push(frame);
    }
}
