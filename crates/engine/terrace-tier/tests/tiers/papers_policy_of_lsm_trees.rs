//! What the paper's policy for LSM-trees lets in, lets stay and writes down.

use std::sync::Arc;

use crate::common::*;
use terrace_access::{AccessMethod, Touch};
use terrace_pages::WHOLE_SHARE;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierContext, TierOptions};

const PAGE_BYTES: usize = 4096;
const RECORDS: u32 = 4000;
const VALUE: [u8; 100] = [7; 100];

struct Bed {
    context: Arc<TierContext>,
    tree: Arc<Two<Lsm>>,
}

fn key(n: u32) -> [u8; 4] {
    n.to_be_bytes()
}

impl Bed {
    /// All records are below.
    fn new(rates: Rates, early: bool) -> Bed {
        let options = BiLsmOptions {
            rates,
            early,
            control: None,
            ..BiLsmOptions::default()
        };
        Bed::with(papers(options))
    }

    fn with(options: TierOptions) -> Bed {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, 2 << 20, PAGE_BYTES);
        let tree = two_tiers::<Lsm>(&context, &options);
        let bed = Bed { context, tree };
        (0..RECORDS).for_each(|n| bed.put(n));
        bed.flush_all();
        assert_eq!(bed.hot(0..RECORDS), 0);
        // Below the top, which counts as no depth.
        let mut from = Some(Vec::new());
        while let Some(next) = from {
            from = bed.tree.compact_step(&next, 1.0).unwrap();
        }
        assert_eq!(bed.tree.merge_figures().unwrap().top_leaves, 1);
        bed
    }

    fn put(&self, n: u32) {
        let done = self
            .tree
            .write(&key(n), Change::Put(&VALUE), None, &mut || ());
        assert!(done.unwrap());
    }

    fn get(&self, n: u32) {
        let mut value = Vec::new();
        assert!(self.tree.get(&key(n), &mut value).unwrap());
        assert_eq!(value, VALUE);
    }

    /// How many of them are above.
    fn hot(&self, of: impl Iterator<Item = u32>) -> usize {
        let hot = self.tree.hot().unwrap();
        let is_hot = |n: &u32| {
            let found = hot.try_get(&key(*n), Touch::No, &mut Vec::new());
            found.unwrap().is_some()
        };
        of.filter(is_hot).count()
    }

    /// The hand comes by every leaf once: where it began.
    fn flush_all(&self) {
        let leaves = self.context.store.hot_frames();
        for _ in 0..leaves.max(2) {
            assert!(self.tree.sweep_once().unwrap());
        }
    }

    fn arrived(&self) -> u64 {
        self.tree.merge_figures().unwrap().arrived_bytes
    }
}

const EACH: u64 = 104;

#[test]
fn without_promotion_nothing_comes_up() {
    let bed = Bed::new(Rates::Never, true);
    for _ in 0..3 {
        (0..RECORDS).for_each(|n| bed.get(n));
    }
    assert_eq!(bed.hot(0..RECORDS), 0);
    assert_eq!(bed.tree.stats().promotions, 0);
}

#[test]
fn what_comes_up_goes_down_again_as_a_write_does() {
    let bed = Bed::new(Rates::All, false);
    let before = bed.arrived();
    (0..20).for_each(|n| bed.get(n * 100));
    assert_eq!(bed.hot(0..RECORDS), 20);
    // Whether or not it was used again.
    (0..10).for_each(|n| bed.get(n * 100));
    bed.flush_all();
    assert_eq!(bed.hot(0..RECORDS), 0);
    assert_eq!(bed.arrived() - before, 20 * EACH);
    (0..RECORDS).for_each(|n| bed.get(n));
}

#[test]
fn what_was_used_stays_once_half_of_it_at_most() {
    let bed = Bed::new(Rates::All, true);
    let before = bed.arrived();
    // All of one leaf.
    (0..20).for_each(|n| bed.get(n));
    (0..6).for_each(|n| bed.get(n));
    bed.tree.sweep_once().unwrap();
    assert_eq!((bed.hot(0..6), bed.hot(6..20)), (6, 0));
    assert_eq!(bed.arrived() - before, 14 * EACH);
    // It has to be used again.
    bed.flush_all();
    assert_eq!(bed.hot(0..20), 0);
    assert_eq!(bed.arrived() - before, 20 * EACH);
    // What has just come down lies above all levels, and does not come up from there.
    (0..20).for_each(|n| bed.get(n));
    assert_eq!(bed.hot(0..20), 0);
    (1000..1020).for_each(|n| bed.get(n));
    (1000..1020).for_each(|n| bed.get(n));
    bed.tree.sweep_once().unwrap();
    assert_eq!(bed.hot(1000..1020), 10);
}

/// What a user wrote goes down however often it is read.
#[test]
fn what_was_written_does_not_stay() {
    let bed = Bed::new(Rates::Exponential, true);
    for _ in 0..3 {
        (0..20).for_each(|n| bed.put(n));
        (0..5).for_each(|_| (0..20).for_each(|n| bed.get(n)));
    }
    bed.flush_all();
    assert_eq!(bed.hot(0..20), 0);
}

#[test]
fn the_memtable_has_its_share_whatever_is_missed() {
    let bed = Bed::new(Rates::All, true);
    let store = &bed.context.store;
    let cap = store.hot_cap();
    assert!(
        store.hot_share() < WHOLE_SHARE && cap <= store.frames() / 15,
        "{cap}"
    );
    for _ in 0..10 {
        for n in 0..RECORDS {
            bed.get(n);
            // Promotions do not wait for free space on the disk.
            drop(store.enter().unwrap());
        }
        bed.context.adapt_share();
        assert_eq!(store.hot_cap(), cap);
    }
    // There was not enough room for all, and whoever read made some.
    assert!(bed.tree.stats().promotions > u64::from(RECORDS));
    assert!(
        store.hot_frames() <= cap + 8,
        "{} {cap}",
        store.hot_frames()
    );
}
