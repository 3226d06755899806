//! Arrays in a memory: a store hands out blocks of any length, and takes them back.
//!
//! Kept true: a [`Block`] is the only owner of its values, as a boxed slice is. If the highest bit
//! of its length is set, its bytes come from a store, and a [`Head`] lies before them that says
//! from which; the store lives as long as one of its blocks does. Otherwise it is a boxed slice.

use crate::error::PlacementError;
use crate::memory::{Memory, PAGE, Region, Source};
use crate::sync_std;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

/// Addresses that a store reserves, if it can: no bytes.
const RESERVED: usize = if cfg!(any(not(target_os = "linux"), miri)) {
    4 << 20
} else {
    1 << 40
};
/// Fewer are not worth a store.
const LEAST: usize = 1 << 20;
/// What a block of a store begins at a multiple of, in bytes: a line of the cache, as its head is.
const ALIGN: usize = 64;
/// The smallest piece, with its head.
const SMALLEST: usize = 128;
/// Pieces up to this many bytes share an extent with others of their size.
const SHARED: usize = 64 << 10;

/// Before the bytes of a block.
#[repr(C, align(64))]
struct Head {
    /// A strong count of the store, as a pointer.
    store: *const Bytes,
    extent: u32,
    piece: u32,
}

/// Pieces of one size, which get and lose their memory together.
#[derive(Debug)]
struct Extent {
    offset: usize,
    len: usize,
    size: usize,
    free: Vec<u32>,
    fresh: u32,
    place: u64,
    /// It has no memory, and its number may be used again.
    gone: bool,
}

impl Extent {
    fn pieces(&self) -> u32 {
        (self.len / self.size) as u32
    }

    fn has_room(&self) -> bool {
        !self.free.is_empty() || self.fresh < self.pieces()
    }

    fn is_empty(&self) -> bool {
        self.free.len() == self.fresh as usize
    }
}

#[derive(Debug, Default)]
struct Extents {
    all: Vec<Extent>,
    /// Numbers of extents that are gone.
    numbers: Vec<u32>,
    /// By size, extents with room.
    room: BTreeMap<usize, BTreeSet<u32>>,
    /// Addresses that were given back, by length.
    holes: BTreeMap<usize, Vec<usize>>,
    /// Addresses from here on were never used.
    end: usize,
}

#[derive(Debug)]
struct Bytes {
    region: Region,
    reserved: usize,
    source: Source,
    extents: Mutex<Extents>,
    live: AtomicU64,
    committed: AtomicU64,
}

/// Where blocks of one memory come from. A clone is the same store.
#[derive(Clone)]
pub struct Store(Arc<Bytes>);

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store")
            .field("live", &self.live())
            .field("committed", &self.committed())
            .finish_non_exhaustive()
    }
}

/// The length of the pieces that have room for this many bytes: multiples of an eighth of an
/// octave.
fn piece_size(bytes: usize) -> usize {
    let least = bytes.max(SMALLEST);
    let step = (1 << (least - 1).ilog2() >> 3).max(ALIGN);
    least.next_multiple_of(step)
}

impl Store {
    /// Opens a memory.
    ///
    /// # Errors
    /// As for [`Placement`](crate::Placement): there is no such memory, or it is refused.
    pub fn open(memory: &Memory) -> Result<Store, PlacementError> {
        let source = Source::open(memory)?;
        let mut reserved = RESERVED;
        let region = loop {
            match Region::reserve(reserved) {
                Ok(region) => break region,
                Err(_) if reserved > LEAST => reserved /= 2,
                Err(error) => return Err(error),
            }
        };
        let store = Store(Arc::new(Bytes {
            region,
            reserved,
            source,
            extents: Mutex::default(),
            live: AtomicU64::new(0),
            committed: AtomicU64::new(0),
        }));
        // What is refused shows now and not when the first block is wanted.
        drop(store.keep(vec![0u64]).map_err(|refused| refused.1)?);
        Ok(store)
    }

