//! Items of one kind in chunks that never move, named by numbers: to grow copies nothing.
//!
//! Chunks double from [`FIRST`] items to [`CHUNK`], so that a small structure is small. Numbers that are
//! given back are given out again; all chunks go when the last item does.

use alloc::vec::Vec;

/// Items of the first chunk, and of the second.
const FIRST: usize = 8;

/// Items of the chunks behind those that double.
const CHUNK: usize = 1024;

/// The largest number that is given out: above it handles have bits for the kind of an item, and one
/// for the memory that it is in.
pub const MOST: usize = 1 << 28;

/// The chunk of an item, its place in it, and the items of the chunk.
#[inline]
pub fn place(i: usize) -> (usize, usize, usize) {
    const DOUBLING: usize = (CHUNK / FIRST).ilog2() as usize + 1;
    if i >= CHUNK {
        return (DOUBLING - 1 + i / CHUNK, i % CHUNK, CHUNK);
    }
    let group = (i / FIRST).checked_ilog2().map_or(0, |g| g as usize + 1);
    match group {
        0 => (0, i, FIRST),
        _ => {
            let start = FIRST << (group - 1);
            (group, i - start, start)
        }
    }
}

/// Which numbers are in use.
#[derive(Default)]
pub struct Ids {
    free: Vec<u32>,
    next: u32,
}

impl Ids {
    /// A number that nothing has.
    ///
    /// # Panics
    /// When there are [`MOST`] of them, as for any other capacity that overflows.
    pub fn take(&mut self) -> u32 {
        self.free.pop().unwrap_or_else(|| {
            assert!((self.next as usize) < MOST, "capacity overflow");
            self.next += 1;
            self.next - 1
        })
    }

    /// Gives a number back; true where it was the last in use.
    pub fn give(&mut self, id: u32) -> bool {
        // All of them would take a test O(n) for each.
        debug_assert!(
            !self.free.iter().rev().take(16).any(|&free| free == id),
            "freed twice"
        );
        self.free.push(id);
        self.free.len() == self.next as usize
    }

    pub fn heap(&self) -> usize {
        self.free.capacity() * size_of::<u32>()
    }
}

/// Items by number.
pub struct Slab<T> {
    chunks: Vec<Vec<Option<T>>>,
    ids: Ids,
    room: usize,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab {
            chunks: Vec::new(),
            ids: Ids::default(),
            room: 0,
        }
    }
}

impl<T> Slab<T> {
    /// Puts an item in and returns its number.
    pub fn put(&mut self, item: T) -> u32 {
        let id = self.ids.take();
        let (chunk, at, len) = place(id as usize);
        if chunk == self.chunks.len() {
            self.chunks.push(Vec::with_capacity(len));
            self.room += len;
        }
        let chunk = &mut self.chunks[chunk];
        match chunk.get_mut(at) {
            Some(slot) => *slot = Some(item),
            None => chunk.push(Some(item)),
        }
        id
    }

    /// Takes an item out; its number may be given out again.
    pub fn take(&mut self, id: u32) -> Option<T> {
        let (chunk, at, _) = place(id as usize);
        let item = self.chunks.get_mut(chunk)?.get_mut(at)?.take()?;
        if crate::faults::planted(crate::faults::Fault::FreedTwice) {
            self.ids.free.push(id);
        }
        if self.ids.give(id) {
            *self = Slab::default();
        }
        Some(item)
    }

    /// The item of a number that was given out.
    #[inline]
    pub fn get(&self, id: u32) -> &T {
        let (chunk, at, _) = place(id as usize);
        match &self.chunks[chunk][at] {
            Some(item) => item,
            None => gone(),
        }
    }

    /// The item of a number that was given out, to change.
    #[inline]
    pub fn get_mut(&mut self, id: u32) -> &mut T {
        let (chunk, at, _) = place(id as usize);
        match &mut self.chunks[chunk][at] {
            Some(item) => item,
            None => gone(),
        }
    }

    /// All items by number, each to change or none.
    pub fn all_mut(&mut self) -> Vec<Option<&mut T>> {
        self.chunks
            .iter_mut()
            .flatten()
            .map(Option::as_mut)
            .collect()
    }

    /// Asks for the first line of an item.
    #[inline]
    pub fn prefetch(&self, id: u32) {
        let (chunk, at, _) = place(id as usize);
        if let Some(chunk) = self.chunks.get(chunk) {
            crate::simd::prefetch(chunk, at);
        }
    }

    /// Bytes allocated.
    pub fn bytes(&self) -> usize {
        self.room * size_of::<Option<T>>()
            + self.chunks.capacity() * size_of::<Vec<T>>()
            + self.ids.heap()
    }
}

#[cold]
#[inline(never)]
fn gone() -> ! {
    unreachable!("a handle names an item that was taken out")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_a_place_of_its_own() {
        let (mut chunk, mut at) = (0, 0);
        let mut len = FIRST;
        for i in 0..6 * CHUNK {
            if at == len {
                (chunk, at) = (chunk + 1, 0);
                len = place(i).2;
            }
            assert_eq!(place(i), (chunk, at, len), "{i}");
            at += 1;
        }
        assert_eq!(len, CHUNK);
    }

    #[test]
    fn numbers_come_again_and_all_is_given_back() {
        let mut slab = Slab::<Box<usize>>::default();
        let ids: Vec<u32> = (0..3000).map(|i| slab.put(Box::new(i))).collect();
        assert!(ids.iter().enumerate().all(|(i, &id)| **slab.get(id) == i));
        let full = slab.bytes();
        assert!((0..3000).step_by(2).all(|i| slab.take(ids[i]).is_some()));
        assert!(slab.take(ids[0]).is_none());
        let again: Vec<u32> = (0..1500).map(|i| slab.put(Box::new(i + 9000))).collect();
        assert!(slab.bytes() - full <= 1500 * 4 * 2);
        assert!(
            again
                .iter()
                .enumerate()
                .all(|(i, &id)| **slab.get(id) == i + 9000)
        );
        (1..3000)
            .step_by(2)
            .for_each(|i| assert_eq!(slab.take(ids[i]).as_deref(), Some(&i)));
        again
            .iter()
            .for_each(|&id| assert!(slab.take(id).is_some()));
        assert_eq!(slab.bytes(), 0);
    }
}
