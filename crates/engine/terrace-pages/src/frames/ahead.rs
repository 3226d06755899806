//! Reading ahead: for who goes through pages in their order, a scan or a large value, several are read with one
//! request.
//!
//! Pages that were made one after the other have numbers that follow each other, and are written side by
//! side. So who missed pages with such numbers, one after the other, gets those that follow with the next
//! one. What is read ahead lies in frames like any page, so the memory has its bound; and nobody who asks for
//! single pages reads any ahead.

use std::cell::RefCell;

use terrace_base::{PageId, Result};

use crate::enter::interrupt::Interrupt;
use crate::store::PageStore;

/// Bytes of one request, at most: larger ones make no device that we know much faster.
const REQUEST_BYTES: usize = 256 << 10;
/// One request is for one part in so many of the frames, at most.
const FRAMES_PART: u64 = 32;
/// Misses in order before something is read ahead: those of a short scan are fewer.
const MISSES_BEFORE: u32 = 2;
/// Pages that are read ahead at first; twice as many each time.
const FIRST_PAGES: usize = 4;
/// Numbers that may be left out between two misses in order: inner pages, and pages that were there.
const GAP: i64 = 2;
/// Scans of a thread that are told from each other.
const STREAMS: usize = 4;

/// What is to be read with a page: so many of those that follow it in the numbers, upwards or downwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub down: bool,
    pub pages: usize,
}

/// Misses of one thread whose pages follow each other.
#[derive(Clone, Copy, Default)]
struct Stream {
    /// Of which store: its address.
    store: usize,
    /// The last page that was brought in, and where the next one lies: 1, -1, or 0 if that is not known.
    last: i64,
    step: i64,
    misses: u32,
}

#[derive(Default)]
struct Streams {
    all: [Stream; STREAMS],
    next: usize,
}

thread_local! {
    static MINE: RefCell<Streams> = RefCell::default();
}

impl Streams {
    /// The stream that goes on with this page, or a new one in place of the oldest.
    fn of(&mut self, store: usize, pid: i64) -> &mut Stream {
        let goes_on = |stream: &Stream| {
            let (distance, step) = (pid - stream.last, stream.step);
            let known = step != 0 && (1..=1 + GAP).contains(&(distance * step));
            stream.store == store
                && stream.misses > 0
                && (known || step == 0 && distance.abs() == 1)
        };
        let at = match self.all.iter().position(goes_on) {
            Some(at) => {
                let stream = &mut self.all[at];
                if stream.step == 0 {
                    stream.step = pid - stream.last;
                }
                at
            }
            None => {
                let at = self.next % STREAMS;
                self.next = at + 1;
                self.all[at] = Stream {
                    store,
                    ..Stream::default()
                };
                at
            }
        };
        let stream = &mut self.all[at];
        stream.last = pid;
        stream.misses = stream.misses.saturating_add(1);
        stream
    }
}

impl Stream {
    /// What is to be read with the page that was missed last, of at most so many.
    fn ahead(&self, most: usize) -> Ahead {
        let pages = match self.misses.checked_sub(MISSES_BEFORE + 1) {
            Some(times) if self.step != 0 => FIRST_PAGES << times.min(8),
            _ => 0,
        };
        Ahead {
            down: self.step < 0,
            pages: pages.min(most),
        }
    }
}

impl PageStore {
    /// Pages that one request reads ahead, at most.
    fn most_ahead(&self) -> usize {
        let frames = (self.frames() / FRAMES_PART) as usize;
        (REQUEST_BYTES / self.page_bytes())
            .min(frames)
            .saturating_sub(1)
    }

    /// As [`PageStore::settle`], for somebody who goes through pages in their order.
    ///
    /// # Errors
    /// As [`PageStore::settle`].
    pub fn settle_in_order(&self, interrupt: Interrupt) -> Result<()> {
        let Interrupt::Miss(pid) = interrupt else {
            return self.settle(interrupt);
        };
        let (store, page) = (std::ptr::from_ref(self).addr(), pid.0.cast_signed());
        let most = self.most_ahead();
        let ahead = MINE.with_borrow_mut(|streams| streams.of(store, page).ahead(most));
        let read = self.fault_in_run(pid, ahead)? as i64;
        MINE.with_borrow_mut(|streams| {
            let mine = |stream: &&mut Stream| stream.store == store && stream.last == page;
            if let Some(stream) = streams.all.iter_mut().find(mine) {
                stream.last += read * stream.step;
            }
        });
        Ok(())
    }

    /// Brings a page in that is the first of `pages` which are needed, and with it those of the others that
    /// follow its number: `before` is the one that was needed before it.
    ///
    /// # Errors
    /// As [`PageStore::fault_in`].
    pub fn fault_in_chain(&self, pid: PageId, before: Option<PageId>, pages: usize) -> Result<()> {
        let step = before.map(|before| pid.0.cast_signed() - before.0.cast_signed());
        let pages = match step {
            Some(1 | -1) => pages.saturating_sub(1).min(self.most_ahead()),
            _ => 0,
        };
        let down = step == Some(-1);
        self.fault_in_run(pid, Ahead { down, pages }).map(drop)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    fn ahead(streams: &mut Streams, pid: i64) -> (bool, usize) {
        let stream = streams.of(1, pid);
        let ahead = stream.ahead(15);
        stream.last += ahead.pages as i64 * stream.step;
        (ahead.down, ahead.pages)
    }

    #[test]
    fn misses_in_order_are_told_from_others() {
        let mut streams = Streams::default();
        let up = [
            (10, 0),
            (11, 0),
            (12, 4),
            (17, 8),
            (27, 15),
            (43, 15),
            (90, 0),
            (59, 15),
        ];
        for (pid, pages) in up {
            assert_eq!(ahead(&mut streams, pid), (false, pages), "{pid}");
        }
        let down = [(1000, 0), (999, 0), (998, 4), (993, 8)];
        for (pid, pages) in down {
            assert_eq!(ahead(&mut streams, pid).1, pages, "{pid}");
        }
        // Single pages, in whatever order.
        let mut streams = Streams::default();
        for pid in [5, 900, 40, 7, 300, 42, 2, 800, 44] {
            assert_eq!(ahead(&mut streams, pid).1, 0, "{pid}");
        }
    }
}
