//! The slots of one class of nodes in both memories: one reservation, whose upper half is slow.
//!
//! Kept true: a [`Slot`] is the only owner of an initialised value, as a `Box` is; its id says
//! where the value lies; a [`Vacant`] is the only owner of a slot without a value. A slot is
//! never of another class, and memory is not taken from a slab while a slot of it has an owner.

use super::free::{Free, SLAB};
use crate::error::PlacementError;
use crate::faults::{Fault, planted};
use crate::id::{INDEX_BITS, MAX_SLOTS, NodeId, Tier};
use crate::memory::{PAGE, Region, Source};
use crate::sync::{Mutex, whole};
use std::fmt;
use std::marker::PhantomData;
use std::mem::{MaybeUninit, size_of};

/// The fewest bits of slots that are worth having: one slab.
const LEAST_WIDTH: u32 = SLAB.ilog2();
/// Bytes of a node at most: nodes are moved whole, and pass over the stack of a thread, which has
/// 2 MiB by default, some times on their way.
const MOST_STRIDE: usize = 32 << 10;
/// A class reserves at most this many bytes of addresses in each memory.
const MOST_BYTES: usize = 512 << 30;

/// Slabs of which a page is looked up, evenly over all: a call of the system each, some 0.5 ms.
const MOST_ASKED: usize = 256;

/// A value in its slot; sizes are multiples of 8, so that a slab is whole pages.
#[repr(C, align(8))]
struct Cell<T>(MaybeUninit<T>);

/// The owner of a value in a [`Pool`]: 4 bytes. It must be given back to the pool, which drops
/// the value; one that is dropped leaks it.
#[derive(PartialEq, Eq)]
pub struct Slot<T> {
    id: NodeId,
    owns: PhantomData<Box<T>>,
}

impl<T> Slot<T> {
    /// Where the value lies.
    #[inline]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The owner under this id: the opposite of [`Slot::into_id`].
    ///
    /// It is safe to call, since all that is done with a slot is not: who has two owners of one
    /// id breaks the promise that [`Pool::get_mut`] asks for.
    #[inline]
    pub fn from_id(id: NodeId) -> Slot<T> {
        Slot {
            id,
            owns: PhantomData,
        }
    }

    /// Gives up the ownership for the id.
    #[inline]
    pub fn into_id(self) -> NodeId {
        self.id
    }
}

impl<T> fmt::Debug for Slot<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.id.fmt(f)
    }
}

/// A slot that has been taken and has no value yet; it is free again when dropped.
pub struct Vacant<'a, T> {
    pool: &'a Pool<T>,
    id: NodeId,
}

impl<T> Vacant<'_, T> {
    /// Where the value will lie.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Puts the value in.
    pub fn fill(self, value: T) -> Slot<T> {
        // SAFETY: the slot is in a slab with memory, and nothing else owns it.
        unsafe { (*self.pool.cell(self.id)).0.write(value) };
        let slot = Slot::from_id(self.id);
        std::mem::forget(self);
        slot
    }
}

impl<T> Drop for Vacant<'_, T> {
    fn drop(&mut self) {
        self.pool.free(self.id);
    }
}

/// The slots of one class in both memories.
#[derive(Debug)]
pub struct Pool<T> {
    region: Region,
    class: u8,
    /// Slots of a memory: two to this power.
    width: u32,
    sources: [Source; 2],
    tiers: [Mutex<Free>; 2],
    /// Slabs that get memory together, by tier: a power of two; more than one where memory comes
    /// in large grains.
    group: [u32; 2],
    owns: PhantomData<T>,
}

// SAFETY: a pool gives out values only by its unsafe functions, whose callers answer for threads;
// what it does itself is under its mutexes.
unsafe impl<T: Send> Send for Pool<T> {}
// SAFETY: as above.
unsafe impl<T: Send + Sync> Sync for Pool<T> {}

