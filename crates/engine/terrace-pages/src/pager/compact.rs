//! Pages that are written elsewhere, so that the file can be cut behind them; and pages that nothing owns.

use terrace_base::{PageId, Result};

use crate::enter::retry::Retry;
use crate::map::Words;
use crate::pager::Pager;
use crate::parts::space_quota::Space;

/// Pages that one checkpoint moves away from the end of the file.
const RELOCATE_PAGES: u64 = 256;

/// Compaction leaves this many slots free in front, whatever the number of pages: the first pages that are moved
/// need places, and each checkpoint gives those free that they had.
const COMPACT_SPARE: u64 = 16;

/// Pages that one step of compaction looks at.
const MOST_LOOKED_AT: u64 = 1 << 16;

impl Pager {
    pub fn compact_some(&self, from: u64, most: u64) -> Result<(u64, Option<u64>)> {
        self.compact_some_below(from, most, self.frames().live_pages() + COMPACT_SPARE)
    }

    pub fn compact_some_below(
        &self,
        from: u64,
        most: u64,
        bound: u64,
    ) -> Result<(u64, Option<u64>)> {
        self.common().claims.set_compact_below(bound);
        let mut moved = 0;
        for pid in (from..self.frames().page_numbers()).map(PageId) {
            if moved >= most || pid.0 - from >= MOST_LOOKED_AT {
                return Ok((moved, Some(pid.0)));
            }
            moved += u64::from(self.mark_changed(pid, bound)?);
        }
        Ok((moved, None))
    }

    /// Has a page written again, to another place, if it lies at this slot or behind; whether that is so.
    fn mark_changed(&self, pid: PageId, bound: u64) -> Result<bool> {
        let slot = self.frames().place(pid).slot();
        if slot.is_none_or(|slot| slot < bound) {
            return Ok(false);
        }
        match self.fault_in(pid) {
            // It stays where it is; the file can still be cut behind it.
            Err(e) if e.is_unreadable() => return Ok(false),
            read => read?,
        }
        let door = self.storage.enter_for(Space::Reserve)?;
        let page = self.frames().try_exclusive(pid, &door);
        match page.and_then(|mut page| page.fill(0, 0).map(|_| ())) {
            Err(Retry::Fail(e)) => Err(e),
            // A thread is changing it, so it will move anyway; or it is gone already.
            Ok(()) | Err(_) => Ok(true),
        }
    }

    pub fn relocate_some(&self) -> Result<()> {
        let bound = {
            let map = self.frames().lock_map();
            let counts = map.counts();
            let used = counts.total - counts.free;
            if counts.free <= used / 2 + 512 {
                return Ok(());
            }
            map.tail_start(RELOCATE_PAGES).max(used + used / 4)
        };
        let mut moved = 0;
        for pid in (0..self.frames().page_numbers()).map(PageId) {
            moved += u64::from(self.mark_changed(pid, bound)?);
            if moved >= RELOCATE_PAGES {
                break;
            }
        }
        Ok(())
    }

    pub fn free_unowned(&self, pid: PageId) -> Result<()> {
        loop {
            if !self.frames().exists(pid) {
                return Ok(());
            }
            self.bring_in(pid, &|claimed| claimed.put_in_empty())?;
            let door = self.storage.enter_to_free()?;
            let freed = self.frames().exclusive(pid, &door).map(|page| page.free());
            drop(door);
            match freed {
                Ok(()) => return Ok(()),
                Err(interrupt) => self.settle_unread(interrupt)?,
            }
        }
    }
}
