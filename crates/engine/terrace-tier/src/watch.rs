//! Watched ranges: what a transaction has read as a range, and whether anybody has written there.
//!
//! A range that was read is one object, however many records it holds. Every writer looks whether
//! its structure is watched twice: under the locks of its records, before its append to the log,
//! and after its changes, before it leaves the gate. So whoever has validated a range knows of every
//! write that is in the log before, and whoever has read a range before a change of it was there is
//! told of the change.
//!
//! Invariants: marks only rise. A watch is registered before the first record of its range is read,
//! with a fence between the two; a writer has a fence between its changes and the second look. So one
//! of them sees the other. What has to be waited for beside that is [`terrace_pages::PageStore::grace`].

use std::sync::Arc;

use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::fault::{Fault, Point, planted, reached};

/// Ranges of one structure that are watched at most; who comes later shares one over all of it. A
/// writer compares its key with each of them.
const MOST_WATCHES: usize = 64;

/// A range of positions that somebody watches, and how often somebody has written there.
#[derive(Debug)]
pub struct Watch {
    low: Vec<u8>,
    /// First position behind it; none at the end.
    high: Option<Vec<u8>>,
    marks: AtomicU64,
}

impl Watch {
    /// How often a key of the range was written since the range is watched. A number by itself means
    /// nothing: compare it with the one of before.
    #[inline]
    pub fn marks(&self) -> u64 {
        self.marks.load(Ordering::Acquire)
    }

    /// The positions that it covers: the lowest one, and the first one behind it; none at the end.
    pub fn bounds(&self) -> (&[u8], Option<&[u8]>) {
        (&self.low, self.high.as_deref())
    }

    /// Whether the range holds this position.
    fn holds(&self, position: &[u8]) -> bool {
        self.low.as_slice() <= position && self.high.as_ref().is_none_or(|high| position < high)
    }
}

/// The watched ranges of one structure.
#[derive(Default)]
pub struct Watches {
    /// How many there are; what a write looks at.
    count: AtomicU32,
    /// In the order of their first positions.
    list: Mutex<Vec<Watched>>,
}

struct Watched {
    watch: Arc<Watch>,
    /// How many share it.
    users: u32,
    /// Whether it is the one that late comers share.
    shared: bool,
    /// Of all up to this one, which ends last.
    last: usize,
}

/// Notes of each watch which of those up to it ends last.
fn note_ends(list: &mut [Watched]) {
    let mut last = 0;
    for i in 0..list.len() {
        let (it, so_far) = (&list[i].watch.high, &list[last].watch.high);
        let is_later = match (it, so_far) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(it), Some(so_far)) => it > so_far,
        };
        if is_later {
            last = i;
        }
        list[i].last = last;
    }
}

impl Watches {
    /// Watches the positions from `low` to before `high`. Call it before anything of the range is read,
    /// and [`Watches::remove`] in the end. The second part of the answer is the marks that it had.
    pub fn add(&self, low: &[u8], high: Option<&[u8]>) -> (Arc<Watch>, u64) {
        let mut list = self.list.lock();
        let full = list.len() >= MOST_WATCHES;
        let common = list.iter_mut().find(|watched| watched.shared && full);
        let (watch, marks) = match common {
            Some(watched) => {
                watched.users += 1;
                (watched.watch.clone(), watched.watch.marks())
            }
            None => {
                let shared = list.len() + 1 >= MOST_WATCHES;
                let watch = Arc::new(Watch {
                    low: if shared { Vec::new() } else { low.to_vec() },
                    high: if shared {
                        None
                    } else {
                        high.map(<[u8]>::to_vec)
                    },
                    marks: AtomicU64::new(0),
                });
                let watched = Watched {
                    watch: watch.clone(),
                    users: 1,
                    shared,
                    last: 0,
                };
                let at = list.partition_point(|before| before.watch.low <= watch.low);
                list.insert(at, watched);
                note_ends(&mut list);
                (watch, 0)
            }
        };
        self.count.store(list.len() as u32, Ordering::SeqCst);
        drop(list);
        // Between this and the first look at a record: see the module's text.
        fence(Ordering::SeqCst);
        (watch, marks)
    }

    /// Ends a watch.
    pub fn remove(&self, watch: &Arc<Watch>) {
        let mut list = self.list.lock();
        if let Some(i) = list.iter().position(|w| Arc::ptr_eq(&w.watch, watch)) {
            list[i].users -= 1;
            if list[i].users == 0 {
                list.remove(i);
                note_ends(&mut list);
            }
        }
        self.count.store(list.len() as u32, Ordering::SeqCst);
    }

