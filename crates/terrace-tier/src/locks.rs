//! The table of record locks: an array of versions, indexed by a hash of structure and key.
//!
//! Invariants (rule 2): a version is even while the lock is free and odd while somebody holds it; it
//! never goes back. Only the holder changes or moves the records of its slot. Readers note the
//! version, read, and validate. Several keys may share a slot; that costs retries, never
//! correctness. Source: "Tiered-Indexing", optimistic lock table.

use terrace_base::StructureId;
use terrace_base::checksum;
use terrace_base::sync::atomic::{AtomicU64, Ordering, fence};
use terrace_base::sync::{spin_loop, yield_now};

use crate::fault::{Point, reached};

/// Rounds of spinning before the processor is given away: holders work in memory only.
const SPINS: u32 = 100;

/// A version as seen by a reader: even.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version(u64);

/// The hash of a structure's key.
#[inline]
pub(crate) fn hash_of(structure: StructureId, key: &[u8]) -> u64 {
    checksum::seeded(u64::from(structure.0) << 32 | 0x5EED, key)
}

/// See the module's text.
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
        Version(self.version.load(Ordering::Relaxed) - 1)
    }

    /// Lets go after a change; returns the version that readers see from now on.
    pub fn release_changed(self) -> Version {
        let now = Version(self.version.load(Ordering::Relaxed) + 1);
        drop(self);
        now
    }

    /// Lets go after nothing was changed: readers who saw the version before are still right.
    pub fn release_unchanged(self) {
        self.version.fetch_sub(1, Ordering::Release);
        std::mem::forget(self);
    }
}

impl Drop for RecordLock<'_> {
    fn drop(&mut self) {
        self.version.fetch_add(1, Ordering::Release);
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
        (v & 1 == 0).then_some(Version(v))
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
            version.0 + 1,
            Ordering::Acquire,
            Ordering::Relaxed,
        )
        .is_ok()
        .then(|| RecordLock { version: cell })
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
    *spins += 1;
    if *spins < SPINS {
        spin_loop()
    } else {
        yield_now()
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
