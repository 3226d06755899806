//! Faults planted one at a time: each must be found by the scripts or by histories of several lives.

use std::sync::Arc;

use terrace_pm::faults::{Planted, plant};
use terrace_pm::pm::{Event, Images, Sim};

use super::enumerate::{
    CAPACITY, Model, Op, Random, Tried, check, empty, every_moment, open, with_bytes,
};
use super::lives::{STYLES, history};
use super::scripts::scripts;

/// Looks for the fault as the tests without faults do; what was found.
fn hunt(fault: Planted, histories: u64) -> Option<String> {
    let start = empty();
    plant(Some(fault));
    let mut found = None;
    for seed in 0..histories {
        let style = STYLES[(seed % 6) as usize];
        if let Err(problem) = history(seed, style) {
            found = Some(format!("history {seed}: {problem}"));
            break;
        }
    }
    for (name, script, keys) in scripts() {
        if found.is_some() {
            break;
        }
        let mut random = Random(77);
        let mut tried = Tried::default();
        found = every_moment(
            &start,
            &Model::new(),
            &script,
            keys,
            0,
            &mut random,
            &mut tried,
        )
        .err()
        .map(|problem| format!("{name}: {problem}"));
    }
    plant(None);
    found
}

macro_rules! found {
    ($($name:ident: $fault:ident $bytes:literal)*) => {$(
        #[test]
        fn $name() {
            with_bytes($bytes);
            let found = hunt(Planted::$fault, 3000);
            println!("{:?}: {found:?}", Planted::$fault);
            assert!(found.is_some(), "{:?} was not found", Planted::$fault);
        }
    )*};
}

found! {
    a_drain_without_a_fence_between_is_found: NoPhase false
    a_next_pointer_stored_with_the_word_is_found: NextWithWord false
    a_moved_slot_that_is_used_again_is_found: MovedSlotReused false
    the_slot_of_a_deleted_pair_that_is_used_again_is_found: DeletedSlotReused false
    records_that_die_before_their_drain_are_found: DeadBeforeDrain false
    a_word_that_is_not_fenced_is_found: WordNotFenced false
    an_acknowledgement_without_a_fence_is_found: AcknowledgedWithoutFence false
    a_record_that_a_drain_leaves_out_is_found: RecordLeftOut false
    partitions_by_turns_are_found: PartitionByTurns false
    segments_freed_in_any_order_are_found: FreedInAnyOrder false
    a_tail_that_is_not_fenced_is_found: TailNotFenced false
    a_check_without_its_place_is_found: CheckWithoutSequence false
    a_new_leaf_that_is_not_flushed_is_found: NewLeafNotFlushed false
    a_resident_left_behind_is_found: ResidentLeftBehind false
    a_merge_without_a_fence_is_found: MergeWithoutFence false
    a_leaf_that_is_freed_early_is_found: LeafFreedEarly false
    a_replay_that_frees_is_found: ReplayFrees false
    a_blob_without_its_check_is_found: BlobWithoutCheck true
    a_blob_that_is_freed_early_is_found: BlobFreedEarly true
    a_blob_that_a_drain_does_not_fence_is_found: BlobNotFenced true
    a_blob_of_before_that_is_taken_for_the_new_one_is_found: BlobOfBefore true
}

/// A second writer puts while a first one is between two puts of a group, in the same partition or another.
/// What the second one was told must be there, though the first has fenced nothing.
fn second_writer(fault: Option<Planted>) -> Result<(), String> {
    let start = empty();
    for other in 1..12u64 {
        plant(None);
        let sim = Arc::new(Sim::from_image(&start, CAPACITY).recording());
        let map = open(sim.clone())?;
        plant(fault);
        let mut turn = 0;
        let pairs = std::iter::from_fn(|| {
            turn += 1;
            if turn == 3 {
                std::thread::scope(|scope| {
                    scope.spawn(|| {
                        plant(fault);
                        map.put(other, 77 << 8).unwrap();
                        sim.mark(1);
                    });
                });
            }
            (turn < 4).then_some((12 + other * 3 + turn, turn << 8))
        });
        map.put_all(pairs).map_err(|e| e.to_string())?;
        plant(None);
        map.crash();
        let mut images = Images::new(start.clone());
        let mut random = Random(other);
        for event in sim.events() {
            images.step(event);
            if event == Event::Mark(1) {
                let model = Model::from([(other, 77 << 8)]);
                let flying: Vec<_> = (1..3)
                    .map(|turn| (12 + other * 3 + turn, Some(turn << 8)))
                    .collect();
                let mut left = vec![images.durable().to_vec()];
                left.extend((0..64).map(|_| images.draw(None, || random.next())));
                for image in left {
                    check(&image, &model, &flying, 50)?.0.crash();
                }
            }
        }
    }
    Ok(())
}

