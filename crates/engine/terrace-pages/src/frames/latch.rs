//! The latch of a frame: one 64-bit word with version, shared count, exclusive and waiter bits.
//!
//! Invariants: the version rises whenever an exclusive hold ends (and so on eviction too) and never
//! goes back; shared holders do not change it. An optimistic reader notes the version, reads, and
//! validates that it is the same and that no thread holds the latch exclusively.

#[cfg(not(feature = "shuttle"))]
use terrace_base::sync::atomic::AtomicU32;
use terrace_base::sync::atomic::{AtomicU64, Ordering, fence};
use terrace_base::sync::{spin_loop, yield_now};

const EXCLUSIVE: u64 = 1;
const WAITERS: u64 = 2;
const SHARED_ONE: u64 = 4;
/// 14 bits of shared count: more threads than any process has.
const SHARED_MASK: u64 = 0xFFFC;
const VERSION_ONE: u64 = 1 << 16;
const VERSION_MASK: u64 = !0xFFFF;

/// Rounds of spinning before a waiter parks: about the length of a page copy.
const SPINS: u32 = 64;

/// Ends of holds that a thread waited for, by the place of the latch: a thread that waits sleeps until the count
/// is another one. Threads that wait for several latches at a place are all woken, and look again. They
/// are numbers alone, so that what a process has here means nothing in its forked children.
#[cfg(not(feature = "shuttle"))]
static PLACES: [AtomicU32; 256] = [const { AtomicU32::new(0) }; 256];

/// A version as seen by an optimistic reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version(u64);

/// The latch word. 48 bits of version: at a hundred million changes a second of one page, it
/// wraps after a month without a validation in between, which no reader survives.
#[derive(Default)]
pub struct Latch {
    word: AtomicU64,
}

impl Version {
    /// A version that no latch ever has.
    pub(crate) const NEVER: Version = Version(u64::MAX);
}

impl Latch {
    /// A free latch.
    pub fn new() -> Latch {
        Latch {
            word: AtomicU64::new(0),
        }
    }

    /// The version, unless a thread holds the latch exclusively.
    #[inline]
    pub fn optimistic(&self) -> Option<Version> {
        let w = self.word.load(Ordering::Acquire);
        (w & EXCLUSIVE == 0).then_some(Version(w & VERSION_MASK))
    }

    /// Whether everything read since `version` was taken is sound.
    #[inline]
    pub fn validate(&self, version: Version) -> bool {
        fence(Ordering::Acquire);
        let w = self.word.load(Ordering::Relaxed);
        w & (VERSION_MASK | EXCLUSIVE) == version.0
    }

    /// The current version; meaningful to a holder (shared or exclusive).
    pub fn version(&self) -> Version {
        Version(self.word.load(Ordering::Acquire) & VERSION_MASK)
    }

    /// Takes the latch exclusively if it is free.
    #[inline]
    pub fn try_exclusive(&self) -> bool {
        let w = self.word.load(Ordering::Relaxed);
        w & (EXCLUSIVE | SHARED_MASK) == 0 && self.lock_from(w)
    }

    /// Takes the latch exclusively if the word is still `w`.
    #[inline]
    fn lock_from(&self, w: u64) -> bool {
        let taken = self
            .word
            .compare_exchange(w, w | EXCLUSIVE, Ordering::Acquire, Ordering::Relaxed)
            .is_ok();
        // Pairs with the fence in `validate`: an optimistic reader that saw a byte written under
        // this hold sees the hold, too.
        fence(Ordering::Release);
        taken
    }

    /// Takes the latch exclusively if nothing has changed since `version` and no thread holds it.
    #[inline]
    pub fn upgrade(&self, version: Version) -> bool {
        let w = self.word.load(Ordering::Relaxed);
        w & (EXCLUSIVE | SHARED_MASK) == 0 && w & VERSION_MASK == version.0 && self.lock_from(w)
    }

    /// Takes the latch shared unless it is held exclusively.
    #[inline]
    pub fn try_shared(&self) -> bool {
        let mut w = self.word.load(Ordering::Relaxed);
        while w & EXCLUSIVE == 0 && w & SHARED_MASK != SHARED_MASK {
            match self.word.compare_exchange_weak(
                w,
                w + SHARED_ONE,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return true,
                Err(now) => w = now,
            }
        }
        false
    }

