//! Keys and values that own memory: dropped once each, wherever their node lies.

use crate::hostile::{Hostile, Want};
use std::sync::Arc;
use terrace_place::{Births, Memory, PlacedTree, Placement, Steps};

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
