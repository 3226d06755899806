//! Space in a part of a file that many threads take, each with one addition, and fill at the same time.
//!
//! Invariants:
//! - Pieces lie one behind the other in the order in which they were taken, and each is its taker's alone.
//! - The part of the file stays where it is until all pieces that were taken are done; it is lost, and stays for
//!   as long as the lane, if one of them never will be.
//! - All that every taker changes is one line of the cache: what was promised, what was taken, what is done.

use std::cell::UnsafeCell;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Mutex, MutexGuard, pause};
use crate::window::Part;

/// Every piece uses up at least this many bytes of what was promised. So a word of bits for each 64 pieces is enough.
pub const LEAST_SPACE: usize = 128;

/// Words of bits that say which pieces are done: what is left of a line of the cache.
const WORDS: usize = 6;

/// Most bytes that a lane can promise, and most that it can take.
pub const MOST_SPACE: usize = WORDS * 64 * LEAST_SPACE;

/// Of the word of what was taken: 24 bits of bytes, 20 of space used up, then the pieces. What is promised bounds
/// them all, far below.
const USED: u32 = 24;
const PIECES: u32 = 44;
/// And the mark that nothing more can be taken. What is added to a word with it counts for nothing.
const SHUT: u64 = 1 << 62;

/// Promises count up to here; an opening begins below by as much as it can promise.
const FULL: u64 = 1 << 32;

/// What was taken of a lane.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Taken {
    /// Bytes of the file.
    pub bytes: u64,
    /// Of what was promised.
    pub used: u64,
    /// How many pieces.
    pub pieces: u64,
}

impl Taken {
    fn of(word: u64) -> Taken {
        Taken {
            bytes: word & ((1 << USED) - 1),
            used: word >> USED & ((1 << (PIECES - USED)) - 1),
            pieces: (word & (SHUT - 1)) >> PIECES,
        }
    }

    fn word(bytes: usize, used: usize) -> u64 {
        bytes as u64 | (used as u64) << USED | 1 << PIECES
    }

    /// Whether one more piece is what a lane can have taken.
    fn has_room(&self, bytes: usize, used: usize) -> bool {
        let most = MOST_SPACE as u64;
        self.bytes + bytes as u64 <= most
            && self.used + used as u64 <= most
            && self.pieces < (WORDS * 64) as u64
    }
}

/// What became of a promise.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Promised {
    /// It is made.
    Made,
    /// There is less than that left, but it was counted: who closes the lane finds it among what was promised.
    Counted,
    /// The lane is shut.
    Shut,
}

/// What a lane has come to.
pub struct Closed<T> {
    /// What was taken.
    pub taken: Taken,
    /// What was promised, used up or not.
    pub promised: u64,
    /// The part of the file, and what was said of it; `None` if a piece of it will never be done.
    pub rest: Option<(Part, T)>,
}

/// Space that is taken in order and filled at once. `T` is what its owner says about an opening.
pub struct Lane<T> {
    opening: Opening<T>,
    line: Line,
    control: Mutex<Control>,
}

/// What all read and who opens or closes it changes.
#[repr(align(64))]
struct Opening<T> {
    /// Whether it is worth trying. Who asks a lane that is shut adds nothing to its line.
    is_open: AtomicBool,
    /// A piece was dropped that is not done.
    is_broken: AtomicBool,
    held: UnsafeCell<Option<Held<T>>>,
}

struct Held<T> {
    part: Part,
    /// Where in the file the first piece lies.
    start: u64,
    about: T,
}

#[repr(align(64))]
struct Line {
    promised: AtomicU64,
    taken: AtomicU64,
    done: [AtomicU64; WORDS],
}

#[derive(Default)]
struct Control {
    is_open: bool,
    /// A piece will never be done, or it is not known whether it will be: never opened again.
    is_lost: bool,
    /// Where promises began.
    began: u64,
}

