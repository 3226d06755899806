//! The concurrent map under a randomised scheduler: every history must be linearizable.
//!
//! `cargo test -p terrace-mem --features shuttle --test checker`

use crate::scenes;

const ROUNDS: usize = 3000;

#[test]
fn threads_on_the_same_keys() {
    shuttle::check_random(scenes::same_keys, ROUNDS);
    shuttle::check_pct(scenes::same_keys, ROUNDS, 3);
}

#[test]
fn threads_on_fresh_keys() {
    shuttle::check_random(scenes::fresh_keys, ROUNDS);
    shuttle::check_pct(scenes::fresh_keys, ROUNDS, 3);
}

#[test]
fn threads_on_a_part_that_is_split() {
    shuttle::check_random(scenes::split, ROUNDS);
    shuttle::check_pct(scenes::split, ROUNDS, 3);
}

#[test]
fn threads_on_a_part_that_runs_empty() {
    for scene in [scenes::drained as fn(), scenes::drained_first] {
        shuttle::check_random(scene, ROUNDS);
        shuttle::check_pct(scene, ROUNDS, 3);
    }
}

#[test]
fn upserts_and_conditional_removes_of_the_same_keys() {
    shuttle::check_random(scenes::conditions, ROUNDS);
    shuttle::check_pct(scenes::conditions, ROUNDS, 3);
}

#[test]
fn the_first_and_the_last_entry_of_parts_that_run_empty() {
    for scene in [
        scenes::first_entries as fn(),
        scenes::last_entries,
        scenes::both_ends,
    ] {
        shuttle::check_random(scene, ROUNDS);
        shuttle::check_pct(scene, ROUNDS, 3);
    }
}

#[test]
fn a_map_that_is_cleared_while_it_is_used() {
    shuttle::check_random(scenes::cleared, ROUNDS);
    shuttle::check_pct(scenes::cleared, ROUNDS, 3);
}

#[test]
fn iterators_over_parts_that_are_split_or_leave() {
    shuttle::check_random(scenes::walks, ROUNDS / 10);
    shuttle::check_pct(scenes::walks, ROUNDS / 10, 3);
}
