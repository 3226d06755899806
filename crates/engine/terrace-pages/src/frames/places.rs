//! Where the map finds the newest place of every page: in the word of a page on disk, in the frame
//! header of a page in memory.

use terrace_base::PageId;
use terrace_base::sync::atomic::Ordering;
use terrace_base::sync::spin_loop;

use crate::faults::{Planted, planted};
use crate::frames::Frames;
use crate::frames::frame::MOVING;
use crate::frames::table::Word;
use crate::map::{Place, Words};

impl Words for Frames {
    fn place(&self, pid: PageId) -> Place {
        loop {
            match self.table.load(pid) {
                Word::Out(place) | Word::Loading(place) => return place,
                Word::Resident(frame) => {
                    let header = self.pool.frame(frame);
                    let place = header.place.load(Ordering::Acquire);
                    if place != MOVING
                        && header.page.load(Ordering::Acquire) == pid.0
                        && self.table.load(pid) == Word::Resident(frame)
                    {
                        return Place::from_bits(place);
                    }
                    spin_loop();
                }
            }
        }
    }

    fn retag(&self, pid: PageId, from: Place, to: Place) -> bool {
        loop {
            match self.table.load(pid) {
                word @ (Word::Out(place) | Word::Loading(place)) => {
                    // A free word carries the chain's link beside what the map knows.
                    if place.with_link(PageId(0)) != from.with_link(PageId(0)) {
                        return false;
                    }
                    let to = to.with_link(place.link());
                    let new = match word {
                        Word::Loading(_) => Word::Loading(to),
                        _ => Word::Out(to),
                    };
                    if self.table.swap(pid, word, new) {
                        return true;
                    }
                }
                Word::Resident(frame) => {
                    if planted(Planted::RetagLost) && from.with_tag(to.tag()) == to {
                        return true;
                    }
                    let place = &self.pool.frame(frame).place;
                    // A page in memory keeps no link, even while it has never been written.
                    let (from, to) = (from.with_link(PageId(0)), to.with_link(PageId(0)));
                    match place.compare_exchange(
                        from.bits(),
                        to.bits(),
                        Ordering::AcqRel,
                        Ordering::Acquire,
                    ) {
                        Ok(_) => return true,
                        Err(MOVING) => spin_loop(),
                        Err(_) => {
                            if self.table.load(pid) == Word::Resident(frame) {
                                return false;
                            }
                        }
                    }
                }
            }
        }
    }
}