// SAFETY: `held` is changed by `open` and `close` alone, one at a time (`control`), and only while the lane is shut
// and all pieces of the opening before are done; it is read by pieces that are not done. So a change and a read of it
// never meet: `open` publishes it with the word of what was taken, whose value each piece has read with acquire, and
// `close` has read with acquire the bits that all pieces have set with release. A part is shared by all threads that
// hold pieces (`Part: Send + Sync`), and so is `T`; both are handed from thread to thread.
unsafe impl<T: Send + Sync> Sync for Lane<T> {}
// SAFETY: it owns what is in it, and nothing of it belongs to a thread.
unsafe impl<T: Send> Send for Lane<T> {}

const _: fn() = || {
    fn is_for_all_threads<T: Send + Sync>() {}
    is_for_all_threads::<Part>();
};

impl<T> Default for Lane<T> {
    fn default() -> Lane<T> {
        Lane {
            opening: Opening {
                is_open: AtomicBool::new(false),
                is_broken: AtomicBool::new(false),
                held: UnsafeCell::new(None),
            },
            line: Line {
                promised: AtomicU64::new(SHUT),
                taken: AtomicU64::new(SHUT),
                done: std::array::from_fn(|_| AtomicU64::new(0)),
            },
            control: Mutex::default(),
        }
    }
}

impl<T> Lane<T> {
    /// Opens it at the offset `start` of the file of `part`: promises of `space` bytes together can be made, at most
    /// [`MOST_SPACE`].
    ///
    /// # Errors
    /// The part and what was said about it, when it cannot be opened.
    pub fn open(&self, part: Part, start: u64, about: T, space: u64) -> Result<(), (Part, T)> {
        let mut control = self.control.lock();
        if control.is_open || control.is_lost || space > MOST_SPACE as u64 {
            return Err((part, about));
        }
        let held = Held { part, start, about };
        // SAFETY: the lane is shut, and `close` has seen all pieces done, or there never was one; so no thread reads
        // it. No other thread writes it, because `control` is held.
        unsafe { *self.opening.held.get() = Some(held) };
        for word in &self.line.done {
            word.store(0, Ordering::Release);
        }
        control.is_open = true;
        control.began = FULL - space;
        self.line.taken.store(0, Ordering::Release);
        self.line.promised.store(control.began, Ordering::Release);
        self.opening.is_open.store(true, Ordering::Release);
        Ok(())
    }

    /// Promises `space` bytes of it.
    #[inline]
    pub fn promise(&self, space: usize) -> Promised {
        if !self.opening.is_open.load(Ordering::Relaxed) {
            return Promised::Shut;
        }
        let before = self
            .line
            .promised
            .fetch_add(space as u64, Ordering::Relaxed);
        if before >= SHUT {
            Promised::Shut
        } else if before + space as u64 <= FULL {
            Promised::Made
        } else {
            Promised::Counted
        }
    }

