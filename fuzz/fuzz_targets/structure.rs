//! A whole structure in a store, a few bytes of whose pages are others than they were: whatever is asked of
//! it ends, and ends in an answer or an error.
#![no_main]

use std::sync::OnceLock;
use terrace_fuzz::damaged::{Image, drive, heap, table, tree};
use terrace_methods::{BTree, HashTable, Heap};
use terrace_pages::Class;

static IMAGES: OnceLock<[Image; 3]> = OnceLock::new();

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let Some((&which, edits)) = bytes.split_first() else {
        return;
    };
    let images = IMAGES.get_or_init(|| [tree(), table(), heap()]);
    match which % 3 {
        0 => drive(&images[0], edits, |store, root| {
            BTree::open(store, root, Class::Hot)
        }),
        1 => drive(&images[1], edits, |store, root| {
            HashTable::open(store, root, Class::Hot)
        }),
        _ => drive(&images[2], edits, |store, root| {
            Heap::open(store, root, Class::Hot)
        }),
    }
});
