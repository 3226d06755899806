//! The concurrent map under a randomised scheduler: every history must be linearizable.
//!
//! `cargo test -p terrace-mem --features shuttle --test shuttle`
#![cfg(feature = "shuttle")]

#[path = "support/linear.rs"]
mod linear;
#[path = "support/scenes.rs"]
mod scenes;

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