    /// Takes the next `bytes` bytes, for which `space` bytes were promised, [`LEAST_SPACE`] at least; `None` if the
    /// lane is shut. Neither fails nor waits.
    #[inline]
    pub fn take(&self, bytes: usize, space: usize) -> Option<Piece<'_, T>> {
        if !self.opening.is_open.load(Ordering::Relaxed) || bytes.max(space) > MOST_SPACE {
            return None;
        }
        let word = Taken::word(bytes, space);
        let before = self.line.taken.fetch_add(word, Ordering::AcqRel);
        if before & SHUT != 0 {
            return None;
        }
        self.piece(Taken::of(before), bytes, space)
    }

    fn piece(&self, before: Taken, bytes: usize, space: usize) -> Option<Piece<'_, T>> {
        if !before.has_room(bytes, space) {
            // More than was promised. It has its place all the same, and nothing will ever be there.
            self.opening.is_broken.store(true, Ordering::Release);
            self.opening.is_open.store(false, Ordering::Release);
            self.line.taken.fetch_or(SHUT, Ordering::AcqRel);
            return None;
        }
        Some(Piece {
            lane: self,
            at: before.bytes,
            bytes,
            number: before.pieces as usize,
        })
    }

    /// What has been taken so far; `None` if it is shut.
    pub fn taken(&self) -> Option<Taken> {
        let word = self.line.taken.load(Ordering::Acquire);
        (word & SHUT == 0).then(|| Taken::of(word))
    }

    /// Whether the first `pieces` pieces are done. Once it is closed, after `true`: they are; after it is opened again
    /// this speaks of other ones.
    #[inline]
    pub fn are_done(&self, pieces: usize) -> bool {
        let (whole, rest) = (pieces / 64, pieces % 64);
        let mut words = self.line.done.iter();
        let all = |word: &AtomicU64| word.load(Ordering::Acquire) == u64::MAX;
        words.by_ref().take(whole).all(all)
            && (rest == 0
                || words.next().is_some_and(|word| {
                    let mask = (1 << rest) - 1;
                    word.load(Ordering::Acquire) & mask == mask
                }))
    }

    /// Keeps others from taking anything until the answer is dropped; `None` if it is shut.
    pub fn freeze(&self) -> Option<Frozen<'_, T>> {
        let control = self.control.lock();
        if !control.is_open {
            return None;
        }
        let word = self.line.taken.swap(SHUT, Ordering::AcqRel);
        Some(Frozen {
            lane: self,
            word,
            _control: control,
        })
    }

    /// Shuts it, and waits until all that was taken is done: for as long as copying takes, and whatever keeps those
    /// threads from the processor. `None` if it is shut.
    pub fn close(&self) -> Option<Closed<T>> {
        let mut control = self.control.lock();
        let (taken, promised) = self.shut(&mut control)?;
        let mut round = 0;
        while !self.are_done(taken.pieces as usize) {
            if self.opening.is_broken.load(Ordering::Acquire) {
                control.is_lost = true;
                break;
            }
            pause(round);
            round += 1;
        }
        let rest = match control.is_lost {
            true => None,
            // SAFETY: the lane is shut, and all pieces were seen done with acquire, so no thread reads it any more.
            // `control` is held, so no other thread writes it.
            false => unsafe { (*self.opening.held.get()).take() },
        };
        Some(Closed {
            taken,
            promised,
            rest: rest.map(|held| (held.part, held.about)),
        })
    }

    /// Shuts it for good, without waiting for what is taken. `None` if it is shut.
    pub fn give_up(&self) -> Option<Closed<T>> {
        let mut control = self.control.lock();
        control.is_lost = true;
        let (taken, promised) = self.shut(&mut control)?;
        Some(Closed {
            taken,
            promised,
            rest: None,
        })
    }

    fn shut(&self, control: &mut Control) -> Option<(Taken, u64)> {
        if !std::mem::take(&mut control.is_open) {
            return None;
        }
        self.opening.is_open.store(false, Ordering::Release);
        let promised = self.line.promised.swap(SHUT, Ordering::AcqRel);
        let taken = self.line.taken.swap(SHUT, Ordering::AcqRel);
        Some((Taken::of(taken), promised - control.began))
    }
}

/// A lane of which no other thread takes anything.
pub struct Frozen<'l, T> {
    lane: &'l Lane<T>,
    word: u64,
    _control: MutexGuard<'l, Control>,
}

impl<'l, T> Frozen<'l, T> {
    /// Does what [`Lane::take`] does, and lets others go on; `None` if that is more than was promised.
    pub fn take(mut self, bytes: usize, space: usize) -> Option<Piece<'l, T>> {
        let before = Taken::of(self.word);
        if self.word & SHUT != 0 || !before.has_room(bytes, space) {
            return None;
        }
        self.word += Taken::word(bytes, space);
        self.lane.piece(before, bytes, space)
    }
}

impl<T> Drop for Frozen<'_, T> {
    fn drop(&mut self) {
        // What others have added meanwhile counts for nothing.
        self.lane.line.taken.store(self.word, Ordering::Release);
    }
}

/// Bytes of a lane that no other piece has.
pub struct Piece<'l, T> {
    lane: &'l Lane<T>,
    at: u64,
    bytes: usize,
    number: usize,
}

