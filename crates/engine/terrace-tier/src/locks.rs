//! The table of record locks: an array of versions, indexed by a hash of structure and key.
//!
//! Invariants (rule 2): a version is even while the lock is free and odd while a thread holds it; it
//! never goes back. Only the holder changes or moves the records of its slot. Readers note the
//! version, read, and validate. Several keys may share a slot; that costs retries, never
//! correctness. Source: "Tiered-Indexing", optimistic lock table.
//!
//! A version has two parts. The *content* rises when a record of the slot has another value; the
//! *moves* rise when records have only been moved between the tiers. A reader validates both. Who
//! asks later whether what it read is still so, a transaction, compares the content alone. A lock
//! that is dropped counts as changed, so a forgotten word costs a retry and never an answer.

use terrace_base::StructureId;
use terrace_base::checksum;
use terrace_base::sync::atomic::{AtomicU64, Ordering, fence};
use terrace_base::sync::{spin_loop, thread, yield_now};

use crate::fault::{Fault, Point, planted, reached};

/// Rounds of spinning before the processor is given away: holders work in memory only.
const SPINS: u32 = 100;
/// Rounds of giving it away before whoever waits sleeps in between. Who holds a lock that long writes a large
/// batch, and holds many: those who wait for them would have the processors that it needs.
const YIELDS: u32 = 100;
/// A sleep: short beside what such a batch takes.
const PAUSE: std::time::Duration = std::time::Duration::from_micros(100);

/// The bit that says that the lock is held.
const HELD: u64 = 1;
/// The bits of the moves: 2^23 of them while one record is read are out of reach.
const MOVES: u64 = 0x00FF_FFFE;
/// One more content. There are 2^40 of them for each lock.
const CONTENT: u64 = 1 << 24;

/// A version as seen by a reader: even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

/// The part of a version that stands for the values of its records, wherever they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content(u64);

impl Version {
    /// Its content.
    #[inline]
    pub fn content(self) -> Content {
        Content(self.0 & !(HELD | MOVES))
    }
}

/// The hash of a structure's key.
#[inline]
pub(crate) fn hash_of(structure: StructureId, key: &[u8]) -> u64 {
    checksum::seeded(u64::from(structure.0) << 32 | 0x5EED, key)
}

/// The record locks: one version for each slot.
pub struct LockTable {
    versions: Box<[AtomicU64]>,
}

/// A held lock; let go of when dropped.
pub struct RecordLock<'a> {
    version: &'a AtomicU64,
}

impl RecordLock<'_> {
    /// The version that readers will see if the lock is let go of unchanged.
    pub fn version_after_unchanged(&self) -> Version {
        Version(self.version.load(Ordering::Relaxed) - HELD)
    }

    /// Lets go after a change.
    pub fn release_changed(self) {
        drop(self);
    }

    /// Lets go after records were moved between the tiers, each with the value that it had; returns
    /// the version that readers see from now on.
    pub fn release_moved(self) -> Version {
        let held = self.version.load(Ordering::Relaxed);
        // Held, so the sum is even; beyond the last one the moves begin anew.
        let now = if planted(Fault::MoveUnseen) {
            held - HELD
        } else {
            held & !(HELD | MOVES) | (held + 1) & MOVES
        };
        // No other thread writes the word while it is held.
        self.version.store(now, Ordering::Release);
        std::mem::forget(self);
        Version(now)
    }

    /// Lets go after nothing was changed: readers who saw the version before are still right.
    pub fn release_unchanged(self) {
        self.version.fetch_sub(HELD, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        self.version.fetch_add(CONTENT - HELD, Ordering::Release);
    }
}

