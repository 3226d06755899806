//! The memory goes to hot records or to cold pages, whichever of them is missed.

mod common;

use std::sync::Arc;

use common::{Rng, Tree, new_context, one_tier, two_tiers};
use terrace_access::Window;
use terrace_pages::WHOLE_SHARE;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

const KEYS: u64 = 6000;
const MEMORY: u64 = 1 << 20;

fn key(i: u64) -> [u8; 8] {
    i.to_be_bytes()
}

fn filled(structure: &dyn Structure, keys: u64) {
    for i in 0..keys {
        structure
            .write(&key(i), Change::Put(&[i as u8; 150]), None, &mut || ())
            .unwrap();
    }
}

/// What the demotion thread does, in steps: there is no thread here.
fn rounds(context: &Arc<TierContext>, tree: &Tree) {
    context.adapt_share();
    while context.store.hot_frames() > context.store.hot_cap() {
        tree.sweep_once().unwrap();
    }
}

fn scan(structure: &dyn Structure, rng: &mut Rng, keys: u64) {
    let mut window = Window::new();
    structure
        .scan_up(&key(rng.below(keys)), &mut window)
        .unwrap();
}

#[test]
fn scans_that_come_again_get_memory_for_pages_and_gets_take_it_back() {
    let disk = SimDisk::new(3);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers(&context, &TierOptions::default());
    filled(&*tree, KEYS);
    let store = &context.store;
    assert_eq!(store.hot_share(), WHOLE_SHARE);
    let most = store.hot_cap();

    let mut rng = Rng(1);
    for _ in 0..20_000 {
        scan(&*tree, &mut rng, KEYS / 2);
        rounds(&context, &tree);
    }
    let (share, cap) = (store.hot_share(), store.hot_cap());
    assert!(
        share < WHOLE_SHARE * 2 / 3,
        "{share} per mille are left to hot records"
    );
    assert!(
        cap < most * 2 / 3 && store.hot_frames() <= cap,
        "{cap} of {most}"
    );
    let reads = store.stats().page_reads;
    (0..1000).for_each(|_| scan(&*tree, &mut rng, KEYS / 2));
    let reads = store.stats().page_reads - reads;
    assert!(
        reads < 300,
        "{reads} page reads in 1000 scans of what fits in memory"
    );

    let mut value = Vec::new();
    for _ in 0..30_000 {
        tree.get(&key(rng.below(KEYS)), &mut value).unwrap();
        rounds(&context, &tree);
    }
    let share = store.hot_share();
    assert!(share > WHOLE_SHARE * 9 / 10, "{share} per mille");
}

#[test]
fn reading_everything_once_takes_nothing_from_hot_records() {
    let disk = SimDisk::new(4);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers(&context, &TierOptions::default());
    // Far more than fits, or what the loading has thrown out would be asked for again.
    filled(&*tree, 10 * KEYS);
    let (mut from, mut window) = (Vec::new(), Window::new());
    loop {
        tree.scan_up(&from, &mut window).unwrap();
        rounds(&context, &tree);
        match window.high.take() {
            Some(high) => from = high,
            None => break,
        }
    }
    let share = context.store.hot_share();
    assert!(share > WHOLE_SHARE * 9 / 10, "{share} per mille");
}

#[test]
fn a_structure_with_one_tier_gets_memory_beside_one_with_two() {
    let disk = SimDisk::new(5);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers(&context, &TierOptions::default());
    let plain = one_tier::<terrace_methods::BTree>(&context);
    filled(&*tree, KEYS);
    filled(&*plain, KEYS);
    let (mut rng, mut value) = (Rng(2), Vec::new());
    for _ in 0..30_000 {
        plain.get(&key(rng.below(KEYS / 2)), &mut value).unwrap();
        rounds(&context, &tree);
    }
    let share = context.store.hot_share();
    assert!(
        share < WHOLE_SHARE * 2 / 3,
        "{share} per mille are left to hot records"
    );
}