impl<T> Piece<'_, T> {
    fn held(&self) -> Option<&Held<T>> {
        // SAFETY: this piece is not done, so no thread changes it (see `Sync`), and the opening that it is of was seen
        // with acquire when it was taken.
        unsafe { (*self.lane.opening.held.get()).as_ref() }
    }

    /// What was said when the lane was opened.
    pub fn about(&self) -> Option<&T> {
        self.held().map(|held| &held.about)
    }

    /// Where it begins, from where the lane does.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// How many were taken before it.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Fills it with exactly these bytes, and says that it is done. `false`, and it never will be, if they have
    /// another length, or do not lie in the part of the file: then more was taken than was promised.
    pub fn fill(self, bytes: &[u8]) -> bool {
        let written = bytes.len() == self.bytes
            && self.held().is_some_and(|held| {
                // SAFETY: no other thread writes these bytes: each piece has bytes of its own, for what was taken never
                // goes back while the lane is open, nor past the bits of its field (`has_room`: who finds it half as
                // far shuts the lane), and nothing but pieces writes through a part that a lane holds.
                unsafe { held.part.write(bytes, held.start + self.at) }
            });
        if let (true, Some(word)) = (written, self.lane.line.done.get(self.number / 64)) {
            word.fetch_or(1 << (self.number % 64), Ordering::AcqRel);
            std::mem::forget(self);
            return true;
        }
        false
    }
}