impl<T> Pool<T> {
    /// A pool of at most `slots` slots in each memory; fewer if the system has no addresses for
    /// that many.
    pub(crate) fn new(class: u8, slots: u64, sources: [Source; 2]) -> Result<Self, PlacementError> {
        const { assert!(size_of::<T>() > 0, "nodes have bytes") };
        if Self::STRIDE > MOST_STRIDE {
            return Err(PlacementError::NodeTooLarge {
                bytes: Self::STRIDE,
                most: MOST_STRIDE,
            });
        }
        let most = (MOST_BYTES / Self::STRIDE).max(1).ilog2();
        let mut width = slots.clamp(1, MAX_SLOTS).next_power_of_two().ilog2();
        width = width.min(INDEX_BITS).min(most).max(LEAST_WIDTH);
        let region = loop {
            match Region::reserve((2 << width) * Self::STRIDE) {
                Ok(region) => break region,
                Err(_) if width > LEAST_WIDTH => width -= 1,
                Err(error) => return Err(error),
            }
        };
        let slabs = 1 << (width - SLAB.ilog2());
        let group = [0, 1].map(|tier: usize| {
            let grain: usize = Source::grain(&sources[tier]);
            // Both are powers of two times something, and a slab is whole pages.
            let fits = (SLAB as usize * Self::STRIDE).trailing_zeros();
            1 << grain.trailing_zeros().saturating_sub(fits)
        });
        Ok(Pool {
            group,
            region,
            class,
            width,
            sources,
            tiers: group.map(|group| Mutex::new(Free::new(slabs, group > 1))),
            owns: PhantomData,
        })
    }

    /// Bytes from one slot to the next: what a node takes.
    pub const STRIDE: usize = size_of::<Cell<T>>();

    #[inline]
    fn cell(&self, id: NodeId) -> *mut Cell<T> {
        // The tier is the highest bit of the position: no table, no branch.
        let tier = (id.0 >> 31 << self.width) as usize;
        let index = id.index() as usize;
        self.region
            .base()
            .cast::<Cell<T>>()
            .wrapping_add(tier | index)
    }

    /// Takes a free slot.
    ///
    /// # Errors
    /// The memory is full, or the kernel refused; nothing is taken then.
    pub fn vacant(&self, tier: Tier) -> Result<Vacant<'_, T>, PlacementError> {
        let mut free = whole(self.tiers[tier as usize].lock());
        let index = match free.take() {
            Some(index) => index,
            None => {
                self.grow(&mut free, tier)?;
                let full = PlacementError::ArenaFull {
                    slots: 1 << self.width,
                };
                free.take().ok_or(full)?
            }
        };
        let id = NodeId::new(tier, self.class, index);
        Ok(Vacant { pool: self, id })
    }

    /// Gets memory for the next slab, or for as many as the source hands out at once.
    fn grow(&self, free: &mut Free, tier: Tier) -> Result<(), PlacementError> {
        let source = &self.sources[tier as usize];
        let slab = free.next_bare().ok_or(PlacementError::ArenaFull {
            slots: 1 << self.width,
        })?;
        let (offset, len) = self.slab(tier, slab);
        let group = self.group[tier as usize];
        if group > 1 << (self.width - SLAB.ilog2()) {
            return Err(PlacementError::ArenaFull {
                slots: 1 << self.width,
            });
        }
        let place = self.region.commit(offset, len * group as usize, source)?;
        for slab in slab..slab + group {
            free.opened(slab, place);
        }
        Ok(())
    }

    fn slab(&self, tier: Tier, slab: u32) -> (usize, usize) {
        let first = (tier as usize) << self.width | (slab * SLAB) as usize;
        (first * Self::STRIDE, SLAB as usize * Self::STRIDE)
    }

    fn free(&self, id: NodeId) {
        let tier = id.tier();
        let mut free = whole(self.tiers[tier as usize].lock());
        if let Some((slab, place)) = free.give(id.index()) {
            let (offset, len) = self.slab(tier, slab);
            self.region
                .release(offset, len, &self.sources[tier as usize], place);
        }
    }

    /// The value.
    ///
    /// # Safety
    /// The slot is of this pool, and no code has a `&mut` to its value.
    #[inline]
    pub unsafe fn get(&self, slot: &Slot<T>) -> &T {
        // SAFETY: a slot owns an initialised value in memory that stays as long as it has an
        // owner; the caller answers for the aliases.
        unsafe { (*self.cell(slot.id)).0.assume_init_ref() }
    }

    /// The value, to be changed.
    ///
    /// # Safety
    /// The slot is of this pool, it is the only one of its id, and no other code has a reference
    /// to its value as long as the result lives.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the slot is the owner, not the pool")]
    pub unsafe fn get_mut(&self, slot: &mut Slot<T>) -> &mut T {
        // SAFETY: as in `get`.
        unsafe { (*self.cell(slot.id)).0.assume_init_mut() }
    }

    /// Takes the value out and frees the slot.
    ///
    /// # Safety
    /// As for [`Pool::get_mut`].
    pub unsafe fn take(&self, slot: Slot<T>) -> T {
        // SAFETY: the value is initialised; after this nothing owns it in its slot.
        let value = unsafe { (*self.cell(slot.id)).0.assume_init_read() };
        self.free(slot.id);
        value
    }

    /// Moves the value to a vacant slot; the old one is free.
    ///
    /// # Safety
    /// As for [`Pool::get_mut`]; the vacant slot is of this pool.
    pub unsafe fn shift(&self, slot: &mut Slot<T>, to: Vacant<'_, T>) {
        // SAFETY: one slot has a value and the other has none, so they do not overlap.
        unsafe { std::ptr::copy_nonoverlapping(self.cell(slot.id), self.cell(to.id), 1) };
        let old = std::mem::replace(&mut slot.id, to.id);
        std::mem::forget(to);
        if planted(Fault::WrongTierBit) {
            slot.id = NodeId::new(old.tier(), self.class, slot.id.index());
        }
        if !planted(Fault::SlotKept) {
            self.free(old);
        }
        if planted(Fault::SlotFreedTwice) {
            self.free(old);
        }
    }

    /// Where the value of a slot lies: what a model touches.
    #[inline]
    pub fn address(&self, id: NodeId) -> *const u8 {
        self.cell(id).cast_const().cast()
    }

    /// Slots in use in a memory.
    pub fn live(&self, tier: Tier) -> u64 {
        whole(self.tiers[tier as usize].lock()).live()
    }

    /// Bytes of slabs that have memory.
    pub fn committed(&self, tier: Tier) -> u64 {
        let slabs = whole(self.tiers[tier as usize].lock()).open().count();
        (slabs * SLAB as usize * Self::STRIDE) as u64
    }

    /// Pages that were asked about, one in each of some slabs here and there, and how many of them
    /// lie on another node than they should; the kernel may have moved them.
    pub fn residence(&self, tier: Tier) -> (u64, u64) {
        let Source::Node(node) = self.sources[tier as usize] else {
            return (0, 0);
        };
        let slabs: Vec<u32> = {
            let free = whole(self.tiers[tier as usize].lock());
            let step = free.open().count().div_ceil(MOST_ASKED).max(1);
            free.open().map(|(slab, _)| slab).step_by(step).collect()
        };
        let (mut asked, mut wrong) = (0, 0);
        for slab in slabs {
            let at = self.region.base().wrapping_add(self.slab(tier, slab).0);
            if let Some(on) = crate::memory::node_of(at) {
                asked += 1;
                wrong += u64::from(on != node);
            }
        }
        (asked, wrong)
    }
}