impl LockTable {
    /// A table of about `bytes` bytes (rounded down to a power of two, at least 64 locks).
    pub fn new(bytes: usize) -> LockTable {
        let count = (bytes / 8).max(64);
        let count = if count.is_power_of_two() {
            count
        } else {
            count.next_power_of_two() / 2
        };
        LockTable {
            versions: (0..count).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Bytes of memory that the table takes.
    pub fn memory_bytes(&self) -> usize {
        self.versions.len() * 8
    }

    /// The slot of a key's lock.
    #[inline]
    pub fn slot(&self, structure: StructureId, key: &[u8]) -> usize {
        self.slot_of(hash_of(structure, key))
    }

    /// The slot of a key with this [`hash_of`].
    #[inline]
    pub(crate) fn slot_of(&self, hash: u64) -> usize {
        hash as usize & (self.versions.len() - 1)
    }

    /// Asks the processor for the lock, which is about to be taken or read.
    #[inline]
    pub(crate) fn prefetch(&self, slot: usize) {
        terrace_pages::prefetch(&self.versions[slot]);
    }

    /// The version, unless the lock is held.
    #[inline]
    pub fn read(&self, slot: usize) -> Option<Version> {
        let v = self.versions[slot].load(Ordering::Acquire);
        (v & HELD == 0).then_some(Version(v))
    }

    /// The content, and whether the lock is held. Holders change what they hold.
    #[inline]
    pub fn content(&self, slot: usize) -> (Content, bool) {
        let v = self.versions[slot].load(Ordering::Acquire);
        (Version(v).content(), v & HELD != 0)
    }

    /// Lets go of a lock whose holder was forgotten, unchanged. For tests, which stand for a writer this way.
    #[cfg(feature = "planted-faults")]
    pub fn release_abandoned(&self, slot: usize) {
        self.versions[slot].fetch_sub(HELD, Ordering::Release);
    }

    /// How many of these are free at the moment. O(slots), which are read at the same time.
    pub(crate) fn count_free(&self, slots: &[usize]) -> usize {
        let free = slots.iter().filter(|slot| self.read(**slot).is_some());
        free.count()
    }

    /// The version, waiting for the holder.
    #[inline]
    pub fn read_waiting(&self, slot: usize) -> Version {
        let mut spins = 0;
        loop {
            if let Some(version) = self.read(slot) {
                return version;
            }
            back_off(&mut spins);
        }
    }

    /// Whether nothing of the slot has changed since `version` was read.
    #[inline]
    pub fn validate(&self, slot: usize, version: Version) -> bool {
        fence(Ordering::Acquire);
        self.versions[slot].load(Ordering::Relaxed) == version.0
    }

    /// Takes the lock if nothing has changed since `version`. Never waits.
    #[inline]
    pub fn upgrade(&self, slot: usize, version: Version) -> Option<RecordLock<'_>> {
        let cell = &self.versions[slot];
        // Not `then_some`: a lock that was not taken must not be made, for dropping it lets go.
        cell.compare_exchange(
            version.0,
            version.0 + HELD,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_ok()
        .then(|| RecordLock { version: cell })
    }

    /// Every lock counts as changed from now on, one after the other: whoever has read anything looks again. For a
    /// change of more records than a caller can name. O(locks), about 8 ns each.
    pub fn change_all(&self) {
        for slot in 0..self.versions.len() {
            self.lock(slot).release_changed();
        }
    }

    /// Takes the lock if it is free. Never waits.
    #[inline]
    pub fn try_lock(&self, slot: usize) -> Option<RecordLock<'_>> {
        self.upgrade(slot, self.read(slot)?)
    }

    /// Takes the lock, waiting for its holder, who does not wait for any disk.
    pub fn lock(&self, slot: usize) -> RecordLock<'_> {
        let mut spins = 0;
        loop {
            if let Some(lock) = self.try_lock(slot) {
                return lock;
            }
            back_off(&mut spins);
        }
    }
}

fn back_off(spins: &mut u32) {
    reached(Point::Waiting);
    *spins = spins.saturating_add(1);
    if *spins < SPINS {
        spin_loop()
    } else if *spins < SPINS + YIELDS {
        yield_now()
    } else {
        thread::sleep(PAUSE)
    }
}

#[cfg(all(test, not(feature = "shuttle")))]
mod tests {
    use super::*;

    #[test]
    fn a_lock_moves_the_version_and_excludes() {
        let t = LockTable::new(1000);
        assert_eq!(t.memory_bytes(), 512);
        let slot = t.slot(StructureId(1), b"key");
        let v = t.read(slot).unwrap();
        {
            let _held = t.upgrade(slot, v).unwrap();
            assert!(t.read(slot).is_none() && t.try_lock(slot).is_none());
            assert!(!t.validate(slot, v));
        }
        assert!(!t.validate(slot, v) && t.upgrade(slot, v).is_none());
        assert!(t.try_lock(slot).is_some());
    }

    #[test]
    fn a_move_leaves_the_content_and_no_move_goes_unseen() {
        let t = LockTable::new(1000);
        let before = t.read(3).unwrap();
        let moved = t.lock(3).release_moved();
        assert_eq!(t.read(3), Some(moved));
        assert!(moved != before && moved.content() == before.content());
        assert!(!t.validate(3, before));
        t.lock(3).release_unchanged();
        assert_eq!(t.read(3), Some(moved));
        t.lock(3).release_changed();
        let changed = t.read(3).unwrap();
        assert!(changed.content() != moved.content());
        assert_eq!(t.content(3), (changed.content(), false));
        let held = t.lock(3);
        assert_eq!(t.content(3), (changed.content(), true));
        held.release_unchanged();
        // The last of the moves is followed by the first, and the content is not touched.
        t.versions[3].store((5 * CONTENT) | MOVES, Ordering::SeqCst);
        let wrapped = t.lock(3).release_moved();
        assert_eq!(wrapped.0, 5 * CONTENT);
    }

    #[test]
    fn who_waits_long_for_a_lock_sleeps() {
        let t = LockTable::new(1000);
        let held = t.lock(3);
        let mut spins = 0;
        let waited = |spins: &mut u32| {
            let begun = std::time::Instant::now();
            back_off(spins);
            begun.elapsed()
        };
        while spins < SPINS + YIELDS - 1 {
            waited(&mut spins);
        }
        assert!((0..10).all(|_| waited(&mut spins) >= PAUSE));
        spins = u32::MAX;
        assert!(waited(&mut spins) >= PAUSE);
        // Who lets go is found within a pause.
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| t.read_waiting(3));
            std::thread::sleep(20 * PAUSE);
            held.release_unchanged();
            waits.join().unwrap();
        });
    }

    #[test]
    fn two_structures_use_different_locks_for_one_key() {
        let t = LockTable::new(1 << 16);
        let same = (0..1000u32)
            .filter(|i| {
                t.slot(StructureId(1), &i.to_be_bytes()) == t.slot(StructureId(2), &i.to_be_bytes())
            })
            .count();
        assert!(same < 10);
    }
}
