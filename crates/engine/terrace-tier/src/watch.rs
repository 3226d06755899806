//! Watched ranges and records: what a transaction has read, and whether any writer has written there.
//!
//! A range that was read is one object, however many records it holds, and so are many single records. Every
//! writer looks whether its structure is watched: inside the gate, under the locks of its records, before its
//! append to the log. So whoever has validated a range knows of every write that is in the log before, and
//! whoever sees a change has been told of it before.
//!
//! Invariants: marks only rise. Who has registered a watch waits for a grace
//! ([`terrace_pages::PageStore::grace`]) before anything of it is read: whoever was inside the gate, and may
//! have looked too early, has left it by then, and whoever comes in later sees the watch. A key is added to a
//! watch before its record is read, with a fence between the two; a writer has a fence between its locks and
//! its look. So one of them sees the other.

use std::sync::Arc;

use terrace_base::checksum;
use terrace_base::sync::Mutex;
use terrace_base::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

use crate::fault::{Fault, Point, planted, reached};
use crate::write_reservation::WriteReservation;

/// Ranges of one structure that are watched at most; who comes later shares one over all of it. A
/// writer compares its key with each of them.
const MOST_WATCHES: usize = 64;
/// Bits of a set of keys, of which each key has two. Of 4,096 keys, the most that a transaction looks at one by
/// one, one foreign key in seventy counts as one of them; that costs a look, and never an answer.
const KEY_BITS: u64 = 1 << 16;

/// A range of positions that is watched, or some keys of it, and how often writers have written there.
#[derive(Debug)]
pub struct Watch {
    low: Vec<u8>,
    /// First position behind it; none at the end.
    high: Option<Vec<u8>>,
    /// The keys that count; none if all do.
    only: Option<Keys>,
    /// What holds those up who are to write there.
    claim: Option<Arc<WriteReservation>>,
    marks: AtomicU64,
}

/// A set of keys that may say of others that they are in it.
#[derive(Debug)]
struct Keys(Box<[AtomicU64]>);

impl Keys {
    fn none() -> Keys {
        Keys((0..KEY_BITS / 64).map(|_| AtomicU64::new(0)).collect())
    }

    fn bits(key: &[u8]) -> [usize; 2] {
        let hash = checksum::seeded(0x57A7, key);
        [hash, hash >> 32].map(|part| (part % KEY_BITS) as usize)
    }

    fn has(&self, key: &[u8]) -> bool {
        let is_set = |bit: usize| self.0[bit / 64].load(Ordering::Relaxed) >> (bit % 64) & 1 == 1;
        Keys::bits(key).into_iter().all(is_set)
    }

    fn add(&self, key: &[u8]) {
        for bit in Keys::bits(key) {
            self.0[bit / 64].fetch_or(1 << (bit % 64), Ordering::Relaxed);
        }
        // Between this and the look at the record's lock: see the module's text.
        fence(Ordering::SeqCst);
    }
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

    /// From now on writes of this key count, if not all of the range do. Call it before the record is read.
    #[inline]
    pub fn add_key(&self, key: &[u8]) {
        if let Some(only) = &self.only {
            only.add(key);
        }
    }

    /// Whether the range holds this position, and it counts.
    fn holds(&self, position: &[u8]) -> bool {
        self.spans(position) && self.only.as_ref().is_none_or(|only| only.has(position))
    }

