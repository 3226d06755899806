//! The memory goes to hot records or to cold pages, whichever of them is missed.

use std::sync::Arc;

use crate::common::{
    BTree, HashTable, Heap, Method, Rng, Rows, Tree, Two, checkpoint, new_context, one_tier,
    reopen, reopened, two_tiers,
};
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
    let tree = two_tiers::<BTree>(&context, &TierOptions::default());
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
    let tree = two_tiers::<BTree>(&context, &TierOptions::default());
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
fn a_compaction_takes_nothing_from_hot_records_however_often_it_comes() {
    let disk = SimDisk::new(6);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers::<BTree>(&context, &TierOptions::default());
    filled(&*tree, KEYS);
    // What a round reads has left memory in the round before.
    for _ in 0..20 {
        let mut from = Some(Vec::new());
        while let Some(at) = from {
            from = tree.compact_step(&at, 0.95).unwrap();
            rounds(&context, &tree);
        }
    }
    assert_eq!(context.store.hot_share(), WHOLE_SHARE);
}

#[test]
fn a_structure_with_one_tier_gets_memory_beside_one_with_two() {
    let disk = SimDisk::new(5);
    let context = new_context(&disk, MEMORY, 4096);
    let tree = two_tiers::<BTree>(&context, &TierOptions::default());
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

#[test]
fn a_hot_tier_opened_with_less_memory_shrinks_to_its_cap() {
    it_shrinks::<BTree>();
    it_shrinks::<HashTable>();
    it_shrinks::<Heap>();
    it_shrinks::<Rows>();
}

/// Many of its pages are not in memory then, those that must be changed for others to go among them.
fn it_shrinks<M: Method>() {
    let disk = SimDisk::new(8);
    let context = new_context(&disk, 3 * MEMORY, 4096);
    let before: Arc<Two<M>> = two_tiers::<M>(&context, &TierOptions::default());
    filled(&*before, 2 * KEYS);
    checkpoint(&context.store);
    let (roots, many) = (before.roots(), context.store.hot_frames());
    drop((before, context));
    let context = reopened(&disk, MEMORY);
    let after: Arc<Two<M>> = reopen::<M>(&context, roots, &TierOptions::default());
    let mut value = Vec::new();
    let mut rng = Rng(3);
    // Hot pages come in one after the other, as records on them are asked for.
    for _ in 0..4 * KEYS {
        assert!(after.get(&key(rng.below(2 * KEYS)), &mut value).unwrap());
    }
    let (hot, cap) = (context.store.hot_frames(), context.store.hot_cap());
    assert!(
        hot > cap,
        "{hot} hot pages of {cap} before anything was done"
    );
    let mut rounds = 0;
    while context.store.hot_frames() > context.store.hot_cap() {
        assert!(
            rounds < 100,
            "{} hot pages still",
            context.store.hot_frames()
        );
        context.tend().unwrap();
        rounds += 1;
    }
    for _ in 0..20_000 {
        assert!(after.get(&key(rng.below(2 * KEYS)), &mut value).unwrap());
        context.tend().unwrap();
    }
    let (hot, cap) = (context.store.hot_frames(), context.store.hot_cap());
    assert!(many > 2 * cap && hot <= cap, "{hot} hot pages of {cap}");
    // And it is in use.
    let hits = after.stats().hot_hits;
    for _ in 0..2_000 {
        after.get(&key(rng.below(2 * KEYS)), &mut value).unwrap();
    }
    assert!(after.stats().hot_hits > hits + 200);
}

/// A heap with a hot tier, and reads of these records, in any order, so often.
fn used<M: Method>(rounds: u64, pick: &mut dyn FnMut(&mut Rng) -> u64) -> (Arc<TierContext>, f64) {
    let disk = SimDisk::new(5);
    let context = new_context(&disk, 2 * MEMORY, 4096);
    let rows = two_tiers::<M>(&context, &TierOptions::default());
    filled(&*rows, 4 * KEYS);
    // Nothing of the load stays but in the cold tier.
    for _ in 0..1_000 {
        rows.sweep_once().unwrap();
    }
    let mut rng = Rng(2);
    let mut value = Vec::new();
    let mut last = 0;
    for n in 0..rounds {
        if n == rounds - rounds / 10 {
            last = rows.stats().hot_hits;
        }
        assert!(rows.get(&key(pick(&mut rng)), &mut value).unwrap());
        if n % 16 == 0 {
            context.tend().unwrap();
        }
    }
    let hits = rows.stats().hot_hits - last;
    (context.clone(), hits as f64 / (rounds / 10) as f64)
}

#[test]
fn the_leaves_that_lead_to_cold_rows_get_memory_if_they_are_worth_it() {
    they_get_memory::<Heap>();
    they_get_memory::<Rows>();
}

fn they_get_memory<M: Method>() {
    // All rows alike: a leaf of the index leads to ten times as many as a page has.
    let (context, _) = used::<M>(300_000, &mut |rng| rng.below(4 * KEYS));
    let store = &context.store;
    let (leaves, frames) = (store.inner_frames(), store.frames());
    let kept = store.inner_kept();
    assert!(
        leaves > frames / 6 && kept > Some(frames / 6),
        "{leaves} leaves on {frames} frames, {kept:?} set aside"
    );
    // Who opens the database again begins with what was learnt, unless memory is too small for it.
    let again = new_context(&SimDisk::new(6), 2 * MEMORY, 4096);
    again.recall(&context.learnt());
    assert_eq!(again.store.inner_kept(), kept);
    again.recall(&[0xFF; 40]);
    let (kept, share) = (again.store.inner_kept(), again.store.hot_share());
    assert!(
        kept <= Some(frames / 2) && share <= WHOLE_SHARE,
        "{kept:?}, {share}"
    );
    // A fifth of the rows alone: they fit, and no reader asks for what the index leads to.
    let (context, hits) = used::<M>(1_000_000, &mut |rng| rng.below(4 * KEYS / 5) * 5);
    let kept = context.store.inner_kept().unwrap_or(0);
    assert!(
        hits > 0.95,
        "{hits} of the reads were answered, {kept} kept"
    );
}
