//! What is dirty in hot tiers that lie in memory alone finds its slots when it is saved, however full the disk is.

use crate::common::seeds;
use crate::common::slots::{
    closes_when_full, opens_when_full, what_goes_makes_room, what_was_never_saved_finds_room,
};

#[test]
fn a_full_disk_refuses_writes_before_it_refuses_a_close() {
    let each = |seed| closes_when_full(seed, true);
    seeds(2).into_iter().for_each(each);
}

/// All of them is saved in one go, with no checkpoint in between.
#[test]
fn without_log_it_does_too() {
    let each = |seed| closes_when_full(seed, false);
    seeds(2).into_iter().for_each(each);
}

#[test]
fn what_a_full_disk_has_taken_can_be_opened_after_a_crash() {
    seeds(2).into_iter().for_each(opens_when_full);
}

#[test]
fn what_goes_makes_room_for_what_is_new() {
    seeds(2).into_iter().for_each(what_goes_makes_room);
}

#[test]
fn what_was_never_saved_is_saved_on_a_full_disk() {
    seeds(1)
        .into_iter()
        .for_each(what_was_never_saved_finds_room);
}
