//! Random interleavings of everything that happens to a page store, with the power failing at any
//! step; and each planted mistake shown to be noticed.

use super::world::{Step, World};
use super::{Bug, Rng};

const STEPS: u64 = 250;
/// Runs that must all be right: two million steps.
const RUNS: u64 = 8000;
/// Runs within which a planted mistake must show.
const RUNS_TO_NOTICE: u64 = 4000;

fn step(world: &mut World, dice: u64) -> Step {
    match dice {
        0..25 => world.crash(),
        25..40 => world.abort(),
        40..70 => world.resize(),
        70..90 => world.move_from_tail(),
        90..250 => world.modify(),
        250..350 => world.allocate_page(),
        350..410 => world.free_page(),
        410..440 => world.link_page(),
        440..540 => world.fault(),
        540..650 => world.evict(),
        650..770 => world.finish_write(),
        _ => world.checkpoint_step(),
    }
}

/// `Ok` with the checkpoints made, or the step that went wrong and how.
fn run(seed: u64, bug: Bug) -> Result<u64, String> {
    let mut world = World::new(seed, bug);
    let mut dice = Rng::new(!seed);
    for at in 0..STEPS {
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
fn unlinked_pages_left_in_the_cut_are_noticed() {
    noticed(Bug::UnlinkedNotPostponed);
}