impl<T> Drop for Piece<'_, T> {
    fn drop(&mut self) {
        self.lane.opening.is_broken.store(true, Ordering::Release);
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;

    use super::*;
    use crate::window::FilePart;

    /// A part of a file that is only bytes.
    struct Bytes(Mutex<Vec<u8>>);

    impl FilePart for Bytes {
        fn range(&self) -> Range<u64> {
            100..100 + self.0.lock().len() as u64
        }

        fn write(&self, bytes: &[u8], offset: u64) -> bool {
            let mut all = self.0.lock();
            let at = offset as usize - 100;
            let target = all.get_mut(at..at + bytes.len());
            target.is_some_and(|target| {
                target.copy_from_slice(bytes);
                true
            })
        }
    }

    fn opened(len: usize, space: u64) -> (Lane<u8>, Arc<Bytes>) {
        let bytes = Arc::new(Bytes(Mutex::new(vec![0; len])));
        let lane = Lane::default();
        assert!(lane.open(Part::other(bytes.clone()), 100, 7, space).is_ok());
        (lane, bytes)
    }

    #[test]
    fn what_many_take_is_filled_in_the_order_in_which_it_was_taken() {
        let (lane, bytes) = opened(384 * 16, MOST_SPACE as u64);
        let mut taken: Vec<(usize, u64, u8)> = std::thread::scope(|scope| {
            let take = |thread: u8| {
                let mut mine = Vec::new();
                while lane.promise(LEAST_SPACE) == Promised::Made {
                    let len = 1 + mine.len() % 16;
                    let piece = lane.take(len, LEAST_SPACE).expect("it was promised");
                    assert_eq!(piece.about(), Some(&7));
                    mine.push((piece.number(), piece.at(), thread));
                    assert!(piece.fill(&vec![thread; len]));
                }
                mine
            };
            let threads = [1, 2, 3].map(|thread| scope.spawn(move || take(thread)));
            threads
                .into_iter()
                .flat_map(|t| t.join().unwrap())
                .collect()
        });
        taken.sort_unstable();
        assert_eq!(taken.len(), 384);
        assert!(lane.are_done(384));
        let closed = lane.close().unwrap();
        assert!(closed.rest.is_some_and(|(_, about)| about == 7));
        assert_eq!(closed.taken.pieces, 384);
        assert_eq!(closed.taken.used, MOST_SPACE as u64);
        let all = bytes.0.lock();
        let ends = taken.iter().skip(1).map(|next| next.1);
        let ends = ends.chain([closed.taken.bytes]);
        for ((_, at, thread), end) in taken.iter().zip(ends) {
            assert!(all[*at as usize..end as usize].iter().all(|b| b == thread));
        }
    }

    #[test]
    fn what_is_promised_and_not_taken_is_known_when_it_is_closed() {
        let (lane, _) = opened(4096, 1000);
        assert_eq!(lane.promise(400), Promised::Made);
        assert_eq!(lane.promise(600), Promised::Made);
        assert_eq!(lane.promise(200), Promised::Counted);
        assert!(lane.take(10, 400).unwrap().fill(&[1; 10]));
        assert_eq!(lane.taken().unwrap().bytes, 10);
        let closed = lane.close().unwrap();
        assert_eq!((closed.promised, closed.taken.used), (1200, 400));
        assert_eq!(lane.promise(1), Promised::Shut);
        assert!(lane.take(10, 600).is_none() && lane.taken().is_none());
        let (part, about) = closed.rest.unwrap();
        assert!(lane.close().is_none());
        assert!(lane.open(part, 100, about, 500).is_ok());
        assert!(!lane.are_done(1), "that was before");
        assert_eq!(lane.promise(501), Promised::Counted);
    }

    #[test]
    fn the_first_pieces_are_done_when_each_of_them_is() {
        let (lane, _) = opened(4096, MOST_SPACE as u64);
        let mut pieces: Vec<_> = (0..130).map(|_| lane.take(1, 128).unwrap()).collect();
        let first = pieces.remove(0);
        let middle = pieces.remove(69);
        assert!(pieces.into_iter().all(|piece| piece.fill(&[1])));
        assert!(lane.are_done(0) && !lane.are_done(1) && !lane.are_done(64));
        assert!(first.fill(&[1]));
        assert!(lane.are_done(70) && !lane.are_done(71) && !lane.are_done(130));
        assert!(middle.fill(&[1]));
        assert!(lane.are_done(130) && !lane.are_done(131));
    }

    #[test]
    fn while_it_is_frozen_nobody_takes_anything() {
        let (lane, bytes) = opened(4096, 4096);
        assert!(lane.take(3, 128).unwrap().fill(&[1; 3]));
        let frozen = lane.freeze().unwrap();
        assert!(lane.take(4, 128).is_none() && lane.taken().is_none());
        assert!(frozen.take(2, 128).unwrap().fill(&[2; 2]));
        drop(lane.freeze());
        assert!(lane.take(1, 128).unwrap().fill(&[3]));
        let taken = lane.close().unwrap().taken;
        assert_eq!((taken.bytes, taken.pieces), (6, 3));
        assert_eq!(bytes.0.lock()[..7], [1, 1, 1, 2, 2, 3, 0]);
        assert!(lane.freeze().is_none());
    }

    #[test]
    fn a_piece_that_will_never_be_done_keeps_nobody_waiting() {
        let faults: [fn(&Lane<u8>); 5] = [
            |lane| drop(lane.take(5, 128)),
            |lane| assert!(!lane.take(5, 128).unwrap().fill(&[1; 4])),
            // Behind the end of the part.
            |lane| assert!(!lane.take(5000, 128).unwrap().fill(&[1; 5000])),
            // More than can have been promised.
            |lane| assert!((0..385).any(|_| lane.take(1, 128).is_none_or(|p| !p.fill(&[1])))),
            |lane| assert!((0..3).any(|_| lane.take(1, 20_000).is_none_or(|p| !p.fill(&[1])))),
        ];
        for fault in faults {
            let (lane, _) = opened(4096, 4096);
            fault(&lane);
            assert!(lane.close().unwrap().rest.is_none());
            let part = Part::other(Arc::new(Bytes(Mutex::new(vec![0; 100]))));
            assert!(lane.open(part, 100, 7, 1000).is_err(), "it is lost");
        }
        let (lane, _) = opened(4096, 4096);
        let piece = lane.take(5, 128).unwrap();
        assert!(lane.give_up().unwrap().rest.is_none());
        assert!(piece.fill(&[1; 5]) && lane.are_done(1));
        assert!(lane.take(5, 128).is_none());
    }
}
