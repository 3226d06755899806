//! Keys and values that own memory: dropped once each, wherever their node lies.

use crate::drive::{Mix, drive_kind};
use crate::hostile::{Hostile, Want};
use crate::two;
use std::sync::Arc;
use terrace_place::{Art, BTree, Births, Masstree, Memory, PlacedTree, Placement, Steps};

#[test]
fn every_key_and_value_is_dropped_once() {
    let owner = Arc::new(());
    let policy = Hostile {
        want: Want::FlipFlop,
        swap: false,
        births: Births::Origin,
    };
    let rounds = if cfg!(miri) { 120 } else { 3000 };
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .slots(1 << 10)
        .fast_share(0.5)
        .policy(policy)
        .manual();
    let tree = PlacedTree::<String, Arc<()>>::new(placement).unwrap();
    for i in 0..rounds {
        let key = format!("key {}", i * 37 % rounds);
        tree.insert(key.clone(), Arc::clone(&owner)).unwrap();
        if i % 3 == 0 {
            tree.insert(key.clone(), Arc::clone(&owner)).unwrap();
        }
        if i % 4 == 0 {
            assert!(tree.remove(&key).is_some());
        }
        assert_eq!(tree.get(key.as_str()).is_some(), i % 4 != 0);
        tree.place_step(Steps::nodes(50));
        assert_eq!(Arc::strong_count(&owner), tree.len() + 1);
    }
    tree.check().unwrap();
    assert_eq!(tree.iter().count(), tree.len());
    drop(tree);
    assert_eq!(Arc::strong_count(&owner), 1);
}

fn text(n: u64) -> String {
    format!("{n:05} and {}", "much more ".repeat(n as usize % 4))
}

/// The drive checks after every some operations that the bytes of all keys are counted.
#[test]
fn bytes_of_keys_are_counted_as_they_come_and_go() {
    for mix in [Mix::EVEN, Mix::GROW, Mix::SHRINK] {
        let of = (mix, 2000, 1);
        let place = || two().fast_share(0.3);
        let b_tree = drive_kind::<BTree, _>(place(), text, of).placement();
        let art = drive_kind::<Art, _>(place(), text, of).placement();
        let masstree = drive_kind::<Masstree, _>(place(), text, of).placement();
        // All have been emptied; none has forgotten a key.
        for stats in [b_tree, art, masstree] {
            assert_eq!(stats.key_bytes, 0);
        }
        drive_kind::<BTree, _>(place(), |n| text(n).into_bytes(), (mix, 500, 1));
    }
}

/// Keys lie in fast memory: what they take, nodes do not have.
#[test]
fn bytes_of_keys_count_against_the_limit() {
    let limit = 600 << 10;
    let filled = |key: fn(u64) -> String| {
        let tree = PlacedTree::<String, u64>::new(two().fast_bytes(limit)).unwrap();
        for i in 0..6000 {
            tree.insert(key(i * 7919 % 6000), i).unwrap();
        }
        for round in 0..60_000u64 {
            tree.get(&key(round % 6000));
            if round % 16 == 0 {
                tree.place_step(Steps::nodes(256));
            }
        }
        tree.check().unwrap();
        let stats = tree.placement();
        let all = stats.fast_bytes + stats.heat_bytes + stats.key_bytes;
        assert!(all <= limit, "{all} of {limit}: {stats}");
        stats
    };
    let short = filled(|n| format!("{n:05}"));
    let long = filled(|n| format!("{n:060}"));
    assert!(long.key_bytes > 60 * 6000 && short.key_bytes < 10 * 6000);
    assert!(long.fast_bytes * 3 < short.fast_bytes * 2, "{long}{short}");
    let art = PlacedTree::<String, u64, _, Art>::art(two().fast_bytes(limit)).unwrap();
    (0..3000).for_each(|i| assert_eq!(art.insert(text(i), i).unwrap(), None));
    (0..3000).for_each(|i| assert_eq!(art.remove(text(i).as_str()), Some(i)));
    assert_eq!(art.placement().key_bytes, 0);
    art.check().unwrap();
}
