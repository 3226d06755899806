//! Whether the accounts of a store add up: frames, dirty pages, classes, slots.

use std::collections::HashSet;

use terrace_base::sync::atomic::Ordering;
use terrace_base::{Error, PageId, Result};

use crate::frames::Frames;
use crate::frames::frame::{CUT_PENDING, Class, NO_PAGE, WRITING};
use crate::frames::table::Word;
use crate::map::{Phase, Words};

impl Frames {
    pub fn check_accounts(&self) -> Result<()> {
        self.check_frames()?;
        self.check_slots()
    }

    fn check_frames(&self) -> Result<()> {
        let (mut pages, mut dirty) = (0, 0);
        let (mut hot, mut inner, mut tops) = (0, 0, 0);
        for (index, frame) in self.pool.iter() {
            let pid = PageId(frame.page.load(Ordering::Acquire));
            let epoch = frame.dirty.load(Ordering::Acquire);
            if frame.has(WRITING | CUT_PENDING) {
                return wrong(format!("frame {index} is still being written"));
            }
            if pid.0 == NO_PAGE {
                if epoch != 0 {
                    return wrong(format!("frame {index} is empty and dirty"));
                }
                continue;
            }
            if self.table.load(pid) != Word::Resident(index) {
                return wrong(format!(
                    "frame {index} has {pid}, whose word says otherwise"
                ));
            }
            pages += 1;
            dirty += u64::from(epoch != 0);
            hot += u64::from(frame.class().is_hot());
            if frame.class() == Class::Memory && (epoch != 0 || self.place(pid).slot().is_some()) {
                return wrong(format!(
                    "frame {index} has {pid}, which lies in memory alone and has a place"
                ));
            }
            inner += u64::from(frame.class() == Class::Inner);
            tops += u64::from(frame.class() == Class::Top);
        }
        let free = self.free.lock().clone();
        let lent = self.lent.frames().clone();
        let idle: HashSet<u32> = free.iter().chain(&lent).copied().collect();
        if idle.len() != free.len() + lent.len() {
            return wrong("a frame is free twice".into());
        }
        if idle
            .iter()
            .any(|f| self.pool.frame(*f).page.load(Ordering::Acquire) != NO_PAGE)
        {
            return wrong("a free frame has a page".into());
        }
        let counted = &self.common.counters;
        equal(
            "frames",
            (pages + idle.len()) as u64,
            self.pool.len() as u64,
        )?;
        equal("lent frames", lent.len() as u64, self.lent.count())?;
        equal("page writes owed", dirty, counted.dirty.get())?;
        equal("hot frames", hot, counted.hot.get())?;
        equal("inner frames", inner, counted.inner.get())?;
        equal("frames of tops", tops, counted.tops.get())?;
        equal("saved bytes", 0, self.undo.bytes())
    }

    fn check_slots(&self) -> Result<()> {
        let mut slots = HashSet::new();
        let mut chain = HashSet::new();
        for pid in (0..self.table.count()).map(PageId) {
            if matches!(self.table.load(pid), Word::Loading(_)) {
                return wrong(format!("{pid} is still being read"));
            }
            if let Some(slot) = self.place(pid).slot()
                && !slots.insert(slot)
            {
                return wrong(format!("slot {slot} has two pages, one of them {pid}"));
            }
        }
        let (head, free) = {
            let free = self.free_pages.lock();
            (free.head, free.count)
        };
        let mut next = head;
        while let Some(pid) = next {
            let Word::Out(place) = self.table.load(pid) else {
                return wrong(format!("{pid} is in use and in the chain of free pages"));
            };
            if !place.is_free() || !chain.insert(pid) {
                return wrong(format!("the chain of free pages is wrong at {pid}"));
            }
            next = (!place.link().is_none()).then_some(place.link());
        }
        equal("free pages", chain.len() as u64, free)?;
        for pid in (0..self.table.count()).map(PageId) {
            if matches!(self.table.load(pid), Word::Out(place) if place.is_free())
                && !chain.contains(&pid)
            {
                return wrong(format!("{pid} is free, but not in the chain of free pages"));
            }
        }
        let map = self.map.lock();
        map.health()?;
        if map.phase() != Phase::Idle {
            return wrong(format!(
                "a checkpoint is still going on ({:?})",
                map.phase()
            ));
        }
        let counts = map.counts();
        let used = counts.total - counts.free;
        equal("slots in flight", counts.in_flight, 0)?;
        let beside = counts.image_only + counts.kept;
        equal("slots in use", used, slots.len() as u64 + beside)?;
        equal(
            "slots by layer",
            used,
            counts.image + counts.cut + counts.next + counts.kept,
        )?;
        equal(
            "free slots",
            counts.free,
            self.common.counters.free_slots.get(),
        )?;
        let end = map.used_end();
        match slots.iter().find(|slot| **slot >= end) {
            Some(slot) => wrong(format!("slot {slot} has a page and counts as free")),
            None => Ok(()),
        }
    }
}

fn equal(what: &str, found: u64, counted: u64) -> Result<()> {
    if found == counted {
        return Ok(());
    }
    wrong(format!("{what}: {found} found, {counted} counted"))
}

fn wrong<T>(what: String) -> Result<T> {
    Err(Error::Poisoned {
        cause: format!("the page store's accounts do not add up: {what}"),
    })
}
