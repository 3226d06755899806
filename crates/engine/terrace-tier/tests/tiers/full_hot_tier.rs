//! A hot tier that is full and cannot let anything go does not stop a writer: the change goes to the
//! cold tier. And a full disk loses no page.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::common::*;
use terrace_base::StructureId;
use terrace_pages::Cleaner;
use terrace_sim::SimDisk;
use terrace_tier::{Change, Structure, TierOptions, Tiered};

const MEMORY: u64 = 400 << 10;

fn key(n: u32) -> Vec<u8> {
    format!("key-{n:06}").into_bytes()
}

fn value(n: u32, len: usize) -> Vec<u8> {
    let mut value = n.to_be_bytes().to_vec();
    value.resize(len, 7);
    value
}

fn get<M: Method>(tree: &Two<M>, key: &[u8]) -> Option<Vec<u8>> {
    let mut value = Vec::new();
    tree.get(key, &mut value).unwrap().then_some(value)
}

/// Pages that exist but do not belong to the tree.
fn strange_pages<M: Method>(tree: &Two<M>, store: &terrace_pages::PageStore) -> u64 {
    let mut pages = 0;
    let verified = tree.verify(&mut |_, _, _| Ok(()), &mut |_| {
        pages += 1;
        Ok(())
    });
    verified.unwrap();
    store.live_pages() - pages
}

#[test]
fn a_batch_may_hold_every_lock() {
    batches::<BTree>();
    batches::<HashTable>();
    batches::<Heap>();
    batches::<Rows>();
}

fn batches<M: Method>() {
    for inclusive in [true, false] {
        let disk = SimDisk::new(1);
        let context = new_context(&disk, MEMORY, 4096);
        let _cleaner = Cleaner::start(context.store.clone()).unwrap();
        let options = TierOptions {
            inclusive,
            ..TierOptions::default()
        };
        let tree = two_tiers::<M>(&context, &options);
        let mut map = BTreeMap::new();
        let strange = strange_pages::<M>(&tree, &context.store);
        for n in (0..4000).step_by(2) {
            let len = if n % 500 == 0 { 9000 } else { 90 };
            let (key, value) = (key(n), value(n, len));
            assert!(
                tree.write(&key, Change::Put(&value), None, &mut || ())
                    .unwrap()
            );
            map.insert(key, value);
        }
        let slots = 0..context.locks.memory_bytes() / 8;
        let door = context.store.enter().unwrap();
        let held: Vec<_> = slots.map(|slot| context.locks.lock(slot)).collect();
        for n in 0..3000 {
            let key = key(n * 7 % 4000);
            if n % 11 == 0 {
                tree.apply_locked(&door, &key, Change::Delete).unwrap();
                map.remove(&key);
            } else {
                let value = value(n, if n % 601 == 0 { 7000 } else { 110 });
                tree.apply_locked(&door, &key, Change::Put(&value)).unwrap();
                map.insert(key, value);
            }
        }
        drop(held);
        drop(door);
        for n in 0..4000 {
            let key = key(n);
            assert_eq!(get::<M>(&tree, &key).as_ref(), map.get(&key), "key {n}");
        }
        assert_eq!(strange_pages::<M>(&tree, &context.store), strange);
    }
}

#[test]
fn more_structures_than_hot_frames() {
    many_structures::<BTree>();
    many_structures::<HashTable>();
    many_structures::<Heap>();
    many_structures::<Rows>();
}

fn many_structures<M: Method>() {
    let disk = SimDisk::new(2);
    let context = new_context(&disk, MEMORY, 4096);
    let _cleaner = Cleaner::start(context.store.clone()).unwrap();
    let _demoter = context.start_demoter().unwrap();
    let trees: Vec<Arc<Two<M>>> = (1..200)
        .map(|n| {
            through(&context.store, |door| {
                Tiered::create(&context, StructureId(n), door, TierOptions::default())
            })
        })
        .collect();
    for round in 0..2 {
        for (n, tree) in trees.iter().enumerate() {
            let mut logged = 0;
            for k in 0..3 {
                let value = value(n as u32 + round, if k == 2 { 5000 } else { 50 });
                let mut log = || logged += 1;
                assert!(
                    tree.write(&key(k), Change::Put(&value), None, &mut log)
                        .unwrap()
                );
            }
            let mut log = || logged += 1;
            assert!(tree.write(&key(1), Change::Delete, None, &mut log).unwrap());
            assert_eq!(logged, 4);
        }
    }
    for (n, tree) in trees.iter().enumerate() {
        assert_eq!(get::<M>(tree, &key(0)), Some(value(n as u32 + 1, 50)));
        assert_eq!(get::<M>(tree, &key(1)), None);
        assert_eq!(get::<M>(tree, &key(2)), Some(value(n as u32 + 1, 5000)));
    }
}

#[test]
fn a_full_disk_loses_no_page() {
    full_disk::<BTree>();
    full_disk::<HashTable>();
    full_disk::<Heap>();
    full_disk::<Rows>();
}

fn full_disk<M: Method>() {
    let disk = SimDisk::new(3);
    let context = new_context(&disk, MEMORY, 4096);
    let _cleaner = Cleaner::start(context.store.clone()).unwrap();
    let tree = two_tiers::<M>(&context, &TierOptions::default());
    let strange = strange_pages::<M>(&tree, &context.store);
    disk.set_capacity(Some(disk.used_bytes() + (4 << 20)));
    let mut refused = 0;
    for n in 0..400 {
        let value = value(n, 4000 + 1777 * (n as usize % 23));
        match tree.write(&key(n), Change::Put(&value), None, &mut || ()) {
            Ok(done) => assert!(done),
            Err(e) => {
                assert!(e.is_disk_full(), "{e}");
                refused += 1;
            }
        }
    }
    assert!(refused > 0);
    disk.set_capacity(None);
    assert_eq!(strange_pages::<M>(&tree, &context.store), strange);
}

#[test]
fn the_first_step_of_a_demotion_does_not_empty_the_whole_hot_tier() {
    first_step::<BTree>(64);
    first_step::<HashTable>(64);
    // A leaf of an index has more records.
    first_step::<Heap>(224);
    first_step::<Rows>(64);
}

/// `leaf` is the most records that a hot leaf has here.
fn first_step<M: Method>(leaf: u64) {
    let disk = SimDisk::new(8);
    let context = new_context(&disk, 4 * MEMORY, 4096);
    let _cleaner = Cleaner::start(context.store.clone()).unwrap();
    let tree = two_tiers::<M>(&context, &TierOptions::default());
    let records = 5000;
    for n in 0..records {
        // In no order, so that the leaves are those of a random load.
        let n = n * 7919 % records;
        tree.write(&key(n), Change::Put(&value(n, 100)), None, &mut || ())
            .unwrap();
    }
    assert_eq!(tree.stats().demotions, 0, "the hot tier held them all");
    // The cold tier is one leaf that covers every key. A writer that helps must not wait for all.
    for step in 1..=20 {
        tree.sweep_once().unwrap();
        let stats = tree.stats();
        let most = step * (256 + leaf);
        assert!(
            stats.cleaned <= most,
            "{} records after {step} steps",
            stats.cleaned
        );
    }
    assert!(tree.stats().cleaned > 0);
}