#[test]
fn a_writer_between_two_others_keeps_its_word() {
    second_writer(None).unwrap();
}

#[test]
fn a_header_that_is_not_fenced_is_found() {
    let found = second_writer(Some(Planted::HeaderNotFenced));
    println!("{found:?}");
    assert!(found.is_err());
}

#[test]
fn an_acknowledgement_behind_the_hole_of_another_writer_is_found() {
    let found = second_writer(Some(Planted::OwnRecordOnly));
    println!("{found:?}");
    assert!(found.is_err());
}

/// A group is cut so that a record is missing before another one; the next life writes to the hole, and what
/// lay behind it must not come back.
fn hole(fault: Option<Planted>) -> Result<(), String> {
    let start = empty();
    let mut random = Random(5);
    for group in 0..8u64 {
        let sim = Arc::new(Sim::from_image(&start, CAPACITY).recording());
        let map = open(sim.clone())?;
        sim.mark(1);
        let pairs: Vec<(u64, u64)> = (0..4).map(|i| (group * 4 + i, (i + 1) << 8)).collect();
        map.put_all(pairs.iter().copied())
            .map_err(|e| e.to_string())?;
        map.crash();
        let events = sim.events();
        let mut images = Images::new(start.clone());
        // All but the last fence, which covers the group.
        let last = events
            .iter()
            .rposition(|e| matches!(e, Event::Fence { .. }))
            .unwrap();
        events[..last].iter().for_each(|event| images.step(*event));
        let flying: Vec<_> = pairs.iter().map(|(k, v)| (*k, Some(*v))).collect();
        for draw in 0..48u64 {
            let image = images.draw_blocks(|| random.next());
            plant(fault);
            let (map, sim, mut found) = check(&image, &Model::new(), &flying, 64)?;
            let key = 40 + draw % 8;
            map.put(key, 99 << 8).map_err(|e| e.to_string())?;
            map.crash();
            found.insert(key, 99 << 8);
            check(&sim.image(), &found, &[], 64)?.0.crash();
            plant(None);
        }
    }
    Ok(())
}

#[test]
fn what_lies_behind_a_hole_does_not_come_back() {
    hole(None).unwrap();
}

#[test]
fn a_log_that_is_not_cut_is_found() {
    let found = hole(Some(Planted::NoCut));
    plant(None);
    println!("{found:?}");
    assert!(found.is_err());
}

/// A full map, whose log is cleaned at once for each put: keys, values and an image of it.
fn full_map() -> (Vec<u64>, Model) {
    let sim = Arc::new(Sim::new(CAPACITY));
    let map = open(sim.clone()).unwrap();
    let mut model = Model::new();
    for i in 0..1000u64 {
        let key = i * 37 % 211;
        if map.put(key, i << 8).is_err() {
            break;
        }
        model.insert(key, i << 8);
    }
    map.crash();
    (sim.image(), model)
}

/// Puts in a full map, cut at every store.
fn in_a_full_map(fault: Option<Planted>) -> Result<(), String> {
    let (start, model) = full_map();
    let keys: Vec<u64> = model.keys().copied().collect();
    for turn in 0..4usize {
        let script: Vec<Op> = (0..10)
            .map(|i| {
                let key = keys[(turn * 31 + i * 7) % keys.len()];
                match i % 3 {
                    2 => Op::Delete(key),
                    _ => Op::Put(key, 9000 + i as u64),
                }
            })
            .collect();
        let (mut random, mut tried) = (Random(turn as u64 + 5), Tried::default());
        plant(fault);
        let done = every_moment(&start, &model, &script, 211, 0, &mut random, &mut tried);
        plant(None);
        done?;
    }
    Ok(())
}

#[test]
fn a_full_map_that_is_cleaned_loses_nothing() {
    in_a_full_map(None).unwrap();
}

#[test]
fn a_copy_that_is_not_fenced_is_found() {
    let found = in_a_full_map(Some(Planted::CopyNotFenced));
    println!("{found:?}");
    assert!(found.is_err());
}
