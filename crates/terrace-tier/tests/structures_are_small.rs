//! What an open structure keeps in memory is little beside the pages of even a small one, so that
//! there can be thousands of them.

mod common;

use common::*;
use terrace_sim::SimDisk;
use terrace_tier::{Structure, TierOptions};

/// Most bytes that a tree or a hash table may take, most of them for counters.
const MOST: usize = 1600;
/// The same for a heap, which knows besides where its pages have room.
const MOST_OF_HEAP: usize = 4096;

#[test]
fn a_structure_takes_no_more_than_a_small_page() {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, 4 << 20, 4096);
    let options = TierOptions::default();
    let all: [(&str, usize); 6] = [
        (
            "tree, two tiers",
            two_tiers::<BTree>(&context, &options).memory_bytes(),
        ),
        (
            "hash, two tiers",
            two_tiers::<HashTable>(&context, &options).memory_bytes(),
        ),
        (
            "heap, two tiers",
            two_tiers::<Heap>(&context, &options).memory_bytes(),
        ),
        ("tree, one tier", one_tier::<BTree>(&context).memory_bytes()),
        (
            "hash, one tier",
            one_tier::<HashTable>(&context).memory_bytes(),
        ),
        ("heap, one tier", one_tier::<Heap>(&context).memory_bytes()),
    ];
    for (name, bytes) in all {
        eprintln!("{name}: {bytes} bytes");
        let most = if name.starts_with("heap") {
            MOST_OF_HEAP
        } else {
            MOST
        };
        assert!(bytes <= most, "{name}: {bytes} bytes");
    }
}