    /// Takes the latch exclusively, waiting for its holders.
    #[cfg(test)]
    pub fn exclusive(&self) {
        self.exclusive_while(|| true);
    }

    /// Takes the latch exclusively, waiting for its holders, but only while `wanted`, which may be about anything that changes
    /// under the exclusive latch only; tells whether it has the latch.
    #[inline]
    pub fn exclusive_while(&self, wanted: impl Fn() -> bool) -> bool {
        self.try_exclusive() || self.acquire(Latch::try_exclusive, EXCLUSIVE | SHARED_MASK, &wanted)
    }

    /// Takes the latch shared, waiting for an exclusive holder, on the same terms.
    #[inline]
    pub fn shared_while(&self, wanted: impl Fn() -> bool) -> bool {
        self.try_shared() || self.acquire(Latch::try_shared, EXCLUSIVE, &wanted)
    }

    /// Tries until it succeeds or is not wanted any more; parks while any bit of `against` is set.
    #[cold]
    fn acquire(
        &self,
        attempt: fn(&Latch) -> bool,
        against: u64,
        wanted: &impl Fn() -> bool,
    ) -> bool {
        let mut spins = 0;
        while !attempt(self) {
            spins += 1;
            if spins < SPINS {
                spin_loop();
            } else if wanted() {
                self.park(against, wanted);
            } else {
                return false;
            }
        }
        true
    }

    /// Ends an exclusive hold; everything that optimistic readers saw meanwhile becomes invalid.
    #[inline]
    pub fn release_exclusive(&self) {
        let w = self.word.load(Ordering::Relaxed);
        debug_assert!(w & EXCLUSIVE != 0);
        let before = self
            .word
            .fetch_add(VERSION_ONE.wrapping_sub(EXCLUSIVE), Ordering::Release);
        if before & WAITERS != 0 {
            self.unpark();
        }
    }

    /// Ends an exclusive hold during which nothing was changed.
    #[inline]
    pub fn release_unchanged(&self) {
        if self.word.fetch_sub(EXCLUSIVE, Ordering::Release) & WAITERS != 0 {
            self.unpark();
        }
    }

    /// Leaves an exclusive hold as it is, for ever, and lets those who wait see whether they still want it.
    #[cold]
    pub fn abandon(&self) {
        self.unpark();
    }

    /// Ends a shared hold.
    #[inline]
    pub fn release_shared(&self) {
        let before = self.word.fetch_sub(SHARED_ONE, Ordering::Release);
        if before & WAITERS != 0 && before & SHARED_MASK == SHARED_ONE {
            self.unpark();
        }
    }

    #[cfg(feature = "shuttle")]
    fn park(&self, _against: u64, _wanted: &impl Fn() -> bool) {
        yield_now();
    }

    #[cfg(feature = "shuttle")]
    fn unpark(&self) {
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
    }

    #[cfg(not(feature = "shuttle"))]
    fn park(&self, against: u64, wanted: &impl Fn() -> bool) {
        let w = self.word.load(Ordering::Relaxed);
        if w & against == 0 {
            return;
        }
        if w & WAITERS == 0
            && self
                .word
                .compare_exchange(w, w | WAITERS, Ordering::Relaxed, Ordering::Relaxed)
                .is_err()
        {
            yield_now();
            return;
        }
        // The count is read first, so that a hold that ends after the look at the word changes it, and the
        // wait ends at once. What is wanted changes under the exclusive latch, so the same is true of it.
        let place = self.place();
        let seen = place.load(Ordering::Acquire);
        let w = self.word.load(Ordering::Relaxed);
        if w & WAITERS != 0 && w & against != 0 && wanted() {
            atomic_wait::wait(place, seen);
        }
    }

    /// Wakes all waiters: they are few and their order does not matter.
    #[cfg(not(feature = "shuttle"))]
    #[cold]
    fn unpark(&self) {
        self.word.fetch_and(!WAITERS, Ordering::Relaxed);
        let place = self.place();
        place.fetch_add(1, Ordering::Release);
        atomic_wait::wake_all(place);
    }