    fn spans(&self, position: &[u8]) -> bool {
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
    /// Watches the positions from `low` to before `high`. Call it, and wait for a grace, before anything of the
    /// range is read, and [`Watches::remove`] in the end. The second part of the answer is the marks that it had.
    ///
    /// With a claim, who is to write there waits for that before. There are few of these at a time.
    pub fn add(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        claim: Option<&Arc<WriteReservation>>,
    ) -> (Arc<Watch>, u64) {
        self.register(low, high, false, claim)
    }

    /// As [`Watches::add`], of the keys that [`Watch::add_key`] is told. It may be one over everything.
    pub fn add_keys(&self, claim: Option<&Arc<WriteReservation>>) -> (Arc<Watch>, u64) {
        self.register(&[], None, true, claim)
    }

    fn register(
        &self,
        low: &[u8],
        high: Option<&[u8]>,
        keys: bool,
        claim: Option<&Arc<WriteReservation>>,
    ) -> (Arc<Watch>, u64) {
        let mut list = self.list.lock();
        let full = list.len() >= MOST_WATCHES && claim.is_none();
        let common = list.iter_mut().find(|watched| watched.shared && full);
        let (watch, marks) = match common {
            Some(watched) => {
                watched.users += 1;
                (watched.watch.clone(), watched.watch.marks())
            }
            None => {
                let shared = list.len() + 1 >= MOST_WATCHES && claim.is_none();
                let watch = Arc::new(Watch {
                    low: if shared { Vec::new() } else { low.to_vec() },
                    high: if shared {
                        None
                    } else {
                        high.map(<[u8]>::to_vec)
                    },
                    only: (keys && !shared).then(Keys::none),
                    claim: claim.cloned(),
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

    /// Whether anything is watched: the look of a writer, inside the gate, under the locks of its records.
    #[inline]
    pub fn is_watched(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Tells those who watch this position that it is written, and `told` each watch that was marked.
    /// O(log watches), and those that begin at or before the position as far as one of them ends behind it.
    #[cold]
    pub fn mark(&self, position: &[u8], mut told: impl FnMut(&Arc<Watch>)) {
        // Between the locks and the look at the keys: see the module's text.
        fence(Ordering::SeqCst);
        let list = self.list.lock();
        let begun = list.partition_point(|watched| watched.watch.low.as_slice() <= position);
        for watched in list[..begun].iter().rev() {
            if watched.watch.holds(position) {
                watched.watch.marks.fetch_add(1, Ordering::AcqRel);
                told(&watched.watch);
            } else if !list[watched.last].watch.spans(position) {
                // Nor does any of those before it end behind the position.
                break;
            }
        }
    }

    /// What holds this thread up, which is to change all of this range, if anything does that is not its own; or else
    /// every thread that watches a part of it is told, and `told` each watch that was marked. O(watches).
    pub fn before_range(
        &self,
        (low, high): (&[u8], Option<&[u8]>),
        is_own: impl Fn(&Arc<WriteReservation>) -> bool,
        mut told: impl FnMut(&Arc<Watch>),
    ) -> Option<Arc<WriteReservation>> {
        fence(Ordering::SeqCst);
        let list = self.list.lock();
        let overlaps = |watch: &Watch| {
            high.is_none_or(|high| watch.low.as_slice() < high)
                && watch.high.as_deref().is_none_or(|end| low < end)
        };
        let met = || {
            list.iter()
                .map(|watched| &watched.watch)
                .filter(|watch| overlaps(watch))
        };
        let mut claims = met().filter_map(|watch| watch.claim.as_ref());
        if let Some(claim) = claims.find(|claim| claim.holds_up() && !is_own(claim)) {
            return Some(claim.clone());
        }
        for watch in met() {
            watch.marks.fetch_add(1, Ordering::AcqRel);
            told(watch);
        }
        None
    }

    /// What holds this thread up, which is to write there, if anything does. O(watches).
    #[cold]
    pub fn claim_on(&self, position: &[u8]) -> Option<Arc<WriteReservation>> {
        fence(Ordering::SeqCst);
        let list = self.list.lock();
        let mut claimed = list.iter().filter_map(|watched| {
            let claim = watched.watch.claim.as_ref()?;
            watched.watch.holds(position).then_some(claim)
        });
        claimed.find(|claim| claim.holds_up()).cloned()
    }

    /// The look of a writer of one record. With a claim no thread was told, and the writer is to wait for that.
    #[inline]
    pub(crate) fn before(&self, position: &[u8]) -> Option<Arc<WriteReservation>> {
        if self.is_watched() && !planted(Fault::NoMarkBefore) {
            if let Some(claim) = self.claim_on(position) {
                return Some(claim);
            }
            self.mark(position, |_| ());
        }
        reached(Point::Told);
        None
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn who_writes_in_a_range_marks_it_and_nobody_else() {
        let watches = Watches::default();
        assert!(!watches.is_watched());
        let (a, none) = watches.add(b"b", Some(b"d"), None);
        let (b, _) = watches.add(b"c", None, None);
        assert!(watches.is_watched());
        assert_eq!((none, a.marks(), b.marks()), (0, 0, 0));
        for key in [b"a", b"b", b"c", b"d"] {
            assert!(watches.before(key).is_none());
        }
        assert_eq!((a.marks(), b.marks()), (2, 2));
        watches.remove(&a);
        assert!(watches.before(b"c").is_none());
        assert_eq!((a.marks(), b.marks()), (2, 3));
        watches.remove(&b);
        assert!(!watches.is_watched());
    }

    #[test]
    fn who_changes_a_range_tells_those_that_it_meets() {
        let watches = Watches::default();
        let (a, _) = watches.add(b"b", Some(b"d"), None);
        let (b, _) = watches.add(b"f", None, None);
        let (keys, _) = watches.add_keys(None);
        let before_range = |low: &[u8], high: Option<&[u8]>| {
            let mut told = 0;
            let met = watches.before_range((low, high), |_| false, |_| told += 1);
            (met.is_some(), told)
        };
        assert_eq!(before_range(b"d", Some(b"f")), (false, 1));
        assert_eq!((a.marks(), b.marks(), keys.marks()), (0, 0, 1));
        assert_eq!(before_range(b"c", Some(b"e")), (false, 2));
        assert_eq!(before_range(b"x", None), (false, 2));
        assert_eq!((a.marks(), b.marks(), keys.marks()), (1, 1, 3));
        let claim = WriteReservation::new(std::time::Duration::from_secs(600));
        let (claimed, _) = watches.add(b"p", Some(b"q"), Some(&claim));
        let met = std::thread::scope(|scope| {
            let met = |low: &'static [u8]| before_range(low, Some(b"r")).0;
            scope.spawn(move || [met(b"a"), met(b"q")]).join().unwrap()
        });
        assert_eq!(met, [true, false]);
        [a, b, keys, claimed]
            .iter()
            .for_each(|watch| watches.remove(watch));
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
                open.push(watches.add(&[low], high.as_ref().map(|high| &high[..]), None));
            }
            let position = [(pick >> 8) as u8 % 9];
            watches.mark(&position, |_| ());
            for (watch, marks) in &mut open {
                *marks += u64::from(watch.holds(&position));
                assert_eq!(watch.marks(), *marks, "round {round}: {watch:?}");
            }
        }
    }

    /// A foreign key counts now and then; one that was added always does.
    #[test]
    fn of_watched_keys_no_write_goes_unseen() {
        let watches = Watches::default();
        let (range, _) = watches.add(b"b", Some(b"d"), None);
        let (keys, _) = watches.add_keys(None);
        assert!(watches.before(b"c").is_none());
        assert_eq!((range.marks(), keys.marks()), (1, 0));
        for n in 0..4096u32 {
            keys.add_key(&n.to_be_bytes());
        }
        let foreign = (4096..104_096u32).filter(|n| keys.holds(&n.to_be_bytes()));
        assert!(foreign.count() < 100_000 / 50);
        (0..4096u32).for_each(|n| assert!(watches.before(&n.to_be_bytes()).is_none()));
        assert_eq!((range.marks(), keys.marks()), (1, 4096));
        watches.remove(&keys);
        watches.remove(&range);
    }

    /// Other threads, of what is claimed, and until it is over.
    #[test]
    fn a_claim_holds_up_who_is_to_write_there() {
        let watches = Watches::default();
        let claim = WriteReservation::new(std::time::Duration::from_secs(600));
        let (range, _) = watches.add(b"b", Some(b"d"), Some(&claim));
        let (keys, _) = watches.add_keys(Some(&claim));
        keys.add_key(b"x");
        let other = || {
            let meets = |key: &[u8]| watches.before(key).is_some_and(|c| Arc::ptr_eq(&c, &claim));
            std::thread::scope(|scope| {
                let keys: [&[u8]; 4] = [b"a", b"c", b"x", b"y"];
                scope.spawn(move || keys.map(meets)).join().unwrap()
            })
        };
        assert!(watches.before(b"c").is_none());
        assert_eq!(range.marks(), 1);
        assert_eq!(other(), [false, true, true, false]);
        assert_eq!((range.marks(), keys.marks()), (1, 0));
        claim.end();
        assert_eq!(other(), [false; 4]);
        assert_eq!((range.marks(), keys.marks()), (2, 1));
        watches.remove(&range);
        watches.remove(&keys);
    }

    #[test]
    fn the_last_of_many_share_one_over_everything() {
        let watches = Watches::default();
        let all: Vec<_> = (0..100u8)
            .map(|i| watches.add(&[i], Some(&[i, 0]), None).0)
            .collect();
        assert!(watches.before(&[3]).is_none());
        assert_eq!(all[3].marks(), 1);
        assert!(Arc::ptr_eq(&all[70], &all[99]));
        assert_eq!(all[99].marks(), 1);
        let (late, seen) = watches.add(&[200], None, None);
        assert_eq!(seen, 1);
        assert!(watches.before(&[4]).is_none());
        assert_eq!(late.marks(), 2);
        // Once there is room again a range has a watch of its own.
        all[..10].iter().for_each(|watch| watches.remove(watch));
        let (own, _) = watches.add(&[210], Some(&[211]), None);
        assert_eq!(own.bounds(), (&[210][..], Some(&[211][..])));
        watches.remove(&own);
        all[10..]
            .iter()
            .chain([&late])
            .for_each(|watch| watches.remove(watch));
        assert!(!watches.is_watched());
    }
}
