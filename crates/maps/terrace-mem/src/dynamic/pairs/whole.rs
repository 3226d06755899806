//! Whole keys of the leaves of a trie: integers in the leaf itself, byte strings in size classes.
//!
//! Drains go in the order of keys and arrivals do not, so that an arena would never run empty: each
//! place is given back on its own, and all of a class when its last key goes.

use super::slab::{Ids, Slab, place};
use crate::family::{ByteFamily, IntFamily, WholeKeys};
use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

/// Integers, each in its leaf.
#[derive(Default)]
pub struct Inline;

impl WholeKeys<IntFamily> for Inline {
    type Handle = u64;
    #[inline]
    fn put(&mut self, key: u64) -> u64 {
        key
    }
    #[inline]
    fn get(&self, handle: &u64) -> u64 {
        *handle
    }
    fn free(&mut self, _: u64) {}
    fn bytes(&self) -> usize {
        0
    }
}

/// Byte strings of up to this many bytes are in classes.
const CLASSED: usize = 256;

/// A number in the class, in two halves, and the length: six bytes, so that a leaf is sixteen.
#[derive(Clone, Copy)]
pub struct At([u16; 3]);

impl At {
    #[inline]
    fn new(id: u32, len: usize) -> Self {
        At([id as u16, (id >> 16) as u16, len as u16])
    }
    #[inline]
    fn id(self) -> u32 {
        u32::from(self.0[0]) | u32::from(self.0[1]) << 16
    }
    #[inline]
    fn len(self) -> usize {
        usize::from(self.0[2])
    }
}

/// The class of a length, and the bytes of its places: by 4 up to 64, then by 16.
#[inline]
fn class(len: usize) -> (usize, usize) {
    if len <= 64 {
        let n = len.div_ceil(4);
        (n, n * 4)
    } else {
        let n = len.div_ceil(16);
        (n + 12, n * 16)
    }
}

/// Places of one size.
#[derive(Default)]
struct Class {
    chunks: Vec<Box<[u8]>>,
    ids: Ids,
    room: usize,
}

/// Byte strings in places of their sizes.
#[derive(Default)]
pub struct Classes {
    classes: Vec<Class>,
    long: Slab<Box<[u8]>>,
    long_bytes: usize,
}

impl WholeKeys<ByteFamily> for Classes {
    type Handle = At;

    fn put(&mut self, key: &[u8]) -> At {
        if key.len() > CLASSED {
            self.long_bytes += key.len();
            return At::new(self.long.put(key.into()), key.len());
        }
        let (class, size) = class(key.len());
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, Class::default);
        }
        let class = &mut self.classes[class];
        let id = class.ids.take();
        let (chunk, at, len) = place(id as usize);
        if chunk == class.chunks.len() {
            class.chunks.push(vec![0; len * size].into());
            class.room += len * size;
        }
        class.chunks[chunk][at * size..][..key.len()].copy_from_slice(key);
        At::new(id, key.len())
    }

    #[inline]
    fn get<'a>(&'a self, handle: &'a At) -> &'a [u8] {
        let len = handle.len();
        if len > CLASSED {
            return self.long.get(handle.id());
        }
        let (class, size) = class(len);
        let (chunk, at, _) = place(handle.id() as usize);
        &self.classes[class].chunks[chunk][at * size..][..len]
    }

    fn free(&mut self, handle: At) {
        if handle.len() > CLASSED {
            self.long_bytes -= handle.len();
            self.long.take(handle.id());
            return;
        }
        let class = &mut self.classes[class(handle.len()).0];
        if class.ids.give(handle.id()) {
            *class = Class::default();
        }
    }

    fn bytes(&self) -> usize {
        let spine = self.classes.capacity() * size_of::<Class>();
        let one = |class: &Class| {
            class.room + class.chunks.capacity() * size_of::<Box<[u8]>>() + class.ids.heap()
        };
        spine + self.classes.iter().map(one).sum::<usize>() + self.long.bytes() + self.long_bytes
    }
}
