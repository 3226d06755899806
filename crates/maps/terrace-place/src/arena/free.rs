//! Which slots of one class in one memory are free: pure, without memory.
//!
//! Kept true: a slot is free, or given out, never both; of the slabs with room the one with the
//! lowest number is used, so that the last ones run empty and can be given back.

use std::collections::BTreeSet;

/// Slots in a slab: of nodes whose size is a multiple of 8 bytes, these are whole pages.
pub(crate) const SLAB: u32 = 512;

/// Empty slabs that keep their memory: what comes and goes is not asked of the kernel each time.
const SPARE: usize = 1;

/// One slab.
#[derive(Debug)]
enum Slab {
    /// It has no memory.
    Bare,
    /// It has memory; `free` are the slots that were given back, those from `fresh` on were
    /// never given out.
    Open {
        free: Vec<u16>,
        fresh: u16,
        /// What the memory's source wants to hear when it goes.
        place: u64,
    },
}

/// What is free.
#[derive(Debug)]
pub(crate) struct Free {
    slabs: Vec<Slab>,
    /// Slabs with memory and at least one free slot.
    room: BTreeSet<u32>,
    /// Slabs that went without memory, to be used again.
    bare: BTreeSet<u32>,
    most: u32,
    live: u64,
    /// Whether slabs that run empty keep their memory.
    keeps: bool,
}

impl Free {
    /// Nothing given out; at most `most` slabs, which keep their memory if told so.
    pub(crate) fn new(most: u32, keeps: bool) -> Free {
        Free {
            slabs: vec![],
            room: BTreeSet::new(),
            bare: BTreeSet::new(),
            most,
            live: 0,
            keeps,
        }
    }

    /// A free slot of a slab that has memory.
    pub(crate) fn take(&mut self) -> Option<u32> {
        let slab = *self.room.first()?;
        let Slab::Open { free, fresh, .. } = &mut self.slabs[slab as usize] else {
            return None;
        };
        let slot = free.pop().unwrap_or_else(|| {
            *fresh += 1;
            *fresh - 1
        });
        if free.is_empty() && u32::from(*fresh) == SLAB {
            self.room.remove(&slab);
        }
        self.live += 1;
        Some(slab * SLAB + u32::from(slot))
    }

    /// The slab that should get memory next.
    pub(crate) fn next_bare(&self) -> Option<u32> {
        let next = self.bare.first().copied();
        next.or_else(|| (self.slabs.len() < self.most as usize).then_some(self.slabs.len() as u32))
    }

    /// A slab, one that [`Free::next_bare`] named, has memory now.
    pub(crate) fn opened(&mut self, slab: u32, place: u64) {
        let open = Slab::Open {
            free: vec![],
            fresh: 0,
            place,
        };
        if slab as usize == self.slabs.len() {
            self.slabs.push(open);
        } else {
            self.slabs[slab as usize] = open;
            self.bare.remove(&slab);
        }
        self.room.insert(slab);
    }

    /// A slot that was given out is free. A slab that should lose its memory now is returned,
    /// with its place, and counts as without memory.
    pub(crate) fn give(&mut self, index: u32) -> Option<(u32, u64)> {
        let (number, slot) = (index / SLAB, (index % SLAB) as u16);
        let Some(Slab::Open { free, fresh, place }) = self.slabs.get_mut(number as usize) else {
            debug_assert!(false, "a slot of a slab without memory");
            return None;
        };
        debug_assert!(slot < *fresh, "a slot that was never given out");
        // Twice free is once too often; looked for where tests run.
        debug_assert!(
            !cfg!(any(test, feature = "planted-faults")) || !free.contains(&slot),
            "a slot is freed twice"
        );
        free.push(slot);
        self.live -= 1;
        let (empty, place) = (free.len() == *fresh as usize, *place);
        self.room.insert(number);
        if self.keeps || !empty || self.empty_slabs() <= SPARE {
            return None;
        }
        self.slabs[number as usize] = Slab::Bare;
        self.room.remove(&number);
        self.bare.insert(number);
        Some((number, place))
    }

    fn empty_slabs(&self) -> usize {
        let empty = |&&slab: &&u32| match &self.slabs[slab as usize] {
            Slab::Open { free, fresh, .. } => free.len() == *fresh as usize,
            Slab::Bare => false,
        };
        // The last ones run empty first.
        self.room.iter().rev().take(8).filter(empty).count()
    }

    /// Slots given out.
    pub(crate) fn live(&self) -> u64 {
        self.live
    }

    /// Slabs with memory, and the places of it.
    pub(crate) fn open(&self) -> impl Iterator<Item = (u32, u64)> + '_ {
        let open = |(i, slab): (usize, &Slab)| match slab {
            Slab::Open { place, .. } => Some((i as u32, *place)),
            Slab::Bare => None,
        };
        self.slabs.iter().enumerate().filter_map(open)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn take(free: &mut Free) -> Option<u32> {
        if let Some(slot) = free.take() {
            return Some(slot);
        }
        let slab = free.next_bare()?;
        free.opened(slab, 7);
        free.take()
    }

    #[test]
    fn all_slots_are_given_out_once() {
        let mut free = Free::new(3, false);
        let mut all: Vec<u32> = std::iter::from_fn(|| take(&mut free)).collect();
        all.sort_unstable();
        assert_eq!(all, (0..3 * SLAB).collect::<Vec<_>>());
    }

    #[test]
    fn slabs_that_run_empty_go() {
        let mut free = Free::new(10, false);
        let all: Vec<u32> = (0..6 * SLAB).map(|_| take(&mut free).unwrap()).collect();
        let gone = all.iter().filter(|&&slot| free.give(slot).is_some());
        assert_eq!(gone.count(), 5);
        assert_eq!((free.live(), free.open().count()), (0, 1));
        assert!(take(&mut free).is_some());
    }

    proptest! {
        #[test]
        fn no_slot_is_given_out_twice(steps in prop::collection::vec((any::<bool>(), any::<prop::sample::Index>()), 0..3000)) {
            let mut free = Free::new(4, false);
            let mut held = vec![];
            for (out, which) in steps {
                if out || held.is_empty() {
                    if let Some(slot) = take(&mut free) {
                        prop_assert!(!held.contains(&slot));
                        held.push(slot);
                    }
                } else {
                    let slot = held.swap_remove(which.index(held.len()));
                    free.give(slot);
                }
                prop_assert_eq!(free.live(), held.len() as u64);
            }
        }
    }
}