    /// Moves values into this memory. Those whose alignment is above 64 bytes, or that have no
    /// bytes, stay on the heap.
    ///
    /// # Errors
    /// There is no memory; the values come back, with the reason.
    pub fn keep<T>(&self, vals: Vec<T>) -> Result<Block<T>, (Vec<T>, PlacementError)> {
        let bytes = size_of_val(&*vals);
        if bytes == 0 || align_of::<T>() > ALIGN {
            return Ok(vals.into());
        }
        match self.0.take(bytes + size_of::<Head>()) {
            Ok((at, extent, piece)) => {
                let head = Head {
                    store: Arc::into_raw(Arc::clone(&self.0)),
                    extent,
                    piece,
                };
                let mut vals = ManuallyDrop::new(vals);
                // SAFETY: the piece is ours alone, has room for head and values, and begins at a
                // multiple of 64; the values move, since the vector is not dropped with them.
                let first = unsafe {
                    at.cast::<Head>().write(head);
                    let first = at.add(size_of::<Head>()).cast::<T>();
                    first.copy_from_nonoverlapping(vals.as_ptr(), vals.len());
                    first
                };
                let len = vals.len() | IN_STORE;
                // SAFETY: what is left of the vector is its allocation, without values.
                unsafe {
                    vals.set_len(0);
                    ManuallyDrop::drop(&mut vals);
                }
                // SAFETY: an address within a mapping is not null.
                let first = unsafe { NonNull::new_unchecked(first) };
                Ok(Block { first, len })
            }
            Err(error) => Err((vals, error)),
        }
    }

    /// Bytes of pieces that blocks have.
    pub fn live(&self) -> u64 {
        self.0.live.load(Relaxed)
    }

    /// Bytes that the memory was asked for.
    pub fn committed(&self) -> u64 {
        self.0.committed.load(Relaxed)
    }
}

impl Bytes {
    /// Takes a piece of at least this many bytes: where it begins, its extent and its number there.
    fn take(&self, bytes: usize) -> Result<(*mut u8, u32, u32), PlacementError> {
        let size = piece_size(bytes);
        let extents = &mut *sync_std(&self.extents);
        let number = match extents.room.get(&size).and_then(BTreeSet::first) {
            Some(number) => *number,
            None => self.grow(extents, size)?,
        };
        let extent = &mut extents.all[number as usize];
        let piece = extent.free.pop().unwrap_or_else(|| {
            extent.fresh += 1;
            extent.fresh - 1
        });
        if !extent.has_room()
            && let Some(room) = extents.room.get_mut(&size)
        {
            room.remove(&number);
        }
        self.live.fetch_add(size as u64, Relaxed);
        let offset = extent.offset + piece as usize * size;
        Ok((self.region.base().wrapping_add(offset), number, piece))
    }

    /// A new extent of pieces of this size.
    fn grow(&self, extents: &mut Extents, size: usize) -> Result<u32, PlacementError> {
        let least = if size <= SHARED / 8 {
            SHARED
        } else if size <= SHARED {
            4 * SHARED
        } else {
            size
        };
        let len = least.next_multiple_of(self.source.grain().max(PAGE));
        let hole = extents.holes.get_mut(&len).and_then(Vec::pop);
        let offset = match hole {
            Some(offset) => offset,
            None if extents.end + len <= self.reserved => {
                extents.end += len;
                extents.end - len
            }
            None => {
                return Err(PlacementError::NoAddressSpace {
                    bytes: len,
                    error: std::io::ErrorKind::OutOfMemory.into(),
                });
            }
        };
        let place = match self.region.commit(offset, len, &self.source) {
            Ok(place) => place,
            Err(error) => {
                extents.holes.entry(len).or_default().push(offset);
                return Err(error);
            }
        };
        self.committed.fetch_add(len as u64, Relaxed);
        let extent = Extent {
            offset,
            len,
            size,
            free: vec![],
            fresh: 0,
            place,
            gone: false,
        };
        let number = match extents.numbers.pop() {
            Some(number) => {
                extents.all[number as usize] = extent;
                number
            }
            None => {
                extents.all.push(extent);
                extents.all.len() as u32 - 1
            }
        };
        extents.room.entry(size).or_default().insert(number);
        Ok(number)
    }

    /// Gives a piece back. An extent without blocks loses its memory, unless it is the only one
    /// with room for pieces of a size that others share.
    fn give(&self, number: u32, piece: u32) {
        let extents = &mut *sync_std(&self.extents);
        let extent = &mut extents.all[number as usize];
        debug_assert!(
            !extent.gone && piece < extent.fresh && !extent.free.contains(&piece),
            "a piece is given back twice"
        );
        extent.free.push(piece);
        self.live.fetch_sub(extent.size as u64, Relaxed);
        let room = extents.room.entry(extent.size).or_default();
        room.insert(number);
        if extent.is_empty() && (room.len() > 1 || extent.size > SHARED) {
            room.remove(&number);
            extent.gone = true;
            extent.free = vec![];
            self.region
                .release(extent.offset, extent.len, &self.source, extent.place);
            self.committed.fetch_sub(extent.len as u64, Relaxed);
            let (offset, len) = (extent.offset, extent.len);
            extents.holes.entry(len).or_default().push(offset);
            extents.numbers.push(number);
        }
    }
}

