//! How full the pages are that the sweep leaves behind.

mod common;

use common::{BTree, new_context, two_tiers};
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierOptions};

#[test]
fn a_load_in_any_order_leaves_full_cold_leaves() {
    let disk = SimDisk::new(9);
    let context = new_context(&disk, 1 << 20, 4096);
    let tree = two_tiers::<BTree>(&context, &TierOptions::default());
    let records = 30_000u32;
    for i in 0..records {
        let key = i.wrapping_mul(0x9E37_79B1).to_be_bytes();
        let put = Change::Put(&[7; 100]);
        tree.write(&key, put, None, &mut || ()).unwrap();
    }
    // All of it goes down, in the order of the keys.
    for _ in 0..1000 {
        tree.sweep_once().unwrap();
    }
    let pages = context.store.live_pages();
    // Slot, two lengths, what a key does not have in common with its neighbours, and the value.
    let least = u64::from(records) * (4 + 2 + 2 + 100) / 4096;
    let fill = least as f64 / pages as f64;
    assert!(fill > 0.8, "{pages} pages are full to {fill}");
}