const _: () = assert!((SLAB as usize * 8).is_multiple_of(PAGE));

#[cfg(test)]
mod tests {
    use super::*;

    fn pool<T>() -> Pool<T> {
        Pool::new(0, 1 << 12, [Source::Heap, Source::Heap]).unwrap()
    }

    #[test]
    fn a_value_moves_between_the_memories_and_is_dropped_once() {
        let pool = pool::<String>();
        let mut slots: Vec<Slot<String>> = (0..1000)
            .map(|i| pool.vacant(Tier::Slow).unwrap().fill(format!("value {i}")))
            .collect();
        for (i, slot) in slots.iter_mut().enumerate().filter(|(i, _)| i % 3 == 0) {
            let to = pool.vacant(Tier::Fast).unwrap();
            // SAFETY: the slots are the only ones, and of this pool.
            unsafe {
                pool.shift(slot, to);
                pool.get_mut(slot).push('!');
                assert_eq!(*pool.get(slot), format!("value {i}!"));
            }
            assert_eq!(slot.id().tier(), Tier::Fast);
        }
        assert_eq!(pool.live(Tier::Fast), 334);
        assert_eq!(pool.live(Tier::Slow), 666);
        for (i, slot) in slots.into_iter().enumerate() {
            // SAFETY: as above.
            let value = unsafe { pool.take(slot) };
            assert!(value.starts_with(&format!("value {i}")));
        }
        assert_eq!(pool.live(Tier::Fast) + pool.live(Tier::Slow), 0);
    }

    #[test]
    fn a_full_pool_is_an_error_and_a_vacant_slot_comes_back() {
        let pool = pool::<u64>();
        let all: Vec<_> = (0..1 << 12)
            .map(|_| pool.vacant(Tier::Fast).unwrap())
            .collect();
        assert!(matches!(
            pool.vacant(Tier::Fast).map(|v| v.id()),
            Err(PlacementError::ArenaFull { slots: 4096 })
        ));
        drop(all);
        assert_eq!(pool.live(Tier::Fast), 0);
        assert!(pool.vacant(Tier::Fast).is_ok());
    }
}
