//! Random interleavings of everything that happens to a page store, with the power failing at any
//! step; and each planted mistake shown to be noticed.

use super::world::{Step, World};
use super::{Bug, Rng};

const STEPS: u64 = 250;
/// Runs that must all be right: two million steps.
const RUNS: u64 = 8000;
/// Runs within which a planted mistake must show.
const RUNS_TO_NOTICE: u64 = 4000;
/// Runs and steps where pins and backups are what most of it is about.
const PIN_RUNS: u64 = 1500;
const PIN_STEPS: u64 = 600;

fn step(world: &mut World, dice: u64) -> Step {
    match dice {
        0..25 => world.crash(),
        25..40 => world.abort(),
        40..70 => world.resize(),
        70..90 => world.move_from_tail(),
        90..250 => world.modify(),
        250..350 => world.allocate_page(),
        350..440 => world.free_page(),
        440..540 => world.fault(),
        540..650 => world.evict(),
        650..740 => world.finish_write(),
        740..765 => world.pin_step(),
        765..780 => world.unpin(),
        780..795 => world.leave_step(),
        795..805 => world.back_up(),
        _ => world.checkpoint_step(),
    }
}

/// The same where images are pinned and backed up all the time, and the power seldom goes.
fn step_of_pins(world: &mut World, dice: u64) -> Step {
    match dice {
        0..2 => world.crash(),
        2..8 => world.abort(),
        8..20 => world.resize(),
        20..180 => world.modify(),
        180..250 => world.allocate_page(),
        250..280 => world.free_page(),
        280..360 => world.fault(),
        360..470 => world.evict(),
        470..560 => world.finish_write(),
        560..660 => world.pin_step(),
        660..680 => world.unpin(),
        680..740 => world.leave_step(),
        740..780 => world.back_up(),
        _ => world.checkpoint_step(),
    }
}

/// `Ok` with the checkpoints made, or the step that went wrong and how.
fn run(seed: u64, bug: Bug) -> Result<u64, String> {
    run_steps(seed, bug, step, STEPS)
}

fn run_steps(
    seed: u64,
    bug: Bug,
    step: impl Fn(&mut World, u64) -> Step,
    steps: u64,
) -> Result<u64, String> {
    let mut world = World::new(seed, bug);
    let mut dice = Rng::new(!seed);
    for at in 0..steps {
        let result = step(&mut world, dice.below(1000)).and_then(|()| world.check());
        result.map_err(|what| format!("seed {seed}, step {at}: {what}"))?;
    }
    Ok(world.checkpoints_done)
}

#[test]
fn every_interleaving_recovers_the_cut_and_loses_no_slot() {
    let mut checkpoints = 0;
    for seed in 0..RUNS {
        match run(seed, Bug::None) {
            Ok(done) => checkpoints += done,
            Err(what) => panic!("{what}"),
        }
    }
    assert!(
        checkpoints > RUNS,
        "only {checkpoints} checkpoints were completed"
    );
}

fn noticed(bug: Bug) {
    let caught = (0..RUNS_TO_NOTICE).find_map(|seed| run(seed, bug).err());
    assert!(
        caught.is_some(),
        "{bug:?} was not noticed in {RUNS_TO_NOTICE} runs"
    );
}

#[test]
fn a_table_written_from_the_live_words_is_noticed() {
    noticed(Bug::TableFromLive);
}

#[test]
fn a_page_freed_without_its_cut_copy_is_noticed() {
    noticed(Bug::FreeWithoutCopy);
}

#[test]
fn an_abort_that_drops_the_cut_is_noticed() {
    noticed(Bug::AbortDropsCut);
}

#[test]
fn an_image_slot_freed_at_once_is_noticed() {
    noticed(Bug::OldSlotFreedAtOnce);
}

#[test]
fn a_write_assigned_when_it_completes_is_noticed() {
    noticed(Bug::TagAtCompletion);
}

#[test]
fn slots_released_before_the_superblock_is_synced_are_noticed() {
    noticed(Bug::ReleaseBeforeSync);
}

#[test]
fn an_abort_after_the_superblock_is_noticed() {
    noticed(Bug::AbortAfterSuperblock);
}

#[test]
fn an_older_superblock_opened_is_noticed() {
    noticed(Bug::OlderSuperblockOpened);
}

#[test]
fn late_writes_forgotten_are_noticed() {
    noticed(Bug::LateWritesForgotten);
}

#[test]
fn words_not_retagged_are_noticed() {
    noticed(Bug::RetagForgotten);
}

#[test]
fn pinned_images_stay_and_backups_are_whole() {
    for seed in 0..PIN_RUNS {
        if let Err(what) = run_steps(seed, Bug::None, step_of_pins, PIN_STEPS) {
            panic!("{what}");
        }
    }
}

fn noticed_with_pins(bug: Bug) {
    let run = |seed| run_steps(seed, bug, step_of_pins, PIN_STEPS).err();
    assert!(
        (0..PIN_RUNS).find_map(run).is_some(),
        "{bug:?} was not noticed in {PIN_RUNS} runs"
    );
}

#[test]
fn a_pin_without_what_is_hidden_is_noticed() {
    noticed_with_pins(Bug::PinForgetsNext);
}

#[test]
fn a_pinned_slot_freed_with_its_image_is_noticed() {
    noticed_with_pins(Bug::PinFrees);
}

#[test]
fn a_slot_freed_with_the_first_of_its_pins_is_noticed() {
    noticed_with_pins(Bug::PinOneOfMany);
}

#[test]
fn a_slot_kept_that_no_pin_has_is_noticed() {
    noticed_with_pins(Bug::PinKeepsBorn);
}

#[test]
fn a_backup_that_takes_an_equal_place_for_an_equal_page_is_noticed() {
    noticed_with_pins(Bug::BackupBitless);
}

#[test]
fn a_written_slot_that_is_not_noted_is_noticed() {
    noticed_with_pins(Bug::BackupBitNotSet);
}
