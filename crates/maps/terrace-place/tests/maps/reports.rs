//! What a map says of itself, and what is refused.

use terrace_place::{Memory, PlacedTree, Placement, PlacementError};

#[test]
fn a_machine_with_one_kind_of_memory_says_why() {
    let placement = Placement::detect();
    let said = placement.to_string();
    if !placement.is_two() {
        assert!(said.contains("one kind of memory: "), "{said}");
        let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
        assert!(
            tree.placement()
                .to_string()
                .contains("one kind of memory: ")
        );
    }
}

#[test]
fn two_memories_that_are_one_node_are_refused() {
    let placement = Placement::two(Memory::Node(0), Memory::Node(0));
    let error = PlacedTree::<u64, u64>::new(placement).unwrap_err();
    assert!(matches!(error, PlacementError::SameMemory), "{error}");
}

#[test]
fn a_full_arena_is_an_error_and_no_entry_is_lost() {
    let placement = Placement::two(Memory::Heap, Memory::Heap)
        .slots(512)
        .fast_share(0.1)
        .manual();
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    let mut held = 0;
    let error = loop {
        match tree.insert(held * 7919 % 100_003, held) {
            Ok(_) => held += 1,
            Err(error) => break error,
        }
        assert!(held < 100_000, "there must be an end");
    };
    assert!(matches!(error, PlacementError::ArenaFull { .. }), "{error}");
    assert!(error.to_string().contains("Placement::slots"));
    tree.check().unwrap();
    assert_eq!(tree.len() as u64, held);
    assert!((0..held).all(|i| tree.get(&(i * 7919 % 100_003)) == Some(i)));
    for i in 0..held {
        assert_eq!(tree.remove(&(i * 7919 % 100_003)), Some(i));
    }
    tree.insert(1, 1).unwrap();
}

#[test]
fn the_thread_in_the_background_moves_nodes_and_ends_with_the_map() {
    use std::time::{Duration, Instant};
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.2);
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    for i in 0..20_000u64 {
        tree.insert(i, i).unwrap();
    }
    // A minute is what a machine that does much else may need.
    let end = Instant::now() + Duration::from_secs(60);
    while tree.placement().promoted == 0 {
        assert!(Instant::now() < end, "nothing moved: {}", tree.placement());
        for i in 0..20_000u64 {
            assert_eq!(tree.get(&(15_000 + i % 1000)), Some(15_000 + i % 1000));
        }
    }
    drop(tree);
}