    /// Where those wait who want this latch, and some other ones.
    #[cfg(not(feature = "shuttle"))]
    fn place(&self) -> &'static AtomicU32 {
        // Latches lie in headers of frames, one in a cache line or two.
        let line = std::ptr::from_ref(self).addr() / 64;
        &PLACES[line % PLACES.len()]
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn an_exclusive_hold_invalidates_and_a_shared_one_does_not() {
        let l = Latch::new();
        let v = l.optimistic().unwrap();
        assert!(l.try_shared() && l.validate(v) && !l.try_exclusive());
        l.release_shared();
        assert!(l.upgrade(v) && !l.validate(v) && l.optimistic().is_none() && !l.try_shared());
        l.release_exclusive();
        assert!(!l.validate(v) && !l.upgrade(v));
        let v = l.optimistic().unwrap();
        assert!(l.try_exclusive());
        l.release_unchanged();
        assert!(l.validate(v));
    }

    #[test]
    fn nobody_waits_for_what_is_not_wanted_any_more() {
        let l = Latch::new();
        assert!(l.try_exclusive());
        assert!(!l.exclusive_while(|| false) && !l.shared_while(|| false));
        // Found out only when about to park.
        let asked = std::cell::Cell::new(0);
        let twice = || asked.replace(asked.get() + 1) < 1;
        assert!(!l.exclusive_while(twice) && asked.get() >= 2);
        l.release_exclusive();
        assert!(l.exclusive_while(|| false), "it was free");
    }

    #[test]
    fn waiters_are_woken_and_exclude_each_other() {
        let l = Latch::new();
        // Counted in two steps, so that a count is lost where two threads have the latch.
        let n = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|t| {
            for _ in 0..4 {
                t.spawn(|| {
                    for _ in 0..20_000 {
                        l.exclusive();
                        let before = n.load(Ordering::Relaxed);
                        n.store(before + 1, Ordering::Relaxed);
                        l.release_exclusive();
                    }
                });
            }
        });
        assert_eq!(n.into_inner(), 80_000);
    }
}

#[cfg(all(test, feature = "shuttle"))]
mod tests {
    use super::*;
    use std::sync::Arc;
    use terrace_base::sync::thread;

    /// Two words that only belong together, as the bytes of a page do.
    struct Pair {
        latch: Latch,
        left: AtomicU64,
        right: AtomicU64,
    }

    fn bump(pair: &Pair) {
        for word in [&pair.left, &pair.right] {
            word.store(word.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    #[test]
    fn readers_validate_only_what_belongs_together_and_writers_exclude_each_other() {
        shuttle::check_random(
            || {
                let pair = Arc::new(Pair {
                    latch: Latch::new(),
                    left: AtomicU64::new(0),
                    right: AtomicU64::new(0),
                });
                let mut threads = Vec::new();
                let of = pair.clone();
                threads.push(thread::spawn(move || {
                    of.latch.exclusive();
                    bump(&of);
                    of.latch.release_exclusive();
                    of.latch.exclusive();
                    of.latch.release_unchanged();
                }));
                let of = pair.clone();
                threads.push(thread::spawn(move || {
                    for _ in 0..3 {
                        if let Some(version) = of.latch.optimistic()
                            && of.latch.upgrade(version)
                        {
                            bump(&of);
                            of.latch.release_exclusive();
                            assert!(!of.latch.validate(version));
                            break;
                        }
                    }
                }));
                let of = pair.clone();
                threads.push(thread::spawn(move || {
                    assert!(of.latch.shared_while(|| true));
                    let left = of.left.load(Ordering::Relaxed);
                    yield_now();
                    assert_eq!(left, of.right.load(Ordering::Relaxed));
                    of.latch.release_shared();
                }));
                let of = pair.clone();
                threads.push(thread::spawn(move || {
                    let Some(version) = of.latch.optimistic() else {
                        return;
                    };
                    let left = of.left.load(Ordering::Relaxed);
                    let right = of.right.load(Ordering::Relaxed);
                    if of.latch.validate(version) {
                        assert_eq!(left, right);
                    }
                }));
                for thread in threads {
                    thread.join().unwrap();
                }
                let word = pair.latch.word.load(Ordering::Relaxed);
                assert_eq!(
                    word & !(VERSION_MASK | WAITERS),
                    0,
                    "a hold was left behind"
                );
                assert_eq!(
                    pair.left.load(Ordering::Relaxed) * VERSION_ONE,
                    word & VERSION_MASK
                );
            },
            3000,
        );
    }
}
