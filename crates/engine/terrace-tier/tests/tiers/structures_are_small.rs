//! What an open structure keeps in memory is little beside the pages of even a small one, so that
//! there can be thousands of them.

use crate::common::*;
use terrace_access::Window;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierOptions};

/// Most bytes that a tree or a hash table may take, most of them for counters.
const MOST: usize = 1856;
/// The same of one beyond those that have many counters, of which there may be thousands.
const MOST_OF_MANY: usize = 960;
/// The same for a heap, which knows besides where its pages have room; 24 of them are for whether its records expire, 16
/// for whether its trees are parts of others, 8 for a saved tree that is made anew, 8 for what of that is loaded.
const MOST_OF_HEAP: usize = 4_432;

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
    let many: Vec<_> = (0..20)
        .map(|_| two_tiers::<BTree>(&context, &options))
        .collect();
    let bytes = many[19].memory_bytes();
    assert!(bytes <= MOST_OF_MANY, "one of many: {bytes} bytes");
}

/// A leaf of a heap's index names many rows, and a window over it holds them all: megabytes of long ones,
/// which are beside the memory that pages get.
#[test]
fn windows_over_long_rows_are_not_kept() {
    let disk = SimDisk::new(1);
    let context = new_context(&disk, 8 << 20, 16384);
    let rest = context.memory_bytes();
    let heap = two_tiers::<Heap>(&context, &TierOptions::default());
    for i in 0..4000u32 {
        heap.write(&i.to_be_bytes(), Change::Put(&[7; 3000]), None, &mut || ())
            .unwrap();
    }
    let mut window = Window::new();
    heap.scan_up(&[], &mut window).unwrap();
    assert!(window.memory_bytes() > 512 << 10, "windows are small here");
    let kept = context.memory_bytes() - rest;
    assert!(kept <= 1 << 20, "{kept} bytes are kept");
}
