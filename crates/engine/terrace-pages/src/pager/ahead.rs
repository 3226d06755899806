//! Reading ahead: for who goes through pages in their order, a scan or a large value, several are read with one
//! request.
//!
//! Pages that were made one after the other have numbers that follow each other, and are written side by
//! side. So who missed pages with such numbers, one after the other, gets those that follow with the next
//! one. What is read ahead lies in frames like any page, so the memory has its bound; and a reader that asks for
//! single pages reads none ahead.
//!
//! Where pages that follow each other lie apart, as leaves do that were split, the access method says which ones
//! follow the one that is missed ([`crate::PageStore::note_following`]). Who misses one of those after another gets the next
//! of them with it, which the disk reads at the same time.

use std::cell::RefCell;

use terrace_base::{PageId, Result};

use crate::enter::retry::Retry;
use crate::pager::fault::Ahead;
use crate::pager::{Pager, REQUEST_BYTES};
use crate::parts::cause::Cause;

/// One request is for one part in this many of the frames, at most.
const FRAMES_PART: u64 = 32;
/// Misses in order before something is read ahead: those of a short scan are fewer.
const MISSES_BEFORE: u32 = 2;
/// The same where they lie apart: a range of a hundred records may miss three leaves, and what were read with the third
/// would be a tenth of all reads of such ranges, in vain.
const MISSES_BEFORE_APART: u32 = 3;
/// Pages that are read ahead at first; twice as many each time.
const FIRST_PAGES: usize = 4;
/// Numbers that may be left out between two misses in order: inner pages, and pages that were there.
const GAP: i64 = 2;
/// Scans of a thread that are told from each other.
const STREAMS: usize = 4;

/// Misses of one thread whose pages follow each other.
#[derive(Clone, Default)]
struct Stream {
    /// Of which store: its address.
    store: usize,
    /// The last page that was brought in, and where the next one lies: 1, -1, or 0 if that is not known.
    last: i64,
    step: i64,
    misses: u32,
    /// Those that the access method says follow it.
    following: Vec<PageId>,
}

#[derive(Default)]
struct Streams {
    all: [Stream; STREAMS],
    next: usize,
    /// What an access method has said last: of which store and page, and what follows it.
    noted: (usize, i64, Vec<PageId>),
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
            let follows = || {
                stream
                    .following
                    .iter()
                    .any(|page| page.0.cast_signed() == pid)
            };
            stream.store == store
                && stream.misses > 0
                && (known || step == 0 && distance.abs() == 1 || follows())
        };
        let at = match self.all.iter().position(goes_on) {
            Some(at) => {
                let stream = &mut self.all[at];
                let distance = pid - stream.last;
                if stream.step == 0 && distance.abs() == 1 {
                    stream.step = distance;
                }
                at
            }
            None => {
                let at = self.next % STREAMS;
                self.next = at + 1;
                let following = std::mem::take(&mut self.all[at].following);
                self.all[at] = Stream {
                    store,
                    following,
                    ..Stream::default()
                };
                at
            }
        };
        let stream = &mut self.all[at];
        stream.following.clear();
        if (self.noted.0, self.noted.1) == (store, pid) {
            std::mem::swap(&mut stream.following, &mut self.noted.2);
        }
        stream.last = pid;
        stream.misses = stream.misses.saturating_add(1);
        stream
    }
}

impl Stream {
    /// What is to be read with the page that was missed last, at most `most` pages.
    fn ahead(&self, most: usize) -> Ahead {
        Ahead {
            down: self.step < 0,
            pages: if self.step != 0 {
                self.pages(most, MISSES_BEFORE)
            } else {
                0
            },
        }
    }

    /// Of the pages that follow those that are to be read with it, at most `most`.
    fn following(&self, most: usize) -> &[PageId] {
        let pages = self.pages(most, MISSES_BEFORE_APART);
        &self.following[..pages.min(self.following.len())]
    }

    fn pages(&self, most: usize, before: u32) -> usize {
        let times = self.misses.checked_sub(before + 1);
        times.map_or(0, |times| most.min(FIRST_PAGES << times.min(8)))
    }
}

impl Pager {
    /// Pages that one request reads ahead, at most.
    fn most_ahead(&self) -> usize {
        let frames = (self.common().frames() / FRAMES_PART) as usize;
        (REQUEST_BYTES / self.common().page_bytes())
            .min(frames)
            .saturating_sub(1)
    }

    pub fn settle_in_order(&self, interrupt: Retry) -> Result<()> {
        let Retry::Miss(pid) = interrupt else {
            return self.settle(interrupt);
        };
        let _because = Cause::Order.begin_for_caller();
        let (store, page) = (self.address(), pid.0.cast_signed());
        let most = self.most_ahead();
        let (ahead, with_it) = MINE.with_borrow_mut(|streams| {
            let stream = streams.of(store, page);
            (stream.ahead(most), stream.following(most).to_vec())
        });
        if !with_it.is_empty() {
            self.read_ahead(std::iter::once(pid).chain(with_it));
            return self.fault_in(pid);
        }
        let read = self.fault_in_run(pid, ahead)? as i64;
        MINE.with_borrow_mut(|streams| {
            let mine = |stream: &&mut Stream| stream.store == store && stream.last == page;
            if let Some(stream) = streams.all.iter_mut().find(mine) {
                stream.last += read * stream.step;
            }
        });
        Ok(())
    }

    pub fn note_following(&self, pid: PageId, following: impl Iterator<Item = PageId>) {
        MINE.with_borrow_mut(|streams| {
            let noted = &mut streams.noted;
            (noted.0, noted.1) = (self.address(), pid.0.cast_signed());
            noted.2.clear();
            noted.2.extend(following.take(self.most_following()));
        });
    }

    pub fn most_following(&self) -> usize {
        match self.most_ahead() {
            0 => 0,
            most => most + 1 + GAP as usize,
        }
    }

    pub fn fault_in_chain(&self, pid: PageId, before: Option<PageId>, pages: usize) -> Result<()> {
        let _because = Cause::Order.begin_for_caller();
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
        // Pages that lie apart, of which is known what follows; some of them were in memory already.
        let mut streams = Streams::default();
        let far = |i: i64| PageId((i * 1000) as u64);
        for (i, pages) in [(1, 0), (2, 0), (4, 0), (9, 4), (18, 8), (19, 15)] {
            streams.noted = (1, i * 1000, (i + 1..i + 19).map(far).collect());
            let stream = streams.of(1, i * 1000);
            assert_eq!(stream.following(15).len(), pages, "{i}");
            assert!(
                stream
                    .following(15)
                    .iter()
                    .copied()
                    .eq((i + 1..).map(far).take(pages))
            );
        }
        // What was said of another page, or of another store's, is nothing.
        assert!(streams.of(1, 20_000).following.is_empty());
        streams.noted = (2, 21_000, vec![far(22)]);
        assert!(streams.of(1, 21_000).following.is_empty());
        // Single pages, in whatever order.
        let mut streams = Streams::default();
        for pid in [5, 900, 40, 7, 300, 42, 2, 800, 44] {
            assert_eq!(ahead(&mut streams, pid).1, 0, "{pid}");
        }
    }
}
