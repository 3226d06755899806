//! What a container refuses: calls for memory of a node, by a filter of system calls. Each in a
//! process of its own, since a filter stays.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
use std::process::Command;
use terrace_place::detect::Found;
use terrace_place::{Memory, PlacedTree, Placement, PlacementError, Store};

/// Which calls the child refuses.
const VARIABLE: &str = "TERRACE_PLACE_REFUSES";

const MBIND: i64 = 237;
const GET_MEMPOLICY: i64 = 239;

#[test]
fn refused_calls_are_errors_and_detection_takes_one_kind_of_memory() {
    for refused in ["none", "mbind", "both"] {
        let child = Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "refused::under_a_filter",
                "--ignored",
                "--nocapture",
            ])
            .env(VARIABLE, refused)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stderr);
        assert!(child.status.success(), "{refused}: {said}");
    }
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn under_a_filter() {
    let refused = std::env::var(VARIABLE).unwrap_or_default();
    let calls: &[i64] = match refused.as_str() {
        "mbind" => &[MBIND],
        "both" => &[MBIND, GET_MEMPOLICY],
        _ => &[],
    };
    // Nodes that are no slower than others are taken when they are named.
    let before = Store::open(&Memory::Node(0));
    if !calls.is_empty() {
        let filter = SeccompFilter::new(
            calls.iter().map(|call| (*call, vec![])).collect(),
            SeccompAction::Allow,
            SeccompAction::Errno(1),
            TargetArch::x86_64,
        );
        let program: BpfProgram = filter.unwrap().try_into().unwrap();
        apply_filter(&program).unwrap();
    }
    let found = || Found {
        slow: Some(0),
        ..Found::default()
    };
    if calls.is_empty() {
        // Where the machine itself refuses, there is nothing to compare with.
        if before.is_ok() {
            assert!(Placement::found(&found()).is_two());
        }
        return;
    }
    let error = Store::open(&Memory::Node(0)).unwrap_err();
    assert!(
        matches!(error, PlacementError::BindRefused { node: 0, .. }),
        "{error}"
    );
    assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}");
    let by_hand = Placement::two(Memory::Heap, Memory::Node(0)).fast_share(0.0);
    let tree = PlacedTree::<u64, u64>::new(by_hand.manual());
    let error = tree.and_then(|tree| tree.insert(1, 1)).unwrap_err();
    assert!(
        matches!(error, PlacementError::BindRefused { node: 0, .. }),
        "{error}"
    );
    // What is found by itself is given up, and why is said.
    let placement = Placement::found(&found());
    assert!(!placement.is_two());
    let said = placement.to_string();
    assert!(
        said.contains("one kind of memory: the kernel refused"),
        "{said}"
    );
    let tree = PlacedTree::<u64, u64>::new(placement).unwrap();
    tree.insert(1, 1).unwrap();
    assert_eq!(tree.get(&1), Some(1));
}

/// With `ulimit -v` less is reserved, and trees and stores work with that.
#[test]
fn a_limit_on_address_space_makes_reservations_smaller() {
    let script =
        "ulimit -v 4194304; exec \"$0\" --exact refused::in_little_address_space --ignored";
    let out = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("1 passed"), "{said}");
}

#[test]
#[ignore = "run by the test above, in a process of its own"]
fn in_little_address_space() {
    let store = Store::open(&Memory::Heap).unwrap();
    let block = store.keep((0..100_000u64).collect()).unwrap();
    assert!(block.is_in_store() && block.iter().copied().eq(0..100_000));
    let placement = Placement::two(Memory::Heap, Memory::Heap).fast_share(0.3);
    let tree = PlacedTree::<u64, u64>::new(placement.manual()).unwrap();
    (0..20_000).for_each(|i| assert_eq!(tree.insert(i, i).unwrap(), None));
    assert!((0..20_000).all(|i| tree.get(&i) == Some(i)));
}