/// Set in the length of a block whose bytes come from a store.
const IN_STORE: usize = 1 << (usize::BITS - 1);

/// A boxed slice in a memory, two words long as a `Box<[T]>` is.
pub struct Block<T> {
    first: NonNull<T>,
    len: usize,
}

// SAFETY: a block owns its values, as a boxed slice does; the store is under its own lock.
unsafe impl<T: Send> Send for Block<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Block<T> {}

impl<T> Block<T> {
    /// Whether its bytes come from a store.
    pub fn is_in_store(&self) -> bool {
        self.len & IN_STORE != 0
    }

    /// Bytes that it takes where it lies, with what rounding adds.
    pub fn footprint(&self) -> usize {
        let bytes = size_of_val(&**self);
        match self.is_in_store() {
            true => piece_size(bytes + size_of::<Head>()),
            false => bytes,
        }
    }

    /// Ends the block without dropping its values, and frees its bytes.
    fn free(first: NonNull<T>, len: usize) {
        if len & IN_STORE == 0 {
            let slice = NonNull::slice_from_raw_parts(first.cast::<ManuallyDrop<T>>(), len);
            // SAFETY: it was made from a boxed slice of this length, whose values are gone.
            drop(unsafe { Box::from_raw(slice.as_ptr()) });
            return;
        }
        // SAFETY: a head lies before the values of a block of a store; it has a strong count,
        // which is taken back here, once.
        let (store, extent, piece) = unsafe {
            let head = first.as_ptr().cast::<u8>().sub(size_of::<Head>());
            let Head {
                store,
                extent,
                piece,
            } = head.cast::<Head>().read();
            (Arc::from_raw(store), extent, piece)
        };
        store.give(extent, piece);
    }
}

impl<T> Deref for Block<T> {
    type Target = [T];

    #[inline(always)]
    fn deref(&self) -> &[T] {
        // SAFETY: this many values begin there, and are this block's.
        unsafe { std::slice::from_raw_parts(self.first.as_ptr(), self.len & !IN_STORE) }
    }
}

impl<T> DerefMut for Block<T> {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above; `&mut self` excludes all others.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len & !IN_STORE) }
    }
}

impl<T> Drop for Block<T> {
    fn drop(&mut self) {
        /// Frees the bytes also where the drop of a value panics.
        struct Bytes<T>(NonNull<T>, usize);
        impl<T> Drop for Bytes<T> {
            fn drop(&mut self) {
                Block::free(self.0, self.1);
            }
        }
        let _bytes = Bytes(self.first, self.len);
        // SAFETY: the values are this block's, and no code uses them again.
        unsafe { std::ptr::drop_in_place::<[T]>(&mut **self) };
    }
}

impl<T> From<Box<[T]>> for Block<T> {
    fn from(vals: Box<[T]>) -> Self {
        let len = vals.len();
        // More than half of all addresses is only what has no bytes.
        assert!(len & IN_STORE == 0, "a length that memory can have");
        let first = NonNull::from(Box::leak(vals)).cast::<T>();
        Block { first, len }
    }
}

impl<T> From<Vec<T>> for Block<T> {
    fn from(vals: Vec<T>) -> Self {
        vals.into_boxed_slice().into()
    }
}

impl<T> From<Block<T>> for Vec<T> {
    fn from(block: Block<T>) -> Self {
        let block = ManuallyDrop::new(block);
        let (first, len) = (block.first, block.len & !IN_STORE);
        if !block.is_in_store() {
            let slice = NonNull::slice_from_raw_parts(first, len);
            // SAFETY: it was made from a boxed slice of this length, and the block is not dropped.
            return unsafe { Box::from_raw(slice.as_ptr()) }.into_vec();
        }
        let mut vals = Vec::with_capacity(len);
        // SAFETY: the values move: the block is not dropped, and its bytes are freed below.
        unsafe {
            first
                .as_ptr()
                .copy_to_nonoverlapping(vals.as_mut_ptr(), len);
            vals.set_len(len);
        }
        Block::free(first, block.len);
        vals
    }
}

