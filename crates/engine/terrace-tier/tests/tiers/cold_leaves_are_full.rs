//! How full the pages are that the sweep leaves behind.

use std::sync::Arc;

use crate::common::{BTree, Rows, new_context, two_tiers};
use terrace_sim::SimDisk;
use terrace_tier::policy::Sampled;
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

/// Short rows that came in any order and went down, of which the index is the larger part: how full the
/// pages are then, and once all rows were read a few times.
fn fill_of_rows(options: &TierOptions) -> (f64, f64) {
    let disk = SimDisk::new(9);
    let context = new_context(&disk, 1700 << 10, 4096);
    let rows = two_tiers::<Rows>(&context, options);
    let records = 60_000u32;
    let key = |i: u32| i.wrapping_mul(0x9E37_79B1).to_be_bytes();
    for i in 0..records {
        let put = Change::Put(&[7; 4]);
        rows.write(&key(i), put, None, &mut || ()).unwrap();
    }
    for _ in 0..1000 {
        rows.sweep_once().unwrap();
    }
    // A slot, a key and a location above; a slot, two lengths, a key and a value below.
    let least = f64::from(records) * (4.0 + 2.0 + 2.0 + 7.0 + 4.0 + 2.0 + 4.0 + 4.0) / 4096.0;
    let store = &context.store;
    let fill = || least / (store.live_pages() - store.hot_frames()) as f64;
    let loaded = fill();
    let mut value = Vec::new();
    for i in 0..15 * records {
        assert!(rows.get(&key(i * 7 % records), &mut value).unwrap());
        if i % 16 == 0 {
            context.tend().unwrap();
        }
    }
    (loaded, fill())
}

#[test]
fn leaves_of_an_index_are_full_once_the_hand_has_looked() {
    let (loaded, looked) = fill_of_rows(&TierOptions::default());
    // Loading alone comes to 0.794, since emptied leaves are joined with full ones.
    assert!(loaded > 0.75 && looked > 0.80, "{loaded}, then {looked}");
    // Who never looks closes them up when he makes room.
    let paper = TierOptions {
        policy: Arc::new(Sampled::default()),
        ..TierOptions::default()
    };
    let (closed, _) = fill_of_rows(&paper);
    assert!(closed > 0.82, "{loaded}, and then {closed}");
}