    /// Whether anything is watched. The first look of a writer, under the locks of its records.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether anything is watched, after the changes were made. The second look of a writer, before it
    /// leaves the gate. Without the fence it is not ordered behind the changes.
    #[inline]
    pub fn is_watched_still(&self) -> bool {
        fence(Ordering::SeqCst);
        self.is_watched()
    }

    /// Tells those who watch this position that it is written, and `told` each watch that was marked.
    /// O(log watches), and those that begin at or before the position as far as one of them ends behind it.
    #[cold]
    pub fn mark(&self, position: &[u8], mut told: impl FnMut(&Arc<Watch>)) {
        let list = self.list.lock();
        let begun = list.partition_point(|watched| watched.watch.low.as_slice() <= position);
        for watched in list[..begun].iter().rev() {
            if watched.watch.holds(position) {
                watched.watch.marks.fetch_add(1, Ordering::AcqRel);
                told(&watched.watch);
            } else if !list[watched.last].watch.holds(position) {
                // Nor does any of those before it end behind the position.
                break;
            }
        }
    }

    /// The first look of a writer of one record.
    #[inline]
    pub(crate) fn before(&self, position: &[u8]) {
        if self.is_watched() && !planted(Fault::NoMarkBefore) {
            self.mark(position, |_| ());
        }
        reached(Point::Told);
    }

    /// The second look of a writer of one record.
    #[inline]
    pub(crate) fn after(&self, position: &[u8]) {
        if self.is_watched_still() && !planted(Fault::NoMarkAfter) {
            self.mark(position, |_| ());
        }
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn who_writes_in_a_range_marks_it_and_nobody_else() {
        let watches = Watches::default();
        assert!(!watches.is_watched());
        let (a, none) = watches.add(b"b", Some(b"d"));
        let (b, _) = watches.add(b"c", None);
        assert!(watches.is_watched_still());
        assert_eq!((none, a.marks(), b.marks()), (0, 0, 0));
        for key in [b"a", b"b", b"c", b"d"] {
            watches.before(key);
        }
        assert_eq!((a.marks(), b.marks()), (2, 2));
        watches.remove(&a);
        watches.after(b"c");
        assert_eq!((a.marks(), b.marks()), (2, 3));
        watches.remove(&b);
        assert!(!watches.is_watched());
    }

    #[test]
    fn whoever_holds_a_position_is_told_however_the_others_lie() {
        // All ranges between eight letters, added and removed in some order, against a look at each.
        let all: Vec<(u8, Option<u8>)> = (0..8u8)
            .flat_map(|low| (low + 1..9).map(move |high| (low, (high < 8).then_some(high))))
            .collect();
        let watches = Watches::default();
        let mut open: Vec<(Arc<Watch>, u64)> = Vec::new();
        let mut state = 7u64;
        for round in 0..2000 {
            state = state.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(1);
            let pick = (state >> 33) as usize;
            if open.len() > 20 || (pick.is_multiple_of(3) && !open.is_empty()) {
                watches.remove(&open.swap_remove(pick % open.len()).0);
            } else {
                let (low, high) = all[pick % all.len()];
                let high = high.map(|high| [high]);
                open.push(watches.add(&[low], high.as_ref().map(|high| &high[..])));
            }
            let position = [(pick >> 8) as u8 % 9];
            watches.mark(&position, |_| ());
            for (watch, marks) in &mut open {
                *marks += u64::from(watch.holds(&position));
                assert_eq!(watch.marks(), *marks, "round {round}: {watch:?}");
            }
        }
    }

    #[test]
    fn the_last_of_many_share_one_over_everything() {
        let watches = Watches::default();
        let all: Vec<_> = (0..100u8)
            .map(|i| watches.add(&[i], Some(&[i, 0])).0)
            .collect();
        watches.before(&[3]);
        assert_eq!(all[3].marks(), 1);
        assert!(Arc::ptr_eq(&all[70], &all[99]));
        assert_eq!(all[99].marks(), 1);
        let (late, seen) = watches.add(&[200], None);
        assert_eq!(seen, 1);
        watches.before(&[4]);
        assert_eq!(late.marks(), 2);
        // Once there is room again a range has a watch of its own.
        all[..10].iter().for_each(|watch| watches.remove(watch));
        let (own, _) = watches.add(&[210], Some(&[211]));
        assert_eq!(own.bounds(), (&[210][..], Some(&[211][..])));
        watches.remove(&own);
        all[10..]
            .iter()
            .chain([&late])
            .for_each(|watch| watches.remove(watch));
        assert!(!watches.is_watched());
    }
}