impl<T> FromIterator<T> for Block<T> {
    fn from_iter<I: IntoIterator<Item = T>>(vals: I) -> Self {
        vals.into_iter().collect::<Vec<T>>().into()
    }
}

impl<T> Default for Block<T> {
    fn default() -> Self {
        Vec::new().into()
    }
}

impl<T: fmt::Debug> fmt::Debug for Block<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::rc::Rc;

    fn store() -> Store {
        Store::open(&Memory::Heap).unwrap()
    }

    #[test]
    fn a_block_is_as_long_as_a_boxed_slice() {
        assert_eq!(size_of::<Block<u64>>(), size_of::<Box<[u64]>>());
    }

    #[test]
    fn each_value_is_dropped_once_wherever_it_lies() {
        let (store, token) = (store(), Rc::new(7));
        for kept in [false, true] {
            for taken in [false, true] {
                let vals = vec![Rc::clone(&token); 100];
                let block = match kept {
                    true => store.keep(vals).unwrap(),
                    false => vals.into(),
                };
                assert_eq!((block.is_in_store(), block.len()), (kept, 100));
                assert!(block.iter().all(|val| **val == 7));
                assert_eq!(store.live() > 0, kept);
                if taken {
                    let vals = Vec::from(block);
                    assert_eq!((vals.len(), Rc::strong_count(&token)), (100, 101));
                } else {
                    drop(block);
                }
                assert_eq!((Rc::strong_count(&token), store.live()), (1, 0));
            }
        }
    }

    #[test]
    fn a_store_lives_as_long_as_its_blocks() {
        let mut block = store().keep((0..1000u64).collect()).unwrap();
        block[7] = 1;
        assert_eq!((block[7], block[999]), (1, 999));
    }

    #[test]
    fn what_has_no_bytes_or_large_alignment_stays_on_the_heap() {
        #[derive(Clone, Debug)]
        #[repr(align(128))]
        struct Line([u8; 128]);
        let store = store();
        assert!(!store.keep(vec![(); 9]).unwrap().is_in_store());
        assert_eq!(store.keep(vec![(); 9]).unwrap().len(), 9);
        let lines = store.keep(vec![Line([3; 128]); 9]).unwrap();
        assert!(!lines.is_in_store() && lines.iter().all(|line| line.0 == [3; 128]));
    }

    #[test]
    fn memory_of_extents_without_blocks_is_given_back() {
        let store = store();
        for n in [10, 1000, 20_000] {
            let blocks: Vec<_> = (0..30).map(|_| store.keep(vec![n; n]).unwrap()).collect();
            assert!(store.committed() >= store.live() && store.live() >= 30 * 4 * n as u64);
            drop(blocks);
            assert_eq!(store.live(), 0);
        }
        // One extent of each size that is shared.
        assert!(store.committed() <= 5 * SHARED as u64 + (64 << 10) + 8 * SHARED as u64);
    }

    #[cfg(all(target_os = "linux", not(miri)))]
    #[test]
    fn files_and_memory_files_hold_blocks() {
        let dir = std::env::temp_dir().join(format!("terrace-block-{}", std::process::id()));
        for memory in [Memory::Memfd { huge: false }, Memory::File(dir)] {
            let store = Store::open(&memory).unwrap();
            let blocks: Vec<Block<u64>> = (1..40)
                .map(|n| store.keep(vec![n; 300 * n as usize]).unwrap())
                .collect();
            for (block, n) in blocks.iter().zip(1..) {
                assert!(block.is_in_store() && block.iter().all(|val| *val == n));
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 64 }))]
        #[test]
        fn blocks_never_overlap(steps in prop::collection::vec((1usize..3000, any::<bool>(), any::<prop::sample::Index>()), 1..200)) {
            let store = store();
            let mut held: Vec<(u64, Block<u64>)> = vec![];
            for (i, (len, back, which)) in steps.into_iter().enumerate() {
                if back && !held.is_empty() {
                    let (n, block) = held.swap_remove(which.index(held.len()));
                    prop_assert!(block.iter().all(|val| *val == n));
                } else if let Ok(block) = store.keep(vec![i as u64; len]) {
                    held.push((i as u64, block));
                }
                let sum: usize = held.iter().map(|(_, block)| block.footprint()).sum();
                prop_assert_eq!(store.live(), sum as u64);
            }
            for (n, block) in held {
                prop_assert!(block.iter().all(|val| *val == n));
            }
            prop_assert_eq!(store.live(), 0);
        }
    }
}
